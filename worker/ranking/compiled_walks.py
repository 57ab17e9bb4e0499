"""The compiled loops of `activation` (one synchronous step) and `chains` (the search, depth first, branch and bound).

Imported only where they run, because numba is heavy. A prefix of a chain is given up when no continuation can reach the
K_c-th best score so far; the bound takes the best walk of each remaining length, which no simple path can beat.
Source: algorithms.md 1.5 steps 3 and 5; the bound is tighter than the one given there.
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
    for position in range(len(question)):
        component, asked = np.float64(vector[position]), np.float64(question[position])
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
        state: Activation, gates known so far (NaN: not yet), and zeros to sum in; updated by the function.
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
            for position in range(indptr[source], indptr[source + 1]):
                target = indices[position]
                if own - values[target] > same:
                    if inflow[target] == 0.0:
                        touched[count] = target
                        count += 1
                    inflow[target] += own * multiplicity[position]
    return touched[:count]


_compile: Any = njit(cache=True)
_compiled_cosine = _compile(_cosine)
_compiled_gate = _compile(_gate)
_compiled_flow = _compile(_flow)
step = _compile(_step)


Edges = tuple[Integers, Integers]
Kept = tuple[Integers, Integers, Floats]

SLACK = 1e-11  # ten units of the twelfth decimal, after which scores are equal: no tie is lost; algorithms.md 0.3.


def _subgraph(edges: Edges, active: Integers, values: Floats) -> Edges:
    """Edges among the active nodes, renumbered in order; in each row by descending value, then number."""
    indptr, indices = edges
    position_of = np.full(len(indptr) - 1, -1, dtype=np.int64)
    position_of[active] = np.arange(len(active))
    starts = np.zeros(len(active) + 1, dtype=np.int64)
    for position in range(len(active)):
        node = active[position]
        for edge in range(indptr[node], indptr[node + 1]):
            if position_of[indices[edge]] >= 0:
                starts[position + 1] += 1
    starts = np.cumsum(starts)
    targets = np.empty(starts[-1], dtype=np.int64)
    filled = starts[:-1].copy()
    order = np.argsort(-values, kind="mergesort")
    for target in order:
        node = active[target]
        for edge in range(indptr[node], indptr[node + 1]):
            position = position_of[indices[edge]]
            if position >= 0:
                targets[filled[position]] = target
                filled[position] += 1
    return starts, targets


def _walk_bounds(edges: Edges, values: Floats, length: int) -> Floats:
    """Shape (length + 1, n + 1): largest sum of a walk of so many steps from each node; last column: from any."""
    indptr, indices = edges
    count = len(values)
    bounds = np.full((length + 1, count + 1), -np.inf)
    bounds[0, :] = 0.0
    for steps in range(1, length + 1):
        for node in range(count):
            for edge in range(indptr[node], indptr[node + 1]):
                target = indices[edge]
                bounds[steps, node] = max(bounds[steps, node], values[target] + bounds[steps - 1, target])
            bounds[steps, count] = max(bounds[steps, count], bounds[steps, node])
    return bounds


def _upper(bounds: Floats, node: int, total: float, count: int, steps: int) -> float:
    """Largest mean that a prefix of `count` nodes with this sum can reach in at most `steps` steps from `node`."""
    upper = total / count
    for more in range(1, steps + 1):
        upper = max(upper, (total + bounds[more, node]) / (count + more))
    return upper


def _mean(values: Floats, path: Integers, count: int) -> float:
    """Mean over a path, summed in ascending order, so that both directions of a path get the same bits."""
    ordered = np.sort(values[path[:count]])
    total = 0.0
    for value in ordered:
        total += value
    return total / count


def _is_before(kept: Kept, position: int, path: Integers, count: int, score: float) -> bool:
    """Returns whether a path precedes the one kept at `position`: by rounded score, then length, then nodes."""
    paths, lengths, scores = kept
    left, right = np.rint(score * 1e12), np.rint(scores[position] * 1e12)
    if left != right:
        return bool(left > right)
    if count != lengths[position]:
        return bool(count < lengths[position])
    for step in range(count):
        if path[step] != paths[position, step]:
            return bool(path[step] < paths[position, step])
    return False


def _insert(kept: Kept, size: int, path: Integers, count: int, values: Floats) -> int:
    """Puts a path where it belongs among the kept ones, the last of which drops out if all slots are taken."""
    paths, lengths, scores = kept
    score = _compiled_mean(values, path, count)
    if size == len(scores):
        if not _compiled_is_before(kept, size - 1, path, count, score):
            return size
        size -= 1
    position = size
    while position > 0 and _compiled_is_before(kept, position - 1, path, count, score):
        paths[position] = paths[position - 1]
        lengths[position], scores[position] = lengths[position - 1], scores[position - 1]
        position -= 1
    paths[position, :count] = path[:count]
    lengths[position], scores[position] = count, score
    return size + 1


def _search(
    edges: Edges, values: Floats, starts: Integers, max_length: int, limit: int, max_paths: int
) -> tuple[Integers, Integers, Floats, bool, int]:
    """The best `limit` paths from the starts (0: all, unordered): paths, node counts, means, whether cut, looked at."""
    indptr, indices = edges
    room = limit if limit > 0 else max_paths
    kept = (np.zeros((room, max_length + 1), dtype=np.int64), np.zeros(room, dtype=np.int64), np.zeros(room))
    bounds = _compiled_walk_bounds(edges, values, max_length)
    path = np.zeros(max_length + 1, dtype=np.int64)
    cursor = np.zeros(max_length + 1, dtype=np.int64)
    totals = np.zeros(max_length + 1)
    is_on_path = np.zeros(len(values), dtype=np.bool_)
    size, looked_at, least = 0, 0, -np.inf
    for start in starts:
        depth = 0
        path[0], cursor[0], totals[0], is_on_path[start] = start, indptr[start], values[start], True
        while depth >= 0:
            node, position = path[depth], cursor[depth]
            steps = max_length - depth - 1
            is_done = steps < 0 or position == indptr[node + 1]
            if not is_done:
                target = indices[position]
                total = totals[depth] + values[target]
                # Rows descend by value: once the best of all walks does not help, no later neighbour can.
                is_done = _compiled_upper(bounds, len(values), total, depth + 2, steps) < least
            if is_done:
                is_on_path[node] = False
                depth -= 1
                continue
            cursor[depth] += 1
            if is_on_path[target] or _compiled_upper(bounds, target, total, depth + 2, steps) < least:
                continue
            if looked_at == max_paths:
                return kept[0][:size], kept[1][:size], kept[2][:size], True, looked_at
            looked_at += 1
            depth += 1
            path[depth], cursor[depth], totals[depth], is_on_path[target] = target, indptr[target], total, True
            if limit == 0:
                kept[0][size, : depth + 1] = path[: depth + 1]
                kept[1][size], kept[2][size] = depth + 1, _compiled_mean(values, path, depth + 1)
                size += 1
            else:
                size = _compiled_insert(kept, size, path, depth + 1, values)
                least = kept[2][size - 1] - SLACK * (1.0 + kept[2][0]) if size == limit else least
    return kept[0][:size], kept[1][:size], kept[2][:size], False, looked_at


_compiled_walk_bounds = _compile(_walk_bounds)
_compiled_upper = _compile(_upper)
_compiled_mean = _compile(_mean)
_compiled_is_before = _compile(_is_before)
_compiled_insert = _compile(_insert)
subgraph = _compile(_subgraph)
search = _compile(_search)
