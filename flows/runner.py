"""Executors of a run's batches: this process, more processes here, or a Dask cluster; and the run's share of models.

A pool starts when its first batch comes, so that a run that finds nothing to do starts nothing. A process that dies
costs the batches in flight: they are done again.
"""

import multiprocessing
import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from multiprocessing.util import Finalize
from pathlib import Path
from threading import Lock, Thread
from typing import Any, TypeVar

from polyhop.flows.reports import RunModelUse
from polyhop.schemas.errors import ConfigurationError, StoreError, StoreUnavailableError, install_words
from polyhop.schemas.logs import configure_logs_as_parent
from polyhop.schemas.settings import Settings, without_secrets
from polyhop.schemas.text import content_hash
from polyhop.schemas.version import VERSION
from polyhop.tasks.stage import BatchResult, Stage, run_or_wait
from polyhop.warehouse.build import Build, Transfer
from polyhop.warehouse.machine import usable_cores
from polyhop.warehouse.open_models import begin_run, current_run

T = TypeVar("T")


@contextmanager
def model_run(note: Callable[[str], None] | None = None, index: str = "") -> Iterator[None]:
    """Models opened inside the block share one budget, which begins at 0; of an index, or JOBS, they ask in batches."""
    with begin_run(note, index):
        try:
            yield
        except BaseException:
            if note is not None:  # there is no report that would say so
                for sentence in model_use().sentences():
                    note(f"The run ended early; {sentence}.")
            raise


def model_use() -> RunModelUse:
    """Model use of this run so far."""
    use = current_run().usage()
    spent, unknown = use.spent, use.unknown
    return RunModelUse(
        spent.calls,
        use.cached,
        spent.prompt_tokens,
        spent.completion_tokens,
        cost_usd=_rounded(spent.cost_usd),
        replaced_counts=use.replaced,
        unknown_calls=unknown.calls,
        unknown_tokens=unknown.prompt_tokens + unknown.completion_tokens,
        unknown_cost_usd=_rounded(unknown.cost_usd),
    )


def _rounded(cost_usd: float | None) -> float | None:
    return None if cost_usd is None else round(cost_usd, 6)


_one_batch = Lock()


@dataclass(frozen=True, slots=True)
class BatchWork:
    """The batches of one stage, for another process: paths of the build are absolute, and it holds no password."""

    stage: Stage
    build: Build
    version: str = VERSION
    # What the batches read, in `index.remote`; None where all processes see the root.
    transfer: Transfer | None = None

    def given_up(self) -> StoreError:
        """The error of a run that gives up on a batch."""
        return StoreError(
            f"A batch of stage {self.stage.name} was given up: its processes kept dying (killed, or out of "
            "memory). Lower cores or batch_size and run again; finished batches are kept."
        )


def portable_work(stage: Stage, build: Build) -> BatchWork:
    """The work without secret settings, which other processes do not need."""
    settings = without_secrets(build.settings)
    root = settings.root.expanduser().resolve()
    return BatchWork(stage, replace(build, settings=settings.model_copy(update={"root": root})))


def do_batch(work: BatchWork, number: int, threads: int) -> BatchResult:
    """Does one batch in this process, with so many threads of an encoder; 0: as many as cores."""
    build = work.build
    if work.version != VERSION:
        raise ConfigurationError(
            f"A batch process has Polyhop {VERSION}, the run has {work.version}; install the same version on all hosts."
        )
    if not build.folder.staging.is_dir():
        raise _unseen(build)
    with _one_batch:
        return work.stage.run(replace(build, settings=build.settings.model_copy(update={"cores": threads})), number)


def _unseen(build: Build) -> ConfigurationError:
    return ConfigurationError(
        f"A batch process cannot access {Path(build.settings.root)}; put the root folder on storage that "
        "all workers of the cluster mount at the same path, or name a store that they reach (index.remote=s3://…)."
    )


def is_elsewhere(root: Path) -> bool:
    """Returns whether this process cannot access a run's root, or has another one (POLYHOP_ROOT)."""
    own = os.environ.get("POLYHOP_ROOT")
    return not os.access(root, os.R_OK | os.X_OK) or (own is not None and Path(own).expanduser().resolve() != root)


def do_on_worker(work: BatchWork, number: int, threads: int) -> BatchResult:
    """Does one batch on a Dask worker; 0 threads: as many as the worker was given.

    A remote one works in a separate folder: inputs of the batch come from the store, its parts go there.
    """
    from distributed import get_worker

    from polyhop.warehouse.files.remote import receive_files, send_files

    worker = get_worker()
    threads = threads or worker.state.nthreads
    if not is_elsewhere(work.build.settings.root):
        return do_batch(work, number, threads)
    if work.transfer is None:
        raise _unseen(work.build)
    transfer = work.transfer
    # A folder per stage, for files of one name differ between stages and runs; that of the stage before goes.
    root = Path(worker.local_directory, "polyhop", transfer.folder, content_hash(*sum(transfer.files, ())))
    build = replace(work.build, settings=work.build.settings.model_copy(update={"root": root}))
    with _one_batch:
        if not (root / "whole").exists():
            shutil.rmtree(root.parent, ignore_errors=True)
            receive_files(build.folder, transfer)
            (root / "whole").touch()
    result = do_batch(replace(work, build=build), number, threads)
    folder = build.parts(work.stage.name)
    parts = [*folder.glob(f"*-{number:06d}.parquet"), *folder.glob(f"{number:06d}.done")]  # the mark appears last
    sent = send_files(build.folder, transfer.url, transfer.folder, parts)
    for part in parts:
        part.unlink()
    return replace(result, parts=sent)


