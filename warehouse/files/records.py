"""Shared code of readers: a file's format, its lines in bounded memory, errors as sentences, rules of a record.

What breaks a rule becomes a BadRecord with the reason in words, never an exception.
"""

import codecs
import errno
import gzip
import io
import json
import math
import os
import re
import unicodedata
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from polyhop.schemas.errors import PolyhopError, SourceError
from polyhop.schemas.records import BadRecord, Prediction, QuestionRecord, Section, Source, SourceRecord, Tombstone
from polyhop.schemas.text import INVISIBLE

R = TypeVar("R", QuestionRecord, Prediction)
T = TypeVar("T")

MAX_RECORD_BYTES = 64 * 1024 * 1024  # longest line, CSV field or text file that is read as one record

_PIECE = 1024 * 1024  # bytes of a line that is skipped; chosen: bounds memory
_EXCERPT_BYTES = 800  # of UTF-8: the excerpt's 200 characters have four bytes each at most


@dataclass(frozen=True, slots=True)
class Line:
    """A line with its end; of one that is too long only the beginning is kept."""

    number: int
    data: bytes
    is_too_long: bool = False


def open_bytes(path: Path) -> BinaryIO:
    """Opens a file for reading bytes, unpacking it if its name ends in .gz; UTF-16 with its mark comes as UTF-8."""
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    stream = cast("BinaryIO", opened(path, "rb"))
    if stream.read(2) in _UTF16:
        with stream:
            stream.seek(0)
            return io.BytesIO(stream.read().decode("utf-16", "replace").encode())
    stream.seek(0)
    return stream


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


_PACKED = (".gz", ".parquet")
_MAGIC = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"\x7fELF", "a program"),
    (b"%PDF", "a PDF; convert it to text first"),
    (b"PK\x03\x04", "a ZIP archive or office document; unpack it first"),
    (b"\x1f\x8b", "gzip; rename it to end in .gz"),
    (b"PAR1", "parquet; rename it to end in .parquet"),
)
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_SAMPLE_BYTES = 8192  # of a file's beginning; chosen: binary formats show themselves there
_CONTROL = frozenset(range(32)) - frozenset(b"\t\n\r\f\v\x1b")
_MAX_CONTROL_SHARE = 0.05  # chosen: compressed data has a tenth (26 of 256 values), text hardly one
_FEW = 4  # chosen: so many are forgiven in a file so short that they are a large share


def source_location(source: Source) -> str:
    """Location of a source in manifests and deployments; a link is not resolved, it may lead elsewhere later."""
    return os.path.abspath(source) if isinstance(source, Path) else str(source)  # noqa: PTH100 - resolve() follows links


