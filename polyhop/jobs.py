"""Stored jobs and results as the documents that people and scripts read.

Answers nothing (workers do); everything here works while they run.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from schemas.errors import UnknownIdError
from schemas.queue import JobRow, QuestionState, ResultRow
from warehouse.queue.queue import QuestionQueue


def job_document(job: JobRow) -> dict[str, Any]:
    """A job as a row of `polyhop jobs`."""
    return {
        "job_id": job.job_id,
        "name": job.name,
        "queue": job.queue,
        "index": job.index,
        "strategy": job.strategy,
        "parameters": dict(job.parameters),
        "priority": job.priority,
        "submitted_at": _iso(job.submitted_at),
        "questions": job.question_count,
        **{state.value: job.counts[state] for state in QuestionState},
        "oldest_wait_seconds": job.oldest_wait_seconds,
        "errors": [{"class": e.error_class, "count": e.count, "example": e.example} for e in job.errors],
    }


def result_document(row: ResultRow) -> dict[str, Any]:
    """A question as a row of `polyhop results`; everything that its worker stored is in it."""
    return {
        "id": row.question_id,
        "question": row.question,
        "answer": row.answer,
        "state": row.state.value,
        "version": row.version,
        "strategy": row.strategy,
        "passages": row.result.get("passages", []),
        "evidence": row.result.get("evidence", {}),
        "seconds": row.result.get("seconds", {}),
        "index": row.result.get("index"),
        "parameters": row.result.get("parameters", {}),
        "limit": row.result.get("limit"),
        "model": row.result.get("model"),
        "tokens": row.result.get("tokens", {}),
        "cost_usd": row.result.get("cost_usd"),
        "attempts": row.attempts,
        "worker": row.worker_id,
        "finished_at": None if row.finished_at is None else _iso(row.finished_at),
        "error": row.error,
        "error_class": row.error_class,
    }


def require_result(queue: QuestionQueue, job_id: int, question_id: str) -> ResultRow:
    """A stored answer.

    Raises:
        UnknownIdError: If the job has no such question, or it has no answer (yet).
    """
    queue.job(job_id)
    row = queue.result(job_id, question_id)
    if row is None:
        raise UnknownIdError(f"Job {job_id} has no question '{question_id}'; polyhop results {job_id} lists them.")
    if row.state is not QuestionState.DONE:
        because = f" ({row.error})" if row.error else ""
        raise UnknownIdError(
            f"Question '{question_id}' of job {job_id} has no answer: it is {row.state.value}{because}."
        )
    return row


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat(timespec="seconds")


def results_parquet(rows: Iterator[ResultRow], path: Path) -> int:
    """Writes results as parquet, nested parts as JSON text; returns the number of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from warehouse.files.disk import writing

    documents = [_flat(result_document(row)) for row in rows]
    with writing("results", path):
        pq.write_table(pa.Table.from_pylist(documents), path)
    return len(documents)


def _flat(document: dict[str, Any]) -> dict[str, Any]:
    return {
        name: json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
        for name, value in document.items()
    }
