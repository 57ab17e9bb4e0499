"""Filters of questions: DuckDB parses them, conditions on fields are let through, and DuckDB finds what they allow.

Of the text only its values reach the statement, as parameters. Source: decisions/0027-filters-of-questions.md.
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from threading import Timer
from typing import Any
from unicodedata import normalize

import duckdb
import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import FilterError, nearest_name
from polyhop.schemas.records import interval_of, number_in
from polyhop.warehouse.statements import statement

MAX_FILTER_CHARACTERS = 10_000  # chosen: far more than people write; bounds what parsing takes
MAX_FILTER_DEPTH = 50  # of parentheses; chosen: DuckDB takes 3 ms for 50 open ones and .4 s for 500

MAX_WILDCARDS = 100  # of a pattern; chosen: 120,000 characters take 3 ms with 100 of them and 15 s with 1,000
MAX_FILTER_SECONDS = 120.0  # chosen: a bound for hostile filters; two fields of 200,000 records take .4 s

_METADATA = "metadata."
_RECORD_FIELDS = ("id", "document", "title", "source")
"""Fields that every record has; all others begin with `metadata.`, or are dates."""
_DATE_ROLES = ("birth", "death", "founding", "opening", "building", "release", "launch")
_DATE_FIELDS = ("date", *(f"date.{role}" for role in _DATE_ROLES))
"""Dates that a record's passages state: any, and those of a role of the view `dates`."""
_SHOWN_FIELDS = 10  # in an error's sentence; chosen, and it says that there are more
_LATEST_YEAR = 9999  # the last of four digits, as dates are written

_PREFIX = "SELECT 1 WHERE "
_TAKEN = "a filter compares fields by =, !=, <, <=, >, >=, ~, IN, LIKE, BETWEEN and IS NULL, joined by AND, OR and NOT"
_COMPARISONS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "!=",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
}
_TEXT_FUNCTIONS = {"~~": "LIKE", "!~~": "NOT LIKE", "regexp_matches": "~"}
"""What DuckDB's parser makes of LIKE, NOT LIKE and `~`."""

Node = Mapping[str, Any]  # part of a statement as DuckDB's parser sees it
Value = str | float | bool


def allowed_passages(connection: duckdb.DuckDBPyConnection, text: str) -> NDArray[np.int64]:
    """Numbers of the passages whose records a filter allows, ascending.

    Raises:
        FilterError: If it does not parse, names an unknown field, or compares what cannot be compared.
    """
    types = dict.fromkeys(_RECORD_FIELDS, "text")
    types.update(connection.execute(statement("read", "metadata_types")).fetchall())
    if connection.execute(statement("read", "has_dates")).fetchall():
        types |= dict.fromkeys(_DATE_FIELDS, "date")
    condition = _Condition(text, types)
    having = condition.sql(_parsed(connection, text))
    # Every record has an id: it is among the fields so that no record is missing. Dates are parsed for each filter,
    # by patterns in all passages, so they are left out where no date is asked for.
    kinds = ["record_values", "metadata_values", *(["date_values"] if condition.fields & {*_DATE_FIELDS} else [])]
    values = " UNION ALL ".join(statement("read", kind) for kind in kinds)
    sql = f"""
    WITH allowed AS (
        SELECT record_id FROM ({values}) WHERE list_contains($fields, name) GROUP BY record_id HAVING {having}
    ),
    numbered AS (SELECT record_id, row_number() OVER (ORDER BY passage_id) - 1 AS number FROM passages)
    SELECT number FROM numbered SEMI JOIN allowed USING (record_id) ORDER BY number"""
    timer = Timer(MAX_FILTER_SECONDS, connection.interrupt)
    timer.start()
    try:
        found = connection.execute(sql, {**condition.parameters, "fields": [*condition.fields]}).fetchnumpy()
    except duckdb.InterruptException as error:
        raise FilterError(f"finding what it allows takes more than {MAX_FILTER_SECONDS:g} s", 1) from error
    finally:
        timer.cancel()
    return found["number"].astype(np.int64)


def require_condition(text: str) -> None:
    """Raises FilterError unless a text alone is a condition; its fields are not looked up."""
    with duckdb.connect() as connection:
        _parsed(connection, text)


