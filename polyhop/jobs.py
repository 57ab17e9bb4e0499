"""Stored jobs and results: documents that people and scripts read while workers run, parquet, tables for SQL."""

import json
import shlex
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyhop.schemas.errors import StoreError, UnknownIdError
from polyhop.schemas.queue import JobRow, QuestionState, ResultRow, WorkerRow, model_that_read
from polyhop.schemas.settings import Settings
from polyhop.schemas.text import duration
from polyhop.warehouse.open import open_questions
from polyhop.warehouse.queue.queue import QuestionQueue

if TYPE_CHECKING:
    import pyarrow as pa

    from polyhop.schemas.tables import Table
    from polyhop.warehouse.tables.query import LazyTable, Wanted

_ROWS_PER_BATCH = 1_000  # of results; chosen: bounds the memory of documents, and any number makes the same rows
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
    called = {"job_id": job.job_id, "name": job.name, "queue": job.queue, "index": job.index, "strategy": job.strategy}
    return {
        **called,
        "parameters": dict(job.parameters),
        "min_confidence": job.min_confidence,
        "where": job.where,
        "priority": job.priority,
        "submitted_at": iso(job.submitted_at),
        "questions": job.question_count,
        **{state.value: job.counts[state] for state in QuestionState},
        "oldest_wait_seconds": job.oldest_wait_seconds,
        "errors": [{"class": e.error_class, "count": e.count, "example": e.example} for e in job.errors],
        "waiting_for_model": waiting_workers(w for w in workers if job.is_open and job.queue in w.queues),
    }


def waiting_workers(workers: Iterable[WorkerRow]) -> list[dict[str, Any]]:
    """Workers that claim nothing because a model is unavailable."""
    return [
        {"worker": w.worker_id, "since": iso(w.outage_since), "reason": w.outage}
        for w in workers
        if w.outage is not None and w.outage_since is not None
    ]


def unserved_sentence(job: JobRow, workers: Iterable[WorkerRow], settings: Settings) -> str:
    """Sentence on how to start a worker, for an open job whose queue no worker serves; "" if one does."""
    if not job.is_open or any(job.queue in worker.queues for worker in workers):
        return ""
    is_default = settings.root == Settings.model_fields["root"].default
    root = "" if is_default else f" --root {shlex.quote(str(settings.root))}"
    return f"No worker serves queue '{job.queue}'; start one: polyhop worker --queues {shlex.quote(job.queue)}{root}"


class QuestionPace:
    """Rate of answered questions between looks at a job, and the time left at that rate."""

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
    """A question as a row of `polyhop jobs results`; everything that its worker stored is in it."""
    stored = row.result
    triples = {name: stored[name] for name in ("triples",) if name in stored}
    asked = {"id": row.question_id, "question": row.question, "answer": row.answer, "guess": stored.get("guess", "")}
    given = {"index": stored.get("index"), "parameters": stored.get("parameters", {}), "limit": stored.get("limit")}
    spent = {"model": stored.get("model"), "tokens": stored.get("tokens", {}), "cost_usd": stored.get("cost_usd")}
    finished_at = None if row.finished_at is None else iso(row.finished_at)
    ended = {"attempts": row.attempts, "worker": row.worker_id, "finished_at": finished_at}
    return {
        **asked,
        "sentences": stored.get("sentences", []),
        "state": row.state.value,
        "version": row.version,
        "strategy": row.strategy,
        "passages": stored.get("passages", []),
        **triples,
        "evidence": stored.get("evidence", {}),
        "seconds": stored.get("seconds", {}),
        **given,
        **spent,
        "reading": stored.get("reading", {}),
        "filter": stored.get("filter"),
        **ended,
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
            f"The stored answer to question '{question_id}' of job {job_id} lacks '{missing[0]}'; submit the "
            "question again."
        )
    return row


def iso(seconds: float) -> str:
    """A time in ISO 8601, UTC."""
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat(timespec="seconds")


