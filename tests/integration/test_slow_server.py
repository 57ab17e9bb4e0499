"""A server with one slot, as llama.cpp, Ollama or LM Studio on one's own machine: slow, but nothing is asked twice."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from polyhop.schemas.chat import ChatRequest, ChatTask, Prompt
from polyhop.schemas.errors import ModelTimeoutError
from polyhop.schemas.settings import ModelSettings
from polyhop.warehouse.cache.replies import ReplyCache
from polyhop.warehouse.models.budget import Budget
from polyhop.warehouse.models.chat import Chat
from polyhop.warehouse.models.litellm_client import import_litellm
from polyhop.warehouse.models.replies import REPLY_TOKENS

pytestmark = pytest.mark.real_time


class Names(BaseModel):
    entities: list[str]


TASK = ChatTask("prop.entities", Prompt("prop.entities", "Name all.\n<data>{{passage}}</data>"), Names)


def requests(count: int) -> list[ChatRequest[Names]]:
    return [ChatRequest(TASK, str(n), (("passage", f"Ada{n} met Babbage{n} in London."),)) for n in range(count)]


def chat_at(server: Any, folder: Path, **settings: Any) -> Chat:
    import_litellm()  # takes seconds, which no timeout should include
    models = ModelSettings(api_base=server.url, concurrency=8, **settings)
    cache = ReplyCache(folder / "replies.sqlite")
    return Chat("openai/slow", models, cache, Budget(None, None), must_answer=True)


def test_calls_that_would_wait_too_long_for_their_turn_are_not_sent(model_server: Any, tmp_path: Path) -> None:
    chat = chat_at(model_server, tmp_path, timeout_seconds=5)
    chat.ask(requests(1))  # the first call sets up the connection, which takes long on a busy machine
    model_server.reset()
    model_server.slots(1, 1.5)
    outcomes = chat.ask(requests(6)[1:])
    assert [outcome.error_class for outcome in outcomes] == [""] * 5
    assert model_server.count() <= 6  # at most one call of a window that had not yet seen how slow the server is


def test_a_server_that_never_replies_in_time_ends_the_run_with_advice(model_server: Any, tmp_path: Path) -> None:
    model_server.delay(2)
    chat = chat_at(model_server, tmp_path, timeout_seconds=0.3)
    with pytest.raises(ModelTimeoutError, match=r"raise models\.timeout_seconds, or lower models\.max_reply_tokens"):
        chat.ask(requests(20))
    assert 2 <= chat.spent.calls <= 3
    assert chat.spent.completion_tokens == chat.spent.calls * REPLY_TOKENS["prop.entities"]
