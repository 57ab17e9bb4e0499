"""Stated confidence against observed correctness, and precision at coverage."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.tasks.evaluation.report import COVERAGE_POINTS, GROUPS, calibration, coverage_curve

ANSWERS = st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.35, 0.5, 0.75, 0.9]), st.sampled_from([0.0, 1.0])))


def test_fifths_by_hand() -> None:
    answers = [(0.9, 1.0), (0.1, 0.0), (0.3, 0.0), (0.2, 1.0), (0.8, 1.0), (0.4, 0.0), (0.5, 1.0)]
    assert calibration(answers) == [
        {"n": 2, "stated": pytest.approx(0.15), "observed": 0.5},
        {"n": 2, "stated": pytest.approx(0.35), "observed": 0},
        {"n": 1, "stated": 0.5, "observed": 1},
        {"n": 1, "stated": 0.8, "observed": 1},
        {"n": 1, "stated": 0.9, "observed": 1},
    ]


def test_without_answers_there_is_nothing_to_calibrate() -> None:
    assert calibration([]) == []
    assert coverage_curve([], 3) == []


@given(ANSWERS)
def test_groups_hold_every_answer_once_and_their_sizes_differ_by_one(answers: list[tuple[float, float]]) -> None:
    groups = calibration(answers)
    sizes = [group["n"] for group in groups]
    assert sum(sizes) == len(answers)
    assert len(groups) == min(GROUPS, len(answers))
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    assert sum(group["n"] * group["observed"] for group in groups) == pytest.approx(sum(right for _, right in answers))
    stated = [group["stated"] for group in groups]
    assert all(a <= b + 1e-12 for a, b in pairwise(stated))


def test_the_curve_by_hand() -> None:
    answers = [(0.5, 0.0), (0.9, 1.0), (0.5, 1.0), (0.2, 0.0)]
    assert coverage_curve(answers, 8) == [
        {"coverage": 1 / 8, "precision": 1, "confidence": 0.9},
        {"coverage": 3 / 8, "precision": pytest.approx(2 / 3), "confidence": 0.5},
        {"coverage": 4 / 8, "precision": 0.5, "confidence": 0.2},
    ]


@given(ANSWERS, st.randoms(use_true_random=False))
def test_the_order_of_questions_does_not_move_the_curve(answers: list[tuple[float, float]], random: Random) -> None:
    shuffled = list(answers)
    random.shuffle(shuffled)
    assert coverage_curve(shuffled, 99) == coverage_curve(answers, 99)


@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0.0, 1.0])), min_size=1, max_size=200))
def test_a_curve_is_short_falls_in_confidence_and_ends_with_all_answers(answers: list[tuple[float, float]]) -> None:
    curve = coverage_curve(answers, len(answers))
    assert len(curve) <= COVERAGE_POINTS
    assert curve[-1]["coverage"] == 1
    assert curve[-1]["precision"] == pytest.approx(sum(right for _, right in answers) / len(answers))
    assert [point["confidence"] for point in curve] == sorted({point["confidence"] for point in curve}, reverse=True)
    for point in curve:
        given_answers = [right for confidence, right in answers if confidence >= point["confidence"]]
        assert point["coverage"] == pytest.approx(len(given_answers) / len(answers))
        assert point["precision"] == pytest.approx(sum(given_answers) / len(given_answers))
