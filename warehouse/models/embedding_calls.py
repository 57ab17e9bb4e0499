"""One call for embeddings through litellm: texts to vectors, whatever the provider.

Retries nothing and limits nothing (embedding_gateway.py does). litellm takes seconds to import, hence the first call
imports it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from polyhop.schemas.errors import MalformedReplyError, ModelKeyError
from polyhop.warehouse.models.failed_calls import said_by, status_of
from polyhop.warehouse.models.litellm_client import (
    CallFailedError,
    address_of,
    import_litellm,
    named,
    open_connections,
    translated,
)

INPUT_TYPES = {
    "cohere": ("search_query", "search_document"),
    "voyage": ("query", "document"),
    "nvidia_nim": ("query", "passage"),
}
"""Providers whose models read questions and passages differently: their words for the two, as litellm hands them on.
Source: Cohere, Embed API v2 (2024); Voyage AI, Embeddings API (2024); NVIDIA, NIM text embedding (2024)."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """What a server sent: lists of numbers in the order of the texts, and the tokens that it says it read (0: none)."""

    vectors: list[Any]
    tokens: int


class EmbeddingCalls:
    """Calls one model; safe for threads.

    Args:
        model: Provider and model, as litellm names them.
        api_base: Address of an OpenAI-compatible server; "": the provider's own.
        dimension: Asked of the server; 0: not asked.
        timeout_seconds: To wait for a reply.
    """

    def __init__(self, model: str, api_base: str, dimension: int, timeout_seconds: float) -> None:
        self._model = model
        self._timeout_seconds = timeout_seconds
        self._address = address_of(model, api_base)
        self._where = named(model, api_base)
        self._dimension = dimension

    def call(self, texts: Sequence[str], *, is_question: bool) -> Embedded:
        """The vectors of texts, as they came.

        Args:
            texts: Any texts but "".
            is_question: Whether they are asked with, not searched in; some providers want to know.

        Raises:
            CallFailedError: With a ModelError; with a ModelKeyError if the key is missing or refused.
        """
        litellm = import_litellm()
        import openai

        open_connections(litellm)
        try:
            answer = litellm.embedding(
                model=self._model,
                input=list(texts),
                timeout=self._timeout_seconds,
                max_retries=0,
                **self._address,
                **self._parameters(is_question=is_question),
            )
        except openai.OpenAIError as error:
            ours, may_be_billed = translated(error, self._model, self._where)
            if status_of(error) == 403:
                ours = ModelKeyError(f"{self._where} refuses the key: {said_by(error)}")
            raise CallFailedError(ours, may_be_billed=may_be_billed) from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:  # litellm's own, at a reply of another form
            malformed = MalformedReplyError(f"The reply of {self._where} is none of embeddings: {said_by(error)}")
            raise CallFailedError(malformed, may_be_billed=True) from error
        return _embedded(answer, self._model)

    def _parameters(self, *, is_question: bool) -> dict[str, Any]:
        types = INPUT_TYPES.get(self._model.partition("/")[0])
        made: dict[str, Any] = {} if types is None else {"input_type": types[0] if is_question else types[1]}
        if self._dimension:
            made |= {"dimensions": self._dimension, "allowed_openai_params": ["dimensions"]}
        return made


def _embedded(answer: Any, model: str) -> Embedded:
    """The vectors in the order of the texts: by their numbers, where each has one."""
    data = getattr(answer, "data", None)
    if not isinstance(data, list):
        malformed = MalformedReplyError(f"The reply of {model} holds no embeddings.")
        raise CallFailedError(malformed, may_be_billed=True)
    rows = _in_order([row if isinstance(row, dict) else dict(row) for row in data])
    tokens = getattr(getattr(answer, "usage", None), "prompt_tokens", 0)
    return Embedded([row.get("embedding") for row in rows], tokens if isinstance(tokens, int) else 0)


def _in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows by their numbers; as they came if these are not 0, 1, 2 and so on, each once."""
    numbers = [row.get("index") for row in rows]
    if sorted(n for n in numbers if isinstance(n, int)) == list(range(len(rows))):
        return [row for _, row in sorted(zip(numbers, rows, strict=True), key=lambda pair: pair[0] or 0)]
    return rows
