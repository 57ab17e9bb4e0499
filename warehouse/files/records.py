"""The rules that a record must keep: its text, title, id and metadata, from fields as a format gave them.

What breaks a rule becomes a BadRecord with the reason in words, never an exception.
"""

import json
import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from polyhop.schemas.errors import SourceError
from polyhop.schemas.records import BadRecord, Section, SourceRecord, Tombstone

ID_FIELDS = ("id", "_id")
TEXT_FIELDS = ("text", "contents", "body")
DELETED = "deleted"
STATEMENT_FIELDS = ("subject", "predicate", "object")
_REASON_CHARACTERS = 200  # chosen: a library's sentence, not the content that some libraries quote
EXCERPT_CHARACTERS = 200  # as the column `excerpt` of the quarantine says (schemas/tables.py)
MAX_METADATA_DEPTH = 32  # chosen: far deeper than records are nested, far less than Python's stack takes

_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "true or false"),
    (int, "a number"),
    (float, "a number"),
    (str, "a string"),
    (list, "a list"),
    (tuple, "a list"),
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
    """Why a record cannot be used, in words without a full stop; caught where the record is turned into a BadRecord."""


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
    """Why a library could not read something: its words on one line, without what shows as nothing."""
    words = " ".join(str(error).split())
    said = "".join(character for character in words if character.isprintable())[:_REASON_CHARACTERS].rstrip(". ")
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


class _Identified(Protocol):
    @property
    def id(self) -> str: ...


R = TypeVar("R", bound=_Identified)
T = TypeVar("T")


def usable(row: Row, source: str, parse: Callable[[Row, str], T]) -> T | BadRecord:
    """What `parse` makes of a row; a BadRecord if it fails, in whatever way: what stands there came from outside."""
    try:
        return parse(row, source)
    except Exception as error:  # noqa: BLE001 - one odd value must not end the reading of a file
        return bad_row(source, row, fault_words(error))


def distinct_records(
    source: str,
    rows: Iterable[Row | BadRecord],
    parse: Callable[[Row, str], R],
    excerpt: Callable[[R], str],
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
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def kind_of(value: object) -> str:
    """What a value is, for a sentence: `a list`."""
    if value is None:
        return "null"
    return next((words for type_, words in _KINDS if isinstance(value, type_)), f"a {type(value).__name__}")


def to_record(row: Row, source: str, *, record_id: str | None = None) -> SourceRecord | BadRecord:
    """Checks the fields of a row and makes a record of them; unknown fields become metadata."""
    return usable(row, source, lambda row, source: _record(row, source, record_id))


def _record(row: Row, source: str, record_id: str | None) -> SourceRecord:
    text = checked_text(row.fields, TEXT_FIELDS)
    title = checked_title(row.fields.get("title"))
    id_ = checked_id(row.fields, ID_FIELDS) if record_id is None else checked_name("id", record_id)
    metadata = metadata_of(row.fields, {*ID_FIELDS, "title", _first(row.fields, TEXT_FIELDS) or ""})
    return SourceRecord(id_, title, text, storable(source), row.line, metadata, row.sections)


def to_tombstone(row: Row, source: str) -> Tombstone | BadRecord | None:
    """The deletion that a row asks for, None if it is a record: only a row without a text deletes."""
    if row.fields.get(DELETED) is not True or _first(row.fields, TEXT_FIELDS) is not None:
        return None

    def tombstone(row: Row, source: str) -> Tombstone:
        id_ = checked_id(row.fields, ID_FIELDS)
        if not id_:
            raise FaultError("there is no id to delete: expected a field named id or _id")
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
        raise FaultError(f"there is no {names[0]}: expected a field named {either}")
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
    return next((name for name in names if fields.get(name) is not None), None)


def check_characters(what: str, value: str) -> None:
    """Makes sure that a text can be stored."""
    if "\0" in value:
        raise FaultError(f"the {what} contains a NUL character at character {value.index(chr(0)) + 1}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(value[error.start])
        found = f"invalid byte 0x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"half a character, U+{code:04X}"
        raise FaultError(f"the {what} is not valid UTF-8 ({found} at character {error.start + 1})") from error
