"""Filters of questions: their grammar, their conditions on metadata, and which records they allow.

Frozen and hashable: equal filters are the same key of a cache. Source: decisions/0027-filters-of-questions.md.
"""

import dataclasses
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import ConfigurationError, nearest_name
from polyhop.schemas.records import interval_of, number_in

METADATA = "metadata."
RECORD_FIELDS = ("id", "document", "title", "source")
"""Fields that every record has; all others begin with `metadata.`, or are dates."""
DATE_FIELD = "date"
DATE_ROLES = ("birth", "death", "founding", "opening", "building", "release", "launch")
"""What happened on a date, as the view `dates` has it."""
DATE_FIELDS = (DATE_FIELD, *(f"{DATE_FIELD}.{role}" for role in DATE_ROLES))
"""Dates that a record's passages state: any, and those of a role."""

MAX_FILTER_CHARACTERS = 10_000  # chosen: far more than people write; bounds what parsing takes
MAX_FILTER_DEPTH = 50
"""Of parentheses and NOT; chosen: far more than people write, far less than Python's stack takes."""

Value = str | float | bool
Operator = Literal["=", "<", "<=", ">", ">=", "like", "~"]


class FilterError(ConfigurationError):
    """A filter cannot be used: it does not parse, names an unknown field, or compares what cannot be compared.

    Attributes:
        column: Character of the filter at which it is wrong, from 1.
    """

    def __init__(self, reason: str, column: int) -> None:
        self.column = column
        super().__init__(f"The filter is wrong at column {column}: {reason}{'' if reason.endswith('?') else '.'}")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A field compared with values, one of which is enough; `column` is where the field stands in the filter.

    `kinds` tells TRUE from 1, which Python holds for equal.
    """

    field: str
    operator: Operator
    values: tuple[Value, ...]
    column: int = dataclasses.field(compare=False)
    kinds: tuple[type[Value], ...] = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Notes the kinds of the values."""
        object.__setattr__(self, "kinds", tuple(map(type, self.values)))


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether a record lacks a field."""

    field: str
    column: int = dataclasses.field(compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; unknown stays unknown."""

    of: "Condition"


@dataclass(frozen=True, slots=True)
class All:
    """All of some conditions."""

    of: tuple["Condition", ...]


@dataclass(frozen=True, slots=True)
class Either:
    """At least one of some conditions."""

    of: tuple["Condition", ...]


