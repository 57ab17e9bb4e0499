"""The package litellm, without network access and retries of its client, its errors as sentences.

litellm takes seconds to import, hence the first call imports it.
"""

import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from inspect import iscoroutinefunction
from threading import Lock
from typing import Any

import httpx
from pydantic import BaseModel

from polyhop.schemas import errors
from polyhop.schemas.settings import ModelSettings
from polyhop.warehouse.models.endpoints import (
    CallFailedError,
    Completion,
    EndpointReply,
    Failure,
    Reach,
    Refusal,
    causes_of,
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

_KEY_WORDS = re.compile(r"\b(missing|pass|set|no|provide|requires?)\b.{0,60}\b(api[ _]?key|credentials)", re.IGNORECASE)
"""The provider's package refuses to begin without a key, whatever class of error it takes for that."""

_IMPORTING = Lock()


def import_litellm() -> Any:
    """The package litellm without its price list from the network, its hints on the screen and its usage statistics."""
    with _IMPORTING:
        return _quiet_litellm()


def close_connections() -> None:
    """Closes the connections that litellm keeps open between calls; a later call opens new ones."""
    if "litellm" not in sys.modules:
        return
    litellm = import_litellm()
    with _IMPORTING:
        clients = litellm.in_memory_llm_clients_cache
        for client in list(clients.cache_dict.values()):
            close = getattr(client, "close", None)
            if callable(close) and not iscoroutinefunction(close):
                close()
        clients.flush_cache()
        if litellm.client_session is not None:
            litellm.client_session.close()
            litellm.client_session = None


def open_connections(litellm: Any) -> None:
    """One pool of connections for all threads: left alone, each of the first calls would open and lose its own."""
    with _IMPORTING:
        if litellm.client_session is None:
            # httpx keeps 20, fewer than `models.concurrency` may be
            litellm.client_session = httpx.Client(limits=httpx.Limits(max_keepalive_connections=64))


@cache
def _quiet_litellm() -> Any:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import litellm

        litellm.suppress_debug_info = True
        litellm.telemetry = False
        litellm.DEFAULT_MAX_RETRIES = 0  # of embeddings, where max_retries=0 counts as unset
        for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        # its first reply builds pydantic models that warn; this one is made on the spot
        messages = [{"role": "user", "content": "-"}]
        litellm.completion(model="openai/none", messages=messages, mock_response="-", api_key="none")
    return litellm


def address_of(model: str, api_base: str) -> dict[str, str]:
    """Address arguments of a call; local servers need no key, but the protocol's client requires one."""
    if not api_base:
        return {}
    return {"api_base": api_base} | ({} if os.environ.get(key_variable(model)) else {"api_key": "none"})


def key_variable(model: str) -> str:
    """The environment variable that holds the key of a model's provider."""
    return f"{model.partition('/')[0].upper().replace('-', '_')}_API_KEY"


def call_failed(error: Exception, model: str, where: str) -> CallFailedError:
    """Our error for one of litellm, whose chain ends with that of the HTTP client."""
    litellm = import_litellm()
    causes = list(causes_of(error))
    status = getattr(error, "status_code", None)
    headers = getattr(error, "litellm_response_headers", None) or getattr(
        getattr(error, "response", None), "headers", None
    )
    refusal = Refusal.OTHER
    if isinstance(error, litellm.ContextWindowExceededError):
        refusal = Refusal.TOO_LONG
    elif isinstance(error, litellm.ContentPolicyViolationError):
        refusal = Refusal.CONTENT
    elif isinstance(error, litellm.exceptions.LiteLLMUnknownProvider):
        refusal = Refusal.UNKNOWN_PROVIDER
    is_temperature = isinstance(error, litellm.UnsupportedParamsError) and "temperature" in str(error)
    of_server = [words for cause in causes if (words := server_words(getattr(cause, "body", None)))]
    reach = _reach_of(error)
    missing: list[str] = []
    if reach is Reach.UNSENT:
        missing = sorted(litellm.validate_environment(model)["missing_keys"]) or [key_variable(model)]
    failure = Failure(
        reach,
        one_line([*of_server[:1], connection_words(error)][0] or str(error)),
        None if status is None else int(status),
        retry_after_of(headers),
        refusal,
        "temperature" if is_temperature else "",
        missing,
    )
    return failed_call(failure, model, where)


def _reach_of(error: BaseException) -> Reach:
    """Progress of a failed call."""
    import openai

    if (reach := connection_reach(error)) is not None:
        return reach
    if any(isinstance(cause, openai.APITimeoutError) for cause in causes_of(error)):
        return Reach.TIMED_OUT
    return Reach.UNSENT if _KEY_WORDS.search(" ".join(str(error).split())[:500]) else Reach.LOST


def guarded(call: Callable[[], Any], seconds: float, model: str, where: str) -> Any:
    """Returns the result of a litellm call, which must come within a time limit.

    Raises:
        CallFailedError: If the call fails, or takes longer.
    """
    import openai

    open_connections(import_litellm())
    try:
        return within(seconds, call)
    except TimeoutError as error:
        raise failed_call(Failure(Reach.TIMED_OUT, "no reply in time."), model, where) from error
    except openai.OpenAIError as error:
        raise call_failed(error, model, where) from error


def complete(
    model: str, settings: ModelSettings, messages: Sequence[dict[str, str]], parameters: dict[str, Any]
) -> EndpointReply[Completion]:
    """Returns a model's reply to messages.

    Raises:
        CallFailedError: If there is none.
    """
    litellm, seconds = import_litellm(), settings.timeout_seconds
    limits = {"timeout": seconds, "num_retries": 0, "max_retries": 0, **address_of(model, settings.api_base)}
    where = named(model, settings.api_base)
    call = lambda: litellm.completion(model=model, messages=list(messages), **limits, **parameters)  # noqa: E731
    document = guarded(call, seconds, model, where).model_dump()
    for choice in document["choices"]:
        message = choice.get("message") or {}
        message["refusal"] = (message.get("provider_specific_fields") or {}).get("refusal")
    return completion_of(document)


def embeddings(
    model: str, api_base: str, settings: ModelSettings, texts: Sequence[str], parameters: dict[str, Any]
) -> Any:
    """Returns a reply in the form of OpenAI's embeddings.

    Raises:
        CallFailedError: If there is none.
    """
    litellm, seconds = import_litellm(), settings.timeout_seconds
    limits = {"timeout": seconds, "max_retries": 0, **address_of(model, api_base)}
    where = named(model, api_base)
    call = lambda: litellm.embedding(model=model, input=list(texts), **limits, **parameters)  # noqa: E731
    try:
        answer = guarded(call, seconds, model, where)
        return answer.model_dump()
    except (ValueError, TypeError, KeyError, AttributeError) as error:  # litellm's own, at a reply of another form
        message = one_line(connection_words(error) or str(error))
        malformed = errors.MalformedReplyError(f"The reply of {where} has no embeddings: {message}")
        raise CallFailedError(malformed, may_be_billed=True) from error


BATCH_PROVIDERS = ("openai", "azure", "hosted_vllm", "litellm_proxy")
"""Providers, as litellm names them, that take batches in OpenAI's form, list them, and keep their metadata."""
_OVER = ("completed", "expired", "cancelled")
_PER_PAGE = 100  # batches of a listing, OpenAI's most
LEAST_FILE_SECONDS = 600.0  # chosen: a file of a part may have 100 MB


@dataclass(frozen=True, slots=True)
class BatchState:
    """A batch as its provider shows it: whether it has ended, why it was refused as a whole ("": it was not)."""

    batch_id: str
    is_over: bool
    is_complete: bool  # No request was left unanswered at its end.
    refusal: str
    files: tuple[str, ...]


class BatchEndpoint:
    """The files and batches of a model's provider. Every method raises CallFailedError."""

    def __init__(self, model: str, settings: ModelSettings) -> None:
        self._model, self._where = model, named(model, settings.api_base)
        self._name, provider, *_ = import_litellm().get_llm_provider(model)
        if provider not in BATCH_PROVIDERS:
            raise errors.ConfigurationError(
                f"Batches of {provider} cannot be looked up by a key, so a killed run might pay twice; "
                f"models.mode=batch works with {', '.join(BATCH_PROVIDERS)}. Set models.mode=single."
            )
        self._provider = provider
        self._seconds = max(settings.timeout_seconds, LEAST_FILE_SECONDS)
        self._options = {"custom_llm_provider": provider, "timeout": self._seconds, "max_retries": 0}
        self._options |= address_of(model, settings.api_base)
        self._parameters: dict[tuple[str, int], dict[str, Any]] = {}

    def body(self, text: str, name: str, reply: type[BaseModel], longest: int) -> dict[str, Any]:
        """Body of the first request of `Completions`, as a line of a batch holds it."""
        if (name, longest) not in self._parameters:
            litellm = import_litellm()
            asked = {"max_tokens": longest, "response_format": response_format(name, reply)}
            about = {"model": self._name, "custom_llm_provider": self._provider}
            try:
                made = litellm.get_optional_params(**about, temperature=0, **asked)
            except litellm.UnsupportedParamsError:
                made = litellm.get_optional_params(**about, **asked)
            kept = {key: value for key, value in made.items() if key not in {"stream", "extra_body"}}
            self._parameters[name, longest] = {**kept, **(made.get("extra_body") or {})}
        messages = [{"role": "user", "content": text}]
        return {"model": self._name, "messages": messages, **self._parameters[name, longest]}

    def create(self, part: str, lines: bytes) -> BatchState:
        """Uploads requests and submits them as a batch that can be found by the key of its part."""
        file = self._call("create_file", file=("requests.jsonl", lines), purpose="batch")
        window: dict[str, Any] = {"completion_window": "24h", "endpoint": "/v1/chat/completions"}
        return _batch_state(
            self._call("create_batch", input_file_id=file.id, metadata={"polyhop_part": part}, **window)
        )

    def find(self, part: str) -> BatchState | None:
        """The batch of a part ("": none), which a run that was killed has submitted; one that was refused is none."""
        page = self._call("list_batches", limit=_PER_PAGE)
        for batch in self._guarded(lambda: list(page if part else page.data)):  # further pages come by themselves
            if (batch.metadata or {}).get("polyhop_part") == part and batch.status != "failed":
                return _batch_state(batch)
        return None

    def look(self, batch_id: str) -> BatchState:
        """A batch as it is now."""
        return _batch_state(self._call("retrieve_batch", batch_id=batch_id))

    def lines(self, file_id: str) -> list[bytes]:
        """The lines of a file of replies or errors."""
        return bytes(self._call("file_content", file_id=file_id).content).splitlines()

    def _call(self, name: str, **arguments: Any) -> Any:
        litellm = import_litellm()
        return self._guarded(lambda: getattr(litellm, name)(**arguments, **self._options))

    def _guarded(self, call: Callable[[], Any]) -> Any:
        return guarded(call, self._seconds, self._model, self._where)


def _batch_state(batch: Any) -> BatchState:
    said = [str(error.message) for error in getattr(batch.errors, "data", None) or []]
    refusal = errors.redact("; ".join(said)[:300] or "no reason is given") if batch.status == "failed" else ""
    files = tuple(file for file in (batch.output_file_id, batch.error_file_id) if file)
    return BatchState(batch.id, batch.status in _OVER, batch.status == "completed", refusal, files)


def batch_reply(line: bytes) -> tuple[str, EndpointReply[Completion] | None, str]:
    """Custom id of a line of a batch's files ("": it cannot be read), its answer, and the class of its error."""
    try:
        document = json.loads(line, parse_int=whole_number)
        key, response = str(document["custom_id"]), document["response"]
        if response is None or response["status_code"] != 200:
            error = document.get("error")
            is_expired = isinstance(error, dict) and error.get("code") == "batch_expired"
            return key, None, "Expired" if is_expired else errors.ModelUnavailableError.__name__
        answer = completion_of(response["body"])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, errors.MalformedReplyError):
        return "", None, ""
    refused, cut = errors.ReplyRefusedError.__name__, errors.MalformedReplyError.__name__
    return key, answer, refused if answer.value.refusal else cut if answer.value.is_cut else ""
