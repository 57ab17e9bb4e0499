"""Saving and opening a version's arrays.

One .npy file per array, opened memory-mapped, so that worker processes share them; term lists are text files.
"""

from hashlib import file_digest
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from schemas.errors import ManifestMismatchError
from schemas.graph import BipartiteGraph, EntityTexts, LexicalIndex, RelationGraph
from warehouse.files.disk import writing


def save_arrays(folder: Path, prefix: str, arrays: dict[str, NDArray[np.generic]]) -> None:
    """Writes `<prefix>_<name>.npy` for each array."""
    with writing("arrays", folder):
        for name, array in arrays.items():
            np.save(folder / f"{prefix}_{name}.npy", array)


def open_array(folder: Path, name: str) -> NDArray[np.generic]:
    """An array, memory-mapped read-only."""
    array: NDArray[np.generic] = np.load(folder / f"{name}.npy", mmap_mode="r")
    return array.view(np.ndarray)


def save_lexical(folder: Path, analyser: str, index: LexicalIndex) -> None:
    """Writes the postings of one analyser; terms in number order, one a line."""
    prefix = f"lexical-{analyser}"
    save_arrays(
        folder,
        prefix,
        {"indptr": index.indptr, "passages": index.passages, "tf": index.tf, "lengths": index.lengths},
    )
    with writing("terms", folder):
        (folder / f"{prefix}_terms.txt").write_text("\n".join(index.terms), encoding="utf-8")


def open_lexical(folder: Path, analyser: str) -> LexicalIndex:
    """The postings of one analyser."""
    prefix = f"lexical-{analyser}"
    text = (folder / f"{prefix}_terms.txt").read_text(encoding="utf-8")
    terms = text.split("\n") if text else []
    return LexicalIndex(
        terms={term: number for number, term in enumerate(terms)},
        indptr=open_array(folder, f"{prefix}_indptr").astype(np.int64, copy=False),
        passages=open_array(folder, f"{prefix}_passages").astype(np.int32, copy=False),
        tf=open_array(folder, f"{prefix}_tf").astype(np.int32, copy=False),
        lengths=open_array(folder, f"{prefix}_lengths").astype(np.int32, copy=False),
    )


def open_bipartite(folder: Path, keys: tuple[str, ...]) -> BipartiteGraph:
    """The entity-passage graph.

    Raises:
        ManifestMismatchError: If the arrays do not fit each other or the keys (compiled walks trust them).
    """
    graph = BipartiteGraph(
        indptr=open_array(folder, "bipartite_indptr").astype(np.int64, copy=False),
        indices=open_array(folder, "bipartite_indices").astype(np.int32, copy=False),
        tf=open_array(folder, "bipartite_tf").astype(np.float64, copy=False),
        is_title=open_array(folder, "bipartite_title").astype(np.bool_, copy=False),
        keys=keys,
    )
    edges = len(graph.indices)
    fits = graph.indptr[0] == 0 and graph.indptr[-1] == edges == len(graph.tf) == len(graph.is_title)
    if not fits or (edges and not 0 <= graph.indices.min() <= graph.indices.max() < len(keys)):
        raise ManifestMismatchError(f"The graph arrays in {folder} do not fit the tables; build the index with --full.")
    return graph


def open_relations(folder: Path, names: tuple[str, ...], entity_count: int) -> RelationGraph:
    """The relations between entities.

    Raises:
        ManifestMismatchError: If the arrays do not fit each other or the tables (compiled walks trust them).
    """
    graph = RelationGraph(
        indptr=open_array(folder, "relations_indptr").astype(np.int64, copy=False),
        indices=open_array(folder, "relations_indices").astype(np.int32, copy=False),
        label_indptr=open_array(folder, "relations_label-indptr").astype(np.int64, copy=False),
        labels=open_array(folder, "relations_labels").astype(np.int32, copy=False),
        names=names,
    )
    if not (
        graph.entity_count == entity_count
        and _fits(graph.indptr, graph.indices, entity_count)
        and len(graph.label_indptr) == len(graph.indices) + 1
        and _fits(graph.label_indptr, graph.labels, len(names))
    ):
        raise ManifestMismatchError(f"The relations in {folder} do not fit the tables; build the index with --full.")
    return graph


def open_entity_texts(folder: Path, entity_count: int) -> EntityTexts:
    """Names, types and descriptions of entities.

    Raises:
        ManifestMismatchError: If the arrays do not fit each other or the tables.
    """
    texts = EntityTexts(
        starts=open_array(folder, "relations_text-starts").astype(np.int64, copy=False),
        data=open_array(folder, "relations_texts").astype(np.uint8, copy=False),
    )
    if len(texts.starts) != 3 * entity_count + 1 or texts.starts[-1] != len(texts.data):
        raise ManifestMismatchError(f"The texts in {folder} do not fit the tables; build the index with --full.")
    return texts


def _fits(indptr: NDArray[np.int64], numbers: NDArray[np.int32], bound: int) -> bool:
    """Whether rows cover `numbers` and these are below `bound`."""
    if indptr[0] != 0 or indptr[-1] != len(numbers):
        return False
    return len(numbers) == 0 or bool(0 <= numbers.min() <= numbers.max() < bound)


def file_checksum(path: Path) -> str:
    """sha256 of a file's content."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
