"""Upper bounds of model calls, tokens, cost and time of indexing or of a question, estimated without a call.

The source is read into a throwaway folder, and each stage that asks a model says what it would ask of it
(`Stage.plan`); replies are looked up in the cache, and lengths are taken from the project's own history of calls where
there is one. Resolution by a model is not in it, nor are paths of hubs in texts, nor vectors of entities in a corpus:
names and relations are known only when they are extracted. Source: algorithms.md 4.10.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from polyhop.schemas.chat import Role
from polyhop.schemas.records import Source, SourceKind
from polyhop.schemas.settings import ENTITIES, PASSAGES, Settings, strategies_for
from polyhop.tasks.embeddings.stage import is_known_in_advance
from polyhop.tasks.hubs.stage import path_text_task
from polyhop.tasks.planning import PlannedStep, Planner, StepEstimate
from polyhop.tasks.registry import stages_for
from polyhop.tasks.stage import tables_of
from polyhop.warehouse.build import Build, start_build
from polyhop.warehouse.cache.replies import ReplyCache
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.records import missing_file
from polyhop.warehouse.models.batches import WINDOW_HOURS
from polyhop.warehouse.models.budget import Price, price_of
from polyhop.warehouse.open_models import model_name
from polyhop.warehouse.vectors.kinds import kinds_in
from polyhop.worker.strategies.registry import needed_artefacts, spec_of


def question_costs(settings: Settings, strategies: Iterable[str]) -> dict[str, dict[str, Any]]:
    """{strategy: {calls, prompt_tokens, completion_tokens, cost_usd, tasks{task: calls}}} with default parameters.

    Strategies that ask no model are left out, and all of them without a model for reading (models.read). `cost_usd` is
    None if the model's price is unknown. Requests that have to be repeated are not counted.
    """
    model = settings.models.read
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


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """Estimated model use of indexing; costs are None if a price is unknown, `unread` counts files by kind.

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
    later_waits: int = 0  # For batches of steps whose requests are known only when others have run.

    def to_json(self) -> dict[str, Any]:
        """The document of `polyhop plan --json`."""
        planned = [estimate.planned for estimate in self.steps]
        steps = {
            estimate.planned.name: {
                **{name: getattr(estimate.planned, name) for name in ("units", "cached", "calls", "prompt_tokens")},
                "completion_tokens": estimate.completion_tokens,
                "completion_range": list(estimate.completion_range),
                "has_history": estimate.has_history,
                "seconds": round(estimate.seconds, 1),
            }
            for estimate in self.steps
        }
        return {
            **{name: getattr(self, name) for name in ("source", "model", "encoder", "documents", "passages")},
            **self.graph,
            "unread": dict(self.unread),
            "unread_files": list(self.unread_files),
            "not_planned": list(self.not_planned),
            "steps": steps,
            **{name: sum(getattr(one, name) for one in planned) for name in ("calls", "cached", "prompt_tokens")},
            "completion_tokens": sum(estimate.completion_tokens for estimate in self.steps),
            "cost_usd": self._cost([estimate.price for estimate in self.steps]),
            "batches": self._in_batches(),
            "seconds": round(sum(estimate.seconds for estimate in self.steps), 1),
        }

    @property
    def is_free(self) -> bool:
        """Returns whether all planned models are free of charge."""
        return all(estimate.price == (0.0, 0.0) for estimate in self.steps)

    def _in_batches(self) -> dict[str, Any] | None:
        """Cost and longest waiting time in batches of the provider; None if no step asks a model."""
        if not any(isinstance(estimate.planned, PlannedStep) for estimate in self.steps):
            return None
        waits = len({estimate.wait for estimate in self.steps} - {""}) + self.later_waits
        cost = self._cost([estimate.batch_price for estimate in self.steps])
        return {"cost_usd": cost, "waits": waits, "hours": waits * WINDOW_HOURS}

    def _cost(self, prices: Sequence[Price | None]) -> dict[str, float] | None:
        costs = [0.0, 0.0, 0.0]
        for estimate, price in zip(self.steps, prices, strict=True):
            if price is None:
                return None
            low, high = estimate.completion_range
            for number, tokens in enumerate((low, estimate.completion_tokens, high)):
                costs[number] += estimate.planned.prompt_tokens * price[0] + tokens * price[1]
        return dict(zip(("low", "expected", "high"), [round(cost / 1_000_000, 6) for cost in costs], strict=True))


def plan_index(
    settings: Settings, source: Source, add_strategies: Sequence[str] = (), kind: SourceKind = "corpus"
) -> IndexPlan:
    """Estimates the stages' model calls for a source, without a call or a change.

    Extraction is planned as if a model did it, and for these strategies besides the settings' own.
    """
    if isinstance(source, Path) and not source.exists():
        raise missing_file(source)
    names = dict.fromkeys(settings.encoder.choice_of(space).name for space in (PASSAGES, ENTITIES))
    encoder = ", ".join(name for name in names if name.startswith("litellm:"))
    needs_no_model = kind == "graph" or encoder
    model = settings.models.extract if needs_no_model else model_name(settings.models, Role.EXTRACT)
    artefacts = tuple(sorted(needed_artefacts((*strategies_for(settings, kind), *add_strategies))))
    first, *stages = stages_for(artefacts, kind)
    if kind == "corpus" and not model:
        stages = [stage for stage in stages if stage.name.startswith("embed-")]
    # Tasks of a model whose prompts are known, and stages that embed what is known, only when other stages have run.
    later = [path_text_task().name] if kind == "corpus" and "hubs" in artefacts else []
    later = later if settings.hubs.textualiser == "model" else []
    with closing(ReplyCache(Layout(settings.root).reply_cache)) as cache:
        with TemporaryDirectory(prefix="polyhop-plan-") as folder:
            build = Build(settings.model_copy(update={"root": Path(folder)}), "plan", source, artefacts, kind)
            start_build(build, tables_of([first, *stages]))
            read = first.run(build, 0)
            counts = first.finish(build)
            planner = Planner(cache, settings)
            steps = [step for stage in stages for step in stage.plan(build, planner)]
        estimates = tuple(planner.estimate(step) for step in steps)
    for each in kinds_in(artefacts):
        is_served = settings.encoder.choice_of(each.space).name.startswith("litellm:")
        if is_served and not is_known_in_advance(each, build):
            later.append(f"embed-{each.name}")
    return IndexPlan(
        str(source),
        model,
        documents=counts.get("documents", 0),
        passages=counts.get("passages", 0),
        steps=estimates,
        unread=read.unread,
        unread_files=read.unread_files,
        graph={"nodes": counts["entities"], "relations": counts["relations"]} if kind == "graph" else {},
        not_planned=tuple(later),
        encoder=encoder,
        later_waits=(kind == "corpus" and settings.resolution.method == "model") + (path_text_task().name in later),
    )
