"""Means over questions and groups, percentile bootstraps, paired differences, samples of questions.

Source: algorithms.md 6.3.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from math import fsum
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import AlgorithmError
from polyhop.schemas.records import QuestionRecord
from polyhop.schemas.text import content_hash

SEED = 13  # algorithms.md 6.3.
RESAMPLES = 10_000  # algorithms.md 6.3.
KIND = {"kind": "percentile bootstrap of the mean over questions", "level": 0.95, "resamples": RESAMPLES, "seed": SEED}
"""What every interval of an evaluation is: the JSON object `interval`."""
# indices drawn at once (8 MB of int64); chosen: any number gives the same means, because the random stream is one.
# Source: algorithms.md 6.3.
_CHUNK_CELLS = 1 << 20


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Mean of A - B, its 95 % interval, and on how many questions A is better, equal, worse.

    For one strategy's values A, B is 0.
    """

    difference: float
    low: float
    high: float
    wins: int
    ties: int
    losses: int

    @property
    def significant(self) -> bool:
        """Returns whether the interval excludes 0."""
        return self.low > 0 or self.high < 0

    def as_row(self) -> dict[str, float | int | bool]:
        """The JSON object of one metric in `polyhop eval`."""
        return {**asdict(self), "significant": self.significant}


def bootstrap_columns(
    differences: NDArray[np.float64], *, resamples: int = RESAMPLES, seed: int = SEED
) -> list[PairedDifference]:
    """Bootstraps many columns of differences, or of one strategy's values, with one common stream of resamples.

    `differences` has shape (n, m): n questions, m comparisons or metrics. Each result equals that of its column alone.

    Source: algorithms.md 6.3; values are rounded to 12 decimals as in 0.3, so that summation order decides nothing.
    Cost: O(resamples * n * m) time, O(n * m + resamples * m) memory besides a chunk of about a million counts.
    """
    if differences.shape[0] == 0:
        raise AlgorithmError("A bootstrap needs at least one question.")
    rounded = np.round(differences, 12)
    means = _resampled_means(rounded, resamples, seed)
    low, high = np.percentile(means, [2.5, 97.5], axis=0)
    found = []
    for column, at_least, at_most in zip(rounded.T, low.tolist(), high.tolist(), strict=True):
        wins, losses = int((column > 0).sum()), int((column < 0).sum())
        middle, ties = round(float(column.mean()), 12), len(column) - wins - losses
        found.append(PairedDifference(middle, round(at_least, 12), round(at_most, 12), wins, ties, losses))
    return found


def bootstrap_p(differences: NDArray[np.float64], *, resamples: int = RESAMPLES, seed: int = SEED) -> float:
    """Two-sided p value of paired differences, shape (n,): how often chance alone turns their mean's sign.

    In (0, 1]; below .05 about where the 95 % interval excludes 0, never 0: one more resample could turn the sign.
    Source: algorithms.md 6.3.
    """
    if differences.shape[0] == 0:
        raise AlgorithmError("A bootstrap needs at least one question.")
    means = np.round(_resampled_means(np.round(differences, 12)[:, np.newaxis], resamples, seed), 12)
    tail = min(int((means <= 0).sum()), int((means >= 0).sum()))
    return min(1.0, 2 * (tail + 1) / (resamples + 1))


