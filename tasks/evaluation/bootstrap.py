"""Percentile bootstrap over questions: how far a mean, or the mean difference of two strategies, is down to chance.

Computes no metric itself. Source: algorithms.md 6.3.
"""

from dataclasses import asdict, dataclass
from itertools import starmap

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import AlgorithmError

SEED = 13  # algorithms.md 6.3.
RESAMPLES = 10_000  # algorithms.md 6.3.
KIND = {
    "kind": "percentile bootstrap of the mean over questions",
    "level": 0.95,
    "resamples": RESAMPLES,
    "seed": SEED,
}
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
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0

    def as_row(self) -> dict[str, float | int | bool]:
        """The JSON object of one metric in `polyhop eval`."""
        return {**asdict(self), "significant": self.significant}


def bootstrap_columns(
    differences: NDArray[np.float64], *, resamples: int = RESAMPLES, seed: int = SEED
) -> list[PairedDifference]:
    """Bootstraps many columns of differences, or of one strategy's values, with one common stream of resamples.

    Args:
        differences: Shape (n, m): n questions, m comparisons or metrics; not modified.
        resamples: Number of resampled means.
        seed: Of numpy's default generator.

    Returns:
        One result per column, each equal to that of the column alone.

    Raises:
        AlgorithmError: If there is no question.
    Source: algorithms.md 6.3; values are rounded to 12 places as in 0.3, so that summation order decides nothing.
    Cost: O(resamples * n * m) time, O(n * m + resamples * m) memory besides a chunk of about a million counts.
    """
    if differences.shape[0] == 0:
        raise AlgorithmError("A bootstrap needs at least one question.")
    rounded = np.round(differences, 12)
    means = _resampled_means(rounded, resamples, seed)
    low, high = np.percentile(means, [2.5, 97.5], axis=0)
    columns = zip(rounded.T, low.tolist(), high.tolist(), strict=True)
    return list(starmap(_summary, columns))


def bootstrap_p(differences: NDArray[np.float64], *, resamples: int = RESAMPLES, seed: int = SEED) -> float:
    """Two-sided p value of paired differences: how often chance alone turns their mean's sign, of the same resamples.

    Args:
        differences: Shape (n,): A - B of each question; not modified.
        resamples: Number of resampled means.
        seed: Of numpy's default generator.

    Returns:
        In (0, 1]; below .05 about where the 95 % interval excludes 0, never 0: one more resample could turn the sign.

    Raises:
        AlgorithmError: If there is no question.
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


def _summary(column: NDArray[np.float64], low: float, high: float) -> PairedDifference:
    wins, losses = int((column > 0).sum()), int((column < 0).sum())
    mean = round(float(column.mean()), 12)
    return PairedDifference(mean, round(low, 12), round(high, 12), wins, len(column) - wins - losses, losses)
