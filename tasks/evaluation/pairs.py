"""Which strategies are compared with which, and the paired bootstrap of each such pair and metric.

Owns no formula (bootstrap.py does). Source: algorithms.md 6.3.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from polyhop.tasks.evaluation.bootstrap import bootstrap_columns

EVERY_PAIR_UP_TO = 6
"""With more strategies only the pairs with the baseline are compared: 25 strategies would be 300 pairs."""

Values = Sequence[Mapping[str, float | None]]
"""One mapping per question: metric to value, None where the question does not count."""
PairRows = dict[str, dict[str, float | int | bool]]
"""{metric: {difference, low, high, wins, ties, losses, significant}}."""


def pairs_of(strategies: Sequence[str], baseline: str) -> list[tuple[str, str]]:
    """The pairs to compare, in the order given: all of them, or those with the baseline above EVERY_PAIR_UP_TO."""
    every = combinations(strategies, 2)
    return [pair for pair in every if len(strategies) <= EVERY_PAIR_UP_TO or baseline in pair]


def compare_pairs(
    values: Mapping[str, Values], pairs: Sequence[tuple[str, str]], metrics: Sequence[str]
) -> dict[tuple[str, str], PairRows]:
    """A - B of every pair (a, b) by metric; a metric without a common question is left out.

    Columns over the same questions share one bootstrap, hence the grouping by question numbers.
    """
    groups: dict[tuple[int, ...], list[tuple[tuple[str, str], str, list[float]]]] = {}
    for pair in pairs:
        for metric in metrics:
            differences = _differences(values[pair[0]], values[pair[1]], metric)
            if differences:
                groups.setdefault(tuple(differences), []).append((pair, metric, list(differences.values())))
    found: dict[tuple[str, str], PairRows] = {pair: {} for pair in pairs}
    for columns in groups.values():
        results = bootstrap_columns(np.array([column for _, _, column in columns], dtype=np.float64).T)
        for (pair, metric, _), result in zip(columns, results, strict=True):
            found[pair][metric] = result.as_row()
    return {pair: {metric: rows[metric] for metric in metrics if metric in rows} for pair, rows in found.items()}


def against(values: Mapping[str, Values], baseline: str, metrics: Sequence[str]) -> dict[str, PairRows]:
    """Every other strategy minus the baseline: {strategy: {metric: …}}."""
    pairs = [(name, baseline) for name in values if name != baseline]
    return {name: rows for (name, _), rows in compare_pairs(values, pairs, metrics).items()}


def _differences(a: Values, b: Values, metric: str) -> dict[int, float]:
    """Question number -> A - B, where the question counts on both sides."""
    found = enumerate((left[metric], right[metric]) for left, right in zip(a, b, strict=True))
    return {number: x - y for number, (x, y) in found if x is not None and y is not None}
