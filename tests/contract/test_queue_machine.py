"""Any sequence of operations keeps the queue's invariants (SQLite; Hypothesis chooses the sequence)."""

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from polyhop.schemas.queue import (
    DEATHS_PER_ATTEMPT,
    FailedQuestion,
    FinishedQuestion,
    JobSpec,
    NewQuestion,
    QuestionState,
)
from polyhop.warehouse.queue.queue import open_queue
from polyhop.warehouse.queue.schema import sqlite_url

pytestmark = pytest.mark.slow

LEASE_SECONDS = 10.0
MOST_ATTEMPTS = 2
QUEUES = ("a", "b")
QuestionKey = tuple[int, str]
Lease = tuple[int, str, str]
"""Job, question, token."""


class QueueMachine(RuleBasedStateMachine):
    """Compares the queue with what a handful of dictionaries remember."""

    jobs = Bundle("jobs")
    leases = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.now = 1_000_000.0
        self.queue = open_queue(sqlite_url(Path(self.folder) / "queue.sqlite"), clock=lambda: self.now)
        self.sizes: dict[int, int] = {}
        self.held: dict[QuestionKey, str] = {}
        self.until: dict[str, float] = {}
        self.answers: dict[QuestionKey, str] = {}

    def teardown(self) -> None:
        self.queue.close()
        shutil.rmtree(self.folder)

    @rule(
        target=jobs,
        size=st.integers(1, 4),
        queue=st.sampled_from(QUEUES),
        priority=st.integers(-2, 2),
        deadline=st.sampled_from([None, 25.0]),
    )
    def submit(self, size: int, queue: str, priority: int, deadline: float | None) -> int:
        spec = JobSpec("wiki", queue=queue, priority=priority, deadline_seconds=deadline, max_attempts=MOST_ATTEMPTS)
        job_id = self.queue.submit(spec, [NewQuestion(str(n), "Why?") for n in range(size)])
        self.sizes[job_id] = size
        return job_id

    @rule(target=leases, queues=st.sets(st.sampled_from(QUEUES)), limit=st.integers(1, 5))
    def claim(self, queues: set[str], limit: int) -> Any:
        claimed = self.queue.claim(sorted(queues), "w", limit, LEASE_SECONDS)
        assert len(claimed) <= limit
        for each in claimed:
            key = (each.job_id, each.question_id)
            assert key not in self.answers
            assert key not in self.held or self.until[self.held[key]] <= self.now
            assert each.lease_token not in self.until
            assert 1 <= each.attempt <= MOST_ATTEMPTS
            self.held[key] = each.lease_token
            self.until[each.lease_token] = self.now + LEASE_SECONDS
        return multiple(*((each.job_id, each.question_id, each.lease_token) for each in claimed))

    @rule(seconds=st.sampled_from([0.5, 4.0, 11.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(lease=leases)
    def heartbeat(self, lease: Lease) -> None:
        job_id, question_id, token = lease
        lost = self.queue.heartbeat("w", [token], LEASE_SECONDS)
        if not lost:
            assert self.held.get((job_id, question_id)) == token
            self.until[token] = self.now + LEASE_SECONDS

    def settle(self, chosen: Iterable[Lease], accepted: set[str]) -> Iterator[tuple[tuple[int, str], str]]:
        """The accepted leases, each of which must have been the last one given out for its question."""
        assert accepted <= {token for *_, token in chosen}
        for job_id, question_id, token in chosen:
            is_current = self.held.get((job_id, question_id)) == token
            assert is_current or token not in accepted
            assert token in accepted or not is_current or self.until[token] <= self.now
            if token in accepted:
                yield (job_id, question_id), token
                del self.held[job_id, question_id]

    @rule(chosen=st.lists(leases, max_size=4, unique=True))
    def finish(self, chosen: list[Lease]) -> None:
        done = [FinishedQuestion(token, token, 1, "bridge", 0.1) for *_, token in chosen]
        for key, token in self.settle(chosen, self.queue.finish(done)):
            assert key not in self.answers
            self.answers[key] = token

    @rule(chosen=st.lists(leases, max_size=4, unique=True), retryable=st.booleans())
    def fail(self, chosen: list[Lease], retryable: bool) -> None:
        failed = [FailedQuestion(token, "no", "ModelError", retryable) for *_, token in chosen]
        for _ in self.settle(chosen, self.queue.fail(failed)):
            pass

    @rule(chosen=st.lists(leases, max_size=4, unique=True))
    def release(self, chosen: list[Lease]) -> None:
        for _ in self.settle(chosen, self.queue.release([token for *_, token in chosen])):
            pass

    @rule(job_id=jobs)
    def cancel(self, job_id: int) -> None:
        if job_id in self.sizes:
            self.queue.cancel(job_id)
            for key in [key for key in self.held if key[0] == job_id]:
                del self.held[key]

    @rule(job_id=jobs)
    def retry(self, job_id: int) -> None:
        if job_id in self.sizes:
            self.queue.retry(job_id)

    @rule()
    def sweep(self) -> None:
        self.queue.sweep()

    @rule()
    def purge(self) -> None:
        self.now += 0.25
        self.queue.purge(0)
        left = {job.job_id for job in self.queue.jobs(1000)}
        for job_id in set(self.sizes) - left:
            assert not any(key[0] == job_id and self.until[token] > self.now for key, token in self.held.items())
            del self.sizes[job_id]
            self.held = {key: token for key, token in self.held.items() if key[0] != job_id}
            self.answers = {key: answer for key, answer in self.answers.items() if key[0] != job_id}

    @invariant()
    def every_question_is_in_one_state_and_done_exactly_with_its_one_result(self) -> None:
        seen = {}
        for job in self.queue.jobs(1000):
            rows = list(self.queue.results(job.job_id))
            assert [row.question_id for row in rows] == [str(n) for n in range(self.sizes[job.job_id])]
            assert Counter(row.state for row in rows) == Counter(job.counts)
            for row in rows:
                assert (row.state is QuestionState.DONE) == (row.answer is not None)
                assert 0 <= row.attempts <= MOST_ATTEMPTS * (DEATHS_PER_ATTEMPT + 1)
                assert (row.finished_at is None) == (row.state in {QuestionState.QUEUED, QuestionState.LEASED})
                if row.answer is not None:
                    seen[row.job_id, row.question_id] = row.answer
        assert seen == self.answers
        open_count = sum(job.open_count for job in self.queue.jobs(1000))
        assert self.queue.count_open(QUEUES) == open_count


QueueMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestQueueMachine = QueueMachine.TestCase
