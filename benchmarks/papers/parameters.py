"""SPRIG's figures A.1 to A.5 from a stored evaluation with ranges: curves, heat maps, the best value of a parameter.

The best of many settings is chosen on the questions that it is shown on; `polyhop tune` holds some out.
Source: algorithms.md 2.11.
Run: uv run polyhop eval QUESTIONS --index NAME --strategies graph:restart=.1,.2:max_iter=5,10
     uv run python benchmarks/papers/parameters.py FOLDER_OF_THE_EVALUATION [FOLDER_OF_THE_PLOTS]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from drawing import (
    Look,
    StoredRange,
    baselines,
    curves,
    drawing,
    figure,
    interval,
    label_lines,
    label_text,
    legend,
    looks,
    png,
    range_metrics,
    stored_ranges,
)

from polyhop.flows.evaluation.page import GREY, INK, Document, metric

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

Point = tuple[float, float, tuple[float, float] | None]
"""Place on the axis, mean, interval."""
CURVES_DRAWN = 7
"""Curves with a colour of their own; the others are grey. One per colour of the palette."""
_BASELINE_LINES = ((INK, ":"), (GREY, "--"), (INK, "-."), (GREY, ":"), (INK, "--"), (GREY, "-."))
_Values = list[list[float | None]]
"""Values of a map by row and column; None where nothing was judged."""
MAPS_DRAWN = 8
"""Of one range, chosen: at .6 s each; report.html has the values of them all."""
_SCALE = "cividis"
"""Dark blue to yellow: grows in lightness alone, so that people with any colour vision read it."""
_DARK = 0.47
"""Share of the scale up to which white text has more contrast than black (4.5 at least: WCAG)."""
# chosen: rows high enough for their labels, and room for title and axis
_ROW_INCHES, _LEAST_INCHES, _ROOM_INCHES = 0.24, 1.3, 0.85
_MAP_TICK_SIZE, _VALUE_LENGTH = 7.5, 8  # points, characters; chosen: values of neighbouring cells do not overlap
_AXIS_POINTS = 200.0  # of a line below a map; chosen: two maps and their rows' names share 648 points
PANEL_POINTS = 160.0
"""Width of the data of one of two panels beside a legend: what the labels of its axis share."""
_LEAST_LABEL_POINTS = 30.0  # width of a label: room for a number of five digits or so at that size; chosen
_TICK_SIZE = 8.0  # points; chosen: a little below the figure's text of 9.5
_TICK_LINES = 3  # of a long value; chosen: more would take height from the data, and the table has it whole


def range_figures(run: Document) -> dict[str, Figure]:
    """Curves, maps over two parameters and best values of the run's ranges, by file name; inside `drawing`."""
    figures: dict[str, Figure | None] = {}
    for n, one in enumerate(stored_ranges(run), start=1):
        figures[f"range_{n}.png"] = range_plot(run, one)
        for m, found in enumerate(heat_maps(one)[:MAPS_DRAWN], start=1):
            figures[f"heat_map_{n}_{m}.png"] = heat_map_plot(run, one, found)
        figures[f"range_{n}_best.png"] = best_plot(run, one)
    return {name: drawn for name, drawn in figures.items() if drawn is not None}


