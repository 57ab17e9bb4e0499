"""Reading questions with their answers, page by page in submitted order.

Changes nothing; each function is a piece of one transaction.
"""

import json
from collections.abc import Collection

from sqlalchemy import RowMapping

from schemas.errors import UnknownJobError
from schemas.queue import QuestionState, ResultRow
from warehouse.queue.transactions import Transaction

ROWS_PER_PAGE = 500


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
    return [_result_row(row) for row in rows], rows[-1]["number"] if len(rows) == limit else None


def find_result(tx: Transaction, job_id: int, question_id: str) -> ResultRow | None:
    """One question of a job by the asker's own id, or None."""
    rows = tx.rows("results.number", job_id=job_id, question_id=question_id)
    if not rows:
        return None
    number = int(rows[0]["number"])
    found, _ = page(tx, number - 1, number, tuple(QuestionState), limit=1)
    return found[0] if found else None


def _result_row(row: RowMapping) -> ResultRow:
    return ResultRow(
        job_id=row["job_id"],
        question_id=row["question_id"],
        ordinal=row["ordinal"],
        question=row["question"],
        topic=row["topic"],
        answers=tuple(json.loads(row["answers_json"])),
        supporting=tuple(json.loads(row["supporting_json"])),
        metadata=json.loads(row["metadata_json"]),
        state=QuestionState(row["state"]),
        attempts=row["attempts"],
        error=row["error"],
        error_class=row["error_class"],
        finished_at=row["finished_at"],
        answer=row["answer"],
        version=row["version"],
        strategy=row["strategy"],
        worker_id=row["answered_by"] or row["worker_id"],
        seconds=row["seconds"],
        result=json.loads(row["result_json"]) if row["result_json"] is not None else {},
    )
