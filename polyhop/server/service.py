"""Service behind pages, HTTP API, chat endpoint and agent tools: open indexes with one thread each, batched questions.

An open version is not made for several threads at once, so each index has a separate one. Questions that arrive while
it works wait, and those of the same kind are answered as one batch: with many callers it becomes a worker's batch.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import TypeVar

from polyhop.api import Answer, Index, open_index
from polyhop.inbox import InboxRuns
from polyhop.jobs import result_tables
from polyhop.schemas.errors import ConfigurationError, PolyhopError
from polyhop.schemas.settings import Settings
from polyhop.server.access import CURRENT, RefusedError, TokenRole, require_index
from polyhop.server.workers import PageWorker
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import read_manifest, require_version
from polyhop.warehouse.tables.filters import require_condition
from polyhop.warehouse.tables.query_processes import Query, QueryLimits, QueryProcesses, QueryResult
from polyhop.worker.strategies.registry import servable_strategies

T = TypeVar("T")

BATCH = 64  # questions answered at once; chosen: as many as a worker takes
MAX_WAITING = 1_000  # requests to one index that may wait; chosen: some seconds of work without a model
OPEN_VERSIONS = 3  # of one index that stay open: the current one and those asked last; chosen: two are compared
OPEN_INDEXES = 8  # that stay open; chosen: memory stays bounded, and few roots hold more
ANSWER_SECONDS = 300.0  # for a reply to begin; chosen: a slow local model reads within it
WORK_THREADS = 8  # for what opens its own stores (jobs, versions); chosen: more would only wait for the disk
SQL_THREADS = 4  # queries of people at once; chosen: they share the cores and one limit of memory
Selected = tuple[int, QueryResult]
"""The version that a statement read, and its rows."""


class BusyError(PolyhopError):
    """More is waiting than can be answered soon; the caller should ask again later."""

    retryable = True


class LateError(PolyhopError):
    """A reply that took longer than a caller is kept waiting."""

    retryable = True


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to one index, as `Index.ask` takes it; `reads` False: passages are only ranked."""

    index: str
    question: str
    version: int | None = None
    strategy: str | None = None
    limit: int = 10
    parameters: tuple[tuple[str, object], ...] = ()
    topic: str | None = None
    where: str | None = None
    reads: bool = True
    # Gets the text of a model's answer while it is written, on another thread.
    on_draft: Callable[[str], None] | None = field(default=None, compare=False, repr=False)

    @property
    def kind(self) -> tuple[object, ...]:
        """Key that questions of one batch have in common."""
        return (self.version, self.strategy, self.limit, self.parameters, self.where, self.reads)


