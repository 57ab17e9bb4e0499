"""What a model's outcome counts as: a reply, something for a fallback, an outage, or an error of the setup."""

import pytest
from pydantic import BaseModel

from polyhop.schemas.chat import ChatOutcome, ChatTask, Prompt, Rung, Usage
from polyhop.schemas.errors import (
    ModelRateLimitError,
    ModelRejectedError,
    ModelUnavailableError,
    retry_after_seconds,
)
from polyhop.worker.reading.models import outage_of, use_of


class Reply(BaseModel):
    text: str


TASK = ChatTask("qa.answer", Prompt("qa.answer", "{{question}}"), Reply)


def failed(error_class: str, error: str = "Why.", wait: float | None = None) -> ChatOutcome[Reply]:
    return ChatOutcome(None, "a/b", False, None, 3, error_class, error, Usage(3, 30, 1), wait)


@pytest.mark.parametrize("name", ["MalformedReplyError", "ReplyRefusedError", "ContextTooLongError"])
def test_a_reply_of_no_use_is_no_outage(name: str) -> None:
    assert outage_of(failed(name)) is None


@pytest.mark.parametrize(
    "name", ["ModelUnavailableError", "ModelRateLimitError", "ModelTimeoutError", "ModelUnreachableError"]
)
def test_a_server_without_a_reply_is_an_outage_in_its_own_words(name: str) -> None:
    outage = outage_of(failed(name))
    assert isinstance(outage, ModelUnavailableError)
    assert str(outage).startswith("Why.")
    assert outage.retryable


def test_only_a_rate_limit_says_how_long_to_wait() -> None:
    limited, silent = outage_of(failed("ModelRateLimitError", wait=7.5)), outage_of(failed("ModelRateLimitError"))
    other = outage_of(failed("ModelTimeoutError", wait=7.5))
    assert limited is not None
    assert silent is not None
    assert other is not None
    assert isinstance(limited, ModelRateLimitError)
    assert [retry_after_seconds(one) for one in (limited, silent, other)] == [7.5, 0.0, 0.0]


@pytest.mark.parametrize(
    ("name", "error", "words"), [("ModelRejectedError", "No such model.", "No such model"), ("Odd", "", "Odd")]
)
def test_everything_else_is_an_error_of_the_setup(name: str, error: str, words: str) -> None:
    with pytest.raises(ModelRejectedError, match=words):
        outage_of(failed(name, error))


def test_what_a_question_took_has_its_prompt_and_what_went_wrong() -> None:
    use = use_of(TASK, failed("MalformedReplyError"))
    assert (use.model, use.prompt, use.prompt_hash, use.rung) == ("a/b", "qa.answer", TASK.prompt.hash, "")
    assert (use.error_class, use.error, use.spent) == ("MalformedReplyError", "Why.", Usage(3, 30, 1))
    paid = use_of(TASK, ChatOutcome(Reply(text="x"), "a/b", True, Rung.REPAIRED, 1, "", "", Usage(1, 10, 2)))
    assert (paid.rung, paid.is_cached, paid.usage, paid.spent) == ("repaired", True, Usage(1, 10, 2), Usage())
