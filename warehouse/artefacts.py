"""The arrays of our artefacts: how each is saved and opened, and what is left of it under a filter of questions.

A handle reads an open version through `Stored` alone, so that strategies, which import this module, reach no store.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.artefacts import (
    Artefact,
    Restriction,
    Stored,
    StoredArrays,
    kept_entities,
    kept_statements,
    new_numbers,
    restricted_graph,
    restricted_postings,
    restricted_relations,
    unrestricted,
)
from polyhop.schemas.errors import DamagedStoreError
from polyhop.schemas.graph import BipartiteGraph, Entity, EntityTexts, LexicalIndex, RelationGraph, with_edges
from polyhop.schemas.languages import recorded_language
from polyhop.schemas.ports import NameFinding
from polyhop.schemas.propositions import Rows
from polyhop.schemas.settings import ExtractionSettings
from polyhop.warehouse.files.disk import file_checksum, writing
from polyhop.warehouse.files.layout import index_of
from polyhop.warehouse.statements import statement

CHECKED_BYTES = 64 * 2**20
"""Files up to this size are compared with their checksums when opened: 60 ms at the 1.1 GB/s of one core with SHA-NI.

Larger ones are checked for bounds and lengths only, in a twentieth of that time; `polyhop verify` reads them whole."""


def save_arrays(folder: Path, prefix: str, arrays: dict[str, NDArray[np.generic]]) -> None:
    """Writes `<prefix>_<name>.npy` for each array."""
    with writing("arrays", folder):
        for name, array in arrays.items():
            np.save(folder / f"{prefix}_{name}.npy", array)


def text_arrays(texts: Iterable[str]) -> dict[str, NDArray[np.generic]]:
    """Texts as two arrays: where each begins, and all of them in UTF-8, one after the other.

    Returns:
        "text-starts", shape (n + 1,), int64, and "texts", shape (bytes,), uint8.
    """
    encoded = [text.encode("utf-8", "replace") for text in texts]
    starts = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(each) for each in encoded], out=starts[1:])
    return {"text-starts": starts, "texts": np.frombuffer(b"".join(encoded), dtype=np.uint8)}


def save_lines(folder: Path, prefix: str, name: str, lines: Iterable[str]) -> None:
    """Writes `<prefix>_<name>.txt`; no line holds a line break."""
    with writing(name, folder):
        (folder / f"{prefix}_{name}.txt").write_text("\n".join(lines), encoding="utf-8")


def open_array(folder: Path, name: str) -> NDArray[np.generic]:
    """An array, memory-mapped read-only.

    Raises:
        DamagedStoreError: If the file is missing or is not an array.
    """
    path = folder / f"{name}.npy"
    try:
        array: NDArray[np.generic] = np.load(path, mmap_mode="r")
    except Exception as error:  # numpy reads headers with Python's own parser, which raises almost anything
        raise DamagedStoreError(path, index_of(path), str(error).split("\n", 1)[0]) from error
    return array.view(np.ndarray)


def require_arrays(folder: Path, checksums: Mapping[str, str], prefix: str) -> None:
    """Makes sure that the files `<prefix>_…` of a version are those that were published, as far as that is cheap."""
    for name in sorted(checksums):
        if name.startswith(f"{prefix}_"):
            path = folder / name
            if not path.is_file():
                raise DamagedStoreError(path, index_of(path), "it is missing")
            if path.stat().st_size <= CHECKED_BYTES and file_checksum(path) != checksums[name]:
                raise DamagedStoreError(path, index_of(path), "its checksum is not the published one")


class ArrayFolder:
    """The arrays of a version: implements polyhop.schemas.artefacts.StoredArrays.

    Args:
        folder: Of the arrays.
        checksums: sha256 by file name, as published; without any, files are opened as they are.
    """

    def __init__(self, folder: Path, checksums: Mapping[str, str]) -> None:
        self._folder = folder
        self._checksums = checksums
        self._checked: set[str] = set()

    def array(self, prefix: str, name: str) -> NDArray[Any]:
        """An array, memory-mapped; the first one of a prefix has all files of that prefix checked."""
        self._check(prefix)
        return open_array(self._folder, f"{prefix}_{name}")

    def lines(self, prefix: str, name: str) -> list[str]:
        """The lines of a text file, checked like the arrays; none if it is empty."""
        self._check(prefix)
        path = self._folder / f"{prefix}_{name}.txt"
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise DamagedStoreError(path, index_of(path), str(error)) from error
        return text.split("\n") if text else []

    def require(self, prefix: str, *, fits: bool) -> None:
        """Refuses arrays that do not fit."""
        if not fits:
            path = self._folder / f"{prefix}…"
            raise DamagedStoreError(path, index_of(path), "its numbers do not fit the tables or each other")

    def _check(self, prefix: str) -> None:
        if prefix not in self._checked:
            require_arrays(self._folder, self._checksums, prefix)
            self._checked.add(prefix)


_LENGTH_TOLERANCE = 1e-3
"""Far above float32's rounding of a vector of length 1 (1e-6), far below what a flipped exponent does."""


