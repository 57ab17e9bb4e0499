"""When a run ends because a model's server takes no request: after three failures, or at once."""

import pytest
from pydantic import BaseModel

from polyhop.schemas.chat import ChatOutcome, Rung, Usage
from polyhop.schemas.errors import ModelEndpointError, ModelError, ModelRejectedError, ModelTimeoutError, PolyhopError
from polyhop.warehouse.models.limits import MOST_FAILURES, FirstReplies


def outcome(error_class: str = "") -> ChatOutcome[BaseModel]:
    rung = None if error_class else Rung.AS_IS
    return ChatOutcome(None, "a/b", False, rung, 1, error_class, error_class and "It failed.", Usage(1))


def errors(first: FirstReplies, *classes: str) -> list[PolyhopError | None]:
    return [first.error_of(outcome(name)) for name in classes]


def test_a_run_ends_when_each_of_the_first_requests_was_rejected() -> None:
    *before, last = errors(FirstReplies(must_answer=False), *["ModelRejectedError"] * MOST_FAILURES)
    assert before == [None] * (MOST_FAILURES - 1)
    assert isinstance(last, ModelRejectedError)
    assert "It failed. No request had a reply so far" in str(last)
    assert "check the model's name and its key" in str(last)


@pytest.mark.parametrize("accepted", ["", "MalformedReplyError", "ReplyRefusedError"])
def test_one_reply_is_enough_to_go_on_for_ever(accepted: str) -> None:
    first = FirstReplies(must_answer=True)
    classes = ["ModelRejectedError", accepted, *["ModelUnavailableError", "ModelTimeoutError"] * MOST_FAILURES]
    assert errors(first, *classes) == [None] * len(classes)


@pytest.mark.parametrize("name", ["ModelUnavailableError", "ModelRateLimitError"])
def test_an_outage_ends_an_index_run_and_no_worker(name: str) -> None:
    classes = [name] * MOST_FAILURES
    assert errors(FirstReplies(must_answer=False), *classes) == [None] * MOST_FAILURES
    last = errors(FirstReplies(must_answer=True), *classes)[-1]
    assert isinstance(last, ModelError)
    assert type(last).__name__ == name


def test_no_server_and_a_server_that_takes_too_long_end_it_at_once() -> None:
    (unreached,) = errors(FirstReplies(must_answer=True), "ModelUnreachableError")
    assert isinstance(unreached, ModelEndpointError)
    assert "correct models.api_base" in str(unreached)
    (late,) = errors(FirstReplies(must_answer=True), "ModelTimeoutError")
    assert isinstance(late, ModelTimeoutError)
    assert "models.timeout_seconds" in str(late)
