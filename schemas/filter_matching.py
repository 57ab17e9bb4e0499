"""Which records a filter allows: its conditions on typed values, with a third truth value for what is missing (pure).

A comparison with a field that a record lacks is unknown, and so is its opposite: neither allows the record. Of several
values of one field, one that fits is enough.
Source: decisions/0027-filters-of-questions.md; three-valued logic as in SQL.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import nearest_name
from polyhop.schemas.filters import (
    DATE_FIELDS,
    METADATA,
    All,
    Comparison,
    Condition,
    Either,
    Filter,
    FilterError,
    IsNull,
    Not,
    Value,
)
from polyhop.schemas.metadata import interval_of, number_in

Mask = NDArray[np.bool_]
Truth = tuple[Mask, Mask]
"""Shape (records,) each: where a condition is true, and where it is known."""

_LATEST_YEAR = 9999  # the last of four digits, as dates are written
_SHOWN_FIELDS = 10  # in an error's sentence; chosen, and it says that there are more


@dataclass(frozen=True, slots=True)
class FieldValues:
    """Values of one field, one per entry.

    Attributes:
        rows: Shape (n,), int64, ascending: numbers of their records.
        texts: As texts.
        kinds: number, flag or text.
        numbers: Shape (n,), float64; NaN where it is no number.
        moments: Shape (n,), datetime64[us], UTC; NaT where it is no date.
    """

    rows: NDArray[np.int64]
    texts: Sequence[str]
    kinds: Sequence[str]
    numbers: NDArray[np.float64]
    moments: NDArray[np.datetime64]


@dataclass(frozen=True, slots=True)
class RecordFields:
    """What the records of a version can be filtered by.

    Attributes:
        count: Records.
        passage_records: Shape (passages,), int64: record of each passage.
        types: Type of each field: number, flag, date, text or mixed.
        values: Reads the values of a field.
    """

    count: int
    passage_records: NDArray[np.int64]
    types: Mapping[str, str]
    values: Callable[[str], FieldValues]


def allowed_passages(asked: Filter, fields: RecordFields) -> NDArray[np.int64]:
    """Numbers of the passages whose records a filter allows, ascending.

    Raises:
        FilterError: As `check_filter`.
    """
    check_filter(asked, fields.types)
    matches, _ = _truth(asked.condition, fields)
    return np.flatnonzero(matches[fields.passage_records]).astype(np.int64)


def check_filter(asked: Filter, types: Mapping[str, str]) -> None:
    """Makes sure that the fields of a filter exist, and can be compared with its values.

    Raises:
        FilterError: If not; says where, and what to write.
    """
    for leaf in asked.leaves():
        if leaf.field not in types:
            raise FilterError(_unknown(leaf.field, types), leaf.column)
        if isinstance(leaf, Comparison) and leaf.operator not in {"like", "~"}:
            for value in leaf.values:
                fault = _misfit(leaf, types[leaf.field], value)
                if fault:
                    raise FilterError(f"{leaf.field} holds {fault}", leaf.column)


def _unknown(field: str, types: Mapping[str, str]) -> str:
    if field in DATE_FIELDS:
        return "this version has no dates; they are found with the entities, by the stages of the strategy bridge"
    known = sorted(name.removeprefix(METADATA) for name in types if name.startswith(METADATA))
    near = nearest_name(field.removeprefix(METADATA), known)
    if near:
        return f"no record has a field {field}; did you mean {METADATA}{near}?"
    shown = ", ".join(METADATA + name for name in known[:_SHOWN_FIELDS])
    shown += " and others" if len(known) > _SHOWN_FIELDS else ""
    return f"no record has a field {field}; {f'there are {shown}' if known else 'none of this index has metadata'}"


def _misfit(leaf: Comparison, kind: str, value: Value) -> str | None:
    """Why a field of this type cannot be compared with a value, None if it can."""
    if kind == "flag":
        return None if isinstance(value, bool) and leaf.operator == "=" else "true or false; write = TRUE or = FALSE"
    if kind == "number" and not isinstance(value, float):
        is_quoted = isinstance(value, str) and number_in(value) is not None
        return f"numbers; write {value} without quotes" if is_quoted else "numbers; compare it with a number"
    if kind == "date" and _interval(value) is None:
        return "dates; write one as '2020', '2020-05' or '2020-05-31'"
    return _misfit_of_text(value) if kind == "text" else None


def _misfit_of_text(value: Value) -> str | None:
    if isinstance(value, str):
        return None
    written = str(value).upper() if isinstance(value, bool) else f"{value:g}"
    return f"text; quote the value: '{written}'"


def _interval(value: Value) -> tuple[np.datetime64, np.datetime64] | None:
    """When a date begins and the next one does; a whole number is a year."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        is_year = value.is_integer() and 1 <= value <= _LATEST_YEAR
        value = f"{int(value):04d}" if is_year else ""
    found = interval_of(value)
    return None if found is None else (np.datetime64(found[0], "us"), np.datetime64(found[1], "us"))