class _Lane:
    """One index: the thread that alone uses its versions, and the questions that wait for it."""

    def __init__(self, settings: Settings, name: str) -> None:
        self._settings, self._name = settings, name
        self._layout = Layout(settings.root)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"index-{name}")
        self._versions: dict[int, Index] = {}
        self._lock = Lock()
        self._waiting: dict[tuple[object, ...], list[tuple[Asked, Future[Answer]]]] = {}
        self.pending = 0
        self.used_at = time.monotonic()

    def ask(self, asked: Asked) -> Future[Answer]:
        """Puts a question into the batch that will be answered next."""
        future: Future[Answer] = Future()
        with self._lock:
            self._count()
            is_first = asked.kind not in self._waiting
            self._waiting.setdefault(asked.kind, []).append((asked, future))
        if is_first:
            self._thread.submit(self._answer, asked.kind)
        return future

    def use(self, work: Callable[[Index], T], version: int | None) -> "Future[T]":
        """Work with an open version, on the thread of the index."""
        with self._lock:
            self._count()
        future = self._thread.submit(lambda: work(self._opened(version)))
        future.add_done_callback(lambda _: self._ended(1))
        return future

    def close(self) -> None:
        """Answers what waits, then releases all versions."""
        self._thread.submit(self._release)
        self._thread.shutdown(wait=True)

    def _release(self) -> None:
        for opened in self._versions.values():
            opened.close()

    def _answer(self, kind: tuple[object, ...]) -> None:
        with self._lock:
            waiting = self._waiting.pop(kind)
            batch, later = waiting[:BATCH], waiting[BATCH:]
            if later:
                self._waiting[kind] = later
        if later:
            self._thread.submit(self._answer, kind)
        batch_of_living = [(asked, future) for asked, future in batch if future.set_running_or_notify_cancel()]
        try:
            self._answer_all(batch_of_living)
        finally:
            self._ended(len(batch))

    def _count(self) -> None:
        if self.pending >= MAX_WAITING:
            raise BusyError(f"{self.pending:,} requests wait for the index '{self._name}'; try again later.")
        self.pending += 1
        self.used_at = time.monotonic()

    def _ended(self, count: int) -> None:
        with self._lock:
            self.pending -= count

    def _answer_all(self, batch: list[tuple[Asked, Future[Answer]]]) -> None:
        if not batch:
            return
        first = batch[0][0]
        try:
            opened = self._opened(first.version)
            answers = opened.ask_batch(
                [asked.question for asked, _ in batch],
                strategy=first.strategy,
                limit=first.limit,
                parameters=dict(first.parameters),
                topics=[asked.topic for asked, _ in batch],
                where=first.where,
                reads=first.reads,
                on_drafts=[asked.on_draft for asked, _ in batch],
            )
        except Exception as error:  # noqa: BLE001 - it is raised where each question was asked
            if len(batch) > 1 and isinstance(error, PolyhopError):  # one of them is at fault: each alone
                for one in batch:
                    self._answer_all([one])
                return
            for _, future in batch:
                future.set_exception(error)
            return
        for (_, future), answer in zip(batch, answers, strict=True):
            future.set_result(answer)

    def _opened(self, version: int | None) -> Index:
        number, _ = require_version(self._layout, self._name, version)
        opened = self._versions.pop(number, None)
        opened = opened or open_index(self._name, version=number, settings=self._settings)
        self._versions[number] = opened  # the one asked last is kept longest
        while len(self._versions) > OPEN_VERSIONS:
            self._versions.pop(next(iter(self._versions))).close()
        return opened


