"""Small graphs, postings and whole indexes in memory, built the plain way, and the graph of the golden vectors."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from memory_index import PASSAGES, MemoryIndex, Passage, graph_from, lexical_from, relations_from

from polyhop.schemas.errors import UnknownIndexError
from polyhop.schemas.graph import BipartiteGraph, LexicalIndex, RelationGraph
from polyhop.worker.answer import Turns


@pytest.fixture(scope="session")
def make_graph() -> Callable[..., BipartiteGraph]:
    return graph_from


@pytest.fixture(scope="session")
def make_lexical() -> Callable[..., LexicalIndex]:
    return lexical_from


@pytest.fixture(scope="session")
def make_relations() -> Callable[..., RelationGraph]:
    return relations_from


@pytest.fixture(scope="session")
def make_index() -> Callable[..., MemoryIndex]:
    return MemoryIndex


@pytest.fixture(scope="session")
def corpus() -> tuple[Passage, ...]:
    """Thirteen passages: two chains of three hops, a name with two meanings, two without any name."""
    return PASSAGES


@pytest.fixture(scope="session")
def memory_index() -> MemoryIndex:
    return MemoryIndex(PASSAGES)


@pytest.fixture(scope="session")
def golden_graph() -> BipartiteGraph:
    """G-SPRIG-1: alice 0, bob 1, france 2, paris 3; d4 has no entity."""
    return graph_from([{"alice": 2, "bob": 1}, {"bob": 1, "paris": 1}, {"paris": 2, "france": 1}, {"france": 1}, {}])


class ScriptedPool:
    """A pool of one index whose strategy does to each question what a function says; knows what it was asked."""

    def __init__(self, behave: Callable[[str], object] = str.upper, index: str = "wiki") -> None:
        self.behave = behave
        self.index = index
        self.asked: list[list[str]] = []
        self.is_closed = False
        self.forgotten: list[str] = []
        self.document: dict[str, object] = {}

    def session(self, name: str) -> Any:
        if name != self.index:
            raise UnknownIndexError(name, [self.index], "root")
        session = SimpleNamespace(
            version=3,
            encoder_model=None,
            answerer=lambda strategy, parameters, min_confidence=None: SimpleNamespace(answer=self._answer),
            document=lambda strategy, answered: {"answer": answered.reading.answer, **self.document},
        )
        session.where = lambda text: session
        return session

    def _answer(self, questions: Sequence[Any], limit: int, turns: Turns) -> list[Any]:
        self.asked.append([question.text for question in questions])
        answers = []
        for place, question in enumerate(questions):
            with turns.turn(place):
                answers.append(SimpleNamespace(answer=self.behave(question.text)))
        totals = turns.shares(sum(turns.seconds))
        return [
            SimpleNamespace(reading=answer, total_seconds=total) for answer, total in zip(answers, totals, strict=True)
        ]

    def forget(self, name: str) -> None:
        self.forgotten.append(name)

    def versions(self) -> dict[str, int]:
        return {self.index: 3}

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def scripted_pool() -> type[ScriptedPool]:
    return ScriptedPool
