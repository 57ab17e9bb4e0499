"""Planned model requests of a stage: steps, and their cost by the caches and by the project's own history of calls.

Source: algorithms.md 4.10.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from polyhop.schemas.chat import ChatRequest, ChatTask, Role, Usage
from polyhop.schemas.settings import PASSAGES, Settings, Space
from polyhop.warehouse.cache.replies import ReplyCache
from polyhop.warehouse.models.budget import (
    EMBED_TASK,
    batch_price_of,
    count_prompt_tokens,
    count_tokens,
    cut_text,
    embedding_price,
    price_of,
)
from polyhop.warehouse.models.encoder_kinds import SERVER_BATCH_SIZE
from polyhop.warehouse.models.replies import cached_replies
from polyhop.warehouse.open_models import model_name, open_encoder


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One kind of question over a corpus, or a part of it.

    `cached` counts the units that have a reply; `text_tokens` those of `prompt_tokens` on which lengths of replies
    depend.
    """

    task: ChatTask[Any]
    units: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    text_tokens: int = 0

    @property
    def name(self) -> str:
        """Name of the step."""
        return self.task.name

    @property
    def calls(self) -> int:
        """Calls to make, if none has to be repeated."""
        return self.units - self.cached

    def __add__(self, other: "PlannedStep") -> "PlannedStep":
        units, cached = self.units + other.units, self.cached + other.cached
        tokens = self.prompt_tokens + other.prompt_tokens, self.text_tokens + other.text_tokens
        return PlannedStep(self.task, units, cached, *tokens)


@dataclass(frozen=True, slots=True)
class PlannedEmbedding:
    """Vectors of one kind over a corpus, by an encoder on a server; `cached` counts texts that have one."""

    name: str
    units: int
    cached: int
    calls: int
    prompt_tokens: int
    space: Space = PASSAGES


# least and most output in units of the expected, without a history of calls; chosen: no real provider was ever asked
# (docs/known-limits.md).
UNKNOWN_LENGTHS = (0.5, 1.8)
KNOWN_LENGTHS = (0.8, 1.25)  # the same with a history; chosen
_SECONDS_PER_CALL = 4.0  # without a history; chosen, and only the stated time depends on it
_SECONDS_PER_EMBEDDING = 1.0  # of an encoder on a server, without a history; chosen likewise
_ENOUGH_CALLS = 20  # chosen: fewer say little about a mean; as many as `MIN_LENGTHS` of warehouse/models/chat.py


@dataclass(frozen=True, slots=True)
class StepEstimate:
    """A step with what it may take as expected; ranges are (low, high), prices are in dollars per million tokens.

    `batch_price` is that in batches of the provider, `price` again where it asks by single calls; steps of the
    same `wait` ("": none) wait for batches together. With `has_history` lengths and seconds come from earlier calls of
    this project. Seconds are of all calls side by side.
    """

    planned: PlannedStep | PlannedEmbedding
    completion_tokens: int
    completion_range: tuple[int, int]
    has_history: bool
    seconds: float
    price: tuple[float, float] | None
    batch_price: tuple[float, float] | None = None
    wait: str = ""


