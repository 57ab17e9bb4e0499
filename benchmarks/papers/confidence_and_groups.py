"""Figures of a stored evaluation by groups of questions, and of how far stated confidence can be believed.

Groups are the number of hops, the type and the fields of the question file; confidence is drawn as stated against
observed correctness, and as precision against coverage (algorithms.md 6.3).
Run: uv run python benchmarks/papers/confidence_and_groups.py FOLDER_OF_THE_EVALUATION [FOLDER_OF_THE_PLOTS]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from drawing import (
    curves,
    drawing,
    fields,
    figure,
    group_title,
    groups,
    highlighted,
    label_lines,
    legend,
    looks,
    number,
    png,
    row_height,
    row_names,
    rows,
)

from polyhop.flows.evaluation.page import COLOURS, GREY, Document, leading_metric, ranked

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = 12  # four rows of three; chosen: the best readers
_PANEL_COLUMNS = 3  # chosen: panels of three inches, wide enough for their labels
_TITLE_POINTS, _TITLE_SIZE = 150.0, 8.5
"""Width of a line above a panel: less than a third of the figure, beside the panel's own scale."""


def calibrated(run: Document) -> dict[str, list[tuple[float, float, int]]]:
    """Strategy -> (stated, observed, n) per group of answers, best reader first; without those that stated nothing."""
    found = {}
    for label in ranked(run, "em"):
        points = [
            (stated, observed, int(number(row, "n") or 0))
            for row in rows(run, "results", label, "calibration")
            if (stated := number(row, "stated")) is not None and (observed := number(row, "observed")) is not None
        ]
        if points:
            found[label] = points
    return found


def calibration(run: Document) -> Figure | None:
    """One panel per strategy, at most twelve: a point on the diagonal means that confidence is what it says."""
    found = calibrated(run)
    if not found:
        return None
    shown = list(found)[:PANELS]
    columns = min(_PANEL_COLUMNS, max(2, len(shown)))
    grid_rows = -(-len(shown) // columns)
    drawn, panels = figure(0.9 + 2.55 * grid_rows, columns=columns, grid_rows=grid_rows)
    highest = max(value for label in shown for stated, observed, _ in found[label] for value in (stated, observed))
    limit = 0.5 if highest <= 0.5 else 1.0
    for axes, label in zip(panels, shown, strict=False):
        _calibration_panel(axes, found[label], limit)
        axes.set_title(
            f"{label_lines(label, _TITLE_POINTS, _TITLE_SIZE)}\n{_sizes(found[label])}", fontsize=_TITLE_SIZE
        )
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    drawn.suptitle("Stated confidence against how often the answers were right", x=0.01, ha="left")
    scale = f"0 to {limit:g}; dashed: right as often as stated"
    drawn.supxlabel(f"stated confidence (mean of a group of answers, {scale})", fontsize=9.5)
    drawn.supylabel("observed (share of exact matches)", fontsize=9.5)
    return drawn


def _calibration_panel(axes: Axes, points: list[tuple[float, float, int]], limit: float) -> None:
    axes.plot([0, limit], [0, limit], color=GREY, linewidth=1, linestyle="--")
    stated, observed = [point[0] for point in points], [point[1] for point in points]
    axes.plot(stated, observed, color=COLOURS[0], marker="o", markersize=5, linewidth=1.4)
    edge = 0.04 * limit
    axes.set(xlim=(-edge, limit + edge), ylim=(-edge, limit + edge), aspect="equal")
    ticks = [0, limit / 2, limit]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])


def _sizes(points: list[tuple[float, float, int]]) -> str:
    """How many answers are behind the points of a panel."""
    counts = [count for _, _, count in points]
    size = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    return f"n = {size} per point"


def precision_at_coverage(run: Document) -> Figure | None:
    """How right answers are if only the most confident share is given; beyond eight strategies the others are grey."""
    points = {label: found for label in ranked(run, "em") if (found := _coverage_points(run, label))}
    if not points:
        return None
    drawn, (axes,) = figure(4.4)
    entries = curves(axes, points, looks(ranked(run), of=highlighted(run, list(points))))
    axes.set(xlim=(-0.01, 1.02), ylim=(-0.02, 1.04), title="Precision when only the most confident answers are given")
    axes.set_xlabel("coverage (share of the questions that get an answer)")
    axes.set_ylabel("precision (share of exact matches)")
    legend(drawn, entries)
    return drawn


def _coverage_points(run: Document, label: str) -> list[tuple[float, float]]:
    points = [
        (coverage, precision)
        for row in rows(run, "results", label, "coverage")
        if (coverage := number(row, "coverage")) is not None and (precision := number(row, "precision")) is not None
    ]
    return sorted(points)


def by_hops(run: Document) -> Figure | None:
    """The leading metric by the number of hops that a question needs."""
    return _by_group(run, "by_hops", "the number of hops that a question needs")


def by_type(run: Document) -> Figure | None:
    """The leading metric by the type of question."""
    return _by_group(run, "by_type", "the type of question")


def by_field(run: Document, name: str) -> Figure | None:
    """The leading metric by a field of the question file."""
    return _by_group(run, f"by_field/{name}", name)


def _by_group(run: Document, kind: str, what: str) -> Figure | None:
    """One row per strategy, one marker per group: the groups of a strategy are compared along one line."""
    leading = leading_metric(run)
    found = groups(run, kind)
    names = [label for label in ranked(run) if leading and _group_values(found, label, leading)]
    if leading is None or not names:
        return None
    drawn, (axes,) = figure(row_height(len(names), 0.3))
    entries: dict[str, Artist] = {}
    look = looks(list(found))
    for row, label in enumerate(names):
        values = _group_values(found, label, leading)
        axes.plot([min(values.values()), max(values.values())], [row, row], color="#cfcfcf", linewidth=2, zorder=1)
        for name, value in values.items():
            (point,) = axes.plot(
                [value], [row], linestyle="none", marker=look[name].marker, color=look[name].colour, markersize=7
            )
            count = number(found[name], "n")
            entries[group_title(kind, name) + ("" if count is None else f" (n = {count:.0f})")] = point
    axes.set_xlim(-0.02, 1.02)
    row_names(axes, names)
    axes.set(title=f"{leading} by {what}", xlabel=f"{leading} (mean over the questions of a group, 0 to 1)")
    legend(drawn, entries)
    return drawn


def _group_values(found: Mapping[str, Document], label: str, name: str) -> dict[str, float]:
    values = {group: number(row, "strategies", label, name) for group, row in found.items()}
    return {group: value for group, value in values.items() if value is not None}


def figures(run: Document) -> dict[str, Figure]:
    """Those that the run has values for, by file name; to be drawn inside `drawing`."""
    drawn = {
        "by_hops.png": by_hops(run),
        "by_type.png": by_type(run),
        **{f"by_field_{n}.png": by_field(run, name) for n, name in enumerate(fields(run), start=1)},
        "calibration.png": calibration(run),
        "precision_at_coverage.png": precision_at_coverage(run),
    }
    return {name: one for name, one in drawn.items() if one is not None}


def main() -> None:
    """Draws the evaluation that the command line names."""
    stored = Path(sys.argv[1])
    target = Path(sys.argv[2]) if len(sys.argv) > 2 else stored
    run = json.loads((stored / "run.json").read_bytes())
    target.mkdir(parents=True, exist_ok=True)
    with drawing():
        for name, drawn in figures(run).items():
            (target / name).write_bytes(png(drawn))
            print(target / name)


if __name__ == "__main__":
    main()
