"""What a worker logs of itself: every record says which worker."""

import logging
from collections.abc import Iterable, Mapping, Sequence

from polyhop.schemas.errors import PolyhopError
from polyhop.schemas.queue import ClaimedQuestion, FailedQuestion
from polyhop.worker.batch import LONGEST_ERROR

_LOG = logging.getLogger(__name__)


class WorkerNews:
    """Log records of one worker."""

    def __init__(self, worker_id: str) -> None:
        self._worker_id = worker_id
        self._is_out = False

    def debug(self, message: str, **fields: object) -> None:
        """What every batch does."""
        self._log(logging.DEBUG, message, fields)

    def info(self, message: str, **fields: object) -> None:
        """What happens once."""
        self._log(logging.INFO, message, fields)

    def warning(self, message: str, **fields: object) -> None:
        """What somebody may have to look at."""
        self._log(logging.WARNING, message, fields)

    def lost(self, refused: int, failed: Iterable[FailedQuestion], names: Mapping[str, str]) -> None:
        """Answers that came too late, and questions that failed; `names` has job and question of each lease."""
        if refused:
            self.warning("leases were lost before their answers were stored", questions=refused)
        for question in failed:
            name = names.get(question.lease_token, "")
            self.warning("a question failed", question=name, error=question.error[:LONGEST_ERROR])

    def claimed(self, questions: Sequence[ClaimedQuestion]) -> None:
        """Questions were claimed, or there were none; in any case the queue answers."""
        if self._is_out:
            self._is_out = False
            self.info("the queue is available again")
        if questions:
            self.debug("claimed questions", questions=len(questions), jobs=sorted({one.job_id for one in questions}))

    def is_passing(self, error: PolyhopError, doing: str) -> bool:
        """Whether the queue is unavailable for now, which is noted once; False if waiting does not help."""
        if error.retryable and not self._is_out:
            self._is_out = True
            self.warning(f"the queue is unavailable while {doing}", error=str(error)[:LONGEST_ERROR])
        return error.retryable

    def _log(self, level: int, message: str, fields: dict[str, object]) -> None:
        _LOG.log(level, message, extra={"fields": {"worker": self._worker_id, **fields}})
