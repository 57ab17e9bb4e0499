"""What a job must keep to be queued; the rules need no database.

Stores nothing (warehouse/queue does).
"""

import math
from collections.abc import Collection, Sequence

from polyhop.schemas.questions import MAX_QUESTION_CHARACTERS
from polyhop.schemas.queue import JobSpec, NewQuestion, storable
from polyhop.schemas.queue_errors import SubmissionError

# chosen: with `AGEING_SECONDS` (warehouse/queue/queue.py) it overtakes 17 hours of waiting, so that none waits for ever
MAX_PRIORITY = 1000


def check_submission(spec: JobSpec, questions: Sequence[NewQuestion]) -> None:
    """Refuses a job that could never be answered or distinguished.

    Raises:
        SubmissionError: If there is no question, one is too long, an id is empty or used twice, no worker could serve
            the queue, or a number is out of its range.
    """
    queue_fault = _queue_fault(spec.queue)
    rules = (
        (queue_fault is None, f"its queue is called '{spec.queue}': {queue_fault}"),
        (bool(questions), "it has no question"),
        (spec.limit >= 1, f"its limit is {spec.limit}; at least one passage is needed"),
        (spec.max_attempts >= 1, f"max_attempts is {spec.max_attempts}; at least one attempt is needed"),
        (abs(spec.priority) <= MAX_PRIORITY, f"its priority {spec.priority} is not within ±{MAX_PRIORITY}"),
        (_is_share(spec.min_confidence), f"its min_confidence {spec.min_confidence} is not within 0 to 1"),
        (_is_positive(spec.deadline_seconds), f"its deadline is {spec.deadline_seconds} s; it must be positive"),
        (all((spec.index, spec.queue, spec.strategy, spec.key != "")), "index, queue, strategy and key must not be ''"),
    )
    for is_kept, reason in rules:
        if not is_kept:
            raise SubmissionError(f"The job was not submitted: {reason}.")
    seen: set[str] = set()
    for place, question in enumerate(questions, 1):
        fault = _question_fault(question, seen)
        if fault:
            raise SubmissionError(f"The job was not submitted: question {place}: {fault}.")
        seen.add(storable(question.id))


def check_deadline(seconds: float | None) -> None:
    """Refuses a deadline that does not lie ahead.

    Raises:
        SubmissionError: If it is not above 0, or not a number.
    """
    if not _is_positive(seconds):
        raise SubmissionError(f"Nothing was queued: the deadline is {seconds} s; it must be positive.")


def _question_fault(question: NewQuestion, seen: Collection[str]) -> str | None:
    stored_id = storable(question.id)
    if not stored_id:
        return "its id is empty"
    if stored_id in seen:
        return f"the id '{stored_id}' is used twice"
    if len(question.question) > MAX_QUESTION_CHARACTERS:
        return f"it is {len(question.question):,} characters long; the limit is {MAX_QUESTION_CHARACTERS:,}"
    return None


def _queue_fault(name: str) -> str | None:
    """Why no worker could be set to serve a queue of this name, None if one could."""
    if "," in name:
        return "a comma separates queues in `polyhop worker --queues`; submit once per queue"
    if name != name.strip() or not name.isprintable():
        return "whitespace around it and unprintable characters are not served"
    return None


def _is_positive(seconds: float | None) -> bool:
    return seconds is None or (math.isfinite(seconds) and seconds > 0)


def _is_share(value: float | None) -> bool:
    return value is None or 0 <= value <= 1
