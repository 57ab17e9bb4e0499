"""A batch of questions to answers with their evidence: encode, name, retrieve, read.

Opens nothing: gets an open index and an encoder; the front door and the queue's loop both come here.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.errors import EmptyQuestionError, MissingArtefactError, ModelUnavailableError
from schemas.ports import IndexReader, NameSearching, Reader, Strategy
from schemas.query import ContextPassage, ModelUse, Question, Reading, Retrieval
from schemas.strategies import needed_artefacts
from worker.model_outcomes import retry_after_seconds
from worker.questions.names import QuestionNaming, RuleNaming
from worker.reading.context import pack_context
from worker.strategies.registry import make, spec_of

EncodeQuestions = Callable[[Sequence[str]], NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """A question, what was retrieved for it and what was read; `naming` is what a model took to name its names."""

    question: Question
    retrieval: Retrieval
    context: tuple[ContextPassage, ...]
    reading: Reading
    seconds: Mapping[str, float]
    naming: ModelUse | None = None


class PartialOutageError(ModelUnavailableError):
    """A model answered some questions of a batch and was away for the others.

    Attributes:
        answered: One per question, in order; None where the model was away.
        retry_after_seconds: How long it asked to be left alone, 0 if it did not say.
    """

    def __init__(self, outage: ModelUnavailableError, answered: Sequence[AnsweredQuestion | None]) -> None:
        self.answered = answered
        self.retry_after_seconds = retry_after_seconds(outage)
        super().__init__(str(outage))


class Answerer:
    """One strategy on one open version, ready for batches."""

    def __init__(
        self,
        index: IndexReader,
        strategy: str,
        parameters: Mapping[str, object],
        encode: EncodeQuestions,
        reader: Reader | None,
        naming: QuestionNaming | None = None,
    ) -> None:
        self._spec = spec_of(strategy)
        for artefact in sorted(needed_artefacts([strategy])):
            if artefact not in index.artefacts:
                raise MissingArtefactError(artefact, index.name, strategy)
        self._index = index
        self.strategy: Strategy = make(strategy, index, dict(parameters))
        self._encode = encode
        self._reader = reader
        self._naming = naming or RuleNaming(index.names)

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """Rankings only.

        Raises:
            EmptyQuestionError: If a question has no word in it.
            ModelUnavailableError: If the strategy starts from names that a model finds, and it is away.
        """
        named, _ = self._with_names(self._with_vectors(questions))
        return self.strategy.retrieve(self._with_hints(named), limit=limit)

    def answer(self, questions: Sequence[Question], *, limit: int, read_passages: int = 10) -> list[AnsweredQuestion]:
        """Rankings, contexts and short answers.

        Raises:
            EmptyQuestionError: If a question has no word in it.
            PartialOutageError: If the reader's model was away for some of the questions; it has the other answers.
            ModelUnavailableError: If a model was away for all of them.
        """
        start = time.perf_counter()
        encoded = self._with_vectors(questions)
        encoding = (time.perf_counter() - start) / max(1, len(questions))
        start = time.perf_counter()
        named, uses = self._with_names(encoded)
        naming = {"naming": (time.perf_counter() - start) / len(questions)} if any(uses) else {}
        start = time.perf_counter()
        hinted = self._with_hints(named)
        encoding += (time.perf_counter() - start) / max(1, len(questions))
        retrievals = self.strategy.retrieve(hinted, limit=max(limit, read_passages))
        contexts = self._contexts(retrievals, read_passages)
        start = time.perf_counter()
        readings = self._read(named, contexts, [str(found.evidence.get("context", "")) for found in retrievals])
        reading = (time.perf_counter() - start) / max(1, len(questions))
        return _all_or_outage(
            [
                AnsweredQuestion(
                    question,
                    replace(retrieval, passages=retrieval.passages[:limit]),
                    context,
                    read,
                    {"encoding": encoding, **naming, **retrieval.seconds, "reading": reading},
                    use,
                )
                for question, retrieval, context, read, use in zip(
                    named, retrievals, contexts, readings, uses, strict=True
                )
            ]
        )

    def _read(
        self, questions: Sequence[Question], contexts: Sequence[Sequence[ContextPassage]], notes: Sequence[str]
    ) -> list[Reading]:
        if self._reader is None:
            return [Reading("") for _ in questions]
        return self._reader.read(questions, contexts, notes)

    def _contexts(self, retrievals: Sequence[Retrieval], count: int) -> list[tuple[ContextPassage, ...]]:
        """What is read for each question; all texts are fetched at once, which costs little more than one."""
        numbers = [
            [self._index.number_of_passage[passage.passage_id] for passage in retrieval.passages[:count]]
            for retrieval in retrievals
        ]
        distinct = sorted({number for some in numbers for number in some})
        stored = dict(zip(distinct, self._index.passages(distinct), strict=True)) if distinct else {}
        return [
            tuple(pack_context(retrieval.passages[:count], [stored[number] for number in some], limit=count))
            for retrieval, some in zip(retrievals, numbers, strict=True)
        ]

    def _with_vectors(self, questions: Sequence[Question]) -> list[Question]:
        for question in questions:
            if not any(character.isalnum() for character in question.text):
                raise EmptyQuestionError("The question is empty; ask with at least one word.")
        if not self._spec.needs_question_vector or not questions:
            return list(questions)
        vectors = self._encode([question.text for question in questions])
        return [replace(question, vector=vector) for question, vector in zip(questions, vectors, strict=True)]

    def _with_names(self, questions: Sequence[Question]) -> tuple[list[Question], list[ModelUse | None]]:
        if not self._spec.needs_question_names or not questions:
            return list(questions), [None] * len(questions)
        namings = self._naming.name(questions)
        named = [replace(question, names=naming.names) for question, naming in zip(questions, namings, strict=True)]
        return named, [naming.use for naming in namings]

    def _with_hints(self, questions: Sequence[Question]) -> list[Question]:
        """With vectors of the hints that the strategy searches by; equal hints are encoded once."""
        if not isinstance(self.strategy, NameSearching):
            return list(questions)
        hints = [tuple(self.strategy.searched_hints(question)) for question in questions]
        distinct = sorted({hint for some in hints for hint in some})
        if not distinct:
            return list(questions)
        vector_of = dict(zip(distinct, self._encode(distinct), strict=True))
        return [
            replace(question, hint_vectors={hint: vector_of[hint] for hint in some})
            for question, some in zip(questions, hints, strict=True)
        ]


def _all_or_outage(answered: list[AnsweredQuestion]) -> list[AnsweredQuestion]:
    """The answers, if all of them are answers; raises the longest outage otherwise."""
    outages = [one.reading.outage for one in answered if one.reading.outage is not None]
    if not outages:
        return answered
    longest = max(outages, key=retry_after_seconds)
    if len(outages) == len(answered):
        raise longest
    raise PartialOutageError(longest, [None if one.reading.outage is not None else one for one in answered])


def passage_rows(index: IndexReader, retrieval: Retrieval) -> list[dict[str, Any]]:
    """Ranked passages as the JSON contract wants them; pieces of a split record name it as `record`."""
    number_of = index.number_of_passage
    rows = []
    for p in retrieval.passages:
        title = index.passage_titles[number_of[p.passage_id]]
        row: dict[str, Any] = {"id": p.passage_id, "title": title, "score": round(p.score, 6), "rank": p.rank}
        record = index.record_of(p.passage_id)
        rows.append(row if record == p.passage_id else {**row, "record": record})
    return rows
