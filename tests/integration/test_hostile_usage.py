"""Servers that lie about tokens: over real HTTP, the limits of a run hold by our own count whatever is reported."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from polyhop.schemas.chat import ChatRequest, ChatTask, Prompt
from polyhop.schemas.errors import BudgetExceededError
from polyhop.schemas.settings import ModelSettings
from polyhop.warehouse.cache.replies import ReplyCache
from polyhop.warehouse.models.budget import Budget, count_prompt_tokens, count_tokens
from polyhop.warehouse.models.chat import Chat


class Names(BaseModel):
    entities: list[str]


TASK = ChatTask("prop.entities", Prompt("prop.entities", "Name all.\n<data>{{passage}}</data>"), Names)
MODEL = "openai/test-model"
LIE = {"prompt_tokens": -5, "completion_tokens": -60_000_000, "total_tokens": -60_000_005}
tokens = st.integers(-(10**9), 10**9) | st.sampled_from([0, 1, -1, 10**30])
reports = st.fixed_dictionaries({"prompt_tokens": tokens, "completion_tokens": tokens, "total_tokens": tokens})


def requests(count: int) -> list[ChatRequest[Names]]:
    return [ChatRequest(TASK, str(n), (("passage", f"Ada{n} met Babbage{n} in London."),)) for n in range(count)]


def own_count(server: Any) -> int:
    """Tokens of all prompts that the server got, and of the replies that it gave, by our own tokenizer."""
    from scripted_behaviour import Behaviour
    from scripted_bodies import chat_body

    replies = [chat_body(asked, Behaviour())["choices"][0]["message"]["content"] for asked in server.requests]
    prompts = sum(count_prompt_tokens(asked.prompt, MODEL) for asked in server.requests)
    return prompts + sum(count_tokens(reply, MODEL) for reply in replies)


def chat_at(server: Any, folder: Path, budget: Budget) -> Chat:
    models = ModelSettings(api_base=server.url, concurrency=4, max_reply_tokens=100, price=(1, 1))
    return Chat(MODEL, models, ReplyCache(folder / "replies.sqlite"), budget)


def test_a_server_that_reports_negative_tokens_lifts_no_limit_and_is_counted(model_server: Any, tmp_path: Path) -> None:
    model_server.respond(lambda asked: {"kind": "reply", "usage": LIE})
    chat = chat_at(model_server, tmp_path, Budget(None, 1_000, (1, 1)))
    with pytest.raises(BudgetExceededError, match="of 1000 tokens"):
        chat.ask(requests(100))
    assert 500 < own_count(model_server) <= 1_000
    assert chat.replaced == chat.spent.calls == model_server.count()
    assert chat.spent.prompt_tokens + chat.spent.completion_tokens == own_count(model_server)
    assert chat.spent.cost_usd == pytest.approx(own_count(model_server) / 1e6)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(lies=st.lists(reports | st.none(), min_size=1, max_size=8), limit=st.integers(200, 1_500))
def test_for_any_reports_the_limits_hold_by_our_own_count(
    model_server: Any, tmp_path_factory: pytest.TempPathFactory, lies: list[dict[str, int] | None], limit: int
) -> None:
    model_server.reset()
    model_server.respond(
        lambda asked: {"kind": "reply", "usage": lies[asked.number % len(lies)], "has_usage": lies[0] is not None}
    )
    chat = chat_at(model_server, tmp_path_factory.mktemp("lies"), Budget(limit / 1e6, limit, (1, 1)))
    with pytest.raises(BudgetExceededError):
        chat.ask(requests(40))
    assert own_count(model_server) <= limit
    assert min(chat.spent.prompt_tokens, chat.spent.completion_tokens, chat.spent.cost_usd or 0.0) >= 0


def test_an_honest_server_is_believed(model_server: Any, tmp_path: Path) -> None:
    chat = chat_at(model_server, tmp_path, Budget(None, None))
    chat.ask(requests(5))
    assert (chat.replaced, chat.spent.calls) == (0, 5)
