"""A chat model with retries, limits and repair: one valid reply per request, or the reason why there is none.

Remembers no reply (cached_chat.py does) and knows no vendor (completion.py does).
Source: algorithms.md 0.7; a reply that cannot be read is asked for once more, with the reason.
"""

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt

from polyhop.schemas.chat import CallJournal, ChatOutcome, ChatRequest, ReplyT, Rung, Usage, UsageCheck
from polyhop.schemas.errors import (
    MalformedReplyError,
    ModelError,
    ModelForbiddenError,
    ModelRateLimitError,
    ModelTimeoutError,
    ModelUnavailableError,
    ModelUnreachableError,
    PolyhopError,
    ReplyRefusedError,
)
from polyhop.schemas.model_settings import ModelSettings
from polyhop.warehouse.models.completion import Completion, Completions
from polyhop.warehouse.models.failed_calls import in_attempts
from polyhop.warehouse.models.limits import MAX_PAUSE_SECONDS, RateLimiter
from polyhop.warehouse.models.litellm_client import CallFailedError, import_litellm
from polyhop.warehouse.models.prices import MESSAGE_TOKENS, cost_of, count_tokens, price_of
from polyhop.warehouse.models.repair import read_reply
from polyhop.warehouse.models.reply_lengths import longest_reply
from polyhop.warehouse.models.usage import Counted, believed
from polyhop.warehouse.prompt_files import read_prompt
from polyhop.warehouse.retries import noted

_LOG = logging.getLogger(__name__)

