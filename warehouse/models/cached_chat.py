"""A chat model with the cache of replies and a budget: nothing is paid for twice, and nothing paid for is lost.

Knows neither the model's protocol nor the store; it joins the two. A kill loses at most the calls in flight.
Source: algorithms.md 0.3 (5).
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from threading import BoundedSemaphore, Lock
from typing import Any

from pydantic import BaseModel, ValidationError

from polyhop.schemas.chat import ChatOutcome, ChatRequest, Gateway, ReplyT, Rung, Usage
from polyhop.schemas.errors import MalformedReplyError, ModelForbiddenError, ReplyRefusedError
from polyhop.schemas.model_settings import ReplySettings
from polyhop.warehouse.cache.claims import claims_of
from polyhop.warehouse.cache.replies import RawReply, ReplyCache, StoredFailure, StoredReply
from polyhop.warehouse.models.budget import Budget
from polyhop.warehouse.models.first_replies import FirstReplies, ForbiddenRequests
from polyhop.warehouse.models.journal import Ledger, RequestJournal, Stop
from polyhop.warehouse.models.pace import Pace
from polyhop.warehouse.models.repair import REPAIR_REVISION, read_reply
from polyhop.warehouse.models.reply_lengths import outgrown

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