def fetched(build: Build, result: BatchResult) -> BatchResult:
    """The result of a batch, whose parts are in the run's folder now."""
    if result.parts is not None:
        from polyhop.warehouse.files.remote import receive_files

        receive_files(build.folder, result.parts)
    return result


MOST_DEATHS = 3  # processes that may die on one batch before the run gives up; chosen: as Dask does
LEAST_UNITS = 10_000
"""Units below which runner.kind = auto starts no process: on two cores extraction by rules pays above some 5,000
passages (1 ms each, and 2 s for a process to start); chosen."""
_ORPHANED = 1  # exit code of a process whose run was killed: a failure, although no process reads it


class ProcessPool:
    """Further processes on this machine, one core each; they end when the run does.

    With `may_do_without` the run does batches itself where no process can start (a program without
    `if __name__ == "__main__"`). `width`: how many batches it takes at once.
    """

    def __init__(self, workers: int, *, may_do_without: bool = False) -> None:
        self.width = workers
        self.losses: tuple[type[Exception], ...] = ()  # `run` says it itself
        self._may_do_without, self._has_done_any = may_do_without, False
        self._executor: ProcessPoolExecutor | None = None
        self._changing = Lock()

    def prepared(self, work: BatchWork) -> BatchWork:
        """The work: all processes see the root."""
        return work

    def run(self, work: BatchWork, number: int) -> BatchResult:
        """Does one batch and waits for it, again if a process dies meanwhile; safe for many threads."""
        for _ in range(MOST_DEATHS):
            executor = self._started()
            try:
                result = executor.submit(do_batch, work, number, 1).result()
            except BrokenProcessPool:
                # One that dies takes the executor with it; the next batch starts new processes.
                with self._changing:
                    if self._executor is executor:
                        self._executor = None
                executor.shutdown(wait=False, cancel_futures=True)
            else:
                self._has_done_any = True
                return result
        if self._may_do_without and not self._has_done_any:
            return do_batch(work, number, work.build.settings.cores)
        raise work.given_up()

    def close(self) -> None:
        """Waits for batches in flight and ends the processes."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)

    def _started(self) -> ProcessPoolExecutor:
        with self._changing:
            if self._executor is None:
                # DuckDB and LanceDB do not survive a fork of the process that used them
                context = multiprocessing.get_context("spawn")
                self._executor = ProcessPoolExecutor(self.width, context, initializer=_begin_process)
            return self._executor


def _begin_process() -> None:
    """In each process: interrupts are the run's to handle, and a run that is killed leaves no process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    configure_logs_as_parent()
    run = multiprocessing.parent_process()
    if run is None:
        return
    sentinel = run.sentinel
    ended, ends = multiprocessing.Pipe(duplex=False)

    def end_with_run() -> None:
        if sentinel in wait([sentinel, ended]):
            os._exit(_ORPHANED)

    def end_watch() -> None:
        ends.close()
        watch.join()

    watch = Thread(target=end_with_run, name="polyhop-parent", daemon=True)
    watch.start()
    # A thread that outlives the interpreter's modules makes DuckDB's binding print 40 lines.
    Finalize(None, end_watch, exitpriority=0)


CONNECT_SECONDS = 10  # seconds to wait for a scheduler; chosen: ten times what one on the same network needs
_QUEUED = 2  # batches per worker that are handed over, so that none waits for the next one; chosen
_END_AT_ONCE = "import atexit, os; atexit.register(os._exit, 0)"
"""For a Dask worker: end after Prefect's handlers, as a forked process does, and leave the memory to the system.

Prefect holds the tasks it ran; were the modules taken apart, DuckDB's binding would print 43 lines about its types.
"""


