"""Workers, submitters and databases that die in the middle: nothing is lost, nothing is answered twice.

Run by hand with more questions: POLYHOP_CHAOS_QUESTIONS=10000 uv run pytest tests/e2e/test_worker_chaos.py
"""

import fcntl
import itertools
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from polyhop.schemas.queue import JobRow, JobSpec, NewQuestion, QuestionState
from polyhop.warehouse.queue.queue import QuestionQueue

pytestmark = pytest.mark.real_time
QUESTION_COUNT = int(os.environ.get("POLYHOP_CHAOS_QUESTIONS", "1000"))
WORKER_COUNT = 3
SECONDS_BETWEEN_KILLS = 1.0
WORKER = ("worker", "--batch", "16")
# Three deaths of its worker make a question dead by default; here workers die for other reasons than their questions.
SUBMIT = ("--index", "towns", "--strategy", "bridge-lexical", "--key", "chaos")


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """One test of this file at a time, in whatever test process: workers that are killed so often must get to work."""
    with (Path(tempfile.gettempdir()) / "polyhop-chaos.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def wait_for(is_reached: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not is_reached():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


def only_job(queue: QuestionQueue) -> JobRow | None:
    jobs = queue.jobs()
    assert len(jobs) <= 1
    return jobs[0] if jobs else None


def done(queue: QuestionQueue) -> int:
    job = only_job(queue)
    return job.counts[QuestionState.DONE] if job else 0


def test_every_question_has_exactly_one_result_whoever_is_killed(
    towns_on_both: Any, request: pytest.FixtureRequest
) -> None:
    towns = towns_on_both
    questions = towns.questions(QUESTION_COUNT)
    restart = request.getfixturevalue("restart_postgres") if towns.settings else None
    with towns.queue() as queue:
        workers = [towns.start(*WORKER) for _ in range(WORKER_COUNT)]
        submitter = towns.start("submit", questions, *SUBMIT, "--wait")
        wait_for(lambda: done(queue) > QUESTION_COUNT // 20)
        submitter.kill()
        submitter = towns.start("submit", questions, *SUBMIT, "--wait")
        kills, places = 0, itertools.cycle(range(WORKER_COUNT))
        while submitter.poll() is None:
            place = next(places)
            workers[place].kill()
            workers[place] = towns.start(*WORKER)
            kills += 1
            answered = done(queue)
            if restart is not None and answered > QUESTION_COUNT // 3:
                restart()
                restart = None
            time.sleep(SECONDS_BETWEEN_KILLS)
            # On a busy machine a worker may need longer to start than the others live: some work between two kills.
            wait_for(lambda before=answered: submitter.poll() is not None or done(queue) > before, 120)  # type: ignore[misc]
        job = only_job(queue)
        assert job is not None
        rows = list(queue.results(job.job_id))
    for worker in workers:
        worker.terminate()
    # One that was started a moment ago dies of the signal: it does not listen yet, and holds nothing.
    assert {worker.wait(timeout=60) for worker in workers} <= {0, -signal.SIGTERM}, towns.log()
    assert submitter.returncode == 0, towns.log()
    assert job.counts == {**dict.fromkeys(QuestionState, 0), QuestionState.DONE: QUESTION_COUNT}, job.errors
    assert [row.question_id for row in rows] == [f"q{n}" for n in range(QUESTION_COUNT)]
    assert all(row.answer is not None and row.result["passages"] for row in rows)
    assert kills >= 2
    assert restart is None
    assert "Traceback" not in towns.log()
    assert "unexpected" not in towns.log()


def test_a_submitter_killed_at_any_moment_leaves_the_whole_job_or_none(towns_on_both: Any) -> None:
    towns = towns_on_both
    questions = towns.questions(QUESTION_COUNT)
    with towns.queue() as queue:
        for delay in (0.05, 0.15, 0.4):
            submitter = towns.start("submit", questions, *SUBMIT)
            time.sleep(delay)
            submitter.kill()
            submitter.wait()
            job = only_job(queue)
            assert job is None or job.counts[QuestionState.QUEUED] == QUESTION_COUNT
        towns.good("submit", questions, *SUBMIT, "--json")
        job = only_job(queue)
        assert job is not None
        assert job.counts[QuestionState.QUEUED] == QUESTION_COUNT


def test_fifty_questions_are_answered_after_everything_was_killed(
    towns_on_both: Any, request: pytest.FixtureRequest
) -> None:
    towns = towns_on_both
    towns.good("submit", towns.questions(50), *SUBMIT, "--json")
    worker = ("worker", "--batch", "2")
    with towns.queue() as queue:
        workers = [towns.start(*worker) for _ in range(2)]
        wait_for(lambda: done(queue) > 0)
        towns.kill_all()
        assert 0 < done(queue) < 50
        if towns.settings:
            request.getfixturevalue("restart_postgres")()
        (report,) = towns.good(*worker, "--until-empty", "--json")
        assert done(queue) == 50
        assert 0 < report["finished"] < 50
    assert len(workers) == 2


def test_a_reindex_and_sql_readers_disturb_no_worker(towns_on_both: Any) -> None:
    """Two workers answer job after job while a new version is published and people read results."""
    towns = towns_on_both
    numbers = itertools.count()

    def submit(queue: QuestionQueue) -> int:
        number = next(numbers)
        texts = [f"Which river does Town {n % 100} lie on?" for n in range(200)]
        questions = [NewQuestion(f"q{number}-{n}", text) for n, text in enumerate(texts)]
        return queue.submit(JobSpec("towns", strategy="bridge-lexical"), questions)

    def is_open(queue: QuestionQueue, job: int) -> bool:
        return queue.job(job).is_open

    with towns.queue() as queue:
        workers = [towns.start(*WORKER) for _ in range(2)]
        jobs = [submit(queue)]
        wait_for(lambda: not is_open(queue, jobs[0]))
        index = towns.start("index", towns.corpus(2), "--index", "towns", "--replace", "--json")
        reads = []
        while index.poll() is None:
            jobs.append(submit(queue))
            query = "SELECT count(*) AS n FROM results WHERE state = 'done'"
            reads.append(towns.good("sql", query, "--index", "towns", "--json")[0][0]["n"])
        assert index.wait() == 0, towns.log()
        jobs.append(submit(queue))
        wait_for(lambda: not any(is_open(queue, job) for job in jobs))
        results = [Counter((row.state, row.version) for row in queue.results(job)) for job in jobs]
    for worker in workers:
        worker.terminate()
    assert [worker.wait(timeout=60) for worker in workers] == [0, 0], towns.log()
    assert results[0] == {(QuestionState.DONE, 1): 200}
    assert results[-1] == {(QuestionState.DONE, 2): 200}
    assert set().union(*results) == {(QuestionState.DONE, 1), (QuestionState.DONE, 2)}
    assert reads[0] >= 200
    assert reads == sorted(reads)
    assert "lock" not in towns.log()
    assert "Traceback" not in towns.log()
