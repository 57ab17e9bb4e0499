"""Ad-hoc queries of other people in processes of limited time and memory, with results of limited size.

DuckDB's own limits do not hold: `SELECT range(60000000)` takes memory that DuckDB does not count, and DuckDB looks for
an interrupt between chunks of rows only. A process is ended at any moment, while it binds, plans, runs or fetches.
"""

import json
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from threading import Lock, Thread
from typing import Any

import psutil

from polyhop.schemas.errors import PolyhopError, StatementRejectedError, StoreError
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.machine import WATCH_SECONDS, private_bytes
from polyhop.warehouse.tables.query import TOO_MUCH_MEMORY, LazyTable, query_rows

_START_SECONDS = 60.0  # for a process to import what it needs; chosen: a hundred times what it takes
_IDLE = 2  # processes that wait for the next query; chosen: each holds 100 MB
_WORN_SHARE = 0.1  # of the memory limit that a process may hold after a query and be used again; chosen
_BYTES_PER_CHARACTER = 8  # of a value in memory, at most, for each that it has as JSON: a small number in 64 bits
_ROWS_PER_BATCH = 2_048  # rows that are measured at once, as DuckDB returns them


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """The most rows and bytes (as JSON) that a query returns, and the seconds after which it is ended."""

    rows: int
    seconds: float
    bytes: int = 8 << 20


@dataclass(frozen=True, slots=True)
class Query:
    """One statement that reads, for a version of an index; `extra` makes further tables in the process of the query."""

    layout: Layout
    index: str
    version: int
    statement: str
    limits: QueryLimits
    extra: Callable[[], Sequence[LazyTable]] = tuple


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows within the limits, by column name; truncated if there are more."""

    columns: list[str]
    rows: list[dict[str, Any]]
    is_truncated: bool


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    connection: Connection
    base: int = 0  # bytes that it held before its first query
    taken: int = 0  # bytes beyond these that it held when it was last looked at

    def look(self) -> None:
        """Measures the memory that this process alone holds."""
        with suppress(psutil.Error):  # it has ended
            self.taken = private_bytes(self.process.pid) - self.base

    def end(self) -> None:
        """Ends the process at once."""
        self.process.kill()
        self.process.join()
        self.connection.close()


class QueryProcesses:
    """Runs queries in processes that share one limit of memory, one query in each at a time; to be closed.

    Args:
        memory_mb: Megabytes that all queries together may take; the query that took most is ended beyond it.
    """

    def __init__(self, memory_mb: int) -> None:
        self._memory_mb = memory_mb
        self._lock = Lock()
        self._idle: list[_Worker] = []
        self._busy: list[_Worker] = []

    def run(self, query: Query) -> QueryResult:
        """Runs a query.

        Raises:
            StatementRejectedError: If it does anything but read, if DuckDB refuses it, or if it exceeds a limit.
        """
        with self._worker() as worker:
            worker.connection.send(query)
            self._watch(worker, query.limits)
            reply = worker.connection.recv()
        if isinstance(reply, BaseException):
            raise reply
        result: QueryResult = reply
        return result

    def close(self) -> None:
        """Ends the processes."""
        with self._lock:
            workers = [*self._idle, *self._busy]
            self._idle.clear()
        for worker in workers:
            worker.end()

    @contextmanager
    def _worker(self) -> Iterator[_Worker]:
        """A process for one query, which serves for further ones unless the block raises."""
        with self._lock:
            worker = self._idle.pop() if self._idle else None
        if worker is not None and not worker.process.is_alive():  # the system took its memory
            worker.end()
            worker = None
        worker = worker or _started(self._memory_mb)
        with self._lock:
            self._busy.append(worker)
        is_reusable = False
        try:
            yield worker
            worker.look()
            is_reusable = worker.taken < _WORN_SHARE * self._memory_mb * 1_000_000
        except (EOFError, OSError) as error:
            raise StatementRejectedError("The process of the query ended; select less data.") from error
        finally:
            with self._lock:
                self._busy.remove(worker)
                is_reusable = is_reusable and len(self._idle) < _IDLE
                if is_reusable:
                    self._idle.append(worker)
            if not is_reusable:
                worker.end()

    def _watch(self, worker: _Worker, limits: QueryLimits) -> None:
        """Waits for the reply of a process, within the limits of time and memory."""
        deadline = time.monotonic() + limits.seconds
        while not worker.connection.poll(WATCH_SECONDS):
            if time.monotonic() > deadline:
                raise StatementRejectedError(
                    f"The query was stopped after {limits.seconds:g} s; select less data, or run it with polyhop "
                    "sql, which "
                    "waits."
                )
            worker.look()
            with self._lock:
                total, most = sum(one.taken for one in self._busy), max(one.taken for one in self._busy)
            if total > self._memory_mb * 1_000_000 and worker.taken == most:
                raise StatementRejectedError(TOO_MUCH_MEMORY)


def _started(memory_mb: int) -> _Worker:
    """A process that has imported what it needs."""
    context = multiprocessing.get_context("spawn")  # DuckDB does not survive a fork of the process that used it
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, memory_mb), name="polyhop-sql", daemon=True)
    process.start()
    theirs.close()
    worker = _Worker(process, ours)
    if not ours.poll(_START_SECONDS):
        worker.end()
        raise StoreError(f"The SQL process did not start within {_START_SECONDS:g} s; try again later.")
    try:
        ours.recv()
    except EOFError as error:
        worker.end()
        raise StoreError("The SQL process failed to start; see the server's log.") from error
    worker.look()
    worker.base, worker.taken = worker.taken, 0
    return worker


def _serve(connection: Connection, memory_mb: int) -> None:
    """The process: a query at a time, until the one that started it closes the connection or ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the server, which ends this
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Thread(target=_end_with_parent, daemon=True).start()
    connection.send(None)
    while True:
        try:
            query: Query = connection.recv()
        except EOFError:
            os._exit(0)  # at once: DuckDB's binding prints 40 lines about what an interpreter leaves open
        reply: object
        try:
            reply = _result(query, memory_mb)
        except PolyhopError as error:
            reply = error
        except Exception as error:  # noqa: BLE001 - the server answers with it
            traceback.print_exc()
            reply = RuntimeError(type(error).__name__)
        connection.send(reply)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _result(query: Query, memory_mb: int) -> QueryResult:
    """The rows of a query within its limits."""
    most, extra = query.limits.rows, query.extra()
    found = query_rows(
        query.layout, query.index, query.statement, query.version, extra, most_rows=most + 1, memory_mb=memory_mb
    )
    rows: list[dict[str, Any]] = []
    left = query.limits.bytes
    for batch in found.slice(0, most).to_batches(_ROWS_PER_BATCH):
        pieces = [batch] if batch.nbytes <= left else (batch.slice(row, 1) for row in range(len(batch)))
        for piece in pieces:
            if piece.nbytes > _BYTES_PER_CHARACTER * left:
                return _cut(found.column_names, rows, query.limits.bytes)
            for row in piece.to_pylist():
                left -= len(json.dumps(row, default=str, ensure_ascii=False).encode(errors="replace"))
                if left < 0:
                    return _cut(found.column_names, rows, query.limits.bytes)
                rows.append(row)
    return QueryResult(found.column_names, rows, is_truncated=len(found) > len(rows))


def _cut(columns: list[str], rows: list[dict[str, Any]], most_bytes: int) -> QueryResult:
    if not rows:
        raise StatementRejectedError(
            f"The first row is larger than {most_bytes / (1 << 20):g} MB; select fewer columns or shorter values, "
            "such as left(text, 1000)."
        )
    return QueryResult(columns, rows, is_truncated=True)