class DaskPool:
    """Workers of a Dask cluster, one batch at a time each.

    The cluster is the one whose scheduler Dask's own configuration names (`scheduler-address`, which the variable
    DASK_SCHEDULER_ADDRESS sets); without one it is of processes on this machine, and ends with the pool.
    """

    def __init__(self, workers: int) -> None:
        try:
            import distributed
        except ImportError as error:
            raise ConfigurationError(
                f"runner.kind=dask needs Dask; {install_words('dask')}, or set runner.kind=processes."
            ) from error
        from dask import config

        address = config.get("scheduler-address", None) or ""
        self._distributed: Any = distributed
        self.losses: tuple[type[Exception], ...] = (distributed.KilledWorker,)
        self._address, self._workers = address, workers
        self.threads = 0 if address else 1
        self._opened = ExitStack()
        self._client: Any = None
        self._changing = Lock()
        self._sent: set[tuple[str, str]] = set()

    def prepared(self, work: BatchWork) -> BatchWork:
        """The work for workers that may not see the root: what its batches read is put into `index.remote`, if any."""
        build, url = work.build, work.build.settings.index.remote
        if not (url and self._address):
            return work
        # of this run: another one, of the same index on another host, has another folder
        folder = f"{build.index}/run-{content_hash(socket.gethostname(), str(build.folder.staging))[:12]}"
        from polyhop.warehouse.files.remote import send_files

        self._sent.add((url, folder))
        return replace(work, transfer=send_files(build.folder, url, folder, work.stage.reads_files(build)))

    @property
    def address(self) -> str:
        """Address of the scheduler, started if need be."""
        return str(self._started().scheduler.address)

    @property
    def width(self) -> int:
        """Two batches per worker."""
        return max(1, _QUEUED * len(self._started().nthreads()))

    def run(self, work: BatchWork, number: int) -> BatchResult:
        """Does one batch on a worker; Dask gives it to another one if that worker dies."""
        future = self._started().submit(do_on_worker, work, number, self.threads, pure=False)
        try:
            result: BatchResult = future.result()
            return result
        except self.losses as error:
            raise work.given_up() from error
        except (CancelledError, self._distributed.comm.CommClosedError) as error:
            raise StoreUnavailableError(
                f"The Dask scheduler at {self._address} broke off; run again, finished batches are kept."
            ) from error

    def close(self) -> None:
        """Disconnects, and ends the cluster if it was started for the run; what travelled is removed from the store."""
        self._opened.close()
        for url, folder in self._sent:
            from polyhop.warehouse.files.remote import Remote

            with suppress(StoreError, FileNotFoundError):  # a later run of the index removes it
                Remote(url, folder).remove()

    def _started(self) -> Any:
        dask, where = self._distributed, self._address
        with self._changing:
            if self._client is None:
                if not where:
                    options = {"n_workers": self._workers, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
                    where = self._opened.enter_context(dask.LocalCluster(**options, preload=[_END_AT_ONCE]))
                try:
                    client = dask.Client(where, timeout=CONNECT_SECONDS, set_as_default=False)
                except (OSError, ValueError, TimeoutError) as error:
                    raise StoreUnavailableError(
                        f"No Dask scheduler answers at {self._address} ({error}); start one with `dask scheduler`, or "
                        "unset DASK_SCHEDULER_ADDRESS for a cluster on this machine."
                    ) from error
                self._client = self._opened.enter_context(client)
            return self._client


Pool = ProcessPool | DaskPool


@contextmanager
def batch_pool(settings: Settings) -> Iterator[Pool | None]:
    """The pool that the settings name, closed after the block; None: the run does its batches itself."""
    kind, cores = settings.runner.kind, settings.cores or usable_cores()
    if kind == "local" or (kind == "auto" and cores == 1):
        yield None
        return
    pool: Pool = DaskPool(cores) if kind == "dask" else ProcessPool(cores, may_do_without=kind == "auto")
    try:
        yield pool
    finally:
        pool.close()


class DirectRunner:
    """Runs stages and steps in this process, in order, but what a pool of processes can do.

    `on_progress` is called with stage, units done and units of all batches at most, `on_note` with what the run waits
    for.
    """

    def __init__(
        self,
        on_progress: Callable[[str, int, int], None] | None = None,
        on_note: Callable[[str], None] | None = None,
        pool: Pool | None = None,
    ) -> None:
        self._pool, self._on_progress, self._on_note = pool, on_progress, on_note

    def pool_for(self, stage: Stage, build: Build, numbers: list[int]) -> Pool | None:
        """The pool, if batches of a stage should be done there; a single one is not worth it.

        With runner.kind = auto only long stages are, of which a batch keeps one core busy.
        """
        if len(numbers) < 2 or not stage.is_portable(build):
            return None
        is_long = stage.is_one_core and len(numbers) * build.settings.batch_size >= LEAST_UNITS
        return self._pool if is_long or build.settings.runner.kind != "auto" else None

    def batches(self, stage: Stage, build: Build, numbers: list[int]) -> Iterator[BatchResult]:
        """Does batches, yielding their results in order; in the pool if there is one for them."""
        pool = self.pool_for(stage, build, numbers)
        if pool is None:
            yield from (run_or_wait(stage, build, number) for number in numbers)
            return
        work = pool.prepared(portable_work(stage, build))
        with ThreadPoolExecutor(pool.width, "polyhop-batch") as waiting:
            futures = [waiting.submit(pool.run, work, number) for number in numbers]
            try:
                for future in futures:
                    yield fetched(build, future.result())
            finally:
                for future in futures:
                    future.cancel()

    def step(self, name: str, run: Callable[[], T]) -> T:
        """Runs a step, like the last one of a stage."""
        del name
        return run()

    def progress(self, stage: str, done: int, total: int) -> None:
        """Called before the first batch and after each: units done, and units of all batches at most."""
        if self._on_progress is not None:
            self._on_progress(stage, done, total)

    def note(self, line: str) -> None:
        """Shows a line about what the run waits for."""
        if self._on_note is not None:
            self._on_note(line)
