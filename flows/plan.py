"""What indexing or a question would ask of a model at most: calls, tokens, cost and time, without a call.

The source is read into a throwaway folder, and each stage that asks a model says what it would ask of it
(`Stage.plan`); replies are looked up in the cache, and lengths are taken from the project's own history of calls where
there is one. Resolution by a model is not in it, nor are paths of hubs in texts, nor vectors of entities in a corpus:
names and relations are known only when they are extracted.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import BaseModel

from polyhop.schemas.chat import ChatRequest, ChatTask, Role, Usage
from polyhop.schemas.errors import SourceError
from polyhop.schemas.records import Source, SourceKind
from polyhop.schemas.settings import ENTITIES, PASSAGES, Settings, Space, strategies_for
from polyhop.tasks.embeddings.stage import is_by_server, is_known_in_advance
from polyhop.tasks.hubs.stage import path_text_task
from polyhop.tasks.registry import stages_for
from polyhop.tasks.stage import PlannedEmbedding, PlannedStep, Stage, tables_of
from polyhop.warehouse.build import Build, start_build
from polyhop.warehouse.cache.replies import ReplyCache
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.models.budget import count_prompt_tokens, count_tokens, cut_text, embedding_price, price_of
from polyhop.warehouse.models.encoder_kinds import SERVER_BATCH_SIZE
from polyhop.warehouse.models.litellm_encoder import TASK as EMBED_TASK
from polyhop.warehouse.open_encoders import open_encoder
from polyhop.warehouse.open_models import model_name
from polyhop.warehouse.vectors.kinds import kinds_in
from polyhop.worker.strategies.registry import needed_artefacts, spec_of

# Source: algorithms.md 4.10.


def question_costs(settings: Settings, strategies: Iterable[str]) -> dict[str, dict[str, Any]]:
    """{strategy: {calls, prompt_tokens, completion_tokens, cost_usd, tasks{task: calls}}} with default parameters.

    Strategies that ask no model are left out, and all of them without a model for reading (models.read). `cost_usd` is
    None if the model's price is unknown. Requests that have to be repeated are not counted.

    Raises:
        UnknownStrategyError: If there is no such strategy.
    """
    model = settings.models.chat_reader
    if not model:
        return {}
    price = price_of(model, settings.models)
    costs = {}
    for name in dict.fromkeys(strategies):
        bounds = spec_of(name).parameters().call_bounds()
        if not bounds:
            continue
        prompt = sum(bound.calls * bound.prompt_tokens for bound in bounds)
        reply = sum(bound.calls * bound.completion_tokens for bound in bounds)
        costs[name] = {
            "calls": sum(bound.calls for bound in bounds),
            "prompt_tokens": prompt,
            "completion_tokens": reply,
            "cost_usd": None if price is None else round((prompt * price[0] + reply * price[1]) / 1_000_000, 6),
            "tasks": {bound.task: bound.calls for bound in bounds},
        }
    return costs


# least and most output in units of the expected, without a history of calls; chosen: no real provider was ever asked
# (docs/left.md).
UNKNOWN_LENGTHS = (0.5, 1.8)
KNOWN_LENGTHS = (0.8, 1.25)  # the same with a history; chosen
_SECONDS_PER_CALL = 4.0  # without a history; chosen, and only the stated time depends on it
_SECONDS_PER_EMBEDDING = 1.0  # of an encoder behind a server, without a history; chosen likewise
_ENOUGH_CALLS = 20  # chosen: fewer say little about a mean; as many as `MIN_LENGTHS` of warehouse/models/chat.py


@dataclass(frozen=True, slots=True)
class StepEstimate:
    """A step with what it may take; ranges are (low, high).

    Attributes:
        planned: What is asked.
        completion_tokens: Tokens of all replies still to come, as expected.
        completion_range: The same, low and high.
        has_history: Lengths and seconds come from earlier calls of this project.
        seconds: Of all calls still to make, side by side as configured.
        price: Dollars per million tokens of prompts and of replies, None if unknown.
    """

    planned: PlannedStep | PlannedEmbedding
    completion_tokens: int
    completion_range: tuple[int, int]
    has_history: bool
    seconds: float
    price: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """What indexing would take of models; costs are None if a price is unknown, `unread` counts files by kind.

    `graph` counts nodes and relations of a graph; a corpus has none until it is extracted. `not_planned` names tasks
    that will be asked about what only extraction shows, and vectors of such things: no number here counts them.
    `encoder` is that of a server, "" for one that costs nothing.
    """

    source: str
    model: str
    documents: int
    passages: int
    steps: tuple[StepEstimate, ...]
    unread: Mapping[str, int]
    graph: Mapping[str, int] = field(default_factory=dict)
    unread_files: Sequence[str] = ()
    not_planned: tuple[str, ...] = ()
    encoder: str = ""

    def to_json(self) -> dict[str, Any]:
        """The document of `polyhop plan --json`."""
        return {
            "source": self.source,
            "model": self.model,
            "encoder": self.encoder,
            "documents": self.documents,
            "passages": self.passages,
            **self.graph,
            "unread": dict(self.unread),
            "unread_files": list(self.unread_files),
            "not_planned": list(self.not_planned),
            "steps": {estimate.planned.name: self._step(estimate) for estimate in self.steps},
            "calls": sum(estimate.planned.calls for estimate in self.steps),
            "cached": sum(estimate.planned.cached for estimate in self.steps),
            "prompt_tokens": sum(estimate.planned.prompt_tokens for estimate in self.steps),
            "completion_tokens": sum(estimate.completion_tokens for estimate in self.steps),
            "cost_usd": self._cost(),
            "seconds": round(sum(estimate.seconds for estimate in self.steps), 1),
        }

    def _step(self, estimate: StepEstimate) -> dict[str, Any]:
        planned = estimate.planned
        return {
            "units": planned.units,
            "cached": planned.cached,
            "calls": planned.calls,
            "prompt_tokens": planned.prompt_tokens,
            "completion_tokens": estimate.completion_tokens,
            "completion_range": list(estimate.completion_range),
            "has_history": estimate.has_history,
            "seconds": round(estimate.seconds, 1),
        }

    @property
    def is_free(self) -> bool:
        """Whether every model that would be asked costs nothing."""
        return all(estimate.price == (0.0, 0.0) for estimate in self.steps)

    def _cost(self) -> dict[str, float] | None:
        costs = [0.0, 0.0, 0.0]
        for estimate in self.steps:
            if estimate.price is None:
                return None
            low, high = estimate.completion_range
            for number, tokens in enumerate((low, estimate.completion_tokens, high)):
                costs[number] += estimate.planned.prompt_tokens * estimate.price[0] + tokens * estimate.price[1]
        return dict(zip(("low", "expected", "high"), [round(cost / 1_000_000, 6) for cost in costs], strict=True))


def plan_index(
    settings: Settings, source: Source, add_strategies: Sequence[str] = (), kind: SourceKind = "corpus"
) -> IndexPlan:
    """What the stages would ask of the configured models for a source; calls nobody and changes nothing.

    Args:
        settings: All settings; extraction is planned as if a model did it.
        source: The corpus or the graph.
        add_strategies: Strategies to plan for besides the settings' own.
        kind: What the source is.

    Raises:
        SourceError: If the source cannot be used.
        ConfigurationError: If no model is configured; a graph needs one only if a stage asks it.
    """
    if isinstance(source, Path) and not source.exists():
        raise SourceError(f"There is no file or folder {source}; check the path.")
    encoder = _encoders_by_server(settings)
    needs_none = kind == "graph" or encoder
    model = settings.models.extract if needs_none else model_name(settings.models, Role.EXTRACT)
    artefacts = tuple(sorted(needed_artefacts((*strategies_for(settings, kind), *add_strategies))))
    first, *stages = stages_for(artefacts, kind)
    with closing(ReplyCache(Layout(settings.root).reply_cache)) as cache:
        with TemporaryDirectory(prefix="polyhop-plan-") as folder:
            build = Build(settings.model_copy(update={"root": Path(folder)}), "plan", source, artefacts, kind)
            start_build(build, tables_of([first, *stages]))
            read = first.run(build, 0)
            counts = first.finish(build)
            planner = CachePlanner(cache, settings)
            asked = [stage for stage in stages if _is_asked(stage, model, kind)]
            steps = _steps(asked, build, planner)
            later = _embedded_later(build) if encoder else ()
        estimates = tuple(planner.estimate(step) for step in steps)
    graph = {"nodes": counts["entities"], "relations": counts["relations"]} if kind == "graph" else {}
    return IndexPlan(
        str(source),
        model,
        documents=counts.get("documents", 0),
        passages=counts.get("passages", 0),
        steps=estimates,
        unread=read.unread,
        unread_files=read.unread_files,
        graph=graph,
        not_planned=(*_asked_later(settings, artefacts, kind), *later),
        encoder=encoder,
    )


def _steps(stages: Iterable[Stage], build: Build, planner: "CachePlanner") -> list[PlannedStep | PlannedEmbedding]:
    """What those of the stages that plan would ask."""
    return [step for stage in stages if stage.plan is not None for step in stage.plan(build, planner)]


def _asked_later(settings: Settings, artefacts: Sequence[str], kind: SourceKind) -> tuple[str, ...]:
    """Tasks of a model whose prompts are known only when other stages have run."""
    is_asked = kind == "corpus" and "hubs" in artefacts and settings.hubs.textualiser == "model"
    return (path_text_task().name,) if is_asked else ()


def _encoders_by_server(settings: Settings) -> str:
    """Names of the encoders that a server runs, separated by commas; "" if none does."""
    choices = (settings.encoder.choice_of(space).name for space in (PASSAGES, ENTITIES))
    return ", ".join(dict.fromkeys(name for name in choices if name.startswith("litellm:")))


def _is_asked(stage: Stage, model: str, kind: SourceKind) -> bool:
    """Whether a stage that plans asks anything: without a model for a corpus only those that embed do."""
    return bool(model) or kind == "graph" or stage.name.startswith("embed-")


def _embedded_later(build: Build) -> tuple[str, ...]:
    """Stages that embed what only other stages find."""
    return tuple(
        f"embed-{one.name}"
        for one in kinds_in(build.artefacts)
        if not is_known_in_advance(one, build) and is_by_server(build, one)
    )


class CachePlanner:
    """Plans with the replies and vectors of the caches, and with lengths and seconds of the project's own calls."""

    def __init__(self, cache: ReplyCache, settings: Settings) -> None:
        self._cache = cache
        self._settings = settings
        self._models = settings.models
        self._history: dict[str, dict[str, Usage]] = {}

    def replies(self, requests: Sequence[ChatRequest[Any]], role: Role = Role.EXTRACT) -> list[BaseModel | None]:
        """See `polyhop.tasks.stage.Planner`."""
        keys = [request.key(model_name(self._models, role)) for request in requests]
        stored = self._cache.replies(keys)
        return [
            request.task.reply.model_validate_json(stored[key].text) if key in stored else None
            for key, request in zip(keys, requests, strict=True)
        ]

    def count_tokens(self, text: str) -> int:
        """See `polyhop.tasks.stage.Planner`."""
        return count_prompt_tokens(text, model=model_name(self._models, Role.EXTRACT))

    def output_per_input(self, task: ChatTask[Any], role: Role = Role.EXTRACT) -> float:
        """See `polyhop.tasks.stage.Planner`."""
        history = self._calls(task, role)
        if history is None:
            return task.output_per_input
        text = history.prompt_tokens - self.count_tokens(task.prompt.text) * history.calls
        return history.completion_tokens / text if text > 0 else task.output_per_input

    def embedding(self, name: str, texts: Iterable[str], kind: str, space: Space = PASSAGES) -> PlannedEmbedding | None:
        """See `polyhop.tasks.stage.Planner`."""
        choice = self._settings.encoder.choice_of(space)
        if not choice.name.startswith("litellm:"):
            return None
        encoder, model = open_encoder(self._settings, space), choice.name.partition(":")[2]
        prefix = choice.passage_prefix if kind else choice.query_prefix
        keys = {encoder.key(text, kind) if kind else encoder.question_key(text): text for text in texts}
        known = encoder.known(list(keys))
        cut = [cut_text(prefix + keys[key], choice.max_tokens, model) for key in keys.keys() - known]
        tokens = sum(count_tokens(text, model) for text in cut)
        calls = -(-len(cut) // (self._settings.encoder.batch_size or SERVER_BATCH_SIZE))
        return PlannedEmbedding(name, len(keys), len(known), calls, tokens, space)

    def estimate(self, step: PlannedStep | PlannedEmbedding) -> StepEstimate:
        """What a step may take."""
        if isinstance(step, PlannedEmbedding):
            return self._estimate_of_embedding(step)
        history = self._calls(step.task, step.role)
        expected = step.text_tokens * self.output_per_input(step.task, step.role)
        low, high = KNOWN_LENGTHS if history else UNKNOWN_LENGTHS
        per_call = history.seconds / history.calls if history else _SECONDS_PER_CALL
        return StepEstimate(
            step,
            round(expected),
            (round(expected * low), round(expected * high)),
            history is not None,
            step.calls * per_call / self._models.concurrency,
            price_of(model_name(self._models, step.role), self._models),
        )

    def _estimate_of_embedding(self, step: PlannedEmbedding) -> StepEstimate:
        choice = self._settings.encoder.choice_of(step.space)
        model = choice.name.partition(":")[2]
        history = self._history_of(model).get(EMBED_TASK)
        per_call = history.seconds / history.calls if history else _SECONDS_PER_EMBEDDING
        price = embedding_price(model, choice.price)
        seconds = step.calls * per_call / self._models.concurrency
        return StepEstimate(step, 0, (0, 0), history is not None, seconds, None if price is None else (price, 0.0))

    def _calls(self, task: ChatTask[Any], role: Role) -> Usage | None:
        """This project's calls of a task, if they are enough to go by."""
        usage = self._history_of(model_name(self._models, role)).get(task.name)
        return usage if usage is not None and usage.calls >= _ENOUGH_CALLS else None

    def _history_of(self, model: str) -> Mapping[str, Usage]:
        if model not in self._history:
            self._history[model] = self._cache.answered_calls(model)
        return self._history[model]
