"""How a model's outcome counts for a question: a reply, something for a fallback, an outage, or an error of the setup.

Pure; asks no model. Source: algorithms.md 0.7 (last column).
"""

from typing import Any

from polyhop.schemas.chat import ChatOutcome, ChatTask
from polyhop.schemas.errors import (
    ContextTooLongError,
    MalformedReplyError,
    ModelRateLimitError,
    ModelRejectedError,
    ModelTimeoutError,
    ModelUnavailableError,
    ModelUnreachableError,
    ReplyRefusedError,
)
from polyhop.schemas.query import ModelUse

_OUTAGES = frozenset(
    error.__name__ for error in (ModelUnavailableError, ModelRateLimitError, ModelTimeoutError, ModelUnreachableError)
)
_REPLY_FAILURES = frozenset({MalformedReplyError.__name__, ReplyRefusedError.__name__, ContextTooLongError.__name__})


def use_of(task: ChatTask[Any], outcome: ChatOutcome[Any]) -> ModelUse:
    """What a question to a model took, and what went wrong."""
    return ModelUse(
        model=outcome.model,
        prompt=task.prompt.name,
        prompt_hash=task.prompt.hash,
        is_cached=outcome.is_cached,
        usage=outcome.usage,
        rung=outcome.rung.value if outcome.rung else "",
        error_class=outcome.error_class,
        error=outcome.error,
    )


def outage_of(outcome: ChatOutcome[Any]) -> ModelUnavailableError | None:
    """The outage that left a request without a reply; None if the reply itself failed, so that a fallback may do.

    Raises:
        ModelRejectedError: If the server would not accept the request at any time.
    """
    if outcome.error_class in _REPLY_FAILURES:
        return None
    if outcome.error_class not in _OUTAGES:
        raise ModelRejectedError(outcome.error or outcome.error_class)
    if outcome.error_class == ModelRateLimitError.__name__:
        return ModelRateLimitError(outcome.error, outcome.retry_after_seconds)
    return ModelUnavailableError(outcome.error)


def retry_after_seconds(outage: ModelUnavailableError) -> float:
    """Retry-After of a model in seconds, 0 if it did not say."""
    return getattr(outage, "retry_after_seconds", None) or 0.0
