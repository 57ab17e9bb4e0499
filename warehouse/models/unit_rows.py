"""Vectors of length 1, from whatever a model gave: what every search and every cache relies on."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import InvalidVectorError

_AS_IT_IS = 1e-6
"""Lengths so near to 1 are float32's rounding of it; scaling again would change last bits, and nothing else."""


def unit_rows(vectors: Any, count: int, dimension: int, model: str) -> NDArray[np.float32]:
    """The vectors scaled to length 1.

    Args:
        vectors: One per text: an array, or lists of numbers; not modified.
        count: Number of texts.
        dimension: Components that each must have; 0: any, but all the same.
        model: For the sentence.

    Returns:
        Shape (count, d), float32; a row whose length is 1 already keeps its bits.

    Raises:
        InvalidVectorError: If there are too few or too many, or one is zero, not finite, no list of numbers, or of
            another dimension.
    """
    if len(vectors) != count:
        raise InvalidVectorError(f"The encoder {model} gave {len(vectors)} vectors for {count} texts; use another one.")
    try:
        rows = np.array(vectors, dtype=np.float64).reshape(count, -1)
    except (TypeError, ValueError) as error:
        raise InvalidVectorError(
            f"The encoder {model} gave vectors of different lengths, or no numbers; use another one."
        ) from error
    if dimension and rows.shape[1] != dimension:
        raise InvalidVectorError(
            f"The encoder {model} gave vectors of {rows.shape[1]} dimensions instead of {dimension}; set "
            "encoder.dimension to what it gives, or encoder.name to the model that is meant."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.sqrt((rows * rows).sum(axis=1))
    bad = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0))
    if len(bad):
        raise InvalidVectorError(
            f"The encoder {model} gave a vector that is zero or not finite for {len(bad)} of {count} texts; use "
            "another one."
        )
    scaled = np.abs(lengths - 1) > _AS_IT_IS
    rows[scaled] /= lengths[scaled, np.newaxis]
    return rows.astype(np.float32)
