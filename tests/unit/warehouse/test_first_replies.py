"""When a run ends because a model's server takes no request: after three failures, or at once."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import BaseModel

from polyhop.schemas.chat import ChatOutcome, Rung, Usage
from polyhop.schemas.errors import ModelEndpointError, ModelError, ModelRejectedError, ModelTimeoutError, PolyhopError
from polyhop.schemas.settings import ModelSettings
from polyhop.warehouse.cache.replies import ReplyCache
from polyhop.warehouse.models.budget import Budget
from polyhop.warehouse.models.chat import MOST_FAILURES, Chat

Errors = Callable[..., list[PolyhopError | None]]


def outcome(error_class: str = "") -> ChatOutcome[BaseModel]:
    rung = None if error_class else Rung.AS_IS
    return ChatOutcome(None, "a/b", False, rung, 1, error_class, error_class and "It failed.", Usage(1))


@pytest.fixture
def errors(tmp_path: Path) -> Callable[..., list[PolyhopError | None]]:
    """What ends a run whose first outcomes have these classes of errors."""

    def found(*classes: str, must_answer: bool) -> list[PolyhopError | None]:
        replies = ReplyCache(tmp_path / "replies.sqlite")
        chat = Chat("a/b", ModelSettings(), replies, Budget(None, None), must_answer=must_answer)
        return [chat._first_error(outcome(name)) for name in classes]

    return found


def test_a_run_ends_when_each_of_the_first_requests_was_rejected(errors: Errors) -> None:
    *before, last = errors(*["ModelRejectedError"] * MOST_FAILURES, must_answer=False)
    assert before == [None] * (MOST_FAILURES - 1)
    assert isinstance(last, ModelRejectedError)
    assert "It failed. No request had a reply so far" in str(last)
    assert "check the model's name and its key" in str(last)


@pytest.mark.parametrize("accepted", ["", "MalformedReplyError", "ReplyRefusedError"])
def test_one_reply_is_enough_to_go_on_for_ever(errors: Errors, accepted: str) -> None:
    classes = ["ModelRejectedError", accepted, *["ModelUnavailableError", "ModelTimeoutError"] * MOST_FAILURES]
    assert errors(*classes, must_answer=True) == [None] * len(classes)


@pytest.mark.parametrize("name", ["ModelUnavailableError", "ModelRateLimitError"])
def test_an_outage_ends_an_index_run_and_no_worker(errors: Errors, name: str) -> None:
    classes = [name] * MOST_FAILURES
    assert errors(*classes, must_answer=False) == [None] * MOST_FAILURES
    last = errors(*classes, must_answer=True)[-1]
    assert isinstance(last, ModelError)
    assert type(last).__name__ == name


def test_no_server_and_a_server_that_takes_too_long_end_it_at_once(errors: Errors) -> None:
    (unreached,) = errors("ModelUnreachableError", must_answer=True)
    assert isinstance(unreached, ModelEndpointError)
    assert "correct models.api_base" in str(unreached)
    (late,) = errors("ModelTimeoutError", must_answer=True)
    assert isinstance(late, ModelTimeoutError)
    assert "models.timeout_seconds" in str(late)
