"""Means of every strategy over groups of questions: by number of hops, by type.

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


def _order(key: str) -> tuple[bool, int, str]:
    is_number = key.isascii() and key.isdecimal()
    return (not is_number, int(key) if is_number else 0, key)
