"""The text of a filter to its conditions, by a grammar of our own; no text of it ever becomes part of a statement.

    filter     = conditions {OR conditions}            conditions = condition {AND condition}
    condition  = NOT condition | ( filter ) | field test
    test       = (= | == | != | <> | < | <= | > | >=) value | [NOT] IN ( value {, value} )
               | [NOT] BETWEEN value AND value | [NOT] LIKE text | (~ | !~) text | IS [NOT] NULL
    field      = id | document | title | source | metadata.name{.name} | date | date.role
    name       = letters, digits, _ and - | "any text"      role = birth, death, … (schemas/filters.py)
    value      = 'text' | "text" | number | TRUE | FALSE | date (2020, 2020-05, 2020-05-31, 2020-05-31T12:00)

A quote inside a text is written twice. Keywords may be written in any case.
Source: decisions/0027-filters-of-questions.md.
"""

import re
from dataclasses import dataclass

from polyhop.schemas.errors import nearest_name
from polyhop.schemas.filters import (
    DATE_FIELDS,
    MAX_FILTER_CHARACTERS,
    MAX_FILTER_DEPTH,
    METADATA,
    RECORD_FIELDS,
    All,
    Comparison,
    Condition,
    Either,
    Filter,
    FilterError,
    IsNull,
    Not,
    Operator,
    Value,
)

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
    """A field by the name that it has in filters.

    Raises:
        FilterError: If records have no such field; names near it are suggested.
    """
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
