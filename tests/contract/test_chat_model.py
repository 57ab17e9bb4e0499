"""What every ChatModel does: the one over litellm at a scripted server, and what tests use instead."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import classes_with, loaded
from pydantic import BaseModel

from polyhop.schemas.chat import ChatRequest, ChatTask, Prompt, Role, Rung
from polyhop.schemas.settings import ModelSettings, Settings
from polyhop.warehouse.open_models import close_chats, open_chat


class Said(BaseModel):
    entities: list[str] = []
    names: list[str] = []
    text: str = ""


TASK = ChatTask(
    "prop.entities", Prompt("prop.entities", "Name all.\n<data>{{text}}</data>\n{{evidence}} {{question}}"), Said
)
Opened = tuple[Any, list[ChatRequest[Any]]]
"""A chat model, and two requests that it can answer."""


def request(text: str, task: ChatTask[Any] = TASK) -> ChatRequest[Any]:
    return ChatRequest(task, f"unit {text}", tuple((name, text) for name in ("text", "evidence", "question")))


def of_reply(reply: type[BaseModel]) -> list[ChatRequest[Any]]:
    task = ChatTask(TASK.name, TASK.prompt, reply)
    return [request(text, task) for text in ("one", "two")]


def one_reply(error: str) -> Opened:
    made = loaded("support/one_reply.py")
    return made.OneReply(error or {"text": "x"}), of_reply(Said)


def hubs(error: str) -> Opened:
    made = loaded("unit/worker/reading/test_hub_reader.py")
    return made.Chat(lambda *_: error or {"text": "x"}), of_reply(Said)


FAKES: dict[str, Callable[[str], Opened]] = {
    "support/one_reply.py OneReply": one_reply,
    "unit/worker/reading/test_hub_reader.py Chat": hubs,
}
ASKED_SOMETHING = {
    "unit/worker/reading/test_hub_reader.py Chat": "fails a test in which hubs ask for nothing",
}
"""Stricter than the port: it takes no empty list."""
ECHO = "contract/test_reader.py Echo"


@pytest.fixture(scope="module")
def server(main_loop: object) -> Iterator[Any]:
    """A scripted server; whatever mentions `fail` is refused."""
    from scripted_server import ModelServer

    from polyhop.warehouse.models.litellm_client import close_connections

    started = ModelServer().start()
    started.respond(lambda asked: "refusal" if "fail" in asked.prompt else "reply")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-test")
        yield started
    close_chats()
    started.stop()
    close_connections()


@pytest.fixture(scope="module")
def model_settings(server: Any) -> ModelSettings:
    return ModelSettings(extract="openai/scripted", api_base=server.url, max_attempts=2, timeout_seconds=20)


@pytest.fixture
def served(model_settings: ModelSettings, tmp_path: Path) -> Iterator[Any]:
    """The chat model of the product, with an empty cache."""
    yield open_chat(Settings(root=tmp_path, models=model_settings), Role.EXTRACT)
    close_chats()


@pytest.fixture(params=["served", *FAKES])
def answering(request: pytest.FixtureRequest) -> Opened:
    if request.param == "served":
        return request.getfixturevalue("served"), of_reply(Said)
    return FAKES[request.param]("")


@pytest.fixture(params=["served", *FAKES])
def failing(request: pytest.FixtureRequest) -> Opened:
    if request.param == "served":
        task = ChatTask(TASK.name, TASK.prompt, Said)
        chat = request.getfixturevalue("served")
        chat.ask(of_reply(Said))  # a server that fails the first requests ends a run
        return chat, [globals()["request"](text, task) for text in ("fail one", "fail two")]
    return FAKES[request.param]("ReplyRefusedError")


def test_every_chat_model_of_the_tests_is_here() -> None:
    assert classes_with("ask", "requests") == {*FAKES, ECHO}


def test_every_request_has_an_outcome_with_a_reply_of_its_form(answering: Opened) -> None:
    chat, requests = answering
    outcomes = chat.ask(requests)
    assert [type(one.reply) for one in outcomes] == [one.task.reply for one in requests]
    for outcome in outcomes:
        assert outcome.model == chat.model != ""
        assert (outcome.error_class, outcome.error) == ("", "")
        assert isinstance(outcome.rung, Rung)
        assert outcome.attempts >= 1


def test_a_failure_is_an_outcome_that_says_why(failing: Opened) -> None:
    chat, requests = failing
    outcomes = chat.ask(requests)
    assert [(one.reply, one.rung, one.is_cached) for one in outcomes] == [(None, None, False)] * 2
    for outcome in outcomes:
        assert outcome.error_class.endswith("Error")
        assert outcome.error != ""
        assert outcome.attempts >= 1


@pytest.mark.parametrize("name", ["served", *sorted(FAKES.keys() - ASKED_SOMETHING.keys())])
def test_no_request_has_no_outcome(request: pytest.FixtureRequest, name: str) -> None:
    chat = request.getfixturevalue("served") if name == "served" else FAKES[name]("")[0]
    assert chat.ask([]) == []


def test_what_was_paid_for_is_not_asked_for_again(served: Any, server: Any) -> None:
    first = served.ask([*of_reply(Said), *of_reply(Said)])
    calls, spent = len(server.requests), served.spent
    again = served.ask(of_reply(Said)[::-1])
    assert [one.reply for one in again] == [one.reply for one in first[1::-1]]
    assert [one.is_cached for one in (*first, *again)] == [False, False, True, True, True, True]
    assert (len(server.requests), served.spent) == (calls, spent)


def test_any_text_can_be_asked_about(served: Any) -> None:
    """A question may hold what no encoding knows."""
    outcomes = served.ask([request(text) for text in ("\ud800", "\x00 </data> {{text}}", "", "東京")])
    assert [one.error for one in outcomes] == [""] * 4
