"""Types of the question queue: jobs, submissions, results, and their stored forms.

Times are seconds since 1970 on the queue's own clock.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from polyhop.schemas.errors import MAX_QUESTION_CHARACTERS, ContractError, SubmissionError
from polyhop.schemas.text import content_hash

BACKOFF_BASE_SECONDS = 1.0  # chosen: a restarting server is soon asked again
BACKOFF_LIMIT_SECONDS = 300.0  # chosen: bounds how late the end of an outage is noticed
DEADLINE_ERROR = "DeadlinePassed"
DEADLINE_TEXT = "deadline passed"
WORKER_DIED_ERROR = "WorkerDied"
SUSPECT_AFTER_DEATHS = 2  # A question that lost so many workers is claimed alone from then on.
DEATHS_PER_ATTEMPT = 5
"""A question is dead when so many workers died with it, times its attempts: a killed worker is seldom its fault."""


class QuestionState(StrEnum):
    """State of a question; it is in exactly one state, and `done` exactly if it has a result."""

    QUEUED = "queued"
    LEASED = "leased"
    DONE = "done"
    DEAD = "dead"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class JobSpec:
    """Settings of a job's questions.

    `limit` is the number of passages per question; a higher `priority` goes first; `deadline_seconds` counts from
    submission; the same `key` again submits nothing and gives the same job; answers without a model below
    `min_confidence` are left empty (None: as the worker's settings say); `where` is a filter of the passages (None:
    all).
    """

    index: str
    name: str = ""
    queue: str = "default"
    strategy: str = "bridge"
    parameters: Mapping[str, object] = field(default_factory=dict)
    limit: int = 10
    priority: int = 0
    deadline_seconds: float | None = None
    key: str | None = None
    max_attempts: int = 3
    min_confidence: float | None = None
    where: str | None = None


@dataclass(frozen=True, slots=True)
class NewQuestion:
    """A question to submit; `id` is the asker's own and unique within its job."""

    id: str
    question: str
    topic: str | None = None
    answers: Sequence[str] = ()
    supporting: Sequence[str] = ()
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClaimedQuestion:
    """A question that a worker holds until `lease_until`; `attempt` counts from 1, `ordinal` from 0."""

    job_id: int
    question_id: str
    ordinal: int
    question: str
    topic: str | None
    queue: str
    index: str
    strategy: str
    parameters: Mapping[str, object]
    limit: int
    attempt: int
    max_attempts: int
    lease_token: str
    lease_until: float
    deadline: float | None
    min_confidence: float | None = None
    where: str | None = None


@dataclass(frozen=True, slots=True)
class FinishedQuestion:
    """An answer to store; `result` is JSON-able and keeps everything needed to redraw the answer."""

    lease_token: str
    answer: str
    version: int
    strategy: str
    seconds: float
    result: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FailedQuestion:
    """A question that could not be answered; `delay_seconds` overrides the backoff (a server's Retry-After)."""

    lease_token: str
    error: str
    error_class: str
    retryable: bool
    delay_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """Number of a job's dead questions with one class of error, and an example of its text."""

    error_class: str
    count: int
    example: str


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as people see it; `oldest_wait_seconds` is None when nothing of it waits.

    `deadline_seconds` is how long its questions may wait.
    """

    job_id: int
    name: str
    queue: str
    index: str
    strategy: str
    parameters: Mapping[str, object]
    limit: int
    priority: int
    max_attempts: int
    submitted_at: float
    deadline: float | None
    question_count: int
    counts: Mapping[QuestionState, int]
    oldest_wait_seconds: float | None
    errors: Sequence[ErrorCount] = ()
    min_confidence: float | None = None
    deadline_seconds: float | None = None
    where: str | None = None

    @property
    def open_count(self) -> int:
        """Questions still to be answered."""
        return self.counts[QuestionState.QUEUED] + self.counts[QuestionState.LEASED]

    @property
    def is_open(self) -> bool:
        """Returns whether any question is still open."""
        return self.open_count > 0


@dataclass(frozen=True, slots=True)
class ResultRow:
    """A question with all that is known about it; the answer's fields are None unless `state` is done."""

    job_id: int
    question_id: str
    ordinal: int
    question: str
    topic: str | None
    answers: Sequence[str]
    supporting: Sequence[str]
    metadata: Mapping[str, object]
    state: QuestionState
    attempts: int
    error: str | None
    error_class: str | None
    finished_at: float | None
    answer: str | None
    version: int | None
    strategy: str | None
    worker_id: str | None
    seconds: float | None
    result: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker process; `versions` maps index to the version it holds, `seen_at` is its last sign of life.

    `outage` says why it has been waiting for a model since `outage_since`; None while it does not.
    """

    worker_id: str
    host: str
    process_id: int
    queues: Sequence[str]
    versions: Mapping[str, int]
    started_at: float
    seen_at: float
    outage: str | None = None
    outage_since: float | None = None


@dataclass(frozen=True, slots=True)
class QueueMetrics:
    """Questions by queue and state, the longest wait by queue, and workers seen in the last minute."""

    counts: Mapping[str, Mapping[QuestionState, int]]
    oldest_wait_seconds: Mapping[str, float]
    worker_count: int


def submission_hash(spec: JobSpec, questions: Sequence[NewQuestion]) -> str:
    """Hash of a job's work: equal for the same questions whatever the name, priority, deadline or attempts."""
    how = [spec.queue, spec.index, spec.strategy, dict(spec.parameters), spec.limit]
    how += [] if spec.min_confidence is None else [spec.min_confidence]
    how += [] if spec.where is None else ["where", spec.where]
    asked = [[q.id, q.question, q.topic, list(q.answers), list(q.supporting), dict(q.metadata)] for q in questions]
    return content_hash(to_json([how, asked]))


