"""Lines of bytes from a plain or gzipped file, one at a time, in bounded memory.

Knows nothing of records. A line above the limit is skipped in small pieces, never held whole.
"""

import codecs
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

MAX_RECORD_BYTES = 64 * 1024 * 1024
"""Longest line, CSV field or text file that is read as one record."""

_PIECE = 1024 * 1024  # bytes of a line that is skipped; chosen: bounds memory
_EXCERPT_BYTES = 800  # of UTF-8: the excerpt's 200 characters have four bytes each at most


@dataclass(frozen=True, slots=True)
class Line:
    """A line with its end; of one that is too long only the beginning is kept."""

    number: int
    data: bytes
    is_too_long: bool = False


def open_bytes(path: Path) -> BinaryIO:
    """Opens a file for reading bytes, unpacking it if its name ends in .gz."""
    if path.name.lower().endswith(".gz"):
        return cast("BinaryIO", gzip.open(path, "rb"))
    return path.open("rb")


def read_lines(stream: BinaryIO, limit: int = MAX_RECORD_BYTES) -> Iterator[Line]:
    """Yields the lines of a stream, counted from 1, without a byte order mark.

    Args:
        stream: Open for reading bytes; not closed.
        limit: Most bytes of a line, its end not counted.
    """
    number = 0
    while data := stream.readline(limit + 1):
        number += 1
        if number == 1:
            data = data.removeprefix(codecs.BOM_UTF8)
        if len(data) > limit and not data.endswith(b"\n"):
            excerpt = data[:_EXCERPT_BYTES]
            del data
            _skip_line(stream)
            yield Line(number, excerpt, is_too_long=True)
        else:
            yield Line(number, data)


def _skip_line(stream: BinaryIO) -> None:
    while (piece := stream.readline(_PIECE)) and not piece.endswith(b"\n"):
        pass


def encoding_fault(error: UnicodeDecodeError) -> str:
    """Says where bytes are not UTF-8, counting from 1."""
    return f"not UTF-8 (invalid byte 0x{error.object[error.start]:02x} at byte {error.start + 1})"


def size_words(size_bytes: int) -> str:
    """A size for a person: `64 MB`."""
    return f"{size_bytes / 1024 / 1024:g} MB"
