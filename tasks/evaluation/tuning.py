"""Tuning: which setting of a strategy is best on some questions, and how it does on the others (SPRIG, table A.15).

Runs nothing (flows/tuning.py does) and changes nothing. Source: algorithms.md 6.3.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.questions import QuestionRecord
from polyhop.schemas.variants import Range, parse_variant
from polyhop.tasks.evaluation.bootstrap import bootstrap_p
from polyhop.tasks.evaluation.documents import COMPARED_METRICS, Document, interval, metric, paired
from polyhop.tasks.evaluation.metrics import CONTAINMENT
from polyhop.tasks.evaluation.report import ANSWER_METRICS, RETRIEVAL_METRICS, long_answer_words

MOST_TUNED = 500
"""Questions that settings are tried on unless a user says otherwise: as many as SPRIG took."""
LEAST_JUDGED = 10
"""Questions that the metric judges on either side; chosen: of fewer, a single one moves the mean by a tenth."""

Rows = Sequence[Mapping[str, Any]]
"""Lines of questions.jsonl: {id, strategy, …metrics}."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the questions, evaluated.

    Attributes:
        run: The document of their run.
        rows: A line per question and strategy.
    """

    run: Document
    rows: Rows


def is_judged(record: QuestionRecord, name: str) -> bool:
    """Whether a question has what a metric needs: answers, supporting passages or golden triples."""
    if name in ANSWER_METRICS:
        return bool(record.answers)
    return bool(record.supporting if name in RETRIEVAL_METRICS else record.golden_triples)


def check_parts(parts: Sequence[Sequence[QuestionRecord]], name: str) -> None:
    """Refuses to tune on too few questions, or to judge by too few.

    Args:
        parts: The questions to tune on, and the rest.
        name: The metric.

    Raises:
        ConfigurationError: If a part has fewer than LEAST_JUDGED questions that the metric judges, or its gold answers
            are too long or too short for it.
    """
    for part in parts:
        _check_length(part, name)
    counts = [sum(is_judged(record, name) for record in part) for part in parts]
    if min(counts) < LEAST_JUDGED:
        raise ConfigurationError(
            f"Tuning by {name} needs at least {LEAST_JUDGED} questions that it judges on either side: there are "
            f"{counts[0]} to tune on and {counts[1]} to keep back; take more questions, another --sample, or another "
            f"--metric ({_gold_words([record for part in parts for record in part])})."
        )


def _check_length(part: Sequence[QuestionRecord], name: str) -> None:
    is_long = long_answer_words(record.answers for record in part) is not None
    if name == ("em" if is_long else CONTAINMENT):
        kind = "long" if is_long else "short"
        raise ConfigurationError(f"Gold answers this {kind} are not judged by {name}; take --metric f1.")


def _gold_words(records: Sequence[QuestionRecord]) -> str:
    """How many questions have which gold."""
    found = {
        "supporting passages": sum(bool(record.supporting) for record in records),
        "answers": sum(bool(record.answers) for record in records),
        "golden triples": sum(bool(record.golden_triples) for record in records),
    }
    return f"of {len(records)} questions, " + ", ".join(f"{count} have {what}" for what, count in found.items())


def best_setting(values: Mapping[str, float], default: str) -> str:
    """The label of the highest value: of equal ones the default, then the first in the order tried."""
    top = max(values.values())
    best = [label for label, value in values.items() if value == top]
    return default if default in best else best[0]


def tuning_document(
    name: str, default: str, tried: Range, tuning: Part, rest: Part, parameters: Mapping[str, object]
) -> dict[str, Any]:
    """What was tried on some questions, what was best, and what it is worth on the others.

    Args:
        name: The metric.
        default: The strategy without parameters of its own.
        tried: The settings tried.
        tuning: The questions that all were tried on.
        rest: Those that the default and the best one were judged on.
        parameters: Given to all of them.

    Returns:
        {strategy, metric, grid, default, chosen, is_default, tried[{label, values, mean, low, high}],
        tuning{n, default, chosen}, rest{n, default, chosen, paired, metrics}, use}; `paired` is chosen minus default
        with wins, ties, losses and p, None if the default is chosen; `metrics` has the same of the other main metrics.
    """
    labels = [default, *tried.points]
    chosen = chosen_setting(name, default, labels, tuning.run)
    variant = parse_variant(chosen, parameters)
    values = {label: dict(zip(tried.parameters, point, strict=True)) for label, point in tried.points.items()}
    return {
        "strategy": variant.strategy,
        "metric": name,
        "parameters": dict(parameters),
        "grid": {
            parameter: list(dict.fromkeys(point[place] for point in tried.points.values()))
            for place, parameter in enumerate(tried.parameters)
        },
        "default": default,
        "chosen": chosen,
        "is_default": chosen == default,
        "tried": [
            {"label": label, "values": values.get(label, {}), **_mean(tuning.run, label, name)} for label in labels
        ],
        "tuning": _part(name, default, chosen, tuning),
        "rest": {
            **_part(name, default, chosen, rest),
            "paired": _paired(name, default, chosen, rest),
            "metrics": {other: _other(other, default, chosen, rest) for other in _others(name, rest, default)},
        },
        "use": {
            "strategy": variant.strategy,
            "param": [f"{key}={value}" for key, value in variant.parameters.items()],
            "label": chosen,
        },
    }


def chosen_setting(name: str, default: str, labels: Sequence[str], run: Document) -> str:
    """The best of these settings in a run.

    Raises:
        ConfigurationError: If the metric judged none of them.
    """
    values = {label: value for label in labels if (value := metric(run, label, name)) is not None}
    if not values:
        raise ConfigurationError(f"{name} judged nothing: the questions have no gold for it; take another --metric.")
    return best_setting(values, default)


def _mean(run: Document, label: str, name: str) -> dict[str, float | None]:
    bounds = interval(run, label, name) or (None, None)
    return {"mean": metric(run, label, name), "low": bounds[0], "high": bounds[1]}


def _part(name: str, default: str, chosen: str, part: Part) -> dict[str, Any]:
    judged = sum(row["strategy"] == default and row.get(name) is not None for row in part.rows)
    return {
        "n": part.run["questions"]["n"],
        "judged": judged,
        "default": _mean(part.run, default, name),
        "chosen": _mean(part.run, chosen, name),
    }


def _others(name: str, part: Part, default: str) -> list[str]:
    return [other for other in COMPARED_METRICS if other != name and metric(part.run, default, other) is not None]


def _other(name: str, default: str, chosen: str, part: Part) -> dict[str, Any]:
    return {
        "default": metric(part.run, default, name),
        "chosen": metric(part.run, chosen, name),
        "paired": _paired(name, default, chosen, part),
    }


def _paired(name: str, default: str, chosen: str, part: Part) -> dict[str, Any] | None:
    found = paired(part.run, default).get(chosen, {}).get(name)
    if found is None:
        return None
    values = {label: _values(part.rows, label, name) for label in (default, chosen)}
    differences = [values[chosen][key] - value for key, value in values[default].items() if key in values[chosen]]
    return {**found, "p": round(bootstrap_p(np.array(differences)), 12)}


def _values(rows: Rows, label: str, name: str) -> dict[str, float]:
    return {row["id"]: row[name] for row in rows if row["strategy"] == label and row.get(name) is not None}
