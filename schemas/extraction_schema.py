"""A user's own schema for extraction: types with word patterns, and relations with domain, range and synonyms (pure).

A type's pattern is words with `*` for the rest of a name (`Project *`). A relation's labels are compared in lower case
with whitespace collapsed; a label that ends with a synonym is the relation, too (`pumps supplied by`).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.text import fold, norm_ws


@dataclass(frozen=True, slots=True)
class SchemaType:
    """A type of entities; `broader` is the type that it is a kind of, or empty."""

    name: str
    patterns: tuple[str, ...] = ()
    broader: str = ""


@dataclass(frozen=True, slots=True)
class SchemaRelation:
    """A relation, the types that its source and target may have (any if empty), and its other labels.

    Labels of `inverse` say the same from target to source (`leads` for `led by`).
    """

    label: str
    domain: tuple[str, ...] = ()
    range: tuple[str, ...] = ()
    synonyms: tuple[str, ...] = ()
    inverse: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExtractionSchema:
    """Types and relations that a user defined."""

    types: tuple[SchemaType, ...] = ()
    relations: tuple[SchemaRelation, ...] = ()

    def type_of(self, name: str) -> str | None:
        """The first type that has a pattern which a name fits."""
        return next((kind for kind, pattern in self._patterns if pattern.fullmatch(norm_ws(fold(name)))), None)

    @cached_property
    def _patterns(self) -> list[tuple[str, re.Pattern[str]]]:
        return [(kind.name, _pattern(pattern)) for kind in self.types for pattern in kind.patterns]

    @cached_property
    def _labels(self) -> dict[str, tuple[SchemaRelation, bool]]:
        """Relations by each of their labels, and whether the label goes from target to source."""
        labels: dict[str, tuple[SchemaRelation, bool]] = {}
        for relation in self.relations:
            for label in (relation.label, *relation.synonyms):
                labels.setdefault(norm_ws(label), (relation, False))
            for label in relation.inverse:
                labels.setdefault(norm_ws(label), (relation, True))
        return labels

    def relation_of(self, label: str) -> tuple[SchemaRelation, bool] | None:
        """The relation that a label or its last words name, and whether from target to source; None if none does."""
        words = norm_ws(label).split()
        for first in range(len(words)):
            if found := self._labels.get(" ".join(words[first:])):
                return found
        return None

    def allows(self, relation: SchemaRelation, source: str | None, target: str | None) -> bool:
        """Returns whether ends of these types may have a relation; an end without a type may."""
        return self._fits(source, relation.domain) and self._fits(target, relation.range)

    def _fits(self, kind: str | None, allowed: Sequence[str]) -> bool:
        seen: set[str] = set()
        broader = {known.name: known.broader for known in self.types}
        while kind and kind not in allowed and kind not in seen:
            seen.add(kind)
            kind = broader.get(kind, "")
        return not allowed or not seen or kind in allowed

    def guidance(self) -> str:
        """Types and relations as a prompt lists them; empty without any."""
        lines = []
        for relation in self.relations:
            ends = " to ".join("/".join(types) or "any" for types in (relation.domain, relation.range))
            lines.append(f"{relation.label} ({ends})")
        return f"; use these relations wherever they fit: {', '.join(lines)}" if lines else ""


@lru_cache(maxsize=1 << 10)
def _pattern(pattern: str) -> re.Pattern[str]:
    words = [r"\S+(?: \S+)*" if word == "*" else re.escape(word).replace(r"\*", r"\S*") for word in _words(pattern)]
    return re.compile(" ".join(words))


def _words(pattern: str) -> list[str]:
    return norm_ws(fold(pattern)).split()


NO_SCHEMA = ExtractionSchema()


def parse_types(text: str) -> tuple[SchemaType, ...]:
    """Types of the setting `extraction.types`: `PROJECT=Project *|Programme *; SHIP=MV *`."""
    types = []
    for part in filter(str.strip, text.split(";")):
        name, equals, patterns = part.partition("=")
        given = tuple(" ".join(pattern.split()) for pattern in patterns.split("|") if pattern.strip())
        if not equals or not name.strip() or not given:
            raise ConfigurationError(
                f"extraction.types: '{part.strip()}' is not NAME=PATTERN; write for example PROJECT=Project *."
            )
        types.append(SchemaType(type_name(name), checked_patterns(given, "extraction.types")))
    return tuple(types)


def type_name(name: str) -> str:
    """A type's name as it is stored: upper case, words joined by underscores."""
    return "_".join(name.upper().split())


def checked_patterns(patterns: Iterable[str], location: str) -> tuple[str, ...]:
    """The patterns; one without a word besides `*` fits every name and is refused."""
    checked = tuple(patterns)
    for pattern in checked:
        if not pattern.replace("*", "").strip():
            raise ConfigurationError(f"{location}: the pattern '{pattern}' fits every name; add a word to it.")
    return checked


_TYPE_FIELDS = {"patterns", "broader"}
_RELATION_FIELDS = {"domain", "range", "synonyms", "inverse"}


def parse_schema(document: Mapping[str, Any], location: str) -> ExtractionSchema:
    """A schema of the tables `types` and `relations` of a file; any other name in them is an error."""
    for name in document.keys() - {"types", "relations"}:
        raise ConfigurationError(f"{location}: unknown table '{name}'; a schema has the tables types and relations.")
    types = tuple(
        SchemaType(
            type_name(name),
            checked_patterns(_texts(row, "patterns", location), location),
            type_name(str(row.get("broader", ""))),
        )
        for name, row in _rows(document, "types", _TYPE_FIELDS, location)
    )
    relations = tuple(
        SchemaRelation(
            norm_ws(label),
            tuple(map(type_name, _texts(row, "domain", location))),
            tuple(map(type_name, _texts(row, "range", location))),
            _texts(row, "synonyms", location),
            _texts(row, "inverse", location),
        )
        for label, row in _rows(document, "relations", _RELATION_FIELDS, location)
    )
    return ExtractionSchema(types, relations)


def _rows(
    document: Mapping[str, Any], table: str, fields: set[str], location: str
) -> list[tuple[str, Mapping[str, Any]]]:
    rows = document.get(table, {})
    if not isinstance(rows, Mapping) or not all(isinstance(row, Mapping) for row in rows.values()):
        raise ConfigurationError(f"{location}: '{table}' is not a table of tables; write [{table}.NAME].")
    for name, row in rows.items():
        if unknown := sorted(row.keys() - fields):
            raise ConfigurationError(
                f"{location}: [{table}.{name}] has the unknown field '{unknown[0]}'; "
                f"its fields are {', '.join(sorted(fields))}."
            )
    return list(rows.items())


def _texts(row: Mapping[str, Any], name: str, location: str) -> tuple[str, ...]:
    values = row.get(name, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ConfigurationError(f"{location}: '{name}' is not a list of texts; write {name} = [\"…\"].")
    return tuple(values)
