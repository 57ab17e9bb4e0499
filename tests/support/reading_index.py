"""A corpus in memory, as much of an index as the reader without a model needs."""

from collections.abc import Sequence

import numpy as np
from memory_index import MemoryIndex, Passage
from numpy.typing import NDArray

from polyhop.schemas.query import ContextPassage
from polyhop.warehouse.artefacts import vectors_of

Titled = tuple[str, str]


class ReadingIndex(MemoryIndex):
    """Titled texts, numbered in their order; with vectors if it is given some. Counts how often passages are read."""

    def __init__(self, passages: Sequence[Titled], vectors: NDArray[np.float32] | None = None) -> None:
        self.rows = [(f"p{place:03}", title, text) for place, (title, text) in enumerate(passages)]
        given = {} if vectors is None else {vectors_of("passage"): vectors}
        super().__init__(self.rows, given, artefacts={"lexical:stems", *(handle.name for handle in given)})
        self.calls = 0

    def passages(self, numbers: Sequence[int]) -> list[Passage]:
        self.calls += 1
        return super().passages(numbers)

    def context(self) -> list[ContextPassage]:
        return [ContextPassage(*row, rank, 1 / rank) for rank, row in enumerate(self.rows, start=1)]
