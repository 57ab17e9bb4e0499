"""Chat completions: of servers with OpenAI's protocol over httpx, of other providers through litellm.

litellm takes 6 to 10 s of processor time to import, the package openai 2 s, which a question in a terminal waits for
before its first token (decision 0036).
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any

import httpx
from pydantic import BaseModel

from polyhop.schemas import errors
from polyhop.schemas.settings import ModelSettings
from polyhop.warehouse.models import litellm_client
from polyhop.warehouse.models.budget import table_entry
from polyhop.warehouse.models.endpoints import (
    CallFailedError,
    Completion,
    EndpointReply,
    Failure,
    Reach,
    Refusal,
    completion_of,
    connection_reach,
    connection_words,
    failed_call,
    named,
    one_line,
    response_format,
    retry_after_of,
    server_words,
    whole_number,
    within,
)

OPENAI = "openai"
OWN_SERVERS = ("hosted_vllm", "lm_studio", "litellm_proxy", "llamafile", "custom_openai")
"""Providers, as litellm names them, that are a server of OpenAI's protocol at `models.api_base`, and nothing more."""
OPENAI_ADDRESS = "https://api.openai.com/v1"
_REASONING = re.compile(r"(?:ft:)?(?:o\d|gpt-(?:[5-9]|\d\d)(?!-chat))")
"""Models of OpenAI that take `max_completion_tokens` for `max_tokens`. Source: OpenAI, Reasoning models, 2025."""
_TOO_LONG = re.compile(
    r"context_length_exceeded|maximum context (?:length|limit)|exceeds? (?:the available )?context (?:size|limit)"
    r"|longer than the model's context|exceeds the maximum number of tokens|maximum input length is",
    re.IGNORECASE,
)
"""How OpenAI, vLLM, llama.cpp and SGLang say that a request is too long for a model."""
_LONGEST_ERROR = 100_000  # characters of the body of an error that are looked through; chosen: messages are shorter

OnText = Callable[[str], None]
"""Gets the text of a reply so far while the server writes it."""

_clients: list[httpx.Client] = []
_opening = Lock()


def is_direct(model: str, api_base: str) -> bool:
    """True for a model that needs no litellm: its server has OpenAI's protocol, and it takes chat completions."""
    provider, _, name = model.partition("/")
    if provider == OPENAI:
        return not name.startswith("responses/") and table_entry(model).get("mode") != "responses"
    return bool(api_base and name) and provider in OWN_SERVERS


def prepare(model: str, api_base: str) -> None:
    """Imports what a call needs, so that no call is timed with it."""
    if not is_direct(model, api_base):
        litellm_client.import_litellm()


def close_connections() -> None:
    """Closes the connections that are open between calls; a later call opens new ones."""
    with _opening:
        while _clients:
            _clients.pop().close()
    litellm_client.close_connections()


def _client() -> httpx.Client:
    """One pool of connections for all threads and models."""
    with _opening:
        if not _clients:
            # httpx keeps 20, fewer than `models.concurrency` may be
            _clients.append(httpx.Client(limits=httpx.Limits(max_keepalive_connections=64)))
        return _clients[0]


