"""Small graphs, postings and whole indexes in memory, built the plain way, and the graph of the golden vectors."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from schemas.errors import MissingArtefactError, UnknownIndexError
from schemas.graph import BipartiteGraph, Entity, LexicalIndex, RelationGraph
from schemas.names import NameFinder, title_forms, title_keys
from schemas.stems import ANALYSERS

Passage = tuple[str, str, str]


def graph_from(
    mentions: Sequence[Mapping[str, float]], titles: Mapping[int, Iterable[str]] | None = None
) -> BipartiteGraph:
    """Passage by passage {entity key: tf}; `titles` names the title keys of a passage."""
    keys = tuple(sorted({key for row in mentions for key in row}))
    number_of = {key: number for number, key in enumerate(keys)}
    own = titles or {}
    edges = [
        (number_of[key], row[key], key in own.get(passage, ()))
        for passage, row in enumerate(mentions)
        for key in sorted(row)
    ]
    return BipartiteGraph(
        indptr=np.cumsum([0, *(len(row) for row in mentions)]).astype(np.int64),
        indices=np.array([edge[0] for edge in edges], dtype=np.int32),
        tf=np.array([edge[1] for edge in edges], dtype=np.float64),
        is_title=np.array([edge[2] for edge in edges], dtype=np.bool_),
        keys=keys,
    )


def lexical_from(tokens: Sequence[Sequence[str]]) -> LexicalIndex:
    """Postings of tokenised passages."""
    counts = [Counter(row) for row in tokens]
    terms = sorted({term for row in counts for term in row})
    postings = [[(p, row[term]) for p, row in enumerate(counts) if term in row] for term in terms]
    flat = [posting for row in postings for posting in row]
    return LexicalIndex(
        terms={term: number for number, term in enumerate(terms)},
        indptr=np.cumsum([0, *(len(row) for row in postings)]).astype(np.int64),
        passages=np.array([p for p, _ in flat], dtype=np.int32),
        tf=np.array([tf for _, tf in flat], dtype=np.int32),
        lengths=np.array([len(row) for row in tokens], dtype=np.int32),
    )


def relations_from(keys: Sequence[str], triples: Iterable[tuple[str, str, str]]) -> RelationGraph:
    """Triples of entity keys and a label, found by looking at every pair."""
    stated = sorted(set(triples))
    names = tuple(sorted({label for _, label, _ in stated}))
    indptr, indices, label_indptr, labels = [0], [], [0], []
    for source in keys:
        for number, target in enumerate(keys):
            if any({a, b} == {source, target} and a != b for a, _, b in stated):
                indices.append(number)
                labels += [names.index(label) for a, label, b in stated if (a, b) == (source, target)]
                label_indptr.append(len(labels))
        indptr.append(len(indices))
    return RelationGraph(
        indptr=np.array(indptr, dtype=np.int64),
        indices=np.array(indices, dtype=np.int32),
        label_indptr=np.array(label_indptr, dtype=np.int64),
        labels=np.array(labels, dtype=np.int32),
        names=names,
    )


class MemoryIndex:
    """An IndexReader of a few passages. Its vectors count words, so that likeness is shared words."""

    name = "memory"
    version = 1

    def __init__(self, passages: Iterable[Passage], missing: frozenset[str] = frozenset()) -> None:
        self._rows = sorted(passages)
        self.passage_ids = [row[0] for row in self._rows]
        self.passage_titles = [row[1] for row in self._rows]
        self.number_of_passage = {row[0]: number for number, row in enumerate(self._rows)}
        self.artefacts = frozenset({"ann:passage"}) - missing
        self._missing = missing
        self.names = NameFinder(self.passage_titles)
        self.aliases: dict[str, str] = {}
        texts = [f"{title}\n{text}" for _, title, text in self._rows]
        own = {p: title_keys(title) for p, title in enumerate(self.passage_titles)}
        mentions = [Counter(mention.key for mention in self.names.find(text)) for text in texts]
        self.graph = graph_from(
            [{key: float(max(1, row[key])) for key in {*row, *own[p]}} for p, row in enumerate(mentions)], own
        )
        spelled = [Counter(mention.surface for mention in self.names.find(text)) for text in texts]
        forms = [[form for _, form in title_forms(title)] for title in self.passage_titles]
        self.surfaces = graph_from(
            [{name: float(max(1, row[name])) for name in {*row, *forms[p]}} for p, row in enumerate(spelled)],
            dict(enumerate(forms)),
        )
        self.relations = relations_from(
            self.graph.keys,
            ((title, "mentions", key) for p, row in enumerate(mentions) for title in own[p][:1] for key in row),
        )
        self.exact_names: dict[str, list[int]] = {}
        self._lexical = {name: lexical_from([tokens(text) for text in texts]) for name, tokens in ANALYSERS.items()}
        self._words = sorted({word for text in texts for word in ANALYSERS["plain"](text)})
        self._vectors = {"passage": self.encode(texts), "entity": self.encode(self.graph.keys)}

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One dimension per word of the corpus, and one that all texts share."""
        number_of = {word: number for number, word in enumerate(self._words, start=1)}
        vectors = np.zeros((len(texts), len(self._words) + 1), dtype=np.float32)
        vectors[:, 0] = 1
        for row, text in enumerate(texts):
            for word in ANALYSERS["plain"](text):
                vectors[row, number_of.get(word, 0)] += 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def lexical(self, analyser: str) -> LexicalIndex:
        return self._lexical[analyser]

    def vectors(self, owner: str) -> NDArray[np.float32]:
        if f"vectors:{owner}" in self._missing:
            raise MissingArtefactError(f"vectors:{owner}", self.name)
        return self._vectors[owner]

    def nearest_passages(self, vector: NDArray[np.float32], count: int, ef_search: int) -> list[int]:
        return np.argsort(-(self._vectors["passage"] @ vector), kind="stable")[:count].tolist()

    def reranker(self) -> Any:
        return None

    def passages(self, numbers: Sequence[int]) -> list[Passage]:
        return [self._rows[number] for number in numbers]

    def entities(self, numbers: Sequence[int]) -> list[Entity]:
        keys = [self.graph.keys[number] for number in numbers]
        return [Entity(key, key.title(), "", f"All about {key}.") for key in keys]


