"""The worker's loop: batches, the breaker, heartbeats, log and metrics, and a real queue in a file with signals."""

import logging
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from polyhop.schemas.chat import ChatOutcome, ChatTask, Prompt, Rung, Usage
from polyhop.schemas.errors import (
    ModelKeyError,
    ModelRateLimitError,
    ModelRejectedError,
    ModelUnavailableError,
    StoreError,
    StoreUnavailableError,
    retry_after_seconds,
)
from polyhop.schemas.query import ModelUse
from polyhop.schemas.queue import ClaimedQuestion, FailedQuestion, JobSpec, NewQuestion, QuestionState
from polyhop.warehouse.queue.queue import QuestionQueue, open_queue
from polyhop.warehouse.queue.schema import sqlite_url
from polyhop.worker.answer import PartialOutageError, Watch
from polyhop.worker.loop import (
    LONGEST_ERROR,
    LONGEST_PAUSE_SECONDS,
    BatchOutcome,
    CircuitBreaker,
    Heartbeat,
    LeftQuestions,
    Worker,
    WorkerLog,
    WorkerMetrics,
    WorkerOptions,
    WorkerReport,
    answer_group,
    grouped,
    serve_metrics,
)
from polyhop.worker.reading.models import outage_of, use_of


def test_a_new_breaker_lets_everything_through() -> None:
    assert not CircuitBreaker().is_open(0.0)


def test_an_outage_opens_it_until_its_pause_is_over() -> None:
    breaker = CircuitBreaker()
    assert breaker.trip(100.0) == 1.0
    assert breaker.is_open(100.999)
    assert not breaker.is_open(101.0)


def test_each_further_outage_doubles_the_pause_up_to_the_longest() -> None:
    breaker = CircuitBreaker()
    assert [breaker.trip(0.0) for _ in range(7)] == [1, 2, 4, 8, 16, LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS]


def test_ten_thousand_outages_do_not_overflow() -> None:
    breaker = CircuitBreaker(outages=10_000)
    assert breaker.trip(0.0) == LONGEST_PAUSE_SECONDS


def test_a_success_forgets_all_outages() -> None:
    breaker = CircuitBreaker()
    breaker.trip(0.0)
    breaker.trip(0.0)
    breaker.close()
    assert not breaker.is_open(0.0)
    assert breaker.trip(0.0) == 1.0


@pytest.mark.parametrize(("asked", "pause"), [(45.0, 45.0), (0.5, 1.0)])
def test_a_server_that_says_when_to_come_back_is_obeyed_if_it_wants_more_time(asked: float, pause: float) -> None:
    assert CircuitBreaker().trip(0.0, at_least=asked) == pause


def test_a_question_is_at_fault_each_third_time_that_it_is_left_alone() -> None:
    left = LeftQuestions()
    assert [left.is_at_fault("a") for _ in range(6)] == [False, False, True, False, False, True]
    assert not left.is_at_fault("b")


def test_an_answer_forgives_what_was_before() -> None:
    left = LeftQuestions({"a": 2, "b": 2})
    left.forget(["a", "never seen"])
    assert not left.is_at_fault("a")
    assert left.is_at_fault("b")


def test_no_more_than_ten_thousand_questions_are_remembered() -> None:
    left = LeftQuestions()
    for number in range(10_100):
        left.is_at_fault(str(number))
    assert len(left.strikes) == 10_000
    assert "0" not in left.strikes


class Reply(BaseModel):
    text: str


TASK = ChatTask("qa.answer", Prompt("qa.answer", "{{question}}"), Reply)


def outcome_of(error_class: str, error: str = "Why.", wait: float | None = None) -> ChatOutcome[Reply]:
    return ChatOutcome(None, "a/b", False, None, 3, error_class, error, Usage(3, 30, 1), wait)


@pytest.mark.parametrize("name", ["MalformedReplyError", "ReplyRefusedError", "ContextTooLongError"])
def test_a_reply_of_no_use_is_no_outage(name: str) -> None:
    assert outage_of(outcome_of(name)) is None


@pytest.mark.parametrize(
    "name", ["ModelUnavailableError", "ModelRateLimitError", "ModelTimeoutError", "ModelUnreachableError"]
)
def test_a_server_without_a_reply_is_an_outage_in_its_own_words(name: str) -> None:
    outage = outage_of(outcome_of(name))
    assert isinstance(outage, ModelUnavailableError)
    assert str(outage).startswith("Why.")
    assert outage.retryable


