"""Plots of what strategies find: recall curves, differences to the baseline, questions in groups.

Draws no answers and no timings (its neighbours do). Each function returns None where the run has nothing to draw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from polyhop.tasks.evaluation.documents import (
    COMPARED_METRICS,
    Document,
    group_title,
    groups,
    highlighted,
    leading_metric,
    metric,
    number,
    paired,
    ranked,
    recall_depths,
)
from polyhop.tasks.evaluation.drawing import (
    COLOURS,
    GREY,
    INK,
    curves,
    figure,
    label_text,
    legend,
    legend_below,
    looks,
    row_height,
    row_names,
)
from polyhop.tasks.evaluation.triple_metrics import PREFIX

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def recall_curves(run: Document) -> Figure | None:
    """Recall against the number of passages; beyond eight strategies the others are grey."""
    return _curves(run, "", "passages")


def triple_recall_curves(run: Document) -> Figure | None:
    """The same of ranked triples."""
    return _curves(run, PREFIX, "triples")


def _curves(run: Document, prefix: str, noun: str) -> Figure | None:
    depths = recall_depths(run, prefix)
    points = {label: found for label in ranked(run) if (found := _recall_points(run, label, prefix, depths))}
    if not points:
        return None
    drawn, (axes,) = figure(4.4)
    entries = curves(axes, points, looks(ranked(run), of=highlighted(run, list(points))), markers=len(depths))
    axes.set_xscale("log")
    axes.set_xticks(depths, [str(k) for k in depths])
    axes.set_xticks([], minor=True)
    axes.set_ylim(0, 1.02)
    axes.set(title=f"How much of the gold is among the first k {noun}", xlabel=f"k ({noun}, logarithmic)")
    axes.set_ylabel(f"recall@k (share of gold{'en triples' if prefix else ' passages'})")
    legend(drawn, entries)
    return drawn


def _recall_points(run: Document, label: str, prefix: str, depths: Sequence[int]) -> list[tuple[float, float]]:
    values = {k: metric(run, label, f"{prefix}recall@{k}") for k in depths}
    return [(k, value) for k, value in values.items() if value is not None]


def paired_differences(run: Document, baseline: str | None = None) -> Figure | None:
    """A forest plot: each strategy minus a baseline (the first) with its 95 % interval, one panel per metric."""
    baseline = baseline or str(run.get("baseline"))
    rows = paired(run, baseline)
    metrics = [name for name in COMPARED_METRICS if _compared(rows, name)][:3]
    if not metrics:
        return None
    names = [label for label in ranked(run) if any(label in _compared(rows, name) for name in metrics)]
    drawn, panels = figure(row_height(len(names)) + 0.5, columns=len(metrics), sharey=True)
    entries: dict[str, Artist] = {}
    for axes, name in zip(panels, metrics, strict=True):
        _forest(axes, _compared(rows, name), names, entries)
        axes.set(title=name, xlabel=f"difference in {name}")
    row_names(panels[0], names)
    title = f"Better (right) or worse (left), mean and 95 % interval, than\n{label_text(baseline)}"
    drawn.suptitle(title, x=0.01, ha="left")
    legend_below(drawn, dict(sorted(entries.items())))
    return drawn


def _forest(
    axes: Axes,
    compared: Mapping[str, tuple[float, float, float, bool]],
    names: Sequence[str],
    entries: dict[str, Artist],
) -> None:
    axes.axvline(0, color=INK, linewidth=1)
    for row, label in enumerate(names):
        if label not in compared:
            continue
        difference, low, high, is_significant = compared[label]
        colour, filled = (COLOURS[0], COLOURS[0]) if is_significant else (GREY, "white")
        axes.plot([low, high], [row, row], color=colour, linewidth=1.8, solid_capstyle="butt")
        (point,) = axes.plot(
            [difference], [row], "o", markersize=5.5, color=colour, markerfacecolor=filled, linestyle="none"
        )
        entries["interval excludes 0" if is_significant else "interval includes 0"] = point
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.08)
    axes.locator_params(axis="x", nbins=3)  # three narrow panels stand side by side


def _compared(rows: Document, name: str) -> dict[str, tuple[float, float, float, bool]]:
    """Strategy -> (difference, low, high, significant) in one metric, where the pair was compared."""
    found = {}
    for label in rows:
        difference, low, high = (number(rows, label, name, key) for key in ("difference", "low", "high"))
        if difference is not None and low is not None and high is not None:
            found[label] = (difference, low, high, bool(low > 0 or high < 0))
    return found


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
