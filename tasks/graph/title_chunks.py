"""Titles to edges: parts of a title that are names elsewhere, as `mississippi` is in `History of Mississippi`.

Reads no table (chunk_stage.py does) and weighs nothing. Source: bridge-masked.md 2.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.names import FUNCTION_WORDS
from polyhop.schemas.text import fold

MOST_STARTS = 24
"""Words of a title at which a chunk may begin. Source: bridge-masked.md 2."""
MOST_WORDS = 12
"""Words of the longest chunk. Source: bridge-masked.md 2."""
LEAST_CHARACTERS = 3
"""Of a chunk of one word. Source: bridge-masked.md 2."""

_WORD = re.compile(r"[^\W_]+")


def chunk_keys(title: str) -> set[str]:
    """Keys of all runs of words of a title that are shorter than the title and may be names.

    Source: bridge-masked.md 2.
    """
    words = _WORD.findall(fold(title))
    lows = [word.lower() for word in words]
    count = len(words)
    found = set()
    for begin in range(min(count, MOST_STARTS)):
        for end in range(begin + 1, min(count, begin + MOST_WORDS) + 1):
            if end - begin < count and _may_be_name(words[begin], lows[begin:end]):
                found.add(" ".join(lows[begin:end]))
    return found


def _may_be_name(first: str, lows: Sequence[str]) -> bool:
    """Whether a run of words, of which `first` is the first as written, may be a name."""
    if len(lows) > 1:
        return not FUNCTION_WORDS.issuperset(lows)
    is_capitalised = first[0].isalpha() and not first[0].islower()
    return is_capitalised and lows[0] not in FUNCTION_WORDS and len(lows[0]) >= LEAST_CHARACTERS


def chunk_edges(
    titles: Sequence[str], number_of: Mapping[str, int], indptr: NDArray[np.int64], indices: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Edges from passages to the entities that parts of their titles name.

    Args:
        titles: Of the passages, in number order.
        number_of: Entity number by key, of all entities of the graph.
        indptr: Shape (n_passages + 1,): where the edges of each passage begin that the graph has already.
        indices: Shape (nnz,): entity numbers of those; no edge is added beside one of them.

    Returns:
        The same two arrays of the edges to add; entities ascend inside a passage.
    Source: bridge-masked.md 2.
    Cost: O(distinct titles * their chunks + passages).
    """
    known: dict[str, list[int]] = {}
    rows = []
    for passage, title in enumerate(titles):
        if title not in known:
            known[title] = sorted(_numbers(title, number_of))
        has = set(indices[indptr[passage] : indptr[passage + 1]].tolist()) if known[title] else set()
        rows.append([number for number in known[title] if number not in has])
    starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return starts, np.array([number for row in rows for number in row], dtype=np.int32)


def _numbers(title: str, number_of: Mapping[str, int]) -> Iterator[int]:
    for key in chunk_keys(title):
        if key in number_of:
            yield number_of[key]