def test_only_a_rate_limit_says_how_long_to_wait() -> None:
    limited, silent = (
        outage_of(outcome_of("ModelRateLimitError", wait=7.5)),
        outage_of(outcome_of("ModelRateLimitError")),
    )
    other = outage_of(outcome_of("ModelTimeoutError", wait=7.5))
    assert limited is not None
    assert silent is not None
    assert other is not None
    assert isinstance(limited, ModelRateLimitError)
    assert [retry_after_seconds(one) for one in (limited, silent, other)] == [7.5, 0.0, 0.0]


@pytest.mark.parametrize(
    ("name", "error", "words"), [("ModelRejectedError", "No such model.", "No such model"), ("Odd", "", "Odd")]
)
def test_everything_else_is_an_error_of_the_setup(name: str, error: str, words: str) -> None:
    with pytest.raises(ModelRejectedError, match=words):
        outage_of(outcome_of(name, error))


def test_what_a_question_took_has_its_prompt_and_what_went_wrong() -> None:
    use = use_of(TASK, outcome_of("MalformedReplyError"))
    assert (use.model, use.prompt, use.prompt_hash, use.rung) == ("a/b", "qa.answer", TASK.prompt.hash, "")
    assert (use.error_class, use.error, use.spent) == ("MalformedReplyError", "Why.", Usage(3, 30, 1))
    paid = use_of(TASK, ChatOutcome(Reply(text="x"), "a/b", True, Rung.REPAIRED, 1, "", "", Usage(1, 10, 2)))
    assert (paid.rung, paid.is_cached, paid.usage, paid.spent) == ("repaired", True, Usage(1, 10, 2), Usage())


def claimed(question_id: str, **changes: Any) -> ClaimedQuestion:
    values: dict[str, Any] = {
        "job_id": 1,
        "question_id": question_id,
        "ordinal": 0,
        "question": question_id,
        "topic": None,
        "queue": "default",
        "index": "wiki",
        "strategy": "bridge",
        "parameters": {},
        "limit": 10,
        "attempt": 1,
        "max_attempts": 3,
        "lease_token": f"token-{question_id}",
        "lease_until": 0.0,
        "deadline": None,
    }
    return ClaimedQuestion(**values | changes)


def raising(error: Exception, *texts: str) -> Any:
    def behave(text: str) -> str:
        if text in texts:
            raise error
        return text.upper()

    return behave


def answered(pool: Any, *questions: ClaimedQuestion) -> BatchOutcome:
    outcome = BatchOutcome()
    answer_group(pool, questions, outcome, Watch(60.0))
    return outcome


def test_questions_are_grouped_by_all_that_decides_how_they_are_answered() -> None:
    batch = [
        claimed("a"),
        claimed("b", strategy="bm25"),
        claimed("c", job_id=2),
        claimed("d", limit=5),
        claimed("e", index="other"),
        claimed("f", parameters={"seeds": "3"}),
        claimed("g", min_confidence=0.5),
        claimed("h", min_confidence=0.5),
    ]
    ids = [[question.question_id for question in group] for group in grouped(batch)]
    assert ids == [["a", "c"], ["b"], ["d"], ["e"], ["f"], ["g", "h"]]


def test_the_order_of_parameters_makes_no_second_group() -> None:
    first, second = {"seeds": "3", "restart": "0.5"}, {"restart": "0.5", "seeds": "3"}
    assert len(grouped([claimed("a", parameters=first), claimed("b", parameters=second)])) == 1


def test_no_question_is_no_group() -> None:
    assert grouped([]) == []


def test_a_group_is_answered_at_once_and_each_answer_says_how_it_was_made(scripted_pool: Any) -> None:
    pool = scripted_pool()
    outcome = answered(pool, claimed("a", parameters={"seeds": "3"}), claimed("b", parameters={"seeds": "3"}))
    assert pool.asked == [["a", "b"]]
    assert [(one.lease_token, one.answer, one.version) for one in outcome.finished] == [
        ("token-a", "A", 3),
        ("token-b", "B", 3),
    ]
    assert outcome.finished[0].result == {
        "answer": "A",
        "index": "wiki",
        "parameters": {"seeds": "3"},
        "limit": 10,
        "min_confidence": None,
        "model": None,
        "tokens": {"prompt": 0, "completion": 0},
        "cost_usd": 0.0,
    }