def range_plot(run: Document, one: StoredRange) -> Figure | None:
    """One panel per main metric: a curve over the first parameter for each combination of the others.

    Words have no order: their points are not joined.
    """
    metrics = range_metrics(run, one)
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
    of_range = curves_of(one)
    shifts = _shifts(len(of_range), places)
    found = {
        curve or one.label: _points(run, points, name, places, shift)
        for (curve, points), shift in zip(of_range.items(), shifts, strict=True)
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


def best_plot(run: Document, one: StoredRange) -> Figure | None:
    """One panel per parameter with several values: the best mean of each value in every main metric."""
    metrics = range_metrics(run, one)
    if not metrics or len(several(one)) < 2:
        return None
    parameters = several(one)
    columns = min(2, len(parameters))
    grid_rows = ceil(len(parameters) / columns)
    drawn, panels = figure(1.4 + 2.6 * grid_rows, columns=columns, grid_rows=grid_rows)
    look = looks(metrics)
    entries: dict[str, Artist] = {}
    for axes, parameter in zip(panels, parameters, strict=False):
        places = places_of(values_of(one, parameter))
        found = {name: best_values(run, one, parameter, name) for name in metrics}
        points = {
            name: sorted((places[value], mean) for value, mean in best.items()) for name, best in found.items() if best
        }
        entries |= curves(axes, points, look, markers=len(places), joined=numbers_of(list(places)) is not None)
        value_ticks(axes, places, columns)
        axes.margins(y=0.12)
        axes.set(xlabel=label_lines(parameter, PANEL_POINTS, 9.5))
    for axes in panels[len(parameters) :]:
        axes.set_visible(False)
    drawn.suptitle(f"Best mean over all values of the other parameters\n{label_text(one.label)}", x=0.01, ha="left")
    legend(drawn, entries)
    return drawn


def best_values(run: Document, one: StoredRange, parameter: str, name: str) -> dict[str, float]:
    """{value of the parameter: the highest mean of a metric over all values of the others}, where it was judged."""
    place = one.parameters.index(parameter)
    best: dict[str, float] = {}
    for label, values in one.points:
        mean = metric(run, label, name)
        if mean is not None:
            best[values[place]] = max(mean, best.get(values[place], mean))
    return best


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Two parameters of a range whose values are numbers, for one combination of the others.

    Attributes:
        across: The parameter of the columns: the one with fewer values, so that each column has room for numbers.
        down: The parameter of the rows.
        columns: Its values, ascending.
        rows: Likewise.
        labels: (value across, value down) -> label of the variant.
        others: Values of the range's other parameters, "" where there is none.
    """

    across: str
    down: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    labels: Mapping[tuple[str, str], str]
    others: str


def values_of(one: StoredRange, parameter: str) -> list[str]:
    """The values of one of the parameters, each once, in the order written."""
    place = one.parameters.index(parameter)
    return list(dict.fromkeys(values[place] for _, values in one.points))


def several(one: StoredRange) -> list[str]:
    """The parameters that have two values or more."""
    return [name for name in one.parameters if len(values_of(one, name)) > 1]


def curves_of(one: StoredRange) -> dict[str, list[tuple[str, str]]]:
    """{values of the other parameters: [(value of the first parameter, label)]}; "" where there is no other."""
    found: dict[str, list[tuple[str, str]]] = {}
    for label, (value, *others) in one.points:
        name = ", ".join(f"{p}={v}" for p, v in zip(one.parameters[1:], others, strict=True))
        found.setdefault(name, []).append((value, label))
    return found


def heat_maps(one: StoredRange) -> list[HeatMap]:
    """One per combination of the other parameters; [] without two parameters that have two numbers or more."""
    numeric = [name for name in several(one) if numbers_of(values_of(one, name)) is not None][:2]
    if len(numeric) < 2:
        return []
    across, down = sorted(numeric, key=lambda name: len(values_of(one, name)))
    columns, rows_ = (tuple(sorted(values_of(one, name), key=float)) for name in (across, down))
    found: dict[str, dict[tuple[str, str], str]] = {}
    for label, values in one.points:
        given = dict(zip(one.parameters, values, strict=True))
        cell = given.pop(across), given.pop(down)
        found.setdefault(", ".join(f"{name}={value}" for name, value in given.items()), {})[cell] = label
    return [HeatMap(across, down, columns, rows_, labels, others) for others, labels in found.items()]


def numbers_of(values: list[str]) -> list[float] | None:
    """The values as numbers; None if one is a word."""
    try:
        return [float(value) for value in values]
    except ValueError:
        return None


def heat_map_plot(run: Document, one: StoredRange, map_: HeatMap) -> Figure | None:
    """One panel per main metric: the mean of every pair of values as colour and as number, the best one framed.

    A metric has the same scale in all maps of a range, so that they can be compared.
    """
    metrics = range_metrics(run, one)
    if not metrics:
        return None
    columns = min(2, len(metrics))
    grid_rows = ceil(len(metrics) / columns)
    height = max(_LEAST_INCHES, _ROW_INCHES * len(map_.rows)) + _ROOM_INCHES
    drawn, panels = figure(0.6 + height * grid_rows, columns=columns, grid_rows=grid_rows)
    for axes, name in zip(panels, metrics, strict=False):
        _map_panel(axes, run, one, map_, name)
    for axes in panels[len(metrics) :]:
        axes.set_visible(False)
    names = label_text(one.label) + (f"\n{label_text(map_.others)}" if map_.others else "")
    drawn.suptitle(f"Mean over two parameters (the best is framed)\n{names}", x=0.01, ha="left")
    return drawn


def _map_panel(axes: Axes, run: Document, one: StoredRange, map_: HeatMap, name: str) -> None:
    import numpy as np

    all_ = [value for label, _ in one.points if (value := metric(run, label, name)) is not None]
    low, high = min(all_), max(all_)
    margin = 0.0 if high > low else 0.01
    table = [[metric(run, map_.labels[x, y], name) for x in map_.columns] for y in map_.rows]
    values = np.ma.masked_invalid(np.array(table, dtype=float))
    image = axes.imshow(values, cmap=_SCALE, vmin=low - margin, vmax=high + margin, aspect="auto")
    _write_values(axes, table, low - margin, high + margin)
    if high > low:
        _frame_highest(axes, table, low, high)
    _map_axes(axes, map_)
    axes.set_title(name)
    if axes.figure is not None:
        axes.figure.colorbar(image, ax=axes, ticks=[low] if margin else [low, high], format="%.3f", pad=0.03)


def _cells(table: _Values) -> Iterator[tuple[int, int, float | None]]:
    """(column, row, value) of each cell, row by row."""
    for y, row in enumerate(table):
        for x, value in enumerate(row):
            yield x, y, value


def _write_values(axes: Axes, table: _Values, low: float, high: float) -> None:
    for x, y, value in _cells(table):
        share = 1.0 if value is None else (value - low) / (high - low)
        axes.text(x, y, _written(value), ha="center", va="center", fontsize=_MAP_TICK_SIZE, color=_ink(share))


def _frame_highest(axes: Axes, table: _Values, low: float, high: float) -> None:
    """Frames the cells with the highest value of this map, which a scale common to several maps need not reach."""
    top = max((value for _, _, value in _cells(table) if value is not None), default=None)
    for x, y, value in _cells(table):
        if value is not None and value == top:
            axes.add_patch(_frame(x, y, _ink((value - low) / (high - low))))


def _frame(x: int, y: int, colour: str) -> Rectangle:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.46, y - 0.44), 0.92, 0.88, fill=False, edgecolor=colour, linewidth=1.6)


def _map_axes(axes: Axes, map_: HeatMap) -> None:
    axes.set_xticks(range(len(map_.columns)), [_cut(value) for value in map_.columns], fontsize=_MAP_TICK_SIZE)
    axes.set_yticks(range(len(map_.rows)), [_cut(value) for value in map_.rows], fontsize=_MAP_TICK_SIZE)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xlabel(label_lines(map_.across, _AXIS_POINTS, 9.5))
    height = 72 * max(_LEAST_INCHES, _ROW_INCHES * len(map_.rows))
    axes.set_ylabel(label_lines(map_.down, height, 9.5))


def _ink(share: float) -> str:
    """White text on the dark part of the scale, black on the bright one (and where there is no value)."""
    return "white" if share <= _DARK else "black"


def _written(value: float | None) -> str:
    """Four characters: .812, 1.00; a dash where nothing was judged."""
    if value is None:
        return "–"
    text = f"{value:.3f}"
    return text[1:] if text.startswith("0") else text[:4]


def _cut(value: str) -> str:
    return label_text(value if len(value) <= _VALUE_LENGTH else f"{value[: _VALUE_LENGTH - 1]}…")


def places_of(values: Sequence[str]) -> dict[str, float]:
    """Where each value stands on the axis: numbers where they are, words beside each other as written."""
    words = list(dict.fromkeys(values))
    numbers = numbers_of(words)
    return dict(zip(words, range(len(words)) if numbers is None else numbers, strict=True))


def value_ticks(axes: Axes, places: Mapping[str, float], columns: int) -> None:
    """Ticks at the values as written, as many as have room for their labels, in one of so many panels side by side."""
    ordered = sorted(places.items(), key=lambda item: item[1])
    low, high = ordered[0][1], ordered[-1][1]
    room = PANEL_POINTS * (3 - columns)
    step = (high - low) * _LEAST_LABEL_POINTS / room
    kept: list[tuple[str, float]] = []
    for value, place in ordered:
        if not kept or place - kept[-1][1] >= step:
            kept.append((value, place))
    each = max(room / len(kept), _LEAST_LABEL_POINTS) - 6
    axes.set_xticks([place for _, place in kept], [_short(value, each) for value, _ in kept], fontsize=_TICK_SIZE)
    margin = 0.08 * (high - low) or 0.5
    axes.set_xlim(low - margin, high + margin)


def _short(value: str, points: float) -> str:
    """A value in lines of at most so many points, cut after the third."""
    lines = label_lines(value, points, _TICK_SIZE).split("\n")
    return "\n".join(lines if len(lines) <= _TICK_LINES else [*lines[: _TICK_LINES - 1], "…"])


def main() -> None:
    """Draws the ranges of the evaluation that the command line names."""
    stored = Path(sys.argv[1])
    target = Path(sys.argv[2]) if len(sys.argv) > 2 else stored
    run = json.loads((stored / "run.json").read_bytes())
    target.mkdir(parents=True, exist_ok=True)
    with drawing():
        for name, drawn in range_figures(run).items():
            (target / name).write_bytes(png(drawn))
            print(target / name)


if __name__ == "__main__":
    main()
