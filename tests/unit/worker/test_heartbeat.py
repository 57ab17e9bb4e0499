"""A worker's heartbeat: what it reports and renews, and whom it gives up, beat by beat without its thread."""

from types import SimpleNamespace
from typing import Any

import pytest

from polyhop.schemas.errors import StoreError
from polyhop.schemas.queue import FailedQuestion
from polyhop.worker.loop import Heartbeat


class Queue:
    """Remembers what it was told; may refuse."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.failed: list[FailedQuestion] = []
        self.error: Exception | None = None

    def report_worker(self, worker_id: str, **fields: Any) -> None:
        self._take("report", fields["versions"], fields["outage"])

    def heartbeat(self, worker_id: str, tokens: tuple[str, ...], seconds: float) -> None:
        self._take("renew", tokens, seconds)

    def fail(self, failed: list[FailedQuestion]) -> None:
        self.failed += failed

    def release(self, tokens: list[str]) -> None:
        self._take("release", tokens)

    def remove_worker(self, worker_id: str) -> None:
        self._take("remove", worker_id)

    def _take(self, *said: Any) -> None:
        if self.error is not None:
            raise self.error
        self.said.append(said)


class Worker:
    """A heartbeat among fakes whose thread never starts: each wait is the end of a beat."""

    def __init__(self, beats: int = 1, overdue: tuple[str, ...] = ()) -> None:
        self.queue, self.failures, self.left = Queue(), 0, beats
        pool: Any = SimpleNamespace(versions=lambda: {"wiki": 3})
        watch: Any = SimpleNamespace(overdue=lambda: overdue, limit_seconds=5.0)
        metrics: Any = SimpleNamespace(heartbeats_failed=SimpleNamespace(inc=self._failed))
        queue: Any = self.queue
        self.heart = Heartbeat("w1", queue, pool, watch, metrics, queues=["default"], lease_seconds=30.0)

    def _failed(self) -> None:
        self.failures += 1

    def beat(self, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
        def wait(seconds: float) -> bool:
            assert seconds == 10.0
            self.left -= 1
            if not self.left:
                self.heart._ended.set()
            return False

        monkeypatch.setattr(self.heart._is_due, "wait", wait)
        self.heart._beat()
        return self.queue.said


def test_a_beat_reports_the_worker_once_and_renews_its_leases_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(beats=2)
    worker.heart.held = ("t1", "t2")
    assert worker.beat(monkeypatch) == [("report", {"wiki": 3}, None), *[("renew", ("t1", "t2"), 30.0)] * 2]


def test_news_of_an_outage_wake_it_only_when_they_are_new() -> None:
    heart = Worker().heart
    heart.report(None)
    assert not heart._is_due.is_set()
    heart.report("no server")
    assert heart._is_due.is_set()
    heart._is_due.clear()
    heart.report("no server")
    assert not heart._is_due.is_set()


def test_an_outage_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker()
    worker.heart.report("no server")
    assert worker.beat(monkeypatch)[0] == ("report", {"wiki": 3}, "no server")


@pytest.mark.parametrize("error", [StoreError("locked"), ValueError("a defect")])
def test_a_beat_that_fails_is_counted_and_not_the_last(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    worker = Worker(beats=3)
    worker.queue.error = error
    worker.beat(monkeypatch)
    assert worker.failures == 3


def test_a_question_that_nothing_interrupts_is_dead_and_the_others_go_to_other_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = Worker(overdue=("t2",))
    worker.heart.held = ("t1", "t2", "t3")
    assert worker.beat(monkeypatch)[-1] == ("release", ["t1", "t3"])
    assert [(one.lease_token, one.error_class, one.retryable) for one in worker.queue.failed] == [
        ("t2", "QuestionTimeoutError", False)
    ]
    assert not worker.heart.held


def test_where_several_share_a_turn_nobody_is_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(overdue=("t1", "t2"))
    worker.heart.held = ("t1", "t2", "t3")
    assert worker.beat(monkeypatch)[-1] == ("release", ["t3"])
    assert worker.queue.failed == []


def test_a_question_of_a_batch_before_is_not_given_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(overdue=("old",))
    worker.heart.held = ("t1",)
    worker.beat(monkeypatch)
    assert worker.heart.held == ("t1",)
    assert worker.queue.failed == []


def test_a_worker_signs_off_and_a_queue_that_refuses_does_not_stop_it() -> None:
    worker = Worker()
    worker.heart.sign_off()
    assert worker.queue.said == [("remove", "w1")]
    worker.queue.error = StoreError("locked")
    worker.heart.sign_off()
    assert worker.failures == 1
