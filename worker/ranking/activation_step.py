"""The compiled part of spreading activation: one synchronous step.

Imported only where activation spreads, because numba is heavy. Source: algorithms.md 1.5 step 3.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Integers = NDArray[np.integer]
Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]


def _cosine(vector: Vectors, question: Vectors) -> float:
    """Cosine in float64, NaN if `vector` is missing (all zeros), 0 if only the question is."""
    dot, norm, length = 0.0, 0.0, 0.0
    for place in range(len(question)):
        component, asked = np.float64(vector[place]), np.float64(question[place])
        dot += component * asked
        norm += component * component
        length += asked * asked
    if norm == 0.0:
        return np.nan
    return dot / np.sqrt(norm * length) if length > 0.0 else 0.0


def _gate(vector: Vectors, question: Vectors, switches: tuple[bool, bool]) -> float:
    """sigma: what an increment is scaled by, at least 0."""
    is_gated, needs_vector = switches
    cosine = _compiled_cosine(vector, question)
    if np.isnan(cosine):
        return 0.0 if is_gated or needs_vector else 1.0
    return max(cosine, 0.0) if is_gated else 1.0


def _step(
    edges: tuple[Integers, Integers, Integers],
    texts: tuple[Vectors, Vectors],
    state: tuple[Floats, Floats, Floats],
    active: Integers,
    limits: tuple[float, float, float],
    switches: tuple[bool, bool],
) -> tuple[Integers, bool]:
    """One step; all increments are computed before any is applied.

    Args:
        edges: Row starts, neighbours, and how often each counts.
        texts: Vectors of all entities, and the question's.
        state: Activation, gates known so far (NaN: not yet), and zeros to sum in; changed in place.
        active: Entities with activation above 0, ascending.
        limits: Decay, threshold, and below which difference activations are equal.
        switches: Whether there is a gate; whether without it entities still need a vector.
    """
    values, gates, inflow = state
    decay, threshold, same = limits
    touched = _compiled_flow(edges, values, inflow, active, threshold, same)
    fresh = np.empty(len(touched), dtype=np.intp)
    fresh_count, is_changed = 0, False
    for target in touched:
        if np.isnan(gates[target]):
            gates[target] = _compiled_gate(texts[0][target], texts[1], switches)
        increment = decay * gates[target] * inflow[target]
        inflow[target] = 0.0
        if increment > threshold:
            is_changed = True
            if values[target] == 0.0:
                fresh[fresh_count] = target
                fresh_count += 1
            values[target] += increment
    return fresh[:fresh_count], is_changed


def _flow(
    edges: tuple[Integers, Integers, Integers],
    values: Floats,
    inflow: Floats,
    active: Integers,
    threshold: float,
    same: float,
) -> Integers:
    """Sums into `inflow` what stronger neighbours hold, sources ascending; returns the entities it reaches."""
    indptr, indices, multiplicity = edges
    most = 0
    for source in active:
        most += indptr[source + 1] - indptr[source]
    touched = np.empty(min(most, len(values)), dtype=np.intp)
    count = 0
    for source in active:
        own = values[source]
        if own > threshold:
            for place in range(indptr[source], indptr[source + 1]):
                target = indices[place]
                if own - values[target] > same:
                    if inflow[target] == 0.0:
                        touched[count] = target
                        count += 1
                    inflow[target] += own * multiplicity[place]
    return touched[:count]


_compile: Any = njit(cache=True)
_compiled_cosine = _compile(_cosine)
_compiled_gate = _compile(_gate)
_compiled_flow = _compile(_flow)
step = _compile(_step)