def _parsed(connection: duckdb.DuckDBPyConnection, text: str) -> Node:
    """The condition that a filter is, as DuckDB's parser sees it."""
    if len(text) > MAX_FILTER_CHARACTERS:
        reason = f"it is {len(text):,} characters long; the limit is {MAX_FILTER_CHARACTERS:,}"
        raise FilterError(reason, MAX_FILTER_CHARACTERS + 1)
    deep = f"it is nested more than {MAX_FILTER_DEPTH} levels deep"
    depths = [*accumulate((each == "(") - (each == ")") for each in text)]
    if max(depths, default=0) > MAX_FILTER_DEPTH:
        raise FilterError(deep, depths.index(MAX_FILTER_DEPTH + 1) + 1)
    if text.encode(errors="ignore").decode() != text:
        raise FilterError("it holds bytes that are not valid UTF-8", 1)
    (serialized,) = connection.execute("SELECT json_serialize_sql($1::VARCHAR)", [_PREFIX + text]).fetchone() or ("",)
    try:
        tree = json.loads(serialized)
    except RecursionError as error:
        raise FilterError(deep, 1) from error
    if tree["error"]:
        raise FilterError(tree["error_message"], _column(text, tree.get("position", 0)))
    node, *others = tree["statements"]
    parts = {name: part for name, part in node["node"].items() if part and part != {"map": []}}
    # Whatever can follow a condition in SQL is a separate part: GROUP BY, ORDER BY, UNION, FROM behind a semicolon.
    if others or parts.keys() != _PARTS or parts["type"] != "SELECT_NODE":
        raise FilterError(_TAKEN, 1)
    condition: Node = parts["where_clause"]
    return condition


_PARTS = {"type", "select_list", "from_table", "where_clause", "aggregate_handling"}
"""Of a statement that is nothing but `SELECT 1 WHERE …`."""


def _column(text: str, position: object) -> int:
    """The character, from 1, of a position in bytes in the statement."""
    offset = int(str(position)) - len(_PREFIX)
    return len(text.encode()[: max(0, offset)].decode(errors="ignore")) + 1


