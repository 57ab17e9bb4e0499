"""Where a graph strategy starts a question's walk, and what of it goes into the evidence."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.ranking.seeds import WalkSeeds
from worker.strategies.entities import QuestionEntities

UNIFORM = "uniform"


@dataclass(frozen=True, slots=True)
class Start:
    """Seeds and where they come from.

    Attributes:
        entities: The question's.
        seeds: Of the walk.
        fallback: "none", or what stood in for a missing part: passages_only, entities_only, uniform, bm25_top1.
    """

    entities: QuestionEntities
    seeds: WalkSeeds
    fallback: str

    def evidence(self, passage_ids: Sequence[str], keys: Sequence[str], noun: str = "entities") -> dict[str, Any]:
        """As plain data; a uniform start is not listed passage by passage. `noun` says what the keys are of."""
        seeds = self.seeds
        passages = {} if self.fallback == UNIFORM else _named(passage_ids, seeds.passages, seeds.passage_weights)
        return {
            f"question_{noun}": {"matched": list(self.entities.matched), "unmatched": list(self.entities.unmatched)},
            "seeds": {"passages": passages, noun: _named(keys, seeds.entities, seeds.entity_weights)},
            "n_e": int(np.count_nonzero(seeds.entity_weights)),
            "n_d": int(np.count_nonzero(seeds.passage_weights)),
            "fallback": self.fallback,
        }


def _named(names: Sequence[str], numbers: NDArray[np.intp], weights: NDArray[np.float64]) -> dict[str, float]:
    """Weights by name, rounded for reading, without those that are 0."""
    pairs = zip(numbers.tolist(), weights.tolist(), strict=True)
    return {names[number]: round(weight, 6) for number, weight in pairs if weight > 0}