class Planner:
    """Plans with the replies and vectors of the caches, and with lengths and seconds of the project's own calls."""

    def __init__(self, cache: ReplyCache, settings: Settings) -> None:
        self._cache = cache
        self._settings = settings
        self._models = settings.models
        self._history: dict[str, dict[str, Usage]] = {}

    def replies(self, requests: Sequence[ChatRequest[Any]]) -> list[BaseModel | None]:
        """The replies that the cache holds, None where it has none."""
        keys = [request.key(model_name(self._models, Role.EXTRACT)) for request in requests]
        known = cached_replies(self._cache, dict(zip(keys, requests, strict=True)), self._models.max_reply_tokens)
        return [known[key][0] if key in known else None for key in keys]

    def count_tokens(self, text: str) -> int:
        """Estimated tokens of a text."""
        return count_prompt_tokens(text, model=model_name(self._models, Role.EXTRACT))

    def output_per_input(self, task: ChatTask[Any]) -> float:
        """Tokens of a reply per token of the text that it is about: from this project's calls, else the task's own."""
        history, text = self._calls(task), self.text_per_call(task)
        if history is None or not text:
            return task.output_per_input
        return history.completion_tokens / history.calls / text

    def text_per_call(self, task: ChatTask[Any]) -> float:
        """Tokens of the text in this project's calls of a task, by their mean; 0 without enough calls."""
        history = self._calls(task)
        if history is None:
            return 0.0
        return max(0.0, history.prompt_tokens / history.calls - self.count_tokens(task.prompt.text))

    def embedding(self, name: str, texts: Iterable[str], kind: str, space: Space = PASSAGES) -> PlannedEmbedding | None:
        """Vectors of texts of a kind, "" for questions; None if the encoder of the space asks no server."""
        choice = self._settings.encoder.choice_of(space)
        if not choice.name.startswith("litellm:"):
            return None
        encoder, model = open_encoder(self._settings, space), choice.name.partition(":")[2]
        prefix = choice.passage_prefix if kind else choice.query_prefix
        keys = {encoder.key(text, kind) if kind else encoder.question_key(text): text for text in texts}
        known = encoder.known(list(keys))
        cut = [cut_text(prefix + keys[key], choice.max_tokens, model) for key in keys.keys() - known]
        tokens = sum(count_tokens(text, model) for text in cut)
        calls = -(-len(cut) // SERVER_BATCH_SIZE)
        return PlannedEmbedding(name, len(keys), len(known), calls, tokens, space)

    def estimate(self, step: PlannedStep | PlannedEmbedding) -> StepEstimate:
        """Estimates the cost of a step."""
        if isinstance(step, PlannedEmbedding):
            choice = self._settings.encoder.choice_of(step.space)
            model = choice.name.partition(":")[2]
            history = self._history_of(model).get(EMBED_TASK)
            per_call = history.seconds / history.calls if history else _SECONDS_PER_EMBEDDING
            price, seconds = embedding_price(model, self._models), step.calls * per_call / self._models.concurrency
            prices = None if price is None else (price, 0.0)
            return StepEstimate(step, 0, (0, 0), history is not None, seconds, prices, prices)
        history = self._calls(step.task)
        expected = step.text_tokens * self.output_per_input(step.task)
        low, high = KNOWN_LENGTHS if history else UNKNOWN_LENGTHS
        per_call = (history and history.seconds / history.calls) or _SECONDS_PER_CALL
        lengths = round(expected * low), round(expected * high)
        seconds = step.calls * per_call / self._models.concurrency
        prices = price_of(model_name(self._models, Role.EXTRACT), self._models)
        is_batched = self._models.mode == ("single",) or self._models.asks_in_batches(step.name)
        about = step, round(expected), lengths, history is not None, seconds, prices
        if not is_batched:
            return StepEstimate(*about, prices)
        # entities of propositions are asked about together with the graph; propositions, which name them, after both
        wait = "kg.extract" if step.name == "prop.entities" else step.name
        return StepEstimate(*about, batch_price_of(self._models.extract, self._models), wait if step.calls else "")

    def _calls(self, task: ChatTask[Any]) -> Usage | None:
        """This project's calls of a task, if they are enough to go by."""
        usage = self._history_of(model_name(self._models, Role.EXTRACT)).get(task.name)
        return usage if usage is not None and usage.calls >= _ENOUGH_CALLS else None

    def _history_of(self, model: str) -> Mapping[str, Usage]:
        if model not in self._history:
            self._history[model] = self._cache.answered_calls(model)
        return self._history[model]


Replies = Sequence[BaseModel | None]


def planned_step(
    task: ChatTask[Any], requests: Sequence[ChatRequest[Any]], planner: Planner, replies: Replies | None = None
) -> PlannedStep:
    """The step that asks these requests of one task, answered or not; `replies` are those of the cache, if known."""
    known = planner.replies(requests) if replies is None else replies
    missing = [request for request, reply in zip(requests, known, strict=True) if reply is None]
    template = planner.count_tokens(task.prompt.text)
    prompts = [planner.count_tokens(request.text) for request in missing]
    text_tokens = sum(max(tokens - template, 0) for tokens in prompts)
    return PlannedStep(task, len(requests), len(requests) - len(missing), sum(prompts), text_tokens)
