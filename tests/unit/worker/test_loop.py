"""The worker on a real queue in a file, with its limits, outages and signals; and its parts, one by one."""

import contextlib
import logging
import os
import re
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, call

import pytest
from memory_index import MemoryIndex
from pydantic import BaseModel
from queue_parts import Clock
from small_indexes import wait_for

from polyhop.schemas import errors
from polyhop.schemas.chat import ChatOutcome, Usage
from polyhop.schemas.evidence import Evidence
from polyhop.schemas.ports import Services
from polyhop.schemas.query import ModelUse, Question, RankedPassage, ReaderResult, ReadingItem, Retrieval
from polyhop.schemas.queue import ClaimedQuestion, FailedQuestion, JobSpec, NewQuestion, QuestionState
from polyhop.warehouse.queue.queue import QuestionQueue, open_queue
from polyhop.warehouse.queue.schema import sqlite_url
from polyhop.worker import loop
from polyhop.worker.answer import Answerer
from polyhop.worker.reading.models import outage_of
from polyhop.worker.strategies import registry
from polyhop.worker.strategies.base import DECLARED, Parameters, strategy
from polyhop.worker.time_limits import BatchTimer, DeadlinePassedError, TimeLimitError, TimeLimits

AWAY = errors.ModelUnavailableError("away")


class Loud:
    """Says questions in capitals, or does to each what a function says; knows which came together."""

    def __init__(self, behave: Callable[[str], Any] = str.upper) -> None:
        self.behave = behave
        self.calls: list[list[str]] = []

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        self.calls.append([question.text for question in questions])
        return [self._retrieve(question.text) for question in questions]

    def _retrieve(self, text: str) -> Retrieval:
        return Retrieval((RankedPassage("p", 1, len(text)),), Evidence(context=self.behave(text)))


class NoteReader:
    """Answers with what the strategy says; its model is away for some questions."""

    batches = True

    def __init__(self, away: Collection[str] = (), *, is_cached: bool = False) -> None:
        self._away = away
        self._use = ModelUse("m", "qa.answer", "hash", is_cached=is_cached, usage=Usage(calls=1)) if away else None

    def read(self, items: Sequence[ReadingItem]) -> list[ReaderResult]:
        return [
            ReaderResult("", outage=AWAY)
            if item.question.text in self._away
            else ReaderResult(item.notes, use=self._use)
            for item in items
        ]


class Pool:
    """Version 3 of the index `wiki`, whose only strategy does to each question what a function says."""

    def __init__(self, behave: Callable[[str], Any] = str.upper, reader: Any = None, *, batches: bool = True) -> None:
        self.loud = Loud(behave)
        strategy("loud", "Loud.", Parameters, needs=(), batches=batches)(lambda *_: self.loud)
        self.answerer = Answerer(MemoryIndex([("p", "", "")]), "loud", {}, Services(), reader or NoteReader())
        self.document: dict[str, object] = {}
        self.forgotten = 0
        self.is_closed = False

    def session(self, name: str) -> Any:
        if name != "wiki":
            raise errors.UnknownIndexError(name, ["wiki"], "root")
        session = SimpleNamespace(version=3, encoder_model=None, answerer=lambda *_: self.answerer)
        session.document = lambda _, answered: {"answer": answered.reading.answer, **self.document}
        session.where = lambda text: session
        return session

    def forget(self, name: str) -> None:
        self.forgotten += 1

    def versions(self) -> dict[str, int]:
        return {"wiki": 3}

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    found = {"loud": EntryPoint("loud", __name__, "polyhop.strategies")}
    monkeypatch.setattr(registry, "extensions", lambda _group: found)
    yield
    DECLARED.pop("loud", None)


def raising(error: BaseException, *texts: str, times: int = 1_000) -> Callable[[str], str]:
    """Raises it for these questions so many times; says the others in capitals."""
    left = [error] * times

    def behave(text: str) -> str:
        if text in texts and left:
            raise left.pop()
        return text.upper()

    return behave


def claimed(text: str, **changes: Any) -> ClaimedQuestion:
    """The first try of a question that is its own id and lease."""
    first = ClaimedQuestion(1, text, 0, text, None, "default", "wiki", "loud", {}, 10, 1, 3, text, 0.0, None)
    return replace(first, **changes)