class Service:
    """Everything that is asked over one root.

    Attributes:
        settings: Of the process.
        inbox_runs: Runs that take in added documents.
        page_worker: Worker that a page starts and stops.
    """

    def __init__(self, settings: Settings, *, allows_changes: bool = False) -> None:
        self.settings = settings
        self._allows_changes = allows_changes
        self.layout = Layout(settings.root)
        self._lanes: dict[str, _Lane] = {}
        self.inbox_runs = InboxRuns(settings)
        self.page_worker = PageWorker(settings)
        self._threads = ThreadPoolExecutor(WORK_THREADS, thread_name_prefix="window")
        self._sql_threads = ThreadPoolExecutor(SQL_THREADS, thread_name_prefix="sql")
        self._sql = QueryProcesses(settings.sql_memory_mb)

    @property
    def allows_changes(self) -> bool:
        """True if the caller may submit, retry and cancel jobs, and add documents."""
        return self._allows_changes and CURRENT.get().role >= TokenRole.CHANGE

    def index_names(self) -> list[str]:
        """Names of the published indexes that the caller may use, in order."""
        return [name for name in self.layout.index_names() if CURRENT.get().may_use(name)]

    def begun_names(self) -> list[str]:
        """Names of the indexes that were begun and have no version yet, of those that the caller may use."""
        return [name for name in self.layout.begun_names() if CURRENT.get().may_use(name)]

    def servable_strategies(self) -> dict[str, list[str]]:
        """The strategies that the current version of each index can serve; none of an index that cannot be read."""
        found: dict[str, list[str]] = {}
        for name in self.index_names():
            found[name] = []
            with suppress(PolyhopError):
                found[name] = servable_strategies(read_manifest(require_version(self.layout, name)[1]).artefacts)
        return found

    def named_index(self, name: str | None) -> str:
        """The index of that name, or the only one if no name is given.

        Raises:
            ConfigurationError: If no name is given, and there is no index or more than one.
        """
        if name is not None:
            return name
        names = self.index_names()
        if len(names) != 1:
            there_are = f"there are: {', '.join(names)}" if names else "there is none under this root"
            raise ConfigurationError(f"'index' is needed unless there is exactly one; {there_are}.")
        return names[0]

    async def ask(self, asked: Asked) -> Answer:
        """Answers a question, in one batch with others that wait.

        Raises:
            BusyError: If too many wait.
            PolyhopError: As `Index.ask`.
        """
        asked, access = self.permitted(asked), CURRENT.get()
        answer = await _within_time(self._lane(asked.index).ask(asked))
        if not access.where:
            return answer
        if answer.triples is not None:
            raise RefusedError(403, f"'{answer.strategy}' ranks triples, which a filter of records does not limit.")
        # evidence names entities that other records mention, and the filter's counts are those of all records
        return replace(answer, evidence={}, filter=None)

    def permitted(self, asked: Asked) -> Asked:
        """A question within what the caller may see: its filter is joined with that of the token.

        Raises:
            RefusedError: If the token is not for the index, or names a topic, which is looked up among all entities.
            FilterError: If the question's filter alone is no condition.
        """
        access = CURRENT.get()
        require_index(access, asked.index)
        if not access.where:
            return asked
        if asked.topic:
            raise RefusedError(403, f"The token '{access.name}' has a filter of records; it may not name a topic.")
        own = " ".join((asked.where or "").split())
        if own:
            require_condition(own)  # alone: parentheses that it closes must not be ours
        # A draft would come before the answer of a strategy that is refused.
        return replace(asked, where=f"({access.where}) AND ({own})" if own else access.where, on_draft=None)

    async def use(self, index: str, work: Callable[[Index], T], version: int | None = None) -> T:
        """Runs `work` on the open current (or named) version, on the thread of the index; returns its result.

        Raises:
            UnknownIndexError: If nothing was published under that name.
            PolyhopError: As `work`.
        """
        require_index(CURRENT.get(), index)
        caller = copy_context()  # with the caller's access
        return await _within_time(self._lane(index).use(lambda opened: caller.run(work, opened), version))

    async def run(self, work: Callable[[], T]) -> T:
        """Runs `work`, which opens its own stores (jobs, versions), on one of a few threads; returns its result."""
        return await _within_time(self._threads.submit(copy_context().run, work))

    async def query(self, index: str, statement: str, version: int | None, limits: QueryLimits) -> Selected:
        """Rows of a statement in the sandbox of `polyhop sql`, within limits.

        Raises:
            StatementRejectedError: If it does anything but read, if DuckDB refuses it, or if it exceeds a limit.
        """
        require_index(CURRENT.get(), index)

        def work() -> Selected:
            number, _ = require_version(self.layout, index, version)
            extra = partial(result_tables, self.settings, index)
            return number, self._sql.run(Query(self.layout, index, number, statement, limits, extra))

        return await _within_time(self._sql_threads.submit(work))

    def close(self) -> None:
        """Answers what waits, then releases everything."""
        self._sql_threads.shutdown(wait=True)
        self._sql.close()
        self._threads.shutdown(wait=True)
        self.inbox_runs.close()
        self.page_worker.stop()
        for lane in self._lanes.values():
            lane.close()
        self._lanes.clear()

    def _lane(self, index: str) -> _Lane:
        """Called on the event loop only, so that an index has one lane."""
        lane = self._lanes.get(index)
        if lane is None:
            require_version(self.layout, index)  # an unknown name opens no thread
            idle = sorted((one.used_at, name) for name, one in self._lanes.items() if not one.pending)
            if len(self._lanes) >= OPEN_INDEXES and idle:
                self._threads.submit(self._lanes.pop(idle[0][1]).close)  # whatever it does still, others go on
            lane = self._lanes[index] = _Lane(self.settings, index)
        return lane


async def _within_time(future: "Future[T]") -> T:
    """Waits for a future up to `ANSWER_SECONDS`; on timeout the work continues and the caller gets LateError."""
    try:
        return await asyncio.wait_for(asyncio.wrap_future(future), ANSWER_SECONDS)
    except TimeoutError:
        raise LateError(f"No reply within {ANSWER_SECONDS:g} s; try again, or submit a job.") from None


def parameter_pairs(parameters: Mapping[str, object] | None) -> tuple[tuple[str, object], ...]:
    """Parameters of a strategy in the form that `Asked` compares."""
    return tuple(sorted((parameters or {}).items()))
