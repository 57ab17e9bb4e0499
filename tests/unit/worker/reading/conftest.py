"""A corpus in memory, as much of an index as the reader without a model needs."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from schemas.graph import LexicalIndex
from schemas.names import NameFinder
from schemas.query import ContextPassage, Question, Reading
from schemas.stems import stem_tokens
from worker.reading.pages import Page, pages_of
from worker.reading.parsing import ParsedQuestion, parse_question
from worker.reading.reader import RuleReader

Titled = tuple[str, str]


class ReadingIndex:
    """An IndexReader of titled texts, numbered in their order; with vectors if it is given some."""

    name = "memory"
    version = 1

    def __init__(self, passages: Sequence[Titled], vectors: NDArray[np.float32] | None = None) -> None:
        self.rows = [(f"p{place:03}", title, text) for place, (title, text) in enumerate(passages)]
        self.passage_ids = [row[0] for row in self.rows]
        self.passage_titles = [row[1] for row in self.rows]
        self.number_of_passage = {passage_id: number for number, passage_id in enumerate(self.passage_ids)}
        self.artefacts = frozenset({"lexical:stems"} | ({"vectors:passage"} if vectors is not None else set()))
        self.names = NameFinder(self.passage_titles)
        self.calls = 0
        self._vectors = vectors

    def lexical(self, analyser: str) -> LexicalIndex:
        assert analyser == "stems"
        df = Counter(term for _, title, text in self.rows for term in set(stem_tokens(f"{title}\n{text}")))
        terms = {term: number for number, term in enumerate(sorted(df))}
        none = np.zeros(0, dtype=np.int32)
        lengths = np.zeros(len(self.rows), dtype=np.int32)
        return LexicalIndex(terms, np.cumsum([0, *(df[term] for term in terms)]), none, none, lengths)

    def vectors(self, owner: str) -> NDArray[np.float32]:
        assert owner == "passage"
        assert self._vectors is not None
        return self._vectors

    def passages(self, numbers: Sequence[int]) -> list[tuple[str, str, str]]:
        self.calls += 1
        return [self.rows[number] for number in numbers]

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
        return reader.read([Question(question)], [index.context()])[0]

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