class _Condition:
    """Makes a condition on the values of a record: aggregates, each over the values of one field.

    An aggregate over nothing that can be compared is NULL, and SQL's logic does the rest: neither a comparison nor its
    opposite allows a record without the field.
    """

    def __init__(self, text: str, types: Mapping[str, str]) -> None:
        self.fields = {"id"}  # and those that it names
        self.parameters: dict[str, object] = {}  # its values, by name
        self._text = text
        self._types = types

    def sql(self, node: Node) -> str:
        """The condition in SQL."""
        kind, children = node["type"], node.get("children", ())
        if kind in {"CONJUNCTION_AND", "CONJUNCTION_OR"}:
            return f"({kind.removeprefix('CONJUNCTION_').join(f' {self.sql(child)} ' for child in children)})"
        if kind == "OPERATOR_NOT":
            return f"(NOT {self.sql(children[0])})"
        if kind in {"OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"}:
            field = self._field(children[0])
            return f"(count(*) FILTER (name = {self._parameter(field)}) {'=' if kind == 'OPERATOR_IS_NULL' else '>'} 0)"
        if kind in _COMPARISONS:
            return self._compared(node["left"], _COMPARISONS[kind], [node["right"]])
        if kind == "COMPARE_IN":
            return self._compared(children[0], "=", children[1:])
        if kind == "COMPARE_BETWEEN":
            since = self._compared(node["input"], ">=", [node["lower"]])
            return f"({since} AND {self._compared(node['input'], '<=', [node['upper']])})"
        function, arguments = node.get("function_name"), [each["expression"] for each in node.get("arguments", ())]
        if function in _TEXT_FUNCTIONS and len(arguments) == 2:
            return self._compared(arguments[0], _TEXT_FUNCTIONS[function], arguments[1:])
        raise self._error(node, _TAKEN)

    def _compared(self, left: Node, operator: str, right: Sequence[Node]) -> str:
        """Condition that some value of a field matches the operator for one of these values."""
        if operator in {"!=", "NOT LIKE"}:
            return f"(NOT {self._compared(left, '=' if operator == '!=' else 'LIKE', right)})"
        field, values = self._field(left), [self._value(each) for each in right]
        for value in values:
            fault = _misfit(self._types[field], operator, value)
            if fault:
                raise self._error(left, fault if operator in _TEXT_FUNCTIONS.values() else f"{field} holds {fault}")
        found: list[str] = []
        texts = [normalize("NFC", value) for value in values if isinstance(value, str)]
        if operator == "=" and self._types[field] != "date" and texts:
            # Looked up in 1,000 texts, 200,000 records take 1.4 s; compared with one after the other, 14 s.
            values = [value for value in values if not isinstance(value, str)]
            found = [f"CASE WHEN kind = 'text' THEN list_contains({self._parameter(texts)}, nfc_normalize(value)) END"]
        conditions = [*found, *(self._of_value(field, operator, value) for value in values)]
        return f"bool_or({' OR '.join(conditions)}) FILTER (name = {self._parameter(field)})"

    def _of_value(self, field: str, operator: str, value: Value) -> str:
        """The condition on one value of a field; NULL where it cannot be compared."""
        if isinstance(value, bool):
            return f"CASE WHEN kind = 'flag' THEN value = {self._parameter(str(value).lower())} END"
        if self._types[field] == "date" and operator in _COMPARISONS.values():
            if operator == "=":
                return f"({self._of_value(field, '>=', value)} AND {self._of_value(field, '<=', value)})"
            begin, end = _interval(value) or (None, None)
            bound = begin if operator in {"<", ">="} else end
            return f"moment {operator[0]}{'=' if operator[0] == '>' else ''} {self._parameter(bound)}"
        if isinstance(value, float):
            return f"number {operator} {self._parameter(value)}"
        value = normalize("NFC", value)
        if operator == "~":
            return f"contains(lower(nfc_normalize(value)), lower({self._parameter(value)}))"
        if operator == "LIKE":
            # As a regular expression, which takes time in proportion to the text; DuckDB's LIKE goes back at each `%`.
            pattern = "".join({"%": ".*", "_": "."}.get(character, re.escape(character)) for character in value)
            return f"regexp_full_match(nfc_normalize(value), {self._parameter(pattern)}, 's')"
        return f"CASE WHEN kind = 'text' THEN nfc_normalize(value) {operator} {self._parameter(value)} END"

    def _parameter(self, value: object) -> str:
        name = f"v{len(self.parameters)}"
        self.parameters[name] = value
        return f"${name}"

    def _field(self, node: Node) -> str:
        if node["type"] != "COLUMN_REF":
            raise self._error(
                node, f"a field (id, document, title, source, date or metadata.NAME) comes first; {_TAKEN}"
            )
        first, *rest = node["column_names"]
        field = ".".join([first.lower() if first.lower() == "metadata" and rest else first, *rest])
        if field not in self._types:
            raise self._error(node, self._unknown(field))
        self.fields.add(field)
        return field

    def _unknown(self, field: str) -> str:
        if field in _DATE_FIELDS:
            return "this version has no dates; they are found with the entities, by the stages of the strategy bridge"
        if not field.startswith(_METADATA):
            meant = nearest_name(field, [*_RECORD_FIELDS, *_DATE_FIELDS]) or f"metadata.{field}"
            return f"unknown field '{field}'; did you mean {'metadata.NAME' if field == 'metadata' else meant}?"
        known = sorted(name.removeprefix(_METADATA) for name in self._types if name.startswith(_METADATA))
        near = nearest_name(field.removeprefix(_METADATA), known)
        if near:
            return f"no record has a field {field}; did you mean {_METADATA}{near}?"
        shown = ", ".join(_METADATA + name for name in known[:_SHOWN_FIELDS])
        shown += " and others" if len(known) > _SHOWN_FIELDS else ""
        return f"no record has a field {field}; {f'there are {shown}' if known else 'none of this index has metadata'}"

    def _value(self, node: Node) -> Value:
        literal = node.get("literal") or {"kind": "", "text": ""}
        if literal["kind"] == "STRING":
            return str(literal["text"])
        if literal["kind"] in {"INTEGER", "NUMERIC"}:
            return float(literal["text"])
        if literal["kind"] == "BOOLEAN":
            return bool(literal["text"] == "true")
        if literal["kind"] == "NULL_LITERAL":
            raise self._error(node, "nothing equals NULL; write IS NULL or IS NOT NULL")
        text = f"; quote a text: '{'.'.join(node['column_names'])}'" if node["type"] == "COLUMN_REF" else ""
        raise self._error(node, f"a number, or a text or date in single quotes, was expected{text}")

    def _error(self, node: Node, reason: str) -> FilterError:
        return FilterError(reason, _column(self._text, node.get("query_location", 0)))


def _misfit(kind: str, operator: str, value: Value) -> str | None:
    """Reason why a field of this type cannot be compared with a value; None if it can."""
    if operator in _TEXT_FUNCTIONS.values():
        if isinstance(value, str) and value.count("%") <= MAX_WILDCARDS:
            return None
        return f"{operator} takes a quoted text with at most {MAX_WILDCARDS} %"
    if kind == "flag":
        return None if isinstance(value, bool) and operator == "=" else "true or false; write = TRUE or = FALSE"
    if kind == "number" and not isinstance(value, float):
        is_quoted = isinstance(value, str) and number_in(value) is not None
        return f"numbers; write {value} without quotes" if is_quoted else "numbers; compare it with a number"
    if kind == "date" and _interval(value) is None:
        return "dates; write one as '2020', '2020-05' or '2020-05-31'"
    if kind == "text" and not isinstance(value, str):
        return f"text; quote the value: '{str(value).upper() if isinstance(value, bool) else f'{value:g}'}'"
    return None


def _interval(value: Value) -> tuple[datetime, datetime] | None:
    """Beginning of a date and of the next one, in UTC; a whole number is a year."""
    if isinstance(value, str):
        return interval_of(value)
    is_year = not isinstance(value, bool) and value.is_integer() and 1 <= value <= _LATEST_YEAR
    return interval_of(f"{int(value):04d}") if is_year else None
