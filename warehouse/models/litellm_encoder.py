"""An encoder behind `/embeddings`: texts in batches, with retries, limits and a budget.

Every call is in the journal of calls before it is sent, as those of chat models are.
"""

import time
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import (
    MalformedReplyError,
    ModelEndpointError,
    ModelKeyError,
    ModelUnavailableError,
    ModelUnreachableError,
)
from polyhop.schemas.ports import KeepVectors
from polyhop.schemas.settings import ModelSettings
from polyhop.schemas.text import content_hash
from polyhop.warehouse.cache.replies import ReplyCache, ReplySource
from polyhop.warehouse.models import endpoints, litellm_client
from polyhop.warehouse.models.budget import EMBED_TASK, Budget, count_tokens, cut_text
from polyhop.warehouse.models.calls import PaidCalls, PaidRequest, Stop, run_all
from polyhop.warehouse.models.completions import OpenaiServer, is_direct, prepare
from polyhop.warehouse.models.onnx_session import clean_text, unit_rows

INPUT_TYPES = {
    "cohere": ("search_query", "search_document"),
    "voyage": ("query", "document"),
    "nvidia_nim": ("query", "passage"),
}
"""Providers whose models read questions and passages differently: their words for the two, as litellm hands them on.
Source: Cohere, Embed API v2 (2024); Voyage AI, Embeddings API (2024); NVIDIA, NIM text embedding (2024)."""


