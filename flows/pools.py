"""The processes that do the batches of a run: further ones on this machine, or the workers of a Dask cluster.

Knows no stage (batch_work.py says what travels) and no Prefect. A pool starts when its first batch comes, so that a run
that finds nothing to do starts nothing. A process that dies costs the batches in flight: they are done again.
"""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.util import Finalize
from threading import Lock, Thread
from typing import TYPE_CHECKING, Protocol

from polyhop.flows.batch_work import BatchWork, do_batch
from polyhop.schemas.errors import StoreError
from polyhop.schemas.logs import configure_logs_as_parent
from polyhop.schemas.settings import Settings
from polyhop.tasks.stage import BatchResult, Stage
from polyhop.warehouse.build import Build

if TYPE_CHECKING:
    from polyhop.flows.dask_pool import DaskPool

MOST_DEATHS = 3
"""Processes that may die on one batch before the run gives up; chosen: as Dask does."""
LEAST_UNITS = 10_000
"""Units below which runner.kind = auto starts no process: on two cores extraction by rules pays above some 5,000
passages (1 ms each, and 2 s for a process to start); chosen."""
_ORPHANED = 1  # exit code of a process whose run was killed: a failure, though nobody is left to read it


class Pool(Protocol):
    """Processes that do batches."""

    @property
    def width(self) -> int:
        """How many batches it takes at once."""
        ...

    def takes(self, stage: Stage, units: int) -> bool:
        """Whether it pays to have a stage's batches of so many units done there."""
        ...

    def run(self, work: BatchWork, number: int) -> BatchResult:
        """Does one batch and waits for it; safe for many threads."""
        ...


def chosen_pool(pool: Pool | None, stage: Stage, build: Build, numbers: list[int]) -> Pool | None:
    """The pool, if batches of a stage should be done there; a single one is not worth it."""
    if pool is None or len(numbers) < 2 or not stage.is_portable(build):
        return None
    return pool if pool.takes(stage, len(numbers) * build.settings.batch_size) else None


@contextmanager
def batch_pool(settings: Settings) -> Iterator["Pool | None"]:
    """The pool that the settings name, closed after the block; None: the run does its batches itself.

    Raises:
        ConfigurationError: If it is Dask's, and Dask is not installed or no scheduler answers.
    """
    chosen = settings.runner
    workers = chosen.workers or usable_cores()
    if chosen.kind == "local" or (chosen.kind == "auto" and workers == 1):
        yield None
        return
    if chosen.kind == "dask":
        pool: ProcessPool | DaskPool = _dask_pool(chosen.address, workers)
    else:
        pool = ProcessPool(workers, where_it_pays=chosen.kind == "auto")
    try:
        yield pool
    finally:
        pool.close()


def _dask_pool(address: str, workers: int) -> "DaskPool":
    from polyhop.flows.dask_pool import DaskPool

    return DaskPool(address, workers)


def run_in_pool(pool: Pool, work: BatchWork, numbers: list[int]) -> Iterator[BatchResult]:
    """Does batches in the processes of a pool, yielding results in the order of `numbers`."""
    with ThreadPoolExecutor(pool.width, "polyhop-batch") as waiting:
        futures: list[Future[BatchResult]] = [waiting.submit(pool.run, work, number) for number in numbers]
        try:
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def dead_workers_error(work: BatchWork) -> StoreError:
    """What a run says that gives up on a batch."""
    return StoreError(
        f"A batch of stage {work.stage} was given up: the processes that did it kept dying (killed, or out of memory). "
        "Lower runner.workers or batch_size and run again; finished batches are kept."
    )


class ProcessPool:
    """Further processes on this machine, each with an equal share of its cores; they end when the run does.

    Args:
        workers: Number of processes.
        where_it_pays: Whether they do long stages only, of which a batch keeps one core busy. Then the run does
            batches itself where no process can start (a program without `if __name__ == "__main__"`).
    """

    def __init__(self, workers: int, *, where_it_pays: bool = False) -> None:
        self._workers = workers
        self._where_it_pays = where_it_pays
        self._has_done_any = False
        self._threads = max(1, usable_cores() // workers)
        self._executor: ProcessPoolExecutor | None = None
        self._changing = Lock()

    @property
    def width(self) -> int:
        """One batch per process."""
        return self._workers

    def takes(self, stage: Stage, units: int) -> bool:
        """Every stage's, or those that pay."""
        return not self._where_it_pays or (stage.is_one_core and units >= LEAST_UNITS)

    def run(self, work: BatchWork, number: int) -> BatchResult:
        """Does one batch; again if a process dies meanwhile.

        Raises:
            StoreError: If processes keep dying.
        """
        for _ in range(MOST_DEATHS):
            executor = self._started()
            try:
                result = executor.submit(do_batch, work, number, self._threads).result()
            except BrokenProcessPool:
                self._forget(executor)
            else:
                self._has_done_any = True
                return result
        if self._where_it_pays and not self._has_done_any:
            return do_batch(work, number, usable_cores())
        raise dead_workers_error(work)

    def close(self) -> None:
        """Waits for batches in flight and ends the processes."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)

    def _started(self) -> ProcessPoolExecutor:
        with self._changing:
            if self._executor is None:
                # DuckDB and LanceDB do not survive a fork of the process that used them
                context = multiprocessing.get_context("spawn")
                self._executor = ProcessPoolExecutor(self._workers, context, initializer=_begin_process)
            return self._executor

    def _forget(self, broken: ProcessPoolExecutor) -> None:
        """Lets the next batch start new processes: one that dies takes the executor with it."""
        with self._changing:
            if self._executor is broken:
                self._executor = None
        broken.shutdown(wait=False, cancel_futures=True)


def _begin_process() -> None:
    """In each process: interrupts are the run's to handle, and a run that is killed leaves no process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    configure_logs_as_parent()
    run = multiprocessing.parent_process()
    if run is not None:
        ended, ends = multiprocessing.Pipe(duplex=False)
        watch = Thread(target=_end_with, args=(run.sentinel, ended), name="polyhop-parent", daemon=True)
        watch.start()
        # A thread that outlives the interpreter's modules makes DuckDB's binding print 40 lines.
        Finalize(None, _end_watch, args=(watch, ends), exitpriority=0)


def _end_with(run: int, ended: Connection) -> None:
    if run in wait([run, ended]):
        os._exit(_ORPHANED)


def _end_watch(watch: Thread, ends: Connection) -> None:
    ends.close()
    watch.join()
