"""Our artefacts: how each is saved beside the tables, and the handle that opens it.

A handle reads an open version through `Stored` alone, so that strategies, which import this module, reach no store.
Every opener refuses numbers that do not fit (DamagedStoreError): compiled walks trust them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.artefacts import Artefact, Stored, StoredArrays
from polyhop.schemas.graph import BipartiteGraph, Entity, EntityTexts, LexicalIndex, RelationGraph, with_edges
from polyhop.schemas.ports import NameFinding
from polyhop.schemas.settings import ExtractionSettings
from polyhop.warehouse.graph.arrays import CHECKED_BYTES, save_arrays, save_lines
from polyhop.warehouse.statements import statement

EntityReader = Callable[[Sequence[int]], list[Entity]]
"""Entities by number, in the order asked."""

NearestPassages = Callable[[NDArray[np.float32], int, int], Sequence[int]]
"""Numbers of about `count` passages nearest to a vector of shape (d,), nearest first: vector, count, ef_search."""

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


def _graph(stored: Stored) -> BipartiteGraph:
    return open_bipartite(stored, tuple(_column(stored, "entity_keys")), len(stored.passage_ids))


GRAPH = Artefact("graph", _graph, "graph")
"""Passages and the entities they mention."""


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


def _chunk_graph(stored: Stored) -> BipartiteGraph:
    return open_chunk_graph(stored, stored.artefact(GRAPH))


CHUNK_GRAPH = Artefact("graph:title-chunks", _chunk_graph, "bridge-masked")
"""`GRAPH` with edges from passages to names that are part of their titles, in the same numbering."""


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


def _surfaces(stored: Stored) -> BipartiteGraph:
    return surface_graph(stored.columns(statement("read", "surfaces")), len(stored.passage_ids))


SURFACES = Artefact("surfaces", _surfaces, is_optional=False)
"""Passages and the spellings of names in them, before resolution; its keys are the spellings. Read from the tables."""


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


def _relations(stored: Stored) -> RelationGraph:
    labels = tuple(_column(stored, "relation_labels"))
    return open_relations(stored, labels, stored.artefact(GRAPH).entity_count)


RELATIONS = Artefact("graph:relations", _relations, "graph-search")
"""Entities and their labelled relations, in the numbering of `GRAPH`."""


def _entity_ids(stored: Stored) -> Sequence[str]:
    return _column(stored, "entity_ids")


ENTITY_IDS = Artefact("graph", _entity_ids, "graph")
"""Ids of the entities in the numbering of `GRAPH`; those of a knowledge graph's nodes do not follow from their keys."""


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


def _entities(stored: Stored) -> EntityReader:
    keys = stored.artefact(GRAPH).keys
    texts = open_entity_texts(stored, len(keys))
    return lambda numbers: [Entity(keys[number], *texts.fields(number)) for number in numbers]


ENTITIES = Artefact("graph:relations", _entities, "graph-search")
"""Entities as people see them; their texts are saved with the relations."""


def _exact_names(stored: Stored) -> Mapping[str, Sequence[int]]:
    number_of = stored.artefact(GRAPH).number_of
    numbers: dict[str, list[int]] = {}
    for name, key in stored.rows(statement("read", "exact_names")):
        numbers.setdefault(name, []).append(number_of[key])
    return numbers


EXACT_NAMES = Artefact("graph", _exact_names, "graph")
"""Entity numbers by `norm_ws` name, where that is not the entity's key."""


def _aliases(stored: Stored) -> Mapping[str, str]:
    return dict(stored.rows(statement("read", "merged_names")))


ALIASES = Artefact("aliases", _aliases, is_optional=False)
"""Key of its entity by the key of a name that resolution, or a person, made another form of it."""


def _names(stored: Stored) -> NameFinding:
    from polyhop.warehouse.names import open_finder

    settings = ExtractionSettings.model_validate(stored.settings["extraction"])
    return open_finder(
        settings.ner,
        _column(stored, "distinct_titles"),
        settings.spacy_model,
        regex_drop_stopwords=settings.regex_drop_stopwords,
    )


NAMES = Artefact("names", _names, is_optional=False)
"""The same name finder that built the graph."""


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


def _lexical(stored: Stored, analyser: str) -> LexicalIndex:
    return open_lexical(stored, analyser, len(stored.passage_ids))


@cache
def lexical_of(analyser: str) -> Artefact[LexicalIndex]:
    """Term statistics under one analyser ("plain" or "stems")."""
    strategies = {"plain": "bm25", "stems": "bridge-lexical"}
    return Artefact(f"lexical:{analyser}", partial(_lexical, analyser=analyser), strategies.get(analyser, "STRATEGY"))


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


@cache
def vectors_of(kind: str) -> Artefact[NDArray[np.float32]]:
    """Vectors of one kind ("passage", "entity" or another package's), shape (n, d), memory-mapped, in number order."""
    strategies = {"passage": "dense", "entity": "naive-vector", "proposition": "proprag", "triple": "triple-ppr"}
    return Artefact(f"vectors:{kind}", partial(open_vectors, kind=kind), strategies.get(kind, "STRATEGY"))


def _cosine_scale(stored: Stored) -> float:
    return stored.cosine_scale("passage")


COSINE_SCALE = Artefact("vectors:passage", _cosine_scale, "dense")
"""What weights in units of the local encoder's cosine are multiplied by for this version's passages; 1 for that one."""


def _nearest_passages(stored: Stored) -> NearestPassages:
    def search(vector: NDArray[np.float32], count: int, ef_search: int) -> Sequence[int]:
        if not stored.passage_ids:  # a knowledge graph's index publishes no vectors of passages
            return []
        number_of = stored.number_of_passage
        return [number_of[passage_id] for passage_id in stored.nearest("passage", vector, count, ef_search)]

    return search


NEAREST_PASSAGES = Artefact("ann:passage", _nearest_passages, "dense-ann")
"""Approximate search of passages by an HNSW graph, which is opened by the first search."""


def _column(stored: Stored, name: str) -> list[str]:
    return [row[0] for row in stored.rows(statement("read", name))]


def _fits(indptr: NDArray[np.int64], numbers: NDArray[np.int32], bound: int) -> bool:
    """Whether rows cover `numbers` and these are below `bound`."""
    return _covers(indptr, numbers) and (len(numbers) == 0 or bool(0 <= numbers.min() <= numbers.max() < bound))


def _covers(indptr: NDArray[np.int64], numbers: NDArray[np.generic]) -> bool:
    """Whether rows begin at 0, end at the last of `numbers`, and none ends before it begins."""
    if indptr.ndim != 1 or numbers.ndim != 1 or not len(indptr):
        return False
    return bool(indptr[0] == 0 and indptr[-1] == len(numbers) and np.all(indptr[1:] >= indptr[:-1]))
