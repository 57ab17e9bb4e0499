"""Hubs in memory, for tests that need some: built from written triples by the kernels, nothing stored."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate

import numpy as np

from polyhop.schemas.graph import NamedTriple
from polyhop.schemas.hubs import HubGraph, HubPaths, HubRows
from polyhop.schemas.propositions import StoredTexts
from polyhop.tasks.hubs.paths import Adjacency, StoredHubs, find_paths_in_hub, path_hash, path_text, signature_texts
from polyhop.warehouse.artefacts import text_arrays

Written = tuple[str, str, str]


def written(text: str) -> list[Written]:
    """Triples of `A p B; B q C`."""
    return [tuple(triple.split()) for triple in text.split(";")]  # type: ignore[misc]


def texts_of(texts: Iterable[str]) -> StoredTexts:
    arrays = text_arrays(texts)
    return StoredTexts(arrays["text-starts"], arrays["texts"])  # type: ignore[arg-type]


def starts_of(counts: Iterable[int]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array([0, *accumulate(counts)], dtype=np.int64)


def hubs_of(
    triples: Sequence[Written],
    hubs: Collection[str],
    labels: Mapping[str, str] | None = None,
    *,
    max_length: int = 10,
    not_indexed: Collection[str] = (),
    triple_passages: Sequence[tuple[Written, int]] = (),
    hub_passages: Sequence[tuple[str, int]] = (),
) -> tuple[StoredHubs, list[str]]:
    """What the stage would store, and the distinct texts of its rows (one row per path).

    Args:
        triples: Of own ids.
        hubs: Own ids of all hubs.
        labels: By own id, where they differ.
        max_length: Triples of the longest path.
        not_indexed: Hubs that no run has reached.
        triple_passages: Passage numbers.
        hub_passages: Passage numbers.
    """
    nodes = sorted({t[0] for t in triples} | {t[2] for t in triples} | set(hubs))
    predicates = sorted({t[1] for t in triples})
    rows = sorted((nodes.index(s), predicates.index(p), nodes.index(o)) for s, p, o in set(triples))
    graph = HubGraph.from_triples(*np.array(rows).reshape(-1, 3).T, np.zeros(len(nodes), dtype=bool))  # type: ignore[call-arg]
    named = [(labels or {}).get(node, node) for node in nodes]
    is_hub = bytearray(node in hubs for node in nodes)
    indexed = [number for number, node in enumerate(nodes) if node in hubs and node not in not_indexed]
    found = [find_paths_in_hub(Adjacency(graph), is_hub, hub, max_length) for hub in indexed]

    def words(path: Sequence[int]) -> list[NamedTriple]:
        whole = [rows[triple] for triple in path]
        return [NamedTriple(nodes[s], named[s], predicates[p], nodes[o], named[o]) for s, p, o in whole]

    paths = [path for one in found for path in one.paths]
    texts = [path_text(words(path)) for path in paths]
    distinct = sorted(set(texts))
    candidates = [(node, *rest) for one in found for node, rest in one.candidates.items()]
    stored = HubPaths(
        np.array(indexed, dtype=np.int32),
        starts_of(len(one.paths) for one in found),
        starts_of(map(len, paths)),
        np.array([triple for path in paths for triple in path], dtype=np.int32),
        np.array([kind for one in found for kind in one.end_kinds], dtype=np.uint8),
        np.frombuffer(b"".join(path_hash(words(path)) for path in paths), dtype=np.uint8).reshape(-1, 32),
        np.array([distinct.index(text) for text in texts], dtype=np.int32),
        starts_of(len(one.candidates) for one in found),
        np.array([row[0] for row in candidates], dtype=np.int32),
        np.array([row[1] for row in candidates], dtype=np.uint8),
        starts_of(len(row[2]) for row in candidates),
        np.array([triple for row in candidates for triple in row[2]], dtype=np.int32),
    )
    count = len(paths)
    levels = np.zeros(count, dtype=np.uint8)
    search = HubRows(np.arange(count, dtype=np.int32), stored.path_texts, levels, np.full(count, -1, dtype=np.int32))
    number_of = {tuple(row): number for number, row in enumerate(rows)}
    stating = [
        (number_of[nodes.index(s), predicates.index(p), nodes.index(o)], passage)
        for (s, p, o), passage in triple_passages
    ]
    about = [(indexed.index(nodes.index(hub)), passage) for hub, passage in hub_passages if hub not in not_indexed]
    return StoredHubs(
        graph,
        stored,
        search,
        texts_of(distinct),
        np.arange(count, dtype=np.int32),
        texts_of(nodes),
        texts_of(named),
        tuple(predicates),
        texts_of(f"r{number}" for number in range(len(rows))),
        (),
        np.array(stating, dtype=np.int64).reshape(-1, 2),
        np.array(about, dtype=np.int64).reshape(-1, 2),
        np.array([number for number, node in enumerate(nodes) if node in not_indexed], dtype=np.int32),
    ), distinct


def value_texts_of(stored: StoredHubs) -> list[str]:
    """The text of each path for hub-facets: its signature's, then its value."""
    graph, paths = stored.graph, stored.paths
    signatures = [
        tuple(stored.predicates[graph.predicates[triple]] for triple in paths.triples_of(path).tolist())
        for path in range(paths.path_count)
    ]
    words = signature_texts(set(signatures))
    values = stored.labels.of(graph.objects[paths.last_triples()].tolist())
    return [f"{words[signature]} {value}".strip() for signature, value in zip(signatures, values, strict=True)]