def open_bipartite(stored: StoredArrays, keys: tuple[str, ...], passage_count: int) -> BipartiteGraph:
    """The entity-passage graph."""
    graph = BipartiteGraph(
        indptr=stored.array("bipartite", "indptr").astype(np.int64, copy=False),
        indices=stored.array("bipartite", "indices").astype(np.int32, copy=False),
        tf=stored.array("bipartite", "tf").astype(np.float64, copy=False),
        is_title=stored.array("bipartite", "title").astype(np.bool_, copy=False),
        keys=keys,
    )
    stored.require(
        "bipartite",
        fits=graph.passage_count == passage_count
        and _fits(graph.indptr, graph.indices, len(keys))
        and graph.tf.shape == graph.is_title.shape == graph.indices.shape,
    )
    return graph


def save_title_chunks(folder: Path, indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> None:
    """Writes the edges to names that are part of titles, compressed by passage."""
    save_arrays(folder, "title-chunks", {"indptr": indptr, "indices": indices})


def open_chunk_graph(stored: StoredArrays, graph: BipartiteGraph) -> BipartiteGraph:
    """The graph with the edges to names that are part of titles: tf 1, not title edges. Source: bridge-masked.md 2."""
    indptr = stored.array("title-chunks", "indptr").astype(np.int64, copy=False)
    indices = stored.array("title-chunks", "indices").astype(np.int32, copy=False)
    fits = indptr.shape == graph.indptr.shape and _fits(indptr, indices, graph.entity_count)
    stored.require("title-chunks", fits=fits)
    return with_edges(graph, indptr, indices)


def surface_graph(columns: Mapping[str, NDArray[Any]], passage_count: int) -> BipartiteGraph:
    """Passages and the spellings of names in them, ascending; each offset counts under its own spelling.

    Args:
        columns: Of the statement `surfaces`.
        passage_count: Passages of the version.

    Source: algorithms.md 7.5.
    Cost: O(mentions); 350,000 of them take some 2 s, once per open version.
    """
    surfaces = columns["surface"].tolist()
    keys = sorted(set(surfaces))
    number_of = {key: number for number, key in enumerate(keys)}
    per_passage = np.bincount(columns["passage"].astype(np.int64), minlength=passage_count)
    return BipartiteGraph(
        indptr=np.concatenate(([0], np.cumsum(per_passage))).astype(np.int64),
        indices=np.fromiter(map(number_of.__getitem__, surfaces), dtype=np.int32, count=len(surfaces)),
        tf=columns["tf"].astype(np.float64),
        is_title=columns["is_title"].astype(np.bool_),
        keys=tuple(keys),
    )


def open_relations(stored: StoredArrays, names: tuple[str, ...], entity_count: int) -> RelationGraph:
    """The relations between entities."""
    graph = RelationGraph(
        indptr=stored.array("relations", "indptr").astype(np.int64, copy=False),
        indices=stored.array("relations", "indices").astype(np.int32, copy=False),
        label_indptr=stored.array("relations", "label-indptr").astype(np.int64, copy=False),
        labels=stored.array("relations", "labels").astype(np.int32, copy=False),
        names=names,
    )
    stored.require(
        "relations",
        fits=graph.entity_count == entity_count
        and _fits(graph.indptr, graph.indices, entity_count)
        and graph.label_indptr.shape == (len(graph.indices) + 1,)
        and _fits(graph.label_indptr, graph.labels, len(names)),
    )
    return graph


def open_entity_texts(stored: StoredArrays, entity_count: int) -> EntityTexts:
    """Names, types and descriptions of entities."""
    texts = EntityTexts(
        starts=stored.array("relations", "text-starts").astype(np.int64, copy=False),
        data=stored.array("relations", "texts").astype(np.uint8, copy=False),
    )
    stored.require(
        "relations_text",
        fits=texts.starts.shape == (3 * entity_count + 1,) and _covers(texts.starts, texts.data),
    )
    return texts


LEXICAL_FILES = ("indptr.npy", "passages.npy", "tf.npy", "lengths.npy", "terms.txt")
"""Ends of the names of the files of one analyser's postings."""


def save_lexical(folder: Path, analyser: str, index: LexicalIndex) -> None:
    """Writes the postings of one analyser; terms in number order, one a line."""
    arrays: dict[str, NDArray[np.generic]] = {
        "indptr": index.indptr,
        "passages": index.passages,
        "tf": index.tf,
        "lengths": index.lengths,
    }
    save_arrays(folder, f"lexical-{analyser}", arrays)
    save_lines(folder, f"lexical-{analyser}", "terms", index.terms)


def open_lexical(stored: StoredArrays, analyser: str, passage_count: int) -> LexicalIndex:
    """The postings of one analyser."""
    prefix = f"lexical-{analyser}"
    terms = stored.lines(prefix, "terms")
    index = LexicalIndex(
        terms={term: number for number, term in enumerate(terms)},
        indptr=stored.array(prefix, "indptr").astype(np.int64, copy=False),
        passages=stored.array(prefix, "passages").astype(np.int32, copy=False),
        tf=stored.array(prefix, "tf").astype(np.int32, copy=False),
        lengths=stored.array(prefix, "lengths").astype(np.int32, copy=False),
    )
    stored.require(
        prefix,
        fits=len(index.indptr) == len(terms) + 1 == len(index.terms) + 1
        and _fits(index.indptr, index.passages, passage_count)
        and index.tf.shape == index.passages.shape
        and index.lengths.shape == (passage_count,),
    )
    return index


def open_vectors(stored: StoredArrays, kind: str) -> NDArray[np.float32]:
    """Shape (n, d): the vectors of one kind; of a matrix too large for a checksum, each must have a length of 1."""
    prefix = f"vectors-{kind}"
    matrix = stored.array(prefix, "matrix").astype(np.float32, copy=False)
    is_matrix = matrix.ndim == 2
    if is_matrix and matrix.nbytes > CHECKED_BYTES:
        with np.errstate(over="ignore", invalid="ignore"):
            lengths = np.einsum("ij,ij->i", matrix, matrix)
        is_matrix = bool(np.all(np.abs(lengths - 1) < _LENGTH_TOLERANCE))  # false for NaN
    stored.require(f"{prefix}_matrix", fits=is_matrix)
    return matrix


def _fits(indptr: NDArray[np.int64], numbers: NDArray[np.int32], bound: int) -> bool:
    """Whether rows cover `numbers` and these are below `bound`."""
    return _covers(indptr, numbers) and (len(numbers) == 0 or bool(0 <= numbers.min() <= numbers.max() < bound))


def _covers(indptr: NDArray[np.int64], numbers: NDArray[np.generic]) -> bool:
    """Whether rows begin at 0, end at the last of `numbers`, and none ends before it begins."""
    if indptr.ndim != 1 or numbers.ndim != 1 or not len(indptr):
        return False
    return bool(indptr[0] == 0 and indptr[-1] == len(numbers) and np.all(indptr[1:] >= indptr[:-1]))


def open_passages_of_statements(stored: StoredArrays, graph: str, passage_count: int) -> Rows:
    """Passages of each proposition (or triple) of a graph over them."""
    rows = Rows(
        stored.array(graph, "passages-indptr").astype(np.int64, copy=False),
        stored.array(graph, "passages-indices").astype(np.int32, copy=False),
    )
    stored.require(graph, fits=_fits(rows.indptr, rows.indices, passage_count))
    return rows


EntityReader = Callable[[Sequence[int]], list[Entity]]
"""Entities by number, in the order asked."""

NearestPassages = Callable[[NDArray[np.float32], int, int], Sequence[int]]
"""Numbers of about `count` passages nearest to a vector of shape (d,), nearest first: vector, count, ef_search."""


def _graph(stored: Stored) -> BipartiteGraph:
    return open_bipartite(stored, tuple(_column(stored, "entity_keys")), len(stored.passage_ids))


def _allowed_rows(handle: Artefact[BipartiteGraph], restriction: Restriction) -> BipartiteGraph:
    return restricted_graph(restriction.whole(handle), restriction.allowed)


GRAPH = Artefact("graph", _graph, "graph", restrict=_allowed_rows)
"""Passages and the entities they mention."""


def _every_entity(stored: Stored) -> NDArray[np.int64]:
    return np.arange(stored.artefact(GRAPH).entity_count, dtype=np.int64)


def _entities_left(_: Artefact[NDArray[np.int64]], restriction: Restriction) -> NDArray[np.int64]:
    return kept_entities(restriction.whole(GRAPH), restriction.allowed)


ENTITY_NUMBERS: Artefact[NDArray[np.int64]] = Artefact("graph", _every_entity, "graph", restrict=_entities_left)
"""Shape (n,), int64, ascending: numbers, in the whole version, of the entities in `GRAPH`."""


def _chunk_graph(stored: Stored) -> BipartiteGraph:
    return open_chunk_graph(stored, stored.artefact(GRAPH))


def _chunks_left(handle: Artefact[BipartiteGraph], restriction: Restriction) -> BipartiteGraph:
    return restricted_graph(restriction.whole(handle), restriction.allowed, restriction.artefact(ENTITY_NUMBERS))


CHUNK_GRAPH = Artefact("graph:title-chunks", _chunk_graph, "bridge-masked", restrict=_chunks_left)
"""`GRAPH` with edges from passages to names that are part of their titles, in the same numbering."""


def _surfaces(stored: Stored) -> BipartiteGraph:
    return surface_graph(stored.columns(statement("read", "surfaces")), len(stored.passage_ids))


SURFACES = Artefact("surfaces", _surfaces, is_optional=False, restrict=_allowed_rows)
"""Passages and the spellings of names in them, before resolution; its keys are the spellings. Read from the tables."""


def _relations(stored: Stored) -> RelationGraph:
    labels = tuple(_column(stored, "relation_labels"))
    return open_relations(stored, labels, stored.artefact(GRAPH).entity_count)


def _statements(stored: Stored) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    columns = stored.columns(statement("read", "relation_passages"))
    return columns["relation"].astype(np.int64), columns["passage"].astype(np.int64)


RELATION_PASSAGES = Artefact("graph:relations", _statements, "graph-search", restrict=unrestricted)
"""Shape (s,) each: offset of a relation in the `labels` of `RELATIONS`, and a passage that states it; -1 if none."""


def _relations_left(handle: Artefact[RelationGraph], restriction: Restriction) -> RelationGraph:
    kept, statements = restriction.artefact(ENTITY_NUMBERS), restriction.whole(RELATION_PASSAGES)
    return restricted_relations(restriction.whole(handle), statements, restriction.is_allowed, kept)


RELATIONS = Artefact("graph:relations", _relations, "graph-search", restrict=_relations_left)
"""Entities and their labelled relations, in the numbering of `GRAPH`."""


def _entity_ids(stored: Stored) -> Sequence[str]:
    return _column(stored, "entity_ids")


def _ids_left(handle: Artefact[Sequence[str]], restriction: Restriction) -> Sequence[str]:
    ids = restriction.whole(handle)
    return [ids[number] for number in restriction.artefact(ENTITY_NUMBERS).tolist()]


ENTITY_IDS = Artefact("graph", _entity_ids, "graph", restrict=_ids_left)
"""Ids of the entities in the numbering of `GRAPH`; those of a knowledge graph's nodes do not follow from their keys."""


def _entities(stored: Stored) -> EntityReader:
    keys = stored.artefact(GRAPH).keys
    texts = open_entity_texts(stored, len(keys))
    return lambda numbers: [Entity(keys[number], *texts.fields(number)) for number in numbers]


def _entities_by_new_number(handle: Artefact[EntityReader], restriction: Restriction) -> EntityReader:
    read, kept = restriction.whole(handle), restriction.artefact(ENTITY_NUMBERS)
    return lambda numbers: read(kept[list(numbers)].tolist())


ENTITIES = Artefact("graph:relations", _entities, "graph-search", restrict=_entities_by_new_number)
"""Entities as people see them; their texts are saved with the relations."""


def _exact_names(stored: Stored) -> Mapping[str, Sequence[int]]:
    number_of = stored.artefact(GRAPH).number_of
    numbers: dict[str, list[int]] = {}
    for name, key in stored.rows(statement("read", "exact_names")):
        numbers.setdefault(name, []).append(number_of[key])
    return numbers


def _names_left(handle: Artefact[Mapping[str, Sequence[int]]], restriction: Restriction) -> Mapping[str, Sequence[int]]:
    kept = restriction.artefact(ENTITY_NUMBERS)
    moved = new_numbers(kept, restriction.whole(GRAPH).entity_count)
    left = {
        name: [number for number in moved[list(numbers)].tolist() if number >= 0]
        for name, numbers in restriction.whole(handle).items()
    }
    return {name: numbers for name, numbers in left.items() if numbers}


EXACT_NAMES = Artefact("graph", _exact_names, "graph", restrict=_names_left)
"""Entity numbers by `norm_ws` name, where that is not the entity's key."""


def _aliases(stored: Stored) -> Mapping[str, str]:
    return dict(stored.rows(statement("read", "merged_names")))


ALIASES = Artefact("aliases", _aliases, is_optional=False, restrict=unrestricted)
"""Key of its entity by the key of a name that resolution, or a person, made another form of it."""


def _namesakes(stored: Stored) -> Mapping[str, Sequence[str]]:
    return {key: tuple(bearers) for key, bearers in stored.rows(statement("read", "namesakes"))}


NAMESAKES = Artefact("aliases", _namesakes, is_optional=False, restrict=unrestricted)
"""Keys of the entities that bear a name by its key, where resolution tells namesakes apart."""


def _names(stored: Stored) -> NameFinding:
    from polyhop.warehouse.names import open_finder

    settings = ExtractionSettings.model_validate(stored.settings["extraction"])
    return open_finder(
        settings.ner,
        _column(stored, "distinct_titles"),
        settings.spacy_model,
        regex_drop_stopwords=settings.regex_drop_stopwords,
        language=_language(stored),
    )


def _language(stored: Stored) -> str:
    return recorded_language(stored.settings)


LANGUAGE = Artefact("names", _language, is_optional=False, restrict=unrestricted)
"""`corpus.language` of the version."""


NAMES = Artefact("names", _names, is_optional=False, restrict=unrestricted)
"""The same name finder that built the graph."""


def _lexical(stored: Stored, analyser: str) -> LexicalIndex:
    return replace(open_lexical(stored, analyser, len(stored.passage_ids)), language=_language(stored))


@cache
def lexical_of(analyser: str) -> Artefact[LexicalIndex]:
    """Term statistics under one analyser ("plain" or "stems")."""
    strategies = {"plain": "bm25", "stems": "bridge-lexical"}
    strategy = strategies.get(analyser, "STRATEGY")
    return Artefact(f"lexical:{analyser}", partial(_lexical, analyser=analyser), strategy, restrict=_postings_left)


def _postings_left(handle: Artefact[LexicalIndex], restriction: Restriction) -> LexicalIndex:
    return restricted_postings(restriction.whole(handle), restriction.allowed)


def _passages_of_statements(stored: Stored, graph: str) -> Rows:
    return open_passages_of_statements(stored, graph, len(stored.passage_ids))


@cache
def passages_of_statements(graph: str) -> Artefact[Rows]:
    """Passages of each proposition of the graph over "propositions", or of each triple of that over "triples"."""
    open_ = partial(_passages_of_statements, graph=graph)
    return Artefact(f"graph:{graph}", open_, _STATING[graph], restrict=unrestricted)


_STATING = {"propositions": "proprag", "triples": "triple-ppr"}


def statements_left(graph: str, restriction: Restriction) -> NDArray[np.int64]:
    """Numbers, in the whole version, of the propositions (or triples) of a graph that are left; ascending."""
    return kept_statements(restriction.whole(passages_of_statements(graph)), restriction.is_allowed)


_NUMBERS_LEFT: Mapping[str, Callable[[Restriction], NDArray[np.int64]]] = {
    "passage": lambda restriction: restriction.allowed,
    "entity": lambda restriction: restriction.artefact(ENTITY_NUMBERS),
    "proposition": partial(statements_left, "propositions"),
    "triple": partial(statements_left, "triples"),
}
"""Which vectors are left of the kinds whose things are numbered again."""

_NUMBERED_AS_EVER = frozenset({"name", "triplename", "hubpath", "hubvalue"})
"""Kinds whose things keep their numbers: names of propositions, and texts of hubs."""


def _vectors_left(handle: Artefact[NDArray[np.float32]], restriction: Restriction, kind: str) -> NDArray[np.float32]:
    return np.asarray(restriction.whole(handle))[_NUMBERS_LEFT[kind](restriction)]


@cache
def vectors_of(kind: str) -> Artefact[NDArray[np.float32]]:
    """Vectors of one kind ("passage", "entity" or another package's), shape (n, d), memory-mapped, in number order."""
    strategies = {"passage": "dense", "entity": "naive-vector", "proposition": "proprag", "triple": "triple-ppr"}
    restrict = partial(_vectors_left, kind=kind) if kind in _NUMBERS_LEFT else None
    return Artefact(
        f"vectors:{kind}",
        partial(open_vectors, kind=kind),
        strategies.get(kind, "STRATEGY"),
        restrict=unrestricted if kind in _NUMBERED_AS_EVER else restrict,
    )


def _cosine_scale(stored: Stored) -> float:
    return stored.cosine_scale("passage")


COSINE_SCALE = Artefact("vectors:passage", _cosine_scale, "dense", restrict=unrestricted)
"""What weights in units of the local encoder's cosine are multiplied by for this version's passages; 1 for that one."""


def _nearest_passages(stored: Stored) -> NearestPassages:
    def search(vector: NDArray[np.float32], count: int, ef_search: int) -> Sequence[int]:
        if not stored.passage_ids:  # a knowledge graph's index publishes no vectors of passages
            return []
        number_of = stored.number_of_passage
        return [number_of[passage_id] for passage_id in stored.nearest("passage", vector, count, ef_search)]

    return search


def _nearest_allowed(_: Artefact[NearestPassages], restriction: Restriction) -> NearestPassages:
    vectors = restriction.artefact(vectors_of("passage"))

    def search(vector: NDArray[np.float32], count: int, _ef_search: int) -> Sequence[int]:
        scores = vectors @ vector
        least = np.partition(scores, -count)[-count] if 0 < count < len(scores) else -np.inf
        nearest = np.flatnonzero(scores >= least)
        return nearest[np.argsort(-scores[nearest], kind="stable")][:count].tolist()  # type: ignore[no-any-return]

    return search


NEAREST_PASSAGES = Artefact("ann:passage", _nearest_passages, "dense-ann", restrict=_nearest_allowed)
"""Approximate search of passages by an HNSW graph, which is opened by the first search; exact among allowed passages,
because a graph over all of them may find fewer of these than there are.
"""


def _column(stored: Stored, name: str) -> list[str]:
    return [row[0] for row in stored.rows(statement("read", name))]


TripleRow = tuple[str, str, str, str, str]
"""Id and name of the subject, predicate, id and name of the object."""

TriplesOf = Callable[[Iterable[str]], list[TripleRow]]
"""Triples by the ids of their subjects, in no order."""


def _open_ids(stored: Stored) -> TriplesOf:
    tables = {name for (name,) in stored.rows(statement("read", "tables_of_triples"))}
    if not {"relations", "entities"} <= tables:
        return lambda _: []
    name = "triples_of_nodes" if "nodes" in tables else "triples_of_entities"

    def triples_of(ids: Iterable[str]) -> list[TripleRow]:
        rows = stored.rows(statement("read", name), {"ids": sorted(set(ids))})
        return [(str(s), str(sn), str(p), str(o), str(on)) for s, sn, p, o, on in rows]

    return triples_of


TRIPLES_OF_SUBJECTS = Artefact("triples of subjects", _open_ids, is_optional=False)
"""Read from the tables when asked."""

MetadataOf = Callable[[Iterable[str]], list[tuple[str, str, Mapping[str, Any]]]]
"""By the ids of nodes: each id with what is said of the node (passage id ""), or what a row that attached a text to it
says (with the passage of that text); by id and passage."""


def _open_metadata(stored: Stored) -> MetadataOf:
    tables = {name for (name,) in stored.rows(statement("read", "tables_of_triples"))}
    name = "metadata_of_nodes" if {"nodes", "node_passages"} <= tables else "metadata_of_entities"

    def metadata_of(ids: Iterable[str]) -> list[tuple[str, str, Mapping[str, Any]]]:
        rows = stored.rows(statement("read", name), {"ids": sorted(set(ids))})
        return [(str(node), str(passage), json.loads(said)) for node, passage, said in rows]

    return metadata_of


METADATA_OF_NODES = Artefact("metadata of nodes", _open_metadata, is_optional=False, restrict=unrestricted)
"""Read from the tables when asked; under a filter, what belongs to other passages is there, too."""
