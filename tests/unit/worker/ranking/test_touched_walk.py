"""A walk over what it touches: the same masses as whole steps, whichever entities are frequent."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from polyhop.schemas.graph import BipartiteGraph
from polyhop.worker.ranking import pagerank as touched_walk
from polyhop.worker.ranking.pagerank import TouchedWalk, WalkSeeds, bipartite_transition, walk_passages


def random_graph(seed: int, passages: int, entities: int) -> BipartiteGraph:
    """Every third passage mentions entity 0, the others few; some passages mention nothing."""
    numbers = np.random.default_rng(seed)
    held = numbers.random((passages, entities)) < 1.5 / entities
    held[::3, 0] = True
    rows = sparse.csr_array(held)
    return BipartiteGraph(
        rows.indptr.astype(np.int64),
        rows.indices.astype(np.int32),
        numbers.integers(1, 4, rows.nnz).astype(np.float64),
        numbers.random(rows.nnz) < 0.2,
        tuple(f"e{number:03}" for number in range(entities)),
    )


def random_seeds(seed: int, passages: int, entities: int) -> WalkSeeds:
    numbers = np.random.default_rng(seed + 1)
    some_entities, some_passages = numbers.permutation(entities)[:2], numbers.permutation(passages)[:3]
    weights = numbers.random(5)
    weights /= weights.sum()
    return WalkSeeds(some_entities, weights[:2], some_passages, weights[2:])


@pytest.mark.parametrize("return_dangling", [False, True])
@given(
    seed=st.integers(0, 1000),
    steps=st.integers(0, 7),
    frequent=st.sampled_from([0, 3, 1000]),
    whole_step=st.sampled_from([0.0, 0.125, 2.0]),
    whole_sum=st.sampled_from([0.0, 2.0]),
)
def test_the_masses_are_those_of_whole_steps(
    seed: int, steps: int, frequent: int, whole_step: float, whole_sum: float, *, return_dangling: bool
) -> None:
    passages, entities = 30 + seed % 40, 12
    transition = bipartite_transition(random_graph(seed, passages, entities), hub_penalty=0.5, title_boost=5.0)
    seeds = random_seeds(seed, passages, entities)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(touched_walk, "_WHOLE_STEP_SHARE", whole_step)
        patch.setattr(touched_walk, "_WHOLE_SUM_SHARE", whole_sum)
        walk = TouchedWalk(transition, 0.15, steps, return_dangling=return_dangling, least_edges=0, frequent=frequent)
        found, again = walk.passages(seeds), walk.passages(seeds)
    expected = walk_passages(transition, seeds, 0.15, steps, return_dangling=return_dangling)
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-15)
    assert again.tolist() == found.tolist()  # whether a column was computed just now or before changes no bit


def test_columns_beyond_the_memory_allowed_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(touched_walk, "COLUMN_BYTES", 2 * 8 * 40)
    transition = bipartite_transition(random_graph(3, 40, 12))
    walk = TouchedWalk(transition, 0.1, 5, return_dangling=False, least_edges=0, frequent=2)
    assert len(walk._frequent) == 2
    for seed in range(20):
        seeds = random_seeds(seed, 40, 12)
        expected = walk_passages(transition, seeds, 0.1, 5, return_dangling=False)
        assert walk.passages(seeds) == pytest.approx(expected, rel=1e-12, abs=1e-15)
        assert len(walk._columns) <= 2


def test_a_small_graph_is_walked_in_whole_steps() -> None:
    transition = bipartite_transition(random_graph(5, 40, 12))
    seeds = random_seeds(5, 40, 12)
    whole = walk_passages(transition, seeds, 0.1, 5, return_dangling=False)
    assert TouchedWalk(transition, 0.1, 5, return_dangling=False).passages(seeds).tolist() == whole.tolist()