def write_results(rows: Iterator[ResultRow], path: Path) -> int:
    """Writes results in the format that the suffix names, batch by batch; returns the number of rows.

    Nested parts are JSON text in CSV and Parquet; a JSON line is the document that `polyhop jobs results` prints.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import csv

    from polyhop.warehouse.files.disk import CSV, JSON_LINES, PARQUET, named_file, require_writable, write_json_lines

    what = "the results"
    require_writable(path, what, CSV, JSON_LINES, PARQUET)
    suffix = path.suffix.lower()
    if suffix == JSON_LINES:
        return write_json_lines(path, map(result_document, rows), what)
    writer: Any = csv.CSVWriter if suffix == CSV else pq.ParquetWriter

    def flat(document: dict[str, Any]) -> dict[str, Any]:
        nested = {name: value for name, value in document.items() if isinstance(value, dict | list)}
        return document | {name: json.dumps(value, ensure_ascii=False) for name, value in nested.items()}

    schema = pa.schema([pa.field(name, getattr(pa, kind)()) for name, kind in _PARQUET_COLUMNS.items()])
    count = 0
    with named_file(path, what) as target, writer(target, schema) as opened:
        while batch := [flat(result_document(row)) for row in islice(rows, _ROWS_PER_BATCH)]:
            opened.write_table(pa.Table.from_pylist(batch, schema=schema))
            count += len(batch)
    return count


_ALL_JOBS = 1_000_000_000  # a limit that no queue reaches: a query reads all jobs


def result_tables(settings: Settings, index: str) -> "list[LazyTable]":
    """The answers in the queue as the tables `results` and `result_passages` of an index; see schemas/tables.py.

    The queue is opened only when a query reads one of them, and only the jobs and the parts that it asks for are read.
    """
    from polyhop.schemas.tables import FROM_EVIDENCE, RESULT_PASSAGES, RESULTS
    from polyhop.warehouse.tables.query import LazyTable

    def results(wanted: "Wanted") -> "pa.Table":
        return _table(settings, index, wanted, RESULTS, _result_rows, with_evidence=wanted.wants(*FROM_EVIDENCE))

    def passages(wanted: "Wanted") -> "pa.Table":
        return _table(settings, index, wanted, RESULT_PASSAGES, _passage_rows, with_evidence=True)

    return [LazyTable(RESULTS, results, is_large=True), LazyTable(RESULT_PASSAGES, passages, is_large=True)]


_Rows = Callable[[JobRow, ResultRow], Iterator[dict[str, Any]]]


def _table(
    settings: Settings, index: str, wanted: "Wanted", table: "Table", rows: _Rows, *, with_evidence: bool
) -> "pa.Table":
    """The rows of the index's jobs that a query asks for, as they were submitted."""
    import pyarrow as pa

    with open_questions(settings) as queue:
        jobs = [job for job in queue.jobs(_ALL_JOBS) if job.index == index]
        jobs = sorted((job for job in jobs if wanted.keys is None or job.job_id in wanted.keys), key=lambda j: j.job_id)
        found = (
            document
            for job in jobs
            for row in queue.results(job.job_id, with_evidence=with_evidence)
            for document in rows(job, row)
        )
        batches = []
        while batch := list(islice(found, _ROWS_PER_BATCH)):
            batches.append(pa.RecordBatch.from_pylist(batch, schema=table.arrow))
    return pa.Table.from_batches(batches, schema=table.arrow)


def _result_rows(job: JobRow, row: ResultRow) -> Iterator[dict[str, Any]]:
    stored = row.result
    reading, tokens = _mapping(stored.get("reading")), _mapping(stored.get("tokens"))
    asked = {"job_id": job.job_id, "id": row.question_id, "question": row.question, "answer": row.answer}
    ended = {"error": row.error, "error_class": row.error_class, "attempts": row.attempts, "topic": row.topic}
    read = {"confidence": reading.get("confidence"), "read_by": reading.get("by"), "model": model_that_read(reading)}
    yield {
        **asked,
        "guess": stored.get("guess", row.answer),
        "state": row.state.value,
        "version": row.version,
        "strategy": row.strategy or job.strategy,
        "index": job.index,
        "seconds": row.seconds,
        "finished_at": None if row.finished_at is None else datetime.fromtimestamp(row.finished_at, tz=UTC),
        **ended,
        "gold_answers": list(row.answers),
        "gold_passages": list(row.supporting),
        **read,
        "prompt_tokens": tokens.get("prompt"),
        "completion_tokens": tokens.get("completion"),
        "cost_usd": stored.get("cost_usd"),
        "passage_ids": [str(passage["id"]) for passage in _passages(row)],
        "worker": row.worker_id,
    }


def _passage_rows(job: JobRow, row: ResultRow) -> Iterator[dict[str, Any]]:
    for rank, passage in enumerate(_passages(row), start=1):
        key = {"job_id": job.job_id, "id": row.question_id, "rank": passage.get("rank", rank)}
        title, score = passage.get("title"), passage.get("score")
        yield {**key, "passage_id": str(passage["id"]), "title": title, "score": score}


def _passages(row: ResultRow) -> list[Mapping[str, Any]]:
    listed = row.result.get("passages")
    return [each for each in listed if isinstance(each, Mapping) and "id" in each] if isinstance(listed, list) else []


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
