"""A chat model with a cache of replies, a journal of calls and a budget: nothing is paid for twice.

Source: algorithms.md 0.3 (5), 0.7; a reply that cannot be read is asked for once more, with the reason.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from polyhop.schemas import errors
from polyhop.schemas.chat import ChatOutcome, ChatRequest, ChatTask, Repair, ReplyT, Usage
from polyhop.schemas.settings import ModelSettings
from polyhop.warehouse.cache.replies import ReplyCache, ReplySource, StoredReply
from polyhop.warehouse.models.batches import Batches
from polyhop.warehouse.models.budget import MESSAGE_TOKENS, Budget, count_tokens
from polyhop.warehouse.models.calls import PaidCalls, PaidRequest, Stop, run_all
from polyhop.warehouse.models.completions import Completions, prepare
from polyhop.warehouse.models.endpoints import Completion, in_attempts
from polyhop.warehouse.models.replies import cached_replies, longest_reply, read_cut, read_reply
from polyhop.warehouse.statements import read_prompt

# of a bad reply, shown to the model again; chosen: some 2,000 tokens, which bounds the price
SHOWN_CHARACTERS = 8_000
MOST_FAILURES = 3  # of the first requests of a run; chosen: one or two may be chance; a wrong key fails every time
_OUTAGES: dict[str, type[errors.ModelError]] = {
    error.__name__: error
    for error in (
        errors.ModelUnavailableError,
        errors.ModelRateLimitError,
        errors.ModelTimeoutError,
        errors.ModelUnreachableError,
    )
}
_REASK = Path(__file__).parent / "prompts" / "reask.md"

Outcomes = dict[str, ChatOutcome[Any]]
_outcome = partial(ChatOutcome, reply=None, is_cached=False, repair=None, attempts=0, error_class="", error="")


class Chat(PaidCalls):
    """Asks one model only what the cache does not know; every valid reply is stored as soon as it is there.

    With `must_answer` an outage from the start ends the run; a worker waits for its end instead. With `batches` what
    the cache does not know waits for a batch, unless it came back from one.
    """

    def __init__(  # noqa: PLR0913 - where a model is composed
        self,
        model: str,
        settings: ModelSettings,
        replies: ReplyCache,
        budget: Budget,
        *,
        must_answer: bool = False,
        completions: Any = None,
        batches: Batches | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(model, settings, replies, budget, clock=clock, sleep=sleep)
        self._must_answer = must_answer
        self._completions = completions or Completions(model, settings)
        self._batches = batches
        self._is_accepted = False
        self._failures = 0

    def ask(
        self, requests: Sequence[ChatRequest[ReplyT]], *, on_progress: Callable[[int, int], None] | None = None
    ) -> list[ChatOutcome[ReplyT]]:
        """One outcome per request, in order; what the cache knows costs nothing, equal requests are asked once.

        Raises:
            BudgetExceededError: Before a call that might exceed the budget; whatever was answered is cached.
            ModelKeyError: If the model's key is missing or refused.
            ModelEndpointError: If there is no server at the model's address, and there must be one.
            ModelError: If the server rejected each of the first requests, or failed them and must answer.
            StoreError: If the cache cannot be used; calls in flight are waited for.
            WaitingError: If some of them wait for a batch; the others are answered.
        """
        keys = [request.key(self.model) for request in requests]
        by_key = dict(zip(keys, requests, strict=True))
        outcomes = self._remembered(by_key)
        uses = Counter(keys)
        done = sum(uses[key] for key in outcomes)
        if on_progress is not None:
            on_progress(done, len(keys))

        def settled(key: str, outcome: ChatOutcome[Any]) -> None:
            nonlocal done
            outcomes[key] = outcome
            done += uses[key]
            if on_progress is not None:
                on_progress(done, len(keys))

        missing = [key for key in by_key if key not in outcomes]
        waiting: set[str] = set()
        if missing and self._batches is not None:
            waiting = self._batches.want({key: by_key[key] for key in missing})
            missing = [key for key in missing if key not in waiting]
        if missing:
            count = min(self._settings.concurrency, len(missing))
            run_all(missing, lambda key, stop: self._answer(key, by_key[key], stop), count, settled, "polyhop-chat")
        if waiting:
            raise errors.WaitingError(f"{len(waiting)} requests wait for a batch.", len(waiting))
        ordered = []
        for key in keys:
            outcome = outcomes[key]
            ordered.append(outcome)
            if not outcome.is_cached:  # only the first of equal requests counts what was spent
                changed: dict[str, Any] = {"usage": Usage()} if outcome.reply is None else {"is_cached": True}
                outcomes[key] = replace(outcome, **changed)
        with self._lock:
            self.cached += sum(outcome.is_cached for outcome in ordered)
        return ordered

    def _remembered(self, by_key: Mapping[str, ChatRequest[Any]]) -> Outcomes:
        """Outcomes without a call: cached replies, texts of batches, and of runs killed before they stored them.

        A request that has failed is asked again.
        """
        outcomes = self._cached(by_key)
        missing = [key for key in by_key if key not in outcomes]
        failed = self._replies.failures(missing)
        for key, texts in self._replies.raw_replies([key for key in missing if key not in failed]).items():
            request = by_key[key]
            for raw in texts:
                if raw.error_class:
                    continue
                try:
                    reply, repair = read_reply(raw.text, request.task.reply)
                except (errors.MalformedReplyError, errors.ReplyRefusedError) as error:
                    self._replies.note_unread(key, type(error).__name__)
                    continue
                usage = sum((other.usage for other in texts), Usage())
                stored = StoredReply("", self.model, repair, self._replies.call_count(key), usage)
                paid = replace(_paid_before(reply, stored), is_cached=False)  # by this request, even if counted before
                outcomes[key] = self._stored(self._source(key, request), request, paid)
                break
        return outcomes

    def _cached(self, by_key: Mapping[str, ChatRequest[Any]]) -> Outcomes:
        """Outcomes of the requests that the cache answers."""
        known = cached_replies(self._replies, by_key, self._settings.max_reply_tokens)
        return {key: _paid_before(reply, stored) for key, (reply, stored) in known.items()}

    def _answer(self, key: str, request: ChatRequest[Any], stop: Stop) -> ChatOutcome[Any]:
        """The outcome of one request, asked unless another process has just been answered."""
        with self._claims.held(key, stop.is_set):
            known = self._cached({key: request})
            if known:
                return known[key]
            asked = PaidRequest(self._source(key, request), stop)
            outcome = self._asked(request, asked)
            if error := self._first_error(outcome):
                raise error
            return self._stored(asked.source, request, outcome)

    def _asked(self, request: ChatRequest[ReplyT], asked: PaidRequest) -> ChatOutcome[ReplyT]:
        """The outcome of one request, after at most `models.max_attempts` calls; a failure is an outcome."""
        messages = [{"role": "user", "content": request.text}]
        longest = longest_reply(self._settings.max_reply_tokens, request.task)
        form = request.task.reply
        cut_texts: list[str] = []
        prepare(self.model, self._settings.api_base)  # imports are not the server's seconds

        def read(said: Completion) -> tuple[ReplyT, Repair]:
            try:
                if said.refusal:
                    raise errors.ReplyRefusedError(f"The model declined to answer: {said.refusal[:200].rstrip('.')}.")
                if said.is_cut:
                    cut_texts.append(said.text)
                    raise errors.MalformedReplyError(
                        f"The reply ended at its limit of {longest} tokens; the whole of it is needed, in fewer words."
                    )
                reply, repair = read_reply(said.text, form)
            except (errors.MalformedReplyError, errors.ReplyRefusedError) as error:
                if len(messages) > 1:  # the second bad reply is the last
                    error.retryable = False
                else:
                    inputs = {"reason": str(error), "reply": said.text[:SHOWN_CHARACTERS]}
                    messages.append({"role": "user", "content": read_prompt(_REASK).render(inputs)})
                raise
            return reply, repair if len(messages) == 1 else Repair.REASKED

        def attempt() -> tuple[ReplyT, Repair]:
            tokens = sum(count_tokens(message["content"], self.model) + MESSAGE_TOKENS for message in messages)
            send = partial(self._completions.call, messages, request.task.name, form, longest, request.on_text)
            return self._call(asked, tokens, longest, send, read)

        found: dict[str, Any]
        try:
            found = dict(zip(("reply", "repair"), self._attempts(asked, attempt), strict=True))
        except errors.ModelError as error:
            whole_items = _whole_items(request.task, cut_texts, error)
            if whole_items is not None:
                found = {"reply": whole_items, "repair": Repair.CUT}
            else:
                found = _failure(error, asked.usage.calls)
        return _outcome(model=self.model, attempts=asked.usage.calls, usage=asked.usage, **found)

    def _first_error(self, outcome: ChatOutcome[Any]) -> errors.PolyhopError | None:
        """The error to end the run with until one request was accepted, None if it may continue.

        ModelEndpointError if there is no server at the model's address; ModelTimeoutError if it takes too long for a
        single call; else, if each of the first requests failed, a ModelError.
        """
        name = outcome.error_class
        is_failure = name == errors.ModelRejectedError.__name__ or (self._must_answer and name in _OUTAGES)
        with self._lock:
            self._is_accepted = self._is_accepted or not is_failure
            self._failures += is_failure
            if self._is_accepted:
                return None
            if name == errors.ModelUnreachableError.__name__:
                return errors.ModelEndpointError(
                    f"{outcome.error.rstrip('.')}. No request was sent; start the server, or correct models.api_base."
                )
            if self._failures < MOST_FAILURES and name != errors.ModelTimeoutError.__name__:
                return None
        advice = {
            errors.ModelTimeoutError.__name__: "raise models.timeout_seconds, or lower models.max_reply_tokens",
            errors.ModelRejectedError.__name__: "check the model's name and its key",
        }.get(name, "run the same command again when the server replies")
        return _OUTAGES.get(name, errors.ModelRejectedError)(
            f"{outcome.error.rstrip('.')}. No request has had a reply so far, so the run stops; {advice}."
        )

    def _source(self, key: str, request: ChatRequest[Any]) -> ReplySource:
        task = request.task
        return ReplySource(key, self.model, task.name, task.prompt.hash, task.schema_version)

    def _stored(self, source: ReplySource, request: ChatRequest[Any], outcome: ChatOutcome[Any]) -> ChatOutcome[Any]:
        """The outcome as a later run will see it, with its reply or its failure in the cache."""
        attempts = max(outcome.attempts, self._replies.call_count(source.key))
        if outcome.reply is None:
            self._replies.put_failure(source, attempts, outcome.error_class, outcome.error)
            return replace(outcome, attempts=attempts)
        text = canonical_json(outcome.reply)
        reply = request.task.reply.model_validate_json(text)
        self._replies.put_reply(source, text, outcome.repair or Repair.AS_IS, attempts, outcome.usage)
        return replace(outcome, reply=reply, attempts=attempts)


def _whole_items(task: ChatTask[ReplyT], cut_texts: Sequence[str], error: errors.ModelError) -> ReplyT | None:
    """The whole items of the last reply that its limit ended, if the task's replies are lists and none was better."""
    if not task.is_list or not cut_texts or not isinstance(error, errors.MalformedReplyError):
        return None
    return read_cut(cut_texts[-1], task.reply)


def _failure(error: errors.ModelError, calls: int) -> dict[str, Any]:
    """Fields of the outcome of a request that failed."""
    fields = {"error_class": type(error).__name__, "error": in_attempts(str(error), calls)}
    if isinstance(error, errors.ModelRateLimitError):
        return fields | {"retry_after_seconds": error.retry_after_seconds}
    return fields


def _paid_before(reply: BaseModel, stored: StoredReply) -> ChatOutcome[Any]:
    known: dict[str, Any] = {"repair": stored.repair, "attempts": stored.attempts, "usage": stored.usage}
    return _outcome(reply=reply, model=stored.model, is_cached=True, **known)


def canonical_json(reply: BaseModel) -> str:
    """A valid reply as JSON with sorted keys: equal replies have equal texts."""
    value = reply.model_dump(mode="json", by_alias=True)
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
