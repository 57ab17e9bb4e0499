"""What a worker logs of itself: every record says which worker."""

import logging

from polyhop.schemas.errors import PolyhopError
from polyhop.schemas.queue import FailedQuestion
from polyhop.worker.batch import LONGEST_ERROR

_LOG = logging.getLogger(__name__)


class WorkerNews:
    """Log records of one worker."""

    def __init__(self, worker_id: str) -> None:
        self._worker_id = worker_id

    def debug(self, message: str, **fields: object) -> None:
        """What every batch does."""
        self._log(logging.DEBUG, message, fields)

    def info(self, message: str, **fields: object) -> None:
        """What happens once."""
        self._log(logging.INFO, message, fields)

    def warning(self, message: str, **fields: object) -> None:
        """What somebody may have to look at."""
        self._log(logging.WARNING, message, fields)

    def lost(self, refused: int, failed: list[FailedQuestion]) -> None:
        """Answers that came too late, and questions that failed."""
        if refused:
            self.warning("leases were lost before their answers were stored", questions=refused)
        for question in failed:
            self.warning("a question failed", error=question.error[:LONGEST_ERROR])

    def is_passing(self, error: PolyhopError, doing: str) -> bool:
        """Whether the queue is unavailable for now, which is noted; False if waiting does not help."""
        if error.retryable:
            self.warning(f"the queue is unavailable while {doing}", error=str(error)[:LONGEST_ERROR])
        return error.retryable

    def _log(self, level: int, message: str, fields: dict[str, object]) -> None:
        _LOG.log(level, message, extra={"fields": {"worker": self._worker_id, **fields}})
