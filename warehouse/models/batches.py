"""Requests in batches of a provider, at their lower price: wanted, frozen in parts, submitted, taken in by a later run.

Invariant: a request is in one part at most; a part and its calls are in the journal before it is submitted, and it is
looked for at the provider by its key before it is submitted, so that a kill at any moment pays nothing twice. What came
back is left as raw replies, which `Chat` reads and stores like those of calls. Source: OpenAI, Batch API guide, 2024
(limits of a batch: 50,000 requests, 200 MB; replies in any order, within 24 hours).
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt

from polyhop.schemas import errors
from polyhop.schemas.chat import JOBS, ChatRequest, Usage
from polyhop.schemas.settings import ModelSettings
from polyhop.schemas.text import plural
from polyhop.warehouse.cache.replies import BatchPart, ReplyCache, ReplySource, WantedRequest, claims_of
from polyhop.warehouse.models.budget import Budget, count_prompt_tokens, count_tokens, plausible_counts
from polyhop.warehouse.models.calls import MAX_PAUSE_SECONDS, wait_seconds
from polyhop.warehouse.models.endpoints import CallFailedError, Completion, EndpointReply
from polyhop.warehouse.models.litellm_client import BatchEndpoint, BatchState, batch_reply
from polyhop.warehouse.models.replies import longest_reply
from polyhop.warehouse.statements import noted

_LOG = logging.getLogger(__name__)
MOST_BYTES = 100_000_000  # of a part; chosen: half of OpenAI's limit, and read into memory as a whole
LINE_BYTES = 200  # of a line beside the request's body: custom id, method, address
ROWS_AT_ONCE = 500  # replies of a transaction; chosen: a kill repeats the work of some milliseconds
WINDOW_HOURS = 24  # within which a provider replies: the only window of OpenAI's interface
T = TypeVar("T")


class Batches:
    """The batches of one model, for a run of one index; not safe for threads but for `want`.

    Attributes:
        spent: What came back in this run took.
        cached: Always 0: nothing is answered from a cache here.
        replaced: Replies whose reported token counts were implausible, so that our own were used.
    """

    def __init__(self, model: str, settings: ModelSettings, replies: ReplyCache, budget: Budget, index: str) -> None:
        self.spent, self.cached, self.replaced = Usage(), 0, 0
        self._model, self._settings, self._replies, self._budget, self._index = model, settings, replies, budget, index
        self._claims = claims_of(replies.path)
        self._opened: BatchEndpoint | None = None
        for part in replies.parts(model):
            budget.book(part.worst)

    @property
    def _endpoint(self) -> BatchEndpoint:
        if self._opened is None:
            self._opened = BatchEndpoint(self._model, self._settings)
        return self._opened

    @property
    def are_open(self) -> bool:
        """Returns whether any batch of the model, of any index, is still open."""
        return bool(self._replies.parts(self._model))

    def want(self, requests: Mapping[str, ChatRequest[Any]]) -> set[str]:
        """Notes requests for the next batch; returns the keys of those that wait.

        The others came back without a valid reply, or their step is one of single calls.
        """
        known = self._replies.wanted(list(requests))
        asks = self._settings.asks_in_batches
        put_off = {key: one for key, one in requests.items() if asks(one.task.name) or known.get(key) is False}
        self._replies.want(self._index, [self._wanted(key, put_off[key]) for key in put_off if key not in known])
        return {key for key in put_off if not known.get(key, False)}

    def _wanted(self, key: str, request: ChatRequest[Any]) -> WantedRequest:
        task, text = request.task, request.text
        longest = longest_reply(self._settings.max_reply_tokens, task)
        tokens = count_prompt_tokens(text, self._model)
        worst = Usage(1, tokens, longest, self._budget.cost(tokens, longest))
        source = ReplySource(key, self._model, task.name, task.prompt.hash, task.schema_version)
        return WantedRequest(source, worst, json.dumps(self._endpoint.body(text, task.name, task.reply, longest)))

    def forget_wanted(self) -> None:
        """Forgets what an earlier run wanted and did not submit: this one may want something else."""
        self._replies.forget_wanted(self._index)

    def submit(self) -> errors.WaitingError:
        """Freezes what is wanted into parts, as far as limits and budget allow, and submits them; says what is awaited.

        Raises:
            BudgetExceededError: If not a single request fits into the budget, and none is submitted.
            ModelError: If the provider does not take a part.
        """
        self._tried(partial(self._endpoint.find, ""))  # who cannot find batches submits none
        for keys, worst in self._cut():
            self._replies.freeze_part(self._index, keys)
            self._budget.book(worst)
        for part in self._replies.parts(self._model):
            self._submitted(part)
        return self._waiting()

    def _cut(self) -> Iterator[tuple[list[str], Usage]]:
        """The keys of each part; what exceeds the tokens that may be enqueued, or the budget, is for later runs."""
        settings = self._settings
        enqueued = sum(part.worst.prompt_tokens for part in self._replies.parts(self._model))
        keys: list[str] = []
        size, worst = 0, Usage()
        for key, body_bytes, request in self._replies.unsubmitted(self._index, self._model):
            together, is_first = worst + request, not enqueued and not worst.calls
            if enqueued + together.prompt_tokens > settings.batch_tokens and not is_first:
                break
            if not self._budget.has_room_for(together):
                if is_first:
                    raise errors.BudgetExceededError(
                        "The budget of this run does not cover a single request of a batch; raise max_tokens or "
                        "max_cost_usd. Finished work is kept."
                    )
                break
            if len(keys) == settings.batch_requests or (keys and size + body_bytes + LINE_BYTES > MOST_BYTES):
                yield keys, worst
                enqueued += worst.prompt_tokens
                keys, size, worst, together = [], 0, Usage(), request
            keys.append(key)
            size, worst = size + body_bytes + LINE_BYTES, together
        if keys:
            yield keys, worst

    def _submitted(self, part: BatchPart) -> str:
        """Number of the part's batch; made now, unless a run that was killed or lost its connection has made it."""
        with self._claims.held(part.key, lambda: False):
            known = {each.key: each.batch_id for each in self._replies.parts(self._model)}
            if known.get(part.key, part.batch_id) or part.key not in known:
                return known.get(part.key, "")
            state = self._tried(lambda: self._endpoint.find(part.key) or self._created(part))
            self._replies.note_submission(part.key, state.batch_id)
            return state.batch_id

    def _created(self, part: BatchPart) -> BatchState:
        lines = b"".join(_line(key, body) for key, body in self._replies.part_bodies(part.key))
        try:
            return self._endpoint.create(part.key, lines)
        except CallFailedError as failed:
            if not failed.error.retryable:
                self._refused(part)
            raise

    def has_news(self) -> bool:
        """Returns whether a run would make progress: a batch of this index has ended, or is still to be submitted."""
        parts = self._own() or self._replies.parts(self._model)
        for part in parts:
            state = self._tried(partial(self._endpoint.look, part.batch_id)) if part.batch_id else None
            if state is None or state.is_over or state.refusal:
                return True
        return not parts

    def take_in(self) -> errors.WaitingError | None:
        """Submits parts that a killed run had frozen, and takes in the replies of batches that have ended.

        Returns:
            What is awaited if batches of this index have not ended, else None.

        Raises:
            ModelError: If the provider refused a batch as a whole, or cannot be asked.
        """
        refused = []
        for part in self._replies.parts(self._model):
            batch_id = self._submitted(part)
            with self._claims.held(part.key, lambda: False):
                if not batch_id or part.key not in {each.key for each in self._replies.parts(self._model)}:
                    continue  # another process has taken it in
                state = self._tried(partial(self._endpoint.look, batch_id))
                if state.refusal:
                    self._refused(part)
                    refused.append(f"{state.batch_id}: {state.refusal.rstrip('.')}")
                elif state.is_over:
                    self._collect(part, state)
        if refused:
            raise errors.ModelRejectedError(
                f"{self._model} refused {plural(len(refused), 'batch', 'batches')} ({'; '.join(refused)}). "
                "Nothing was billed, and the next run submits again; if a batch was too large, lower "
                "models.batch_tokens or models.batch_requests."
            )
        return self._waiting() if self._own() else None

    def _waiting(self) -> errors.WaitingError:
        """Error that this index waits: for its own batches, or for those of another index with the same requests."""
        parts = self._own() or self._replies.parts(self._model)
        count = sum(part.worst.calls for part in parts)
        who, otherwise = (f"Index '{self._index}' waits", "with --wait")
        if self._index == JOBS:
            who, otherwise = ("Questions of jobs wait", "without --until-empty")
        return errors.WaitingError(
            f"{who} for {plural(count, 'reply', 'replies')} of {self._model} in "
            f"{plural(len(parts), 'batch', 'batches')}, due within {WINDOW_HOURS} hours of submission. Run the same "
            f"command again later, or {otherwise}; no request is sent twice.",
            count,
        )

    def _own(self) -> list[BatchPart]:
        return [part for part in self._replies.parts(self._model) if part.index == self._index]

    def _collect(self, part: BatchPart, state: BatchState) -> None:
        """Ends the calls of a part by what came back, in any order.

        What did not come was not answered in time; of a complete batch it was, and is booked at its worst case.
        """
        left = self._replies.part_requests(part.key)
        came: list[tuple[WantedRequest, str, Usage, str]] = []
        for file in state.files:
            for line in self._tried(partial(self._endpoint.lines, file)):
                key, answer, error = batch_reply(line)
                request = left.pop(key, None)
                if request is None:
                    continue
                came.append((request, *self._read(request, answer), error))
                if len(came) == ROWS_AT_ONCE:
                    self._end(came)
                    came = []
        unknown = [(request, "", request.worst, "OutcomeUnknown") for request in left.values()]
        expired = [(request, "", Usage(1), "Expired") for request in left.values()]
        self._end([*came, *(unknown if state.is_complete else expired)], part.key)

    def _read(self, request: WantedRequest, answer: EndpointReply[Completion] | None) -> tuple[str, Usage]:
        """The text of a reply, and what it took."""
        if answer is None:
            return "", Usage(1)
        worst = request.worst
        own = worst.prompt_tokens, count_tokens(answer.text, self._model) if answer.text else 0
        reported = answer.prompt_tokens, answer.completion_tokens
        counts, is_replaced = plausible_counts(reported, own, worst.completion_tokens)
        self.replaced += is_replaced
        return answer.text, Usage(1, *counts, self._budget.cost(*counts))

    def _end(self, came: list[tuple[WantedRequest, str, Usage, str]], ended: str = "") -> None:
        self._replies.take_in(came, ended)
        for request, _, usage, _ in came:
            self._budget.book(usage, request.worst)
            self.spent += usage

    def _refused(self, part: BatchPart) -> None:
        """Ends the calls of a part that was not taken, and forgets it: its requests will be wanted again."""
        requests = self._replies.part_requests(part.key).values()
        ends = [(request, "", Usage(1), "ModelRejectedError") for request in requests]
        self._replies.take_in(ends, part.key, is_refused=True)
        self._budget.book(Usage(), part.worst)

    def _tried(self, call: Callable[[], T]) -> T:
        """Makes a call, with at most `models.max_attempts` attempts."""

        def attempt() -> T:
            try:
                return call()
            except CallFailedError as failed:
                raise failed.error from failed

        retrying = Retrying(
            retry=retry_if_exception(lambda error: isinstance(error, errors.ModelError) and error.retryable),
            stop=stop_after_attempt(self._settings.max_attempts),
            wait=_pause_seconds,
            before_sleep=noted(_LOG, f"a batch of {self._model}"),
            reraise=True,
        )
        return retrying(attempt)


def _pause_seconds(state: RetryCallState) -> float:
    """As between calls, and at least as long as the provider asks for."""
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after_seconds if isinstance(error, errors.ModelRateLimitError) else None
    return max(wait_seconds(state), min(asked or 0.0, MAX_PAUSE_SECONDS))


def _line(key: str, body: str) -> bytes:
    return f'{{"custom_id":"{key}","method":"POST","url":"/v1/chat/completions","body":{body}}}\n'.encode()
