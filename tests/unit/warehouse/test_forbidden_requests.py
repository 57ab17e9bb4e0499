"""A server that forbids a request (403) before it accepted any: the key, or that request, as the others tell."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pydantic import BaseModel

from polyhop.schemas.chat import CallJournal, ChatOutcome, ChatRequest, ChatTask, Prompt, Rung, Usage
from polyhop.schemas.errors import ModelForbiddenError, ModelKeyError, ModelRejectedError
from polyhop.warehouse.cache.replies import ReplyCache
from polyhop.warehouse.models.budget import Budget
from polyhop.warehouse.models.chat import CachedChat

CALL = Usage(calls=1, prompt_tokens=10, completion_tokens=5)


class Said(BaseModel):
    text: str


TASK = ChatTask("kg.extract", Prompt("kg.extract", "Names in {{text}}"), Said, max_output_tokens=100)


class Server:
    """Does with each text what it is told: "good", "forbidden" or "down"; "late" is good after the forbidden one."""

    model = "fake/model"

    def __init__(self, does: Mapping[str, str] | None = None) -> None:
        self._does = does or {}
        self._has_forbidden = Event()
        self.asked: list[str] = []

    def answer(self, request: ChatRequest[Any], journal: CallJournal) -> ChatOutcome[Any]:
        text = dict(request.inputs)["text"]
        self.asked.append(text)
        journal.before_call(request, CALL.prompt_tokens)
        does = self._does.get(text, "good")
        if does == "late":
            assert self._has_forbidden.wait(10)
        if does == "forbidden":
            error = ModelForbiddenError("The server refuses the key: no.", ModelRejectedError("It said no."))
            error.outcome = self._without_reply(ModelRejectedError.__name__)
            self._has_forbidden.set()
            journal.after_call(request, "", CALL, type(error).__name__)
            raise error
        journal.after_call(request, "", CALL, "ModelUnavailableError" if does == "down" else "")
        if does == "down":
            return self._without_reply("ModelUnavailableError")
        return ChatOutcome(Said(text=text), self.model, False, Rung.AS_IS, 1, "", "", CALL)

    def _without_reply(self, error_class: str) -> ChatOutcome[Any]:
        return ChatOutcome(None, self.model, False, None, 1, error_class, "It said no.", CALL)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ReplyCache]:
    opened = ReplyCache(tmp_path / "replies.sqlite")
    yield opened
    opened.close()


def errors_of(cache: ReplyCache, server: Server, texts: Sequence[str]) -> list[str]:
    chat = CachedChat(server, cache, Budget(None, None), 2)
    requests = [ChatRequest(TASK, f"unit {text}", (("text", text),)) for text in texts]
    return [outcome.error_class for outcome in chat.ask(requests)]


@pytest.mark.parametrize("other", ["good", "late"])
def test_beside_a_reply_it_was_the_request_whichever_came_first(cache: ReplyCache, other: str) -> None:
    server = Server({"a": "forbidden", "b": other})
    assert errors_of(cache, server, ["a", "b"]) == ["ModelRejectedError", ""]
    assert errors_of(cache, server, ["b"]) == [""]
    assert server.asked.count("b") == 1  # the reply was kept


def test_alone_it_was_the_key(cache: ReplyCache) -> None:
    with pytest.raises(ModelKeyError, match="refuses the key"):
        errors_of(cache, Server({"a": "forbidden"}), ["a"])


def test_three_without_a_reply_are_the_key_and_the_rest_is_not_asked(cache: ReplyCache) -> None:
    texts = [str(number) for number in range(200)]
    server = Server(dict.fromkeys(texts, "forbidden"))
    with pytest.raises(ModelKeyError):
        errors_of(cache, server, texts)
    assert len(server.asked) < 50


def test_beside_an_outage_nothing_is_known_and_it_counts_as_one(cache: ReplyCache) -> None:
    server = Server({"a": "forbidden", "b": "down"})
    assert errors_of(cache, server, ["a", "b"]) == ["ModelUnavailableError"] * 2


def test_two_and_nothing_else_are_the_key(cache: ReplyCache) -> None:
    server = Server({"a": "forbidden", "b": "forbidden"})
    with pytest.raises(ModelKeyError):
        errors_of(cache, server, ["a", "b"])
