"""Models of OpenAI's protocol are asked without litellm, with the same requests and replies; others through it."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from scripted_server import Behaviour

from polyhop.schemas import errors
from polyhop.schemas.settings import ModelSettings
from polyhop.warehouse.models import litellm_client
from polyhop.warehouse.models.completions import Completions, is_direct
from polyhop.warehouse.models.endpoints import CallFailedError, Completion, EndpointReply, response_format


class Names(BaseModel):
    entities: list[str]


MESSAGES = [{"role": "user", "content": "Name all.\n<data>Ada Lovelace met Charles Babbage.</data>"}]
Ask = Callable[..., EndpointReply[Completion]]


@pytest.fixture
def ask(model_server: Any) -> Ask:
    """Asks a model for names, again as long as the server refuses a parameter."""

    def call(model: str = "openai/test-model", **settings: Any) -> EndpointReply[Completion]:
        given = ModelSettings(**{"api_base": model_server.url, "timeout_seconds": 10} | settings)
        completions = Completions(model, given)
        for _ in range(3):
            try:
                return completions.call(MESSAGES, "prop.entities", Names, 300)
            except CallFailedError as failed:
                if not (isinstance(failed.error, errors.ModelRejectedError) and failed.error.retryable):
                    raise
        raise AssertionError

    return call


@pytest.mark.parametrize(
    ("model", "is_sent_directly"),
    [
        ("openai/gpt-4o-mini", True),
        ("openai/any-name", True),
        ("openai/openai/gpt-oss-20b", True),
        ("openai/o3-pro", False),
        ("openai/responses/gpt-4o", False),
        ("hosted_vllm/llama", True),
        ("anthropic/claude-3-5-haiku-latest", False),
        ("ollama/llama3.2", False),
        ("test-model", False),
    ],
)
def test_a_model_is_asked_directly_where_its_server_has_the_protocol(model: str, is_sent_directly: bool) -> None:
    assert is_direct(model, "http://localhost/v1") == is_sent_directly


def test_a_bare_server_without_an_address_is_left_to_litellm() -> None:
    assert not is_direct("hosted_vllm/llama", "")


@pytest.mark.parametrize("name", ["test-model", "gpt-4o-mini", "gpt-5-mini", "gpt-5.1", "gpt-5-chat-latest", "o3-mini"])
def test_the_request_is_the_one_that_litellm_sends(model_server: Any, ask: Ask, name: str) -> None:
    ask(f"openai/{name}")
    parameters = {"response_format": response_format("prop.entities", Names), "max_tokens": 300}
    settings = ModelSettings(api_base=model_server.url)
    try:
        litellm_client.complete(f"openai/{name}", settings, MESSAGES, {**parameters, "temperature": 0})
    except CallFailedError:  # litellm knows that the model takes none
        litellm_client.complete(f"openai/{name}", settings, MESSAGES, parameters)
    ours, theirs = (dict(request.body) for request in model_server.requests)
    assert ours == theirs


@pytest.mark.parametrize("fault", ["reply", "prose", "length", "refusal", "content_filter"])
def test_the_reply_is_the_one_that_litellm_gives(model_server: Any, ask: Ask, fault: str) -> None:
    model_server.play(fault, fault)
    parameters = {"response_format": response_format("prop.entities", Names), "max_tokens": 300}
    settings = ModelSettings(api_base=model_server.url)
    assert ask() == litellm_client.complete("openai/test-model", settings, MESSAGES, parameters)


@pytest.mark.parametrize("name", ["deepseek", "hosted_vllm", "lm_studio"])
def test_another_provider_answers_at_an_address_of_its_own(
    model_server: Any, ask: Ask, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(f"{name.upper()}_API_KEY", "key")
    assert "Ada Lovelace" in ask(f"{name}/test-model").text


@pytest.mark.parametrize("model", ["openai/test-model", "deepseek/test-model"])
@pytest.mark.parametrize("fault", ["trickle", "trickle_header"])
def test_a_deadline_bounds_the_whole_reply_of_every_provider(
    model_server: Any, ask: Ask, fault: str, model: str
) -> None:
    model_server.respond(lambda _: fault)
    litellm_client.import_litellm()
    with pytest.raises(CallFailedError) as caught:
        ask(model, timeout_seconds=1)
    assert (type(caught.value.error), caught.value.may_be_billed) == (errors.ModelTimeoutError, True)


@pytest.mark.parametrize(
    ("refused", "instead"), [("temperature", {"max_tokens"}), ("max_tokens", {"temperature", "max_completion_tokens"})]
)
def test_a_parameter_that_the_server_refuses_is_left_out(
    model_server: Any, ask: Ask, refused: str, instead: set[str]
) -> None:
    model_server.play({"kind": "error", "status": 400, "parameter": refused, "message": f"Unsupported: '{refused}'"})
    ask()
    sent = set(model_server.requests[1].body) - {"model", "messages", "response_format"}
    assert (sent, len(model_server.requests)) == (instead, 2)


def test_the_address_of_the_environment_is_asked_where_the_settings_name_none(
    model_server: Any, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{model_server.url}/")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    assert "Ada Lovelace" in ask(api_base="").text


@pytest.mark.parametrize("key", ["sk-with-a-newline\nin-it", "sk-ключ-in-other-letters"])
def test_an_odd_key_fails_the_call_without_being_shown(
    model_server: Any, ask: Ask, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    message = ""
    try:
        ask()
    except CallFailedError as failed:
        message = str(failed.error)
    assert key[:9] not in message


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("This model's maximum context length is 8192 tokens", errors.ContextTooLongError),
        ("the request exceeds the available context size, try increasing it", errors.ContextTooLongError),
        ("content_policy_violation: flagged", errors.ReplyRefusedError),
        ("no such model", errors.ModelRejectedError),
    ],
)
def test_a_refusal_has_its_error(model_server: Any, ask: Ask, message: str, error: type[Exception]) -> None:
    model_server.respond(lambda _: {"kind": "error", "status": 404, "message": message})
    with pytest.raises(CallFailedError) as caught:
        ask()
    assert type(caught.value.error) is error


def test_an_address_that_is_none_was_not_reached(ask: Ask, tmp_path: Path) -> None:
    with pytest.raises(CallFailedError) as caught:
        ask(api_base="http://[half")
    assert type(caught.value.error) is errors.ModelUnreachableError


@pytest.fixture
def streamed(model_server: Any) -> Callable[[], tuple[EndpointReply[Completion], list[str]]]:
    """A streamed reply, and the texts of it so far as they came."""

    def call() -> tuple[EndpointReply[Completion], list[str]]:
        texts: list[str] = []
        completions = Completions("openai/test-model", ModelSettings(api_base=model_server.url, timeout_seconds=10))
        return completions.call(MESSAGES, "prop.entities", Names, 300, texts.append), texts

    return call


def test_a_streamed_reply_is_the_whole_one_and_its_text_grows(ask: Ask, streamed: Callable[[], Any]) -> None:
    reply, texts = streamed()
    assert reply == ask()
    assert len(texts) > 2
    assert all(after.startswith(before) for before, after in pairwise(texts))
    assert texts[-1] == reply.value.text


@pytest.mark.parametrize("kind", ["refusal", "length", "content_filter"])
def test_a_streamed_reply_that_is_refused_or_cut_is_known_as_such(
    model_server: Any, ask: Ask, streamed: Callable[[], Any], kind: str
) -> None:
    model_server.play(kind, kind)
    assert streamed()[0] == ask()


def test_a_server_that_does_not_stream_is_asked_again_for_the_whole_reply(
    model_server: Any, streamed: Callable[[], Any]
) -> None:
    no_stream = Behaviour("error", status=400, message="stream is not supported")
    model_server.respond(lambda asked: no_stream if asked.body.get("stream") else "reply")
    reply, texts = streamed()
    assert ("Ada Lovelace" in reply.value.text, texts) == (True, [])


def test_a_stream_that_ends_early_is_a_lost_reply(model_server: Any, streamed: Callable[[], Any]) -> None:
    model_server.play(Behaviour(kind="cut_stream"))
    with pytest.raises(CallFailedError, match="the stream ended before the reply did"):
        streamed()
