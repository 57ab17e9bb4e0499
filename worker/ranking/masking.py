"""A question without its rare names: which of its names are seeds, and what is left of its words.

Finds no names (their finder does) and encodes nothing. Source: bridge-masked.md 1, 3 step 0.
"""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

LEAST_COMMON = 5
"""A name in so few passages is rare in every corpus. Source: bridge-masked.md 3."""

_TOKEN = re.compile(r"[^\W_]+")
_APOSTROPHES = frozenset("'’")


def common_count(passage_count: int, share: float) -> float:
    """L: passages up to which a name is rare, at least `LEAST_COMMON`. Source: bridge-masked.md 3."""
    return max(float(LEAST_COMMON), round(passage_count * share, 9))  # 1890 * .01 is above 18.9


def is_unnested(keys: Sequence[str]) -> NDArray[np.bool_]:
    """Which keys are no run of whole words inside another one.

    Args:
        keys: Distinct keys: lower-case words joined by one space.

    Returns:
        Shape (len(keys),).
    Source: bridge-masked.md 1.
    """
    spaced = [f" {key} " for key in keys]
    return np.array([not any(key in other and key != other for other in spaced) for key in spaced], dtype=np.bool_)


def names_share(df: NDArray[np.int64], common: float) -> float:
    """c: how far the question is about rare names, `min(1, sum of sqrt(L / df))`; 0 without names.

    Args:
        df: Shape (m,): passages of each seed name, at least 1.
        common: L, from `common_count`.

    Source: bridge-masked.md 3 step 0a.
    """
    return min(1.0, float(np.sqrt(common / df).sum())) if len(df) else 0.0


def masked_text(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """The words of a question that are in none of the spans, joined by one space; "" if no word is left.

    The `s` of a possessive goes with its name.

    Args:
        text: The question as written.
        spans: Character offsets of what is masked, start and end; they may overlap.

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
