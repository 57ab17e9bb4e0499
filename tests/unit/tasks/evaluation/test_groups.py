"""Means over groups of questions, and which fields of a question file group them."""

from typing import Any

import pytest

from polyhop.tasks.evaluation.bootstrap import LEAST_MEMBERS, LONGEST_VALUE, MOST_GROUPS, by_field, by_group, mean


def values(count: int) -> dict[str, list[dict[str, float | None]]]:
    return {"bm25": [{"mrr": float(number)} for number in range(count)]}


def test_a_mean_is_over_what_counts() -> None:
    assert (mean([1.0, None, 2.0]), mean([0.0]), mean([None]), mean([])) == (1.5, 0.0, None, None)


def test_groups_come_by_number_and_then_by_word_with_their_own_means() -> None:
    found = by_group(["10", "b", None, "2", "b", "²"], values(6), ["mrr"])
    assert list(found) == ["2", "10", "b", "²"]
    assert {key: group["n"] for key, group in found.items()} == {"2": 1, "10": 1, "b": 2, "²": 1}
    assert found["b"]["strategies"] == {"bm25": {"mrr": 2.5}}


def test_no_question_makes_no_group() -> None:
    assert by_group([], values(0), ["mrr"]) == {}


@pytest.mark.parametrize(
    ("column", "groups"),
    [
        (["a"] * LEAST_MEMBERS + ["b"] * LEAST_MEMBERS, ["a", "b"]),
        (["a"] * (2 * LEAST_MEMBERS - 1) + ["b"], ["a", "b"]),
        (["a"] * LEAST_MEMBERS + ["b"] * (LEAST_MEMBERS - 1), None),
        (["a"] * 20, None),
        ([True, False] * LEAST_MEMBERS, ["false", "true"]),
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


def test_questions_without_a_field_are_in_none_of_its_groups() -> None:
    fields: list[Any] = [*({"hops": n % 2} for n in range(2 * LEAST_MEMBERS)), {}, {"other": None}]
    found = by_field(fields, values(len(fields)), ["mrr"])
    assert {name: [group["n"] for group in groups.values()] for name, groups in found.items()} == {"hops": [5, 5]}
