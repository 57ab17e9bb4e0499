"""Saving and opening a version's arrays, and the lists of text beside them.

One .npy file per array, opened memory-mapped, so that worker processes share them. What the numbers mean is
artefacts.py's business.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import DamagedStoreError
from polyhop.warehouse.files.disk import file_checksum, writing
from polyhop.warehouse.files.layout import index_of

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
    """Makes sure that the files `<prefix>_…` of a version are those that were published, as far as that is cheap.

    Raises:
        DamagedStoreError: If one is missing or, up to `CHECKED_BYTES`, has another content.
    """
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
