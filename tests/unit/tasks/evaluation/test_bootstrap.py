"""The paired bootstrap: the golden case, its stream, its laws."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.errors import AlgorithmError
from polyhop.tasks.evaluation import bootstrap
from polyhop.tasks.evaluation.bootstrap import PairedDifference, bootstrap_columns, bootstrap_p

A = [1, 0.5, 1, 0, 0.5, 1, 1, 0.5]
B = [0.5, 0.5, 1, 0.5, 0, 1, 0.5, 0.5]
VALUES = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30)


def paired_bootstrap(a: Sequence[float], b: Sequence[float], **options: int) -> PairedDifference:
    """The only column of a comparison of two strategies."""
    (found,) = bootstrap_columns((np.array(a) - np.array(b))[:, np.newaxis], **options)
    return found


def test_golden_case() -> None:
    result = paired_bootstrap(A, B)
    assert result == PairedDifference(difference=0.125, low=-0.125, high=0.375, wins=3, ties=4, losses=1)
    assert result.as_row() == {
        "difference": 0.125,
        "low": -0.125,
        "high": 0.375,
        "wins": 3,
        "ties": 4,
        "losses": 1,
        "significant": False,
    }


def test_chunks_draw_the_stream_of_one_large_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    differences = np.random.default_rng(5).normal(0.1, 1, size=37)
    drawn = np.random.default_rng(13).integers(0, 37, size=(10_000, 37))
    low, high = np.percentile(differences[drawn].mean(axis=1), [2.5, 97.5])
    for cells in (1, 37 * 7, 1 << 20):
        monkeypatch.setattr(bootstrap, "_CHUNK_CELLS", cells)
        result = paired_bootstrap(differences.tolist(), [0.0] * 37)
        assert (result.low, result.high) == pytest.approx((low, high), abs=1e-11)


@given(VALUES)
def test_swapping_the_strategies_mirrors_wins_and_difference(rows: list[tuple[float, float]]) -> None:
    a, b = [row[0] for row in rows], [row[1] for row in rows]
    there, back = paired_bootstrap(a, b, resamples=50), paired_bootstrap(b, a, resamples=50)
    assert (there.wins, there.ties, there.losses) == (back.losses, back.ties, back.wins)
    assert there.difference == pytest.approx(-back.difference, abs=1e-11)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low), abs=1e-11)
    assert there.significant == back.significant


@given(VALUES)
def test_a_strategy_does_not_differ_from_itself(rows: list[tuple[float, float]]) -> None:
    values = [row[0] for row in rows]
    assert paired_bootstrap(values, values, resamples=50) == PairedDifference(0, 0, 0, 0, len(rows), 0)


def test_columns_do_not_disturb_each_other() -> None:
    columns = np.random.default_rng(1).choice([-1.0, -1 / 3, 0.0, 0.5], size=(40, 3))
    alone = [paired_bootstrap(column.tolist(), [0.0] * 40) for column in columns.T]
    assert bootstrap_columns(columns) == alone


def test_an_interval_that_ends_at_zero_is_not_significant() -> None:
    assert not PairedDifference(0.1, 0.0, 0.2, 1, 0, 0).significant
    assert paired_bootstrap([1.0] * 5, [0.0] * 5).significant
    assert paired_bootstrap([0.0] * 5, [1.0] * 5).significant


def test_a_comparison_without_questions_is_refused() -> None:
    with pytest.raises(AlgorithmError, match="at least one question"):
        paired_bootstrap([], [])


def test_differences_of_rounding_noise_are_ties() -> None:
    result = paired_bootstrap([0.1 + 0.2, 0.5], [0.3, 0.5])
    assert result == PairedDifference(0, 0, 0, 0, 2, 0)


def test_p_is_twice_the_share_of_resamples_that_turn_the_sign() -> None:
    differences = np.array(A) - np.array(B)
    drawn = np.random.default_rng(13).integers(0, 8, size=(10_000, 8))
    means = np.round(differences[drawn].mean(axis=1), 12)
    assert bootstrap_p(differences) == 2 * (int((means <= 0).sum()) + 1) / 10_001
    assert bootstrap_p(-differences) == bootstrap_p(differences)


def test_p_is_one_where_nothing_differs_and_never_zero() -> None:
    assert bootstrap_p(np.zeros(5)) == 1.0
    assert bootstrap_p(np.full(5, 0.1), resamples=99) == 0.02
    with pytest.raises(AlgorithmError, match="at least one question"):
        bootstrap_p(np.zeros(0))


@given(VALUES)
def test_p_below_five_percent_means_an_interval_without_zero(rows: list[tuple[float, float]]) -> None:
    a, b = [row[0] for row in rows], [row[1] for row in rows]
    p = bootstrap_p(np.array(a) - np.array(b), resamples=200)
    assert 0 < p <= 1
    if p < 0.04:  # the percentile is interpolated between two resamples
        assert paired_bootstrap(a, b, resamples=200).significant
