"""Whether a model's server takes requests at all: a run whose first requests all fail ends instead of failing slowly.

And what it means that it forbids one (HTTP 403): a wrong key, or that request. Asks nobody.
"""

from dataclasses import replace
from threading import Lock
from typing import Any

from polyhop.schemas.chat import ChatOutcome
from polyhop.schemas.errors import (
    ModelEndpointError,
    ModelError,
    ModelForbiddenError,
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


class ForbiddenRequests:
    """Requests asked together that the server forbade before it accepted any: the others tell what that means."""

    def __init__(self) -> None:
        self._errors: dict[str, ModelForbiddenError] = {}
        self._is_key_good = False
        self._has_outage = False

    def compare(self, outcome: ChatOutcome[Any]) -> None:
        """Another request's outcome."""
        is_outage = outcome.error_class in _OUTAGES
        self._has_outage = self._has_outage or is_outage
        self._is_key_good = self._is_key_good or not (is_outage or outcome.error_class == ModelRejectedError.__name__)

    def add(self, key: str, error: ModelForbiddenError) -> None:
        """A forbidden request.

        Raises:
            ModelKeyError: If it is one too many, and no other had a reply.
        """
        self._errors[key] = error
        if len(self._errors) >= MOST_FAILURES and not self._is_key_good:
            raise error

    def outcomes(self) -> dict[str, ChatOutcome[Any]]:
        """What became of each: rejected if another had a reply; not answered yet if the server failed all others.

        Raises:
            ModelKeyError: If nothing speaks for the key.
        """
        if self._is_key_good:
            return {key: error.outcome for key, error in self._errors.items()}
        if self._errors and not self._has_outage:
            raise next(iter(self._errors.values()))
        unavailable = ModelUnavailableError.__name__
        return {key: replace(error.outcome, error_class=unavailable) for key, error in self._errors.items()}
