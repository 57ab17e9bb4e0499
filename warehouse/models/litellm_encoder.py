"""An encoder behind `/embeddings`: texts in batches, with retries, limits and a budget.

Every call is in the journal of calls before it is sent, as those of chat models are.
"""

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tenacity import Retrying, retry_if_exception, stop_after_attempt

from polyhop.schemas.chat import Usage
from polyhop.schemas.errors import (
    BudgetExceededError,
    InvalidVectorError,
    MalformedReplyError,
    ModelEndpointError,
    ModelError,
    ModelKeyError,
    ModelRateLimitError,
    ModelTimeoutError,
    ModelUnavailableError,
    ModelUnreachableError,
    PolyhopError,
)
from polyhop.schemas.ports import KeepVectors
from polyhop.schemas.settings import ModelSettings
from polyhop.schemas.text import content_hash
from polyhop.warehouse.cache.replies import ReplyCache, ReplySource, claims_of
from polyhop.warehouse.models.budget import Budget, Counted, believed, count_tokens, cut_text
from polyhop.warehouse.models.chat import MOST_TIMEOUTS_ALONE, Stop, wait_seconds
from polyhop.warehouse.models.limits import MAX_PAUSE_SECONDS, RateLimiter
from polyhop.warehouse.models.litellm_client import (
    CallFailedError,
    address_of,
    import_litellm,
    in_attempts,
    named,
    open_connections,
    said_by,
    status_of,
    translated,
)
from polyhop.warehouse.models.onnx_session import clean_text, unit_rows
from polyhop.warehouse.statements import noted

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


_LOG = logging.getLogger(__name__)

TASK = "embed"
"""What calls for embeddings are in the journal of calls."""