def answered(pool: Any, *questions: ClaimedQuestion) -> loop.BatchOutcome:
    outcome = loop.BatchOutcome()
    loop.answer_group(pool, questions, outcome, TimeLimits(60.0))
    return outcome


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """All time of this process; do not start a thread."""
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", clock)
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


@pytest.mark.parametrize(("batches", "seconds"), [(False, [0, 3, 0]), (True, [1, 1, 1])])
def test_seconds_are_a_question_s_own_or_an_equal_share(clock: Clock, *, batches: bool, seconds: list[float]) -> None:
    pool = Pool(lambda text: clock.advance(3 * (text == "b")) or text, batches=batches)  # type: ignore[func-returns-value]
    outcome = answered(pool, *map(claimed, "abc"))
    assert [one.seconds for one in outcome.finished] == seconds


def test_all_turns_of_a_question_share_one_limit(clock: Clock) -> None:
    """Two turns of .3 s end a limit of .5 s; the alarm is called by hand here."""
    limits = TimeLimits(0.5)
    timer = limits.timer(["t"])
    with timer.single(0):
        clock.advance(0.3)
        limits._on_alarm(0, None)
    with timer.single(0):
        clock.advance(0.3)
        with pytest.raises(TimeLimitError) as raised:
            limits._on_alarm(0, None)
    assert raised.value.tokens == ("t",)
    limits._on_alarm(0, None)
    assert limits.overdue() == ()


def test_a_common_turn_is_shared_equally_and_may_take_the_sum_of_what_is_left(clock: Clock) -> None:
    """By hand: of 10 s each, one question has taken 4; a common turn may take 16. It takes 6: 3 for each."""
    limits = TimeLimits(10.0)
    timer = limits.timer(["s", "t", "u"])
    with timer.single(0):
        clock.advance(4.0)
    with timer.shared([0, 1]):
        clock.advance(6.0)
        limits._on_alarm(0, None)
        clock.advance(10.0)
        with pytest.raises(TimeLimitError) as raised:
            limits._on_alarm(0, None)
        assert limits.overdue() == ()
        clock.advance(10.0)
        assert limits.overdue() == raised.value.tokens == ("s", "t")
        clock.advance(-20.0)
    assert timer.seconds == [7.0, 3.0, 0.0]
    assert timer.totals(13.0) == [8.0, 4.0, 1.0]
    assert BatchTimer(0).totals(1.0) == []


@pytest.mark.parametrize("tokens", ["t", "st"])
def test_no_turn_begins_with_a_late_question_that_has_had_none(tokens: str) -> None:
    limits, places = TimeLimits(60.0), range(len(tokens))
    timer = limits.timer(tokens)
    with timer.shared(places):
        assert limits.overdue() == ()
    timer.seconds[-1] = 0.0
    limits._deadlines = {"t": time.monotonic() - 1}
    with pytest.raises(DeadlinePassedError), timer.shared(places):
        pass
    timer.seconds[-1] = 0.1
    with timer.shared(places):
        assert limits.overdue() == ()


def test_a_question_that_was_begun_in_time_may_finish_after_its_deadline_and_no_other_begins(clock: Clock) -> None:
    """Leases of 30 s end at 100: claimed at 70 of the queue's clock, half a second before the deadlines."""
    one, *others = (claimed(text, lease_until=100.0, deadline=70.5) for text in "abc")
    pool: Any = Pool(lambda text: clock.advance(0.4) or text, batches=False)  # type: ignore[func-returns-value]
    for questions, finished, failed in (([one], "a", ""), ([claimed("d"), *others], "d", "bc")):
        limits, outcome = TimeLimits(60.0), loop.BatchOutcome()
        limits.begin(questions, 30.0)
        clock.advance(0.4)
        assert not limits.is_late(questions[-1].lease_token)
        loop.answer_group(pool, questions, outcome, limits)
        assert limits.is_late(questions[-1].lease_token)
        assert [one.answer for one in outcome.finished] == [*finished]
        late = [FailedQuestion(text, "deadline passed", "DeadlinePassed", retryable=False) for text in failed]
        assert outcome.failed == late
    assert pool.loud.calls == [["a"], ["d"], ["d"]]


