"""Texts of a version as two arrays, from which a few at a time are read: of propositions, of hub paths.

Writes none (warehouse/graph/arrays.py makes the arrays of texts).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class StoredTexts:
    """Numbered texts, to be read a few at a time without a query.

    Attributes:
        starts: Shape (n + 1,), int64: where each text begins.
        data: Shape (bytes,), uint8: the texts in UTF-8, one after the other.
    """

    starts: NDArray[np.int64]
    data: NDArray[np.uint8]

    def is_consistent(self, count: int) -> bool:
        """Whether there are `count` texts, which cover the data."""
        starts = self.starts
        return bool(
            starts.shape == (count + 1,)
            and starts[0] == 0
            and starts[-1] == len(self.data)
            and np.all(starts[1:] >= starts[:-1])
        )

    def of(self, numbers: Sequence[int]) -> list[str]:
        """Texts by number, in the order asked."""
        bounds = ((self.starts[number], self.starts[number + 1]) for number in numbers)
        return [self.data[start:end].tobytes().decode("utf-8", "replace") for start, end in bounds]
