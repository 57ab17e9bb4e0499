"""The worker's loop on a real queue in a file, with a scripted strategy: what becomes of questions, and signals."""

import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from polyhop.schemas.chat import Usage
from polyhop.schemas.errors import ModelKeyError, ModelRateLimitError, ModelUnavailableError, StoreUnavailableError
from polyhop.schemas.query import ModelUse
from polyhop.schemas.queue import JobSpec, NewQuestion, QuestionState
from polyhop.warehouse.queue.queue import QuestionQueue, open_queue
from polyhop.warehouse.queue.schema import sqlite_url
from polyhop.worker.answer import PartialOutageError
from polyhop.worker.loop import Worker, WorkerOptions, WorkerReport

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).resolve().parents[3]


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[QuestionQueue]:
    with open_queue(sqlite_url(tmp_path / "queue.sqlite")) as opened:
        yield opened


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaker and backoff in hundredths of a second."""
    monkeypatch.setattr("polyhop.worker.loop.FIRST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr("polyhop.schemas.queue.BACKOFF_BASE_SECONDS", 0.02)


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


def test_every_question_gets_its_answer_in_submitted_order(queue: QuestionQueue, scripted_pool: Any) -> None:
    job = submit(queue, *"abcde")
    pool = scripted_pool()
    report = work(queue, pool, batch=2)
    assert (report.finished, report.failed, report.released, report.refused) == (5, 0, 0, 0)
    assert pool.asked == [["a", "b"], ["c", "d"], ["e"]]
    assert [(row.answer, row.version, row.worker_id) for row in queue.results(job)] == [
        (letter, 3, report.worker_id) for letter in "ABCDE"
    ]


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


def test_only_the_named_queues_are_answered(queue: QuestionQueue, scripted_pool: Any) -> None:
    mine, other = submit(queue, "a", queue="mine"), submit(queue, "b", queue="other")
    work(queue, scripted_pool(), queues=("mine",))
    assert states(queue, mine) == {"a": "done"}
    assert states(queue, other) == {"b": "queued"}


def test_a_poison_question_dies_alone_and_says_why(queue: QuestionQueue, scripted_pool: Any) -> None:
    def behave(text: str) -> str:
        return str(1 / (text != "c"))

    job = submit(queue, *"abcde")
    report = work(queue, scripted_pool(behave))
    assert (report.finished, report.failed) == (4, 1)
    assert states(queue, job) == {"a": "done", "b": "done", "c": "dead", "d": "done", "e": "done"}
    (error,) = queue.job(job).errors
    assert (error.error_class, error.count, error.example) == ("ZeroDivisionError", 1, "division by zero")


def test_an_answer_that_cannot_be_stored_fails_alone(queue: QuestionQueue, scripted_pool: Any) -> None:
    job = submit(queue, *"abc")
    pool = scripted_pool()
    pool.behave = lambda text: float("nan") if text == "b" else text
    report = work(queue, pool)
    assert (report.finished, report.failed, report.refused) == (2, 1, 0)
    assert states(queue, job) == {"a": "done", "b": "dead", "c": "done"}
    assert queue.job(job).errors[0].error_class == "ContractError"


def test_an_unknown_index_is_dead_at_once_with_a_clear_error(queue: QuestionQueue, scripted_pool: Any) -> None:
    lost, good = submit(queue, "a", index="nil"), submit(queue, "b")
    work(queue, scripted_pool())
    assert states(queue, good) == {"b": "done"}
    (row,) = queue.results(lost)
    assert (row.state, row.attempts) == (QuestionState.DEAD, 1)
    assert "Unknown index 'nil'" in (row.error or "")


def test_an_error_that_may_pass_is_tried_again(queue: QuestionQueue, scripted_pool: Any) -> None:
    job = submit(queue, "a")
    report = work(queue, scripted_pool(raising_once(StoreUnavailableError("busy"), "a")))
    (row,) = queue.results(job)
    assert (row.state, row.answer, row.attempts, row.error) == (QuestionState.DONE, "A", 2, None)
    assert (report.finished, report.failed) == (1, 1)


def test_an_error_that_never_passes_is_dead_after_its_attempts(queue: QuestionQueue, scripted_pool: Any) -> None:
    def behave(text: str) -> str:
        raise StoreUnavailableError("busy")

    job = submit(queue, "a", max_attempts=2)
    report = work(queue, scripted_pool(behave))
    (row,) = queue.results(job)
    assert (row.state, row.attempts, row.error) == (QuestionState.DEAD, 2, "busy")
    assert report.failed == 2


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


def test_a_refused_key_ends_the_worker_and_spoils_no_question(queue: QuestionQueue, scripted_pool: Any) -> None:
    job = submit(queue, *"abc")
    with pytest.raises(ModelKeyError, match="the key is refused"):
        work(queue, scripted_pool(raising_once(ModelKeyError("the key is refused"), "b")))
    assert queue.job(job).counts[QuestionState.QUEUED] == 3
    assert work(queue, scripted_pool()).finished == 3
    assert [row.attempts for row in queue.results(job)] == [1, 1, 1]


def test_a_success_closes_the_breaker(queue: QuestionQueue, scripted_pool: Any) -> None:
    submit(queue, "a")
    worker = Worker(
        queue,
        scripted_pool(raising_once(ModelUnavailableError("away"), "a")),
        WorkerOptions(until_empty=True, poll_seconds=0.02),
    )
    worker.run()
    assert worker._breaker.outages == 0


def test_a_model_that_says_when_to_come_back_is_left_alone_until_then(queue: QuestionQueue, scripted_pool: Any) -> None:
    submit(queue, "a")
    pool = scripted_pool(raising_once(ModelRateLimitError("too many", retry_after_seconds=0.6), "a"))
    started = time.monotonic()
    assert work(queue, pool).finished == 1
    assert time.monotonic() - started >= 0.6


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


def test_an_answer_for_a_cancelled_job_is_refused(queue: QuestionQueue, scripted_pool: Any) -> None:
    job = submit(queue, *"ab")
    report = work(queue, scripted_pool(lambda text: str(queue.cancel(job))))
    assert (report.finished, report.refused) == (0, 2)
    assert states(queue, job) == {"a": "cancelled", "b": "cancelled"}


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


def test_a_worker_takes_over_what_a_dead_one_held(queue: QuestionQueue, scripted_pool: Any) -> None:
    job = submit(queue, "a")
    assert queue.claim(["default"], "dead", lease_seconds=0.3)
    work(queue, scripted_pool())
    (row,) = queue.results(job)
    assert (row.state, row.attempts) == (QuestionState.DONE, 2)


def test_a_worker_that_is_told_to_stop_finishes_its_batch(queue: QuestionQueue, scripted_pool: Any) -> None:
    job = submit(queue, *"abcd")
    pool = scripted_pool()
    worker = Worker(queue, pool, WorkerOptions(batch=2, poll_seconds=0.02))
    pool.behave = lambda text: worker.stop() or text.upper()  # type: ignore[func-returns-value]
    assert worker.run().finished == 2
    assert states(queue, job) == {"a": "done", "b": "done", "c": "queued", "d": "queued"}


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