def test_questions_are_grouped_by_all_that_decides_how_they_are_answered() -> None:
    """The order of parameters and the job do not."""
    same = {"job_id": 2, "parameters": {"restart": "0.5", "seeds": "3"}}
    changes: Any = {"a": {}, "b": {"strategy": "bm25"}, "c": same, "d": {"limit": 5}, "e": {"index": "other"}}
    changes |= {"f": {"parameters": {"seeds": "3"}}, "g": {"min_confidence": 0.5}, "h": {"min_confidence": 0.5}}
    changes |= {"i": {"where": "year > 1900"}}
    plain = {"parameters": {"seeds": "3", "restart": "0.5"}}
    groups = loop.grouped(claimed(text, **plain | change) for text, change in changes.items())
    assert ["".join(one.question_id for one in group) for group in groups] == ["ac", "b", "d", "e", "f", "gh", "i"]
    assert loop.grouped([]) == []


@pytest.mark.parametrize("model", [None, "openai/x"])
def test_each_answer_says_how_it_was_made_and_what_its_model_took(model: str | None) -> None:
    pool, spent = Pool(), {"prompt_tokens": 7, "completion_tokens": 2, "cost_usd": 0.5}
    reading: dict[str, object] = {"model": model, "spent": spent} if model else {}
    pool.document = {"reading": reading}
    finished = answered(pool, *(claimed(text, parameters={"seeds": "3"}) for text in "ab")).finished
    assert [(one.lease_token, one.answer, one.version) for one in finished] == [("a", "A", 3), ("b", "B", 3)]
    asked = {"index": "wiki", "parameters": {"seeds": "3"}, "limit": 10, "min_confidence": None, "model": model}
    tokens, cost = ({"prompt": 7, "completion": 2}, 0.5) if model else ({"prompt": 0, "completion": 0}, 0.0)
    assert finished[0].result == {"answer": "A", "reading": reading, **asked, "tokens": tokens, "cost_usd": cost}


ABC = ["a", "b", "c"]


def poison_then_away(text: str) -> str:
    raise ZeroDivisionError if text == "a" else AWAY


@pytest.mark.parametrize(
    ("behave", "attempts", "calls", "finished", "failed", "released"),
    [
        (raising(ZeroDivisionError(), "b"), 1, [ABC, ["a"], ["b"], ["c"]], "ac", "b", ""),
        (raising(AWAY, "b"), 1, [ABC], "", "", "abc"),
        (poison_then_away, 1, [ABC, ["a"], ["b"]], "", "a", "bc"),
        (str.upper, 2, [["a", "c"], ["b"]], "abc", "", ""),
    ],
    ids=["poison fails alone", "an outage gives all back", "none is asked after an outage", "tried again alone"],
)
def test_outcomes_of_a_batch(behave: Any, attempts: int, calls: Any, finished: str, failed: str, released: str) -> None:
    pool = Pool(behave)
    outcome = answered(pool, claimed("a"), claimed("b", attempt=attempts), claimed("c"))
    assert pool.loud.calls == calls
    assert [(one.lease_token, one.answer) for one in outcome.finished] == [(text, text.upper()) for text in finished]
    assert [one.lease_token for one in outcome.failed] == [*failed]
    assert outcome.released == [*released]
    assert outcome.outage is (AWAY if released else None)


@pytest.mark.parametrize(
    ("error", "text", "is_retryable"),
    [
        (RuntimeError(), "RuntimeError", False),
        (RuntimeError("x" * 10**6), "x" * loop.LONGEST_ERROR, False),
        (errors.StoreUnavailableError("busy"), "busy", True),
    ],
    ids=["no words", "endless", "passing"],
)
def test_a_failed_question_says_why(error: Exception, text: str, *, is_retryable: bool) -> None:
    outcome = answered(Pool(raising(error, "a")), claimed("a"))
    assert outcome.failed == [FailedQuestion("a", text, type(error).__name__, retryable=is_retryable)]
    with pytest.raises(KeyboardInterrupt):  # which is no failed question
        answered(Pool(raising(KeyboardInterrupt(), "a")), claimed("a"))


