"""Who runs the functions of stages: this process, in order, or a pool; `prefect_index.py` makes task runs of them.

Knows no stage.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from polyhop.flows.batch_work import portable_work
from polyhop.flows.pools import Pool, chosen_pool, run_in_pool
from polyhop.tasks.stage import BatchResult, Counts, Stage
from polyhop.warehouse.build import Build


class Runner(Protocol):
    """Runs the functions of stages: directly, or as tasks of a flow run."""

    def batches(self, stage: Stage, build: Build, numbers: list[int]) -> Iterable[BatchResult]:
        """Runs batches, yielding their results in order; other processes may do those that are portable."""
        ...

    def step(self, stage: str, run: Callable[[Build], Counts], build: Build) -> Counts:
        """Runs a stage's last step."""
        ...

    def progress(self, stage: str, done: int, total: int) -> None:
        """Called before the first batch and after each: units done, and units of all batches at most."""
        ...

    def note(self, line: str) -> None:
        """Shows a line about what the run waits for."""
        ...


class DirectRunner:
    """Runs everything in this process, in order, but what a pool of processes can do.

    Args:
        on_progress: Called after each batch with stage, units done, units of all batches at most.
        on_note: Called with lines about what the run waits for.
        pool: Does the batches that other processes can do; None: this process does them.
    """

    def __init__(
        self,
        on_progress: Callable[[str, int, int], None] | None = None,
        on_note: Callable[[str], None] | None = None,
        pool: Pool | None = None,
    ) -> None:
        self._pool = pool
        self._on_progress = on_progress
        self._on_note = on_note

    def batches(self, stage: Stage, build: Build, numbers: list[int]) -> Iterator[BatchResult]:
        """Runs the batches in the pool if there is one for them, else sequentially."""
        pool = chosen_pool(self._pool, stage, build, numbers)
        if pool is not None:
            yield from run_in_pool(pool, portable_work(stage, build), numbers)
            return
        for number in numbers:
            yield stage.run(build, number)

    def step(self, stage: str, run: Callable[[Build], Counts], build: Build) -> Counts:
        """Runs the step immediately."""
        return run(build)

    def progress(self, stage: str, done: int, total: int) -> None:
        """Forwards to the callback."""
        if self._on_progress is not None:
            self._on_progress(stage, done, total)

    def note(self, line: str) -> None:
        """Shows a line, if anybody reads them."""
        if self._on_note is not None:
            self._on_note(line)
