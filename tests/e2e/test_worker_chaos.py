"""Workers, submitters and databases that die in the middle: nothing is lost, nothing is answered twice.

Run by hand with more questions: POLYHOP_CHAOS_QUESTIONS=10000 uv run pytest tests/e2e/test_worker_chaos.py
"""

import dataclasses
import fcntl
import itertools
import os
import re
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_indexes import wait_for

from polyhop.schemas.queue import JobSpec, NewQuestion, QuestionState
from polyhop.warehouse.queue.queue import QuestionQueue

pytestmark = pytest.mark.real_time
QUESTION_COUNT = int(os.environ.get("POLYHOP_CHAOS_QUESTIONS", "1000"))
WORKER_COUNT = 3
SECONDS_BETWEEN_KILLS = 1.0
WORKER = "worker --batch"
# Three deaths of its worker make a question dead by default; here workers die for other reasons than their questions.
SUBMIT = "submit --index towns --strategy bridge-lexical --key chaos --json"


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """One test of this file at a time, in whatever test process: workers that are killed so often must get to work."""
    with (Path(tempfile.gettempdir()) / "polyhop-chaos.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def done(queue: QuestionQueue) -> int:
    return sum(job.counts[QuestionState.DONE] for job in queue.jobs())


def test_every_question_has_one_result_whoever_is_killed(towns_on_both: Any, request: pytest.FixtureRequest) -> None:
    towns = towns_on_both
    questions = towns.questions(QUESTION_COUNT)
    restart = request.getfixturevalue("restart_postgres") if towns.settings else None
    with towns.queue() as queue:
        workers = [towns.start(f"{WORKER} 16") for _ in range(WORKER_COUNT)]
        submitter = towns.start(f"{SUBMIT} --wait", questions)
        wait_for(lambda: done(queue) > QUESTION_COUNT // 20)
        submitter.kill()
        submitter = towns.start(f"{SUBMIT} --wait", questions)
        kills, places = 0, itertools.cycle(range(WORKER_COUNT))
        while submitter.poll() is None:
            place = next(places)
            workers[place].kill()
            workers[place] = towns.start(f"{WORKER} 16")
            kills += 1
            answered = done(queue)
            if restart is not None and answered > QUESTION_COUNT // 3:
                restart()
                restart = None
            time.sleep(SECONDS_BETWEEN_KILLS)
            # On a busy machine a worker may need longer to start than the others live: some work between two kills.
            wait_for(lambda before=answered: submitter.poll() is not None or done(queue) > before, 120)  # type: ignore[misc]
        (job,) = queue.jobs()
        rows = list(queue.results(job.job_id))
    for worker in workers:
        worker.terminate()
    # One that was started a moment ago dies of the signal: it does not listen yet, and holds nothing.
    assert {worker.wait(timeout=60) for worker in workers} <= {0, -signal.SIGTERM}, towns.log()
    assert submitter.returncode == 0, towns.log()
    assert job.counts == {**dict.fromkeys(QuestionState, 0), QuestionState.DONE: QUESTION_COUNT}, job.errors
    assert [row.question_id for row in rows] == [f"q{n}" for n in range(QUESTION_COUNT)]
    assert all(row.answer is not None and row.result["passages"] for row in rows)
    assert (kills >= 2, restart) == (True, None)
    assert not re.search("Traceback|unexpected ", towns.log())


@pytest.mark.rare
def test_fifty_are_answered_after_everything_was_killed(towns_on_both: Any, request: pytest.FixtureRequest) -> None:
    towns = towns_on_both
    towns.good(SUBMIT, towns.questions(50))
    with towns.queue() as queue:
        for _ in range(2):
            towns.start(f"{WORKER} 2")
        wait_for(lambda: done(queue) > 0)
        towns.kill_all()
        assert 0 < done(queue) < 50
        if towns.settings:
            request.getfixturevalue("restart_postgres")()
        (report,) = towns.good(f"{WORKER} 2 --until-empty --json")
        assert (done(queue), 0 < report["finished"] < 50) == (50, True)


@pytest.mark.rare
@pytest.mark.postgres
def test_eight_workers_on_two_hosts_lose_nothing_of_a_thousand_questions_a_second(
    towns: Any, postgres_url: str, tmp_path: Path
) -> None:
    """Each host has a folder of its own, pulled from a store; one worker of each is killed at work."""
    queue_url = ("--set", f"queue.url={postgres_url}")
    hosts = [dataclasses.replace(towns, settings=queue_url, folder=tmp_path / name, started=[]) for name in ("a", "b")]
    store, seconds, rate = f"file://{tmp_path}/store", 5, 1000
    towns.good(f"versions push {store} --index towns --json")
    for host in hosts:
        host.folder.mkdir()
        host.good(f"versions pull {store} --index towns --json")
    workers = [host.start(f"{WORKER} 32") for host in hosts for _ in range(4)]
    with hosts[0].queue() as queue:
        wait_for(lambda: len(queue.workers()) == len(workers), 120)
        jobs, spent = [], 0.0
        for second in range(seconds):
            begun = time.monotonic()
            asked = [NewQuestion(f"q{n}", f"Which river does Town {n % 7} lie on?") for n in range(rate)]
            jobs.append(queue.submit(JobSpec("towns", strategy="bm25"), asked))
            spent += time.monotonic() - begun
            if second == 1:
                for victim in (workers[0], workers[4]):
                    victim.kill()
            time.sleep(max(0.0, 1 - (time.monotonic() - begun)))
        assert spent < seconds, f"{seconds * rate / spent:.0f} questions a second were queued"
        wait_for(lambda: done(queue) == seconds * rate, 300)
        rows = [row for job in jobs for row in queue.results(job)]
    for host in hosts:
        host.kill_all()
    assert [row.question_id for row in rows] == [f"q{n}" for n in range(rate)] * seconds
    assert all(row.result["passages"] for row in rows)
    assert len({row.worker_id for row in rows}) >= 6
    assert "Traceback" not in "".join(host.log() for host in hosts)
