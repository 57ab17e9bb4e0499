"""What an evaluation is asked for, taken apart: strategies, variants and ranges, baselines, the sample of questions.

Opens no index and answers nothing.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.printable import plural
from polyhop.schemas.questions import QuestionRecord
from polyhop.schemas.requests import EvaluationRequest
from polyhop.schemas.settings import Settings
from polyhop.schemas.variants import ALL, OWN, expand_labels, labels_in, parse_range
from polyhop.tasks.evaluation.sampling import DEFAULT_SEED, rest_of, sampled
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import default_strategy_of, strategies_of
from polyhop.worker.strategies.registry import STRATEGIES


def with_strategies(settings: Settings, request: EvaluationRequest) -> EvaluationRequest:
    """The request with the index's default strategy if it names none, and its own strategies in place of `own`.

    Raises:
        UnknownIndexError: If the index does not exist.
    """
    labels = _written(request.strategies)
    if request.strategies and OWN not in labels:
        return request
    layout = Layout(settings.root)
    if not labels:
        return replace(request, strategies=(default_strategy_of(layout, request.index),))
    own = strategies_of(layout, request.index)
    named = [name for label in labels for name in (own if label == OWN else (label,))]
    return replace(request, strategies=tuple(dict.fromkeys(named)))


def labels_of(request: EvaluationRequest) -> list[str]:
    """The strategies and variants by name, `all` and ranges taken apart.

    Raises:
        ConfigurationError: For a variant or a range that is malformed.
    """
    return expand_labels(_written(request.strategies), STRATEGIES)


def named_labels(request: EvaluationRequest) -> list[str]:
    """Those that were asked for by name or range, not by `all`."""
    return expand_labels((label for label in _written(request.strategies) if label != ALL), STRATEGIES)


def baselines_of(request: EvaluationRequest, labels: Sequence[str]) -> list[str]:
    """What the others are compared with: the baselines asked for, the first of the strategies if there are none.

    Args:
        request: What is asked for.
        labels: The strategies that are evaluated, at least one.

    Raises:
        ConfigurationError: If a baseline is not among them.
    """
    baselines = list(dict.fromkeys(name for label in _written(request.baselines) for name in parse_range(label).points))
    for baseline in baselines:
        if baseline not in labels:
            raise ConfigurationError(f"The baseline '{baseline}' is not evaluated; evaluated: {', '.join(labels)}.")
    return baselines or list(labels[:1])


def ranges_of(request: EvaluationRequest) -> list[dict[str, Any]]:
    """The ranges for run.json, in the order written: [{label, parameters, points[{label, values}]}]."""
    ranges = [parse_range(label) for label in dict.fromkeys(_written(request.strategies))]
    return [
        {
            "label": one.label,
            "parameters": list(one.parameters),
            "points": [{"label": label, "values": list(values)} for label, values in one.points.items()],
        }
        for one in ranges
        if one.parameters
    ]


def check_sample(request: EvaluationRequest) -> None:
    """Refuses a sample of nothing, and a seed or a rest without a sample.

    Raises:
        ConfigurationError: For either.
    """
    if request.sample is not None and request.sample < 1:
        raise ConfigurationError(f"A sample has at least 1 question, not {request.sample}; leave it out to ask all.")
    if request.sample is None and request.seed is not None:
        raise ConfigurationError("A seed belongs to a sample; say how many questions with --sample N.")
    if request.sample is None and request.asks_rest:
        raise ConfigurationError("The rest is what a sample leaves out; say how many questions with --sample N.")


def sample_of(
    request: EvaluationRequest, records: list[QuestionRecord]
) -> tuple[list[QuestionRecord], dict[str, int] | None]:
    """The questions that are asked, and the sample for run.json: {size, seed, of}, None where all are asked for.

    Of the rest that a sample leaves out it is {size, seed, of, rest}: the sample is not asked.

    Raises:
        ConfigurationError: If the rest is asked for and there is none.
    """
    if request.sample is None:
        return records, None
    seed = DEFAULT_SEED if request.seed is None else request.seed
    chosen = sampled(records, request.sample, seed)
    row = {"size": request.sample, "seed": seed, "of": len(records)}
    if not request.asks_rest:
        return chosen, row
    left = rest_of(records, chosen)
    if not left:
        raise ConfigurationError(
            f"A sample of {request.sample} leaves out none of {plural(len(records), 'usable question')}; ask for fewer."
        )
    return left, {**row, "rest": True}


def _written(texts: Sequence[str]) -> list[str]:
    return [label for text in texts for label in labels_in(text, STRATEGIES)]
