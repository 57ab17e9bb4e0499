"""Statistics of an evaluation: bootstrap, calibration, pairs, groups, samples."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.errors import AlgorithmError
from polyhop.schemas.records import QuestionRecord
from polyhop.tasks.evaluation import bootstrap
from polyhop.tasks.evaluation.bootstrap import (
    LEAST_MEMBERS,
    LONGEST_VALUE,
    MOST_GROUPS,
    PairedDifference,
    against,
    bootstrap_columns,
    bootstrap_p,
    by_field,
    by_group,
    intervals,
    mean,
    sampled,
)
from polyhop.tasks.evaluation.report import COVERAGE_POINTS, calibration, coverage_curve

A = [1, 0.5, 1, 0, 0.5, 1, 1, 0.5]
B = [0.5, 0.5, 1, 0.5, 0, 1, 0.5, 0.5]


def paired_bootstrap(a: Sequence[float], b: Sequence[float], **options: int) -> PairedDifference:
    """The only column of a comparison of two strategies."""
    (found,) = bootstrap_columns((np.array(a) - np.array(b))[:, np.newaxis], **options)
    return found


def test_golden_case() -> None:
    values = {"difference": 0.125, "low": -0.125, "high": 0.375, "wins": 3, "ties": 4, "losses": 1}
    assert paired_bootstrap(A, B).as_row() == {**values, "significant": False}
    assert not PairedDifference(0.1, 0.0, 0.2, 1, 0, 0).significant  # an interval that ends at zero
    assert paired_bootstrap([1.0] * 5, [0.0] * 5).significant
    assert paired_bootstrap([0.0] * 5, [1.0] * 5).significant


def test_chunks_draw_the_stream_of_one_large_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    differences = np.random.default_rng(5).normal(0.1, 1, size=37)
    drawn = np.random.default_rng(13).integers(0, 37, size=(10_000, 37))
    low, high = np.percentile(differences[drawn].mean(axis=1), [2.5, 97.5])
    for cells in (1, 37 * 7, 1 << 20):
        monkeypatch.setattr(bootstrap, "_CHUNK_CELLS", cells)
        result = paired_bootstrap(differences.tolist(), [0.0] * 37)
        assert (result.low, result.high) == pytest.approx((low, high), abs=1e-11)


def test_differences_of_rounding_noise_are_ties_and_no_questions_are_refused() -> None:
    assert paired_bootstrap([0.1 + 0.2, 0.5], [0.3, 0.5]) == PairedDifference(0, 0, 0, 0, 2, 0)
    with pytest.raises(AlgorithmError, match="at least one question"):
        paired_bootstrap([], [])


def test_p_is_twice_the_share_of_resamples_that_turn_the_sign() -> None:
    differences = np.array(A) - np.array(B)
    drawn = np.random.default_rng(13).integers(0, 8, size=(10_000, 8))
    means = np.round(differences[drawn].mean(axis=1), 12)
    assert bootstrap_p(differences) == 2 * (int((means <= 0).sum()) + 1) / 10_001
    assert bootstrap_p(-differences) == bootstrap_p(differences)

    assert bootstrap_p(np.zeros(5)) == 1.0
    assert bootstrap_p(np.full(5, 0.1), resamples=99) == 0.02
    with pytest.raises(AlgorithmError, match="at least one question"):
        bootstrap_p(np.zeros(0))


def test_fifths_by_hand() -> None:
    answers = [(0.9, 1.0), (0.1, 0.0), (0.3, 0.0), (0.2, 1.0), (0.8, 1.0), (0.4, 0.0), (0.5, 1.0)]
    assert calibration(answers) == [
        {"n": 2, "stated": pytest.approx(0.15), "observed": 0.5},
        {"n": 2, "stated": pytest.approx(0.35), "observed": 0},
        {"n": 1, "stated": 0.5, "observed": 1},
        {"n": 1, "stated": 0.8, "observed": 1},
        {"n": 1, "stated": 0.9, "observed": 1},
    ]


def test_the_curve_by_hand() -> None:
    assert (calibration([]), coverage_curve([], 3)) == ([], [])
    answers = [(0.5, 0.0), (0.9, 1.0), (0.5, 1.0), (0.2, 0.0)]
    assert coverage_curve(answers, 8) == [
        {"coverage": 1 / 8, "precision": 1, "confidence": 0.9},
        {"coverage": 3 / 8, "precision": pytest.approx(2 / 3), "confidence": 0.5},
        {"coverage": 4 / 8, "precision": 0.5, "confidence": 0.2},
    ]


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


def test_every_further_baseline_is_compared_with_every_other_strategy() -> None:
    assert against({"only": [{"em": 1.0}]}, ["only"], ["em"]) == {"only": {}}
    means = {"a": (1.0, 0.0), "b": (0.0, 0.0), "c": (1.0, 1.0)}
    values: dict[str, list[dict[str, float | None]]] = {name: [{"em": v} for v in own] for name, own in means.items()}
    both = against(values, ["a", "c"], ["em"])
    assert {baseline: list(rows) for baseline, rows in both.items()} == {"a": ["b", "c"], "c": ["a", "b"]}
    assert both["a"] == against(values, ["a"], ["em"])["a"]
    assert both["c"]["a"]["em"]["difference"] == -both["a"]["c"]["em"]["difference"] == -0.5


@pytest.mark.rare
def test_intervals_are_those_of_scipys_percentile_bootstrap() -> None:
    from scipy.stats import bootstrap  # a second of imports, which every test process would pay for at collection

    generator = np.random.default_rng(7)
    drawn = {"recall@5": generator.choice([0.0, 1 / 3, 0.5, 1.0], 60), "mrr": generator.random(60)}
    rows: list[dict[str, float | None]] = [
        {"em": None, "recall@5": None if n < 9 else float(drawn["recall@5"][n]), "mrr": float(drawn["mrr"][n])}
        for n in range(60)
    ]
    found = intervals({"one": rows}, ["recall@5", "mrr", "em"])["one"]
    assert found["em"] is None
    for metric, first in (("recall@5", 9), ("mrr", 0)):
        expected = bootstrap(
            (drawn[metric][first:],), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(13)
        ).confidence_interval
        interval = found[metric]
        assert interval is not None
        assert (interval["low"], interval["high"]) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_an_interval_depends_on_no_other_strategy_or_metric() -> None:
    rows: list[dict[str, float | None]] = [{"em": n % 3 / 2, "f1": n % 2 * 1.0} for n in range(20)]
    alone = intervals({"one": rows}, ["em"])["one"]["em"]
    beside = intervals({"other": rows[::-1], "one": rows}, ["f1", "em"])["one"]["em"]
    assert alone == beside


def values(count: int) -> dict[str, list[dict[str, float | None]]]:
    return {"bm25": [{"mrr": float(number)} for number in range(count)]}


def test_groups_come_by_number_and_then_by_word_with_their_own_means() -> None:
    found = by_group(["10", "b", None, "2", "b", "²"], values(6), ["mrr"])
    assert list(found) == ["2", "10", "b", "²"]
    assert {key: group["n"] for key, group in found.items()} == {"2": 1, "10": 1, "b": 2, "²": 1}
    assert found["b"]["strategies"] == {"bm25": {"mrr": 2.5}}
    assert (mean([1.0, None, 2.0]), mean([0.0]), mean([None]), mean([])) == (1.5, 0.0, None, None)
    assert by_group([], values(0), ["mrr"]) == {}


@pytest.mark.parametrize(
    ("column", "groups"),
    [
        (["a"] * LEAST_MEMBERS + ["b"] * LEAST_MEMBERS, ["a", "b"]),
        (["a"] * (2 * LEAST_MEMBERS - 1) + ["b"], ["a", "b"]),
        (["a"] * LEAST_MEMBERS + ["b"] * (LEAST_MEMBERS - 1), None),
        ([True, False] * LEAST_MEMBERS, ["false", "true"]),
        ([True, False, None] * LEAST_MEMBERS, ["false", "true"]),
        ([2, 10] * LEAST_MEMBERS, ["2", "10"]),
        ([" a ", "a", "b"] * LEAST_MEMBERS, ["a", "b"]),
        ([1.5, 2.5] * LEAST_MEMBERS, None),
        ([["x"], ["y"]] * LEAST_MEMBERS, None),
        (["a", "b" * (LONGEST_VALUE + 1)] * LEAST_MEMBERS, None),
        ([str(n) for n in range(MOST_GROUPS)] * LEAST_MEMBERS, [str(n) for n in range(MOST_GROUPS)]),
        ([str(n) for n in range(MOST_GROUPS + 1)] * LEAST_MEMBERS, None),
    ],
)
def test_a_field_with_a_few_values_of_enough_questions_groups_them(
    column: list[object], groups: list[str] | None
) -> None:
    found = by_field([{"field": value} for value in column], values(len(column)), ["mrr"])
    assert [list(one) for one in found.values()] == ([] if groups is None else [groups])


RECORDS = [QuestionRecord(f"q{n}", f"Question {n}?") for n in range(40)]


def test_a_sample_depends_on_its_seed_and_not_on_the_order_of_the_file() -> None:
    first = sampled(RECORDS, 10, 13)
    # by sha256sum of the lines sample, 13 and the id: the sample of a stored run can be drawn again later
    numbers = (1, 3, 4, 7, 10, 11, 18, 19, 26, 29)
    assert first == [RECORDS[number] for number in numbers]
    assert first != sampled(RECORDS, 10, 14)
    assert sampled(RECORDS[::-1], 10, 13) == first[::-1]


def test_a_smaller_sample_is_part_of_a_larger_one_and_the_largest_is_the_set() -> None:
    samples = [{record.id for record in sampled(RECORDS, size, 5)} for size in range(1, 41)]
    assert [len(ids) for ids in samples] == list(range(1, 41))
    assert all(small < large for small, large in pairwise(samples))
    assert sampled(RECORDS, 41, 1) == sampled(RECORDS, 40, 1) == RECORDS
