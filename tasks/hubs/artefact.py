"""How hubs are opened for strategies, and what is left of them where only some passages count.

A hub's id, like that of every node here, is the one that the graph gave it (of an entity of a text: its key).
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.graph import gathered, new_numbers
from polyhop.schemas.hubs import HubGraph, HubPaths, HubRows, Numbers
from polyhop.schemas.ports import Artefact, RestrictedIndex, Stored
from polyhop.schemas.propositions import StoredTexts
from polyhop.schemas.query import RankedTriple

# Source: decisions/0027-filters-of-questions.md.


def triples_left(stated: NDArray[np.int64], count: int, is_allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Numbers of the triples that an allowed passage states, and of those that no passage does; ascending.

    `stated` has shape (e, 2): pairs of a triple and a passage.
    """
    is_left = np.ones(count, dtype=np.bool_)
    is_left[stated[:, 0]] = False
    is_left[stated[is_allowed[stated[:, 1]], 0]] = True
    return np.flatnonzero(is_left).astype(np.int64)


def passages_left(
    pairs: NDArray[np.int64], things: NDArray[np.int64], passages: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Shape (e, 2): the pairs of a thing and a passage by their new numbers, without those one of which is gone."""
    moved = np.stack((things[pairs[:, 0]], passages[pairs[:, 1]]), axis=1)
    return moved[(moved >= 0).all(axis=1)]


def paths_left(paths: HubPaths, triples: NDArray[np.int64]) -> tuple[HubPaths, NDArray[np.int64]]:
    """The paths and candidates whose triples are all left (new number -1: gone), and the old numbers of these paths."""
    kept, starts, steps = _whole(paths.triple_starts, triples[paths.path_triples])
    on, on_starts, on_steps = _whole(paths.candidate_triple_starts, triples[paths.candidate_triples])
    left = replace(
        paths,
        path_starts=np.searchsorted(kept, paths.path_starts),
        triple_starts=starts,
        path_triples=steps,
        end_kinds=paths.end_kinds[kept],
        hashes=paths.hashes[kept],
        path_texts=paths.path_texts[kept],
        candidate_starts=np.searchsorted(on, paths.candidate_starts),
        candidates=paths.candidates[on],
        candidate_kinds=paths.candidate_kinds[on],
        candidate_triple_starts=on_starts,
        candidate_triples=on_steps,
    )
    return left, kept


def _whole(starts: Numbers, moved: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], Numbers]:
    """Rows of which nothing is gone: their numbers, where they begin then, and what they hold."""
    gone = np.concatenate(([0], np.cumsum(moved < 0)))
    kept = np.flatnonzero(gone[starts[1:]] == gone[starts[:-1]]).astype(np.int64)
    new, offsets = gathered(np.asarray(starts, dtype=np.int64), kept)
    return kept, new, moved[offsets].astype(np.int32)


def rows_left(rows: HubRows, paths: NDArray[np.int64], triples: NDArray[np.int64]) -> HubRows:
    """The rows of paths that are left, by new numbers (-1: gone); all triples of these are left, too."""
    moved = paths[rows.row_paths]
    kept = np.flatnonzero(moved >= 0)
    stated = np.asarray(rows.row_triples)[kept]
    return HubRows(
        row_paths=moved[kept].astype(np.int32),
        row_texts=rows.row_texts[kept],
        row_levels=rows.row_levels[kept],
        row_triples=np.where(stated < 0, -1, triples[np.maximum(stated, 0)] if len(triples) else -1).astype(np.int32),
    )


@dataclass(frozen=True, slots=True)
class StoredHubs:
    """The graph, its hubs and their paths, and all names; numbers as in polyhop.schemas.hubs."""

    graph: HubGraph
    paths: HubPaths
    rows: HubRows  # What `hublink` compares with a question.
    path_texts: StoredTexts
    # Shape (p,), int32: number of each path's text for `hub-facets` (signature and value; algorithms.md 4B) among the
    # distinct ones, which is the row of their vectors.
    values: Numbers
    own_ids: StoredTexts
    labels: StoredTexts
    predicates: tuple[str, ...]
    relation_ids: StoredTexts  # Of the triples: rows of the table `relations`.
    # Names of the types that hubs were chosen by, or that they have: their words tell no hub from others.
    hub_types: tuple[str, ...]
    # Shape (e, 2), int64: pairs of a triple and the number of a passage that states it.
    triple_passages: NDArray[np.int64]
    # Shape (e, 2), int64: pairs of a hub number and the number of a passage that is about the hub or mentions it, or
    # was attached to it.
    hub_passages: NDArray[np.int64]
    # Nodes that are hubs by the settings but were not found from `hubs.start`, ascending: they have no paths here.
    unreached: Numbers = field(default_factory=lambda: np.zeros(0, dtype=np.int32))

    def ranked_triple(self, triple: int, rank: int, score: float) -> RankedTriple:
        """A triple as results show it."""
        graph = self.graph
        ends = [int(graph.subjects[triple]), int(graph.objects[triple])]
        (subject_id, object_id), (subject, value) = self.own_ids.of(ends), self.labels.of(ends)
        predicate = self.predicates[int(graph.predicates[triple])]
        (relation_id,) = self.relation_ids.of([triple])
        return RankedTriple(relation_id, subject_id, subject, predicate, object_id, value, rank, score)


def _open(stored: Stored) -> StoredHubs:
    def texts(name: str) -> StoredTexts:
        return StoredTexts(stored.array("hub-paths", f"{name}-starts"), stored.array("hub-paths", f"{name}-texts"))

    def all_texts(name: str) -> tuple[str, ...]:
        found = texts(name)
        return tuple(found.of(range(len(found.starts) - 1)))

    def path_array(name: str) -> NDArray[Any]:  # which texts paths have was found by another stage than the rest
        return stored.array("hubs" if name == "path-texts" else "hub-paths", name)

    return StoredHubs(
        HubGraph.of(partial(stored.array, "hub-paths")),
        HubPaths.of(path_array),
        HubRows.of(partial(stored.array, "hubs")),
        StoredTexts(stored.array("hubs", "text-starts"), stored.array("hubs", "texts")),
        stored.array("hubs", "values"),
        own_ids=texts("own-ids"),
        labels=texts("labels"),
        relation_ids=texts("relation-ids"),
        predicates=all_texts("predicates"),
        hub_types=all_texts("hub-types"),
        triple_passages=stored.array("hub-paths", "triple-passages"),
        hub_passages=stored.array("hub-paths", "hub-passages"),
        unreached=stored.array("hub-paths", "unreached"),
    )


def _left(stored: StoredHubs, index: RestrictedIndex) -> StoredHubs:
    """Triples that allowed passages state, or none does; paths of such triples; hubs and nodes keep their numbers."""
    graph = stored.graph
    kept = triples_left(stored.triple_passages, len(graph.subjects), index.is_allowed)
    moved = new_numbers(kept, len(graph.subjects))
    passages = new_numbers(index.allowed, len(index.is_allowed))
    paths, kept_paths = paths_left(stored.paths, moved)
    return replace(
        stored,
        graph=HubGraph.from_triples(
            graph.subjects[kept], graph.predicates[kept], graph.objects[kept], np.asarray(graph.is_literal)
        ),
        paths=paths,
        rows=rows_left(stored.rows, new_numbers(kept_paths, stored.paths.path_count), moved),
        values=stored.values[kept_paths],
        relation_ids=stored.relation_ids.restricted(kept),
        triple_passages=passages_left(stored.triple_passages, moved, passages),
        hub_passages=passages_left(stored.hub_passages, np.arange(len(stored.paths.hubs)), passages),
    )


STORED_HUBS = Artefact("hubs", _open, strategy="hub-facets", restrict=_left)
"""The hubs of a version: graph, paths, and the texts that questions are compared with."""