@pytest.mark.parametrize(("is_cached", "left"), [(False, ["b", "c"]), (True, [])])
def test_what_a_model_answered_before_it_went_away_is_kept(*, is_cached: bool, left: list[str]) -> None:
    """Only a reply of just now says that the model is there, and that b and c were left for reasons of their own."""
    outcome = answered(Pool(reader=NoteReader("bc", is_cached=is_cached)), *map(claimed, "abc"))
    assert [(one.lease_token, one.answer) for one in outcome.finished] == [("a", "A")]
    assert (outcome.released, outcome.left, outcome.failed) == (["b", "c"], left, [])
    assert str(outcome.outage) == "away"


def test_each_outage_doubles_the_pause_up_to_the_longest_and_a_success_forgets_them() -> None:
    """A server that says when to come back is obeyed if it wants more time."""
    breaker = loop.CircuitBreaker()
    assert not breaker.is_open(0.0)
    assert breaker.trip(100.0) == 1.0
    assert [breaker.is_open(now) for now in (100.999, 101.0)] == [True, False]
    assert [breaker.trip(0.0) for _ in range(6)] == [2, 4, 8, 16, *[loop.LONGEST_PAUSE_SECONDS] * 2]
    breaker.close()
    assert not breaker.is_open(0.0)
    assert breaker.trip(0.0, at_least=0.5) == 1.0
    assert loop.CircuitBreaker().trip(0.0, at_least=45.0) == 45.0
    assert loop.CircuitBreaker(outages=10_000).trip(0.0) == loop.LONGEST_PAUSE_SECONDS


def test_a_question_is_at_fault_each_third_time_that_it_is_left_alone_since_its_answer() -> None:
    """Of ten thousand questions at most."""
    left = loop.LeftQuestions()
    assert [left.is_at_fault("a") for _ in range(8)] == [False, False, True, False, False, True, False, False]
    left.forget(["a", "never seen"])
    assert [left.is_at_fault(name) for name in "ab"] == [False, False]
    for number in range(10_100):
        left.is_at_fault(str(number))
    assert len(left.strikes) == 10_000
    assert "a" not in left.strikes


class Reply(BaseModel):
    text: str


def outcome_of(error_class: str, error: str = "Why.", wait: float | None = None) -> ChatOutcome[Reply]:
    return ChatOutcome(None, "a/b", False, None, 3, error_class, error, Usage(3, 30, 1), wait)


@pytest.mark.parametrize(
    ("name", "kind", "seconds"),
    [
        ("ModelUnavailableError", errors.ModelUnavailableError, 0),
        ("ModelRateLimitError", errors.ModelRateLimitError, 7.5),
        ("ModelTimeoutError", errors.ModelUnavailableError, 0),
        ("ModelUnreachableError", errors.ModelUnavailableError, 0),
    ],
)
def test_a_server_without_a_reply_is_an_outage_in_its_own_words(name: str, kind: type, seconds: float) -> None:
    """Other failures are errors of the setup."""
    outage: Any = outage_of(outcome_of(name, wait=7.5))
    said = type(outage), str(outage)[:4], outage.retryable, errors.retry_after_seconds(outage)
    assert said == (kind, "Why.", True, seconds)
    for other, error, words in (("ModelRejectedError", "No such model.", "No such model"), ("Odd", "", "Odd")):
        with pytest.raises(errors.ModelRejectedError, match=words):
            outage_of(outcome_of(other, error))


def heart(overdue: tuple[str, ...] = ()) -> tuple[loop.Heartbeat, Mock, loop.WorkerMetrics]:
    """A heartbeat that holds three questions, its queue, which notes what it is told, and its metrics."""
    queue, metrics, limits = Mock(spec=QuestionQueue), loop.WorkerMetrics(), TimeLimits(5.0)
    pool: Any = SimpleNamespace(versions=lambda: {"wiki": 3})
    limits._current = overdue, -1e9
    beating = loop.Heartbeat("w1", queue, pool, limits, metrics, queues=["default"], lease_seconds=30.0)
    beating.held = ("t1", "t2", "t3")
    return beating, queue, metrics