def test_a_poison_question_fails_alone(scripted_pool: Any) -> None:
    pool = scripted_pool(raising(ZeroDivisionError("division by zero"), "b"))
    outcome = answered(pool, *map(claimed, "abcd"))
    assert [one.lease_token for one in outcome.finished] == ["token-a", "token-c", "token-d"]
    (failure,) = outcome.failed
    assert (failure.lease_token, failure.error, failure.error_class, failure.retryable) == (
        "token-b",
        "division by zero",
        "ZeroDivisionError",
        False,
    )
    assert outcome.released == []


def test_an_error_without_words_is_named_by_its_class(scripted_pool: Any) -> None:
    assert answered(scripted_pool(raising(RuntimeError(), "a")), claimed("a")).failed[0].error == "RuntimeError"


def test_an_endless_error_is_cut(scripted_pool: Any) -> None:
    outcome = answered(scripted_pool(raising(RuntimeError("x" * 10**6), "a")), claimed("a"))
    assert len(outcome.failed[0].error) == LONGEST_ERROR


def test_an_error_that_may_pass_is_marked_so(scripted_pool: Any) -> None:
    outcome = answered(scripted_pool(raising(StoreUnavailableError("busy"), "a")), claimed("a"))
    assert outcome.failed[0].retryable


def test_an_unknown_index_fails_every_question_with_its_name(scripted_pool: Any) -> None:
    outcome = answered(scripted_pool(), claimed("a", index="nil"), claimed("b", index="nil"))
    assert [one.error_class for one in outcome.failed] == ["UnknownIndexError", "UnknownIndexError"]
    assert "Unknown index 'nil'" in outcome.failed[0].error
    assert not outcome.failed[0].retryable


def test_a_model_that_is_away_gives_the_whole_group_back(scripted_pool: Any) -> None:
    outcome = answered(scripted_pool(raising(ModelUnavailableError("away"), "b")), *map(claimed, "abc"))
    assert outcome.released == ["token-a", "token-b", "token-c"]
    assert (outcome.finished, outcome.failed) == ([], [])
    assert isinstance(outcome.outage, ModelUnavailableError)


def test_an_outage_while_looking_for_a_bad_question_asks_no_further(scripted_pool: Any) -> None:
    """a is poison; asked one by one, b meets the outage: c is not tried."""

    def behave(text: str) -> str:
        raise ZeroDivisionError if text == "a" else ModelUnavailableError("away")

    pool = scripted_pool(behave)
    outcome = answered(pool, *map(claimed, "abc"))
    assert pool.asked == [["a", "b", "c"], ["a"], ["b"]]
    assert [one.lease_token for one in outcome.failed] == ["token-a"]
    assert outcome.released == ["token-b", "token-c"]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_an_interruption_is_no_failed_question(scripted_pool: Any, interruption: type[BaseException]) -> None:
    def behave(text: str) -> str:
        raise interruption

    with pytest.raises(interruption):
        answered(scripted_pool(behave), claimed("a"))


@pytest.mark.parametrize(("is_cached", "left"), [(False, ["token-b", "token-c"]), (True, [])])
def test_what_a_model_answered_before_it_went_away_is_kept(
    scripted_pool: Any, *, is_cached: bool, left: list[str]
) -> None:
    """Only a reply of just now says that the model is there, and that b and c were left for reasons of their own."""
    use = ModelUse("m", "qa.answer", "hash", is_cached=is_cached, usage=Usage(calls=1))
    good = SimpleNamespace(reading=SimpleNamespace(answer="A", use=use), total_seconds=0.5)
    error = PartialOutageError(ModelUnavailableError("away"), [good, None, None])  # type: ignore[list-item]
    outcome = answered(scripted_pool(raising(error, "a")), *map(claimed, "abc"))
    assert [(one.lease_token, one.answer) for one in outcome.finished] == [("token-a", "A")]
    assert outcome.released == ["token-b", "token-c"]
    assert outcome.left == left
    assert outcome.outage is error
    assert outcome.failed == []


def test_a_result_keeps_what_its_model_took(scripted_pool: Any) -> None:
    pool = scripted_pool()
    spent = {"calls": 1, "prompt_tokens": 7, "completion_tokens": 2, "cost_usd": 0.5, "seconds": 1.0}
    pool.document = {"reading": {"model": "openai/x", "spent": spent}}
    (finished,) = answered(pool, claimed("a")).finished
    assert finished.result["model"] == "openai/x"
    assert finished.result["tokens"] == {"prompt": 7, "completion": 2}
    assert finished.result["cost_usd"] == 0.5


