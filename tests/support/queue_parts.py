"""What the suites of the queue use: a clock that stands still, and short ways to say what tests say often."""

from dataclasses import replace
from typing import Any

import pytest

from polyhop.schemas.queue import ClaimedQuestion, FailedQuestion, FinishedQuestion, JobSpec, NewQuestion, ResultRow
from polyhop.warehouse.queue.queue import QuestionQueue

SPEC = JobSpec(index="wiki")


def result_of(queue: QuestionQueue, job_id: int, question_id: str) -> ResultRow:
    """The row of a question that the queue must know."""
    row = queue.result(job_id, question_id)
    assert row is not None
    return row


def states(queue: QuestionQueue, job_id: int) -> list[str]:
    return [row.state.value for row in queue.results(job_id)]


def only_second_tries(queue: QuestionQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on every transaction is tried again after its first try, of whose end nobody heard."""
    run = queue.run
    monkeypatch.setattr(queue, "run", lambda work, kind="write": run(lambda tx: work(replace(tx, attempt=2)), kind))


class Clock:
    """Time that passes only when told."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


def questions(count: int, prefix: str = "q") -> list[NewQuestion]:
    return [NewQuestion(f"{prefix}{n}", f"What is {prefix} {n}?") for n in range(count)]


def finished(claimed: ClaimedQuestion, answer: str = "yes") -> FinishedQuestion:
    return FinishedQuestion(claimed.lease_token, answer, 7, "bridge", 0.25, {"passages": [{"id": "p1"}]})


def failed(claimed: ClaimedQuestion, **changes: Any) -> FailedQuestion:
    values: dict[str, Any] = {"error": "the model is away", "error_class": "ModelUnavailableError", "retryable": True}
    return FailedQuestion(claimed.lease_token, **values | changes)