def suffix_of(path: Path) -> str:
    """The suffix that names the format, in lower case: `.jsonl.gz` for `a.jsonl.gz`."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    return "".join(suffixes) if suffixes[-1:] == [".gz"] else "".join(suffixes[-1:])


_URL = re.compile(r"(?!file:)([A-Za-z][A-Za-z0-9+.-]+):/+(.+)", re.DOTALL)  # a path has lost one of its two slashes


def missing_file(path: Path, advice: str = "check the path.") -> SourceError:
    """The error for a source that does not exist: a path to check, or a URL, which is not read."""
    if url := _URL.fullmatch(str(path)):
        address = f"{url[1]}://{url[2]}"
        reads = "download it and name the file, or name a graph database with --graph"
        return SourceError(f"{address} is a URL, and URLs are not read; {reads}.")
    return SourceError(f"There is no file or folder {path}; {advice}")


def check_source(
    path: Path,
    known: Collection[str],
    *,
    accepts_folder: bool,
    others: Callable[[], Collection[str]] = frozenset,
) -> None:
    """Makes sure that a file or folder can be read at all, with one of the `known` suffixes.

    Suffixes that `others` read, which may be binary, are asked for only about a file that has none of these.
    """
    try:
        if not path.exists():
            raise missing_file(path)
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
        _check_text(path, sample)
    if suffix not in known:
        names = ", ".join(sorted({*known, *others()}))
        raise SourceError(f"{path} has an unknown format; known formats are {names}.")


def _check_text(path: Path, sample: bytes) -> None:
    if sample.startswith(_UTF16):
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
        raise SourceError(f"{path} has no {what}; add at least one.")


def _reason(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "it breaks off in the middle; copy or download it again"
    if isinstance(error, (gzip.BadGzipFile, zlib.error)):
        return "it is not gzip, or damaged; copy it again, or rename it without .gz"
    if isinstance(error, OSError) and error.errno in {errno.EACCES, errno.EPERM}:
        return "permission denied; allow reading it (chmod) or run as a user with permission"
    if isinstance(error, OSError) and error.errno:
        return f"{os.strerror(error.errno)}; check the disk"
    return f"it is damaged or has another format than its name; write it again ({damage(error)})"


ID_FIELDS = ("id", "_id")
TEXT_FIELDS = ("text", "contents", "content", "page_content", "body")
DELETED = "deleted"
STATEMENT_FIELDS = ("subject", "predicate", "object")
_REASON_CHARACTERS = 200  # chosen: a library's sentence, not the content that some libraries quote
EXCERPT_CHARACTERS = 200  # as the column `excerpt` of the quarantine says (schemas/tables.py)
MAX_METADATA_DEPTH = 32  # chosen: far deeper than records are nested, far less than Python's stack takes

_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "true or false"),
    ((int, float), "a number"),
    (str, "a string"),
    ((list, tuple), "a list"),
    (Mapping, "an object"),
    (bytes, "binary data"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """The fields of one record as its format gave them; `line` counts from 1, `raw` is the beginning of the line.

    `sections` say where in the file each part of the field `text` stands; empty where the format does not know.
    """

    line: int
    fields: Mapping[str, object]
    raw: str = ""
    sections: tuple[Section, ...] = ()


class FaultError(ValueError):
    """Reason why a record cannot be used, without a full stop; caught where the record becomes a BadRecord."""


def bad_record(source: str, line: int, reason: str, excerpt: str = "") -> BadRecord:
    """A BadRecord whose strings can be stored: excerpt cut, lone surrogates written out."""
    return BadRecord(storable(source), line, storable(reason), storable(excerpt[:EXCERPT_CHARACTERS].strip()))


def bad_row(source: str, row: Row, reason: str) -> BadRecord:
    """A BadRecord for a row, with the beginning of its line or fields as excerpt."""
    return bad_record(source, row.line, reason, row.raw or excerpt_of(dict(row.fields)))


def excerpt_of(value: object) -> str:
    """A value as JSON, "" if it is nested too deeply for that or has keys that JSON has not."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return ""


def fault_words(error: Exception) -> str:
    """The reason in a FaultError; that of any other error of a parser."""
    return str(error) if isinstance(error, FaultError) else f"it cannot be read ({damage(error)})"


def damage(error: BaseException) -> str:
    """Reason why a library could not read something, on one line, without invisible characters."""
    words = " ".join(str(error).split())
    said = "".join(character for character in words if character.isprintable())[:_REASON_CHARACTERS].rstrip(". ")
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def usable(row: Row, source: str, parse: Callable[[Row, str], T]) -> T | BadRecord:
    """Parses a row; returns a BadRecord on any failure, because the content comes from outside."""
    try:
        return parse(row, source)
    except Exception as error:  # noqa: BLE001 - one odd value must not end the reading of a file
        return bad_row(source, row, fault_words(error))


def distinct_records(
    source: str, rows: Iterable[Row | BadRecord], parse: Callable[[Row, str], R], excerpt: Callable[[R], str]
) -> tuple[list[R], list[BadRecord]]:
    """Records in the order of their rows, and those that are of no use or bear an id that was used before."""
    records: list[R] = []
    bad: list[BadRecord] = []
    line_of: dict[str, int] = {}
    for row in rows:
        record = row if isinstance(row, BadRecord) else usable(row, source, parse)
        if isinstance(record, BadRecord):
            bad.append(record)
        elif record.id in line_of:
            reason = f"the id '{record.id}' was already used in line {line_of[record.id]}"
            bad.append(bad_record(source, row.line, reason, excerpt(record)))
        else:
            line_of[record.id] = row.line
            records.append(record)
    return records, bad


