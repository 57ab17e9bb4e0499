"""A corpus in memory, as much of an index as the reader without a model needs."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from memory_index import MemoryIndex, Passage
from numpy.typing import NDArray

from polyhop.schemas.names import NameFinder
from polyhop.schemas.query import ContextPassage, Question, Reading, ReadingItem, Retrieval
from polyhop.warehouse.artefacts import vectors_of
from polyhop.worker.reading.pages import Page, pages_of
from polyhop.worker.reading.parsing import ParsedQuestion, parse_question
from polyhop.worker.reading.reader import RuleReader

Titled = tuple[str, str]


class ReadingIndex(MemoryIndex):
    """Titled texts, numbered in their order; with vectors if it is given some. Counts how often passages are read."""

    def __init__(self, passages: Sequence[Titled], vectors: NDArray[np.float32] | None = None) -> None:
        self.rows = [(f"p{place:03}", title, text) for place, (title, text) in enumerate(passages)]
        given = {} if vectors is None else {vectors_of("passage"): vectors}
        super().__init__(self.rows, given, artefacts={"lexical:stems", *(handle.name for handle in given)})
        self.calls = 0

    def passages(self, numbers: Sequence[int]) -> list[Passage]:
        self.calls += 1
        return super().passages(numbers)

    def context(self) -> list[ContextPassage]:
        return [ContextPassage(*row, rank, 1 / rank) for rank, row in enumerate(self.rows, start=1)]


@pytest.fixture
def reading_index() -> type[ReadingIndex]:
    return ReadingIndex


@pytest.fixture
def ask() -> Callable[..., Reading]:
    """Reads the answer to a question from (title, text) passages."""

    def read(question: str, *passages: Titled, min_confidence: float = 0.0) -> Reading:
        index = ReadingIndex(passages)
        reader = RuleReader(index, min_confidence=min_confidence)
        return reader.read([ReadingItem(Question(question), Retrieval(()), index.context())])[0]

    return read


@pytest.fixture
def parsed() -> Callable[..., ParsedQuestion]:
    """Takes a question apart, with these titles known."""

    def parse(question: str, *titles: str) -> ParsedQuestion:
        return parse_question(question, NameFinder(titles).find(question))

    return parse


@pytest.fixture
def pages() -> Callable[..., list[Page]]:
    """Passages as the rules read them."""

    def prepare(*passages: Titled) -> list[Page]:
        return pages_of(ReadingIndex(passages).context())

    return prepare
