"""Answers as places in texts, as question-answering models mark them, and the port of such a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class MarkedSpan:
    """The likeliest answer in a text.

    Attributes:
        start: First character.
        end: Character after the last; equal to `start` if the text has nothing to mark.
        score: Sum of the model's scores (logits) of its start and its end.
        no_answer: The same sum for "the text does not answer the question", the least of the text's windows.
    """

    start: int
    end: int
    score: float
    no_answer: float


class SpanModel(Protocol):
    """A model that reads a question and a text and marks the answer in the text."""

    @property
    def model(self) -> str:
        """Its name in results."""
        ...

    def mark(self, question: str, texts: Sequence[str]) -> list[MarkedSpan]:
        """One span per text, in order; a text's span does not depend on the texts beside it."""
        ...
