"""Means of every strategy over groups of questions: by number of hops, by type, by any field of the question file.

Owns no metric.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from typing import Any

from polyhop.tasks.evaluation.pairs import Values


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of what is not None; None if that is nothing."""
    counted = [value for value in values if value is not None]
    return fsum(counted) / len(counted) if counted else None


def by_group(
    keys: Sequence[str | None], values: Mapping[str, Values], metrics: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """{group: {n, strategies{name: {metric: mean}}}}, numbers by size, then words by alphabet.

    Args:
        keys: The group of each question, None: in none.
        values: By strategy: the metrics of each question, in the same order.
        metrics: Which ones.
    """
    members: dict[str, list[int]] = {}
    for number, key in enumerate(keys):
        if key is not None:
            members.setdefault(key, []).append(number)
    return {
        key: {
            "n": len(members[key]),
            "strategies": {
                name: {metric: mean(rows[number][metric] for number in members[key]) for metric in metrics}
                for name, rows in values.items()
            },
        }
        for key in sorted(members, key=_order)
    }


MOST_GROUPS = 12
"""A field with more values is no grouping but a description of single questions; chosen, ORKG has up to 8."""
LEAST_MEMBERS = 5
"""Questions of a group in the mean: fewer say nothing. Chosen."""
LONGEST_VALUE = 60  # characters; chosen: the name of a group, not a sentence


def by_field(
    fields: Sequence[Mapping[str, object]], values: Mapping[str, Values], metrics: Sequence[str]
) -> dict[str, dict[str, dict[str, Any]]]:
    """{field: groups as in `by_group`} of the fields whose words, whole numbers or flags group the questions.

    A field has 2 to MOST_GROUPS different values, LEAST_MEMBERS questions to each in the mean; others are left out.

    Args:
        fields: Fields of each question by name.
        values: As in `by_group`.
        metrics: Which ones.
    """
    names = dict.fromkeys(name for one in fields for name in one)
    keys = {name: [_value(one.get(name)) for one in fields] for name in names}
    return {name: by_group(column, values, metrics) for name, column in keys.items() if _groups_questions(column)}


def _value(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, str)) and 0 < len(str(value).strip()) <= LONGEST_VALUE:
        return str(value).strip()
    return None


def _groups_questions(column: Sequence[str | None]) -> bool:
    counted = [value for value in column if value is not None]
    return 2 <= len(set(counted)) <= min(MOST_GROUPS, len(counted) // LEAST_MEMBERS)


def _order(key: str) -> tuple[bool, int, str]:
    is_number = key.isascii() and key.isdecimal()
    return (not is_number, int(key) if is_number else 0, key)
