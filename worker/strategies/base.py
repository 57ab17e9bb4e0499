"""What every strategy module builds on: declaration, parameters, services, scores to a Retrieval."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from polyhop.schemas.errors import AlgorithmError, ConfigurationError
from polyhop.schemas.evidence import Evidence
from polyhop.schemas.graph import Entity
from polyhop.schemas.ports import IndexReader, Reader, Services, Strategy
from polyhop.schemas.query import Question, RankedPassage, Retrieval

Ranking = tuple[NDArray[np.intp], NDArray[np.float64]]
"""Passage numbers in descending order of score, and their scores."""

_WORD = re.compile(r"[^\W_]")


@dataclass(frozen=True, slots=True)
class CallBound:
    """The most that a strategy asks of a model for one question, of one kind; what has to be asked again not counted.

    Attributes:
        task: The kind, "hub.partial" for instance.
        calls: Requests.
        prompt_tokens: Of each request, the question itself not counted.
        completion_tokens: Of each reply.
    """

    task: str
    calls: int
    prompt_tokens: int
    completion_tokens: int


class Parameters(BaseModel):
    """Base of all parameters: frozen, nothing unknown, only finite numbers.

    Attributes:
        grid: Values that `polyhop tune` tries where a user names none, by parameter, written as in a range ("3,5,10",
            "1..4"): at most 100 combinations. {}: a user has to name them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    grid: ClassVar[Mapping[str, str]] = {}

    def call_bounds(self) -> tuple[CallBound, ...]:
        """What the strategy and its own reader ask of a model for one question; () if they never ask one."""
        return ()


class LexicalParameters(Parameters):
    """How BM25 weighs words."""

    grid: ClassVar[Mapping[str, str]] = {"k1": ".9,1.2,1.5,2", "b": ".4,.6,.75,.9"}
    """Chosen: from Anserini's .9 and .4 to what is usual elsewhere."""

    k1: float = Field(1.5, ge=0, le=100, description="BM25: how slowly repeated words saturate, default 1.5.")
    b: float = Field(0.75, ge=0, le=1, description="BM25: share of length normalisation, default 0.75.")


Build = Callable[[IndexReader, Any, Services], Strategy]
"""Makes a strategy ready on an open version, once; gets an instance of its parameters."""

BuildReader = Callable[[IndexReader, Any, Services, Reader], Reader]
"""Makes a strategy's own reader ready, likewise; the last argument is the configured one (rules or a model), for what
the strategy's own leaves to it."""

_B = TypeVar("_B", bound=Build)


@dataclass(frozen=True, slots=True)
class StrategySpec:
    """A strategy that can be made; its fields are described by `strategy`."""

    name: str
    summary: str
    parameters: type[Parameters]
    needs: frozenset[str]
    build: Build
    needs_question_names: bool = False
    batches: bool = False
    reader: BuildReader | None = None
    ranks_triples: bool = False
    writes_context: bool = False

    @property
    def needs_question_vector(self) -> bool:
        """Whether questions must come with their vector."""
        return any(artefact.startswith("vectors:") for artefact in self.needs)


DECLARED: dict[str, StrategySpec] = {}
"""Strategies whose module was imported, by name."""


def strategy(  # noqa: PLR0913 - a declaration: all but three have defaults
    name: str,
    summary: str,
    parameters: type[Parameters],
    *,
    needs: Iterable[str],
    needs_question_names: bool = False,
    batches: bool = False,
    reader: BuildReader | None = None,
    ranks_triples: bool = False,
    writes_context: bool = False,
) -> Callable[[_B], _B]:
    """Declares the function below it as the way to make a strategy.

    Args:
        name: As users write it.
        summary: One sentence for users; ends with a full stop.
        parameters: Its parameters, each with a default and a description.
        needs: Artefacts that it reads: "graph", "graph:relations", "lexical:plain", "lexical:stems",
            "vectors:passage", "vectors:entity" (or another kind of warehouse/vectors/kinds.py), "ann:passage".
        needs_question_names: Whether questions must come with their names.
        batches: Whether it gains from many questions at once: it then gets a worker's whole micro-batch in one call,
            and otherwise one question at a time. A batch that fails or takes too long is asked again one by one.
        reader: Makes the reader of its retrievals; None: they are read as the user chose (`--reader`).
        ranks_triples: Whether its retrievals rank triples of the graph (`Retrieval.triples`, at most as many as
            passages are asked for): results then have `triples`, and evaluations judge them.
        writes_context: Whether its evidence has a `context` that a model can answer from without passages
            (models.read_context).

    Raises:
        ConfigurationError: If another module declared a strategy of that name.
    """

    def declare(build: _B) -> _B:
        known = DECLARED.get(name)
        if known and known.build.__module__ != build.__module__:
            raise ConfigurationError(
                f"Strategy '{name}' is declared twice, by {known.build.__module__} and by {build.__module__}; "
                "rename one, or uninstall one of the packages."
            )
        DECLARED[name] = StrategySpec(
            name,
            summary,
            parameters,
            frozenset(needs),
            build,
            needs_question_names,
            batches,
            reader,
            ranks_triples,
            writes_context,
        )
        return build

    return declare