def storable(text: str) -> str:
    r"""The text with lone surrogates (invalid bytes, half emojis) written as `\udce9`, so that UTF-8 can hold it."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def kind_of(value: object) -> str:
    """Kind of a value, for a sentence: `a list`."""
    if value is None:
        return "null"
    return next((words for type_, words in _KINDS if isinstance(value, type_)), f"a {type(value).__name__}")


def to_record(row: Row, source: str, *, record_id: str | None = None) -> SourceRecord | BadRecord:
    """Checks the fields of a row and makes a record of them; unknown fields become metadata."""

    def record(row: Row, source: str) -> SourceRecord:
        text = checked_text(row.fields, TEXT_FIELDS)
        if not row.sections and not text.isascii():
            text = text.translate(INVISIBLE)
        title = checked_title(row.fields.get("title"))
        id_ = checked_id(row.fields, ID_FIELDS) if record_id is None else checked_name("id", record_id)
        metadata = metadata_of(row.fields, {*ID_FIELDS, "title", _first(row.fields, TEXT_FIELDS) or ""})
        return SourceRecord(id_, title, text, storable(source), row.line, metadata, row.sections)

    return usable(row, source, record)


def to_tombstone(row: Row, source: str) -> Tombstone | BadRecord | None:
    """The deletion that a row asks for, None if it is a record: only a row without a text deletes."""
    if row.fields.get(DELETED) is not True or _first(row.fields, TEXT_FIELDS) is not None:
        return None

    def tombstone(row: Row, source: str) -> Tombstone:
        id_ = checked_id(row.fields, ID_FIELDS)
        if not id_:
            raise FaultError("missing id to delete: expected a field named id or _id")
        return Tombstone(id_, storable(source), row.line)

    return usable(row, source, tombstone)


def refuse_statements(path: Path, fields: Mapping[str, object]) -> None:
    """Makes sure that the first row of a file of texts is not a triple."""
    if all(name in fields for name in STATEMENT_FIELDS) and _first(fields, TEXT_FIELDS) is None:
        raise SourceError(f"{path} holds triples of a knowledge graph, not texts; name it with --graph.")


def refuse_texts(path: Path, fields: Mapping[str, object]) -> None:
    """Makes sure that the first row of a graph is not a text."""
    if not any(name in fields for name in STATEMENT_FIELDS) and _first(fields, TEXT_FIELDS) is not None:
        raise SourceError(
            f"{path} holds texts, not triples {{subject, predicate, object}}; name it without --graph, or with "
            "--graph-sources if they belong to nodes of a graph."
        )


def checked_text(fields: Mapping[str, object], names: tuple[str, ...]) -> str:
    """The first of the named fields that is there."""
    name = _first(fields, names)
    if name is None:
        either = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
        raise FaultError(f"missing {names[0]}: expected a field named {either}")
    value = fields[name]
    if not isinstance(value, str):
        raise FaultError(f"the {name} is not a string but {kind_of(value)}")
    if not value.strip():
        raise FaultError(f"the {name} is empty")
    check_characters(name, value)
    return value


def checked_title(value: object) -> str:
    """The title, "" where there is none; whole numbers are written out."""
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise FaultError(f"the title is not a string but {kind_of(value)}")
    check_characters("title", value)
    return value.strip()


def checked_id(fields: Mapping[str, object], names: tuple[str, ...]) -> str:
    """The id as a string, "" where there is none."""
    name = _first(fields, names)
    return "" if name is None else checked_name("id", fields[name])


def checked_name(what: str, value: object) -> str:
    """An id that is there, as a string."""
    if isinstance(value, float) and value.is_integer():  # pandas writes whole numbers so if one is missing
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise FaultError(f"the {what} is neither a string nor a whole number but {kind_of(value)}")
    name = str(value)
    if name.isprintable():  # no control character, NUL or half a character: nearly every name, ten times as fast
        return name
    check_characters(what, name)
    control = next((c for c in name if unicodedata.category(c) in {"Cc", "Zl", "Zp"}), None)
    if control is not None:
        raise FaultError(f"the {what} contains a control character (U+{ord(control):04X})")
    return name


def metadata_of(fields: Mapping[str, object], used: set[str]) -> dict[str, object]:
    """All fields that are not used and not null, as plain JSON values; an object named metadata is laid open."""
    rest = {name: value for name, value in fields.items() if name not in used and value is not None}
    if not rest:
        return {}
    inner = rest.pop("metadata", None)
    if isinstance(inner, Mapping):
        rest.update(inner)
    elif inner is not None:
        rest["metadata"] = inner
    return {str(name): _plain(value, MAX_METADATA_DEPTH) for name, value in rest.items()}


def _plain(value: object, depth: int) -> object:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth == 0:
        raise FaultError(f"the metadata is nested more than {MAX_METADATA_DEPTH} levels deep")
    if isinstance(value, Mapping):
        return {str(name): _plain(inner, depth - 1) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner, depth - 1) for inner in value]
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _first(fields: Mapping[str, object], names: tuple[str, ...]) -> str | None:
    for name in names:  # a generator takes twice as long
        if fields.get(name) is not None:
            return name
    return None


def check_characters(what: str, value: str) -> None:
    """Makes sure that a text can be stored."""
    if "\0" in value:
        raise FaultError(f"the {what} contains a NUL character at character {value.index(chr(0)) + 1}")
    if value.isascii():
        return
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(value[error.start])
        found = f"invalid byte 0x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"half a character, U+{code:04X}"
        raise FaultError(f"the {what} is not valid UTF-8 ({found} at character {error.start + 1})") from error
