"""Where a SPRIG walk starts: weights of question entities and of first passages, and their mixture.

Finds neither (strategies do). Source: algorithms.md 2.5.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Weighting = Literal["rank", "raw", "softmax"]
Mixing = Literal["mass", "fixed", "adaptive"]


@dataclass(frozen=True, slots=True)
class WalkSeeds:
    """Where a walk on passages and entities starts; all weights together sum to 1.

    Attributes:
        entities: Shape (m,): distinct entity numbers.
        entity_weights: Shape (m,), at least 0.
        passages: Shape (k,): distinct passage numbers.
        passage_weights: Shape (k,), at least 0.
    """

    entities: NDArray[np.intp]
    entity_weights: NDArray[np.float64]
    passages: NDArray[np.intp]
    passage_weights: NDArray[np.float64]


def entity_weights(df: NDArray[np.int64], penalty: float) -> NDArray[np.float64]:
    """`df ** -penalty`: rare entities weigh more; penalty 0 makes all equal. Source: algorithms.md 2.5, q."""
    return np.asarray(df.astype(np.float64) ** -penalty)


def passage_weights(scores: NDArray[np.float64], weighting: Weighting) -> NDArray[np.float64]:
    """Seed weights of the first passages.

    Args:
        scores: Shape (k,), best first.
        weighting: `rank` is 1/rank, `raw` the score if positive, `softmax` with temperature 1.

    Returns:
        Shape (k,), at least 0, not normalised except by softmax.
    Source: algorithms.md 2.5.
    """
    if weighting == "rank":
        return 1.0 / np.arange(1, len(scores) + 1)
    if weighting == "raw":
        return np.maximum(scores, 0.0)
    powers = np.exp(scores - scores.max()) if len(scores) else np.zeros(0)
    return np.asarray(powers / powers.sum()) if len(scores) else powers


def mix(
    entities: NDArray[np.float64], passages: NDArray[np.float64], mixing: Mixing = "mass", entity_share: float = 0.5
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both parts scaled so that together they sum to 1.

    Args:
        entities: Shape (m,), at least 0: weights of question entities.
        passages: Shape (k,), at least 0: weights of seed passages.
        mixing: `mass` keeps the raw proportion; `fixed` gives the entities `entity_share`; `adaptive` gives them
            (n_e + 1) / (n_e + n_d + 2), n counting weights above 0.
        entity_share: Share of the entities under `fixed`, 0 to 1.

    Returns:
        The scaled parts. A part without mass leaves everything to the other; two of them stay 0.
    Source: algorithms.md 2.5, 2.7 (MIX).
    """
    entity_mass, passage_mass = float(entities.sum()), float(passages.sum())
    if entity_mass == 0 or passage_mass == 0 or mixing == "mass":
        total = entity_mass + passage_mass
        return (entities / total, passages / total) if total else (entities, passages)
    share = entity_share
    if mixing == "adaptive":
        counts = np.count_nonzero(entities), np.count_nonzero(passages)
        share = (counts[0] + 1) / (counts[0] + counts[1] + 2)
    return entities * (share / entity_mass), passages * ((1 - share) / passage_mass)
