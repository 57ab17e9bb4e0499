"""The token-free fallback for a cross-encoder: hand-computed values and laws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.worker.ranking.bm25 import coverage_and_proximity

IDF = {"a": 1.0, "b": 2.0, "c": 3.0}
WORDS = st.lists(st.sampled_from("abcxyz"), max_size=20)


def test_hand_computed_example() -> None:
    """V = 1 + 4 + 9. a and b are 2 apart, b and the second a 1: a(a) = 2/4 + 2/1, a(b) = 1/4 + 1/1."""
    coverage, proximity = coverage_and_proximity(IDF, ["a", "x", "b", "a"])
    assert coverage == pytest.approx(5 / 14)
    assert proximity == pytest.approx((1 * 2.5 / 3.5 + 4 * 1.25 / 2.25) / 14)


def test_a_repeated_word_is_no_neighbour_of_itself() -> None:
    assert coverage_and_proximity(IDF, ["c", "c", "c"]) == pytest.approx((9 / 14, 0.0))


@pytest.mark.parametrize(("idf", "tokens"), [(IDF, []), (IDF, ["x", "y"]), ({}, ["a"]), ({}, [])])
def test_nothing_in_common_is_zero(idf: dict[str, float], tokens: list[str]) -> None:
    assert coverage_and_proximity(idf, tokens) == (0.0, 0.0)


def test_all_words_cover_everything_and_closer_is_better() -> None:
    near, far = ["a", "b", "c"], ["a", "x", "b", "x", "c"]
    assert coverage_and_proximity(IDF, near)[0] == coverage_and_proximity(IDF, far)[0] == pytest.approx(1)
    assert coverage_and_proximity(IDF, near)[1] > coverage_and_proximity(IDF, far)[1] > 0


def test_a_rare_word_covers_more_than_two_common_ones() -> None:
    assert coverage_and_proximity(IDF, ["c"])[0] > coverage_and_proximity(IDF, ["a", "b"])[0]


@given(WORDS)
def test_both_parts_are_shares_and_reading_backwards_changes_nothing(tokens: list[str]) -> None:
    parts = coverage_and_proximity(IDF, tokens)
    assert all(0 <= part <= 1 for part in parts)
    assert coverage_and_proximity(IDF, tokens[::-1]) == pytest.approx(parts)


@given(WORDS, WORDS)
def test_more_text_never_lowers_either_part(tokens: list[str], more: list[str]) -> None:
    before, after = coverage_and_proximity(IDF, tokens), coverage_and_proximity(IDF, tokens + more)
    assert all(late >= early - 1e-12 for early, late in zip(before, after, strict=True))