class OpenaiServer:
    """A server of OpenAI's protocol and one of its models; safe for threads."""

    def __init__(self, model: str, api_base: str, timeout_seconds: float) -> None:
        self.name = model.partition("/")[2]
        self._model, self._where = model, named(model, api_base)
        self._timeout_seconds = timeout_seconds
        self._api_base = api_base

    def post(self, path: str, body: Mapping[str, Any], on_text: OnText | None = None) -> Any:
        """Returns the document that the server replies with; a chat completion's text goes to `on_text` as it comes.

        Raises:
            CallFailedError: If there is none.
        """
        send = partial(self._sent, path, {"model": self.name, **body}, on_text)
        try:
            response = within(self._timeout_seconds, send)
        except TimeoutError as error:
            raise self._failed(Failure(Reach.TIMED_OUT, "no reply in time.")) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reach = connection_reach(error) or (Reach.UNREACHED if isinstance(error, httpx.InvalidURL) else Reach.LOST)
            raise self._failed(Failure(reach, one_line(connection_words(error) or str(error)))) from error
        try:
            document = response.json(parse_int=whole_number)
        except (ValueError, RecursionError):
            document = None
        if not response.is_success:
            raise self._failed(_refused(response, document))
        if document is None:
            raise self._failed(Failure(Reach.LOST, one_line(server_words(response.text[:_LONGEST_ERROR]))))
        return document

    def unusable(self, document: Any) -> CallFailedError:
        """The error of a reply of another form than was asked for."""
        return self._failed(Failure(Reach.LOST, one_line(server_words(document))))

    def _sent(self, path: str, body: Mapping[str, Any], on_text: OnText | None) -> httpx.Response:
        address = self._api_base or os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE")
        url = f"{(address or OPENAI_ADDRESS).rstrip('/')}/{path}"
        options: dict[str, Any] = {"headers": self._headers(), "timeout": self._timeout_seconds}
        if on_text is not None:
            asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
            with _client().stream("POST", url, content=json.dumps(asked).encode(), **options) as response:
                if response.headers.get("content-type", "").startswith("text/event-stream"):
                    return httpx.Response(response.status_code, json=_joined(response.iter_lines(), on_text))
                response.read()
            if response.status_code not in {400, 422}:
                return response
        # Also after a refusal, which may be that of a server that does not stream.
        return _client().post(url, content=json.dumps(body).encode(), **options)

    def _headers(self) -> dict[bytes, bytes]:
        variable = litellm_client.key_variable(self._model)
        key = os.environ.get(variable, "").strip() or ("none" if self._api_base else "")
        if not key:
            raise self._failed(Failure(Reach.UNSENT, "no key.", missing_keys=[variable]))
        headers = {b"content-type": b"application/json", b"authorization": f"Bearer {key}".encode()}
        if not self._api_base:
            organization = os.environ.get("OPENAI_ORGANIZATION") or os.environ.get("OPENAI_ORG_ID")
            owners = {b"openai-organization": organization, b"openai-project": os.environ.get("OPENAI_PROJECT_ID")}
            headers |= {name: value.encode() for name, value in owners.items() if value}
        return headers

    def _failed(self, failure: Failure) -> CallFailedError:
        return failed_call(failure, self._model, self._where)


def _joined(lines: Iterable[str], on_text: OnText) -> dict[str, Any]:
    """Returns the chat completion whose parts come as server-sent events; one that does not end has no choice."""
    content, refusal, reason, usage = "", "", None, None
    for line in lines:
        data = line.removeprefix("data:").strip()
        if data in {line, "[DONE]"}:
            continue
        try:
            event: dict[str, Any] = json.loads(data, parse_int=whole_number)
            if event.get("error"):
                return event
            usage = event.get("usage") or usage
            for choice in event.get("choices", [])[:1]:
                delta = choice.get("delta") or {}
                content, refusal = content + (delta.get("content") or ""), refusal + (delta.get("refusal") or "")
                reason = choice.get("finish_reason") or reason
                on_text(content)
        except (ValueError, TypeError, AttributeError, RecursionError):
            return {"error": {"message": f"an event of the stream is not valid JSON: {data[:100]}"}}
    if reason is None:
        return {"error": {"message": "the stream ended before the reply did"}}
    message = {"content": content, "refusal": refusal or None}
    return {"choices": [{"message": message, "finish_reason": reason}], "usage": usage}


