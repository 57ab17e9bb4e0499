"""Told about every call to a model: it is let through if the budget allows, and kept in the cache with what it took.

Asks no model and decides about no reply.
"""

from collections import deque
from math import ceil
from threading import Event, Lock
from typing import Any

from schemas.chat import ChatRequest, ChatTask, ReplyT, Usage
from schemas.errors import BudgetExceededError
from warehouse.cache.replies import ReplyCache, ReplySource
from warehouse.models.budget import Budget, Reservation

MIN_LENGTHS = 20
MAX_LENGTHS = 500
RESERVED_QUANTILE = 0.95


class Ledger:
    """What the calls of one model take, in this run; safe for threads.

    Attributes:
        spent: The sum, calls that failed included.
    """

    def __init__(self, model: str, cache: ReplyCache, budget: Budget) -> None:
        self.spent = Usage()
        self._model = model
        self._cache = cache
        self._budget = budget
        self._lengths: dict[str, deque[int]] = {}
        self._lock = Lock()

    def source(self, key: str, task: ChatTask[Any]) -> ReplySource:
        """What the cache remembers about a key."""
        return ReplySource(key, self._model, task.name, task.prompt.hash, task.schema_version)

    def reserve(self, task: ChatTask[Any], prompt_tokens: int) -> Reservation | None:
        """Sets aside what a call may take, None if nothing is limited.

        Raises:
            BudgetExceededError: If it might exceed the budget.
        """
        if not self._budget.is_limited:
            return None
        return self._budget.reserve(prompt_tokens, self.expected_tokens(task))

    def settle(self, reservation: Reservation | None, usage: Usage) -> None:
        """Replaces what was set aside by what the call took."""
        if reservation:
            self._budget.settle(reservation, usage)

    def record(self, key: str, task: ChatTask[Any], text: str, usage: Usage, error: str) -> None:
        """Keeps what a call brought and took."""
        with self._lock:
            self.spent += usage
            if usage.completion_tokens and task.name in self._lengths:
                self._lengths[task.name].append(usage.completion_tokens)
        self._cache.put_call(self.source(key, task), text, usage, error)

    def expected_tokens(self, task: ChatTask[Any]) -> int:
        """95 % of the task's outputs were no longer, in this run and before; the task's limit without a history."""
        with self._lock:
            if task.name not in self._lengths:
                history = self._cache.output_lengths(task.name, self._model, MAX_LENGTHS)
                self._lengths[task.name] = deque(reversed(history), maxlen=MAX_LENGTHS)
            lengths = sorted(self._lengths[task.name])
        if len(lengths) < MIN_LENGTHS:
            return task.max_output_tokens
        return min(task.max_output_tokens, lengths[ceil(RESERVED_QUANTILE * len(lengths)) - 1])


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
    """The journal of one request (schemas.chat.CallJournal)."""

    def __init__(self, ledger: Ledger, key: str, stop: Stop) -> None:
        self._ledger = ledger
        self._key = key
        self._stop = stop
        self._reserved: Reservation | None = None

    def before_call(self, request: ChatRequest[ReplyT], prompt_tokens: int) -> None:
        """Sets aside what the call may take.

        Raises:
            BudgetExceededError: If it might exceed the budget, or the run is stopping.
        """
        if self._stop.is_set():
            raise BudgetExceededError("The run is stopping; this call was not made.")
        self._reserved = self._ledger.reserve(request.task, prompt_tokens)

    def after_call(self, request: ChatRequest[ReplyT], text: str, usage: Usage, error: str) -> None:
        """Keeps what the call brought and took."""
        self._settle(usage)
        self._ledger.record(self._key, request.task, text, usage, error)

    def close(self) -> None:
        """Gives back what was set aside for a call that never ended."""
        self._settle(Usage())

    def _settle(self, usage: Usage) -> None:
        reserved, self._reserved = self._reserved, None
        self._ledger.settle(reserved, usage)