def _truth(condition: Condition, fields: RecordFields) -> Truth:
    match condition:
        case Not(of):
            is_true, is_known = _truth(of, fields)
            return is_known & ~is_true, is_known
        case All(parts):
            return _combined([_truth(part, fields) for part in parts], np.logical_and, np.logical_or)
        case Either(parts):
            return _combined([_truth(part, fields) for part in parts], np.logical_or, np.logical_and)
        case IsNull(field):
            is_missing = np.ones(fields.count, dtype=np.bool_)
            is_missing[fields.values(field).rows] = False
            return is_missing, np.ones(fields.count, dtype=np.bool_)
        case Comparison():
            return _compared(condition, fields)


def _combined(truths: Sequence[Truth], when_true: np.ufunc, when_false: np.ufunc) -> Truth:
    """A whole, true and false where its parts so combined are; unknown elsewhere."""
    is_true = when_true.reduce([each for each, _ in truths])
    is_false = when_false.reduce([known & ~each for each, known in truths])
    return is_true, is_true | is_false


def _compared(leaf: Comparison, fields: RecordFields) -> Truth:
    values = fields.values(leaf.field)
    fits = np.zeros(len(values.rows), dtype=np.bool_)
    comparable = np.zeros(len(values.rows), dtype=np.bool_)
    for value in leaf.values:
        hit, could = _hits(leaf, fields.types[leaf.field], value, values)
        fits |= hit
        comparable |= could
    is_true, is_known = np.zeros(fields.count, dtype=np.bool_), np.zeros(fields.count, dtype=np.bool_)
    is_true[values.rows[fits]] = True
    is_known[values.rows[comparable]] = True
    return is_true, is_known


def _hits(leaf: Comparison, kind: str, value: Value, values: FieldValues) -> Truth:
    """Shape (values,) each: those that fit, and those that can be compared with the value at all."""
    everywhere = np.ones(len(values.rows), dtype=np.bool_)
    if leaf.operator in {"like", "~"}:
        fits = like(str(value)) if leaf.operator == "like" else contains(str(value))
        return _each(map(fits, values.texts), len(everywhere)), everywhere
    if isinstance(value, bool):
        is_flag = _each((each == "flag" for each in values.kinds), len(everywhere))
        return is_flag & _each((each == str(value).lower() for each in values.texts), len(everywhere)), is_flag
    if kind == "date":
        begin, end = _interval(value) or (np.datetime64("NaT"), np.datetime64("NaT"))
        return _within(leaf.operator, values.moments, begin, end), ~np.isnat(values.moments)
    if isinstance(value, float):
        with np.errstate(invalid="ignore"):
            return _within(leaf.operator, values.numbers, value, None), ~np.isnan(values.numbers)
    is_text = _each((each == "text" for each in values.kinds), len(everywhere))
    compare, wanted = _TEXT[leaf.operator], composed(value)
    return is_text & _each((compare(composed(each), wanted) for each in values.texts), len(everywhere)), is_text


_TEXT: Mapping[str, Callable[[str, str], bool]] = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _within(operator: str, values: NDArray[Any], begin: object, end: object | None) -> Mask:
    """Values compared with the interval from `begin` up to before `end`, or with `begin` alone."""
    low, high = np.asarray(begin), None if end is None else np.asarray(end)
    before, until = values < low, values <= low if high is None else values < high
    after, since = values > low if high is None else values >= high, values >= low
    found: Mask = {"<": before, "<=": until, ">": after, ">=": since, "=": since & until}[operator]
    return found


def _each(flags: Iterable[bool], count: int) -> Mask:
    return np.fromiter(flags, dtype=np.bool_, count=count)


def composed(text: str) -> str:
    """Unicode's composed form (NFC): letters with accents are equal however they are stored."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def contains(wanted: str) -> Callable[[str], bool]:
    """Whether a text contains another one, upper and lower case being equal."""
    folded = composed(wanted).casefold()
    return lambda text: folded in composed(text).casefold()


def like(pattern: str) -> Callable[[str], bool]:
    """Whether a whole text is like a pattern: `%` is any text, `_` any character.

    Cost: O(characters of text and pattern): parts between `%` are found one after the other, without going back.
    """
    parts = [re.compile(".".join(map(re.escape, part.split("_"))), re.DOTALL) for part in composed(pattern).split("%")]
    lengths = [len(part) for part in composed(pattern).split("%")]

    def fits(text: str) -> bool:
        text = composed(text)
        if len(parts) == 1:
            return parts[0].fullmatch(text) is not None
        if parts[0].match(text) is None:
            return False
        at, end = lengths[0], len(text) - lengths[-1]
        for part in parts[1:-1]:
            found = part.search(text, at)
            if found is None:
                return False
            at = found.end()
        return at <= end and parts[-1].fullmatch(text, end) is not None

    return fits
