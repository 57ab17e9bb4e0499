"""Answers a batch of questions with their evidence: encode, name, retrieve, read, each within its time limit."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from polyhop.schemas import errors
from polyhop.schemas.logs import span
from polyhop.schemas.ports import IndexReader, Reader, Services, Strategy
from polyhop.schemas.query import (
    UNREAD,
    ContextPassage,
    ModelUse,
    Question,
    ReaderResult,
    ReadingItem,
    Retrieval,
    summed_use,
)
from polyhop.warehouse.artefacts import NAMES
from polyhop.worker.questions.parts import Naming, QuestionNaming, RuleNaming, with_vectors
from polyhop.worker.strategies.registry import make, parse_setting, require_artefacts, spec_of
from polyhop.worker.time_limits import BatchTimer

_LOG = logging.getLogger(__name__)
SLOW_SECONDS = 2.0  # A question that takes longer is logged; chosen: a hundred times what one usually takes.
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """A question, what was retrieved for it and what was read.

    `naming` is what a model took before anything was read: to name the question's names, or to take it apart.

    `seconds` are its parts: retrieval, and reading without a model, as measured for this question; the rest (encoding,
    texts, a model, a strategy that retrieves whole batches) as its share of what the batch took at once.
    `total_seconds` of a batch add up to what it took.
    """

    question: Question
    retrieval: Retrieval
    context: tuple[ContextPassage, ...]
    reading: ReaderResult
    seconds: Mapping[str, float]
    naming: ModelUse | None = None
    total_seconds: float = 0.0


class PartialOutageError(errors.ModelUnavailableError):
    """A model answered some questions of a batch and was unavailable for the others.

    Attributes:
        answered: One per question, in order; None where the model was unavailable.
        retry_after_seconds: Its Retry-After in seconds, 0 if it did not say.
    """

    def __init__(self, outage: errors.ModelUnavailableError, answered: Sequence[AnsweredQuestion | None]) -> None:
        self.answered = answered
        self.retry_after_seconds = errors.retry_after_seconds(outage)
        super().__init__(str(outage))


class Answerer:
    """One strategy on one open version, ready for batches."""

    ranks = True

    def __init__(
        self,
        index: IndexReader,
        strategy: str,
        parameters: Mapping[str, object],
        services: Services,
        reader: Reader | None,
        naming: QuestionNaming | None = None,
        *,
        nothing: ReaderResult | None = None,
    ) -> None:
        """Ready to answer; `nothing` is what every question gets instead, where a filter leaves no passage."""
        self._spec = spec_of(strategy)
        require_artefacts(strategy, index.artefacts, index.name)
        self._index = index
        self._nothing = nothing
        if nothing is not None:
            parse_setting(self._spec, parameters)
        else:
            self.strategy: Strategy = make(strategy, index, parameters, services)
        self.ranks_triples = self._spec.ranks_triples
        self._services = services
        self.reads = reader is not None or (nothing is not None and nothing.kind != UNREAD)
        self._reader = reader
        self._naming = naming or RuleNaming(index.artefact(NAMES))

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """Rankings only; may raise what `answer` raises."""
        if self._nothing is not None:
            check_questions(questions)
            return [Retrieval(()) for _ in questions]
        named, _ = self._with_names(self._with_vectors(questions), BatchTimer(len(questions)))
        return self.strategy.retrieve(named, limit=limit)

    def answer(
        self, questions: Sequence[Question], *, limit: int, read_passages: int = 10, timer: BatchTimer | None = None
    ) -> list[AnsweredQuestion]:
        """Rankings, contexts and short answers.

        Raises:
            EmptyQuestionError: If a question has no word in it.
            QuestionTooLongError: If a question is longer than MAX_QUESTION_CHARACTERS.
            PartialOutageError: If the reader's model was unavailable for some questions; it has the other answers.
            ModelUnavailableError: If a model was unavailable for all of them.
        """
        if self._nothing is not None:
            empty = zip(questions, self.retrieve(questions, limit=limit), strict=True)
            return [AnsweredQuestion(question, found, (), self._nothing, {}) for question, found in empty]
        with span("polyhop.answer", {"polyhop.strategy": self._spec.name, "polyhop.questions": len(questions)}):
            return self._answered(questions, limit, read_passages, timer or BatchTimer(len(questions)))

    def _answered(
        self, questions: Sequence[Question], limit: int, read_passages: int, timer: BatchTimer
    ) -> list[AnsweredQuestion]:
        begun = time.perf_counter()
        encoded, encoding = _timed(lambda: self._with_vectors(questions))
        (named, uses), naming = _timed(lambda: self._with_names(encoded, timer))
        shared = {"encoding": encoding / max(1, len(questions))}
        if any(uses):
            shared["naming"] = naming / len(questions)
        retrievals = self._retrieve(named, max(limit, read_passages), timer)
        contexts = self._contexts(retrievals, read_passages if self._reader is not None else 0)
        items = [ReadingItem(*each) for each in zip(named, retrievals, contexts, strict=True)]
        readings, reading = self._read(items, timer)
        totals = timer.totals(time.perf_counter() - begun)
        for question, spent in zip(named, totals, strict=True):
            if spent > SLOW_SECONDS:
                fields = {"strategy": self._spec.name, "seconds": round(spent, 3), "characters": len(question.text)}
                _LOG.info("a slow question", extra={"fields": fields})
        answered = []
        for index, (retrieval, read) in enumerate(zip(retrievals, readings, strict=True)):
            # What the answer shows: so many passages, and as many of the triples that it rests on.
            triples = (retrieval.triples if read.triples is None else read.triples)[:limit]
            shown = replace(retrieval, passages=retrieval.passages[:limit], triples=triples)
            seconds = {**shared, **retrieval.seconds, **reading[index]}
            use = summed_use([use for use in (uses[index], retrieval.use) if use is not None])
            answered.append(AnsweredQuestion(named[index], shown, contexts[index], read, seconds, use, totals[index]))
        # The answers, if all of them are answers; raises the longest outage otherwise.
        outages = [read.outage for read in readings if read.outage is not None]
        if not outages:
            return answered
        longest = max(outages, key=errors.retry_after_seconds)
        if len(outages) == len(answered):
            raise longest
        raise PartialOutageError(longest, [None if one.reading.outage is not None else one for one in answered])

    def _retrieve(self, questions: Sequence[Question], limit: int, timer: BatchTimer) -> list[Retrieval]:
        """One by one, to time each separately; at once where batches are faster."""
        indexes = [index for index in range(len(questions)) if self._spec.batches and index not in timer.isolated]
        found: dict[int, Retrieval] = {}
        if len(indexes) > 1:
            with timer.shared(indexes):
                retrieved = self.strategy.retrieve([questions[index] for index in indexes], limit=limit)
                found = dict(zip(indexes, retrieved, strict=True))
        for index, question in enumerate(questions):
            if index not in found:
                with timer.single(index):
                    found[index] = self.strategy.retrieve([question], limit=limit)[0]
        return [found[index] for index in range(len(questions))]

    def _read(
        self, items: Sequence[ReadingItem], timer: BatchTimer
    ) -> tuple[list[ReaderResult], list[dict[str, float]]]:
        """Reads each question, with its seconds: a model reads all at once, rules one after the other.

        Without a reader nothing is read, and there are no seconds.
        """
        if self._reader is None:
            return [ReaderResult("", kind=UNREAD) for _ in items], [{} for _ in items]
        if self._reader.batches:
            reader = self._reader
            together, seconds = _timed(lambda: reader.read(items))
            return together, [{"reading": seconds / max(1, len(items))} for _ in items]
        before = list(timer.seconds)
        readings: list[ReaderResult] = []
        for index, item in enumerate(items):
            with timer.single(index):
                readings += self._reader.read([item])
        return readings, [{"reading": after - own} for own, after in zip(before, timer.seconds, strict=True)]

    def _contexts(self, retrievals: Sequence[Retrieval], count: int) -> list[tuple[ContextPassage, ...]]:
        """Passages to read for each question; all texts are fetched at once, which costs little more than one."""
        number_of = self._index.number_of_passage
        numbers = [[number_of[passage.passage_id] for passage in one.passages[:count]] for one in retrievals]
        distinct = sorted({number for some in numbers for number in some})
        stored = dict(zip(distinct, self._index.passages(distinct), strict=True)) if distinct else {}
        return [
            tuple(
                ContextPassage(passage.passage_id, title, text, passage.rank, passage.score)
                for passage, (_, title, text) in zip(retrieval.passages, map(stored.__getitem__, some), strict=False)
            )
            for retrieval, some in zip(retrievals, numbers, strict=True)
        ]

    def _with_vectors(self, questions: Sequence[Question]) -> list[Question]:
        check_questions(questions)
        if not self._spec.needs_question_vector or not questions:
            return list(questions)
        return with_vectors(questions, self._services)

    def _with_names(
        self, questions: Sequence[Question], timer: BatchTimer
    ) -> tuple[list[Question], list[ModelUse | None]]:
        if not self._spec.needs_question_names or not questions:
            return list(questions), [None] * len(questions)
        namings: list[Naming] = []
        if isinstance(self._naming, RuleNaming):
            for index, question in enumerate(questions):
                with timer.single(index):
                    namings += self._naming.name([question])
        else:  # a model names all at once
            namings = self._naming.name(questions)
        named = [replace(question, names=naming.names) for question, naming in zip(questions, namings, strict=True)]
        return named, [naming.use for naming in namings]


def check_questions(questions: Sequence[Question]) -> None:
    """Refuses questions that are empty or too long."""
    for question in questions:
        if len(question.text) > errors.MAX_QUESTION_CHARACTERS:
            raise errors.QuestionTooLongError(len(question.text))
        if not any(character.isalnum() for character in question.text):
            raise errors.EmptyQuestionError("The question is empty; it needs at least one word.")


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    """Runs a piece of work; returns its result and its seconds."""
    start = time.perf_counter()
    return work(), time.perf_counter() - start


def passage_rows(index: IndexReader, retrieval: Retrieval) -> list[dict[str, Any]]:
    """Ranked passages as the JSON contract wants them; pieces of a split record name it as `record`.

    Each has its document, file, offsets in the record's text and metadata. `location` says where a passage is in
    its file, where that is known: pages, slide, sheet, chapter, headings.
    """
    number_of = index.number_of_passage
    locations = index.locations([p.passage_id for p in retrieval.passages])
    origins = index.origins([number_of[p.passage_id] for p in retrieval.passages]) if retrieval.passages else []
    rows = []
    for p, origin in zip(retrieval.passages, origins, strict=True):
        title = index.passage_titles[number_of[p.passage_id]]
        row: dict[str, Any] = {"id": p.passage_id, "title": title, "score": round(p.score, 6), "rank": p.rank}
        if (record := index.record_of(p.passage_id)) != p.passage_id:
            row["record"] = record
        if p.passage_id in locations:
            row["location"] = locations[p.passage_id].document()
        rows.append(row | origin.row())
    return rows


def triple_rows(retrieval: Retrieval) -> list[dict[str, Any]]:
    """Ranked triples as the JSON contract wants them; `id` is their row of the table `relations`."""
    return [
        {
            "id": triple.relation_id,
            "subject": {"id": triple.subject_id, "name": triple.subject},
            "predicate": triple.predicate,
            "object": {"id": triple.object_id, "name": triple.object},
            "score": round(triple.score, 6),
            "rank": triple.rank,
        }
        for triple in retrieval.triples
    ]


class ClosedBookAnswerer:
    """Answers questions as `Answerer` does, without retrieval: the ranking is empty, nothing was looked for."""

    ranks = False
    ranks_triples = False
    reads = True

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def answer(self, questions: Sequence[Question], *, limit: int = 0) -> list[AnsweredQuestion]:
        """One answer per question, in order."""
        check_questions(questions)
        begun = time.perf_counter()
        readings = self._reader.read([ReadingItem(question, Retrieval(()), ()) for question in questions])
        share = (time.perf_counter() - begun) / max(1, len(questions))
        for reading in readings:
            if reading.outage is not None:
                raise reading.outage
        return [
            AnsweredQuestion(question, Retrieval(()), (), reading, {"reading": share}, total_seconds=share)
            for question, reading in zip(questions, readings, strict=True)
        ]
