"""Questions, rankings and answers: what strategies and readers exchange, and their JSON form.

All frozen; a Retrieval and a Reading carry everything needed to redraw them later.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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

    `entity_vector` is its vector among entities, propositions and other short texts; None where one encoder made all
    vectors.
    """

    text: str
    id: str = ""
    vector: NDArray[np.float32] | None = None
    topic: str | None = None
    names: tuple[QuestionName, ...] = ()
    entity_vector: NDArray[np.float32] | None = None
    # Gets the text of a model's answer while it is written, unchecked, on the thread of the call.
    on_draft: Callable[[str], None] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RankedPassage:
    """A passage with its rank (from 1) and its strategy's score (not comparable between strategies)."""

    passage_id: str
    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Link:
    """Link that led to a passage: `source` (a passage id, or "question") shares `via` with `target` (a passage id)."""

    source: str
    via: str
    target: str
    weight: float


@dataclass(frozen=True, slots=True)
class RankedTriple:
    """A triple of the graph with its rank (from 1) and its strategy's score (not comparable between strategies)."""

    relation_id: str  # Its row of the table `relations`.
    subject_id: str  # The graph's own id of the subject; of a text's entity its key.
    subject: str
    predicate: str
    object_id: str  # As `subject_id`; of a value without an id its entity id.
    object: str
    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Passages in order, and what led to them.

    `seconds` holds the cost by part ("seed", "traversal", …); `triples` is the ranking of strategies that rank the
    triples of a graph, beside their passages, if any. `use` is what a model took while the strategy searched.
    """

    passages: tuple[RankedPassage, ...]
    evidence: Evidence = field(default_factory=Evidence)
    seconds: Mapping[str, float] = field(default_factory=dict)
    triples: tuple[RankedTriple, ...] = ()
    use: "ModelUse | None" = None


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
    """A question with all that a reader may read for it."""

    question: Question  # With its vector, if the strategy needed one.
    retrieval: Retrieval  # The whole ranking and its evidence: a reader may answer from the paths alone.
    context: Sequence[ContextPassage]

    @property
    def notes(self) -> str:
        """Text of the strategy besides the passages (chains of relations); "" if there is none."""
        return self.retrieval.evidence.context


@dataclass(frozen=True, slots=True)
class ModelUse:
    """Result of one structured question to a model."""

    model: str
    prompt: str  # Name of the prompt, "" of a model that reads without one.
    prompt_hash: str  # sha256 of the prompt's text.
    is_cached: bool = False  # The reply was paid for before.
    usage: Usage = field(default_factory=Usage)
    repair: str = ""  # Repair that the reply needed, "" without a valid one.
    error_class: str = ""  # Why there is no valid reply and a fallback was used, "" if there is one.
    error: str = ""  # That in a sentence.
    # The questions that this is the sum of (`summed_use`); none if it is one question.
    parts: tuple["ModelUse", ...] = ()

    @property
    def spent(self) -> Usage:
        """Cost of this use; cached replies cost nothing."""
        if self.parts:
            return sum((part.spent for part in self.parts), Usage())
        return Usage() if self.is_cached else self.usage


def summed_use(uses: Sequence[ModelUse]) -> ModelUse | None:
    """Sum of several questions to one model; None if there were none.

    Args:
        uses: In the order asked; the sum has the prompt and the repair of the last, and the error of the first that
            failed. It counts as cached if all are; `spent` leaves out those that are.
    """
    if len(uses) < 2:
        return next(iter(uses), None)
    error_class, error = next(((use.error_class, use.error) for use in uses if use.error_class), ("", ""))
    return replace(
        uses[-1],
        is_cached=all(use.is_cached for use in uses),
        usage=sum((use.usage for use in uses), Usage()),
        error_class=error_class,
        error=error,
        parts=tuple(part for use in uses for part in use.parts or (use,)),
    )


@dataclass(frozen=True, slots=True)
class Citation:
    """A source that a model names: a passage, or a hub whose paths were shown to it."""

    passage_id: str  # Of the passage, "" if the source is a hub.
    sentence: Sentence | None = None  # What was quoted of the passage, None if nothing was.
    hub_id: str = ""  # The graph's own id of the hub, "" if the source is a passage.
    name: str = ""
    number: int = 0  # The number by which the answer's text cites the source.


@dataclass(frozen=True, slots=True)
class ComparedValue:
    """Value that a computed answer compared: its thing, its plain text and the sentence that states it."""

    name: str
    value: str
    sentence: Sentence | None = None


UNREAD = "unread"  # Kind of a Reading that is disabled (`--reader none`).


@dataclass(frozen=True, slots=True)
class ReaderResult:
    """A short answer ("" if none is shown) and sentences; `score` orders answers of one question only."""

    answer: str  # An entity, a phrase, "yes" or "no": what is shown as the short answer.
    score: float = 0.0  # 0 if the reader has none.
    # Of the context: those that the answer was read from, or that answer where no short answer is shown.
    sentences: Sequence[Sentence] = ()
    # "extracted" from a sentence, "computed" from values, "generated" by a model, "none" if nothing was found, or
    # UNREAD if reading is disabled.
    kind: str = "none"
    reasoning: str = ""  # A model's answer in full sentences, with the numbers of its citations in brackets.
    citations: Sequence[Citation] = ()  # Sources that a model named and that are in the context.
    dropped_citations: int = 0  # Sources that a model named and that do not hold.
    is_verified: bool = False  # A model's answer with a quote that holds.
    use: ModelUse | None = None  # What the model took, None if none was asked.
    # Why the model could not be asked: this is then no answer, and the question is to be asked again.
    outage: ModelUnavailableError | None = None
    confidence: float = 0.0  # How often such an answer is right, 0 to 1; 0 if the reader does not say.
    rule: str = ""  # What computed the answer ("birth", "country", …), "" if nothing did.
    values: Sequence[ComparedValue] = ()  # What a computed answer compared.
    notes: tuple[Note, ...] = ()  # Lines that the reader adds to the answer's evidence (partial answers, for instance).
    data: Mapping[str, Any] = field(default_factory=dict)  # Plain data that the reader adds to the answer's evidence.
    # The triples that the answer rests on, in order; they replace the retrieval's ranking of triples. None if
    # the reader does not say.
    triples: tuple[RankedTriple, ...] | None = None
    guess: str = ""  # The best short answer, shown or not; `confidence` is that of the guess.

    def __post_init__(self) -> None:
        """Sets the best guess to the answer if there is none."""
        if not self.guess:
            object.__setattr__(self, "guess", self.answer)


# Source: architecture.md 9.


def reading_row(reading: ReaderResult, naming: ModelUse | None = None) -> dict[str, Any]:
    """The reading in plain values.

    `usage` is what the reply took when it was made, `spent` what this answer took, names of the question included: 0
    calls if both were paid for before. `verified` says whether a quote of a model's answer holds. `parts` lists the
    questions to the model where there were several. `fallback` says why a model was asked in vain and the
    answer was read without it.
    """
    use = reading.use
    usage = use.usage if use else Usage()
    spent = (use.spent if use else Usage()) + (naming.spent if naming else Usage())
    return {
        "by": {"generated": "model", UNREAD: "none"}.get(reading.kind, "local"),
        "kind": reading.kind,
        "confidence": round(reading.confidence, 4),
        "rule": reading.rule,
        "values": [dataclasses.asdict(value) for value in reading.values],
        "model": use.model if use else None,
        "prompt": {"name": use.prompt, "hash": use.prompt_hash} if use and use.prompt else None,
        "cached": use.is_cached if use else False,
        "rung": use.repair if use else "",
        "usage": dataclasses.asdict(usage),
        "spent": dataclasses.asdict(spent),
        "reasoning": reading.reasoning,
        "citations": [_citation_row(citation) for citation in reading.citations],
        "dropped_citations": reading.dropped_citations,
        "verified": reading.is_verified if reading.kind == "generated" and reading.answer else None,
        "fallback": _failure_row(use),
        "naming": {"model": naming.model, **_use_row(naming)} if naming else None,
        **({"parts": [_use_row(part) for part in use.parts]} if use and use.parts else {}),
    }


def _use_row(use: ModelUse) -> dict[str, Any]:
    """One of several questions to models."""
    return {
        "prompt": {"name": use.prompt, "hash": use.prompt_hash},
        "cached": use.is_cached,
        "usage": dataclasses.asdict(use.usage),
        "fallback": _failure_row(use),
    }


def _citation_row(citation: Citation) -> dict[str, Any]:
    """A cited passage with its number; of a cited hub also its id and name."""
    sentence = citation.sentence
    hub = {"hub_id": citation.hub_id, "name": citation.name} if citation.hub_id else {}
    return {
        "passage_id": citation.passage_id,
        "quote": sentence.text if sentence else "",
        "start": sentence.start if sentence else None,
        "end": sentence.end if sentence else None,
        "number": citation.number,
        **hub,
    }


def _failure_row(use: ModelUse | None) -> dict[str, str] | None:
    return {"error_class": use.error_class, "error": use.error} if use and use.error_class else None
