"""A model behind `/embeddings` with retries, limits and a budget: vectors of one batch, or why there are none.

Caches no vector (cached.py does) and knows no vendor (embedding_calls.py does). Every call is in the journal of calls
before it is sent, as those of chat models are.
"""

import logging
import time
from collections.abc import Callable, Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray
from tenacity import Retrying, retry_if_exception, stop_after_attempt

from polyhop.schemas.chat import Usage
from polyhop.schemas.errors import (
    BudgetExceededError,
    InvalidVectorError,
    ModelEndpointError,
    ModelError,
    ModelRateLimitError,
    ModelTimeoutError,
    ModelUnavailableError,
    ModelUnreachableError,
    PolyhopError,
)
from polyhop.schemas.ids import content_hash
from polyhop.schemas.model_settings import ModelSettings
from polyhop.warehouse.cache.calls import ReplySource
from polyhop.warehouse.cache.claims import claims_of
from polyhop.warehouse.cache.replies import ReplyCache
from polyhop.warehouse.models.budget import Budget
from polyhop.warehouse.models.chat import MOST_TIMEOUTS_ALONE, wait_seconds
from polyhop.warehouse.models.embedding_calls import EmbeddingCalls
from polyhop.warehouse.models.failed_calls import in_attempts
from polyhop.warehouse.models.journal import Stop
from polyhop.warehouse.models.limits import MAX_PAUSE_SECONDS, RateLimiter
from polyhop.warehouse.models.litellm_client import CallFailedError, import_litellm
from polyhop.warehouse.models.prices import count_tokens
from polyhop.warehouse.models.unit_rows import unit_rows
from polyhop.warehouse.models.usage import Counted, believed
from polyhop.warehouse.retries import noted

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
