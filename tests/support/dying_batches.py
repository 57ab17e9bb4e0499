"""Batches that note who does them, and kill the process that does one of them for the first time."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

from polyhop.flows.runner import DirectRunner
from polyhop.tasks.stage import BatchResult, Stage
from polyhop.warehouse.build import Build


def noted(
    folder: str, victims: int, stage: str, run: Callable[[Build, int], BatchResult], build: Build, number: int
) -> Any:
    """Does a batch; the first `victims` times, its process dies once batch 1 is done."""
    done = run(build, number)
    file = Path(folder) / f"{stage}-{number}"
    times = len(file.read_text().splitlines()) if file.exists() else 0
    with file.open("a") as log:
        log.write(f"{os.getpid()}\n")
    if number == 1 and times < victims:
        os.kill(os.getpid(), signal.SIGKILL)
    return done


class NotingRunner(DirectRunner):
    """Runs batches as `noted` does; `processes` says who did which."""

    def __init__(self, folder: Path, pool: Any, dies_in: str, victims: int) -> None:
        super().__init__(pool=pool)
        self.folder, self.dies_in, self.victims = folder, dies_in, victims
        folder.mkdir()

    def batches(self, stage: Stage, build: Build, numbers: list[int]) -> Iterator[BatchResult]:
        if stage.is_portable(build):
            victims = self.victims if stage.name == self.dies_in else 0
            run = partial(noted, str(self.folder), victims, stage.name, stage.run)
            stage = copy(stage)
            stage.run = run  # type: ignore[method-assign]
        return super().batches(stage, build, numbers)

    def processes(self) -> dict[str, list[int]]:
        """{stage-number: processes that did it, in order}."""
        return {file.name: list(map(int, file.read_text().split())) for file in sorted(self.folder.iterdir())}

    def times(self) -> Counter[int]:
        """How many batches were done how often."""
        return Counter(map(len, self.processes().values()))
