"""Seed weights and their mixture: golden vectors and fallbacks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.worker.ranking.pagerank import Mixing, Weighting, entity_weights, mix, passage_weights

WEIGHTS = st.lists(st.floats(0, 100), max_size=6).map(np.array)


@pytest.mark.parametrize(
    ("penalty", "expected"), [(0, [0.5, 0.5]), (0.5, [0.585786, 0.414214]), (1, [0.666667, 0.333333])]
)
def test_golden_entity_weights(penalty: float, expected: list[float]) -> None:
    """G-SPRIG-1, last line: df 1 and 2."""
    mixed, _ = mix(entity_weights(np.array([1, 2]), penalty), np.array([]))
    assert mixed == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("weighting", "expected"),
    [
        ("rank", [1, 0.5, 0.333333]),
        ("softmax", [0.95033, 0.047314, 0.002356]),
        ("raw", [12, 9, 6]),
    ],
)
def test_golden_passage_weights(weighting: Weighting, expected: list[float]) -> None:
    """G-SPRIG-5."""
    assert passage_weights(np.array([12.0, 9, 6]), weighting) == pytest.approx(expected, abs=1e-6)


def test_golden_raw_weights_after_norming() -> None:
    """G-SPRIG-5."""
    _, mixed = mix(np.array([]), passage_weights(np.array([12.0, 9, 6]), "raw"))
    assert mixed == pytest.approx([0.444444, 0.333333, 0.222222], abs=1e-6)


def test_negative_scores_have_no_raw_weight() -> None:
    assert passage_weights(np.array([2.0, -1.0]), "raw").tolist() == [2.0, 0.0]


@pytest.mark.parametrize("weighting", ["rank", "raw", "softmax"])
def test_no_passages_have_no_weights(weighting: Weighting) -> None:
    assert passage_weights(np.array([]), weighting).tolist() == []


ENTITIES, PASSAGES = np.array([1, 2**-0.5]), np.array([1, 0.5])


@pytest.mark.parametrize(
    ("mixing", "entities", "passages"),
    [
        ("mass", [0.311808, 0.220481], [0.311808, 0.155904]),
        ("adaptive", [0.292893, 0.207107], [0.333333, 0.166667]),
    ],
)
def test_golden_mixtures(mixing: Mixing, entities: list[float], passages: list[float]) -> None:
    """G-SPRIG-2, seeds of the hybrid rows."""
    mixed = mix(ENTITIES, PASSAGES, mixing)
    assert mixed[0] == pytest.approx(entities, abs=1e-6)
    assert mixed[1] == pytest.approx(passages, abs=1e-6)


@pytest.mark.parametrize(("n_e", "n_d", "share"), [(1, 10, 0.153846), (3, 5, 0.4)])
def test_golden_adaptive_shares(n_e: int, n_d: int, share: float) -> None:
    """G-SPRIG-2, last line; weights of 0 are not seeds."""
    entities, _ = mix(np.append(np.ones(n_e), 0), np.ones(n_d), "adaptive")
    assert entities.sum() == pytest.approx(share, abs=1e-6)


def test_a_fixed_share_is_kept_whatever_the_raw_weights() -> None:
    entities, passages = mix(ENTITIES * 1000, PASSAGES, "fixed", 0.3)
    assert entities.sum() == pytest.approx(0.3)
    assert passages.sum() == pytest.approx(0.7)


@given(WEIGHTS, WEIGHTS, st.sampled_from(["mass", "fixed", "adaptive"]))
def test_a_mixture_sums_to_one_unless_both_parts_are_empty(
    entities: np.ndarray, passages: np.ndarray, mixing: Mixing
) -> None:
    mixed = mix(entities, passages, mixing)
    total = mixed[0].sum() + mixed[1].sum()
    assert total == pytest.approx(1 if entities.sum() + passages.sum() > 0 else 0)


@pytest.mark.parametrize("mixing", ["mass", "fixed", "adaptive"])
def test_an_empty_part_leaves_everything_to_the_other(mixing: Mixing) -> None:
    assert mix(ENTITIES, np.array([]), mixing)[0].sum() == pytest.approx(1)
    assert mix(np.array([]), PASSAGES, mixing)[1].sum() == pytest.approx(1)
