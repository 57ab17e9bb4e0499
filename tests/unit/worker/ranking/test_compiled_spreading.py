"""The compiled parts of spreading activation against the definition, edge by edge and path by path."""

from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest

from polyhop.worker.ranking.compiled_walks import search, step, subgraph

NODES = 6


def random_edges(rng: Any) -> tuple[Any, Any, Any]:
    """An undirected graph with multiplicities, as rows."""
    pairs = {(a, b): int(rng.integers(1, 4)) for a in range(NODES) for b in range(a) if rng.random() < 0.5}
    rows = [sorted((b if a == n else a, m) for (a, b), m in pairs.items() if n in (a, b)) for n in range(NODES)]
    indptr = np.cumsum([0, *map(len, rows)])
    return (
        indptr,
        np.array([b for row in rows for b, _ in row], np.int32),
        np.array([m for row in rows for _, m in row], np.int32),
    )


def plain_step(
    edges: tuple[Any, Any, Any], values: Any, gates: Any, limits: tuple[float, float, float]
) -> tuple[Any, bool]:
    """Source: algorithms.md 1.5 step 3, all increments before any is applied."""
    indptr, indices, multiplicity = edges
    decay, threshold, same = limits
    after = values.copy()
    for target in range(NODES):
        places = range(indptr[target], indptr[target + 1])
        stronger = [p for p in places if values[indices[p]] > threshold and values[indices[p]] - values[target] > same]
        increment = decay * gates[target] * sum(values[indices[p]] * multiplicity[p] for p in stronger)
        after[target] += increment if increment > threshold else 0.0
    return after, bool((after != values).any())


@pytest.mark.parametrize("is_gated", [True, False])
@pytest.mark.parametrize("needs_vector", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_a_step_is_that_of_the_definition(seed: int, is_gated: bool, needs_vector: bool) -> None:
    rng = np.random.default_rng(seed)
    edges, limits = random_edges(rng), (0.7, 0.05, 1e-12)
    vectors = rng.normal(size=(NODES, 3)).astype(np.float32)
    vectors[0] = 0  # has no text
    question = rng.normal(size=3).astype(np.float32)
    values = np.where(rng.random(NODES) < 0.5, rng.random(NODES), 0.0)
    lengths = np.linalg.norm(vectors.astype(float), axis=1) * np.linalg.norm(question.astype(float))
    cosines = np.divide(vectors.astype(float) @ question, lengths, out=np.zeros(NODES), where=lengths > 0)
    gates = np.maximum(cosines, 0) if is_gated else np.ones(NODES)
    gates[0] = 0.0 if is_gated or needs_vector else 1.0
    expected, is_changed = plain_step(edges, values, gates, limits)
    state = values.copy(), np.full(NODES, np.nan), np.zeros(NODES)
    fresh, changed = step(edges, (vectors, question), state, np.flatnonzero(values), limits, (is_gated, needs_vector))
    assert state[0] == pytest.approx(expected, abs=1e-12)
    assert (sorted(fresh.tolist()), changed) == (np.flatnonzero((expected > 0) & (values == 0)).tolist(), is_changed)
    assert not state[2].any()


def test_equal_nodes_exchange_nothing() -> None:
    edges = np.array([0, 1, 2]), np.array([1, 0], np.int32), np.array([1, 1], np.int32)
    state = np.array([0.5, 0.5]), np.full(2, np.nan), np.zeros(2)
    texts = np.ones((2, 2), np.float32), np.ones(2, np.float32)
    fresh, changed = step(edges, texts, state, np.array([0, 1]), (0.7, 0.01, 1e-12), (True, True))
    assert (fresh.tolist(), changed, state[0].tolist()) == ([], False, [0.5, 0.5])


def all_paths(edges: tuple[Any, Any], values: Any, starts: list[int], longest: int) -> list[tuple[Any, ...]]:
    """Simple paths of 1 to so many steps as (-score, nodes, path), in order."""
    indptr, indices = edges
    linked = {(a, int(b)) for a in range(NODES) for b in indices[indptr[a] : indptr[a + 1]]}
    found = [
        path
        for count in range(2, longest + 2)
        for path in permutations(range(NODES), count)
        if path[0] in starts and all(pair in linked for pair in pairwise(path))
    ]
    return sorted((-round(float(np.mean(np.sort(values[list(path)]))), 10), len(path), path) for path in found)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("limit", [1, 4, 1000])
def test_the_best_chains_are_those_of_all_chains(seed: int, limit: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.choice([0.2, 0.5, 0.9], NODES)  # ties
    edges = subgraph(random_edges(rng)[:2], np.arange(NODES), values)
    starts = [0, 3]
    paths, counts, scores, was_cut, _ = search(edges, values, np.array(starts), 3, limit, 10_000)
    found = [tuple(path[:count].tolist()) for path, count in zip(paths, counts, strict=True)]
    expected = all_paths(edges, values, starts, 3)[:limit]
    assert found == [path for _, _, path in expected]
    assert scores == pytest.approx([-score for score, _, _ in expected])
    assert not was_cut


def test_a_search_without_a_limit_has_every_chain_and_stops_where_it_may_look_no_further() -> None:
    rng = np.random.default_rng(3)
    values = rng.random(NODES)
    edges = subgraph(random_edges(rng)[:2], np.arange(NODES), values)
    every = {path for _, _, path in all_paths(edges, values, [1], 3)}
    paths, counts, _, was_cut, seen = search(edges, values, np.array([1]), 3, 0, 10_000)
    assert {tuple(path[:count].tolist()) for path, count in zip(paths, counts, strict=True)} == every
    assert (was_cut, seen) == (False, len(every))
    *_, was_cut, seen = search(edges, values, np.array([1]), 3, 0, 2)
    assert (was_cut, seen) == (True, 2)


def test_a_subgraph_is_numbered_again_and_each_row_descends_by_value() -> None:
    edges = np.array([0, 3, 4, 6, 8]), np.array([1, 2, 3, 0, 0, 3, 0, 2], np.int32)
    starts, targets = subgraph(edges, np.array([0, 2, 3]), np.array([0.1, 0.3, 0.9]))
    assert (starts.tolist(), targets.tolist()) == ([0, 2, 4, 6], [2, 1, 2, 0, 1, 0])
