"""Basis of every strategy module: declaration, parameters, services, scores to a Retrieval."""

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from polyhop.schemas.errors import AlgorithmError, ConfigurationError
from polyhop.schemas.evidence import Evidence
from polyhop.schemas.graph import Entity
from polyhop.schemas.ports import IndexReader, Reader, Services, Strategy
from polyhop.schemas.query import ModelUse, Question, RankedPassage, Retrieval

Ranking = tuple[NDArray[np.intp], NDArray[np.float64]]
"""Passage numbers in descending order of score, and their scores."""

_WORD = re.compile(r"[^\W_]")


@dataclass(frozen=True, slots=True)
class CallBound:
    """Upper bound on a strategy's model calls of one kind per question, retries excluded."""

    task: str  # The kind, "hub.partial" for instance.
    calls: int
    prompt_tokens: int  # Of each request, the question itself not counted.
    completion_tokens: int


class Parameters(BaseModel):
    """Base of all parameters: frozen, nothing unknown, only finite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    # Values that `polyhop tune` tries where a user names none, by parameter, written as in a range ("3,5,10", "1..4"):
    # at most 100 combinations. {}: a user has to name them.
    grid: ClassVar[Mapping[str, str]] = {}

    def call_bounds(self) -> tuple[CallBound, ...]:
        """Upper bounds of model calls per question by the strategy and its own reader; () without any."""
        return ()


class LexicalParameters(Parameters):
    """Weighting of words by BM25."""

    grid: ClassVar[Mapping[str, str]] = {"k1": ".9,1.2,1.5,2", "b": ".4,.6,.75,.9"}
    """Chosen: from Anserini's .9 and .4 to what is usual elsewhere."""

    k1: float = Field(1.5, ge=0, le=100, description="BM25: how slowly repeated words saturate, default 1.5.")
    b: float = Field(0.75, ge=0, le=1, description="BM25: share of length normalisation, default 0.75.")


class RerankParameters(Parameters):
    """Depth of re-ranking, and its measure without a cross-encoder."""

    rerank_depth: int = Field(
        100, ge=0, le=10_000, description="Top passages that are re-ranked, default 100; the rest follow."
    )
    proximity_weight: float = Field(
        0.5,
        ge=0,
        le=1000,
        description="Without a cross-encoder: weight of question words close together, their coverage being 1, "
        "default 0.5.",
    )


class Reranking(RerankParameters):
    """Parameters of every strategy in addition to its own."""

    rerank: bool = Field(
        default=False,
        description="Re-rank the top passages by the cross-encoder (models.rerank), or by shared words without one.",
    )


Build = Callable[[IndexReader, Any, Services], Strategy]
"""Makes a strategy ready on an open version, once; gets an instance of its parameters."""

BuildReader = Callable[[IndexReader, Any, Services, Reader], Reader]
"""Makes a strategy's own reader ready, likewise; the last argument is the configured one (rules or a model), for what
the strategy's own leaves to it."""

_B = TypeVar("_B", bound=Build)


def _undeclared(*_: Any) -> Strategy:
    raise NotImplementedError


@dataclass(frozen=True, slots=True)
class StrategySpec:
    """A strategy that can be made; as a decorator (`strategy`) it declares the class or function that makes it."""

    name: str
    summary: str  # One sentence for users; ends with a full stop.
    parameters: type[Parameters]  # Its parameters, each with a default and a description.
    _: KW_ONLY
    # Artefacts that it reads: "graph", "graph:relations", "lexical:plain", "lexical:stems", "vectors:passage",
    # "vectors:entity" (or another kind of warehouse/vectors/kinds.py), "ann:passage".
    needs: Collection[str]
    needs_question_names: bool = False  # Whether questions must come with their names.
    # Whether it gains from many questions at once: it then gets a worker's whole micro-batch in one call, and otherwise
    # one question at a time. A batch that fails or takes too long is asked again one by one.
    batches: bool = False
    # Makes the reader of its retrievals; None: they are read as the user chose (`--reader`).
    reader: BuildReader | None = None
    # Whether its retrievals rank triples of the graph (`Retrieval.triples`, at most as many as passages are asked for):
    # results then have `triples`, and evaluations judge them.
    ranks_triples: bool = False
    # Whether its evidence has a `context` that a model can answer from without passages (models.read_passages = 0).
    writes_context: bool = False
    build: Build = _undeclared

    @property
    def needs_question_vector(self) -> bool:
        """Returns whether questions must come with their vector."""
        return any(artefact.startswith("vectors:") for artefact in self.needs)

    def __call__(self, build: _B) -> _B:
        """Declares what makes the strategy."""
        known = DECLARED.get(self.name)
        if known and known.build.__module__ != build.__module__:
            raise ConfigurationError(
                f"Strategy '{self.name}' is declared twice, by {known.build.__module__} and by {build.__module__}; "
                "rename one, or uninstall one of the packages."
            )
        DECLARED[self.name] = replace(self, needs=frozenset(self.needs), build=build)
        return build


