"""One call to a chat model through litellm, in the strictest form of output that its server accepts.

Retries nothing, limits nothing and reads no reply (chat.py does).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import isfinite
from typing import Any

from pydantic import BaseModel

from polyhop.schemas.errors import ModelForbiddenError, ModelRejectedError
from polyhop.schemas.model_settings import ModelSettings
from polyhop.schemas.redaction import redact, without_values
from polyhop.warehouse.models.failed_calls import said_by, status_of
from polyhop.warehouse.models.litellm_client import (
    CallFailedError,
    address_of,
    import_litellm,
    named,
    open_connections,
    translated,
)

PLAIN = 2  # the last of the three forms below: JSON schema (0), JSON object (1), words of the prompt alone


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


class Completions:
    """Calls one model; remembers which form of structured output its server accepts. Safe for threads.

    The forms, from the strictest: JSON schema, any JSON object, plain text.
    """

    def __init__(self, model: str, settings: ModelSettings) -> None:
        self._model = model
        self._timeout_seconds = settings.timeout_seconds
        self._address = address_of(model, settings.api_base)
        self._where = named(model, settings.api_base)
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
                ModelKeyError if the key is missing or refused, or may be (ModelForbiddenError).
        """
        litellm = import_litellm()
        import openai

        open_connections(litellm)
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
        ours, may_be_billed = translated(error, self._model, self._where)
        if status_of(error) == 403 and isinstance(ours, ModelRejectedError) and not self._is_form_proven:
            ours = ModelForbiddenError(f"{self._where} refuses the key: {said_by(error)}", ours)
        if isinstance(ours, ModelRejectedError) and _may_refuse_form(error):
            return self._form_refused(error, ours, form)
        return CallFailedError(ours, may_be_billed=may_be_billed)

    def _form_refused(self, error: Exception, ours: ModelRejectedError, form: int) -> CallFailedError:
        """Goes on to the next form of output, unless one has worked before or all were refused."""
        if form < PLAIN and not self._is_form_proven:
            self._form = max(self._form, form + 1)  # another call may have gone further meanwhile
            return _again(error)
        if not self._is_form_proven:
            self._form = 0
        return CallFailedError(ours, may_be_billed=False)


@cache
def reply_schema(reply: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a form as strict structured output wants it: every field required, no others, no defaults."""
    strict = _strict(reply.model_json_schema(by_alias=True))
    return strict if isinstance(strict, dict) else {}


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


def _may_refuse_form(error: Exception) -> bool:
    """Whether an error may be about the form of output: the server found the request itself wrong."""
    unknown_provider = import_litellm().exceptions.LiteLLMUnknownProvider
    return status_of(error) in {400, 422} and not isinstance(error, unknown_provider)


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
        prompt_tokens=_count(usage, "prompt_tokens"),
        completion_tokens=_count(usage, "completion_tokens"),
    )


def _count(usage: Any, name: str) -> int:
    """Reported tokens, 0 for what is no number; most servers' nonsense was left out before (bounded_http.py)."""
    value = getattr(usage, name, 0)
    return int(value) if isinstance(value, int | float) and isfinite(value) else 0


def _again(error: Exception) -> CallFailedError:
    """The server refuses a parameter; the next call goes without it."""
    rejected = ModelRejectedError(f"The server refuses a form of structured output: {said_by(error)}")
    rejected.retryable = True
    return CallFailedError(rejected, may_be_billed=False)
