"""A chat model behind retries, limits and repair: one valid reply per request, or the reason why there is none.

Remembers no reply (cached_chat.py does) and knows no vendor (completion.py does).
Source: algorithms.md 0.7; a reply that cannot be read is asked for once more, with the reason.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt

from schemas.chat import CallJournal, ChatOutcome, ChatRequest, ReplyT, Rung, Usage
from schemas.errors import (
    MalformedReplyError,
    ModelError,
    ModelRateLimitError,
    ModelUnavailableError,
    ReplyRefusedError,
)
from schemas.settings import ModelSettings
from warehouse.models.completion import CallFailedError, Completion, Completions
from warehouse.models.limits import MAX_PAUSE_SECONDS, RateLimiter
from warehouse.models.prices import MESSAGE_TOKENS, cost_of, count_tokens, price_of
from warehouse.models.repair import read_reply
from warehouse.prompt_files import read_prompt

FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 30.0
SHOWN_CHARACTERS = 8_000

_REASK = Path(__file__).parent / "prompts" / "reask.md"


@dataclass(slots=True)
class _Asking(Generic[ReplyT]):
    """One request on its way: what to say next, and what it took so far."""

    request: ChatRequest[ReplyT]
    journal: CallJournal
    messages: list[dict[str, str]]
    usage: Usage = field(default_factory=Usage)
    is_reasked: bool = False
    may_retry: bool = True
    shortened: ReplyT | None = None

    def ask_again(self, text: str, reason: str) -> None:
        """Says what was wrong with a reply, once; the second bad reply is the last."""
        self.may_retry = not self.is_reasked
        if self.is_reasked:
            return
        self.is_reasked = True
        shown = read_prompt(_REASK).render({"reason": reason, "reply": text[:SHOWN_CHARACTERS]})
        self.messages.append({"role": "user", "content": shown})


class ChatGateway:
    """Asks one model over litellm; safe for threads, whose number is up to the caller.

    Attributes:
        model: Provider and model, as litellm names them.
    """

    def __init__(
        self,
        model: str,
        settings: ModelSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.model = model
        self._max_attempts = settings.max_attempts
        self._price = price_of(model, settings)
        self._completions = Completions(model, settings)
        self._clock = clock
        self._sleep = sleep
        self._limiter = RateLimiter(
            settings.requests_per_minute, settings.tokens_per_minute, settings.concurrency, clock=clock, sleep=sleep
        )

    def answer(self, request: ChatRequest[ReplyT], journal: CallJournal) -> ChatOutcome[ReplyT]:
        """The outcome of one request, after at most `max_attempts` calls.

        Raises:
            BudgetExceededError: From the journal.
        """
        asking = _Asking(request, journal, [{"role": "user", "content": request.text}])
        retrying = Retrying(
            retry=retry_if_exception(lambda error: _is_worth_another(error, asking)),
            stop=stop_after_attempt(self._max_attempts),
            wait=_wait_seconds,
            sleep=self._sleep,
            reraise=True,
        )
        try:
            reply, rung = retrying(self._attempt, asking)
        except ModelError as error:
            if asking.shortened is not None and not isinstance(error, ModelUnavailableError):
                return self._outcome(asking, asking.shortened, Rung.SHORTENED, None)
            return self._outcome(asking, None, None, error)
        return self._outcome(asking, reply, rung, None)

    def _attempt(self, asking: _Asking[ReplyT]) -> tuple[ReplyT, Rung]:
        """One call and its reply, both told to the journal."""
        request = asking.request
        tokens = sum(count_tokens(message["content"], self.model) + MESSAGE_TOKENS for message in asking.messages)
        with self._limiter.call(tokens):
            asking.journal.before_call(request, tokens)
            started = self._clock()
            try:
                said = self._completions.call(
                    asking.messages, request.task.name, request.task.reply, request.task.max_output_tokens
                )
            except CallFailedError as failed:
                usage = self._usage(tokens if failed.may_be_billed else 0, 0, started)
                self._note(asking, "", usage, failed.error)
                self._slow_down(failed.error, started)
                raise failed.error from failed
        usage = self._usage(
            said.prompt_tokens or tokens, said.completion_tokens or count_tokens(said.text, self.model), started
        )
        self._limiter.succeeded(usage.prompt_tokens + usage.completion_tokens - tokens)
        try:
            reply, rung = _read(said, request.task.reply)
            if rung is Rung.SHORTENED and not asking.is_reasked:
                asking.shortened = reply
                raise MalformedReplyError("The reply ends too early; the whole of it is needed, in fewer words.")
        except (MalformedReplyError, ReplyRefusedError) as error:
            self._note(asking, said.text, usage, error)
            asking.ask_again(said.text, str(error))
            raise
        self._note(asking, said.text, usage, None)
        return reply, Rung.REASKED if asking.is_reasked and rung is not Rung.SHORTENED else rung

    def _outcome(
        self, asking: _Asking[ReplyT], reply: ReplyT | None, rung: Rung | None, error: ModelError | None
    ) -> ChatOutcome[ReplyT]:
        return ChatOutcome(
            reply=reply,
            model=self.model,
            is_cached=False,
            rung=rung,
            attempts=asking.usage.calls,
            error_class=type(error).__name__ if error else "",
            error=str(error) if error else "",
            usage=asking.usage,
            retry_after_seconds=error.retry_after_seconds if isinstance(error, ModelRateLimitError) else None,
        )

    def _usage(self, prompt_tokens: int, completion_tokens: int, started: float) -> Usage:
        cost = cost_of(self._price, prompt_tokens, completion_tokens)
        return Usage(1, prompt_tokens, completion_tokens, cost, self._clock() - started)

    def _note(self, asking: _Asking[Any], text: str, usage: Usage, error: ModelError | None) -> None:
        asking.usage += usage
        asking.journal.after_call(asking.request, text, usage, type(error).__name__ if error else "")

    def _slow_down(self, error: ModelError, started: float) -> None:
        if isinstance(error, ModelRateLimitError):
            self._limiter.throttled(started, error.retry_after_seconds)


def _read(said: Completion, reply: type[ReplyT]) -> tuple[ReplyT, Rung]:
    if said.refusal:
        raise ReplyRefusedError(f"The model declined to answer: {said.refusal[:200]}")
    return read_reply(said.text, reply)


def _is_worth_another(error: BaseException, asking: _Asking[Any]) -> bool:
    """Whether the next call may end better: not after a second bad reply, nor if we should wait for ever."""
    if isinstance(error, ModelRateLimitError) and (error.retry_after_seconds or 0) > MAX_PAUSE_SECONDS:
        return False
    return isinstance(error, ModelError) and error.retryable and asking.may_retry


def _wait_seconds(state: RetryCallState) -> float:
    """Exponential backoff with full jitter; nothing before a re-ask, and what the server said is the limiter's."""
    error = state.outcome.exception() if state.outcome else None
    if not isinstance(error, ModelUnavailableError):
        return 0.0
    if isinstance(error, ModelRateLimitError) and error.retry_after_seconds is not None:
        return random.uniform(0, 0.1)  # noqa: S311 - spreads calls, guards no secret
    longest = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** (state.attempt_number - 1))
    return random.uniform(longest / 2, longest)  # noqa: S311 - as above
