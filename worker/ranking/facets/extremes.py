"""Superlatives: the hubs with the largest or smallest number of those that meet a question's conditions (pure).

Source: algorithms.md 4B, superlatives.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polyhop.worker.ranking.facets.conditions import Facet
from polyhop.worker.ranking.facets.kinds import FREQUENCIES, Kind
from polyhop.worker.ranking.facets.read_question import ReadQuestion
from polyhop.worker.ranking.facets.units import Units
from polyhop.worker.ranking.facets.words import Word

BEST_SHARE = 0.99
"""Of the largest H: hubs that meet a question's conditions as well as any do."""

NOT_EXTREME = 0.6
"""Strength of numbers that are not the largest or smallest that a question asks for."""

_EXTREMES = {
    **dict.fromkeys(("latest", "newest"), (Kind.TIME, True)),
    **dict.fromkeys(("earliest", "oldest"), (Kind.TIME, False)),
    **dict.fromkeys(
        ("largest", "biggest", "greatest", "highest", "tallest", "longest", "widest", "heaviest"), (Kind.NUMBER, True)
    ),
    **dict.fromkeys(
        ("smallest", "lowest", "shortest", "narrowest", "lightest", "fewest", "least"), (Kind.NUMBER, False)
    ),
}
_ORDERS = frozenset(("first", "last", "to", "at", "on"))
"""Beside a superlative: all are asked for, in an order (newest first, newest to oldest)."""


def asked_extreme(words: Sequence[Word]) -> tuple[Kind, bool] | None:
    """The kind of number whose largest (True) or smallest value a question asks for; None: for no such value."""
    texts = [word.text.lower() for word in words]
    is_content = [not word.is_stop for word in words[1:]] + [False]
    for before, text, following, is_named in zip(["", *texts], texts, [*texts[1:], ""], is_content, strict=False):
        if following in _ORDERS or before in _ORDERS:
            continue
        if text == "most" and before == "the" and is_named and following not in FREQUENCIES:
            return (Kind.TIME, True) if following in ("recent", "recently") else (Kind.NUMBER, True)
        if text in _EXTREMES:
            return _EXTREMES[text]
    return None


def extreme_facets(
    units: Units,
    kinds: NDArray[np.int64],
    question: ReadQuestion,
    hubs: NDArray[np.float64],
    asked: NDArray[np.float64],
) -> list[Facet]:
    """The condition to have the largest or smallest number of the hubs that meet the rest, if one is asked for.

    Args:
        units: The paths.
        kinds: Shape (s,): of each signature's values.
        question: As it was read.
        hubs: Shape (h,): H, how well each hub meets the other conditions.
        asked: Shape (s,): how much the question asks for each signature.

    Returns:
        One at most; none where the question names a hub.
    Cost: O(paths of the field).
    """
    extreme = asked_extreme(question.words)
    if extreme is None or any(facet.hubs for facet in question.conditions.facets):
        return []
    kind, is_largest = extreme
    fields = np.flatnonzero(kinds == int(kind))
    if not len(fields):
        return []
    field = int(fields[asked[fields].argmax()])
    paths = units.paths_of_signature(field)
    is_met = hubs[units.path_hubs[paths]] >= BEST_SHARE * hubs.max(initial=0.0)
    found = np.unique(units.path_documents[paths[is_met]])
    numbers = units.label_numbers[units.document_labels[found]]
    is_number = np.isfinite(numbers)
    if not is_number.any():
        return []
    best = numbers[is_number].max() if is_largest else numbers[is_number].min()
    strengths = np.where(numbers[is_number] == best, 1.0, NOT_EXTREME).tolist()
    return [Facet((field,), dict(zip(found[is_number].tolist(), strengths, strict=True)))]
