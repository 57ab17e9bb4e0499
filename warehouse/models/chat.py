"""A chat model with retries, limits, repair, a cache of replies and a journal: nothing is paid for twice.

Source: algorithms.md 0.7; a reply that cannot be read is asked for once more, with the reason.
"""

import json
import logging
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import BoundedSemaphore, Event, Lock
from typing import Any, Generic

from pydantic import BaseModel, ValidationError
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt

from polyhop.schemas.chat import (
    CallJournal,
    ChatOutcome,
    ChatRequest,
    ChatTask,
    Gateway,
    ReplyT,
    Rung,
    Usage,
    UsageCheck,
)
from polyhop.schemas.errors import (
    BudgetExceededError,
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
from polyhop.schemas.settings import ModelSettings, ReplySettings
from polyhop.warehouse.cache.replies import RawReply, ReplyCache, ReplySource, StoredFailure, StoredReply, claims_of
from polyhop.warehouse.models.budget import (
    MESSAGE_TOKENS,
    Budget,
    Counted,
    Reservation,
    believed,
    cost_of,
    count_tokens,
    price_of,
)
from polyhop.warehouse.models.limits import MAX_PAUSE_SECONDS, FirstReplies, ForbiddenRequests, Pace, RateLimiter
from polyhop.warehouse.models.litellm_client import (
    CallFailedError,
    Completion,
    Completions,
    import_litellm,
    in_attempts,
)
from polyhop.warehouse.models.replies import REPAIR_REVISION, longest_reply, outgrown, read_reply
from polyhop.warehouse.statements import noted, read_prompt

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


MIN_LENGTHS = 20  # chosen: the 95 % quantile of fewer lengths is their maximum
MAX_LENGTHS = 500  # the latest; chosen: sorted before each call, and enough for a quantile of 95 %
# chosen: one reply in twenty may be longer than what was reserved for it; what it took is counted all the same.
RESERVED_QUANTILE = 0.95


@dataclass(slots=True)
class _Call:
    """A call that is let through: what it may take at most, what was set aside for it, its number in the journal."""

    source: ReplySource
    worst: Usage
    reserved: Reservation | None
    call_id: int | None = None


class Ledger:
    """What the calls of one model take, in this run; safe for threads.

    Attributes:
        spent: The sum, calls that failed included.
        replaced: Calls whose reported token counts were not believed.
    """

    def __init__(
        self, model: str, cache: ReplyCache, budget: Budget, lengths: ReplySettings | None, pace: Pace
    ) -> None:
        self.spent = Usage()
        self.replaced = 0
        self._model = model
        self._cache = cache
        self._budget = budget
        self._limits = lengths
        self._pace = pace
        self._lengths: dict[str, deque[int]] = {}
        self._lock = Lock()

    def source(self, key: str, task: ChatTask[Any]) -> ReplySource:
        """What the cache remembers about a key."""
        return ReplySource(key, self._model, task.name, task.prompt.hash, task.schema_version)

    def longest_reply(self, task: ChatTask[Any]) -> int:
        """Most tokens of a reply."""
        return longest_reply(self._limits, task) if self._limits else task.max_output_tokens

    def reserve(self, key: str, task: ChatTask[Any], prompt_tokens: int) -> _Call:
        """Sets aside what a call may take, if anything is limited.

        Raises:
            BudgetExceededError: If it might exceed the budget.
        """
        longest = self.longest_reply(task)
        worst = Usage(1, prompt_tokens, longest, self._budget.cost(prompt_tokens, longest))
        is_limited = self._budget.is_limited
        reserved = self._budget.reserve(prompt_tokens, self.expected_tokens(task)) if is_limited else None
        return _Call(self.source(key, task), worst, reserved)

    def begin(self, call: _Call) -> None:
        """Writes the call into the journal, at its worst case."""
        call.call_id = self._cache.calls.begin(call.source, call.worst)
        self._pace.started()

    def end(self, call: _Call, text: str, usage: Usage, error: str, check: UsageCheck | None) -> None:
        """Replaces what was set aside by what the call brought and took."""
        self.settle(call, usage, check)
        self._pace.ended(usage, error, has_text=bool(text))
        with self._lock:
            self.spent += usage
            self.replaced += check is not None and check.is_replaced
            if text and call.source.task in self._lengths:
                self._lengths[call.source.task].append(usage.completion_tokens)
        if call.call_id is not None:
            self._cache.calls.end(call.call_id, call.source, text, usage, error)

    def settle(self, call: _Call, usage: Usage, check: UsageCheck | None = None) -> None:
        """Replaces what was set aside by what the call took."""
        if call.reserved:
            self._budget.settle(call.reserved, usage, check.own if check else None)

    def expected_tokens(self, task: ChatTask[Any]) -> int:
        """95 % of the task's outputs were no longer, in this run and before; the task's limit without a history."""
        with self._lock:
            if task.name not in self._lengths:
                history = self._cache.output_lengths(task.name, self._model, MAX_LENGTHS)
                self._lengths[task.name] = deque(reversed(history), maxlen=MAX_LENGTHS)
            lengths = sorted(self._lengths[task.name])
        longest = self.longest_reply(task)
        if len(lengths) < MIN_LENGTHS:
            return longest
        return min(longest, lengths[ceil(RESERVED_QUANTILE * len(lengths)) - 1])


class Stop:
    """Tells all threads that work on one thing to start nothing more, and keeps the first reason."""

    def __init__(self) -> None:
        self.reason: BaseException | None = None
        self._event = Event()
        self._lock = Lock()

    def because(self, reason: BaseException) -> None:
        """Stops; only the first reason counts."""
        with self._lock:
            if self.reason is None:
                self.reason = reason
                self._event.set()

    def is_set(self) -> bool:
        """Whether to start nothing more."""
        return self._event.is_set()


class RequestJournal:
    """The journal of one request (polyhop.schemas.chat.CallJournal)."""

    def __init__(self, ledger: Ledger, key: str, stop: Stop) -> None:
        self._ledger = ledger
        self._key = key
        self._stop = stop
        self._call: _Call | None = None

    def before_call(self, request: ChatRequest[ReplyT], prompt_tokens: int) -> None:
        """Sets aside what the call may take, and writes that it is about to be sent.

        Raises:
            BudgetExceededError: If it might exceed the budget, or the run is stopping.
        """
        if self._stop.is_set():
            raise BudgetExceededError("The run is stopping; this call was not made.")
        self._call = self._ledger.reserve(self._key, request.task, prompt_tokens)
        self._ledger.begin(self._call)

    def after_call(
        self, request: ChatRequest[ReplyT], text: str, usage: Usage, error: str, check: UsageCheck | None = None
    ) -> None:
        """Keeps what the call brought and took."""
        call, self._call = self._call, None
        if call is not None:
            self._ledger.end(call, text, usage, error, check)

    def close(self) -> None:
        """Books a call that never ended at its worst case, one that is not even in the journal at nothing."""
        call, self._call = self._call, None
        if call is not None:
            self._ledger.settle(call, Usage() if call.call_id is None else call.worst)


# Source: algorithms.md 0.3 (5).

LOOK_UP_SECONDS = 1.0
"""How often the thread that waits for replies sees whether a line about their pace is due."""
Outcomes = dict[str, ChatOutcome[Any]]


class CachedChat:
    """Asks only what the cache does not know; every valid reply is stored as soon as it is there.

    Args:
        gateway: Asks the model.
        cache: Keeps replies.
        budget: Limits what calls may take.
        concurrency: Most requests under way at once.
        lengths: The longest reply per task; None: as the tasks say.
        pace: Hears how long calls take.
        must_answer: End the run if the server is unavailable from its start.

    Attributes:
        cached: Requests that were answered without a call.
    """

    def __init__(
        self,
        gateway: Gateway,
        cache: ReplyCache,
        budget: Budget,
        concurrency: int,
        *,
        lengths: ReplySettings | None = None,
        pace: Pace | None = None,
        must_answer: bool = False,
    ) -> None:
        self.model = gateway.model
        self.cached = 0
        self._gateway = gateway
        self._cache = cache
        self._pace = pace or Pace()
        self._ledger = Ledger(gateway.model, cache, budget, lengths, self._pace)
        self._concurrency = concurrency
        self._slots = BoundedSemaphore(concurrency)
        self._claims = claims_of(cache.path)
        self._counting = Lock()
        self._first = FirstReplies(must_answer=must_answer)

    @property
    def spent(self) -> Usage:
        """What the calls of this instance took, those that failed included."""
        return self._ledger.spent

    @property
    def replaced(self) -> int:
        """Calls whose reported token counts were not believed, so that our own were taken."""
        return self._ledger.replaced

    def ask(
        self, requests: Sequence[ChatRequest[ReplyT]], *, on_progress: Callable[[int, int], None] | None = None
    ) -> list[ChatOutcome[ReplyT]]:
        """One outcome per request, in order; what the cache knows costs nothing, equal requests are asked once.

        Args:
            requests: Any requests.
            on_progress: Told how many requests are settled, of how many: after reading the cache, then one by one.

        Raises:
            BudgetExceededError: Before a call that might exceed the budget; whatever was answered is cached.
            ModelKeyError: If the model's key is missing or refused.
            ModelEndpointError: If there is no server at the model's address, and there must be one.
            ModelError: If the server rejected each of the first requests, or failed them and must answer.
            StoreError: If the cache cannot be used; calls in flight are waited for.
        """
        keys = [request.key(self.model) for request in requests]
        by_key = dict(zip(keys, requests, strict=True))
        outcomes = self._remembered(by_key)
        uses = Counter(keys)
        done = sum(uses[key] for key in outcomes)
        self._pace.cached(done)
        report = on_progress or _ignore
        report(done, len(keys))

        def settled(key: str, outcome: ChatOutcome[Any]) -> None:
            nonlocal done
            outcomes[key] = outcome
            done += uses[key]
            self._pace.settled(uses[key])
            report(done, len(keys))

        self._ask_missing({key: request for key, request in by_key.items() if key not in outcomes}, settled)
        return self._in_order(keys, outcomes)

    def _in_order(self, keys: Sequence[str], outcomes: Outcomes) -> list[ChatOutcome[Any]]:
        """One outcome per key; only the first of equal keys counts what was spent."""
        seen: set[str] = set()
        ordered = []
        for key in keys:
            outcome = outcomes[key]
            if key in seen and not outcome.is_cached:
                outcome = (
                    replace(outcome, is_cached=True) if outcome.reply is not None else replace(outcome, usage=Usage())
                )
            seen.add(key)
            ordered.append(outcome)
        with self._counting:
            self.cached += sum(outcome.is_cached for outcome in ordered)
        return ordered

    def _remembered(self, by_key: Mapping[str, ChatRequest[Any]]) -> Outcomes:
        """What needs no call: cached replies, and raw replies that can be read by now."""
        outcomes = self._cached(by_key)
        missing = [key for key in by_key if key not in outcomes]
        failures = self._cache.failures(missing)
        readable = [key for key in missing if key not in failures or _is_read_again(failures[key])]
        for key, texts in self._cache.raw_replies(readable).items():
            outcome = self._read_again(key, by_key[key], texts, has_failed=key in failures)
            if outcome:
                outcomes[key] = outcome
        return outcomes

    def _cached(self, by_key: Mapping[str, ChatRequest[Any]]) -> Outcomes:
        """Valid replies of the cache; one that its form no longer accepts, or a higher limit outgrew, is missing."""
        outcomes: Outcomes = {}
        replies = self._cache.replies(list(by_key))
        cut = [key for key, stored in replies.items() if stored.rung is Rung.SHORTENED]
        missing = outgrown(self._cache, {key: by_key[key].task for key in cut}, self._ledger.longest_reply)
        for key, stored in replies.items():
            if key in missing:
                continue
            try:
                reply = by_key[key].task.reply.model_validate_json(stored.text)
            except ValidationError:
                continue
            outcomes[key] = _paid_before(reply, stored)
        return outcomes

    def _read_again(
        self, key: str, request: ChatRequest[Any], texts: Sequence[RawReply], *, has_failed: bool
    ) -> ChatOutcome[Any] | None:
        """The reply in texts that were paid for, None if there is none.

        Of a request that has not failed, only texts without an error count: its run was killed, or the reply's form
        changed; what that run would have asked again is asked again.
        """
        for raw in texts:
            if raw.error_class and not has_failed:
                continue
            try:
                reply, rung = read_reply(raw.text, request.task.reply)
            except (MalformedReplyError, ReplyRefusedError):
                continue
            if rung is Rung.SHORTENED and outgrown(self._cache, {key: request.task}, self._ledger.longest_reply):
                continue
            usage = sum((other.usage for other in texts), Usage())
            stored = StoredReply("", self.model, rung, self._cache.call_count(key), usage)
            return self._stored(key, request, _paid_before(reply, stored))
        return None

    def _ask_missing(
        self, missing: Mapping[str, ChatRequest[Any]], settled: Callable[[str, ChatOutcome[Any]], None]
    ) -> None:
        """Asks concurrently; on the first error no call is started any more, those in flight are stored."""
        if not missing:
            return
        stop = Stop()
        ended: SimpleQueue[Future[ChatOutcome[Any]]] = SimpleQueue()
        with ThreadPoolExecutor(min(self._concurrency, len(missing)), "polyhop-chat") as pool:
            try:
                futures: dict[Future[ChatOutcome[Any]], str] = {
                    pool.submit(self._answer, key, request, stop): key for key, request in missing.items()
                }
                for future in futures:
                    future.add_done_callback(ended.put)
                forbidden = ForbiddenRequests()
                for left in range(len(futures), 0, -1):
                    future = self._next(ended, left)
                    try:
                        outcome = future.result()
                    except ModelForbiddenError as error:
                        forbidden.add(futures[future], error)
                        continue
                    forbidden.compare(outcome)
                    settled(futures[future], outcome)
                for key, outcome in forbidden.outcomes().items():
                    settled(key, self._stored(key, missing[key], outcome))
            except BaseException as error:  # Ctrl-C, too, must stop the threads
                stop.because(error)
                pool.shutdown(wait=True, cancel_futures=True)
                if stop.reason and stop.reason is not error:
                    raise stop.reason from error
                raise

    def _next(self, ended: "SimpleQueue[Future[ChatOutcome[Any]]]", left: int) -> Future[ChatOutcome[Any]]:
        """The next request that has an outcome; says meanwhile how fast the model is."""
        while True:
            self._pace.speak(self.model, left)
            with suppress(Empty):
                return ended.get(timeout=LOOK_UP_SECONDS)

    def _answer(self, key: str, request: ChatRequest[Any], stop: Stop) -> ChatOutcome[Any]:
        """The outcome of one request, asked unless another process has just been answered."""
        with self._claims.held(key, stop.is_set), self._slots:
            known = self._cached({key: request})
            if known:
                return known[key]
            journal = RequestJournal(self._ledger, key, stop)
            try:
                outcome = self._gateway.answer(request, journal)
            except ModelForbiddenError:
                raise
            except BaseException as ended:  # whatever ended this request, the others stop
                stop.because(ended)
                raise
            finally:
                journal.close()
            error = self._first.error_of(outcome)
            if error is not None:
                stop.because(error)
                raise error
            return self._stored(key, request, outcome)

    def _stored(self, key: str, request: ChatRequest[Any], outcome: ChatOutcome[Any]) -> ChatOutcome[Any]:
        """The outcome as a later run will see it, with its reply or its failure in the cache."""
        source = self._ledger.source(key, request.task)
        attempts = max(outcome.attempts, self._cache.call_count(key))
        if outcome.reply is None:
            failure = StoredFailure(attempts, outcome.error_class, outcome.error, REPAIR_REVISION)
            self._cache.put_failure(source, failure)
            return replace(outcome, attempts=attempts)
        text = canonical_json(outcome.reply)
        reply = request.task.reply.model_validate_json(text)
        longest = self._ledger.longest_reply(request.task)
        self._cache.put_reply(source, text, outcome.rung or Rung.AS_IS, attempts, outcome.usage, longest)
        return replace(outcome, reply=reply, attempts=attempts)


def _paid_before(reply: BaseModel, stored: StoredReply) -> ChatOutcome[Any]:
    return ChatOutcome(
        reply=reply,
        model=stored.model,
        is_cached=True,
        rung=stored.rung,
        attempts=stored.attempts,
        error_class="",
        error="",
        usage=stored.usage,
    )


def canonical_json(reply: BaseModel) -> str:
    """A valid reply as JSON with sorted keys: equal replies have equal texts."""
    return json.dumps(
        reply.model_dump(mode="json", by_alias=True), sort_keys=True, ensure_ascii=False, separators=(",", ":")
    )


def _is_read_again(failure: StoredFailure) -> bool:
    """Whether a newer parser may read what an older one could not."""
    return failure.error_class == MalformedReplyError.__name__ and failure.revision < REPAIR_REVISION


def _ignore(_done: int, _total: int) -> None:
    """Reports to nobody."""