strategy = StrategySpec
DECLARED: dict[str, StrategySpec] = {}  # Strategies whose module was imported, by name.


EXPLAINED = 30  # passages whose score is given in parts; chosen: more than people look at


class Found(NamedTuple):
    """Result for one question."""

    ranking: Ranking
    evidence: Evidence = Evidence()
    # Seconds of the walk, or whatever came after the seeds; batch time that belongs to no question is shared equally as
    # "seed".
    traversal: float = 0.0
    encoding: float | None = None  # Seconds of encoding, where there was any.
    use: ModelUse | None = None  # What a model took before the ranking, where one was asked.


class RankedStrategy:
    """A strategy that ranks passages; the same ones seed the strategies that walk a graph.

    A subclass has `rank`, or `rank_each` if many questions cost less at once, or `find_each` if it has evidence.
    """

    def __init__(self, reader: IndexReader, _parameters: Any = None, _services: Services | None = None) -> None:
        self._passage_ids = reader.passage_ids

    def rank(self, question: Question, count: int) -> Ranking:
        """At most `count` passages, in descending order of score."""
        return next(iter(self.rank_each([question], count)))

    def rank_each(self, questions: Sequence[Question], count: int) -> Iterable[Ranking]:
        """As `rank`, bit by bit, for each question in order."""
        return (self.rank(question, count) for question in questions)

    def find_each(self, questions: Sequence[Question], limit: int) -> Iterable[Found]:
        """At most `limit` passages for each question in order, with their evidence; each question has a word."""
        return map(Found, self.rank_each(questions, limit))

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """One Retrieval per question; one without a word gets an empty one. Source: algorithms.md 2.13."""
        begun = time.perf_counter()
        found = list(self.find_each([question for question in questions if has_word(question)], limit))
        own = sum(one.traversal + (one.encoding or 0.0) for one in found)
        share = (time.perf_counter() - begun - own) / max(1, len(found))
        retrievals = []
        for one in found:
            encoding = {} if one.encoding is None else {"encoding": one.encoding}
            seconds = {"seed": share, "traversal": one.traversal, **encoding}
            retrievals.append(
                Retrieval(ranked_passages(self._passage_ids, one.ranking), one.evidence, seconds=seconds, use=one.use)
            )
        following = iter(retrievals)
        return [next(following) if has_word(question) else Retrieval(()) for question in questions]


def has_word(question: Question) -> bool:
    """Returns whether the question has a word to search for. Source: algorithms.md 2.13."""
    return _WORD.search(question.text) is not None


def question_vector(question: Question) -> NDArray[np.float32]:
    """The question's vector."""
    if question.vector is None:
        raise AlgorithmError(f"This strategy needs the question's vector; encode '{question.text}' first.")
    return question.vector


def entity_vector(question: Question) -> NDArray[np.float32]:
    """The question's vector among entities, propositions and other short texts, which may have their own encoder."""
    return question_vector(question) if question.entity_vector is None else question.entity_vector


def ranked_passages(passage_ids: Sequence[str], ranking: Ranking) -> tuple[RankedPassage, ...]:
    """The ranking with ids and ranks from 1."""
    numbers, scores = ranking
    pairs = zip(numbers.tolist(), scores.tolist(), strict=True)
    return tuple(RankedPassage(passage_ids[number], rank, score) for rank, (number, score) in enumerate(pairs, start=1))


def entity_line(entity: Entity) -> str:
    """`name (TYPE): description`, without what is not known."""
    head = f"{entity.name} ({entity.type})" if entity.type else entity.name
    return f"{head}: {' '.join(entity.description.split())}" if entity.description else head
