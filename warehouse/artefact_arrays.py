"""The arrays of our artefacts: how each is saved beside the tables, and how it is opened.

Declares no handle (artefacts.py does) and reaches no store. Every opener refuses numbers that do not fit
(DamagedStoreError): compiled walks trust them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.artefacts import StoredArrays
from polyhop.schemas.graph import BipartiteGraph, EntityTexts, LexicalIndex, RelationGraph, with_edges
from polyhop.schemas.propositions import Rows
from polyhop.warehouse.graph.arrays import CHECKED_BYTES, save_arrays, save_lines

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
