"""Strategies that are nothing but a ranker; the same rankers seed the graph strategies."""

import time
from collections.abc import Sequence
from typing import Protocol

from schemas.query import Question, Retrieval
from worker.strategies.results import Ranking, ranked_passages, retrieve_each


class Ranker(Protocol):
    """Finds the best passages for one question."""

    def rank(self, question: Question, count: int) -> Ranking:
        """At most `count` passages, best first."""
        ...


class RankedStrategy:
    """A ranker as a strategy."""

    def __init__(self, name: str, passage_ids: Sequence[str], ranker: Ranker) -> None:
        self.name = name
        self._passage_ids = passage_ids
        self._ranker = ranker

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """One Retrieval per question; see `schemas.ports.Strategy`."""
        return retrieve_each(questions, limit, self._retrieve_one)

    def _retrieve_one(self, question: Question, limit: int) -> Retrieval:
        start = time.perf_counter()
        ranking = self._ranker.rank(question, limit)
        return Retrieval(
            ranked_passages(self._passage_ids, ranking), seconds={"seed": time.perf_counter() - start, "traversal": 0.0}
        )
