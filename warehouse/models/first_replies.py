"""Whether a model's server takes requests at all: a run whose first requests all fail ends instead of failing slowly.

Asks nobody.
"""

from threading import Lock
from typing import Any

from polyhop.schemas.chat import ChatOutcome
from polyhop.schemas.errors import (
    ModelEndpointError,
    ModelError,
    ModelRateLimitError,
    ModelRejectedError,
    ModelTimeoutError,
    ModelUnavailableError,
    ModelUnreachableError,
    PolyhopError,
)

MOST_FAILURES = 3  # chosen: one or two may be chance; a wrong key or name fails every time
_OUTAGES: dict[str, type[ModelError]] = {
    error.__name__: error
    for error in (ModelUnavailableError, ModelRateLimitError, ModelTimeoutError, ModelUnreachableError)
}
_ADVICE = {
    ModelTimeoutError.__name__: "raise models.timeout_seconds, or lower models.longest_reply",
    ModelRejectedError.__name__: "check the model's name and its key",
}


class FirstReplies:
    """The outcomes of a run until one request was accepted; safe for threads.

    Args:
        must_answer: An outage from the start ends the run too; a worker waits for its end instead.
    """

    def __init__(self, *, must_answer: bool) -> None:
        self._must_answer = must_answer
        self._lock = Lock()
        self._is_accepted = False
        self._failures = 0

    def error_of(self, outcome: ChatOutcome[Any]) -> PolyhopError | None:
        """The error to end the run with, None if it may continue.

        Returns:
            ModelEndpointError if there is no server at the model's address; ModelTimeoutError if it takes too long for
            a single call; else, if each of the first requests failed, a ModelError.
        """
        name = outcome.error_class
        is_failure = name == ModelRejectedError.__name__ or (self._must_answer and name in _OUTAGES)
        with self._lock:
            self._is_accepted = self._is_accepted or not is_failure
            self._failures += is_failure
            if self._is_accepted:
                return None
            if name == ModelUnreachableError.__name__:
                return ModelEndpointError(
                    f"{outcome.error.rstrip('.')}. Nothing was asked; start the server, or correct models.api_base."
                )
            if self._failures < MOST_FAILURES and name != ModelTimeoutError.__name__:
                return None
        advice = _ADVICE.get(name, "run the same command again when the server replies")
        return _OUTAGES.get(name, ModelRejectedError)(
            f"{outcome.error.rstrip('.')}. No request had a reply so far, so nothing is asked any more; {advice}."
        )
