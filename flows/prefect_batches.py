"""Batches that other processes do, as Prefect task runs: on Dask through prefect-dask, else waited for by threads.

Knows no flow.
"""

from collections.abc import Callable, Iterator
from typing import Any

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from polyhop.flows.batch_work import BatchWork
from polyhop.flows.pools import Pool, ProcessPool, dead_workers_error
from polyhop.flows.prefect_run import clean_run
from polyhop.flows.prefect_steps import RETRY_DELAY_SECONDS, TASK_RUNS, is_retryable
from polyhop.tasks.stage import BatchResult

DoBatch = Callable[[int], BatchResult]


def run_as_tasks(pool: Pool, work: BatchWork, numbers: list[int]) -> Iterator[BatchResult]:
    """One task run per group of batches, several at once; yields results in the order of `numbers`.

    There are at most `TASK_RUNS` of them, or two per process if those are more.

    Args:
        pool: Does the batches.
        work: The stage's work.
        numbers: Numbers of the batches.
    """
    size = -(-len(numbers) // max(TASK_RUNS, 2 * pool.width))
    groups = [numbers[first : first + size] for first in range(0, len(numbers), size)]
    if isinstance(pool, ProcessPool):

        def wait_for(number: int) -> BatchResult:
            return pool.run(work, number)

        yield from _results(ThreadPoolTaskRunner(max_workers=pool.width), work, wait_for, groups)
    else:
        yield from _on_dask(pool, work, groups)


def _on_dask(pool: Any, work: BatchWork, groups: list[list[int]]) -> Iterator[BatchResult]:
    from distributed import KilledWorker
    from prefect_dask.task_runners import DaskTaskRunner

    from polyhop.flows.dask_pool import do_on_worker

    threads = pool.threads

    def do_here(number: int) -> BatchResult:
        with clean_run():  # in the worker, which runs the task
            return do_on_worker(work, number, threads)

    try:
        yield from _results(DaskTaskRunner(address=pool.address), work, do_here, groups)
    except KilledWorker as error:
        raise dead_workers_error(work) from error


def _results(
    runner: TaskRunner[Any],
    work: BatchWork,
    do_batch: DoBatch,
    groups: list[list[int]],
) -> Iterator[BatchResult]:
    def do_group(group: list[int]) -> list[BatchResult]:
        return [do_batch(number) for number in group]

    stage = work.stage
    with runner as started:
        futures = []
        for group in groups:
            words = f"batch {group[0]}" if len(group) == 1 else f"batches {group[0]} to {group[-1]}"
            run_group: Task[[list[int]], list[BatchResult]] = task(
                name=stage,
                task_run_name=f"{stage} {words}",
                retries=len(RETRY_DELAY_SECONDS),
                retry_delay_seconds=RETRY_DELAY_SECONDS,
                retry_condition_fn=is_retryable,
                cache_policy=NO_CACHE,
                persist_result=False,
            )(do_group)
            futures.append(started.submit(run_group, {"group": group}))
        for future in futures:
            yield from future.result()
