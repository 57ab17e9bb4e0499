"""Which hubs a question is about: the candidate loop, weighted hub scores, diversity among a hub's rows (pure).

Scores no path (search.py does). Nothing here loops over the hubs of a graph, only over those chosen.
Source: algorithms.md 4.8, G-HUB-3, G-HUB-4.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.hubs import HubPaths, Numbers
from polyhop.worker.ranking.hubs.search import Scores, best_paths
from polyhop.worker.ranking.order import DECIMALS, best, contenders, kth_largest

_CROWD = 8
"""As many times the wanted number of hubs are scored first; their scores rule out most others."""

_MARGIN = 1e-9
"""Far above the rounding of a weighted mean, so that no hub is ruled out by it."""


@dataclass(frozen=True, slots=True)
class ScoredHub:
    """A hub with the paths it is judged by.

    Attributes:
        hub: Its number.
        score: Weighted mean of its kept paths' scores, 0 without any.
        paths: Kept paths, in descending order of score.
    """

    hub: int
    score: float
    paths: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChoiceRule:
    """Parameters of the choice.

    Attributes:
        hubs: gamma: hubs to choose.
        paths: alpha_paths: paths kept of a hub.
        weight: How much better paths count more (w = exp(weight * score)); 0 is the mean.
    """

    hubs: int
    paths: int
    weight: float


def weighted_score(scores: Sequence[float] | Scores, weight: float) -> float:
    """Mean of path scores, weighted by exp(weight * score); 0 of none.

    Source: algorithms.md 4.8 (hub score), G-HUB-4.
    """
    values = np.asarray(scores, dtype=np.float64)
    if not len(values):
        return 0.0
    weights = np.exp(weight * (values - values.max()))
    return float(np.sum(weights * values) / np.sum(weights))


def diversified(scores: Sequence[float], subjects: Sequence[int], penalty: float) -> list[int]:
    """An order of a hub's rows in which rows of level triple about one subject come later and later.

    Args:
        scores: In descending order.
        subjects: Of the row's triple; -1 for a row of another level, which is never penalised.
        penalty: Taken off once for the first repetition of a subject, twice for the second…

    Returns:
        Indices into `scores`, in descending order of the penalised scores.
    Source: algorithms.md 4.8 (diversity re-ranking), G-HUB-4.
    """
    before: dict[int, int] = {}
    penalised = []
    for score, subject in zip(scores, subjects, strict=True):
        repeated = before.get(subject, 0) if subject >= 0 else 0
        before[subject] = repeated + 1
        penalised.append(score - penalty * repeated)
    return sorted(range(len(penalised)), key=lambda place: -round(penalised[place], DECIMALS))


class HubChoice:
    """Chooses among the hubs of a version."""

    def __init__(self, paths: HubPaths) -> None:
        self._paths = paths
        self._with_paths = np.flatnonzero(np.diff(paths.path_starts))

    def by_candidates(self, scores: Scores, rule: ChoiceRule) -> list[ScoredHub]:
        """The direct strategy: the hubs of the best paths, in descending order of hub score, then by hub id.

        Each round looks at as many of the best paths, of hubs not yet chosen, as could fill all free places; hubs are
        chosen in order of their best path.

        Args:
            scores: Of all paths.
            rule: How many hubs and paths.

        Source: algorithms.md 4.8 (direct strategy), G-HUB-3.
        """
        pool = self._pool(scores, rule.hubs * rule.paths)
        owners, numbers = self._paths_of(pool)
        left, hashes = scores[numbers], self._paths.hashes[numbers]
        chosen: dict[int, None] = {}
        while len(chosen) < rule.hubs:
            found = best_paths(left, hashes, (rule.hubs - len(chosen)) * rule.paths)
            if not len(found):
                break
            fresh = dict.fromkeys(owners[found].tolist())
            chosen.update(dict.fromkeys(list(fresh)[: rule.hubs - len(chosen)]))
            left[np.isin(owners, list(chosen))] = -np.inf
        return in_order([self.scored(scores, hub, rule) for hub in chosen])

    def best_of(self, scores: Scores, hubs: NDArray[np.intp], rule: ChoiceRule) -> list[ScoredHub]:
        """The best of some hubs by hub score, in descending order of it, then by hub id; hubs without paths last.

        Args:
            scores: Of all paths.
            hubs: Hub numbers, each once.
            rule: How many hubs and paths.

        Source: algorithms.md 4.8 (traversal strategy, pruning).
        """
        hubs = np.sort(hubs)
        if len(hubs) > _CROWD * rule.hubs:
            tops = self._tops(scores)[hubs]
            first = hubs[contenders(tops, _CROWD * rule.hubs)]
            bound = kth_largest(self._hub_scores(scores, first, rule), rule.hubs)
            if bound > 0:  # no hub scores more than its best path
                hubs = hubs[tops >= bound - _MARGIN]
        found = self._hub_scores(scores, hubs, rule)
        kept = hubs[best(found, rule.hubs)].tolist()
        return in_order([self.scored(scores, hub, rule) for hub in kept])

    def scored(self, scores: Scores, hub: int, rule: ChoiceRule) -> ScoredHub:
        """A hub with its best paths."""
        start, end = self._paths.path_starts[hub], self._paths.path_starts[hub + 1]
        kept = start + best_paths(scores[start:end], self._paths.hashes[start:end], rule.paths)
        return ScoredHub(hub, weighted_score(scores[kept], rule.weight), tuple(kept.tolist()))

    def _tops(self, scores: Scores) -> Scores:
        """The best path score of every hub, shape (h,); minus infinity without paths that are seen."""
        tops = np.full(len(self._paths.hubs), -np.inf)
        if len(self._with_paths):
            tops[self._with_paths] = np.maximum.reduceat(scores, self._paths.path_starts[self._with_paths])
        return tops

    def _pool(self, scores: Scores, count: int) -> NDArray[np.intp]:
        """The hubs that the `count` best paths can belong to: those with the best paths of their own."""
        tops = self._tops(scores)
        seen = np.flatnonzero(tops > -np.inf)
        return seen[contenders(tops[seen], count)]

    def _paths_of(self, hubs: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Hub and number of each path of some hubs."""
        starts = self._paths.path_starts[hubs]
        counts = self._paths.path_starts[hubs + 1] - starts
        before = np.cumsum(counts) - counts
        return np.repeat(hubs, counts), np.arange(counts.sum()) + np.repeat(starts - before, counts)

    def _hub_scores(self, scores: Scores, hubs: NDArray[np.intp], rule: ChoiceRule) -> Scores:
        """Hub scores of some hubs, shape (len(hubs),); below 0 without paths that are seen.

        Hubs with about as many paths are looked at together, as the rows of a matrix.
        """
        found = np.full(len(hubs), -1.0)
        starts = self._paths.path_starts[hubs]
        counts = self._paths.path_starts[hubs + 1] - starts
        sizes = np.where(counts > 0, np.ceil(np.log2(np.maximum(counts, 1))), -1).astype(np.int64)
        for size in range(int(sizes.max(initial=-1)) + 1):
            some = np.flatnonzero(sizes == size)
            if len(some):
                found[some] = _weighted_means(_as_rows(scores, starts[some], counts[some]), rule)
        return found