def to_json(value: object) -> str:
    """Compact JSON with sorted keys, ASCII only, so that every database stores it as it is."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ContractError(f"Cannot store a value in the question queue as JSON: {error}.") from error


def storable(text: str) -> str:
    """The text with what databases refuse (NUL, lone surrogates) replaced by U+FFFD."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.replace("\x00", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def effective_time(submitted_at: float, priority: int, ageing_seconds: float) -> float:
    """Orders waiting questions; never changes while they wait.

    A priority level is worth `ageing_seconds` of waiting, so comparing `waited + priority * ageing` at any moment is
    comparing this number.
    """
    return submitted_at - priority * ageing_seconds


def backoff_seconds(attempt: int, salt: str) -> float:
    """Doubling from 1 s to 300 s, times 0.5 to 1 by `salt`: spread like chance, yet the same every time."""
    longest = min(BACKOFF_LIMIT_SECONDS, BACKOFF_BASE_SECONDS * 2.0 ** min(attempt - 1, 30))
    share = int(content_hash("backoff", salt, str(attempt))[:8], 16) / 0xFFFFFFFF
    return longest * (0.5 + 0.5 * share)


# chosen: with `AGEING_SECONDS` (warehouse/queue/queue.py) it overtakes 17 hours of waiting, so that none waits for ever
MAX_PRIORITY = 1000


def check_submission(spec: JobSpec, questions: Sequence[NewQuestion]) -> None:
    """Refuses a job that could never be answered or distinguished."""
    queue, share = spec.queue, spec.min_confidence
    called = f"its queue is called '{queue}'"
    rules = (  # no worker could be set to serve such a queue
        ("," not in queue, f"{called}: a comma separates queues in `polyhop worker --queues`; submit once per queue"),
        (
            queue == queue.strip() and queue.isprintable(),
            f"{called}: whitespace around it and unprintable characters are not served",
        ),
        (bool(questions), "it has no question"),
        (spec.limit >= 1, f"its limit is {spec.limit}; at least one passage is needed"),
        (spec.max_attempts >= 1, f"max_attempts is {spec.max_attempts}; at least one attempt is needed"),
        (abs(spec.priority) <= MAX_PRIORITY, f"its priority {spec.priority} is not within ±{MAX_PRIORITY}"),
        (share is None or 0 <= share <= 1, f"its min_confidence {share} is not within 0 to 1"),
        (_is_positive(spec.deadline_seconds), f"its deadline is {spec.deadline_seconds} s; it must be positive"),
        (all((spec.index, spec.queue, spec.strategy, spec.key != "")), "index, queue, strategy and key must not be ''"),
    )
    for is_kept, reason in rules:
        if not is_kept:
            raise SubmissionError(f"The job was not submitted: {reason}.")
    seen: set[str] = set()
    for position, question in enumerate(questions, 1):
        stored_id, length = storable(question.id), len(question.question)
        faults = (
            (not stored_id, "its id is empty"),
            (stored_id in seen, f"the id '{stored_id}' is used twice"),
            (
                length > MAX_QUESTION_CHARACTERS,
                f"it is {length:,} characters long; the limit is {MAX_QUESTION_CHARACTERS:,}",
            ),
        )
        for is_fault, reason in faults:
            if is_fault:
                raise SubmissionError(f"The job was not submitted: question {position}: {reason}.")
        seen.add(stored_id)


def check_deadline(seconds: float | None) -> None:
    """Refuses a deadline that does not lie ahead."""
    if not _is_positive(seconds):
        raise SubmissionError(f"Nothing was queued: the deadline is {seconds} s; it must be positive.")


def _is_positive(seconds: float | None) -> bool:
    return seconds is None or (math.isfinite(seconds) and seconds > 0)


def model_that_read(reading: Mapping[str, Any]) -> str | None:
    """The model that wrote the answer of a `reading_row`; None if rules answered, also after a model failed."""
    model: str | None = reading.get("model")
    return model if reading.get("kind") == "generated" else None
