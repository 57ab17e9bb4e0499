"""What indexing a corpus or a graph would ask of a model: calls, tokens, cost and time, without a call.

The source is read into a throwaway folder, and each stage that asks a model says what it would ask of it
(`Stage.plan`); replies are looked up in the cache, and lengths are taken from the project's own history of calls where
there is one. Resolution by a model is not in it, nor are paths of hubs in texts: names and relations are known only
when they are extracted.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import BaseModel

from polyhop.schemas.chat import ChatRequest, ChatTask, Role, Rung, Usage
from polyhop.schemas.corpus import Source, SourceKind
from polyhop.schemas.errors import SourceError
from polyhop.schemas.settings import ModelSettings, Settings
from polyhop.schemas.strategies import strategies_for
from polyhop.tasks.hubs.textualise import path_text_task
from polyhop.tasks.planning import PlannedStep
from polyhop.tasks.registry import stages_for
from polyhop.tasks.stage import tables_of
from polyhop.warehouse.build import Build, start_build
from polyhop.warehouse.cache.replies import ReplyCache
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.models.prices import count_prompt_tokens, price_of
from polyhop.warehouse.models.reply_lengths import longest_reply, outgrown
from polyhop.warehouse.open_models import model_name
from polyhop.worker.strategies.registry import needed_artefacts

UNKNOWN_LENGTHS = (0.5, 1.8)
KNOWN_LENGTHS = (0.8, 1.25)
_SECONDS_PER_CALL = 4.0
_ENOUGH_CALLS = 20


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

    planned: PlannedStep
    completion_tokens: int
    completion_range: tuple[int, int]
    has_history: bool
    seconds: float
    price: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """What indexing would take of models; costs are None if a price is unknown, `unread` counts files by kind.

    `graph` counts nodes and relations of a graph; a corpus has none until it is extracted. `not_planned` names tasks
    that will be asked about what only extraction shows: no number here counts them.
    """

    source: str
    model: str
    documents: int
    passages: int
    steps: tuple[StepEstimate, ...]
    unread: Mapping[str, int]
    graph: Mapping[str, int] = field(default_factory=dict)
    not_planned: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The document of `polyhop plan --json`."""
        return {
            "source": self.source,
            "model": self.model,
            "documents": self.documents,
            "passages": self.passages,
            **self.graph,
            "unread": dict(self.unread),
            "not_planned": list(self.not_planned),
            "steps": {estimate.planned.task.name: self._step(estimate) for estimate in self.steps},
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
    model = settings.models.extract if kind == "graph" else model_name(settings.models, Role.EXTRACT)
    artefacts = tuple(sorted(needed_artefacts((*strategies_for(settings, kind), *add_strategies))))
    first, *stages = stages_for(artefacts, kind)
    with closing(ReplyCache(Layout(settings.root).reply_cache)) as cache:
        with TemporaryDirectory(prefix="polyhop-plan-") as folder:
            build = Build(settings.model_copy(update={"root": Path(folder)}), "plan", source, artefacts, kind)
            start_build(build, tables_of([first, *stages]))
            unread = first.run(build, 0).unread
            counts = first.finish(build)
            planner = CachePlanner(cache, settings.models)
            steps = [step for stage in stages if stage.plan is not None for step in stage.plan(build, planner)]
        estimates = tuple(planner.estimate(step) for step in steps)
    sizes = {name: counts.get(name, 0) for name in ("documents", "passages")}
    graph = {"nodes": counts["entities"], "relations": counts["relations"]} if kind == "graph" else {}
    asks_later = kind == "corpus" and "hubs" in artefacts and settings.hubs.textualiser == "model"
    not_planned = (path_text_task().name,) if asks_later else ()
    return IndexPlan(str(source), model, **sizes, steps=estimates, unread=unread, graph=graph, not_planned=not_planned)


class CachePlanner:
    """Plans with the replies of the cache, and with lengths and seconds of the project's own calls."""

    def __init__(self, cache: ReplyCache, models: ModelSettings) -> None:
        self._cache = cache
        self._models = models
        self._history: dict[str, dict[str, Usage]] = {}

    def replies(self, requests: Sequence[ChatRequest[Any]], role: Role = Role.EXTRACT) -> list[BaseModel | None]:
        """See `polyhop.tasks.planning.Planner`."""
        keys = [request.key(model_name(self._models, role)) for request in requests]
        stored = self._cache.replies(keys)
        tasks = {key: request.task for key, request in zip(keys, requests, strict=True)}
        cut = {key: tasks[key] for key, reply in stored.items() if reply.rung is Rung.SHORTENED}
        known = stored.keys() - outgrown(self._cache, cut, partial(longest_reply, self._models.longest_reply))
        return [
            request.task.reply.model_validate_json(stored[key].text) if key in known else None
            for key, request in zip(keys, requests, strict=True)
        ]

    def count_tokens(self, text: str) -> int:
        """See `polyhop.tasks.planning.Planner`."""
        return count_prompt_tokens(text, model=model_name(self._models, Role.EXTRACT))

    def output_per_input(self, task: ChatTask[Any], role: Role = Role.EXTRACT) -> float:
        """See `polyhop.tasks.planning.Planner`."""
        history = self._calls(task, role)
        if history is None:
            return task.output_per_input
        text = history.prompt_tokens - self.count_tokens(task.prompt.text) * history.calls
        return history.completion_tokens / text if text > 0 else task.output_per_input

    def estimate(self, step: PlannedStep) -> StepEstimate:
        """What a step may take."""
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

    def _calls(self, task: ChatTask[Any], role: Role) -> Usage | None:
        """This project's calls of a task, if they are enough to go by."""
        model = model_name(self._models, role)
        if model not in self._history:
            self._history[model] = self._cache.calls.answered(model)
        usage = self._history[model].get(task.name)
        return usage if usage is not None and usage.calls >= _ENOUGH_CALLS else None