def _resampled_means(differences: NDArray[np.float64], resamples: int, seed: int) -> NDArray[np.float64]:
    question_count = differences.shape[0]
    rng = np.random.default_rng(seed)
    rows = max(1, _CHUNK_CELLS // question_count)
    parts = []
    for done in range(0, resamples, rows):
        size = min(rows, resamples - done)
        drawn = rng.integers(0, question_count, size=(size, question_count))
        drawn += np.arange(size)[:, np.newaxis] * question_count
        counts = np.bincount(drawn.ravel(), minlength=size * question_count).reshape(size, question_count)
        parts.append(counts.astype(np.float64) @ differences / question_count)
    return np.concatenate(parts)


DEFAULT_SEED = 13  # architecture.md 9, as all seeds here: algorithms.md 0.3.


def sampled(records: Sequence[QuestionRecord], size: int, seed: int) -> list[QuestionRecord]:
    """The `size` questions whose hash of seed and id is smallest, in the order of `records`; all if there are fewer.

    Hashes instead of a generator, whose numbers a library may change.
    """
    order = {record.id: content_hash("sample", str(seed), record.id) for record in records}
    chosen = set(sorted(order, key=order.__getitem__)[:size])
    return [record for record in records if record.id in chosen]


def rest_of(records: Sequence[QuestionRecord], sample: Sequence[QuestionRecord]) -> list[QuestionRecord]:
    """The questions that are not in a sample of them, in the order of `records`."""
    chosen = {record.id for record in sample}
    return [record for record in records if record.id not in chosen]


EVERY_PAIR_UP_TO = 6
"""With more strategies only the pairs with a baseline are compared: 25 strategies would be 300 pairs."""

Values = Sequence[Mapping[str, float | None]]
"""One mapping per question: metric to value, None where the question does not count."""
PairRows = dict[str, dict[str, float | int | bool]]
"""{metric: {difference, low, high, wins, ties, losses, significant}}."""
Interval = dict[str, float]  # {low, high} of a mean
_Key = TypeVar("_Key", bound=Hashable)


def pairs_of(strategies: Sequence[str], baselines: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs to compare, in the order given: all of them, or those with a baseline above EVERY_PAIR_UP_TO."""
    every = combinations(strategies, 2)
    return [pair for pair in every if len(strategies) <= EVERY_PAIR_UP_TO or not set(pair).isdisjoint(baselines)]


def compare_pairs(
    values: Mapping[str, Values], pairs: Sequence[tuple[str, str]], metrics: Sequence[str]
) -> dict[tuple[str, str], PairRows]:
    """A - B of every pair (a, b) by metric; a metric without a common question is left out."""
    columns: dict[tuple[tuple[str, str], str], dict[int, float]] = {}
    for pair in pairs:
        both = list(enumerate(zip(values[pair[0]], values[pair[1]], strict=True)))
        for metric in metrics:  # question number -> A - B, where the question counts on both sides
            found = ((number, left[metric], right[metric]) for number, (left, right) in both)
            columns[pair, metric] = {number: x - y for number, x, y in found if x is not None and y is not None}
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


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of what is not None; None if that is nothing."""
    counted = [value for value in values if value is not None]
    return fsum(counted) / len(counted) if counted else None


def by_group(
    keys: Sequence[str | None], values: Mapping[str, Values], metrics: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """{group: {n, strategies{name: {metric: mean}}}}, numbers by size, then words by alphabet."""
    members: dict[str, list[int]] = {}
    for number, key in enumerate(keys):
        if key is not None:
            members.setdefault(key, []).append(number)
    return {
        key: {
            "n": len(members[key]),
            "strategies": {
                name: {metric: mean(rows[number][metric] for number in members[key]) for metric in metrics}
                for name, rows in values.items()
            },
        }
        for key in sorted(members, key=_order)
    }


MOST_GROUPS = 12
"""A field with more values is no grouping but a description of single questions; chosen, ORKG has up to 8."""
LEAST_MEMBERS = 5  # questions of a group in the mean: fewer say nothing. Chosen.
LONGEST_VALUE = 60  # characters; chosen: the name of a group, not a sentence


def by_field(
    fields: Sequence[Mapping[str, object]], values: Mapping[str, Values], metrics: Sequence[str]
) -> dict[str, dict[str, dict[str, Any]]]:
    """{field: groups as in `by_group`} of the fields whose words, whole numbers or flags group the questions.

    A field has 2 to MOST_GROUPS different values, LEAST_MEMBERS questions to each in the mean; others are left out.
    """
    names = dict.fromkeys(name for one in fields for name in one)
    keys = {name: [_value(one.get(name)) for one in fields] for name in names}
    found = {}
    for name, column in keys.items():
        counted = [value for value in column if value is not None]
        if 2 <= len(set(counted)) <= min(MOST_GROUPS, len(counted) // LEAST_MEMBERS):
            found[name] = by_group(column, values, metrics)
    return found


def _value(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, str)) and 0 < len(str(value).strip()) <= LONGEST_VALUE:
        return str(value).strip()
    return None


def _order(key: str) -> tuple[bool, int, str]:
    is_number = key.isascii() and key.isdecimal()
    return (not is_number, int(key) if is_number else 0, key)
