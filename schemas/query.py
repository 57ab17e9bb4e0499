"""Questions, rankings, evidence and answers: what strategies and readers exchange; and a Reading as a row of JSON.

All frozen; a Retrieval and a Reading carry everything needed to redraw them later.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.chat import Usage
from polyhop.schemas.errors import ModelUnavailableError
from polyhop.schemas.evidence import Evidence, Note


@dataclass(frozen=True, slots=True)
class QuestionName:
    """A name in a question: its key, and the name with a word or two that tell what is meant by it."""

    key: str
    search_hint: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question; if it was encoded, its vector (shape (d,), float32, length 1); for strategies that ask, its names.

    `hint_vectors` holds the vectors of those search hints of its names that a strategy searches by.
    """

    text: str
    id: str = ""
    vector: NDArray[np.float32] | None = None
    topic: str | None = None
    names: tuple[QuestionName, ...] = ()
    hint_vectors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)


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
class RankedTriple:
    """A triple of the graph with its rank (from 1) and its strategy's score (not comparable between strategies).

    Attributes:
        relation_id: Its row of the table `relations`.
        subject_id: The graph's own id of the subject; of a text's entity its key.
        subject: Its name.
        predicate: As the graph has it.
        object_id: As `subject_id`; of a value without an id its entity id.
        object: Its name, or the value.
        rank: From 1.
        score: Higher is better.
    """

    relation_id: str
    subject_id: str
    subject: str
    predicate: str
    object_id: str
    object: str
    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Passages in order, and what led to them.

    `seconds` holds the cost by part ("seed", "traversal", …); `triples` is the ranking of strategies that rank the
    triples of a graph, beside their passages, if any.
    """

    passages: tuple[RankedPassage, ...]
    evidence: Evidence = field(default_factory=Evidence)
    seconds: Mapping[str, float] = field(default_factory=dict)
    triples: tuple[RankedTriple, ...] = ()


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
class ReadingItem:
    """A question with all that a reader may read for it.

    Attributes:
        question: With its vector, if the strategy needed one.
        retrieval: The whole ranking and its evidence: a reader may answer from the paths alone.
        context: The first passages of the ranking, with their texts.
    """

    question: Question
    retrieval: Retrieval
    context: Sequence[ContextPassage]

    @property
    def notes(self) -> str:
        """What the strategy says beside the passages (chains of relations), as text; "" if nothing."""
        return self.retrieval.evidence.context


@dataclass(frozen=True, slots=True)
class ModelUse:
    """What became of one structured question to a model.

    Attributes:
        model: The model asked.
        prompt: Name of the prompt.
        prompt_hash: sha256 of the prompt's text.
        is_cached: The reply was paid for before.
        usage: What the reply took when it was made.
        rung: How much help the reply needed, "" without a valid one.
        error_class: Why there is no valid reply and a fallback was used, "" if there is one.
        error: That in a sentence.
    """

    model: str
    prompt: str
    prompt_hash: str
    is_cached: bool = False
    usage: Usage = field(default_factory=Usage)
    rung: str = ""
    error_class: str = ""
    error: str = ""

    @property
    def spent(self) -> Usage:
        """What it took this time: nothing if the reply was paid for before."""
        return Usage() if self.is_cached else self.usage


@dataclass(frozen=True, slots=True)
class Citation:
    """A passage that a model names as its source; `sentence` is what it quoted, None if it named the passage only."""

    passage_id: str
    sentence: Sentence | None = None


@dataclass(frozen=True, slots=True)
class ComparedValue:
    """What a computed answer compared of one thing: its value in plain text and the sentence that gives it."""

    name: str
    value: str
    sentence: Sentence | None = None


UNREAD = "unread"
"""Kind of a Reading that nobody was to make (`--reader none`)."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A short answer ("" if none) and the sentences it was read from; `score` orders answers of one question only.

    Attributes:
        answer: An entity, a phrase, "yes" or "no".
        score: 0 if the reader has none.
        sentences: Sentences of the context.
        kind: "extracted" from a sentence, "computed" from values, "generated" by a model, "none" if nothing was found,
            or UNREAD if nobody was to read.
        reasoning: How a model came to it.
        citations: Sources that a model named and that are in the context.
        dropped_citations: Sources that a model named and that are not.
        use: What the model took, None if none was asked.
        outage: Why the model could not be asked: this is then no answer, and the question is to be asked again.
        confidence: How often such an answer is right, 0 to 1; 0 if the reader does not say.
        rule: What computed the answer ("birth", "country", …), "" if nothing did.
        values: What a computed answer compared.
        notes: Lines that the reader adds to the answer's evidence (partial answers, for instance).
    """

    answer: str
    score: float = 0.0
    sentences: Sequence[Sentence] = ()
    kind: str = "none"
    reasoning: str = ""
    citations: Sequence[Citation] = ()
    dropped_citations: int = 0
    use: ModelUse | None = None
    outage: ModelUnavailableError | None = None
    confidence: float = 0.0
    rule: str = ""
    values: Sequence[ComparedValue] = ()
    notes: tuple[Note, ...] = ()


def reading_row(reading: Reading, naming: ModelUse | None = None) -> dict[str, Any]:
    """The reading in plain values.

    `usage` is what the reply took when it was made, `spent` what this answer took, names of the question included: 0
    calls if both were paid for before. `fallback` says why a model was asked in vain and rules read instead.
    """
    use = reading.use
    usage = use.usage if use else Usage()
    spent = (use.spent if use else Usage()) + (naming.spent if naming else Usage())
    return {
        "by": {"generated": "model", UNREAD: "none"}.get(reading.kind, "rules"),
        "kind": reading.kind,
        "confidence": round(reading.confidence, 4),
        "rule": reading.rule,
        "values": [dataclasses.asdict(value) for value in reading.values],
        "model": use.model if use else None,
        "prompt": {"name": use.prompt, "hash": use.prompt_hash} if use else None,
        "cached": use.is_cached if use else False,
        "rung": use.rung if use else "",
        "usage": _usage_row(usage),
        "spent": _usage_row(spent),
        "reasoning": reading.reasoning,
        "citations": [_citation_row(citation) for citation in reading.citations],
        "dropped_citations": reading.dropped_citations,
        "fallback": _failure_row(use),
        "naming": _naming_row(naming),
    }


def _usage_row(usage: Usage) -> dict[str, Any]:
    return dataclasses.asdict(usage)


def _citation_row(citation: Citation) -> dict[str, Any]:
    sentence = citation.sentence
    return {
        "passage_id": citation.passage_id,
        "quote": sentence.text if sentence else "",
        "start": sentence.start if sentence else None,
        "end": sentence.end if sentence else None,
    }


def _failure_row(use: ModelUse | None) -> dict[str, str] | None:
    return {"error_class": use.error_class, "error": use.error} if use and use.error_class else None


def _naming_row(use: ModelUse | None) -> dict[str, Any] | None:
    if use is None:
        return None
    return {
        "model": use.model,
        "prompt": {"name": use.prompt, "hash": use.prompt_hash},
        "cached": use.is_cached,
        "usage": _usage_row(use.usage),
        "fallback": _failure_row(use),
    }
