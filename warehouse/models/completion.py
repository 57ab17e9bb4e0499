"""One call to a chat model through litellm, and the translation of what vendors raise into our errors.

Retries nothing, limits nothing and reads no reply (chat.py does). litellm takes seconds to import, hence the first
call imports it; it is kept from the network, from printing and from retrying by itself.
"""

import logging
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from inspect import iscoroutinefunction
from threading import Lock
from typing import Any

from pydantic import BaseModel

from polyhop.schemas.errors import (
    ContextTooLongError,
    ModelKeyError,
    ModelRateLimitError,
    ModelRejectedError,
    ModelTimeoutError,
    ModelUnavailableError,
    ModelUnreachableError,
    PolyhopError,
    ReplyRefusedError,
)
from polyhop.schemas.redaction import redact, without_values
from polyhop.schemas.settings import ModelSettings
from polyhop.warehouse.models.failed_calls import Reach, reach_of, retry_after_seconds, status_of

PLAIN = 2
MAX_IDLE_CONNECTIONS = 64

_IMPORTING = Lock()


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model said.

    Attributes:
        text: The reply, "" if there is none.
        refusal: Why the model declined, "" if it did not.
        prompt_tokens: As reported, 0 if it was not.
        completion_tokens: As reported, 0 if it was not.
    """

    text: str
    refusal: str
    prompt_tokens: int
    completion_tokens: int


class CallFailedError(Exception):
    """A call that brought no reply.

    Attributes:
        error: Why, in our words: a ModelError, or a ModelKeyError.
        may_be_billed: The server may have written a whole reply that never arrived.
    """

    def __init__(self, error: PolyhopError, *, may_be_billed: bool) -> None:
        self.error = error
        self.may_be_billed = may_be_billed
        super().__init__(str(error))


class Completions:
    """Calls one model; remembers which form of structured output its server accepts. Safe for threads.

    The forms, from the strictest: JSON schema, any JSON object, plain text.
    """

    def __init__(self, model: str, settings: ModelSettings) -> None:
        self._model = model
        self._timeout_seconds = settings.timeout_seconds
        self._address = _address(model, settings.api_base)
        self._form = 0
        self._is_form_proven = False
        self._has_temperature = True

    def call(
        self, messages: Sequence[Mapping[str, str]], name: str, reply: type[BaseModel], max_output_tokens: int
    ) -> Completion:
        """What the model says to messages.

        Args:
            messages: In OpenAI's form.
            name: Of the reply's form, for the model.
            reply: The form of the reply.
            max_output_tokens: Most tokens of the reply.

        Raises:
            CallFailedError: With a ModelError; a form that the server refuses is retryable, with the next form. With a
                ModelKeyError if the key is missing or refused.
        """
        litellm = import_litellm()
        import openai

        _open_connections(litellm)
        form = self._form
        parameters: dict[str, Any] = {"temperature": 0} if self._has_temperature else {}
        if form < PLAIN:
            parameters["response_format"] = _response_format(name, reply) if form == 0 else {"type": "json_object"}
        try:
            answer = litellm.completion(
                model=self._model,
                messages=[dict(message) for message in messages],
                max_tokens=max_output_tokens,
                timeout=self._timeout_seconds,
                num_retries=0,
                max_retries=0,
                **self._address,
                **parameters,
            )
        except openai.OpenAIError as error:
            raise self._failure(error, form) from error
        self._is_form_proven = True
        return _completion(answer)

    def _failure(self, error: Exception, form: int) -> CallFailedError:
        """A vendor's error in our words."""
        litellm = import_litellm()
        if isinstance(error, litellm.UnsupportedParamsError) and "temperature" in str(error) and self._has_temperature:
            self._has_temperature = False
            return _again(error)
        translated, may_be_billed = _translated(error, self._model)
        if status_of(error) == 403 and not self._is_form_proven:
            translated = ModelKeyError(f"The server of {self._model} refuses the key: {_said(error)}")
        is_form_refused = status_of(error) in {400, 422} and not isinstance(
            error, litellm.exceptions.LiteLLMUnknownProvider
        )
        if not isinstance(translated, ModelRejectedError) or not is_form_refused:
            return CallFailedError(translated, may_be_billed=may_be_billed)
        if form < PLAIN and not self._is_form_proven:
            self._form = max(self._form, form + 1)
            return _again(error)
        if not self._is_form_proven:
            self._form = 0
        return CallFailedError(translated, may_be_billed=False)


