"""Filters of questions: conditions on a record's metadata, id, title and source, as parsed from `--where`.

Parses nothing (filter_parser.py does) and looks at no record (filter_matching.py does). Frozen and hashable: equal
filters are the same key of a cache. Source: decisions/0027-filters-of-questions.md.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from polyhop.schemas.errors import ConfigurationError

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
