"""What every reader needs to know of a file: format, existence, its lines in bounded memory, and errors in words."""

import codecs
import errno
import gzip
import os
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from polyhop.schemas.errors import PolyhopError, SourceError
from polyhop.schemas.records import Source
from polyhop.warehouse.files.records import damage

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
    """Yields the lines of a stream, counted from 1, without a byte order mark."""
    number = 0
    while data := stream.readline(limit + 1):
        number += 1
        if number == 1:
            data = data.removeprefix(codecs.BOM_UTF8)
        if len(data) > limit and not data.endswith(b"\n"):
            excerpt = data[:_EXCERPT_BYTES]
            del data
            while (piece := stream.readline(_PIECE)) and not piece.endswith(b"\n"):
                pass
            yield Line(number, excerpt, is_too_long=True)
        else:
            yield Line(number, data)


def encoding_fault(error: UnicodeDecodeError) -> str:
    """Says where bytes are not UTF-8, counting from 1."""
    return f"not UTF-8 (invalid byte 0x{error.object[error.start]:02x} at byte {error.start + 1})"


def size_words(size_bytes: int) -> str:
    """A size for a person: `64 MB`."""
    return f"{size_bytes / 1024 / 1024:g} MB"


T = TypeVar("T")
_PACKED = (".gz", ".parquet")
_MAGIC = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"\x7fELF", "a program"),
    (b"%PDF", "a PDF; convert it to text first"),
    (b"PK\x03\x04", "a ZIP archive or office document; unpack it first"),
    (b"\x1f\x8b", "gzip; let its name end in .gz"),
    (b"PAR1", "parquet; let its name end in .parquet"),
    (b"\xff\xfe", "UTF-16; save it as UTF-8"),
    (b"\xfe\xff", "UTF-16; save it as UTF-8"),
)
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_SAMPLE_BYTES = 8192  # of a file's beginning; chosen: binary formats show themselves there
_CONTROL = frozenset(range(32)) - frozenset(b"\t\n\r\f\v\x1b")
_MAX_CONTROL_SHARE = 0.05  # chosen: compressed data has a tenth (26 of 256 values), text hardly one
_FEW = 4  # chosen: so many are forgiven in a file so short that they are a large share


def place_of(source: Source) -> str:
    """Where a source is read, as manifests and deployments name it; a link stays one, it may lead elsewhere later."""
    return os.path.abspath(source) if isinstance(source, Path) else str(source)  # noqa: PTH100 - resolve() follows links


def suffix_of(path: Path) -> str:
    """The suffix that names the format, in lower case: `.jsonl.gz` for `a.jsonl.gz`."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    return "".join(suffixes) if suffixes[-1:] == [".gz"] else "".join(suffixes[-1:])


def check_source(
    path: Path,
    known: Collection[str],
    *,
    accepts_folder: bool,
    others: Callable[[], Collection[str]] = frozenset,
    decoded: Collection[str] = (),
) -> None:
    """Makes sure that a file or folder can be read at all.

    Args:
        path: File or folder.
        known: Suffixes that are read.
        accepts_folder: Whether a folder is a source.
        others: Suffixes that other packages read, asked only about a file that has none of `known`; such a file may be
            binary.
        decoded: Suffixes whose readers take UTF-16, too.
    """
    try:
        if not path.exists():
            raise SourceError(f"There is no file or folder {path}; check the path.")
        if path.is_dir():
            if not accepts_folder:
                raise SourceError(f"{path} is a folder; name a file in it.")
            os.scandir(path).close()
            return
        if not path.is_file():
            raise SourceError(f"{path} is neither a file nor a folder; save its content as a file first.")
        with path.open("rb") as file:
            sample = file.read(_SAMPLE_BYTES)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {_reason(error)}.") from error
    suffix = suffix_of(path)
    if not sample:
        raise SourceError(f"{path} is empty; name a file with at least one record.")
    if suffix not in known and suffix in others():
        return
    if not suffix.endswith(_PACKED):
        _check_text(path, sample, takes_utf16=suffix in decoded)
    if suffix not in known:
        names = ", ".join(sorted({*known, *others()}))
        raise SourceError(f"{path} has an unknown format; known formats are {names}.")


def _check_text(path: Path, sample: bytes, *, takes_utf16: bool) -> None:
    if takes_utf16 and sample.startswith(_UTF16):
        return
    kind = next((words for magic, words in _MAGIC if sample.startswith(magic)), None)
    control_count = sum(byte in _CONTROL for byte in sample)
    if kind is None and control_count > max(_FEW, _MAX_CONTROL_SHARE * len(sample)):
        kind = "binary"
    if kind is not None:
        raise SourceError(f"{path} is not a text file: it is {kind}.")


def guarded(path: Path, items: Iterator[T], what: str) -> Iterator[T]:
    """Passes items on, and says in words why a file cannot be read to its end or holds nothing.

    Raises:
        SourceError: If reading breaks off (what came before was yielded), or nothing came.
    """
    count = 0
    try:
        for item in items:
            count += 1
            yield item
    except PolyhopError:
        raise
    except Exception as error:  # whatever parses a file from outside may fail in any way
        after = f" after record {count}" if count else ""
        raise SourceError(f"{path} cannot be read{after}: {_reason(error)}.") from error
    if not count:
        raise SourceError(f"{path} holds no {what}; at least one is needed.")


def _reason(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "it breaks off in the middle; copy or download it again"
    if isinstance(error, (gzip.BadGzipFile, zlib.error)):
        return "it is not gzip, or damaged; copy it again, or let its name not end in .gz"
    if isinstance(error, OSError) and error.errno in {errno.EACCES, errno.EPERM}:
        return "permission denied; allow reading it (chmod) or run as a user who may"
    if isinstance(error, OSError) and error.errno:
        return f"{os.strerror(error.errno)}; check the disk"
    return f"it is damaged or not what its name says; write it again ({damage(error)})"