class EmbeddingGateway(PaidCalls):
    """Asks one model for vectors; safe for threads."""

    def __init__(
        self,
        model: str,
        api_base: str,
        dimension: int,
        settings: ModelSettings,
        replies: ReplyCache,
        budget: Budget,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(model, settings, replies, budget, sleep=sleep)
        self.concurrency = settings.concurrency
        self._api_base = api_base
        self._where = endpoints.named(model, api_base)
        is_openai = is_direct(model, api_base)
        self._server = OpenaiServer(model, api_base, settings.timeout_seconds) if is_openai else None
        self._dimension = dimension

    def embed(self, texts: Sequence[str], dimension: int, stop: Stop, *, is_question: bool) -> NDArray[np.float32]:
        """Vectors of one batch of texts, none of them "", after at most `models.max_attempts` calls.

        Each vector must have `dimension` components; 0: any. Some providers want to know whether texts are questions.

        Returns:
            Shape (len(texts), d), float32, rows of length 1, in input order.

        Raises:
            BudgetExceededError: If the call might exceed the budget, or the run is stopping; it is not made.
            ModelKeyError: If the key is missing or refused.
            ModelEndpointError: If there is no server at the model's address.
            ModelError: If no attempt brought vectors that can be used.
        """
        prepare(self.model, self._api_base)  # imports are not the server's seconds
        key = content_hash(EMBED_TASK, self.model, *texts)
        asked = PaidRequest(ReplySource(key, self.model, EMBED_TASK, "", 1), stop)
        tokens = sum(count_tokens(text, self.model) for text in texts)

        def attempt() -> NDArray[np.float32]:
            send = partial(self._send, texts, is_question=is_question)
            return self._call(asked, tokens, 0, send, lambda rows: unit_rows(rows, len(texts), dimension, self.model))

        with self._claims.held(asked.source.key, stop.is_set):
            try:
                return self._attempts(asked, attempt)
            except ModelUnavailableError as error:
                error.args = (endpoints.in_attempts(str(error), asked.usage.calls),)
                if self._is_reached or not isinstance(error, ModelUnreachableError):
                    raise
                raise ModelEndpointError(
                    f"{str(error).rstrip('.')}. No text was encoded; start the server, or correct encoder.api_base."
                ) from error

    def _send(self, texts: Sequence[str], *, is_question: bool) -> endpoints.EndpointReply[list[Any]]:
        """The lists of numbers of texts, as they came."""
        try:
            document = self._document(texts, is_question=is_question)
        except endpoints.CallFailedError as failed:
            if failed.failure is None or failed.failure.status != 403:
                raise
            refused = ModelKeyError(f"{self._where} refuses the key: {failed.failure.message}")
            raise endpoints.CallFailedError(refused, may_be_billed=False) from failed
        data = document.get("data") if isinstance(document, dict) else None
        if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
            malformed = MalformedReplyError(f"The reply of {self.model} holds no embeddings.")
            raise endpoints.CallFailedError(malformed, may_be_billed=True)
        rows: list[dict[str, Any]] = data
        numbers = [row.get("index") for row in rows]
        if sorted(n for n in numbers if isinstance(n, int)) == list(range(len(rows))):  # each once: in that order
            rows = [row for _, row in sorted(zip(numbers, rows, strict=True), key=lambda pair: pair[0] or 0)]
        usage = document.get("usage")
        tokens = endpoints.token_count(usage.get("prompt_tokens") if isinstance(usage, dict) else None)
        return endpoints.EndpointReply([row.get("embedding") for row in rows], "", tokens, 0)

    def _document(self, texts: Sequence[str], *, is_question: bool) -> Any:
        """A reply in the form of OpenAI's embeddings."""
        parameters: dict[str, Any] = {"dimensions": self._dimension} if self._dimension else {}
        if self._server is not None:
            return self._server.post("embeddings", {"input": list(texts), **parameters})
        types = INPUT_TYPES.get(self.model.partition("/")[0])
        if types is not None:
            parameters["input_type"] = types[0] if is_question else types[1]
        if self._dimension:
            parameters["allowed_openai_params"] = ["dimensions"]
        return litellm_client.embeddings(self.model, self._api_base, self._settings, texts, parameters)


class LitellmEncoder:
    """One side of a model, of questions or of passages; safe for threads. `model` names all that determines a vector.

    `name` are provider and model, as litellm names them. The gateway, whose budget ends with a run, is opened before
    each call of `batch_size` texts, cut after `max_tokens` (0: not cut). A dimension of 0 is not asked for.
    """

    def __init__(
        self,
        name: str,
        gateway: Callable[[], EmbeddingGateway],
        *,
        asked_dimension: int = 0,
        max_tokens: int = 0,
        batch_size: int,
    ) -> None:
        dimension = f"@{asked_dimension}" if asked_dimension else ""
        self.model = f"litellm:{name}{dimension}{f'<{max_tokens}' if max_tokens else ''}"
        self.max_tokens = max_tokens
        self.is_question = False
        self._name = name
        self._gateway = gateway
        self._dimensions = [asked_dimension] if asked_dimension else []  # both sides of the model share the list
        self._batch_size = batch_size

    @property
    def dimension(self) -> int:
        """Components of a vector, 0 until it is known."""
        return self._dimensions[0] if self._dimensions else 0

    def expect(self, dimension: int) -> None:
        """Every vector from now on must have so many components, unless another number is known."""
        if not self.dimension:
            self._dimensions.append(dimension)  # the first one counts, if two threads come together

    def for_questions(self) -> "LitellmEncoder":
        """The same model, which reads questions."""
        other = copy(self)
        other.is_question = True
        return other

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of texts; see `encode_kept`."""
        return self.encode_kept(texts, lambda _numbers, _vectors: None)

    def encode_kept(self, texts: Sequence[str], keep: KeepVectors) -> NDArray[np.float32]:
        """Vectors of texts, every batch handed over as soon as it is there.

        After the first error, or Ctrl-C, no call begins; what those in flight bring is handed over, too.

        Returns:
            Shape (len(texts), dimension), float32, rows of length 1, in input order.
        """
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        gateway, size = self._gateway(), self._batch_size
        # " " stands for an empty text, which OpenAI's servers refuse
        clean = [clean_text(cut_text(text, self.max_tokens, self._name)) or " " for text in texts]
        batches = [range(start, min(start + size, len(clean))) for start in range(0, len(clean), size)]
        found: dict[int, NDArray[np.float32]] = {}

        def embed(numbers: range, stop: Stop) -> None:
            some = [clean[number] for number in numbers]
            vectors = gateway.embed(some, self.dimension, stop, is_question=self.is_question)
            self.expect(vectors.shape[1])
            vectors = unit_rows(vectors, len(some), self.dimension, self._name)  # the first two may differ
            keep(numbers, vectors)
            found[numbers.start] = vectors

        if len(batches) == 1:
            embed(batches[0], Stop())
        else:
            run_all(batches, embed, min(gateway.concurrency, len(batches)), lambda _batch, _none: None, "polyhop-embed")
        return np.concatenate([vectors for _, vectors in sorted(found.items())])
