"""Plots of ranges: the main metrics over a parameter, with the interval of each mean and the baselines as lines.

Draws no strategies beside each other (plots_of_rankings.py does).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING

from polyhop.tasks.evaluation.documents import Document, baselines, interval, metric
from polyhop.tasks.evaluation.drawing import (
    GREY,
    INK,
    Look,
    curves,
    figure,
    label_lines,
    label_text,
    legend,
    looks,
)
from polyhop.tasks.evaluation.ranges import StoredRange, metrics_of, numbers_of
from polyhop.tasks.evaluation.value_axis import PANEL_POINTS, places_of, value_ticks

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point = tuple[float, float, tuple[float, float] | None]
"""Place on the axis, mean, interval."""
CURVES_DRAWN = 7
"""Curves with a colour of their own; the others are grey. One per colour of the palette."""
_BASELINE_LINES = ((INK, ":"), (GREY, "--"), (INK, "-."), (GREY, ":"), (INK, "--"), (GREY, "-."))


def range_plot(run: Document, one: StoredRange) -> Figure | None:
    """One panel per main metric: a curve over the first parameter for each combination of the others.

    Words have no order: their points are not joined.
    """
    metrics = metrics_of(run, one)
    if not metrics:
        return None
    columns = min(2, len(metrics))
    grid_rows = ceil(len(metrics) / columns)
    drawn, panels = figure(1.6 + 2.3 * grid_rows, columns=columns, grid_rows=grid_rows)
    places = places_of([values[0] for _, values in one.points])
    entries: dict[str, Artist] = {}
    for axes, name in zip(panels, metrics, strict=False):
        entries |= _panel(axes, run, one, name, places)
        value_ticks(axes, places, columns)
        axes.set(title=name, xlabel=label_lines(one.parameters[0], PANEL_POINTS, 9.5))
    for axes in panels[len(metrics) :]:
        axes.set_visible(False)
    drawn.suptitle(f"Mean and 95 % interval over\n{label_text(one.label)}", x=0.01, ha="left")
    legend(drawn, entries)
    return drawn


def _panel(axes: Axes, run: Document, one: StoredRange, name: str, places: Mapping[str, float]) -> dict[str, Artist]:
    """Draws curves, intervals and baselines of one metric; returns the legend's entries."""
    curves_of = one.curves()
    shifts = _shifts(len(curves_of), places)
    found = {
        curve or one.strategy: _points(run, points, name, places, shift)
        for (curve, points), shift in zip(curves_of.items(), shifts, strict=True)
    }
    points = {curve: [(x, y) for x, y, _ in values] for curve, values in found.items() if values}
    look = looks(list(found), of=list(found)[:CURVES_DRAWN])
    joined = numbers_of(list(places)) is not None
    _intervals(axes, found, look, banded=joined and len(found) == 1)
    entries = curves(axes, points, look, markers=len(places), joined=joined)
    for place, label in enumerate(baselines(run)):
        value = metric(run, label, name)
        if value is not None:
            colour, line = _BASELINE_LINES[place % len(_BASELINE_LINES)]
            entries[f"baseline {label}"] = axes.axhline(value, color=colour, linestyle=line, linewidth=1.4)
    axes.margins(y=0.12)
    axes.locator_params(axis="y", nbins=5)
    return entries


def _shifts(count: int, places: Mapping[str, float]) -> list[float]:
    """How far each of several curves stands beside its value, so that their intervals do not cover each other.

    Grey curves have no intervals and stand at their values.
    """
    coloured = min(count, CURVES_DRAWN)
    ordered = sorted(set(places.values()))
    gaps = [after - before for before, after in pairwise(ordered)]
    step = min(min(gaps, default=0.0) / (2 * coloured), 0.02 * (ordered[-1] - ordered[0]))
    return [(number - (coloured - 1) / 2) * step if number < coloured else 0.0 for number in range(count)]


def _points(
    run: Document, points: Sequence[tuple[str, str]], name: str, places: Mapping[str, float], shift: float
) -> list[Point]:
    """The points of a curve in the order of the axis, where the metric was judged."""
    found = [(places[value] + shift, metric(run, label, name), interval(run, label, name)) for value, label in points]
    return sorted(((x, y, bounds) for x, y, bounds in found if y is not None), key=lambda point: point[0])


def _intervals(axes: Axes, found: Mapping[str, Sequence[Point]], look: Mapping[str, Look], *, banded: bool) -> None:
    """The intervals of the coloured curves: a line at every point, and a band if asked for."""
    for curve, style in look.items():
        bounds = [(x, *interval) for x, _, interval in found[curve] if interval is not None]
        if not bounds:
            continue
        xs, lows, highs = zip(*bounds, strict=True)
        axes.vlines(xs, lows, highs, color=style.colour, linewidth=1.1, alpha=0.8)
        if banded:
            axes.fill_between(xs, lows, highs, color=style.colour, alpha=0.12, linewidth=0)
