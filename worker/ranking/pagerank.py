"""Personalised PageRank: by power iteration, to convergence, and by its passages' half only.

Builds no matrices (transitions.py) and pushes nothing (push.py). Mass of dangling nodes returns to the seeds.
Source: algorithms.md 0.4, 2.6, 2B.3.
"""

import numpy as np
from numpy.typing import NDArray

from schemas.errors import NoSeedError
from worker.ranking.seeds import WalkSeeds
from worker.ranking.transitions import BipartiteTransition, Transition

EXACT_TOLERANCE = 1e-12
EXACT_ITERATIONS = 1000


def normalised_seeds(seeds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seeds that sum to 1; entries that are negative or not finite count as 0.

    Args:
        seeds: Shape (n,) or (n, b); not modified.

    Returns:
        Same shape, each column summing to 1.

    Raises:
        NoSeedError: If nothing is left in a column.
    Source: algorithms.md 0.4.
    """
    cleaned = np.where(np.isfinite(seeds) & (seeds > 0), seeds, 0.0)
    totals = cleaned.sum(axis=0)
    if not np.all(totals > 0):
        raise NoSeedError("A walk needs at least one seed above 0; apply the strategy's fallback before walking.")
    return np.asarray(cleaned / totals)


def ppr_power(
    transition: Transition, seeds: NDArray[np.float64], restart: float, max_iter: int, tol: float = 0.0
) -> NDArray[np.float64]:
    """Personalised PageRank by power iteration from the seeds.

    Args:
        transition: The walk.
        seeds: Shape (n,) or (n, b), see `normalised_seeds`; a column's result does not depend on the others.
        restart: Probability of returning to the seeds, 0 to 1.
        max_iter: Steps at most.
        tol: A column stops when a step changes it by less than this (sum of absolute changes); 0 never stops it.

    Returns:
        Shape of `seeds`; each column sums to 1.

    Raises:
        NoSeedError: If a column has no seed.
    Source: algorithms.md 0.4; SPRIG section 3.3.
    Cost: O(max_iter * edges * b).
    """
    start = normalised_seeds(seeds)
    scores = start
    done = np.zeros(seeds.shape[1:], dtype=np.bool_)
    for _ in range(max_iter):
        lost = scores[transition.dangling].sum(axis=0)
        moved = (1 - restart) * (transition.backward @ scores) + (restart + (1 - restart) * lost) * start
        moved = np.where(done, scores, moved)
        if tol > 0:
            done = done | (np.abs(moved - scores).sum(axis=0) < tol)
        scores = moved
        if np.all(done):
            break
    return scores


def ppr_exact(transition: Transition, seeds: NDArray[np.float64], restart: float) -> NDArray[np.float64]:
    """Personalised PageRank to convergence; see `ppr_power`. Source: algorithms.md 0.4."""
    return ppr_power(transition, seeds, restart, EXACT_ITERATIONS, EXACT_TOLERANCE)


def walk_passages(
    transition: BipartiteTransition, seeds: WalkSeeds, restart: float, steps: int, *, return_dangling: bool
) -> NDArray[np.float64]:
    """The passages' part of a walk after `steps` power steps.

    On two sides a step's passages depend on the entities before it only, so half of the products suffice; what dangling
    passages hold depends on their seeds alone and is carried as one number.

    Args:
        transition: The halves of a step.
        seeds: Where it starts.
        restart: Probability of returning to the seeds, 0 to 1.
        steps: Number of steps, at least 0.
        return_dangling: Mass on passages without entity returns to the seeds (SPRIG); otherwise it is lost (bridge).

    Returns:
        Shape (n_passages,); equal to the passages' slice of `ppr_power` if `return_dangling`.
    Source: algorithms.md 2.6, 2B.3 step 2.
    Cost: O(steps * edges); 5 steps on 273,000 edges take 1.5 ms.
    """
    stuck = float(seeds.passage_weights[transition.dangling[seeds.passages]].sum()) if return_dangling else 0.0
    at_passages = steps % 2 == 0
    entity_count, passage_count = transition.to_entities.shape
    scores = np.zeros(passage_count if at_passages else entity_count)
    held, back = stuck, 1.0
    for step in range(steps + 1):
        if step > 0:
            scores = _half_step(transition, scores, 1 - restart, from_passages=not at_passages)
            back = restart + (1 - restart) * held
            held = back * stuck
        if at_passages:
            scores[seeds.passages] += back * seeds.passage_weights
        else:
            scores[seeds.entities] += back * seeds.entity_weights
        at_passages = not at_passages
    return scores


def _half_step(
    transition: BipartiteTransition, scores: NDArray[np.float64], factor: float, *, from_passages: bool
) -> NDArray[np.float64]:
    """`factor` times the product, scaled where there are fewer numbers, on the passages' side."""
    if from_passages:
        return np.asarray(transition.to_entities @ (scores * factor))
    arrived = np.asarray(transition.to_passages @ scores)
    arrived *= factor
    return arrived
