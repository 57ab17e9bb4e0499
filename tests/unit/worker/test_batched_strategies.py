"""Strategies that take a whole micro-batch: one call, the same results, and one question's fault ends it alone."""

import contextlib
import os
import subprocess
import sys
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
from polyhop.schemas.queue import ClaimedQuestion, JobSpec, NewQuestion
from polyhop.warehouse.queue.queue import QuestionQueue, open_queue
from polyhop.warehouse.queue.schema import sqlite_url
from polyhop.worker.answer import Answerer, Turns, Watch
from polyhop.worker.loop import BatchOutcome, Worker, WorkerOptions, WorkerReport, answer_group
from polyhop.worker.strategies import registry
from polyhop.worker.strategies.base import DECLARED, Parameters, strategy

PROJECT = Path(__file__).resolve().parents[3]
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


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[QuestionQueue]:
    with open_queue(sqlite_url(tmp_path / "queue.sqlite")) as opened:
        yield opened


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


def submit(queue: QuestionQueue, *texts: str) -> int:
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
    job = submit(queue, "a", "b", "slow", "c")
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
    job = submit(queue, "a", "stuck", "b")
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
