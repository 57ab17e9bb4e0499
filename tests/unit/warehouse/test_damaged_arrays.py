"""Arrays whose bytes changed after publishing: refused with the command that fixes them, never walked into."""

from pathlib import Path

import numpy as np
import pytest

import polyhop.warehouse.artefacts
from polyhop.schemas.errors import DamagedStoreError
from polyhop.schemas.graph import LexicalIndex
from polyhop.warehouse.artefacts import (
    ArrayFolder,
    open_bipartite,
    open_chunk_graph,
    open_entity_texts,
    open_lexical,
    open_relations,
    open_vectors,
    require_arrays,
    save_arrays,
    save_lexical,
    save_title_chunks,
)
from polyhop.warehouse.files.disk import file_checksum

FIX = r"fix it with: polyhop verify --index towns --repair$"
KEYS = ("a", "b", "c")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three passages, three entities, two relations, two terms; whole."""
    folder = tmp_path / "indexes" / "towns" / "versions" / "000001" / "graph"
    folder.mkdir(parents=True)
    ints = {"indptr": [0, 2, 2, 3], "indices": [0, 2, 1]}
    bipartite = {
        name: np.array(values, dtype=np.int64 if name == "indptr" else np.int32) for name, values in ints.items()
    }
    save_arrays(folder, "bipartite", bipartite | {"tf": np.ones(3), "title": np.zeros(3, np.bool_)})
    save_title_chunks(folder, np.array([0, 0, 0, 1]), np.array([0], dtype=np.int32))
    relations = {"indptr": [0, 1, 2, 2], "indices": [1, 0], "label-indptr": [0, 1, 2], "labels": [0, 1]}
    save_arrays(folder, "relations", {name: np.array(values) for name, values in relations.items()})
    texts = np.frombuffer(b"abcdefghi", dtype=np.uint8)
    save_arrays(folder, "relations", {"text-starts": np.arange(10), "texts": texts})
    terms = {"river": 0, "town": 1}
    postings = np.array([0, 2, 1], dtype=np.int32)
    lexical = LexicalIndex(terms, np.array([0, 2, 3]), postings, np.ones(3, np.int32), np.full(3, 5, np.int32))
    save_lexical(folder, "stems", lexical)
    save_arrays(folder, "vectors-passage", {"matrix": np.eye(3, 4, dtype=np.float32)})
    return folder


def unchecked(folder: Path) -> ArrayFolder:
    """As if each file were too large for its checksum."""
    return ArrayFolder(folder, {})


def open_all(stored: ArrayFolder) -> None:
    open_chunk_graph(stored, open_bipartite(stored, KEYS, 3))
    open_relations(stored, ("r", "s"), 3)
    open_entity_texts(stored, 3)
    open_lexical(stored, "stems", 3)
    open_vectors(stored, "passage")


def test_whole_arrays_are_opened(folder: Path) -> None:
    open_all(unchecked(folder))
    open_all(ArrayFolder(folder, {file.name: file_checksum(file) for file in folder.iterdir()}))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("bipartite_indptr", [0, 2, 1, 3]),
        ("bipartite_indptr", [0, 1 << 40, 2, 3]),
        ("bipartite_indptr", [0, -1, 2, 3]),
        ("bipartite_indptr", [1, 2, 2, 3]),
        ("bipartite_indptr", [0, 2, 3]),
        ("bipartite_indptr", [0, 2, 2, 2]),
        ("bipartite_indices", [0, 3, 1]),
        ("bipartite_indices", [0, -2, 1]),
        ("bipartite_tf", [1.0, 1.0]),
        ("bipartite_title", [True]),
        ("title-chunks_indptr", [0, 0, 1]),
        ("title-chunks_indptr", [0, 0, 2, 1]),
        ("title-chunks_indices", [3]),
        ("title-chunks_indices", [-1]),
        ("title-chunks_indices", [1, 2]),
        ("relations_indptr", [0, 5, 2, 2]),
        ("relations_indices", [1, 3]),
        ("relations_label-indptr", [0, 9, 2]),
        ("relations_labels", [0, 2]),
        ("relations_text-starts", [0, 1, 99, 3, 4, 5, 6, 7, 8, 9]),
        ("relations_texts", [0]),
        ("lexical-stems_indptr", [0, 4, 3]),
        ("lexical-stems_passages", [0, 2, 3]),
        ("lexical-stems_tf", [1]),
        ("lexical-stems_lengths", [5, 5]),
        ("vectors-passage_matrix", [1.0]),
    ],
)
def test_numbers_that_do_not_fit_are_refused(folder: Path, name: str, values: list[float]) -> None:
    np.save(folder / f"{name}.npy", np.array(values))
    with pytest.raises(DamagedStoreError, match=FIX):
        open_all(unchecked(folder))


def test_terms_that_do_not_fit_are_refused(folder: Path) -> None:
    (folder / "lexical-stems_terms.txt").write_bytes(b"riv\xffr\ntown\nsea")
    with pytest.raises(DamagedStoreError, match=FIX):
        open_lexical(unchecked(folder), "stems", 3)


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"\x93NUMPY\x01\x00\x10\x00{'descr': (((((   \n", b"x" * 200])
def test_what_is_no_array_is_refused(folder: Path, content: bytes) -> None:
    (folder / "bipartite_indptr.npy").write_bytes(content)
    with pytest.raises(DamagedStoreError, match=FIX):
        open_bipartite(unchecked(folder), KEYS, 3)


def test_a_missing_array_is_named(folder: Path) -> None:
    checksums = {file.name: file_checksum(file) for file in folder.iterdir()}
    (folder / "bipartite_tf.npy").unlink()
    with pytest.raises(DamagedStoreError, match=r"bipartite_tf.npy is damaged \(it is missing\); " + FIX):
        require_arrays(folder, checksums, "bipartite")


def test_a_missing_list_of_terms_is_named(folder: Path) -> None:
    (folder / "lexical-stems_terms.txt").unlink()
    with pytest.raises(DamagedStoreError, match=r"lexical-stems_terms.txt is damaged .*" + FIX):
        open_lexical(unchecked(folder), "stems", 3)


def test_every_file_of_a_prefix_is_compared_before_one_of_its_arrays_is_opened(folder: Path) -> None:
    """Also those that this value is not read from: an artefact is whole, or it is not opened."""
    checksums = {file.name: file_checksum(file) for file in folder.iterdir()}
    np.save(folder / "relations_texts.npy", np.frombuffer(b"abcdefghj", dtype=np.uint8))
    open_bipartite(ArrayFolder(folder, checksums), KEYS, 3)
    for name in ("indptr", "texts"):
        with pytest.raises(DamagedStoreError, match=r"relations_texts.npy .*its checksum is not the published one"):
            ArrayFolder(folder, checksums).array("relations", name)
    (folder / "lexical-stems_lengths.npy").unlink()
    with pytest.raises(DamagedStoreError, match=r"lexical-stems_lengths.npy .*it is missing"):
        ArrayFolder(folder, checksums).lines("lexical-stems", "terms")


def test_every_flipped_bit_of_a_small_array_is_found(folder: Path) -> None:
    checksums = {file.name: file_checksum(file) for file in folder.iterdir()}
    path = folder / "bipartite_tf.npy"
    whole = path.read_bytes()
    for offset in range(len(whole)):
        path.write_bytes(whole[:offset] + bytes([whole[offset] ^ 1]) + whole[offset + 1 :])
        with pytest.raises(DamagedStoreError, match="its checksum is not the published one"):
            require_arrays(folder, checksums, "bipartite")


def test_a_large_matrix_with_a_vector_of_another_length_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polyhop.warehouse.artefacts, "CHECKED_BYTES", 0)
    assert open_vectors(unchecked(folder), "passage").shape == (3, 4)
    for wrong in (np.nan, np.inf, 1e38, 0.5):
        matrix = np.eye(3, 4, dtype=np.float32)
        matrix[1, 1] = wrong
        np.save(folder / "vectors-passage_matrix.npy", matrix)
        with np.errstate(over="ignore", invalid="ignore"), pytest.raises(DamagedStoreError, match=FIX):
            open_vectors(unchecked(folder), "passage")
