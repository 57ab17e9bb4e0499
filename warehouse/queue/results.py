"""Reading questions with their answers, page by page in submitted order.

Changes nothing; each function is a piece of one transaction.
"""

from collections.abc import Collection

from sqlalchemy import RowMapping

from polyhop.schemas.queue import QuestionState, ResultRow
from polyhop.schemas.queue_errors import UnknownJobError
from polyhop.schemas.stored import StoredRow, damage_of
from polyhop.warehouse.queue.transactions import Transaction

ROWS_PER_PAGE = 500  # chosen: bounds the answers in memory, and any number gives the same rows


def number_range(tx: Transaction, job_id: int) -> tuple[int, int]:
    """The number before a job's first question, and that of its last.

    Raises:
        UnknownJobError: If there is none of this id.
    """
    rows = tx.rows("jobs.one", job_id=job_id)
    if not rows:
        raise UnknownJobError(job_id)
    before = int(rows[0]["first_number"]) - 1
    return before, before + int(rows[0]["question_count"])


def page(
    tx: Transaction,
    after: int,
    last: int,
    states: Collection[QuestionState],
    *,
    limit: int = ROWS_PER_PAGE,
    with_evidence: bool = True,
) -> tuple[list[ResultRow], int | None]:
    """Rows with `after` < number <= `last`, and the number to go on after (None at the end)."""
    rows = tx.rows(
        "results.page",
        after=after,
        last=last,
        states=[state.value for state in states],
        limit=limit,
        with_evidence=int(with_evidence),
    )
    read = [_result_row(row, with_evidence=with_evidence) for row in rows]
    return read, rows[-1]["number"] if len(rows) == limit else None


def find_result(tx: Transaction, job_id: int, question_id: str) -> ResultRow | None:
    """One question of a job by the asker's own id, or None."""
    rows = tx.rows("results.number", job_id=job_id, question_id=question_id)
    if not rows:
        return None
    number = int(rows[0]["number"])
    found, _ = page(tx, number - 1, number, tuple(QuestionState), limit=1)
    return found[0] if found else None


def _result_row(row: RowMapping, *, with_evidence: bool) -> ResultRow:
    stored, answered, state = StoredRow(), StoredRow(), QuestionState(row["state"])
    if state is QuestionState.DONE and row["version"] is None:
        answered.faults.append("its stored answer is missing")
    answer = None if row["answer"] is None else answered.text("answer", row["answer"])
    result = answered.answer(row["result_json"]) if with_evidence and row["version"] is not None else {}
    return ResultRow(
        job_id=row["job_id"],
        question_id=stored.text("id", row["question_id"]),
        ordinal=row["ordinal"],
        question=stored.text("question", row["question"]),
        topic=None if row["topic"] is None else stored.text("topic", row["topic"]),
        answers=stored.strings("answers to compare with", row["answers_json"]),
        supporting=stored.strings("supporting passages", row["supporting_json"]),
        metadata=stored.mapping("metadata", row["metadata_json"]),
        state=state,
        attempts=row["attempts"],
        error=None if row["error"] is None else stored.text("error", row["error"]),
        error_class=row["error_class"],
        finished_at=row["finished_at"],
        answer=answer,
        version=row["version"],
        strategy=row["strategy"],
        worker_id=row["answered_by"] or row["worker_id"],
        seconds=row["seconds"],
        result=result,
        damage=damage_of(stored, answered),
    )
