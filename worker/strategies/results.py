"""From numbers to a Retrieval, and what every strategy asks of a question first.

Ranks nothing.
"""

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from schemas.errors import AlgorithmError
from schemas.query import Question, RankedPassage, Retrieval

Ranking = tuple[NDArray[np.intp], NDArray[np.float64]]
"""Passage numbers, best first, and their scores."""

_WORD = re.compile(r"[^\W_]")


def retrieve_each(
    questions: Sequence[Question], limit: int, retrieve_one: Callable[[Question, int], Retrieval]
) -> list[Retrieval]:
    """One Retrieval per question, each by itself; a question without a word gets an empty one.

    Source: algorithms.md 2.13.
    """
    return [retrieve_one(q, limit) if _WORD.search(q.text) else Retrieval(()) for q in questions]


def question_vector(question: Question, strategy: str) -> NDArray[np.float32]:
    """The question's vector.

    Raises:
        AlgorithmError: If the caller did not encode the question.
    """
    if question.vector is None:
        raise AlgorithmError(f"Strategy '{strategy}' needs the question's vector; encode '{question.text}' first.")
    return question.vector


def ranked_passages(passage_ids: Sequence[str], ranking: Ranking) -> tuple[RankedPassage, ...]:
    """The ranking with ids and ranks from 1."""
    numbers, scores = ranking
    pairs = zip(numbers.tolist(), scores.tolist(), strict=True)
    return tuple(RankedPassage(passage_ids[number], rank, score) for rank, (number, score) in enumerate(pairs, start=1))
