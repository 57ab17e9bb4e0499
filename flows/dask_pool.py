"""The workers of a Dask cluster as a pool: a cluster that runs somewhere, or one started for the run.

Imported only where `runner.kind` is dask: Dask is an optional extra.
"""

from contextlib import ExitStack
from threading import Lock
from typing import Any

from polyhop.flows.batch_work import BatchWork, do_batch
from polyhop.flows.pools import dead_workers_error, usable_cores
from polyhop.schemas.errors import ConfigurationError, StoreUnavailableError
from polyhop.tasks.stage import BatchResult, Stage

CONNECT_SECONDS = 10
"""Seconds to wait for a scheduler; chosen: ten times what one on the same network needs."""
_QUEUED = 2
"""Batches per worker that are handed over, so that none waits for the next one; chosen."""


class DaskPool:
    """Workers of a Dask cluster, one batch at a time each.

    Args:
        address: Address of its scheduler; "" for a cluster of processes on this machine, which ends with the pool.
        workers: Processes of that cluster.

    Attributes:
        threads: Threads of an encoder on a worker; 0: as many as the worker was given.

    Raises:
        ConfigurationError: If Dask is not installed.
    """

    def __init__(self, address: str, workers: int) -> None:
        try:
            import distributed
        except ImportError as error:
            raise ConfigurationError(
                "runner.kind=dask needs Dask: pip install 'polyhop[dask]' (or set runner.kind=processes)."
            ) from error
        self._distributed: Any = distributed
        self._address = address
        self._workers = workers
        self.threads = 0 if address else max(1, usable_cores() // workers)
        self._opened = ExitStack()
        self._client: Any = None
        self._changing = Lock()

    @property
    def address(self) -> str:
        """Address of the scheduler, started if need be.

        Raises:
            StoreUnavailableError: If no scheduler answers there.
        """
        return str(self._started().scheduler.address)

    @property
    def width(self) -> int:
        """Two batches per worker."""
        return max(1, _QUEUED * len(self._started().nthreads()))

    def takes(self, stage: Stage, units: int) -> bool:
        """Every stage's."""
        return True

    def run(self, work: BatchWork, number: int) -> BatchResult:
        """Does one batch on a worker; Dask gives it to another one if that worker dies.

        Raises:
            StoreError: If workers keep dying.
        """
        future = self._started().submit(do_on_worker, work, number, self.threads, pure=False)
        try:
            result: BatchResult = future.result()
            return result
        except self._distributed.KilledWorker as error:
            raise dead_workers_error(work) from error

    def close(self) -> None:
        """Disconnects, and ends the cluster if it was started for the run."""
        self._opened.close()

    def _started(self) -> Any:
        with self._changing:
            if self._client is None:
                self._client = self._opened.enter_context(self._connected())
            return self._client

    def _connected(self) -> Any:
        dask, where = self._distributed, self._address
        if not where:
            options = {"n_workers": self._workers, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
            where = self._opened.enter_context(dask.LocalCluster(**options))
        try:
            return dask.Client(where, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise StoreUnavailableError(
                f"No Dask scheduler answers at {self._address} ({error}); start one with `dask scheduler`, or leave "
                "runner.address empty for a cluster on this machine."
            ) from error


def do_on_worker(work: BatchWork, number: int, threads: int) -> BatchResult:
    """In a worker: does one batch.

    Args:
        work: The stage's work.
        number: Number of the batch.
        threads: Threads of the encoder; 0: as many as the worker was given (`dask worker --nthreads`).
    """
    from distributed import get_worker

    return do_batch(work, number, threads or get_worker().state.nthreads)
