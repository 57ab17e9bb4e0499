"""Answers that rules compute: what each compared, and how often its rule is right.

Computes nothing (comparisons.py, yes_no.py and statements.py do).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from polyhop.schemas.query import ComparedValue

CONFIDENCES: Mapping[str, float] = {
    "life span": 0.85, "birth": 0.85, "death": 0.85, "founding": 0.80, "opening": 0.80, "building": 0.80,
    "release": 0.80, "launch": 0.80, "event": 0.75, "country": 0.80, "demonym": 0.75, "number": 0.70, "measure": 0.70,
    "shared name": 0.60, "definition": 0.60, "statement": 0.60, "cover": 0.40,
}  # fmt: skip
"""How often each rule is right. Source: reader.md, Confidence and silence."""

UNNAMED = 0.6
"""Factor of the confidence where the question names no options: the context may not hold all of them."""

MISSING = "not stated in the passages read"
"""What is shown of a thing whose value no sentence states."""


@dataclass(frozen=True, slots=True)
class Computed:
    """An answer that a rule computed, with what it compared; "" if a value is missing.

    `names_all` is False if the question did not name what was compared, so that something better may be unread.
    """

    answer: str
    rule: str
    values: tuple[ComparedValue, ...]
    names_all: bool = True

    @property
    def confidence(self) -> float:
        """How often the rule is right, 0 without an answer."""
        if not self.answer:
            return 0.0
        return CONFIDENCES[self.rule] * (1.0 if self.names_all else UNNAMED)
