"""What a run on Prefect says about its progress: once per group of batches, and no total that is not true."""

from typing import Any, cast

import pytest

from polyhop.flows import prefect_index, prefect_run
from polyhop.flows.prefect_run import TASK_RUNS


class Log:
    """Keeps lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, line: str, *given: str) -> None:
        self.lines.append(line % given)


class Shown:
    """Stands for an artifact of Prefect."""

    def __init__(self, key: str) -> None:
        self.key = key

    def update(self, done: int, total: int, what: str) -> None:
        pass


class Stage:
    """Batches of ten passages, the last of five."""

    name = "extract"
    unit = "passages"

    def is_portable(self, build: Any) -> bool:
        return False

    def run(self, build: Any, number: int) -> int:
        return 5 if number == TASK_RUNS * 2 else 10


def test_batches_of_a_group_are_one_line_and_a_total_that_is_a_bound_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    monkeypatch.setattr(prefect_index, "get_run_logger", lambda: log)
    monkeypatch.setattr(prefect_run, "Progress", Shown)
    monkeypatch.setattr(prefect_run, "run_step", lambda name, run, task_name: run())
    runner, numbers, done = prefect_index.PrefectRunner("x"), list(range(TASK_RUNS * 2 + 1)), 0
    stage = cast("Any", Stage())
    for number, units in enumerate(runner.batches(stage, cast("Any", None), numbers), start=1):
        done += cast("int", units)
        runner.progress("extract", done, done + 10 * (len(numbers) - number))
    groups = -(-len(numbers) // 3)
    assert len(log.lines) == groups == 14
    assert log.lines[0] == "extract: 30 of at most 410 passages"
    assert log.lines[-1] == "extract: 405 of 405 passages"
