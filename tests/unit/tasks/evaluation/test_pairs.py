"""Which pairs are compared, and that both directions say the same."""

from hypothesis import given
from hypothesis import strategies as st

from polyhop.tasks.evaluation.pairs import against, compare_pairs

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
