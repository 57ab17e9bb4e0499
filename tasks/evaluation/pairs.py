"""Which strategies are compared with which; the bootstrap of each such pair, and of each strategy by itself.

Owns no formula (bootstrap.py does). Source: algorithms.md 6.3.
"""

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import TypeVar

import numpy as np

from polyhop.tasks.evaluation.bootstrap import PairedDifference, bootstrap_columns

EVERY_PAIR_UP_TO = 6
"""With more strategies only the pairs with a baseline are compared: 25 strategies would be 300 pairs."""

Values = Sequence[Mapping[str, float | None]]
"""One mapping per question: metric to value, None where the question does not count."""
PairRows = dict[str, dict[str, float | int | bool]]
"""{metric: {difference, low, high, wins, ties, losses, significant}}."""
Interval = dict[str, float]
"""{low, high} of a mean."""
_Key = TypeVar("_Key", bound=Hashable)


def pairs_of(strategies: Sequence[str], baselines: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs to compare, in the order given: all of them, or those with a baseline above EVERY_PAIR_UP_TO."""
    every = combinations(strategies, 2)
    return [pair for pair in every if len(strategies) <= EVERY_PAIR_UP_TO or not set(pair).isdisjoint(baselines)]


def compare_pairs(
    values: Mapping[str, Values], pairs: Sequence[tuple[str, str]], metrics: Sequence[str]
) -> dict[tuple[str, str], PairRows]:
    """A - B of every pair (a, b) by metric; a metric without a common question is left out."""
    columns = {
        (pair, metric): _differences(values[pair[0]], values[pair[1]], metric) for pair in pairs for metric in metrics
    }
    results = _bootstraps(columns)
    return {
        pair: {metric: results[pair, metric].as_row() for metric in metrics if (pair, metric) in results}
        for pair in pairs
    }


def against(
    values: Mapping[str, Values], baselines: Sequence[str], metrics: Sequence[str]
) -> dict[str, dict[str, PairRows]]:
    """Every other strategy minus each baseline: {baseline: {strategy: {metric: …}}}."""
    pairs = [(name, baseline) for baseline in baselines for name in values if name != baseline]
    rows = compare_pairs(values, pairs, metrics)
    return {baseline: {name: rows[name, baseline] for name in values if name != baseline} for baseline in baselines}


def intervals(values: Mapping[str, Values], metrics: Sequence[str]) -> dict[str, dict[str, Interval | None]]:
    """The 95 % interval of every strategy's mean in every metric, None where no question counts for it."""
    columns = {
        (name, metric): {number: value for number, row in enumerate(rows) if (value := row[metric]) is not None}
        for name, rows in values.items()
        for metric in metrics
    }
    found = {key: Interval(low=result.low, high=result.high) for key, result in _bootstraps(columns).items()}
    return {name: {metric: found.get((name, metric)) for metric in metrics} for name in values}


def _bootstraps(columns: Mapping[_Key, Mapping[int, float]]) -> dict[_Key, PairedDifference]:
    """The bootstrap of each column {question number: value} that is not empty.

    Columns over the same questions share one bootstrap, hence the grouping by question numbers.
    """
    groups: dict[tuple[int, ...], list[_Key]] = {}
    for key, column in columns.items():
        if column:
            groups.setdefault(tuple(column), []).append(key)
    found: dict[_Key, PairedDifference] = {}
    for keys in groups.values():
        table = np.array([list(columns[key].values()) for key in keys], dtype=np.float64).T
        found |= zip(keys, bootstrap_columns(table), strict=True)
    return found


def _differences(a: Values, b: Values, metric: str) -> dict[int, float]:
    """Question number -> A - B, where the question counts on both sides."""
    found = enumerate((left[metric], right[metric]) for left, right in zip(a, b, strict=True))
    return {number: x - y for number, (x, y) in found if x is not None and y is not None}
