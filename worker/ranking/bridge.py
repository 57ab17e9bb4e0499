"""Bridge's four steps (seed, spread, fuse, cover), and a question without its rare names.

The walk between seed and fuse is pagerank.py's. Source: algorithms.md 2B.3; of `bridge-masked` bridge-
masked.md 3.
"""

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from polyhop.worker.ranking.bm25 import TermImpacts, score_of, top
from polyhop.worker.ranking.fusion import DECIMALS, best, kth_largest
from polyhop.worker.ranking.pagerank import Masses

_LEAST_REFERENCE = 1 / 100  # algorithms.md 2B.3, step 3.


def relative(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores as a share of the largest, all 0 if that is 0. Source: algorithms.md 2B.3 step 1."""
    largest = scores.max(initial=0.0)
    return scores / largest if largest > 0 else np.zeros(len(scores))


class RelativeScores:
    """Relative BM25 of all passages; `rows` are their numbers.

    Args:
        scores: Shape (n,): BM25 of every passage.
    """

    def __init__(self, scores: NDArray[np.float64]) -> None:
        self._shares, self.rows = relative(scores), np.arange(len(scores))

    def __getitem__(self, passages: NDArray[np.intp]) -> NDArray[np.float64]:
        """Shares by passage number."""
        return self._shares[passages]


class TopRelativeScores:
    """Relative BM25 without a sum over every posting; `rows` are the best `count` above 0, ascending.

    Args:
        impacts: The postings.
        counts: Question terms and how often each counts.
        count: Passages to find.
    """

    def __init__(self, impacts: TermImpacts, counts: Mapping[int, float], count: int) -> None:
        rows, scores = top(impacts, counts, count)
        self.rows, self._impacts, self._counts = np.sort(rows), impacts, counts
        self._largest = float(scores.max(initial=0.0)) or 1.0

    def __getitem__(self, passages: NDArray[np.intp]) -> NDArray[np.float64]:
        """Shares by passage number."""
        return score_of(self._impacts, self._counts, passages) / self._largest


def seed_passages(
    similarity: NDArray[np.float64], count: int, temperature: float
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The passages that the walk starts from.

    Args:
        similarity: Shape (n_passages,): b, the similarity of question and passage.
        count: Passages to take.
        temperature: Above 0; small values favour the best passage.

    Returns:
        Numbers of the `count` best, in descending order of score, and their weights `exp((b - b_best) / temperature)`.
    Source: algorithms.md 2B.3 step 1.
    Cost: O(passages).
    """
    numbers = best(similarity, count)
    chosen = similarity[numbers]
    return numbers, np.exp((chosen - chosen.max(initial=-np.inf)) / temperature)


def walk_part(mass: NDArray[np.float64], weight: float, reference: float) -> NDArray[np.float64]:
    """Contribution of the walk to the similarity of question and passage.

    Args:
        mass: Shape (n,), at least 0: from the walk.
        weight: Of the walk's part, at least 0.
        reference: The mass that counts as 1, from `walk_reference`.

    Returns:
        Shape (n,): `weight * sqrt(mass / reference)`; 0 if the reference is 0.
    Source: algorithms.md 2B.3 step 3.
    Cost: O(n).
    """
    if reference <= 0:
        return np.zeros(len(mass))
    spread = mass * (weight * weight / reference)
    np.sqrt(spread, out=spread)
    return spread


def flat_walk_part(mass: NDArray[np.float64], weight: float, reference: float) -> NDArray[np.float64]:
    """As `walk_part` with a cube root, under which what is far from the seeds counts for more.

    Returns:
        Shape (n,): `weight * (mass / reference) ** (1/3)`.
    Source: bridge-masked.md 3 step 3.
    """
    if reference <= 0:
        return np.zeros(len(mass))
    return weight * np.cbrt(mass / reference)


def walk_parts(
    masses: Masses, part: Callable[[NDArray[np.float64], float, float], NDArray[np.float64]], weight: float, rank: int
) -> Masses:
    """Contribution of the walk to each passage by `walk_part` or `flat_walk_part`; the mass of a rank counts as 1."""
    reference = walk_reference(masses.held, rank)
    return masses.mapped(lambda mass: part(mass, weight, reference))


def walk_reference(mass: NDArray[np.float64], rank: int) -> float:
    """The mass that counts as 1: that of a rank, at least a hundredth of the largest; 0 if no passage has any.

    So the number of passages does not matter.

    Source: algorithms.md 2B.3 step 3.
    """
    largest = float(mass.max(initial=0.0))
    return max(kth_largest(mass, rank), largest * _LEAST_REFERENCE) if largest > 0 else 0.0


def cover(
    scores: NDArray[np.float64], contains: NDArray[np.bool_], idf: NDArray[np.float64], weight: float, choose: int
) -> list[int]:
    """Reorders the best passages so that the first ones together cover the question.

    Args:
        scores: Shape (m,): F of the pool, in descending order of score, ties already in order of number.
        contains: Shape (m, n_stems): which passage has which distinct question stem.
        idf: Shape (n_stems,): rarity of each stem, above 0.
        weight: Of a full cover, at least 0.
        choose: Passages chosen for what they add; the rest follows by score.

    Returns:
        Indices 0..m-1 of `scores` in their new order.
    Source: algorithms.md 2B.3 step 4.
    Cost: O(m * n_stems) per passage that still adds a stem.
    """
    if len(scores) == 0:
        return []
    shares = weight * idf / idf.sum() if len(idf) else idf
    gains = np.where(contains, shares, 0.0)
    order, free = [0], np.ones(len(scores), dtype=np.bool_)
    free[0] = False
    while len(order) < choose:
        gains[:, contains[order[-1]]] = 0.0
        added = gains.sum(axis=1)
        if not added[free].any():
            break
        value = np.where(free, np.round(scores + added, DECIMALS), -np.inf)
        index = int(value.argmax())
        order.append(index)
        free[index] = False
    return [*order, *np.flatnonzero(free).tolist()]


# Source: bridge-masked.md 1, 3 step 0.

NAME_FACTOR = 5  # chosen, flat between 2 and 5; algorithms.md 2B.3.
LEAST_COMMON = 5  # A name in so few passages is rare in every corpus. Source: bridge-masked.md 3.

_TOKEN = re.compile(r"[^\W_]+")
_APOSTROPHES = frozenset("'’")


def common_count(passage_count: int, share: float) -> float:
    """L: passages up to which a name is rare, at least `LEAST_COMMON`. Source: bridge-masked.md 3."""
    return max(float(LEAST_COMMON), round(passage_count * share, 9))  # 1890 * .01 is above 18.9


def is_unnested(keys: Sequence[str]) -> NDArray[np.bool_]:
    """Mask of the keys that are not a run of whole words inside another key.

    Returns:
        Shape (len(keys),).
    Source: bridge-masked.md 1.
    """
    spaced = [f" {key} " for key in keys]
    return np.array([not any(key in other and key != other for other in spaced) for key in spaced], dtype=np.bool_)


def name_evidence(df: NDArray[np.int64], word_df: NDArray[np.int64]) -> NDArray[np.float64]:
    """Evidence that what a question writes as names are names in the collection: `min(1, 5 * df / word_df)`.

    `Parse`, the first word of a question, is a name in one passage and a word in thirty.

    Args:
        df: Shape (m,), at least 1: passages that mention each name.
        word_df: Shape (m,): passages with the only word of each; 0 for a name of several words.

    Returns:
        Shape (m,), above 0; 1 for names of several words.
    Source: algorithms.md 2B.3 step 0.
    """
    return np.minimum(1.0, NAME_FACTOR * df / np.maximum(word_df, 1))


def names_share(df: NDArray[np.int64], common: float, evidence: NDArray[np.float64] | float = 1.0) -> float:
    """c: how far the question is about rare names, `min(1, sum of evidence * sqrt(L / df))`; 0 without names.

    Args:
        df: Shape (m,): passages of each seed name, at least 1.
        common: L, from `common_count`.
        evidence: Shape (m,), from `name_evidence`.

    Source: algorithms.md 2B.3 step 0, bridge-masked.md 3 step 0a.
    """
    return min(1.0, float((evidence * np.sqrt(common / df)).sum())) if len(df) else 0.0


def masked_text(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """The words of a question that are in none of the spans, joined by one space; "" if no word is left.

    The `s` of a possessive goes with its name.

    Source: bridge-masked.md 3 step 0b.
    Cost: O(words * spans).
    """
    possessives = {end + 1 for _, end in spans if text[end : end + 1] in _APOSTROPHES}
    kept = []
    for token in _TOKEN.finditer(text):
        is_masked = any(max(start, token.start()) < min(end, token.end()) for start, end in spans)
        if not is_masked and not (token[0] == "s" and token.start() in possessives):
            kept.append(token[0])
    return " ".join(kept)
