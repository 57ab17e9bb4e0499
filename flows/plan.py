"""What indexing a corpus would ask of a model: calls, tokens, cost and time, without a call.

The corpus is read into a throwaway folder; replies are looked up in the cache, and lengths are taken from the
project's own history of calls where there is one. Resolution by a model is not in it: which names are candidates is
known only when they are extracted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import BaseModel

from schemas.chat import ChatRequest, Role
from schemas.corpus import Passage
from schemas.errors import SourceError
from schemas.settings import Settings
from tasks.corpus.stage import ingest_batch, ingest_finish
from tasks.extraction.contract import Contract
from tasks.extraction.plan import OUTPUT_PER_INPUT, PlannedStep, plan_passages
from tasks.extraction.questions import kg_extract, prop_entities, prop_propositions
from warehouse.build import Build, start_build
from warehouse.cache.replies import ReplyCache, TaskCounts
from warehouse.files.layout import Layout
from warehouse.models.prices import count_prompt_tokens, price_of
from warehouse.open_models import model_name
from warehouse.tables.statements import statement

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
    """

    planned: PlannedStep
    completion_tokens: int
    completion_range: tuple[int, int]
    has_history: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """What indexing would take of a model; costs are None if its price is unknown."""

    source: str
    model: str
    documents: int
    passages: int
    steps: tuple[StepEstimate, ...]
    price: tuple[float, float] | None

    def to_json(self) -> dict[str, Any]:
        """The document of `polyhop plan --json`."""
        return {
            "source": self.source,
            "model": self.model,
            "documents": self.documents,
            "passages": self.passages,
            "steps": {estimate.planned.step: self._step(estimate) for estimate in self.steps},
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

    def _cost(self) -> dict[str, float] | None:
        if self.price is None:
            return None
        prompt = sum(estimate.planned.prompt_tokens for estimate in self.steps) * self.price[0]
        low, expected, high = (
            sum(tokens)
            for tokens in (
                [estimate.completion_range[0] for estimate in self.steps],
                [estimate.completion_tokens for estimate in self.steps],
                [estimate.completion_range[1] for estimate in self.steps],
            )
        )
        costs = [(prompt + tokens * self.price[1]) / 1_000_000 for tokens in (low, expected, high)]
        return dict(zip(("low", "expected", "high"), [round(cost, 4) for cost in costs], strict=True))


def plan_index(settings: Settings, source: Path) -> IndexPlan:
    """What extraction of a corpus by the configured model would take; calls nobody and changes nothing.

    Raises:
        SourceError: If the corpus cannot be used.
        ConfigurationError: If no model is configured.
    """
    if not source.exists():
        raise SourceError(f"There is no file or folder {source}; check the path.")
    model = model_name(settings.models, Role.EXTRACT)
    cache = ReplyCache(Layout(settings.root).reply_cache)
    try:
        history = {counts.task: counts for counts in cache.by_task() if counts.model == model}
        with TemporaryDirectory(prefix="polyhop-plan-") as folder:
            build = Build(settings.model_copy(update={"root": Path(folder)}), "plan", source, ())
            start_build(build)
            ingest_batch(build, 0)
            counts = ingest_finish(build)
            steps = _steps(build, cache, model, history)
    finally:
        cache.close()
    estimates = tuple(_estimate(step, history.get(step.step), settings.models.concurrency, model) for step in steps)
    price = price_of(model, settings.models)
    return IndexPlan(str(source), model, counts["documents"], counts["passages"], estimates, price)


def _steps(build: Build, cache: ReplyCache, model: str, history: dict[str, TaskCounts]) -> list[PlannedStep]:
    ratios = {task: _output_per_input(history.get(task), task, model) for task in OUTPUT_PER_INPUT}
    contract = Contract.of(build.settings.extraction)
    look_up = partial(_look_up, cache, model)
    tokens = partial(count_prompt_tokens, model=model)
    totals = [PlannedStep(task) for task in OUTPUT_PER_INPUT]
    offset = 0
    while passages := _documents(build, offset):
        found = plan_passages(passages, contract, look_up, tokens, ratios)
        totals = [total + step for total, step in zip(totals, found, strict=True)]
        offset += build.settings.batch_size
    return totals


def _documents(build: Build, offset: int) -> list[Passage]:
    with build.tables(read_only=True) as connection:
        rows = connection.execute(
            statement("ingest", "document_range"), {"limit": build.settings.batch_size, "offset": offset}
        ).fetchall()
    return [Passage(*row) for row in rows]


def _look_up(cache: ReplyCache, model: str, requests: Sequence[ChatRequest[Any]]) -> list[BaseModel | None]:
    keys = [request.key(model) for request in requests]
    stored = cache.replies(keys)
    return [
        request.task.reply.model_validate_json(stored[key].text) if key in stored else None
        for key, request in zip(keys, requests, strict=True)
    ]


def _output_per_input(history: TaskCounts | None, task: str, model: str) -> float:
    """Tokens of a reply per token of the text it is about."""
    if history is None or not _is_enough(history):
        return OUTPUT_PER_INPUT[task]
    template = count_prompt_tokens(_template(task), model)
    text = history.spent.prompt_tokens - template * (history.spent.calls - history.failed_calls)
    return history.spent.completion_tokens / text if text > 0 else OUTPUT_PER_INPUT[task]


def _is_enough(history: TaskCounts) -> bool:
    return history.spent.calls - history.failed_calls >= _ENOUGH_CALLS


def _template(task: str) -> str:
    return {t.name: t.prompt.text for t in (kg_extract(), prop_entities(), prop_propositions())}[task]


def _estimate(step: PlannedStep, history: TaskCounts | None, concurrency: int, model: str) -> StepEstimate:
    has_history = history is not None and _is_enough(history)
    expected = step.text_tokens * _output_per_input(history, step.step, model)
    low, high = KNOWN_LENGTHS if has_history else UNKNOWN_LENGTHS
    per_call = history.spent.seconds / history.spent.calls if history and has_history else _SECONDS_PER_CALL
    return StepEstimate(
        step,
        round(expected),
        (round(expected * low), round(expected * high)),
        has_history,
        step.calls * per_call / concurrency,
    )
