"""Arrays whose bytes changed after publishing: refused with the command that fixes them."""

from pathlib import Path

import numpy as np
import pytest

from polyhop.schemas.errors import DamagedStoreError
from polyhop.warehouse.artefacts import ArrayFolder, open_array, save_arrays
from polyhop.warehouse.files.disk import file_checksum

FIX = r"fix it with: polyhop verify --index towns --repair$"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Arrays of a graph, and a list of terms beside an array; whole."""
    folder = tmp_path / "indexes" / "towns" / "versions" / "000001" / "graph"
    folder.mkdir(parents=True)
    save_arrays(folder, "bipartite", {"indptr": np.array([0, 2, 2, 3]), "tf": np.ones(3)})
    save_arrays(folder, "lexical-stems", {"lengths": np.full(3, 5, np.int32)})
    (folder / "lexical-stems_terms.txt").write_text("river\ntown", encoding="utf-8")
    return folder


@pytest.fixture
def checksums(folder: Path) -> dict[str, str]:
    return {file.name: file_checksum(file) for file in folder.iterdir()}


def test_whole_files_are_opened(folder: Path, checksums: dict[str, str]) -> None:
    for arrays in (ArrayFolder(folder, checksums), ArrayFolder(folder, {})):
        assert arrays.array("bipartite", "indptr").tolist() == [0, 2, 2, 3]
        assert arrays.lines("lexical-stems", "terms") == ["river", "town"]


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"\x93NUMPY\x01\x00\x10\x00{'descr': (((((   \n", b"x" * 200])
def test_what_is_no_array_is_refused(folder: Path, content: bytes) -> None:
    (folder / "bipartite_indptr.npy").write_bytes(content)
    with pytest.raises(DamagedStoreError, match=FIX):
        open_array(folder, "bipartite_indptr")


def test_a_missing_file_is_named(folder: Path, checksums: dict[str, str]) -> None:
    (folder / "bipartite_tf.npy").unlink()
    with pytest.raises(DamagedStoreError, match=r"bipartite_tf.npy is damaged \(it is missing\); " + FIX):
        ArrayFolder(folder, checksums).array("bipartite", "indptr")
    (folder / "lexical-stems_terms.txt").unlink()
    with pytest.raises(DamagedStoreError, match=r"lexical-stems_terms.txt is damaged .*" + FIX):
        ArrayFolder(folder, {}).lines("lexical-stems", "terms")


def test_every_file_of_a_prefix_is_compared_before_one_of_them_is_opened(
    folder: Path, checksums: dict[str, str]
) -> None:
    """Also those that this value is not read from: an artefact is whole, or it is not opened."""
    np.save(folder / "lexical-stems_lengths.npy", np.full(3, 6, np.int32))
    arrays = ArrayFolder(folder, checksums)
    arrays.array("bipartite", "indptr")
    for _ in range(2):
        with pytest.raises(DamagedStoreError, match=r"stems_lengths.npy .*its checksum is not the published one"):
            arrays.lines("lexical-stems", "terms")


def test_every_flipped_bit_of_a_small_array_is_found(folder: Path, checksums: dict[str, str]) -> None:
    path = folder / "bipartite_tf.npy"
    whole = path.read_bytes()
    for offset in range(len(whole)):
        path.write_bytes(whole[:offset] + bytes([whole[offset] ^ 1]) + whole[offset + 1 :])
        with pytest.raises(DamagedStoreError, match="its checksum is not the published one"):
            ArrayFolder(folder, checksums).array("bipartite", "indptr")