PASSAGES: tuple[Passage, ...] = (
    ("p00", "Ada Lovelace", "Ada Lovelace wrote the first program, for the Analytical Engine of Charles Babbage."),
    ("p01", "Charles Babbage", "Charles Babbage was born in London and designed the Analytical Engine."),
    ("p02", "London", "London is the capital of England, on the River Thames."),
    ("p03", "River Thames", "The River Thames flows through Oxford and London."),
    ("p04", "Oxford", "Oxford has the oldest university of England."),
    ("p05", "Marie Curie", "Marie Curie was born in Warsaw and worked in Paris."),
    ("p06", "Warsaw", "Warsaw is the capital of Poland, on the Vistula."),
    ("p07", "Vistula", "The Vistula is the longest river of Poland."),
    ("p08", "Paris", "Paris is the capital of France, on the Seine."),
    ("p09", "Paris (mythology)", "Paris carried off Helen, and Troy fell."),
    ("p10", "Troy", "Troy was besieged for ten years because of Helen."),
    ("p11", "", "nothing here has a name."),
    ("p12", "", "nothing here has a name."),
)


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
        self.document: dict[str, object] = {}

    def session(self, name: str) -> Any:
        if name != self.index:
            raise UnknownIndexError(name, [self.index], "root")
        return SimpleNamespace(
            version=3,
            encoder_model=None,
            answerer=lambda strategy, parameters, min_confidence=None: SimpleNamespace(answer=self._answer),
            document=lambda strategy, answered: {"answer": answered.reading.answer, **self.document},
        )

    def _answer(self, questions: Sequence[Any], limit: int) -> list[Any]:
        self.asked.append([question.text for question in questions])
        return [SimpleNamespace(reading=SimpleNamespace(answer=self.behave(question.text))) for question in questions]

    def versions(self) -> dict[str, int]:
        return {self.index: 3}

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def scripted_pool() -> type[ScriptedPool]:
    return ScriptedPool
