"""What strategies cost, side by side: their share of the index, and a question.

Measures nothing: the version says what its stages took, the report what questions did.
"""

from collections.abc import Mapping
from typing import Any

from polyhop.schemas.timings import StageTiming
from polyhop.schemas.variants import Variant
from polyhop.tasks.registry import producing_stages, source_kind
from polyhop.tasks.stage import Stage
from polyhop.warehouse.index_reader import PublishedIndex
from polyhop.worker.strategies.registry import spec_of


def cost_rows(published: PublishedIndex, variants: Mapping[str, Variant], report: Mapping[str, Any]) -> dict[str, Any]:
    """{label: {index{prompt_tokens, completion_tokens, seconds, stages}, question{…}}}, in the report's order.

    Args:
        published: The open version.
        variants: Strategies by label; a row that is none of them (closed-book) needs no index.
        report: From `polyhop.tasks.evaluation.report.evaluate`.

    `index` sums over the stages whose work is in the artefacts that the strategy declares. Tokens are those of the
    replies when they were made, whoever paid for them. Seconds are those of the runs that computed the results, None
    if one of them was not recorded (versions of before); `stages` has each one, or None.
    """
    return {
        label: {"index": _index_cost(published, variants.get(label)), "question": _question_cost(result)}
        for label, result in report["strategies"].items()
    }


def _index_cost(published: PublishedIndex, variant: Variant | None) -> dict[str, Any]:
    stages = _stages_of(published, variant) if variant is not None else []
    recorded = published.stage_timings()
    timings = {stage.name: recorded.get(stage.name) for stage in stages}
    tokens = [_tokens_of(published, stage) for stage in stages]
    return {
        "prompt_tokens": sum(prompt for prompt, _ in tokens),
        "completion_tokens": sum(completion for _, completion in tokens),
        "seconds": _sum_of(timings),
        "stages": {name: timing.model_dump() if timing else None for name, timing in timings.items()},
    }


def _stages_of(published: PublishedIndex, variant: Variant) -> list[Stage]:
    spec = spec_of(variant.strategy)
    artefacts = {*spec.needs, "entities"} if spec.needs_question_names else spec.needs
    return producing_stages(artefacts, source_kind(published.manifest.stages))


def _tokens_of(published: PublishedIndex, stage: Stage) -> tuple[int, int]:
    """Those of the ledger for the stage that fills it; what others counted, if they asked a model."""
    if "extraction_ledger" in stage.table_names:
        return published.extraction_tokens()
    record = published.manifest.stages.get(stage.name)
    counts = record.counts if record else {}
    return counts.get("prompt_tokens", 0), counts.get("completion_tokens", 0)


def _sum_of(timings: Mapping[str, StageTiming | None]) -> float | None:
    known = [timing.seconds for timing in timings.values() if timing is not None]
    return sum(known) if len(known) == len(timings) else None


def _question_cost(result: Mapping[str, Any]) -> dict[str, Any]:
    mean = result["latency_ms"]["mean"]
    return {
        "prompt_tokens": result["tokens"]["prompt_per_question"],
        "completion_tokens": result["tokens"]["completion_per_question"],
        "seconds": None if mean is None else mean / 1000,
    }
