"""Per-question values of every strategy, their means, and the paired comparisons: the JSON of `polyhop eval`.

Runs no strategy and owns no formula (metrics.py, bootstrap.py do). Source: architecture.md 9, algorithms.md 6.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import fsum
from typing import Any

import numpy as np

from schemas.errors import AlgorithmError
from tasks.evaluation.bootstrap import bootstrap_columns
from tasks.evaluation.metrics import (
    all_at,
    exact_match,
    hit_at,
    judged_ranking,
    latency_milliseconds,
    recall_at,
    reciprocal_rank,
    token_f1,
)

RECALL_DEPTHS = (1, 2, 5, 10, 20, 30)
ALL_DEPTHS = (5, 10)
RETRIEVAL_METRICS = (*(f"recall@{k}" for k in RECALL_DEPTHS), "hit@10", *(f"all@{k}" for k in ALL_DEPTHS), "mrr")
ANSWER_METRICS = ("em", "f1")
METRICS = (*RETRIEVAL_METRICS, *ANSWER_METRICS)


@dataclass(frozen=True, slots=True)
class GoldQuestion:
    """A question's gold: answers (none: not judged by em and f1), supporting ids (none: not judged by retrieval)."""

    id: str
    answers: tuple[str, ...] = ()
    supporting: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one strategy made of one question.

    `ranking` holds passage ids, best first; `answer` is "" if nothing was found and None if no reader ran;
    `seconds` is None if unmeasured; `error` says why the question failed (it then counts 0 and has no latency).
    """

    ranking: tuple[str, ...] = ()
    answer: str | None = None
    seconds: float | None = None
    error: str | None = None


QuestionValues = dict[str, float | None]
"""One value per name in METRICS; None: the question does not count for that metric."""


def evaluate(
    gold: Sequence[GoldQuestion],
    outcomes: Mapping[str, Sequence[Outcome]],
    record_of: Callable[[str], str],
) -> dict[str, Any]:
    """Metrics of every strategy and paired comparisons of every two of them, in the order given.

    Args:
        gold: The questions.
        outcomes: By strategy: one outcome per question, in the same order.
        record_of: Record id of a passage id (pieces of a split record are judged as their record).

    Returns:
        {n, excluded, strategies{name: {…METRICS, latency_ms, failures, failed}}, paired{"a vs b": {metric: …}}};
        a mean over no question is None and has no comparison; `failed` lists {id, error}.

    Raises:
        AlgorithmError: If a strategy has not exactly one outcome per question.
    Source: architecture.md 9, algorithms.md 6.
    """
    values = {name: question_values(gold, given, record_of) for name, given in outcomes.items()}
    return {
        "n": len(gold),
        "excluded": sum(not question.supporting for question in gold),
        "strategies": {name: _strategy_report(gold, given, values[name]) for name, given in outcomes.items()},
        "paired": _paired(values),
    }


def question_values(
    gold: Sequence[GoldQuestion], outcomes: Sequence[Outcome], record_of: Callable[[str], str]
) -> list[QuestionValues]:
    """Every metric of every question, in order; a failed question has 0 wherever it counts.

    Raises:
        AlgorithmError: If there is not exactly one outcome per question.
    """
    if len(gold) != len(outcomes):
        raise AlgorithmError(f"{len(gold)} questions, but {len(outcomes)} outcomes.")
    read = any(outcome.answer is not None for outcome in outcomes) or all(outcome.error for outcome in outcomes)
    return [
        _retrieval_values(question, outcome, record_of) | _answer_values(question, outcome, read=read)
        for question, outcome in zip(gold, outcomes, strict=True)
    ]


def score_answers(rows: Iterable[tuple[str, Sequence[str]]]) -> dict[str, float | int | None]:
    """{n, em, f1} over (prediction, gold answers); rows without gold answers count in n only (`polyhop score`)."""
    everything = list(rows)
    judged = [(prediction, answers) for prediction, answers in everything if answers]
    return {
        "n": len(everything),
        "em": _mean(exact_match(prediction, answers) for prediction, answers in judged),
        "f1": _mean(token_f1(prediction, answers) for prediction, answers in judged),
    }


def _retrieval_values(question: GoldQuestion, outcome: Outcome, record_of: Callable[[str], str]) -> QuestionValues:
    supporting = question.supporting
    if not supporting:
        return dict.fromkeys(RETRIEVAL_METRICS)
    if outcome.error is not None:
        return dict.fromkeys(RETRIEVAL_METRICS, 0.0)
    ranking = judged_ranking(outcome.ranking, supporting, record_of)
    values: QuestionValues = {f"recall@{k}": recall_at(ranking, supporting, k) for k in RECALL_DEPTHS}
    values |= {f"all@{k}": all_at(ranking, supporting, k) for k in ALL_DEPTHS}
    return values | {"hit@10": hit_at(ranking, supporting, 10), "mrr": reciprocal_rank(ranking, supporting)}


def _answer_values(question: GoldQuestion, outcome: Outcome, *, read: bool) -> QuestionValues:
    if not question.answers or not read:
        return dict.fromkeys(ANSWER_METRICS)
    if outcome.error is not None:
        return dict.fromkeys(ANSWER_METRICS, 0.0)
    prediction = outcome.answer or ""
    return {"em": exact_match(prediction, question.answers), "f1": token_f1(prediction, question.answers)}


def _strategy_report(
    gold: Sequence[GoldQuestion], outcomes: Sequence[Outcome], values: Sequence[QuestionValues]
) -> dict[str, Any]:
    failed = [
        {"id": question.id, "error": outcome.error}
        for question, outcome in zip(gold, outcomes, strict=True)
        if outcome.error is not None
    ]
    seconds = [outcome.seconds for outcome in outcomes if outcome.seconds is not None and outcome.error is None]
    means = {metric: _mean(row[metric] for row in values) for metric in METRICS}
    return {**means, "latency_ms": latency_milliseconds(seconds), "failures": len(failed), "failed": failed}


def _paired(values: Mapping[str, Sequence[QuestionValues]]) -> dict[str, dict[str, dict[str, float | int | bool]]]:
    """Columns over the same questions share one bootstrap, hence the grouping by mask."""
    paired: dict[str, dict[str, dict[str, float | int | bool]]] = {}
    groups: dict[tuple[int, ...], list[tuple[str, str, list[float]]]] = {}
    for a, b in combinations(values, 2):
        pair = f"{a} vs {b}"
        paired[pair] = {}
        for metric in METRICS:
            differences = _differences(values[a], values[b], metric)
            if differences:
                groups.setdefault(tuple(differences), []).append((pair, metric, list(differences.values())))
    for columns in groups.values():
        results = bootstrap_columns(np.array([column for _, _, column in columns], dtype=np.float64).T)
        for (pair, metric, _), result in zip(columns, results, strict=True):
            paired[pair][metric] = result.as_row()
    return {pair: {metric: rows[metric] for metric in METRICS if metric in rows} for pair, rows in paired.items()}


def _differences(a: Sequence[QuestionValues], b: Sequence[QuestionValues], metric: str) -> dict[int, float]:
    """Question number -> A - B, where the question counts on both sides."""
    pairs = enumerate((left[metric], right[metric]) for left, right in zip(a, b, strict=True))
    return {number: x - y for number, (x, y) in pairs if x is not None and y is not None}


def _mean(values: Iterable[float | None]) -> float | None:
    counted = [value for value in values if value is not None]
    return fsum(counted) / len(counted) if counted else None