Condition = Comparison | IsNull | Not | All | Either


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter as it was written, and what it says; filters that say the same are equal."""

    text: str = dataclasses.field(compare=False)
    condition: Condition

    def leaves(self) -> Iterator[Comparison | IsNull]:
        """Its conditions on single fields, from left to right."""
        yield from _leaves(self.condition)


def _leaves(condition: Condition) -> Iterator[Comparison | IsNull]:
    match condition:
        case Comparison() | IsNull():
            yield condition
        case Not(of):
            yield from _leaves(of)
        case All(parts) | Either(parts):
            for part in parts:
                yield from _leaves(part)


# Source: decisions/0027-filters-of-questions.md; three-valued logic as in SQL.

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


# Source: decisions/0027-filters-of-questions.md.

_TOKEN = re.compile(
    r"""(?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
    |(?P<date>\d{4}-\d{2}(?:-\d{2}(?:T[\d:.]+(?:Z|[+-]\d{2}:?\d{2})?)?)?(?![\w.]))
    |(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<name>[^\W\d][\w-]*(?:\.(?:[\w-]+|"(?:[^"]|"")*"))*)
    |(?P<sign>==|=|!=|<>|<=|>=|<|>|!~|~|\(|\)|,)""",
    re.VERBOSE,
)
_SEGMENT = re.compile(r'"(?:[^"]|"")*"|[^."]+')
_KEYWORDS = frozenset({"and", "or", "not", "in", "like", "is", "null", "between", "true", "false"})
_OPERATORS: dict[str, tuple[Operator, bool]] = {
    "=": ("=", False),
    "==": ("=", False),
    "!=": ("=", True),
    "<>": ("=", True),
    "<": ("<", False),
    "<=": ("<=", False),
    ">": (">", False),
    ">=": (">=", False),
    "~": ("~", False),
    "!~": ("~", True),
}
"""Signs, what they ask, and whether the opposite of it."""


@dataclass(frozen=True, slots=True)
class _Token:
    """A word of a filter; keywords are of their own kind, in lower case. The last one is of the kind `end`."""

    kind: str
    text: str
    column: int


def parse_filter(text: str) -> Filter:
    """A filter from its text.

    Raises:
        FilterError: If it does not parse; says at which character, counted from 1.
    """
    if len(text) > MAX_FILTER_CHARACTERS:
        raise FilterError(
            f"it is {len(text):,} characters long; the limit is {MAX_FILTER_CHARACTERS:,}", MAX_FILTER_CHARACTERS + 1
        )
    parser = _Parser(_tokens(text))
    condition = parser.either(0)
    parser.require("end", "AND, OR or the end")
    return Filter(" ".join(text.split()), condition)


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        match = _TOKEN.match(text, at)
        if match is None:
            if text[at] in "'\"":
                raise FilterError("this quote is never closed; write the quote again after the text", at + 1)
            raise FilterError(f"{text[at]!r} cannot stand here", at + 1)
        kind, word = str(match.lastgroup), match.group()
        is_keyword = kind == "name" and word.lower() in _KEYWORDS
        found.append(_Token("keyword" if is_keyword else kind, word.lower() if is_keyword else word, at + 1))
        at = match.end()
    return [*found, _Token("end", "", len(text) + 1)]


class _Parser:
    """Reads tokens from left to right."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def either(self, depth: int) -> Condition:
        """Conditions joined by OR, which binds less than AND."""
        parts = [self._both(depth)]
        while self._takes("or"):
            parts.append(self._both(depth))
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def require(self, expected: str, words: str) -> _Token:
        """The next token, which must be this keyword or sign, or of this kind; `words` say what was expected."""
        token = self._tokens[self._at]
        if token.kind != expected and (token.kind not in {"keyword", "sign"} or token.text != expected):
            found = f"'{token.text}'" if token.kind != "end" else "the end"
            raise FilterError(f"{words} was expected, not {found}", token.column)
        self._at += token.kind != "end"
        return token

    def _takes(self, expected: str) -> bool:
        token = self._tokens[self._at]
        is_next = token.kind in {"keyword", "sign"} and token.text == expected
        self._at += is_next
        return is_next

    def _both(self, depth: int) -> Condition:
        parts = [self._condition(depth)]
        while self._takes("and"):
            parts.append(self._condition(depth))
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _condition(self, depth: int) -> Condition:
        token = self._tokens[self._at]
        if depth > MAX_FILTER_DEPTH:
            raise FilterError(f"it is nested more than {MAX_FILTER_DEPTH} levels deep", token.column)
        if self._takes("not"):
            return Not(self._condition(depth + 1))
        if self._takes("("):
            inner = self.either(depth + 1)
            self.require(")", "AND, OR or ')'")
            return inner
        named = self.require("name", "a field (id, document, title, source, date or metadata.NAME)")
        return self._test(field_of(named.text, named.column), named.column)

    def _test(self, field: str, column: int) -> Condition:
        if self._takes("is"):
            is_not = self._takes("not")
            self.require("null", "NULL or NOT NULL")
            return _turned(IsNull(field, column), is_not=is_not)
        sign = self._tokens[self._at]
        if sign.kind == "sign" and sign.text in _OPERATORS:
            self._at += 1
            operator, is_not = _OPERATORS[sign.text]
            value = self._text("~") if operator == "~" else self._value()
            return _turned(Comparison(field, operator, (value,), column), is_not=is_not)
        is_not = self._takes("not")
        return _turned(self._worded_test(field, column), is_not=is_not)

    def _worded_test(self, field: str, column: int) -> Condition:
        if self._takes("like"):
            return Comparison(field, "like", (self._text("LIKE"),), column)
        if self._takes("between"):
            low = Comparison(field, ">=", (self._value(),), column)
            self.require("and", "AND")
            return All((low, Comparison(field, "<=", (self._value(),), column)))
        self.require("in", "a comparison (=, !=, <, <=, >, >=, ~, IN, LIKE, BETWEEN, IS NULL)")
        self.require("(", "'('")
        values = [self._value()]
        while self._takes(","):
            values.append(self._value())
        self.require(")", "',' or ')'")
        return Comparison(field, "=", tuple(values), column)

    def _value(self) -> Value:
        token = self._tokens[self._at]
        self._at += token.kind != "end"
        if token.kind == "number":
            return float(token.text)
        if token.kind == "date":
            return token.text
        if token.kind == "text":
            return _unquoted(token.text)
        if token.kind == "keyword" and token.text in {"true", "false"}:
            return token.text == "true"
        if token.kind == "keyword" and token.text == "null":
            raise FilterError("nothing equals NULL; write IS NULL or IS NOT NULL", token.column)
        advice = f"; quote a text: '{token.text}'" if token.kind == "name" else ""
        found = f"'{token.text}'" if token.kind != "end" else "the end"
        raise FilterError(f"a number, a date or a quoted text was expected, not {found}{advice}", token.column)

    def _text(self, operator: str) -> str:
        column = self._tokens[self._at].column
        value = self._value()
        if not isinstance(value, str):
            raise FilterError(f"{operator} takes a quoted text", column)
        return value


def _turned(condition: Condition, *, is_not: bool) -> Condition:
    return Not(condition) if is_not else condition


def field_of(name: str, column: int) -> str:
    """A field by the name that it has in filters."""
    if name in RECORD_FIELDS or name in DATE_FIELDS:
        return name
    if name.lower().startswith(METADATA):
        segments = _SEGMENT.findall(name[len(METADATA) :])
        return METADATA + ".".join(_unquoted(segment) if segment[0] == '"' else segment for segment in segments)
    known = [*RECORD_FIELDS, *DATE_FIELDS, "metadata"]
    near = "metadata.NAME" if name.lower() == "metadata" else nearest_name(name, known) or f"metadata.{name}"
    raise FilterError(f"there is no field '{name}'; did you mean {near}?", column)


def _unquoted(text: str) -> str:
    return text[1:-1].replace(text[0] * 2, text[0])