def beat(beating: loop.Heartbeat, times: int = 1) -> None:
    """Its thread never starts."""
    beating._ended = Mock(is_set=Mock(side_effect=[False] * times + [True]))
    beating._is_due = Mock()
    beating._beat()
    assert beating._is_due.wait.mock_calls == [call(10.0)] * times


def test_a_beat_reports_the_worker_once_and_renews_its_leases_each_time() -> None:
    """News of an outage wake it only when they are new."""
    beating, queue, _ = heart()
    woken = []
    for outage in (None, "no server", "no server"):
        beating.report(outage)
        woken.append(beating._is_due.is_set())
        beating._is_due.clear()
    assert woken == [False, True, False]
    beat(beating, times=2)
    (reported,) = queue.report_worker.call_args_list
    assert (reported.args, reported.kwargs["queues"]) == (("w1",), ["default"])
    assert (reported.kwargs["versions"], reported.kwargs["outage"]) == ({"wiki": 3}, "no server")
    assert [call.args for call in queue.heartbeat.call_args_list] == [("w1", ("t1", "t2", "t3"), 30.0)] * 2


@pytest.mark.parametrize("error", [errors.StoreError("locked"), ValueError("a defect")])
def test_a_beat_that_fails_is_counted_and_not_the_last(error: Exception) -> None:
    """Nor does a queue that refuses keep a worker from signing off."""
    beating, queue, metrics = heart()
    queue.report_worker.side_effect = error
    beat(beating, times=3)
    queue.remove_worker.side_effect = errors.StoreError("locked")
    beating.sign_off()
    queue.remove_worker.assert_called_once_with("w1")
    assert metrics.registry.get_sample_value("polyhop_heartbeats_failed_total") == 4


@pytest.mark.parametrize(
    ("overdue", "failed", "released"),
    [(("t2",), ["t2"], [["t1", "t3"]]), (("t1", "t2"), [], [["t3"]]), (("old",), [], [])],
    ids=["one is dead", "of several nobody is blamed", "a batch before"],
)
def test_endless_turns_lose_their_batch(overdue: tuple[str, ...], failed: list[str], released: list[list[str]]) -> None:
    beating, queue, _ = heart(overdue)
    beat(beating)
    dead = [one for call in queue.fail.call_args_list for one in call.args[0]]
    assert [one.lease_token for one in dead] == failed
    assert {(one.error_class, one.retryable) for one in dead} <= {("QuestionTimeoutError", False)}
    assert [call.args[0] for call in queue.release.call_args_list] == released
    assert beating.held == (() if released else ("t1", "t2", "t3"))


def test_an_outage_of_the_queue_is_said_once_as_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    """A failed question is named; its text is not."""
    caplog.set_level(logging.DEBUG, logger="polyhop.worker.loop")
    log, away = loop.WorkerLog("host-1"), errors.StoreUnavailableError("the queue is busy")
    assert all(log.is_passing(away, "questions are claimed") for _ in range(5))
    log.claimed([])
    log.claimed([])
    log.lost(2, [FailedQuestion("lease-1", "it is gone", "UnknownIndexError", retryable=False)], {"lease-1": "3/q17"})
    said = [(record.levelname, record.getMessage()) for record in caplog.records[:2]]
    unavailable = ("WARNING", "the queue is unavailable while questions are claimed")
    assert said == [unavailable, ("INFO", "the queue is available again")]
    fields = [record.__dict__.get("fields") for record in caplog.records]
    assert fields[0] == {"worker": "host-1", "error": "the queue is busy"}
    assert fields[3] == {"worker": "host-1", "question": "3/q17", "error": "it is gone"}


