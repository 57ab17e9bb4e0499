"""A batch of questions to answers with their evidence: encode, retrieve, read.

Opens nothing: gets an open index and an encoder; the front door and the queue's loop both come here.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.errors import EmptyQuestionError, MissingArtefactError
from schemas.ports import IndexReader, Reader, Strategy
from schemas.query import ContextPassage, Question, Reading, Retrieval
from schemas.strategies import needed_artefacts
from worker.reading.context import pack_context
from worker.strategies.registry import make, spec_of

EncodeQuestions = Callable[[Sequence[str]], NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """A question, what was retrieved for it and what was read."""

    question: Question
    retrieval: Retrieval
    context: tuple[ContextPassage, ...]
    reading: Reading
    seconds: Mapping[str, float]


class Answerer:
    """One strategy on one open version, ready for batches."""

    def __init__(
        self,
        index: IndexReader,
        strategy: str,
        parameters: Mapping[str, object],
        encode: EncodeQuestions,
        reader: Reader | None,
    ) -> None:
        self._spec = spec_of(strategy)
        for artefact in sorted(needed_artefacts([strategy])):
            if artefact not in index.artefacts:
                raise MissingArtefactError(artefact, index.name, strategy)
        self._index = index
        self.strategy: Strategy = make(strategy, index, dict(parameters))
        self._encode = encode
        self._reader = reader

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """Rankings only.

        Raises:
            EmptyQuestionError: If a question has no word in it.
        """
        return self.strategy.retrieve(self._with_vectors(questions), limit=limit)

    def answer(self, questions: Sequence[Question], *, limit: int, read_passages: int = 10) -> list[AnsweredQuestion]:
        """Rankings, contexts and short answers.

        Raises:
            EmptyQuestionError: If a question has no word in it.
        """
        start = time.perf_counter()
        encoded = self._with_vectors(questions)
        encoding = (time.perf_counter() - start) / max(1, len(questions))
        retrievals = self.strategy.retrieve(encoded, limit=max(limit, read_passages))
        contexts = [self._context(retrieval, read_passages) for retrieval in retrievals]
        start = time.perf_counter()
        readings = self._read(encoded, contexts)
        reading = (time.perf_counter() - start) / max(1, len(questions))
        return [
            AnsweredQuestion(
                question,
                replace(retrieval, passages=retrieval.passages[:limit]),
                context,
                read,
                {"encoding": encoding, **retrieval.seconds, "reading": reading},
            )
            for question, retrieval, context, read in zip(encoded, retrievals, contexts, readings, strict=True)
        ]

    def _read(self, questions: Sequence[Question], contexts: Sequence[Sequence[ContextPassage]]) -> list[Reading]:
        if self._reader is None:
            return [Reading("") for _ in questions]
        return self._reader.read(questions, contexts)

    def _context(self, retrieval: Retrieval, count: int) -> tuple[ContextPassage, ...]:
        ranked = retrieval.passages[:count]
        stored = self._index.passages([self._index.number_of_passage[passage.passage_id] for passage in ranked])
        return tuple(pack_context(ranked, stored, limit=count))

    def _with_vectors(self, questions: Sequence[Question]) -> list[Question]:
        for question in questions:
            if not any(character.isalnum() for character in question.text):
                raise EmptyQuestionError("The question is empty; ask with at least one word.")
        if not self._spec.needs_question_vector or not questions:
            return list(questions)
        vectors = self._encode([question.text for question in questions])
        return [replace(question, vector=vector) for question, vector in zip(questions, vectors, strict=True)]


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
