"""Stored jobs and results as the documents that people and scripts read, also while workers run."""

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from polyhop.schemas.errors import StoreError, UnknownIdError
from polyhop.schemas.queue import JobRow, QuestionState, ResultRow, WorkerRow
from polyhop.schemas.text import duration
from polyhop.warehouse.queue.queue import QuestionQueue

_ROWS_PER_BATCH = 1_000  # of results; chosen: bounds the memory of an export, and any number writes the same rows
_LATEST_LOOKS = 12  # that a pace rests on; chosen: a minute of --watch, and a queue changes with its questions
_ANSWER_KEYS = frozenset({"question", "answer", "strategy", "version", "passages", "evidence", "seconds"})
"""What redrawing and asking again need of a stored answer (the JSON contract of `polyhop ask`)."""
_PARQUET_COLUMNS = {
    **dict.fromkeys(("id", "question", "answer", "guess", "sentences", "state"), "string"),
    "version": "int64",
    **dict.fromkeys(("strategy", "passages", "evidence", "seconds", "index", "parameters"), "string"),
    "limit": "int64",
    **dict.fromkeys(("model", "tokens"), "string"),
    "cost_usd": "float64",
    "reading": "string",
    "filter": "string",
    "triples": "string",
    "attempts": "int64",
    **dict.fromkeys(("worker", "finished_at", "error", "error_class"), "string"),
}


def job_document(job: JobRow, workers: Iterable[WorkerRow] = ()) -> dict[str, Any]:
    """A job as a row of `polyhop jobs`; an open one says which of its queue's workers wait for a model, and why."""
    waiting = waiting_workers(worker for worker in workers if job.is_open and job.queue in worker.queues)
    return {
        "job_id": job.job_id,
        "name": job.name,
        "queue": job.queue,
        "index": job.index,
        "strategy": job.strategy,
        "parameters": dict(job.parameters),
        "min_confidence": job.min_confidence,
        "where": job.where,
        "priority": job.priority,
        "submitted_at": iso(job.submitted_at),
        "questions": job.question_count,
        **{state.value: job.counts[state] for state in QuestionState},
        "oldest_wait_seconds": job.oldest_wait_seconds,
        "errors": [{"class": e.error_class, "count": e.count, "example": e.example} for e in job.errors],
        "waiting_for_model": waiting,
    }


def waiting_workers(workers: Iterable[WorkerRow]) -> list[dict[str, Any]]:
    """Workers that claim nothing because a model is unavailable."""
    return [
        {"worker": w.worker_id, "since": iso(w.outage_since), "reason": w.outage}
        for w in workers
        if w.outage is not None and w.outage_since is not None
    ]


class QuestionPace:
    """How fast questions end, from one look to the next, and how long the open ones take at that pace."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looks: deque[tuple[float, int]] = deque(maxlen=_LATEST_LOOKS)

    def look(self, ended: int, open_count: int) -> dict[str, float | None]:
        """{per_minute, seconds_left} over the latest looks; None of the first look, and while no question ends."""
        now = self._clock()
        since, before = self._looks[0] if self._looks else (now, ended)
        self._looks.append((now, ended))
        rate = 60 * (ended - before) / (now - since) if now > since else None
        return {"per_minute": rate, "seconds_left": 60 * open_count / rate if rate else None}


def pace_words(per_minute: float, seconds_left: float | None) -> str:
    """A pace for people: 64 a minute, about 12 min left."""
    left = "time left unknown" if seconds_left is None else f"about {duration(seconds_left)} left"
    return f"{per_minute:,.0f} a minute, {left}"


def result_document(row: ResultRow) -> dict[str, Any]:
    """A question as a row of `polyhop jobs results`; everything that its worker stored is in it.

    It has `triples` if its strategy ranks any.
    """
    triples = {name: row.result[name] for name in ("triples",) if name in row.result}
    return {
        "id": row.question_id,
        "question": row.question,
        "answer": row.answer,
        "guess": row.result.get("guess", ""),
        "sentences": row.result.get("sentences", []),
        "state": row.state.value,
        "version": row.version,
        "strategy": row.strategy,
        "passages": row.result.get("passages", []),
        **triples,
        "evidence": row.result.get("evidence", {}),
        "seconds": row.result.get("seconds", {}),
        "index": row.result.get("index"),
        "parameters": row.result.get("parameters", {}),
        "limit": row.result.get("limit"),
        "model": row.result.get("model"),
        "tokens": row.result.get("tokens", {}),
        "cost_usd": row.result.get("cost_usd"),
        "reading": row.result.get("reading", {}),
        "filter": row.result.get("filter"),
        "attempts": row.attempts,
        "worker": row.worker_id,
        "finished_at": None if row.finished_at is None else iso(row.finished_at),
        "error": row.error,
        "error_class": row.error_class,
    }


def require_result(queue: QuestionQueue, job_id: int, question_id: str) -> ResultRow:
    """A stored answer."""
    queue.job(job_id)
    row = queue.result(job_id, question_id)
    if row is None:
        raise UnknownIdError(f"Job {job_id} has no question '{question_id}'; polyhop jobs results {job_id} lists them.")
    if row.state is not QuestionState.DONE:
        because = f" ({row.error})" if row.error else ""
        raise UnknownIdError(
            f"Question '{question_id}' of job {job_id} has no answer: it is {row.state.value}{because}."
        )
    missing = sorted(_ANSWER_KEYS - row.result.keys())
    if missing:
        raise StoreError(
            f"The stored answer to question '{question_id}' of job {job_id} lacks '{missing[0]}'; submit it again."
        )
    return row


def iso(seconds: float) -> str:
    """A time in ISO 8601, UTC."""
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat(timespec="seconds")


def results_parquet(rows: Iterator[ResultRow], path: Path) -> int:
    """Writes results as parquet, nested parts as JSON text, batch by batch; returns the number of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from polyhop.warehouse.files.disk import named_file

    schema = pa.schema([pa.field(name, getattr(pa, kind)()) for name, kind in _PARQUET_COLUMNS.items()])
    count = 0
    with named_file(path, "the results") as place, pq.ParquetWriter(place, schema) as writer:
        while batch := [_flat(result_document(row)) for row in islice(rows, _ROWS_PER_BATCH)]:
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))
            count += len(batch)
    return count


def _flat(document: dict[str, Any]) -> dict[str, Any]:
    return {
        name: json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
        for name, value in document.items()
    }