@cache
def reply_schema(reply: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a form as strict structured output wants it: every field required, no others, no defaults."""
    strict = _strict(reply.model_json_schema(by_alias=True))
    return strict if isinstance(strict, dict) else {}


def import_litellm() -> Any:
    """The package litellm without its price list from the network, its hints on the screen and its usage statistics."""
    with _IMPORTING:
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
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


def _open_connections(litellm: Any) -> None:
    """One pool of connections for all threads: left alone, each of the first calls would open and lose its own."""
    import httpx

    with _IMPORTING:
        if litellm.client_session is None:
            litellm.client_session = httpx.Client(limits=httpx.Limits(max_keepalive_connections=MAX_IDLE_CONNECTIONS))


@cache
def _quiet_litellm() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import litellm
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with warnings.catch_warnings():  # its first reply builds pydantic models that warn; this one is made on the spot
        warnings.simplefilter("ignore")
        message = {"role": "user", "content": "-"}
        litellm.completion(model="openai/none", messages=[message], mock_response="-", api_key="none")
    return litellm


def _address(model: str, api_base: str) -> dict[str, str]:
    """Where to call; a server of one's own often wants no key, but the protocol's client does."""
    if not api_base:
        return {}
    provider = model.partition("/")[0].upper().replace("-", "_")
    return {"api_base": api_base} | ({} if os.environ.get(f"{provider}_API_KEY") else {"api_key": "none"})


def _response_format(name: str, reply: type[BaseModel]) -> dict[str, Any]:
    form = {"name": name.replace(".", "_"), "schema": reply_schema(reply), "strict": True}
    return {"type": "json_schema", "json_schema": form}


def _strict(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _strict(part) for key, part in schema.items() if key != "default"}
    if isinstance(schema.get("properties"), dict):
        made["properties"] = {name: _strict(part) for name, part in schema["properties"].items()}
        made |= {"required": list(schema["properties"]), "additionalProperties": False}
    return made


def _completion(answer: Any) -> Completion:
    choice = answer.choices[0] if answer.choices else None
    message = getattr(choice, "message", None)
    refusal = (getattr(message, "provider_specific_fields", None) or {}).get("refusal") or ""
    if getattr(choice, "finish_reason", None) == "content_filter":
        refusal = refusal or "its content filter stopped it"
    usage = getattr(answer, "usage", None)
    return Completion(
        text=without_values(getattr(message, "content", None) or ""),
        refusal=redact(str(refusal)),
        prompt_tokens=int(getattr(usage, "prompt_tokens", 0) or 0),
        completion_tokens=int(getattr(usage, "completion_tokens", 0) or 0),
    )


def _translated(error: Exception, model: str) -> tuple[PolyhopError, bool]:
    """Our error for a vendor's, and whether the call may be billed."""
    litellm = import_litellm()
    said = _said(error)
    if isinstance(error, litellm.ContextWindowExceededError):
        return ContextTooLongError(f"The request is longer than {model} can read: {said}"), False
    if isinstance(error, litellm.ContentPolicyViolationError):
        return ReplyRefusedError(f"{model} declined to answer: {said}"), False
    reach, status = reach_of(error), status_of(error)
    if reach is Reach.UNREACHED:
        return ModelUnreachableError(f"No connection to the server of {model} could be made: {said}"), False
    if reach is Reach.UNSENT or status == 401:
        return ModelKeyError(f"The key of {model} is missing or refused: {said}"), False
    if reach is Reach.TIMED_OUT or status in {408, 504}:
        return ModelTimeoutError(f"{model} did not reply in time: {said}"), reach is Reach.TIMED_OUT
    retry_after = retry_after_seconds(error)
    if status == 429 or (status == 503 and retry_after is not None):
        return ModelRateLimitError(f"{model} rate-limits its callers: {said}", retry_after), False
    if status is not None and 400 <= status < 500 and status not in {409, 425}:
        return ModelRejectedError(f"{model} does not accept the request ({status}): {said}"), False
    return ModelUnavailableError(f"{model} is unavailable: {said}"), reach is Reach.LOST


def _again(error: Exception) -> CallFailedError:
    """The server refuses a parameter; the next call goes without it."""
    rejected = ModelRejectedError(f"The server refuses a form of structured output: {_said(error)}")
    rejected.retryable = True
    return CallFailedError(rejected, may_be_billed=False)


def _said(error: Exception) -> str:
    """The vendor's words on one line; without secrets before they are cut, for half a secret would not be found."""
    return redact(" ".join(str(error).split()))[:300]
