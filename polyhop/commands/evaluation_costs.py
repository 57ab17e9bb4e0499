"""Costs of an evaluation's strategies as a table for people: the index and a question, side by side.

Computes nothing.
"""

from collections.abc import Mapping
from typing import Any

from polyhop.output import print_line, print_table

COLUMNS = ("strategy", "index tokens", "index s", "tokens per question", "s per question")


def print_costs(costs: Mapping[str, Mapping[str, Any]]) -> None:
    """The table, and which of its seconds are not those of a first run."""
    print_line("Costs: the index as far as the strategy needs it, and a question (prompt + completion tokens)")
    rows = [_cost_row(name, cost) for name, cost in costs.items()]
    print_table(COLUMNS, rows)
    _print_cached_stages(costs)


def _cost_row(name: str, cost: Mapping[str, Any]) -> list[object]:
    index, question = cost["index"], cost["question"]
    return [
        name,
        f"{index['prompt_tokens']:,} + {index['completion_tokens']:,}",
        "not recorded" if index["seconds"] is None else index["seconds"],
        f"{question['prompt_tokens']:.1f} + {question['completion_tokens']:.1f}",
        question["seconds"],
    ]


def _print_cached_stages(costs: Mapping[str, Mapping[str, Any]]) -> None:
    """The stages whose seconds are not of all their units; nothing if there are none."""
    stages = {name: one for cost in costs.values() for name, one in cost["index"]["stages"].items() if one}
    partly = [f"{n} {s['computed']:,} of {s['units']:,}" for n, s in stages.items() if s["computed"] < s["units"]]
    if partly:
        print_line(f"  seconds are of the last run that computed; the rest came from caches: {', '.join(partly)}")
