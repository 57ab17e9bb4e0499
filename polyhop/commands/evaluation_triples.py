"""What an evaluation says of ranked triples, as tables for people: means, intervals, groups of questions.

Computes nothing.
"""

from collections.abc import Mapping
from typing import Any

from polyhop.output import print_line, print_table
from polyhop.schemas.printable import plural

PREFIX = "triple_"
LEADING = f"{PREFIX}recall@10"
SHOWN = tuple(
    f"{PREFIX}{name}"
    for name in ("recall@10", "recall@30", "precision@10", "f1@10", "hit@10", "hit@30", "ndcg@10", "mrr")
)
WITH_INTERVAL = tuple(f"{PREFIX}{name}" for name in ("recall@10", "recall@30", "hit@10", "mrr"))


def print_triples(report: Mapping[str, Any]) -> None:
    """The strategies that rank triples, judged by golden triples; nothing without golden triples."""
    golden = report.get("golden_triples")
    found = {name: one for name, one in report["strategies"].items() if one.get(LEADING) is not None}
    if golden is None or not found:
        return
    print_line(f"Ranked triples against the golden triples of {plural(golden['questions'], 'question')}")
    print_table(_columns(SHOWN), [[name, *(one[metric] for metric in SHOWN)] for name, one in found.items()])
    kind = report["interval"]
    print_line(f"{100 * kind['level']:.0f} % intervals of these means")
    print_table(
        _columns(WITH_INTERVAL),
        [[name, *(_bounds(one["intervals"][metric]) for metric in WITH_INTERVAL)] for name, one in found.items()],
    )
    for title, groups in (("number of hops", report["by_hops"]), *report.get("by_field", {}).items()):
        _print_groups(title, groups, list(found))


def _print_groups(title: str, groups: Mapping[str, Any], names: list[str]) -> None:
    if len(groups) < 2:
        return
    print_line(f"recall@10 of triples by {title}")
    columns = ["strategy", *(f"{key} ({group['n']})" for key, group in groups.items())]
    rows = [[name, *(group["strategies"][name][LEADING] for group in groups.values())] for name in names]
    print_table(columns, rows)


def _columns(metrics: tuple[str, ...]) -> list[str]:
    return ["strategy", *(metric.removeprefix(PREFIX) for metric in metrics)]


def _bounds(interval: Mapping[str, float] | None) -> str:
    return "" if interval is None else f"[{interval['low']:.3f}, {interval['high']:.3f}]"
