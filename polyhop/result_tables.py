"""The answers in the question queue as tables for SQL on an index: `results` and `result_passages`.

Opens the queue only when a query reads one of them, and reads only the jobs and the parts that the query asks for.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pyarrow as pa

from polyhop.schemas.queue import JobRow, ResultRow
from polyhop.schemas.settings import Settings
from polyhop.schemas.tables import FROM_EVIDENCE, RESULT_PASSAGES, RESULTS, Table
from polyhop.warehouse.open import open_questions
from polyhop.warehouse.tables.query import LazyTable, Wanted

_ALL_JOBS = 1_000_000_000  # a limit that no queue reaches: a query reads all jobs
# of results; chosen: bounds the memory of documents before they are columns, and gives the same table
_ROWS_PER_BATCH = 1_000
_Rows = Callable[[JobRow, ResultRow], Iterable[dict[str, Any]]]


def result_tables(settings: Settings, index: str) -> list[LazyTable]:
    """The two tables for an index; see schemas/tables.py."""

    def results(wanted: Wanted) -> pa.Table:
        return _table(settings, index, wanted, RESULTS, _result_rows, with_evidence=wanted.wants(*FROM_EVIDENCE))

    def passages(wanted: Wanted) -> pa.Table:
        return _table(settings, index, wanted, RESULT_PASSAGES, _passage_rows, with_evidence=True)

    return [LazyTable(RESULTS, results, is_large=True), LazyTable(RESULT_PASSAGES, passages, is_large=True)]


def _table(
    settings: Settings, index: str, wanted: Wanted, table: Table, rows: _Rows, *, with_evidence: bool
) -> pa.Table:
    """The rows of the index's jobs that a query asks for, as they were submitted."""
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
    reading, tokens = _mapping(row.result.get("reading")), _mapping(row.result.get("tokens"))
    finished_at = None if row.finished_at is None else datetime.fromtimestamp(row.finished_at, tz=UTC)
    yield {
        "job_id": job.job_id,
        "id": row.question_id,
        "question": row.question,
        "answer": row.answer,
        "guess": row.result.get("guess", row.answer),
        "state": row.state.value,
        "version": row.version,
        "strategy": row.strategy or job.strategy,
        "index": job.index,
        "seconds": row.seconds,
        "finished_at": finished_at,
        "error": row.error,
        "error_class": row.error_class,
        "attempts": row.attempts,
        "topic": row.topic,
        "gold_answers": list(row.answers),
        "gold_passages": list(row.supporting),
        "confidence": reading.get("confidence"),
        "read_by": reading.get("by"),
        "model": reading.get("model"),
        "prompt_tokens": tokens.get("prompt"),
        "completion_tokens": tokens.get("completion"),
        "cost_usd": row.result.get("cost_usd"),
        "passage_ids": [str(passage["id"]) for passage in _passages(row)],
        "worker": row.worker_id,
    }


def _passage_rows(job: JobRow, row: ResultRow) -> Iterator[dict[str, Any]]:
    for rank, passage in enumerate(_passages(row), start=1):
        yield {
            "job_id": job.job_id,
            "id": row.question_id,
            "rank": passage.get("rank", rank),
            "passage_id": str(passage["id"]),
            "title": passage.get("title"),
            "score": passage.get("score"),
        }


def _passages(row: ResultRow) -> list[Mapping[str, Any]]:
    listed = row.result.get("passages")
    return [each for each in listed if isinstance(each, Mapping) and "id" in each] if isinstance(listed, list) else []


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
