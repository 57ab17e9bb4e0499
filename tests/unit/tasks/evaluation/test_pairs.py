"""Which pairs are compared, that both directions say the same, and the interval of every mean."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.tasks.evaluation.bootstrap import against, compare_pairs, intervals, pairs_of

ROW = st.fixed_dictionaries({"em": st.sampled_from([0.0, 0.5, 1.0, None])})


@given(st.lists(st.tuples(ROW, ROW), min_size=1, max_size=12))
def test_the_baseline_comparison_is_the_pair_the_other_way_round(
    rows: list[tuple[dict[str, float | None], ...]],
) -> None:
    values = {"base": [row[0] for row in rows], "other": [row[1] for row in rows]}
    forth = compare_pairs(values, [("base", "other")], ["em"])["base", "other"]
    back = against(values, ["base"], ["em"])["base"]["other"]
    common = sum(a["em"] is not None and b["em"] is not None for a, b in rows)
    assert set(forth) == set(back) == ({"em"} if common else set())
    if common:
        assert back["em"]["wins"] == forth["em"]["losses"]
        assert back["em"]["ties"] == forth["em"]["ties"]
        assert back["em"]["wins"] + back["em"]["ties"] + back["em"]["losses"] == common
        assert abs(back["em"]["low"] + forth["em"]["high"]) < 1e-11
        assert abs(back["em"]["difference"] + forth["em"]["difference"]) < 1e-11


def test_a_single_strategy_has_nothing_to_be_compared_with() -> None:
    assert against({"only": [{"em": 1.0}]}, ["only"], ["em"]) == {"only": {}}


def test_every_further_baseline_is_compared_with_every_other_strategy() -> None:
    values: dict[str, list[dict[str, float | None]]] = {
        "a": [{"em": 1.0}, {"em": 0.0}],
        "b": [{"em": 0.0}, {"em": 0.0}],
        "c": [{"em": 1.0}, {"em": 1.0}],
    }
    both = against(values, ["a", "c"], ["em"])
    assert {baseline: list(rows) for baseline, rows in both.items()} == {"a": ["b", "c"], "c": ["a", "b"]}
    assert both["a"] == against(values, ["a"], ["em"])["a"]
    assert both["c"]["a"]["em"]["difference"] == -both["a"]["c"]["em"]["difference"] == -0.5


def test_above_six_strategies_the_pairs_with_every_baseline_are_compared() -> None:
    names = [f"s{n}" for n in range(7)]
    pairs = pairs_of(names, ["s1", "s3"])
    assert len(pairs) == 11
    assert all("s1" in pair or "s3" in pair for pair in pairs)
    assert len(pairs_of(names[:6], ["s1"])) == 15


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
    assert intervals({"one": [{"em": 1.0}] * 5}, ["em"]) == {"one": {"em": {"low": 1.0, "high": 1.0}}}
