"""What extraction yields, and the arrays that rankings run on.

Arrays are plain numpy so that they can be memory-mapped and shared; no ranking formula lives here.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Mention:
    """A name at one place of a text: `start` and `end` are character offsets into that text."""

    key: str
    surface: str
    start: int
    end: int


@dataclass(frozen=True)
class BipartiteGraph:
    """Passages and the entities they mention, compressed by passage.

    Entities are numbered by ascending key, passages by ascending id.

    Attributes:
        indptr: Shape (n_passages + 1,), int64.
        indices: Shape (nnz,), int32: entity numbers, ascending inside a passage.
        tf: Shape (nnz,), float64: mentions, at least 1.
        is_title: Shape (nnz,), bool: the entity is a key of the passage's own title.
        keys: Entity keys, in number order.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    tf: NDArray[np.float64]
    is_title: NDArray[np.bool_]
    keys: tuple[str, ...]

    @property
    def passage_count(self) -> int:
        """Number of passages."""
        return len(self.indptr) - 1

    @property
    def entity_count(self) -> int:
        """Number of entities."""
        return len(self.keys)

    @cached_property
    def number_of(self) -> dict[str, int]:
        """Entity number by key."""
        return {key: number for number, key in enumerate(self.keys)}

    @cached_property
    def df(self) -> NDArray[np.int64]:
        """Shape (n_entities,): passages that mention each entity."""
        return np.bincount(self.indices, minlength=self.entity_count)

    @cached_property
    def rows(self) -> NDArray[np.int32]:
        """Shape (nnz,): passage number of each edge."""
        return np.repeat(np.arange(self.passage_count, dtype=np.int32), np.diff(self.indptr))


@dataclass(frozen=True)
class LexicalIndex:
    """Postings of one analyser, compressed by term; terms ascending, passages ascending inside a term.

    Attributes:
        terms: Term number by term.
        indptr: Shape (n_terms + 1,), int64.
        passages: Shape (nnz,), int32: passage numbers.
        tf: Shape (nnz,), int32: occurrences.
        lengths: Shape (n_passages,), int32: tokens per passage.
    """

    terms: dict[str, int]
    indptr: NDArray[np.int64]
    passages: NDArray[np.int32]
    tf: NDArray[np.int32]
    lengths: NDArray[np.int32]
