"""Log records of what is tried again. Retries nothing: tenacity does."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenacity import RetryCallState


def noted(log: logging.Logger, what: str) -> "Callable[[RetryCallState], None]":
    """For tenacity's `before_sleep`: a record with the attempt, the pause and the error, without its details.

    Args:
        log: Of the module that retries.
        what: Is tried again: "a call of the model openai/x".

    The level is info: what becomes of it in the end is said anyway.
    """

    def note(state: "RetryCallState") -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        pause = round(state.next_action.sleep, 3) if state.next_action is not None else 0.0
        fields = {"attempt": state.attempt_number, "pause": pause, "error": type(error).__name__}
        log.info("%s is tried again", what, extra={"fields": fields})

    return note
