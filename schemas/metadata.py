"""Values of metadata with their types: numbers, flags, dates and texts, the same in tables and in filters (pure).

Reads no record. Dates are ISO 8601; those without a zone count as UTC.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
"""A text that is a number; those with leading zeros are codes, and a lone sign or point is neither."""

_DATE = re.compile(
    r"(\d{4})(?:-(\d{2})(?:-(\d{2})(?:[T ](\d{2}:\d{2})(:\d{2})?(\.\d{1,6})?(Z|[+-]\d{2}:?\d{2})?)?)?)?", re.ASCII
)
_LAST = datetime.max


@dataclass(frozen=True, slots=True)
class MetadataValue:
    """A value as it was written, and as a number or a time, if it is one; `kind` is number, flag or text."""

    kind: str
    value: str
    number: float | None = None
    moment: datetime | None = None


def values_of(metadata: Mapping[str, object]) -> Iterator[tuple[str, MetadataValue]]:
    """Field and value of everything in a record's metadata; null, and what is empty, has none.

    The fields of an object follow its name after a dot; a list has several values under one name.
    """
    for name, value in metadata.items():
        yield from _values(str(name), value)


def _values(name: str, value: object) -> Iterator[tuple[str, MetadataValue]]:
    if isinstance(value, Mapping):
        for inner, part in value.items():
            yield from _values(f"{name}.{inner}", part)
    elif isinstance(value, list):
        for part in value:
            yield from _values(name, part)
    elif isinstance(value, bool):
        yield name, MetadataValue("flag", "true" if value else "false")
    elif isinstance(value, (int, float)):
        yield name, MetadataValue("number", str(value), _finite(str(value)))
    elif isinstance(value, str):
        yield name, MetadataValue("text", value, number_in(value), moment_in(value))


def number_in(text: str) -> float | None:
    """The number that a text is, if it is one."""
    return _finite(text) if len(text) <= 400 and _NUMBER.fullmatch(text) else None


def moment_in(text: str) -> datetime | None:
    """The first moment of a date with month, or of a date and time; None of anything else, a lone year included."""
    interval = interval_of(text)
    return None if interval is None or text.isdigit() else interval[0]


def interval_of(text: str) -> tuple[datetime, datetime] | None:
    """The moment at which a year, month, day, minute or second begins, and that at which the next one does, in UTC.

    None if the text is no date.
    """
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    year, month, day, minute, second, fraction, zone = match.groups()
    whole = f"{year}-{month or '01'}-{day or '01'}T{minute or '00:00'}{second or ':00'}{fraction or ''}{zone or ''}"
    try:
        begin = datetime.fromisoformat(whole)
        begin = begin.astimezone(UTC).replace(tzinfo=None) if zone else begin
    except (ValueError, OverflowError):
        return None
    try:
        return begin, _next(begin, month, day, minute, second, fraction)
    except (ValueError, OverflowError):
        return begin, _LAST


def _next(begin: datetime, *parts: str | None) -> datetime:
    month, day, minute, second, fraction = parts
    if month is None:
        return begin.replace(year=begin.year + 1)
    if day is None:
        return (begin + timedelta(days=31)).replace(day=1)
    if minute is None:
        return begin + timedelta(days=1)
    if second is None:
        return begin + timedelta(minutes=1)
    return begin + (timedelta(seconds=1) if fraction is None else timedelta(microseconds=1))


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