def test_health_and_counts_are_served_to_this_machine_until_the_end() -> None:
    """127.0.0.2 is this machine too, but not the address that was bound."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def page(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return str(answer.read().decode())

    metrics = loop.WorkerMetrics()
    metrics.questions.labels("finished").inc(4)
    metrics.questions.labels("failed").inc(2)
    metrics.seconds.labels("bridge").observe(0.25)
    metrics.outages.inc()
    metrics.heartbeats_failed.inc()
    stop = loop.serve_metrics(metrics, port)
    try:
        assert page("/healthz") == "ok\n"
        assert {
            'polyhop_questions_total{outcome="finished"} 4.0',
            'polyhop_questions_total{outcome="failed"} 2.0',
            'polyhop_batch_seconds_sum{strategy="bridge"} 0.25',
            "polyhop_model_outages_total 1.0",
            "polyhop_heartbeats_failed_total 1.0",
        } <= set(page("/metrics").splitlines())
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.2", port), timeout=5).close()
        with pytest.raises(errors.StoreError, match=f"127.0.0.1:{port}"):
            loop.serve_metrics(loop.WorkerMetrics(), port)
    finally:
        stop()
    with pytest.raises(urllib.error.URLError):
        page("/healthz")


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuestionQueue]:
    """Its breaker's pauses and its backoff are hundredths of a second."""
    monkeypatch.setattr("polyhop.worker.loop.FIRST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr("polyhop.schemas.queue.BACKOFF_BASE_SECONDS", 0.02)
    with open_queue(sqlite_url(tmp_path / "queue.sqlite")) as opened:
        yield opened


def submit(waiting: QuestionQueue, /, *texts: str, **spec: Any) -> int:
    return waiting.submit(JobSpec(**{"index": "wiki"} | spec), [NewQuestion(text, text) for text in texts])


def worker_of(
    queue: QuestionQueue, pool: Any, after: Callable[[], None] | None = None, parts: Any = None, **options: Any
) -> loop.Worker:
    chosen = {"until_empty": True, "poll_seconds": 0.02, "lease_seconds": 5.0} | options
    return loop.Worker(queue, pool, loop.WorkerOptions(**chosen), after_batch=after, **(parts or {}))


def work(queue: QuestionQueue, pool: Any, **options: Any) -> loop.WorkerReport:
    return worker_of(queue, pool, **options).run()


def states(queue: QuestionQueue, job: int) -> dict[str, str]:
    return {row.question_id: row.state.value for row in queue.results(job)}


def unhandled(number: int, _frame: object) -> None:
    raise AssertionError(f"nothing handles signal {number}")


@pytest.fixture
def signals() -> Iterator[None]:
    """A worker of this process may handle signals; what it leaves ends no test process."""
    before: dict[int, Any] = {signal.SIGALRM: signal.getsignal(signal.SIGALRM)}
    before |= {number: signal.signal(number, unhandled) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.slow
def test_every_question_of_the_named_queues_gets_its_answer_in_submitted_order(queue: QuestionQueue) -> None:
    """An answer that cannot be stored fails alone."""
    job, other = submit(queue, *"abcde"), submit(queue, "f", queue="other")
    pool = Pool(lambda text: float("nan") if text == "d" else text.upper())
    report = work(queue, pool, batch=2)
    assert (report.finished, report.failed, report.released, report.refused) == (4, 1, 0, 0)
    assert pool.loud.calls == [["a", "b"], ["c", "d"], ["e"]]
    answers = [(row.answer, row.version, row.worker_id) for row in queue.results(job) if row.answer]
    assert answers == [(letter, 3, report.worker_id) for letter in "ABCE"]
    assert states(queue, other) == {"f": "queued"}
    assert (states(queue, job)["d"], queue.job(job).errors[0].error_class) == ("dead", "ContractError")


@pytest.mark.slow
def test_an_answer_for_a_cancelled_job_is_refused(queue: QuestionQueue) -> None:
    job = submit(queue, *"ab")
    report = work(queue, Pool(lambda text: str(queue.cancel(job))))
    assert (report.finished, report.refused) == (0, 2)
    assert states(queue, job) == {"a": "cancelled", "b": "cancelled"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "least"),
    [(AWAY, 0.05 + 0.1 + 0.2), (errors.ModelRateLimitError("too many", retry_after_seconds=0.3), 0.9)],
    ids=["away", "says when to come back"],
)
def test_a_model_outage_uses_no_attempt_of_a_question(queue: QuestionQueue, error: BaseException, least: float) -> None:
    first, second = submit(queue, *"abc"), submit(queue, "d", strategy="bm25")
    pool, said = Pool(raising(error, *"abcd", times=3)), list[str | None]()
    worker = worker_of(queue, pool, lambda: said.append(worker._heartbeat.outage))
    started = time.monotonic()
    report = worker.run()
    assert time.monotonic() - started >= least
    assert (report.outages, report.finished, report.failed, report.released) == (3, 4, 0, 12)
    assert [row.attempts for job in (first, second) for row in queue.results(job)] == [1, 1, 1, 1]
    assert pool.loud.calls[:4] == [ABC] * 4
    assert said == [str(error)] * 3 + [None]
    assert worker._breaker.outages == 0


@pytest.mark.slow
def test_a_look_at_batches_during_an_outage_is_said_and_made_again(queue: QuestionQueue, caplog: Any) -> None:
    waits, send, follower = errors.WaitingError("a batch is awaited", 1), raising(AWAY, "it", times=1), Mock()
    batches = SimpleNamespace(submit=lambda: send("it") and waits, has_news=lambda: True, take_in=lambda: None)
    job = submit(queue, *"ab")
    worker_of(queue, Pool(raising(waits, "a", times=1)), parts={"batches": batches, "follower": follower}).run()
    assert (states(queue, job), follower.look.called) == ({"a": "done", "b": "done"}, True)
    assert [record.message for record in caplog.records].count("the model is unavailable") == 1


@pytest.mark.slow
def test_a_refused_key_ends_the_worker_and_spoils_no_question(queue: QuestionQueue) -> None:
    job = submit(queue, *"abc")
    with pytest.raises(errors.ModelKeyError, match="the key is refused"):
        work(queue, Pool(raising(errors.ModelKeyError("the key is refused"), "b")))
    assert {(row.state, row.attempts) for row in queue.results(job)} == {(QuestionState.QUEUED, 0)}


@pytest.mark.slow
def test_a_question_that_a_model_never_answers_is_dead_in_the_end_and_no_other_waits(queue: QuestionQueue) -> None:
    """The poison question is the oldest, so every batch begins with it; after an outage a batch has others, too."""
    job = submit(queue, "poison", *(f"q{n}" for n in range(80)), max_attempts=2)
    report = work(queue, Pool(reader=NoteReader(["poison"])), batch=1)
    ends = states(queue, job)
    assert ends.pop("poison") == "dead"
    assert set(ends.values()) == {"done"}
    assert (report.finished, report.failed) == (80, 2)
    (error,) = queue.job(job).errors
    assert (error.error_class, error.example) == ("ModelUnavailableError", "away")


@pytest.mark.slow
def test_a_queue_that_is_away_for_a_while_ends_no_worker(queue: QuestionQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims, counts and heartbeats fail for a while, as when the database stays away longer than the queue waits."""
    job = submit(queue, "a")
    end = time.monotonic() + 0.3

    def away_until(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any, **named: Any) -> Any:
            if time.monotonic() < end:
                raise errors.StoreUnavailableError("away")
            return method(*values, **named)

        return call

    for name in ("claim", "count_open", "heartbeat", "report_worker"):
        monkeypatch.setattr(queue, name, away_until(getattr(queue, name)))
    assert work(queue, Pool()).finished == 1
    assert states(queue, job) == {"a": "done"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "stop",
    [loop.Worker.stop, lambda _: signal.raise_signal(signal.SIGTERM), lambda _: signal.raise_signal(signal.SIGINT)],
    ids=["told", "SIGTERM", "SIGINT"],
)
def test_a_worker_that_stops_finishes_its_batch_first(queue: QuestionQueue, signals: None, stop: Any) -> None:
    """Then it closes its indexes and leaves the list."""
    seen: list[str] = []

    def behave(text: str) -> str:
        if text == "a":
            wait_for(queue.workers)
            seen.extend(row.worker_id for row in queue.workers())
            stop(worker)
        return text.upper()

    job, pool = submit(queue, *"abcd"), Pool(behave)
    worker = worker_of(queue, pool, batch=2)
    worker.handle_signals()
    assert worker.run().finished == 2
    assert states(queue, job) == {"a": "done", "b": "done", "c": "queued", "d": "queued"}
    assert (seen, queue.workers(), pool.is_closed) == ([worker.worker_id], [], True)


@pytest.mark.slow
def test_a_second_signal_gives_the_batch_back_at_once(queue: QuestionQueue, signals: None) -> None:
    asked: list[str] = []

    def behave(text: str) -> str:
        for time_of in ("first", "second"):
            signal.raise_signal(signal.SIGTERM)
            asked.append(time_of)
        return text

    job = submit(queue, *"abcd")
    worker = worker_of(queue, Pool(behave), batch=2)
    worker.handle_signals()
    report = worker.run()
    assert (asked, report.released, report.finished) == (["first"], 2, 0)
    assert {(row.state, row.attempts) for row in queue.results(job)} == {(QuestionState.QUEUED, 0)}


@pytest.mark.slow
@pytest.mark.timeout(120, method="thread")  # the worker takes SIGALRM, by which a test is ended else
def test_an_idle_worker_ends_soon_after_a_signal(queue: QuestionQueue, signals: None) -> None:
    """It looks at the queue every 30 seconds only."""
    submit(queue, "a")
    later = threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGTERM])
    worker = worker_of(queue, Pool(), later.start, until_empty=False, poll_seconds=30.0)
    worker.handle_signals()
    started = time.monotonic()
    assert worker.run().finished == 1
    assert 0.3 <= time.monotonic() - started < 15


@pytest.mark.real_time
@pytest.mark.parametrize(("batches", "calls", "forgotten"), [(False, 8, 2), (True, 6, 3)])
def test_a_question_that_takes_too_long_fails_alone_and_the_rest_of_its_batch_is_answered(
    queue: QuestionQueue, signals: None, *, batches: bool, calls: int, forgotten: int
) -> None:
    """One loops in Python and swallows exceptions, one is inside a regular expression; neither ends soon."""

    def behave(text: str) -> str:
        end = time.monotonic() + 30
        while text == "loop" and time.monotonic() < end:
            with contextlib.suppress(Exception):
                sum(range(1000))
        if text == "expression":
            re.fullmatch("(a+)+b", "a" * 29)
        return text.upper()

    job = submit(queue, "a", "loop", "b", "expression", "c")
    pool = Pool(behave, batches=batches)
    worker = worker_of(queue, pool, question_seconds=0.5)
    worker.handle_signals()
    assert worker.run().finished == 3
    rows = {row.question_id: row for row in queue.results(job)}
    assert [row.answer for row in rows.values()] == ["A", None, "B", None, "C"]
    for name in ("loop", "expression"):
        assert (rows[name].state, rows[name].error_class) == (QuestionState.DEAD, "QuestionTimeoutError")
        assert "took longer than 0.5 s" in str(rows[name].error)
    assert all(row.attempts == 1 for row in rows.values())
    assert (len(pool.loud.calls), pool.forgotten) == (calls, forgotten)


@pytest.mark.real_time
@pytest.mark.parametrize("batches", [False, True])
def test_none_waits_for_a_stuck_one(queue: QuestionQueue, monkeypatch: pytest.MonkeyPatch, *, batches: bool) -> None:
    """A worker in a thread gets no signals: its heartbeat gives up the question, and other workers answer the rest."""
    monkeypatch.setattr("polyhop.worker.time_limits.GRACE_SECONDS", 0.1)
    job = submit(queue, "a", "stuck", "b")
    released = threading.Event()
    pool = Pool(lambda text: (text == "stuck" and released.wait(60) and None) or text.upper(), batches=batches)
    reports: list[loop.WorkerReport] = []
    options = {"lease_seconds": 0.6, "question_seconds": 0.2}
    one_more = partial(threading.Thread, target=lambda: reports.append(work(queue, pool, **options)), daemon=True)
    workers = [one_more() for _ in range(3)]
    for worker in workers:
        worker.start()
        time.sleep(0.2)
    wait_for(lambda: not {"queued", "leased"} & set(states(queue, job).values()))
    released.set()
    for worker in workers:
        worker.join()
    ends = [(row.state.value, row.answer, row.error_class) for row in queue.results(job)]
    assert ends == [("done", "A", None), ("dead", None, "QuestionTimeoutError"), ("done", "B", None)]
    first, *others = pool.loud.calls
    assert first == (["a", "stuck", "b"] if batches else ["a"])
    assert all(len(call) == 1 for call in others)
    assert (sum(report.finished for report in reports), max(report.refused for report in reports)) == (2, 3)
