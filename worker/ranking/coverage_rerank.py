"""A token-free fallback for a cross-encoder: how much of the question a passage covers, and how close together.

Splits no text. `score = coverage + proximity_weight * proximity`, both in [0, 1], over the question's distinct known
terms t with weight v(t) = idf(t) squared (idf on both sides, as in a cosine of tf-idf vectors) and V = sum of v:

    coverage  = sum of v(t) over the terms that the passage has, / V
    proximity = sum of v(t) * a(t) / (a(t) + 1) over them, / V

where a(t) is collected over neighbouring occurrences of two different terms s and t, d tokens apart, with no question
term between them: each adds idf(s) / d**2 to a(t) and idf(t) / d**2 to a(s).
Source: algorithms.md 2.9 (BM25+CE, token-free ranker); a(t) is Buettcher, Clarke and Lushman 2006.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise


def coverage_and_proximity(idf: Mapping[str, float], tokens: Sequence[str]) -> tuple[float, float]:
    """Both parts of a passage's score.

    Args:
        idf: Inverse document frequency, above 0, of each distinct known term of the question.
        tokens: The passage's, in order.

    Returns:
        Coverage and proximity, each from 0 to 1; both 0 if the question has no known term.
    Source: algorithms.md 2.9 (BM25+CE, token-free ranker).
    Cost: O(tokens).
    """
    places = [(place, token) for place, token in enumerate(tokens) if token in idf]
    if not places:
        return 0.0, 0.0
    nearness = _nearness(idf, places)
    total = sum(value * value for value in idf.values())
    present = {token for _, token in places}
    covered, close = 0.0, 0.0
    for term, value in idf.items():
        if term in present:
            covered += value * value
            close += value * value * nearness.get(term, 0.0) / (nearness.get(term, 0.0) + 1)
    return covered / total, close / total


def _nearness(idf: Mapping[str, float], places: Sequence[tuple[int, str]]) -> dict[str, float]:
    """a(t) of the terms that have a neighbour."""
    collected: dict[str, float] = {}
    for (before, first), (after, second) in pairwise(places):
        if first != second:
            squared = (after - before) ** 2
            collected[first] = collected.get(first, 0.0) + idf[second] / squared
            collected[second] = collected.get(second, 0.0) + idf[first] / squared
    return collected
