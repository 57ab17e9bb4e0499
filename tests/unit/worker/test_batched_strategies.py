"""Turns of questions and micro-batches: time for each, limits and deadlines, and one fault that ends alone."""

import contextlib
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from memory_index import MemoryIndex

from polyhop.schemas.errors import ModelUnavailableError
from polyhop.schemas.evidence import Evidence
from polyhop.schemas.ports import Services
from polyhop.schemas.query import Question, RankedPassage, Reading, ReadingItem, Retrieval
from polyhop.schemas.queue import ClaimedQuestion, JobSpec, NewQuestion, QuestionState
from polyhop.warehouse.queue.queue import QuestionQueue, open_queue
from polyhop.warehouse.queue.schema import sqlite_url
from polyhop.worker.answer import Answerer, TooLateError, TurnOverError, Turns, Watch
from polyhop.worker.loop import BatchOutcome, Worker, WorkerOptions, WorkerReport, answer_group
from polyhop.worker.strategies import registry
from polyhop.worker.strategies.base import DECLARED, Parameters, strategy

PROJECT = Path(__file__).resolve().parents[3]


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[QuestionQueue]:
    with open_queue(sqlite_url(tmp_path / "queue.sqlite")) as opened:
        yield opened


def submit(queue: QuestionQueue, *texts: str, **spec: Any) -> int:
    return queue.submit(JobSpec(index="wiki", **spec), [NewQuestion(text, text) for text in texts])


def work(queue: QuestionQueue, pool: Any, **options: Any) -> WorkerReport:
    chosen = WorkerOptions(**{"until_empty": True, "poll_seconds": 0.02, "lease_seconds": 5.0} | options)
    return Worker(queue, pool, chosen).run()


def test_own_seconds_and_equal_shares_of_the_rest_add_up_to_what_the_batch_took() -> None:
    """By hand: 2.0 s of its own and none; 3.0 s in all leave 1.0 s, a half for each."""
    turns = Turns(2)
    turns.seconds[0] = 2.0
    assert turns.shares(3.0) == [2.5, 0.5]
    assert Turns(0).shares(1.0) == []


@pytest.mark.real_time
def test_a_slow_question_does_not_make_its_neighbours_slow(queue: QuestionQueue, scripted_pool: Any) -> None:
    job = submit(queue, "quick", "slow", "brisk")
    work(queue, scripted_pool(lambda text: time.sleep(0.6 if text == "slow" else 0.0) or text))  # type: ignore[func-returns-value]
    seconds = {row.question_id: row.seconds or 0.0 for row in queue.results(job)}
    assert seconds["slow"] >= 0.6
    assert max(seconds["quick"], seconds["brisk"]) < seconds["slow"] / 2


SCRIPT = """
    import re, sys
    from types import SimpleNamespace
    from polyhop.warehouse.queue.queue import open_queue
    from polyhop.worker.loop import Worker, WorkerOptions

    def behave(text):
        if text == "loop":
            while True:
                try:
                    sum(range(1000))
                except Exception:
                    pass
        if text == "expression":
            re.fullmatch("(a+)+b", "a" * 60)
        return text.upper()

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
            answers = []
            for place, question in enumerate(questions):
                with turns.turn(place):
                    answers.append(SimpleNamespace(answer=behave(question.text)))
            return [SimpleNamespace(reading=answer, total_seconds=0.0) for answer in answers]

        def forget(self, name):
            print("forgotten", name)

        def versions(self):
            return {}

        def close(self):
            pass

    with open_queue(sys.argv[1]) as queue:
        worker = Worker(queue, Pool(), WorkerOptions(until_empty=True, poll_seconds=0.02, question_seconds=0.5))
        worker.handle_signals()
        print(worker.run().finished)
"""


@pytest.mark.real_time
def test_a_question_that_takes_too_long_fails_alone_and_the_rest_of_its_batch_is_answered(
    queue: QuestionQueue, tmp_path: Path
) -> None:
    """One loops in Python and swallows exceptions, one is inside a regular expression; neither would ever end."""
    job = submit(queue, "a", "loop", "b", "expression", "c")
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(SCRIPT), sqlite_url(tmp_path / "queue.sqlite")]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, "forgotten wiki\nforgotten wiki\n3\n"), done.stderr
    rows = {row.question_id: row for row in queue.results(job)}
    assert [row.answer for row in rows.values()] == ["A", None, "B", None, "C"]
    for name in ("loop", "expression"):
        assert (rows[name].state, rows[name].error_class) == (QuestionState.DEAD, "QuestionTimeoutError")
        assert "took longer than 0.5 s" in str(rows[name].error)
    assert all(row.attempts == 1 for row in rows.values())


