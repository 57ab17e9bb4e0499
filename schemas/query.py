"""Questions, rankings, evidence and answers: what strategies and readers exchange.

All frozen; a Retrieval carries everything needed to redraw it later.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Question:
    """A question and, if it was encoded, its vector (shape (d,), float32, length 1)."""

    text: str
    id: str = ""
    vector: NDArray[np.float32] | None = None
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class RankedPassage:
    """A passage with its place (from 1) and its strategy's score (not comparable between strategies)."""

    passage_id: str
    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Link:
    """Why a passage was reached: `source` (a passage id, or "question") shares `via` with `target` (a passage id)."""

    source: str
    via: str
    target: str
    weight: float


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Passages in order, and what led to them.

    `evidence` is JSON-able: question entities, seeds, links between the passages, fallback used…
    `seconds` holds the cost by part ("seed", "traversal", …).
    """

    passages: tuple[RankedPassage, ...]
    evidence: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a passage: `start` and `end` are character offsets into the passage's text."""

    passage_id: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ContextPassage:
    """A passage as a reader gets it: in ranked order, with its text."""

    passage_id: str
    title: str
    text: str
    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Reading:
    """A short answer ("" if none) and the sentences it was read from; `score` orders answers of one question only."""

    answer: str
    score: float = 0.0
    sentences: Sequence[Sentence] = ()
    kind: str = "none"