def _refused(response: httpx.Response, document: Any) -> Failure:
    """A failure by the server's own words."""
    text = response.text[:_LONGEST_ERROR]
    message = server_words(document if isinstance(document, dict) else text) or response.reason_phrase
    error = document.get("error") if isinstance(document, dict) else None
    parameter = error.get("param") if isinstance(error, dict) else None
    refusal = Refusal.OTHER
    if 400 <= response.status_code < 500:
        is_long = _TOO_LONG.search(text) is not None
        refusal = Refusal.TOO_LONG if is_long else refusal
        refusal = Refusal.CONTENT if "content_policy_violation" in text else refusal
    return Failure(
        Reach.ANSWERED,
        one_line(message),
        response.status_code,
        retry_after_of(response.headers),
        refusal,
        parameter if isinstance(parameter, str) else "",
    )


PLAIN = 2  # the last of the three forms below: JSON schema (0), JSON object (1), words of the prompt alone


class Completions:
    """Calls one model; remembers which form of structured output its server accepts. Safe for threads.

    The forms, from the strictest: JSON schema, any JSON object, plain text.
    """

    def __init__(self, model: str, settings: ModelSettings) -> None:
        self._model, self._settings = model, settings
        self._server: OpenaiServer | None = None
        self._limit_name, self._has_temperature = "max_tokens", True
        if is_direct(model, settings.api_base):
            self._server = OpenaiServer(model, settings.api_base, settings.timeout_seconds)
            if _REASONING.match(self._server.name):
                self._limit_name = "max_completion_tokens"
                self._has_temperature = table_entry(model).get("default_reasoning_effort") == "none"
        self._form = 0
        self._is_form_proven = False

    def call(
        self,
        messages: Sequence[Mapping[str, str]],
        name: str,
        reply: type[BaseModel],
        max_output_tokens: int,
        on_text: OnText | None = None,
    ) -> EndpointReply[Completion]:
        """Returns the model's reply to messages; `on_text` gets its text so far, but from litellm.

        Raises:
            CallFailedError: With a ModelError; a form that the server refuses is retryable, with the next form. With a
                ModelKeyError if the key is missing or refused.
        """
        form = self._form
        parameters: dict[str, Any] = {"temperature": 0} if self._has_temperature else {}
        if form < PLAIN:
            parameters["response_format"] = response_format(name, reply) if form == 0 else {"type": "json_object"}
        parameters[self._limit_name] = max_output_tokens
        try:
            answer = self._answer([dict(message) for message in messages], parameters, on_text)
        except CallFailedError as failed:
            if not self._goes_without(failed, form, parameters):
                raise
            # The server refuses a parameter; the next call goes without it.
            message = failed.failure.message if failed.failure else str(failed.error)
            rejected = errors.ModelRejectedError(f"The server rejects this form of structured output: {message}")
            rejected.retryable = True
            raise CallFailedError(rejected, may_be_billed=False) from failed
        self._is_form_proven = True
        return answer

    def _answer(
        self, messages: list[dict[str, str]], parameters: dict[str, Any], on_text: OnText | None
    ) -> EndpointReply[Completion]:
        if self._server is None:
            return litellm_client.complete(self._model, self._settings, messages, parameters)
        document = self._server.post("chat/completions", {"messages": messages, **parameters}, on_text)
        try:
            return completion_of(document)
        except errors.MalformedReplyError as error:
            raise self._server.unusable(document) from error

    def _goes_without(self, failed: CallFailedError, form: int, parameters: Mapping[str, Any]) -> bool:
        """Adapts the next call to what the server refused of this one; returns False if nothing is left to change."""
        failure = failed.failure
        if failure is None or not isinstance(failed.error, errors.ModelRejectedError):
            return False
        if failure.parameter == "temperature" and "temperature" in parameters:
            self._has_temperature = False
            return True
        if failure.parameter == "max_tokens" and "max_tokens" in parameters and self._server is not None:
            self._limit_name = "max_completion_tokens"
            return True
        is_wrong = failure.status in {400, 422} and failure.refusal is Refusal.OTHER and not self._is_form_proven
        if is_wrong and form < PLAIN:
            # the server found the request itself wrong: perhaps the form, unless that has worked before
            self._form = max(self._form, form + 1)  # another call may have gone further meanwhile
            return True
        if is_wrong:
            self._form = 0
        return False
