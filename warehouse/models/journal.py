"""Told about every call to a model: it is let through if the budget allows, and kept in the cache with what it took.

Asks no model and decides about no reply. A call is written before it is sent, at its worst case: a whole prompt and the
longest reply; what it then took replaces that.
"""

from collections import deque
from dataclasses import dataclass
from math import ceil
from threading import Event, Lock
from typing import Any

from polyhop.schemas.chat import ChatRequest, ChatTask, ReplyT, Usage, UsageCheck
from polyhop.schemas.errors import BudgetExceededError
from polyhop.schemas.model_settings import ReplySettings
from polyhop.warehouse.cache.calls import ReplySource
from polyhop.warehouse.cache.replies import ReplyCache
from polyhop.warehouse.models.budget import Budget, Reservation
from polyhop.warehouse.models.pace import Pace
from polyhop.warehouse.models.reply_lengths import longest_reply

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
