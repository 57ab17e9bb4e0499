"""Plots of what strategies cost in time: latency against quality, and where a question's time goes.

Draws no rankings and no answers (its neighbours do). Each function returns None where nothing was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log10
from typing import TYPE_CHECKING

from polyhop.tasks.evaluation.documents import Document, latency, leading_metric, metric, number, parts, ranked
from polyhop.tasks.evaluation.drawing import (
    COLOURS,
    INK,
    figure,
    label_text,
    legend,
    line_count,
    logarithmic_ticks,
    looks,
    row_height,
    row_names,
    text_points,
)

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HATCHES = ("", "///", "...", "xxx", "\\\\\\", "ooo", "+++")
_NAMED_POINTS = 8  # as many as other plots highlight; of more only the best are named, since names would overlap
_NAME_SIZE = 8.5  # points; one below the figure's text of 9.5, for names beside their points
_DATA_POINTS = 390.0
"""Width of the data beside the widest legend; beside a narrower one names have more room than they need."""
_SIDES = ((1, 0.0, "left"), (-1, 0.0, "right"), (1, 0.045, "left"), (1, -0.045, "left"), (-1, 0.045, "right"))


def latency_against_recall(run: Document, timings: Document) -> Figure | None:
    """Median milliseconds (logarithmic) against the leading metric; a line joins those that none beats in both."""
    leading = leading_metric(run)
    points = _times_and_values(run, timings, leading) if leading else {}
    if not points:
        return None
    drawn, (axes,) = figure(max(4.6, 0.9 + 0.19 * line_count(points)))
    entries: dict[str, Artist] = {}
    look = looks(ranked(run))
    best = unbeaten(points)
    if len(best) > 1:
        front = [points[name] for name in best]
        (entries["none is both faster and better"],) = axes.step(
            *zip(*front, strict=True), where="post", color="#bdbdbd", linewidth=1.2, zorder=1
        )
    for label, (x, y) in points.items():
        (entries[label],) = axes.plot(
            [x], [y], linestyle="none", marker=look[label].marker, color=look[label].colour, markersize=8
        )
    logarithmic_ticks(axes, "x", [x for x, _ in points.values()])
    axes.margins(y=0.12)
    _name_points(axes, points if len(points) <= _NAMED_POINTS else {name: points[name] for name in best})
    axes.set(title="Time against quality: the further up and left, the better", ylabel=f"{leading} (mean, 0 to 1)")
    axes.set_xlabel("median latency of a question (milliseconds, logarithmic)")
    legend(drawn, entries)
    return drawn


def _times_and_values(run: Document, timings: Document, leading: str) -> dict[str, tuple[float, float]]:
    """(median milliseconds, value of the leading metric) of each strategy that has both."""
    points = {}
    for label in ranked(run):
        value, milliseconds = metric(run, label, leading), latency(timings, label, "p50")
        if value is not None and milliseconds is not None and milliseconds > 0:
            points[label] = (milliseconds, value)
    return points


def unbeaten(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Names of the points that no other is both as fast and as good as, fastest first.

    Args:
        points: (cost, value) by name; low cost and high value are good.
    """
    kept: list[str] = []
    for name in sorted(points, key=lambda name: (points[name][0], -points[name][1])):
        if not kept or points[name][1] > points[kept[-1]][1]:
            kept.append(name)
    return kept


def _name_points(axes: Axes, points: Mapping[str, tuple[float, float]]) -> None:
    """Writes names beside points where they cover neither a point nor another name; the legend has them all."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    scaled = {
        name: (log10(x / left) / log10(right / left), (y - low) / (high - low)) for name, (x, y) in points.items()
    }
    taken = [_box(x, y, 0.02, 0.04, 0) for x, y in scaled.values()]
    for name, (x, y) in scaled.items():
        text = label_text(name)
        width = 0.02 + text_points(text, _NAME_SIZE) / _DATA_POINTS
        for side, shift, alignment in _SIDES:
            box = _box(x + side * 0.018, y + shift, width, 0.04, side)
            if box[0] >= 0 and box[1] <= 1 and not any(_overlap(box, other) for other in taken):
                axes.annotate(
                    text,
                    points[name],
                    (side * 7, shift * 260),
                    textcoords="offset points",
                    ha=alignment,
                    va="center",
                    fontsize=_NAME_SIZE,
                    bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.6},
                )
                taken.append(box)
                break


def _box(x: float, y: float, width: float, height: float, side: int) -> tuple[float, float, float, float]:
    """(left, right, bottom, top) of a box that begins at x (side 1), ends there (-1) or is centred on it (0)."""
    left = x if side > 0 else x - width if side < 0 else x - width / 2
    return left, left + width, y - height / 2, y + height / 2


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]


def latency_by_part(run: Document, timings: Document) -> Figure | None:
    """Stacked medians of the parts of a question's time, one row per strategy, and the median of the whole."""
    names = [label for label in ranked(run) if parts(timings, [label])]
    found = parts(timings, names)
    if not names or not found:
        return None
    drawn, (axes,) = figure(row_height(len(names)) + 0.2)
    entries = _stacked_bars(axes, timings, names, found)
    medians = {row: latency(timings, label, "p50") for row, label in enumerate(names)}
    whole = {row: value for row, value in medians.items() if value is not None}
    if whole:
        (entries["whole question"],) = axes.plot(
            list(whole.values()), list(whole), "D", color=INK, markersize=4.5, linestyle="none"
        )
    row_names(axes, names)
    axes.set_xlim(left=0)
    axes.set(title="Where the time of a question goes", xlabel="median latency (milliseconds)")
    legend(drawn, entries)
    return drawn


def _stacked_bars(axes: Axes, timings: Document, names: list[str], found: list[str]) -> dict[str, Artist]:
    """Draws the parts of each strategy's time; returns a bar of each part for the legend."""
    entries: dict[str, Artist] = {}
    reached = [0.0] * len(names)
    for place, part in enumerate(found):
        widths = [number(timings, "strategies", label, "parts_ms", part, "p50") or 0.0 for label in names]
        bars = axes.barh(
            range(len(names)),
            widths,
            left=reached,
            height=0.62,
            color=COLOURS[place % len(COLOURS)],
            hatch=_HATCHES[place % len(_HATCHES)],
            edgecolor="white",
            linewidth=0.4,
        )
        entries[part] = bars[0]
        reached = [x + width for x, width in zip(reached, widths, strict=True)]
    return entries