class EmbeddingGateway:
    """Asks one model for vectors; safe for threads.

    Args:
        model: Provider and model, as litellm names them.
        calls: Calls it.
        settings: Attempts, limits of speed, calls in flight.
        replies: Holds the journal of calls.
        budget: At the model's price.

    Attributes:
        spent: What the calls of this instance took, those that failed included.
        cached: Always 0: who knows a vector does not ask.
        replaced: Calls whose reported token counts were not believed.
        concurrency: Most calls in flight.
    """

    def __init__(
        self,
        model: str,
        calls: EmbeddingCalls,
        settings: ModelSettings,
        replies: ReplyCache,
        budget: Budget,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.model = model
        self.spent = Usage()
        self.cached = self.replaced = 0
        self.concurrency = settings.concurrency
        self._calls = calls
        self._max_attempts = settings.max_attempts
        self._journal = replies.calls
        self._claims = claims_of(replies.path)
        self._budget = budget
        self._lock = Lock()
        self._is_reached = False
        self._sleep = sleep
        limits = settings.requests_per_minute, settings.tokens_per_minute, settings.concurrency
        self._limiter = RateLimiter(*limits, settings.timeout_seconds, sleep=sleep)

    def embed(self, texts: Sequence[str], dimension: int, stop: Stop, *, is_question: bool) -> NDArray[np.float32]:
        """Vectors of one batch, after at most `models.max_attempts` calls.

        Args:
            texts: Any texts but "", as many as the server takes at once.
            dimension: Components that each vector must have; 0: any.
            stop: Whether to begin nothing any more.
            is_question: Whether they are asked with, not searched in.

        Returns:
            Shape (len(texts), d), float32, rows of length 1, in input order.

        Raises:
            BudgetExceededError: If the call might exceed the budget, or the run is stopping; it is not made.
            ModelKeyError: If the key is missing or refused.
            ModelEndpointError: If there is no server at the model's address.
            ModelError: If no attempt brought vectors that can be used.
        """
        import_litellm()  # takes seconds the first time, which are not the server's
        source = ReplySource(content_hash(TASK, self.model, *texts), self.model, TASK, "", 1)
        tokens = sum(count_tokens(text, self.model) for text in texts)
        timeouts = 0

        def is_worth_another(error: BaseException) -> bool:
            nonlocal timeouts
            timeouts += isinstance(error, ModelTimeoutError)
            return timeouts < MOST_TIMEOUTS_ALONE and not stop.is_set() and self._is_passing(error)

        def attempt() -> NDArray[np.float32]:
            return self._attempt(source, texts, tokens, dimension, stop, is_question=is_question)

        retrying = Retrying(
            retry=retry_if_exception(is_worth_another),
            stop=stop_after_attempt(self._max_attempts),
            wait=wait_seconds,
            sleep=self._sleep,
            before_sleep=noted(_LOG, f"a call of {self.model}"),
            reraise=True,
        )
        with self._claims.held(source.key, stop.is_set):
            try:
                return retrying(attempt)
            except ModelUnavailableError as error:
                error.args = (in_attempts(str(error), retrying.statistics["attempt_number"]),)
                if self._is_reached or not isinstance(error, ModelUnreachableError):
                    raise
                raise ModelEndpointError(
                    f"{str(error).rstrip('.')}. No text was encoded; start the server, or correct encoder.api_base."
                ) from error

    def _attempt(
        self, source: ReplySource, texts: Sequence[str], tokens: int, dimension: int, stop: Stop, *, is_question: bool
    ) -> NDArray[np.float32]:
        """One call, in the journal from before it is sent."""
        with self._limiter.call(tokens) as in_flight:
            if stop.is_set():
                raise BudgetExceededError("The run is stopping; this call was not made.")
            reserved = self._budget.reserve(tokens, 0)
            call_id = self._journal.begin(source, Usage(1, tokens, 0, self._budget.cost(tokens, 0)))
            started, usage, error = time.monotonic(), Usage(1, tokens), "OutcomeUnknown"
            own: Usage | None = None
            try:
                said = self._calls.call(texts, is_question=is_question)
                usage = self._counted(said.tokens, tokens, started)
                own, self._is_reached, error = self._usage(tokens, started), True, ""
                self._limiter.succeeded(usage.prompt_tokens - tokens, seconds=usage.seconds, in_flight=in_flight)
                return unit_rows(said.vectors, len(texts), dimension, self.model)
            except CallFailedError as failed:
                error = type(failed.error).__name__
                usage = self._usage(tokens if failed.may_be_billed else 0, started)
                self._slow_down(failed.error, started)
                raise failed.error from failed
            except InvalidVectorError as nonsense:
                error = type(nonsense).__name__
                raise
            finally:
                self._budget.settle(reserved, usage, own)
                self._journal.end(call_id, source, "", usage, error)
                with self._lock:
                    self.spent += usage

    def _counted(self, reported: int, own: int, started: float) -> Usage:
        """What a call took: by the server's count, or by ours where that makes no sense."""
        counted, is_replaced = believed(Counted(reported, 0), Counted(own, 0), 0)
        with self._lock:
            self.replaced += is_replaced
        return self._usage(counted.prompt, started)

    def _usage(self, tokens: int, started: float) -> Usage:
        return Usage(1, tokens, 0, self._budget.cost(tokens, 0), time.monotonic() - started)

    def _slow_down(self, error: PolyhopError, started: float) -> None:
        self._is_reached = self._is_reached or not isinstance(error, ModelUnreachableError)
        if isinstance(error, ModelRateLimitError):
            self._limiter.throttled(started, error.retry_after_seconds)
        if isinstance(error, ModelTimeoutError):
            self._limiter.timed_out(started)

    def _is_passing(self, error: BaseException) -> bool:
        """Whether the next call may end better."""
        if isinstance(error, ModelRateLimitError) and (error.retry_after_seconds or 0) > MAX_PAUSE_SECONDS:
            return False
        if isinstance(error, ModelUnreachableError) and not self._is_reached:
            return False
        return isinstance(error, ModelError) and error.retryable


def open_gateway(
    model: str, api_base: str, dimension: int, settings: ModelSettings, replies: ReplyCache, budget: Budget
) -> EmbeddingGateway:
    """The gateway to a model."""
    calls = EmbeddingCalls(model, api_base, dimension, settings.timeout_seconds)
    return EmbeddingGateway(model, calls, settings, replies, budget)


NO_TEXT = " "
"""In place of an empty text, which OpenAI's servers refuse."""


class _Dimension:
    """How long the vectors of a model are, once somebody knows; safe for threads."""

    def __init__(self, known: int) -> None:
        self.value = known
        self.lock = Lock()

    def first(self, vectors: NDArray[np.float32]) -> None:
        """Takes the length from the first vectors."""
        with self.lock:
            self.value = self.value or vectors.shape[1]


class LitellmEncoder:
    """One side of a model, of questions or of passages; safe for threads.

    Args:
        name: Provider and model, as litellm names them.
        gateway: Opens the gateway, whose budget ends with a run; asked before each call.
        asked_dimension: As the server is asked for; 0: not asked.
        max_tokens: Texts are cut after so many; 0: not cut.
        batch_size: Texts of a call.

    Attributes:
        model: Names all that determines a vector.
        dimension: 0 until it is known.
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
        self._dimension = _Dimension(asked_dimension)
        self._batch_size = batch_size

    @property
    def dimension(self) -> int:
        """Components of a vector, 0 until it is known."""
        return self._dimension.value

    def expect(self, dimension: int) -> None:
        """Every vector from now on must have so many components, unless another number is known."""
        with self._dimension.lock:
            self._dimension.value = self._dimension.value or dimension

    def for_questions(self) -> "LitellmEncoder":
        """The same model, which reads questions."""
        other = LitellmEncoder(self._name, self._gateway, max_tokens=self.max_tokens, batch_size=self._batch_size)
        other.model, other.is_question, other._dimension = self.model, True, self._dimension
        return other

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of texts; see `encode_kept`."""
        return self.encode_kept(texts, _keep_nothing)

    def encode_kept(self, texts: Sequence[str], keep: KeepVectors) -> NDArray[np.float32]:
        """Vectors of texts, every batch handed over as soon as it is there.

        After the first error, or Ctrl-C, no call begins; what those in flight bring is handed over, too.

        Args:
            texts: Any texts; a lone surrogate is read as "?".
            keep: Called with the places of a batch and its vectors, by several threads.

        Returns:
            Shape (len(texts), dimension), float32, rows of length 1, in input order.

        Raises:
            InvalidVectorError: If the server sends nonsense.
            PolyhopError: As the gateway's `embed`.
        """
        gateway, stop = self._gateway(), Stop()
        clean = [clean_text(cut_text(text, self.max_tokens, self._name)) or NO_TEXT for text in texts]
        size = self._batch_size
        batches = [range(start, min(start + size, len(clean))) for start in range(0, len(clean), size)]

        def embed(places: range) -> tuple[range, NDArray[np.float32]]:
            some = [clean[place] for place in places]
            try:
                vectors = gateway.embed(some, self.dimension, stop, is_question=self.is_question)
                self._dimension.first(vectors)
                vectors = unit_rows(vectors, len(some), self.dimension, self._name)  # the first two may differ
                keep(places, vectors)
            except BaseException as error:
                stop.because(error)
                raise
            return places, vectors

        if not batches:
            return np.empty((0, self.dimension), np.float32)
        found = _each(batches, embed, stop, gateway.concurrency)
        return np.concatenate([vectors for _, vectors in sorted(found, key=lambda one: one[0].start)])


def _each(
    batches: Sequence[range],
    embed: Callable[[range], tuple[range, NDArray[np.float32]]],
    stop: Stop,
    concurrency: int,
) -> list[tuple[range, NDArray[np.float32]]]:
    """The results of all batches; raises the first error, once nothing is in flight any more."""
    if len(batches) == 1:
        return [embed(batches[0])]
    found: list[tuple[range, NDArray[np.float32]]] = []
    with ThreadPoolExecutor(min(concurrency, len(batches)), "polyhop-embed") as pool:
        try:
            futures: list[Future[tuple[range, NDArray[np.float32]]]] = [pool.submit(embed, one) for one in batches]
            found.extend(future.result() for future in as_completed(futures))
        except BaseException as error:  # Ctrl-C, too, must stop the threads
            stop.because(error)
            pool.shutdown(wait=True, cancel_futures=True)
            if stop.reason is not None and stop.reason is not error:
                raise stop.reason from error
            raise
    return found


def _keep_nothing(_places: Sequence[int], _vectors: NDArray[np.float32]) -> None:
    """For vectors that nobody keeps."""
