"""What the question queue raises on purpose; the rest of the tree is in errors.py.

Arguments become attributes; the message says what happened, where, and what to do.
"""

from polyhop.schemas.errors import PolyhopError


class QueueError(PolyhopError):
    """The question queue refuses what it was asked."""


class QueueFullError(QueueError):
    """A queue holds as many waiting questions as it may."""

    retryable = True

    def __init__(self, queue: str, waiting: int, added: int, max_depth: int) -> None:
        self.queue = queue
        self.waiting = waiting
        self.added = added
        self.max_depth = max_depth
        super().__init__(
            f"Queue '{queue}' holds {waiting} waiting questions; {added} more would exceed its limit of {max_depth}. "
            "Nothing was submitted; wait until workers have caught up, or raise the limit."
        )


class IdempotencyKeyError(QueueError):
    """An idempotency key was used before, for other questions."""

    def __init__(self, key: str, job_id: int) -> None:
        self.key = key
        self.job_id = job_id
        super().__init__(
            f"Key '{key}' already belongs to job {job_id}, which asks something else; nothing was submitted. "
            "Use another key, or submit exactly the same questions."
        )


class UnknownJobError(QueueError):
    """A job that the queue does not know."""

    def __init__(self, job_id: int) -> None:
        self.job_id = job_id
        super().__init__(f"There is no job {job_id} (list them with: polyhop jobs); old jobs are removed in time.")


class RetryRefusedError(QueueError):
    """A question that is not asked again."""


class DamagedRowsError(QueueError):
    """Rows of the queue that cannot be read; all others were."""


class SubmissionError(QueueError):
    """A job that cannot be queued as it is."""
