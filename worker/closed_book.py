"""Questions to answers without an index: the model knows the question alone (a row of `polyhop eval`).

Opens nothing: gets a reader; ranks nothing.
"""

import time
from collections.abc import Sequence

from polyhop.schemas.ports import Reader
from polyhop.schemas.query import Question, ReadingItem, Retrieval
from polyhop.worker.answer import AnsweredQuestion, check_questions


class ClosedBookAnswerer:
    """Answers questions as `Answerer` does, without retrieval: the ranking is empty, nothing was looked for.

    Args:
        reader: Reads nothing but the question (reading/closed_book.py).
    """

    ranks = False
    ranks_triples = False
    reads = True

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def answer(self, questions: Sequence[Question], *, limit: int = 0) -> list[AnsweredQuestion]:
        """One answer per question, in order.

        Args:
            questions: Asked together.
            limit: Of no use here: no passage is ranked.

        Raises:
            EmptyQuestionError: If a question has no word in it.
            QuestionTooLongError: If a question is longer than MAX_QUESTION_CHARACTERS.
            ModelUnavailableError: If the model was unavailable for one of them.
        """
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