FIRST_WAIT_SECONDS = 0.5  # doubled with every attempt; chosen: most failures pass within a second or two
LONGEST_WAIT_SECONDS = 30.0  # chosen: bounds how late the end of an outage is noticed
# of a bad reply, shown to the model again; chosen: some 2,000 tokens, which bounds the price
SHOWN_CHARACTERS = 8_000
MOST_TIMEOUTS_ALONE = 2
"""Calls without a reply in time, though no other was in flight, before a request is given up, or any request of a run
without a reply so far: the first may have waited while the server loaded its model, the second was slow by itself."""

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
    timeouts_alone: int = 0
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
        self._lengths = settings.longest_reply
        self._is_reached = self._has_replied = False
        self._timeouts_alone = 0
        self._completions = Completions(model, settings)
        self._clock = clock
        self._sleep = sleep
        self._limiter = RateLimiter(
            settings.requests_per_minute,
            settings.tokens_per_minute,
            settings.concurrency,
            settings.timeout_seconds,
            clock=clock,
            sleep=sleep,
        )

    def answer(self, request: ChatRequest[ReplyT], journal: CallJournal) -> ChatOutcome[ReplyT]:
        """The outcome of one request, after at most `max_attempts` calls.

        Raises:
            ModelKeyError: If the key is missing or refused.
            ModelForbiddenError: If the key or this request is refused, and no request was accepted so far.
            BudgetExceededError: From the journal.
        """
        asking = _Asking(request, journal, [{"role": "user", "content": request.text}])
        retrying = Retrying(
            retry=retry_if_exception(lambda error: self._is_worth_another(error, asking)),
            stop=stop_after_attempt(self._max_attempts),
            wait=wait_seconds,
            sleep=self._sleep,
            before_sleep=noted(_LOG, f"a call of {self.model}"),
            reraise=True,
        )
        try:
            reply, rung = retrying(self._attempt, asking)
        except ModelForbiddenError as error:
            error.outcome = self._outcome(asking, None, None, error.rejection)
            raise
        except ModelError as error:
            if asking.shortened is not None and not isinstance(error, ModelUnavailableError):
                return self._outcome(asking, asking.shortened, Rung.SHORTENED, None)
            return self._outcome(asking, None, None, error)
        return self._outcome(asking, reply, rung, None)

    def _attempt(self, asking: _Asking[ReplyT]) -> tuple[ReplyT, Rung]:
        """One call and its reply, both written to the journal."""
        request = asking.request
        tokens = sum(count_tokens(message["content"], self.model) + MESSAGE_TOKENS for message in asking.messages)
        longest = longest_reply(self._lengths, request.task)
        import_litellm()  # takes seconds the first time, which are not the server's
        with self._limiter.call(tokens) as in_flight:
            asking.journal.before_call(request, tokens)
            started = self._clock()
            try:
                said = self._completions.call(asking.messages, request.task.name, request.task.reply, longest)
            except CallFailedError as failed:
                usage = self._usage(Counted(tokens, longest) if failed.may_be_billed else Counted(0, 0), started)
                self._note(asking, "", usage, failed.error)
                self._slow_down(failed.error, started, asking, in_flight)
                raise failed.error from failed
        self._is_reached = self._has_replied = True
        own = Counted(tokens, count_tokens(said.text, self.model))
        counted, is_replaced = believed(Counted(said.prompt_tokens, said.completion_tokens), own, longest)
        usage = self._usage(counted, started)
        check = UsageCheck(self._usage(own, started), is_replaced)
        more_tokens = usage.prompt_tokens + usage.completion_tokens - tokens
        self._limiter.succeeded(more_tokens, seconds=usage.seconds, in_flight=in_flight)
        return self._reply(asking, said, usage, check)

    def _reply(self, asking: _Asking[ReplyT], said: Completion, usage: Usage, check: UsageCheck) -> tuple[ReplyT, Rung]:
        """What the model said, read; a reply that cannot be used is asked for once more, with the reason."""
        try:
            reply, rung = _read(said, asking.request.task.reply)
            if rung is Rung.SHORTENED and not asking.is_reasked:
                asking.shortened = reply
                raise MalformedReplyError("The reply ends too early; the whole of it is needed, in fewer words.")
        except (MalformedReplyError, ReplyRefusedError) as error:
            self._note(asking, said.text, usage, error, check)
            asking.ask_again(said.text, str(error))
            raise
        self._note(asking, said.text, usage, None, check)
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
            error=in_attempts(str(error), asking.usage.calls) if error else "",
            usage=asking.usage,
            retry_after_seconds=error.retry_after_seconds if isinstance(error, ModelRateLimitError) else None,
        )

    def _usage(self, counted: Counted, started: float) -> Usage:
        cost = cost_of(self._price, counted.prompt, counted.completion)
        return Usage(1, counted.prompt, counted.completion, cost, self._clock() - started)

    def _note(
        self,
        asking: _Asking[Any],
        text: str,
        usage: Usage,
        error: PolyhopError | None,
        check: UsageCheck | None = None,
    ) -> None:
        asking.usage += usage
        asking.journal.after_call(asking.request, text, usage, type(error).__name__ if error else "", check)

    def _slow_down(self, error: PolyhopError, started: float, asking: _Asking[Any], in_flight: int) -> None:
        self._is_reached = self._is_reached or not isinstance(error, ModelUnreachableError)
        if isinstance(error, ModelRateLimitError):
            self._limiter.throttled(started, error.retry_after_seconds)
        if isinstance(error, ModelTimeoutError):
            self._limiter.timed_out(started)
            asking.timeouts_alone += in_flight == 1
            self._timeouts_alone += in_flight == 1

    def _is_worth_another(self, error: BaseException, asking: _Asking[Any]) -> bool:
        """Whether the next call may end better.

        Not after a second bad reply, nor if we should wait for ever, nor if the reply takes too long by itself, nor if
        there never was a server.
        """
        if isinstance(error, ModelRateLimitError) and (error.retry_after_seconds or 0) > MAX_PAUSE_SECONDS:
            return False
        if isinstance(error, ModelUnreachableError) and not self._is_reached:
            return False
        if isinstance(error, ModelTimeoutError) and self._is_too_slow(asking):
            return False
        return isinstance(error, ModelError) and error.retryable and asking.may_retry

    def _is_too_slow(self, asking: _Asking[Any]) -> bool:
        """Whether too many calls timed out with the server to themselves: of this request, or of all before a reply."""
        timeouts = asking.timeouts_alone if self._has_replied else self._timeouts_alone
        return timeouts >= MOST_TIMEOUTS_ALONE


def _read(said: Completion, reply: type[ReplyT]) -> tuple[ReplyT, Rung]:
    if said.refusal:
        raise ReplyRefusedError(f"The model declined to answer: {said.refusal[:200].rstrip('.')}.")
    return read_reply(said.text, reply)


def wait_seconds(state: RetryCallState) -> float:
    """Exponential backoff with full jitter; nothing before a re-ask, and what the server said is the limiter's."""
    error = state.outcome.exception() if state.outcome else None
    if not isinstance(error, ModelUnavailableError):
        return 0.0
    if isinstance(error, ModelRateLimitError) and error.retry_after_seconds is not None:
        return random.uniform(0, 0.1)  # noqa: S311 - spreads calls, guards no secret
    longest = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** (state.attempt_number - 1))
    return random.uniform(longest / 2, longest)  # noqa: S311 - as above