class ToldQueue:
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


class BeatingWorker:
    """A heartbeat among fakes whose thread never starts: each wait is the end of a beat."""

    def __init__(self, beats: int = 1, overdue: tuple[str, ...] = ()) -> None:
        self.queue, self.failures, self.left = ToldQueue(), 0, beats
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
    worker = BeatingWorker(beats=2)
    worker.heart.held = ("t1", "t2")
    assert worker.beat(monkeypatch) == [("report", {"wiki": 3}, None), *[("renew", ("t1", "t2"), 30.0)] * 2]


def test_news_of_an_outage_wake_it_only_when_they_are_new() -> None:
    heart = BeatingWorker().heart
    heart.report(None)
    assert not heart._is_due.is_set()
    heart.report("no server")
    assert heart._is_due.is_set()
    heart._is_due.clear()
    heart.report("no server")
    assert not heart._is_due.is_set()


def test_an_outage_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = BeatingWorker()
    worker.heart.report("no server")
    assert worker.beat(monkeypatch)[0] == ("report", {"wiki": 3}, "no server")


@pytest.mark.parametrize("error", [StoreError("locked"), ValueError("a defect")])
def test_a_beat_that_fails_is_counted_and_not_the_last(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    worker = BeatingWorker(beats=3)
    worker.queue.error = error
    worker.beat(monkeypatch)
    assert worker.failures == 3


def test_a_question_that_nothing_interrupts_is_dead_and_the_others_go_to_other_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = BeatingWorker(overdue=("t2",))
    worker.heart.held = ("t1", "t2", "t3")
    assert worker.beat(monkeypatch)[-1] == ("release", ["t1", "t3"])
    assert [(one.lease_token, one.error_class, one.retryable) for one in worker.queue.failed] == [
        ("t2", "QuestionTimeoutError", False)
    ]
    assert not worker.heart.held


def test_where_several_share_a_turn_nobody_is_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = BeatingWorker(overdue=("t1", "t2"))
    worker.heart.held = ("t1", "t2", "t3")
    assert worker.beat(monkeypatch)[-1] == ("release", ["t3"])
    assert worker.queue.failed == []


def test_a_question_of_a_batch_before_is_not_given_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = BeatingWorker(overdue=("old",))
    worker.heart.held = ("t1",)
    worker.beat(monkeypatch)
    assert worker.heart.held == ("t1",)
    assert worker.queue.failed == []


def test_a_worker_signs_off_and_a_queue_that_refuses_does_not_stop_it() -> None:
    worker = BeatingWorker()
    worker.heart.sign_off()
    assert worker.queue.said == [("remove", "w1")]
    worker.queue.error = StoreError("locked")
    worker.heart.sign_off()
    assert worker.failures == 1


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> WorkerLog:
    caplog.set_level(logging.DEBUG, logger="polyhop.worker.loop")
    return WorkerLog("host-1")


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def test_an_outage_of_the_queue_is_said_once_and_so_is_its_end(
    log: WorkerLog, caplog: pytest.LogCaptureFixture
) -> None:
    away = StoreUnavailableError("the queue is busy")
    assert all(log.is_passing(away, "questions are claimed") for _ in range(5))
    log.claimed([])
    log.claimed([])
    assert said(caplog) == [
        ("WARNING", "the queue is unavailable while questions are claimed"),
        ("INFO", "the queue is available again"),
    ]
    assert caplog.records[0].__dict__["fields"] == {"worker": "host-1", "error": "the queue is busy"}


def test_failed_questions_are_named_and_their_texts_are_not(log: WorkerLog, caplog: pytest.LogCaptureFixture) -> None:
    failed = [FailedQuestion("lease-1", "the index is gone", "UnknownIndexError", retryable=False)]
    log.lost(2, failed, {"lease-1": "3/q17"})
    assert [record.__dict__["fields"] for record in caplog.records] == [
        {"worker": "host-1", "questions": 2},
        {"worker": "host-1", "question": "3/q17", "error": "the index is gone"},
    ]


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        found: int = probe.getsockname()[1]
        return found


@pytest.fixture
def metrics(port: int) -> Iterator[WorkerMetrics]:
    counted = WorkerMetrics()
    stop = serve_metrics(counted, port)
    yield counted
    stop()


def page(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        text: str = answer.read().decode()
        return text


def test_healthz_says_ok(metrics: WorkerMetrics, port: int) -> None:
    assert page(port, "/healthz") == "ok\n"


def test_metrics_count_questions_by_outcome(metrics: WorkerMetrics, port: int) -> None:
    for outcome, count in (("finished", 3), ("failed", 2), ("released", 1), ("finished", 1)):
        metrics.questions.labels(outcome).inc(count)
    metrics.seconds.labels("bridge").observe(0.25)
    metrics.outages.inc()
    metrics.heartbeats_failed.inc()
    text = page(port, "/metrics")
    assert 'polyhop_questions_total{outcome="finished"} 4.0' in text
    assert 'polyhop_questions_total{outcome="failed"} 2.0' in text
    assert 'polyhop_questions_total{outcome="released"} 1.0' in text
    assert 'polyhop_batch_seconds_sum{strategy="bridge"} 0.25' in text
    assert "polyhop_model_outages_total 1.0" in text
    assert "polyhop_heartbeats_failed_total 1.0" in text


def test_only_this_machine_is_served_unless_told_otherwise(metrics: WorkerMetrics, port: int) -> None:
    """127.0.0.2 is this machine too, but not the address that was bound."""
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", port), timeout=5).close()


def test_a_taken_port_is_named(metrics: WorkerMetrics, port: int) -> None:
    with pytest.raises(StoreError, match=f"127.0.0.1:{port}"):
        serve_metrics(WorkerMetrics(), port)


def test_nothing_is_served_after_the_end(port: int) -> None:
    serve_metrics(WorkerMetrics(), port)()
    with pytest.raises(urllib.error.URLError):
        page(port, "/healthz")


PROJECT = Path(__file__).resolve().parents[3]


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuestionQueue]:
    """Its breaker's pauses and its backoff are hundredths of a second."""
    monkeypatch.setattr("polyhop.worker.loop.FIRST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr("polyhop.schemas.queue.BACKOFF_BASE_SECONDS", 0.02)
    with open_queue(sqlite_url(tmp_path / "queue.sqlite")) as opened:
        yield opened


def submit(waiting: QuestionQueue, /, *texts: str, **spec: Any) -> int:
    return waiting.submit(JobSpec(**{"index": "wiki"} | spec), [NewQuestion(text, text) for text in texts])


def work(queue: QuestionQueue, pool: Any, **options: Any) -> WorkerReport:
    chosen = WorkerOptions(**{"until_empty": True, "poll_seconds": 0.02, "lease_seconds": 5.0} | options)
    return Worker(queue, pool, chosen).run()


def states(queue: QuestionQueue, job: int) -> dict[str, str]:
    return {row.question_id: row.state.value for row in queue.results(job)}


def raising_once(error: Exception, text: str) -> Callable[[str], str]:
    left = [error]

    def behave(asked: str) -> str:
        if asked == text and left:
            raise left.pop()
        return asked.upper()

    return behave


@pytest.mark.slow
def test_every_question_gets_its_answer_in_submitted_order(queue: QuestionQueue, scripted_pool: Any) -> None:
    job = submit(queue, *"abcde")
    pool = scripted_pool()
    report = work(queue, pool, batch=2)
    assert (report.finished, report.failed, report.released, report.refused) == (5, 0, 0, 0)
    assert pool.asked == [["a", "b"], ["c", "d"], ["e"]]
    assert [(row.answer, row.version, row.worker_id) for row in queue.results(job)] == [
        (letter, 3, report.worker_id) for letter in "ABCDE"
    ]


@pytest.mark.slow
def test_a_worker_closes_its_indexes_and_leaves_the_list_when_it_ends(queue: QuestionQueue, scripted_pool: Any) -> None:
    seen: list[str] = []

    def behave(text: str) -> str:
        while not seen:
            seen.extend(worker.worker_id for worker in queue.workers())
        return text

    pool = scripted_pool(behave)
    submit(queue, "a")
    assert [work(queue, pool).worker_id] == seen
    assert pool.is_closed
    assert queue.workers() == []


@pytest.mark.slow
def test_only_the_named_queues_are_answered(queue: QuestionQueue, scripted_pool: Any) -> None:
    mine, other = submit(queue, "a", queue="mine"), submit(queue, "b", queue="other")
    work(queue, scripted_pool(), queues=("mine",))
    assert states(queue, mine) == {"a": "done"}
    assert states(queue, other) == {"b": "queued"}


@pytest.mark.slow
def test_a_poison_question_dies_alone_and_says_why(queue: QuestionQueue, scripted_pool: Any) -> None:
    def behave(text: str) -> str:
        return str(1 / (text != "c"))

    job = submit(queue, *"abcde")
    report = work(queue, scripted_pool(behave))
    assert (report.finished, report.failed) == (4, 1)
    assert states(queue, job) == {"a": "done", "b": "done", "c": "dead", "d": "done", "e": "done"}
    (error,) = queue.job(job).errors
    assert (error.error_class, error.count, error.example) == ("ZeroDivisionError", 1, "division by zero")


@pytest.mark.slow
def test_an_answer_that_cannot_be_stored_fails_alone(queue: QuestionQueue, scripted_pool: Any) -> None:
    job = submit(queue, *"abc")
    pool = scripted_pool()
    pool.behave = lambda text: float("nan") if text == "b" else text
    report = work(queue, pool)
    assert (report.finished, report.failed, report.refused) == (2, 1, 0)
    assert states(queue, job) == {"a": "done", "b": "dead", "c": "done"}
    assert queue.job(job).errors[0].error_class == "ContractError"


@pytest.mark.slow
def test_an_unknown_index_is_dead_at_once_with_a_clear_error(queue: QuestionQueue, scripted_pool: Any) -> None:
    lost, good = submit(queue, "a", index="nil"), submit(queue, "b")
    work(queue, scripted_pool())
    assert states(queue, good) == {"b": "done"}
    (row,) = queue.results(lost)
    assert (row.state, row.attempts) == (QuestionState.DEAD, 1)
    assert "Unknown index 'nil'" in (row.error or "")


@pytest.mark.slow
def test_an_error_that_may_pass_is_tried_again(queue: QuestionQueue, scripted_pool: Any) -> None:
    job = submit(queue, "a")
    report = work(queue, scripted_pool(raising_once(StoreUnavailableError("busy"), "a")))
    (row,) = queue.results(job)
    assert (row.state, row.answer, row.attempts, row.error) == (QuestionState.DONE, "A", 2, None)
    assert (report.finished, report.failed) == (1, 1)


@pytest.mark.slow
def test_an_error_that_never_passes_is_dead_after_its_attempts(queue: QuestionQueue, scripted_pool: Any) -> None:
    def behave(text: str) -> str:
        raise StoreUnavailableError("busy")

    job = submit(queue, "a", max_attempts=2)
    report = work(queue, scripted_pool(behave))
    (row,) = queue.results(job)
    assert (row.state, row.attempts, row.error) == (QuestionState.DEAD, 2, "busy")
    assert report.failed == 2


@pytest.mark.slow
def test_a_model_outage_uses_no_attempt_and_everything_is_answered_after_it(
    queue: QuestionQueue, scripted_pool: Any
) -> None:
    outages = iter(range(3))

    def behave(text: str) -> str:
        if next(outages, None) is not None:
            raise ModelUnavailableError("away")
        return text.upper()

    first, second = submit(queue, *"abc"), submit(queue, "d", strategy="bm25")
    pool = scripted_pool(behave)
    started = time.monotonic()
    report = work(queue, pool)
    assert time.monotonic() - started >= 0.05 + 0.1 + 0.2
    assert (report.outages, report.finished, report.failed, report.released) == (3, 4, 0, 12)
    assert [row.attempts for job in (first, second) for row in queue.results(job)] == [1, 1, 1, 1]
    assert pool.asked[:4] == [["a", "b", "c"]] * 4


@pytest.mark.slow
def test_a_refused_key_ends_the_worker_and_spoils_no_question(queue: QuestionQueue, scripted_pool: Any) -> None:
    job = submit(queue, *"abc")
    with pytest.raises(ModelKeyError, match="the key is refused"):
        work(queue, scripted_pool(raising_once(ModelKeyError("the key is refused"), "b")))
    assert queue.job(job).counts[QuestionState.QUEUED] == 3
    assert work(queue, scripted_pool()).finished == 3
    assert [row.attempts for row in queue.results(job)] == [1, 1, 1]


@pytest.mark.slow
def test_a_success_closes_the_breaker(queue: QuestionQueue, scripted_pool: Any) -> None:
    submit(queue, "a")
    worker = Worker(
        queue,
        scripted_pool(raising_once(ModelUnavailableError("away"), "a")),
        WorkerOptions(until_empty=True, poll_seconds=0.02),
    )
    worker.run()
    assert worker._breaker.outages == 0


@pytest.mark.slow
def test_a_model_that_says_when_to_come_back_is_left_alone_until_then(queue: QuestionQueue, scripted_pool: Any) -> None:
    submit(queue, "a")
    pool = scripted_pool(raising_once(ModelRateLimitError("too many", retry_after_seconds=0.6), "a"))
    started = time.monotonic()
    assert work(queue, pool).finished == 1
    assert time.monotonic() - started >= 0.6


@pytest.mark.slow
@pytest.mark.real_time
def test_a_worker_that_waits_for_a_model_says_so_until_it_is_back(queue: QuestionQueue, scripted_pool: Any) -> None:
    asked: list[str] = []

    def outages() -> list[str | None]:
        return [worker.outage for worker in queue.workers()]

    def behave(text: str) -> str:
        asked.append(text)
        if len(asked) == 1:
            raise ModelUnavailableError("the model is away")
        if text == "a":
            wait_for(lambda: outages() == ["the model is away"])
            submit(queue, "b")
        else:
            wait_for(lambda: outages() == [None])
        return text.upper()

    submit(queue, "a")
    assert work(queue, scripted_pool(behave), lease_seconds=60.0).finished == 2
    assert asked == ["a", "a", "b"]


def wait_for(is_reached: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not is_reached():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


@pytest.mark.slow
def test_a_question_that_a_model_never_answers_is_dead_in_the_end_and_keeps_no_other_waiting(
    queue: QuestionQueue, scripted_pool: Any
) -> None:
    """The poison question is the oldest, so every batch begins with it; each batch has others, which are answered."""
    use = ModelUse("m", "qa.answer", "hash", usage=Usage(calls=1))

    class Pool(scripted_pool):  # type: ignore[misc]
        def _answer(self, questions: Any, limit: int, turns: Any) -> list[Any]:
            rows = [
                SimpleNamespace(reading=SimpleNamespace(answer=q.text, use=use), total_seconds=1) for q in questions
            ]
            if any(q.text == "poison" for q in questions):
                left = [None if q.text == "poison" else row for q, row in zip(questions, rows, strict=True)]
                raise PartialOutageError(ModelUnavailableError("timeout"), left)  # type: ignore[arg-type]
            return rows

    job = submit(queue, "poison", *(f"q{n}" for n in range(80)), max_attempts=2)
    report = work(queue, Pool(), batch=2)
    ends = states(queue, job)
    assert ends.pop("poison") == "dead"
    assert set(ends.values()) == {"done"}
    assert (report.finished, report.failed) == (80, 2)
    (error,) = queue.job(job).errors
    assert (error.error_class, error.example) == ("ModelUnavailableError", "timeout")


@pytest.mark.slow
def test_an_answer_for_a_cancelled_job_is_refused(queue: QuestionQueue, scripted_pool: Any) -> None:
    job = submit(queue, *"ab")
    report = work(queue, scripted_pool(lambda text: str(queue.cancel(job))))
    assert (report.finished, report.refused) == (0, 2)
    assert states(queue, job) == {"a": "cancelled", "b": "cancelled"}


@pytest.mark.slow
@pytest.mark.real_time
def test_a_batch_longer_than_its_lease_keeps_it(queue: QuestionQueue, scripted_pool: Any) -> None:
    job = submit(queue, "a")
    slow = threading.Thread(
        target=work,
        args=(queue, scripted_pool(lambda text: time.sleep(4) or "slow")),  # type: ignore[func-returns-value]
        kwargs={"lease_seconds": 1.5},
    )
    slow.start()
    time.sleep(0.5)
    other = work(queue, scripted_pool(lambda text: "stolen"), lease_seconds=1.5)
    slow.join()
    (row,) = queue.results(job)
    assert (row.answer, row.attempts, other.finished) == ("slow", 1, 0)


@pytest.mark.slow
def test_a_worker_takes_over_what_a_dead_one_held(queue: QuestionQueue, scripted_pool: Any) -> None:
    job = submit(queue, "a")
    assert queue.claim(["default"], "dead", lease_seconds=0.3)
    work(queue, scripted_pool())
    (row,) = queue.results(job)
    assert (row.state, row.attempts) == (QuestionState.DONE, 2)


@pytest.mark.slow
def test_a_worker_that_is_told_to_stop_finishes_its_batch(queue: QuestionQueue, scripted_pool: Any) -> None:
    job = submit(queue, *"abcd")
    pool = scripted_pool()
    worker = Worker(queue, pool, WorkerOptions(batch=2, poll_seconds=0.02))
    pool.behave = lambda text: worker.stop() or text.upper()  # type: ignore[func-returns-value]
    assert worker.run().finished == 2
    assert states(queue, job) == {"a": "done", "b": "done", "c": "queued", "d": "queued"}


@pytest.mark.slow
def test_a_queue_that_is_away_for_a_while_ends_no_worker(
    queue: QuestionQueue, scripted_pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claims, counts and heartbeats fail for a while, as when the database stays away longer than the queue waits."""
    job = submit(queue, "a")
    end = time.monotonic() + 0.3
    for name in ("claim", "count_open", "heartbeat", "report_worker"):
        monkeypatch.setattr(queue, name, _away_until(end, getattr(queue, name)))
    assert work(queue, scripted_pool()).finished == 1
    assert states(queue, job) == {"a": "done"}


def _away_until(end: float, method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*values: Any, **named: Any) -> Any:
        if time.monotonic() < end:
            raise StoreUnavailableError("away")
        return method(*values, **named)

    return call


SCRIPT = """
    import dataclasses, json, sys, time
    from types import SimpleNamespace
    from polyhop.warehouse.queue.queue import open_queue
    from polyhop.worker.loop import Worker, WorkerOptions

    class Pool:
        def session(self, name):
            session = SimpleNamespace(
                version=1,
                encoder_model=None,
                answerer=lambda strategy, parameters, min_confidence: SimpleNamespace(answer=self.answer),
                document=lambda strategy, answered: {},
            )
            session.where = lambda where: session
            return session

        def answer(self, questions, limit, turns):
            print("answering", flush=True)
            end = time.monotonic() + float(sys.argv[2])
            is_told = False
            while time.monotonic() < end and not (ends_when_told and is_told):
                if worker._is_stopping and not is_told:
                    print("told to stop", flush=True)
                    is_told = True
                time.sleep(0.02)
            return [SimpleNamespace(reading=SimpleNamespace(answer="x"), total_seconds=0.0) for _ in questions]

        def versions(self):
            return {}

        def close(self):
            pass

    with open_queue(sys.argv[1]) as queue:
        ends_when_told = sys.argv[3] == "True"
        worker = Worker(queue, Pool(), WorkerOptions(batch=2, poll_seconds=30.0))
        worker.handle_signals()
        print(json.dumps(dataclasses.asdict(worker.run())), flush=True)
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a worker whose batches take so many seconds, or end when it is told to; what still runs is killed."""
    started: list[subprocess.Popen[str]] = []

    def run(seconds: float, *, ends_when_told: bool = False) -> subprocess.Popen[str]:
        command = [sys.executable, "-W", "error", "-c", textwrap.dedent(SCRIPT)]
        process = subprocess.Popen(
            [*command, sqlite_url(tmp_path / "queue.sqlite"), str(seconds), str(ends_when_told)],
            cwd=PROJECT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_finishes_the_batch_at_work_and_claims_no_more(
    queue: QuestionQueue, start: Callable[..., subprocess.Popen[str]], number: int
) -> None:
    job = submit(queue, *"abcd")
    process = start(60, ends_when_told=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "answering\n"
    process.send_signal(number)
    printed, complaints = process.communicate(timeout=25)
    assert process.returncode == 0, complaints
    assert '"finished": 2' in printed
    assert states(queue, job) == {"a": "done", "b": "done", "c": "queued", "d": "queued"}
    assert queue.workers() == []


@pytest.mark.slow
def test_a_second_signal_gives_the_batch_back_at_once(
    queue: QuestionQueue, start: Callable[..., subprocess.Popen[str]]
) -> None:
    job = submit(queue, *"abcd")
    process = start(60)
    assert process.stdout is not None
    assert process.stdout.readline() == "answering\n"
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "told to stop\n"  # two signals that wait for one process are one
    time.sleep(0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    printed, complaints = process.communicate(timeout=25)
    assert process.returncode == 0, complaints
    assert '"released": 2' in printed
    rows = list(queue.results(job))
    assert {(row.state, row.attempts) for row in rows} == {(QuestionState.QUEUED, 0)}


@pytest.mark.slow
def test_an_idle_worker_ends_soon_after_a_signal(
    queue: QuestionQueue, start: Callable[..., subprocess.Popen[str]]
) -> None:
    """It looks at the queue every 30 seconds only."""
    process = start(0)
    while not queue.workers():
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, complaints = process.communicate(timeout=25)
    assert process.returncode == 0, complaints
