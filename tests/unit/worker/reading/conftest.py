"""The reader without a model over a corpus in memory; see tests/support/memory_index.py."""

from collections.abc import Callable

import pytest
from memory_index import ReadingIndex, Titled

from polyhop.schemas.names import NameFinder
from polyhop.schemas.query import Question, ReaderResult, ReadingItem, Retrieval
from polyhop.warehouse.models.span_model import open_span_model
from polyhop.worker.reading.question import ParsedQuestion, parse_question
from polyhop.worker.reading.reader import LocalReader


@pytest.fixture
def ask() -> Callable[..., ReaderResult]:
    """Reads the answer to a question from (title, text) passages."""

    def read(question: str, *passages: Titled, min_confidence: float = 0.0) -> ReaderResult:
        index = ReadingIndex(passages)
        reader = LocalReader(index, model=open_span_model(), min_confidence=min_confidence)
        return reader.read([ReadingItem(Question(question), Retrieval(()), index.context())])[0]

    return read


@pytest.fixture
def parsed() -> Callable[..., ParsedQuestion]:
    """Takes a question apart, with these titles known."""

    def parse(question: str, *titles: str) -> ParsedQuestion:
        return parse_question(question, NameFinder(titles).find(question))

    return parse