class Ranker(Protocol):
    """Finds the best passages for one question."""

    def rank(self, question: Question, count: int) -> Ranking:
        """At most `count` passages, in descending order of score."""
        ...


@runtime_checkable
class BatchRanker(Ranker, Protocol):
    """A ranker that many questions cost less at once; each gets what `rank` gives, bit by bit."""

    def rank_each(self, questions: Sequence[Question], count: int) -> Iterator[Ranking]:
        """As `rank`, for each question in order."""
        ...


def rankings(ranker: Ranker, questions: Sequence[Question], count: int) -> Iterator[Ranking]:
    """A ranking for each question in order, at once where the ranker gains from it."""
    if isinstance(ranker, BatchRanker):
        return ranker.rank_each(questions, count)
    return (ranker.rank(question, count) for question in questions)


class RankedStrategy:
    """A ranker as a strategy; the same rankers seed the graph strategies."""

    def __init__(self, name: str, passage_ids: Sequence[str], ranker: Ranker) -> None:
        self.name = name
        self._passage_ids = passage_ids
        self._ranker = ranker

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """One Retrieval per question; see `polyhop.schemas.ports.Strategy`."""
        begun = time.perf_counter()
        asked = [question for question in questions if has_word(question)]
        ranked = [ranked_passages(self._passage_ids, one) for one in rankings(self._ranker, asked, limit)]
        found = [(passages, Evidence(), 0.0) for passages in ranked]
        return walked_retrievals(questions, found, time.perf_counter() - begun)


def retrieve_each(
    questions: Sequence[Question], limit: int, retrieve_one: Callable[[Question, int], Retrieval]
) -> list[Retrieval]:
    """One Retrieval per question, each by itself; a question without a word gets an empty one.

    Source: algorithms.md 2.13.
    """
    return [retrieve_one(q, limit) if has_word(q) else Retrieval(()) for q in questions]


def walked_retrievals(
    questions: Sequence[Question], found: Sequence[tuple[tuple[RankedPassage, ...], Evidence, float]], seconds: float
) -> list[Retrieval]:
    """One Retrieval per question of a batch; a question without a word gets an empty one.

    Args:
        questions: All of them.
        found: Ranking, evidence and seconds of the walk, for each question with a word, in order.
        seconds: What the batch took; what no walk took is shared equally as "seed".
    """
    share = (seconds - sum(one[2] for one in found)) / max(1, len(found))
    retrievals = iter([Retrieval(*one[:2], {"seed": share, "traversal": one[2]}) for one in found])
    return [next(retrievals) if has_word(question) else Retrieval(()) for question in questions]


def has_word(question: Question) -> bool:
    """Whether there is anything to look for. Source: algorithms.md 2.13."""
    return _WORD.search(question.text) is not None


def question_vector(question: Question, strategy: str) -> NDArray[np.float32]:
    """The question's vector.

    Raises:
        AlgorithmError: If the caller did not encode the question.
    """
    if question.vector is None:
        raise AlgorithmError(f"Strategy '{strategy}' needs the question's vector; encode '{question.text}' first.")
    return question.vector


def entity_vector(question: Question, strategy: str) -> NDArray[np.float32]:
    """The question's vector among entities, propositions and other short texts, which may have their own encoder."""
    return question_vector(question, strategy) if question.entity_vector is None else question.entity_vector


def ranked_passages(passage_ids: Sequence[str], ranking: Ranking) -> tuple[RankedPassage, ...]:
    """The ranking with ids and ranks from 1."""
    numbers, scores = ranking
    pairs = zip(numbers.tolist(), scores.tolist(), strict=True)
    return tuple(RankedPassage(passage_ids[number], rank, score) for rank, (number, score) in enumerate(pairs, start=1))


def entity_line(entity: Entity) -> str:
    """`name (TYPE): description`, without what is not known."""
    head = f"{entity.name} ({entity.type})" if entity.type else entity.name
    return f"{head}: {' '.join(entity.description.split())}" if entity.description else head