def _as_rows(scores: Scores, starts: Numbers, counts: Numbers) -> Scores:
    """Runs of scores as rows of one width, filled up with minus infinity."""
    columns = np.arange(counts.max())
    numbers = starts[:, np.newaxis] + columns
    if counts.min() == len(columns):
        return scores.take(numbers)
    return np.where(columns < counts[:, np.newaxis], scores.take(numbers, mode="clip"), -np.inf)


def _weighted_means(values: Scores, rule: ChoiceRule) -> Scores:
    """The weighted score of each row's best `rule.paths`; -1 of a row of minus infinity."""
    if values.shape[1] > rule.paths:
        values = np.partition(values, values.shape[1] - rule.paths, axis=1)[:, -rule.paths :]
    is_seen = values > -np.inf
    if is_seen.all():
        weights = np.exp(rule.weight * (values - 1))
        every: Scores = (weights * values).sum(axis=1) / weights.sum(axis=1)
        return every
    values = np.where(is_seen, values, 0)
    weights = np.where(is_seen, np.exp(rule.weight * (values - 1)), 0)
    total = weights.sum(axis=1)
    mean: Scores = np.where(total > 0, (weights * values).sum(axis=1) / np.where(total > 0, total, 1), -1)
    return mean


def in_order(hubs: list[ScoredHub]) -> list[ScoredHub]:
    """By score, then hub id; hubs without paths after all others."""
    return sorted(hubs, key=lambda hub: (not hub.paths, -round(hub.score, DECIMALS), hub.hub))