@pytest.mark.real_time
def test_a_question_that_nothing_can_interrupt_keeps_no_other_waiting(
    queue: QuestionQueue, scripted_pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker in a thread gets no signals: its heartbeat gives the batch up, and another worker answers the rest."""
    monkeypatch.setattr("polyhop.worker.answer.GRACE_SECONDS", 0.1)
    job = submit(queue, "a", "stuck", "b")
    released = threading.Event()
    pool = scripted_pool(lambda text: (released.wait(60) if text == "stuck" else None) or text.upper())
    reports: list[WorkerReport] = []
    options = {"lease_seconds": 0.6, "question_seconds": 0.2}
    stuck = threading.Thread(target=lambda: reports.append(work(queue, pool, **options)))
    stuck.start()
    while not any(row.state is QuestionState.DEAD for row in queue.results(job)):
        time.sleep(0.02)
    other = work(queue, scripted_pool())
    released.set()
    stuck.join()
    rows = {row.question_id: (row.state.value, row.answer, row.error_class) for row in queue.results(job)}
    assert rows == {
        "a": ("done", "A", None),
        "stuck": ("dead", None, "QuestionTimeoutError"),
        "b": ("done", "B", None),
    }
    assert (other.finished, reports[0].finished, reports[0].refused) == (2, 0, 3)


@pytest.mark.real_time
def test_a_deadline_counts_for_questions_that_wait_within_their_batch(queue: QuestionQueue, scripted_pool: Any) -> None:
    free = submit(queue, "slow", priority=1)
    late = submit(queue, "x", "y", deadline_seconds=0.8)
    pool = scripted_pool(lambda text: time.sleep(1.2 if text == "slow" else 0.0) or text.upper())  # type: ignore[func-returns-value]
    report = work(queue, pool)
    assert [row.answer for row in queue.results(free)] == ["SLOW"]
    assert {(row.state, row.error_class, row.error) for row in queue.results(late)} == {
        (QuestionState.DEAD, "DeadlinePassed", "deadline passed")
    }
    assert (report.finished, report.failed) == (1, 2)
    assert pool.asked == [["slow", "x", "y"], ["slow"]]


@pytest.mark.real_time
def test_a_question_that_was_begun_in_time_may_finish_after_its_deadline(
    queue: QuestionQueue, scripted_pool: Any
) -> None:
    job = submit(queue, "slow", deadline_seconds=0.5)
    work(queue, scripted_pool(lambda text: time.sleep(0.8) or text.upper()))  # type: ignore[func-returns-value]
    assert [row.answer for row in queue.results(job)] == ["SLOW"]


def test_all_turns_of_a_question_share_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two turns of .3 s end a limit of .5 s; the alarm is called by hand here."""
    clock = [100.0]
    monkeypatch.setattr("polyhop.worker.answer.time.perf_counter", lambda: clock[0])
    monkeypatch.setattr("polyhop.worker.answer.time.monotonic", lambda: clock[0])
    watch = Watch(0.5)
    turns = watch.turns(["t"])
    with turns.turn(0):
        clock[0] += 0.3
        watch._on_alarm(0, None)
    second = turns.turn(0)
    second.__enter__()
    clock[0] += 0.3
    with pytest.raises(TurnOverError) as raised:
        watch._on_alarm(0, None)
    assert raised.value.tokens == ("t",)
    second.__exit__(None, None, None)
    watch._on_alarm(0, None)
    assert watch.overdue() == ()


def test_a_common_turn_is_shared_equally_and_may_take_the_sum_of_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: of 10 s each, one question has taken 4; a common turn may take 16. It takes 6: 3 for each."""
    clock = [100.0]
    monkeypatch.setattr("polyhop.worker.answer.time.perf_counter", lambda: clock[0])
    monkeypatch.setattr("polyhop.worker.answer.time.monotonic", lambda: clock[0])
    watch = Watch(10.0)
    turns = watch.turns(["s", "t", "u"])
    with turns.turn(0):
        clock[0] += 4.0
    with turns.together([0, 1]):
        clock[0] += 6.0
        watch._on_alarm(0, None)
        clock[0] += 10.0
        with pytest.raises(TurnOverError) as raised:
            watch._on_alarm(0, None)
        assert watch.overdue() == ()
        clock[0] += 10.0
        assert watch.overdue() == raised.value.tokens == ("s", "t")
        clock[0] -= 20.0
    assert turns.seconds == [7.0, 3.0, 0.0]


def test_a_common_turn_does_not_begin_with_a_late_question() -> None:
    watch = Watch(60.0)
    watch._ends = {"t": time.monotonic() - 1}
    turns = watch.turns(["s", "t"])
    with pytest.raises(TooLateError), turns.together([0, 1]):
        pass
    turns.seconds[1] = 0.1
    with turns.together([0, 1]):
        assert watch.overdue() == ()


def test_a_watch_without_deadlines_lets_every_turn_begin() -> None:
    watch = Watch(60.0)
    with watch.turns(["t"]).turn(0):
        assert watch.overdue() == ()
    watch._ends = {"t": time.monotonic() - 1}
    with pytest.raises(TooLateError), watch.turns(["t"]).turn(0):
        pass


PATHS = os.environ | {"PYTHONPATH": str(PROJECT / "tests" / "support")}
TEXTS = ("ab", "c", "defg")


class Loud:
    """Says questions in capitals; knows which came together, and does to each what a function says."""

    def __init__(self, behave: Callable[[str], object] = str) -> None:
        self.behave = behave
        self.calls: list[list[str]] = []

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        self.calls.append([question.text for question in questions])
        return [self._retrieve(question) for question in questions]

    def _retrieve(self, question: Question) -> Retrieval:
        self.behave(question.text)
        return Retrieval((RankedPassage("p", 1, len(question.text)),), Evidence(context=question.text.upper()))


class NoteReader:
    """Answers with what the strategy says."""

    batches = True

    def read(self, items: Sequence[ReadingItem]) -> list[Reading]:
        return [Reading(item.notes) for item in items]


class Pool:
    """One index whose only strategy is the given one."""

    def __init__(self, loud: Loud, *, batches: bool = True) -> None:
        strategy("loud", "Loud.", Parameters, needs=(), batches=batches)(lambda *_: loud)
        index = MemoryIndex([("p", "", "")])
        self.answerer = Answerer(index, "loud", {}, Services(), NoteReader())
        self.forgotten = 0

    def session(self, name: str) -> Any:
        session = SimpleNamespace(
            version=1,
            encoder_model=None,
            answerer=lambda strategy, parameters, min_confidence: self.answerer,
            document=lambda strategy, answered: {},
        )
        session.where = lambda where: session
        return session

    def forget(self, name: str) -> None:
        self.forgotten += 1

    def versions(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        pass


def know_loud(_group: str) -> dict[str, EntryPoint]:
    return {"loud": EntryPoint("loud", __name__, "polyhop.strategies")}


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "extensions", know_loud)
    yield
    DECLARED.pop("loud", None)


def asked(*texts: str) -> list[Question]:
    return [Question(text, text) for text in texts]


def claimed(text: str, attempt: int = 1) -> ClaimedQuestion:
    return ClaimedQuestion(
        job_id=1,
        question_id=text,
        ordinal=0,
        question=text,
        topic=None,
        queue="default",
        index="wiki",
        strategy="loud",
        parameters={},
        limit=10,
        attempt=attempt,
        max_attempts=3,
        lease_token=text,
        lease_until=0.0,
        deadline=None,
    )


def group_answered(pool: Pool, *questions: ClaimedQuestion) -> BatchOutcome:
    outcome = BatchOutcome()
    answer_group(pool, questions, outcome, Watch(60.0))  # type: ignore[arg-type]
    return outcome


def raising(error: Exception, *texts: str) -> Callable[[str], None]:
    def behave(text: str) -> None:
        if text in texts:
            raise error

    return behave


def test_a_batch_is_retrieved_in_one_call_with_the_results_of_one_by_one() -> None:
    batched, single = Loud(), Loud()
    together = Pool(batched).answerer.answer(asked(*TEXTS), limit=5)
    apart = Pool(single, batches=False).answerer.answer(asked(*TEXTS), limit=5)
    assert batched.calls == [list(TEXTS)]
    assert single.calls == [[text] for text in TEXTS]
    assert [(one.retrieval, one.reading) for one in together] == [(one.retrieval, one.reading) for one in apart]
    assert [one.reading.answer for one in together] == ["AB", "C", "DEFG"]


def test_each_question_takes_an_equal_share_of_its_batch() -> None:
    turns = Turns(3)
    pool = Pool(Loud(lambda text: time.sleep(0.3 if text == "c" else 0.0)))
    started = time.perf_counter()
    answered = pool.answerer.answer(asked(*TEXTS), limit=5, turns=turns)
    elapsed = time.perf_counter() - started
    totals = [one.total_seconds for one in answered]
    assert turns.seconds == [turns.seconds[0]] * 3
    assert totals == [totals[0]] * 3
    assert 0.3 <= sum(turns.seconds) <= sum(totals) <= elapsed


def test_a_poison_question_of_a_batch_fails_alone() -> None:
    loud = Loud(raising(ZeroDivisionError("division by zero"), "c"))
    outcome = group_answered(Pool(loud), *map(claimed, TEXTS))
    assert [(one.lease_token, one.answer) for one in outcome.finished] == [("ab", "AB"), ("defg", "DEFG")]
    assert [(one.lease_token, one.error) for one in outcome.failed] == [("c", "division by zero")]
    assert loud.calls == [list(TEXTS), ["ab"], ["c"], ["defg"]]


def test_a_model_that_is_unavailable_to_a_batch_gives_it_back_whole() -> None:
    loud = Loud(raising(ModelUnavailableError("unavailable"), "c"))
    outcome = group_answered(Pool(loud), *map(claimed, TEXTS))
    assert (outcome.released, outcome.finished, outcome.failed) == (list(TEXTS), [], [])
    assert loud.calls == [list(TEXTS)]


def test_a_question_that_is_tried_again_shares_no_turn() -> None:
    loud = Loud()
    outcome = group_answered(Pool(loud), claimed("ab"), claimed("c", attempt=2), claimed("defg"))
    assert [one.answer for one in outcome.finished] == ["AB", "C", "DEFG"]
    assert loud.calls == [["ab", "defg"], ["c"]]


def test_a_question_without_company_is_retrieved_in_a_turn_of_its_own() -> None:
    loud = Loud()
    group_answered(Pool(loud), claimed("ab"), claimed("c", attempt=2))
    assert loud.calls == [["ab"], ["c"]]


def submit_loud(queue: QuestionQueue, *texts: str) -> int:
    spec = JobSpec(index="wiki", strategy="loud", max_attempts=1)
    return queue.submit(spec, [NewQuestion(text, text) for text in texts])


def rows_of(queue: QuestionQueue, job: int) -> dict[str, tuple[str, str | None, str | None]]:
    return {row.question_id: (row.state.value, row.answer, row.error_class) for row in queue.results(job)}


def loop_if_slow(text: str) -> None:
    while text == "slow":
        with contextlib.suppress(Exception):
            time.sleep(0.01)


@pytest.mark.real_time
def test_a_slow_question_of_a_batch_is_cut_alone(queue: QuestionQueue, tmp_path: Path) -> None:
    """This file as a program: one worker, whose batch of four may take 4 * .5 s."""
    job = submit_loud(queue, "a", "b", "slow", "c")
    command = [sys.executable, "-W", "error", __file__, sqlite_url(tmp_path / "queue.sqlite")]
    done = subprocess.run(command, cwd=PROJECT, env=PATHS, capture_output=True, text=True, check=False, timeout=120)
    calls = [["a", "b", "slow", "c"], ["a"], ["b"], ["slow"], ["c"]]
    assert (done.returncode, done.stdout) == (0, f"3 {calls} 2\n"), done.stderr
    assert rows_of(queue, job) == {
        "a": ("done", "A", None),
        "b": ("done", "B", None),
        "slow": ("dead", None, "QuestionTimeoutError"),
        "c": ("done", "C", None),
    }


@pytest.mark.real_time
def test_a_batch_that_nothing_can_interrupt_is_retrieved_one_by_one_by_others(
    queue: QuestionQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker in a thread gets no signals: the batch's leases run out, and then only the stuck question dies.

    The first worker is stuck with the batch, the second with the question, the third answers the others.
    """
    monkeypatch.setattr("polyhop.worker.answer.GRACE_SECONDS", 0.1)
    job = submit_loud(queue, "a", "stuck", "b")
    released = threading.Event()
    stuck = Loud(lambda text: released.wait(60) if text == "stuck" else None)
    reports: list[WorkerReport] = []
    options = WorkerOptions(until_empty=True, poll_seconds=0.02, lease_seconds=0.6, question_seconds=0.2)
    workers = [
        threading.Thread(target=lambda: reports.append(Worker(queue, Pool(stuck), options).run()), daemon=True)  # type: ignore[arg-type]
        for _ in range(3)
    ]
    for worker in workers:
        worker.start()
        time.sleep(0.2)
    while any(state in ("queued", "leased") for state, _, _ in rows_of(queue, job).values()):
        time.sleep(0.02)
    released.set()
    for worker in workers:
        worker.join()
    assert rows_of(queue, job) == {
        "a": ("done", "A", None),
        "stuck": ("dead", None, "QuestionTimeoutError"),
        "b": ("done", "B", None),
    }
    assert stuck.calls[0] == ["a", "stuck", "b"]
    assert all(len(call) == 1 for call in stuck.calls[1:])
    assert sum(report.finished for report in reports) == 2


def main(url: str) -> None:
    """A worker in this process, which signals can interrupt; writes what it finished, its calls, indexes reopened."""
    registry.extensions = know_loud  # type: ignore[assignment, attr-defined]
    loud = Loud(loop_if_slow)
    pool = Pool(loud)
    with open_queue(url) as queue:
        worker = Worker(queue, pool, WorkerOptions(until_empty=True, poll_seconds=0.02, question_seconds=0.5))  # type: ignore[arg-type]
        worker.handle_signals()
        sys.stdout.write(f"{worker.run().finished} {loud.calls} {pool.forgotten}\n")


if __name__ == "__main__":
    main(sys.argv[1])
