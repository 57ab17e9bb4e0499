"""Heat maps of a range over two parameters, one panel per main metric, and what they show in words.

Draws no curves (plots_of_ranges.py does). Source: algorithms.md 2.11 (SPRIG, figure A.2: recall over restart and
steps).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING

from polyhop.tasks.evaluation.documents import Document, metric
from polyhop.tasks.evaluation.drawing import figure, label_lines, label_text
from polyhop.tasks.evaluation.ranges import HeatMap, StoredRange, metrics_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

_Values = list[list[float | None]]
"""Values of a map by row and column; None where nothing was judged."""
MAPS_DRAWN = 8
"""Of one range, chosen: at .6 s each; the table has the values of them all."""
_SCALE = "cividis"
"""Dark blue to yellow: grows in lightness alone, so that people with any colour vision read it."""
_DARK = 0.47
"""Share of the scale up to which white text has more contrast than black (4.5 at least: WCAG)."""
# chosen: rows high enough for their labels, and room for title and axis
_ROW_INCHES, _LEAST_INCHES, _ROOM_INCHES = 0.24, 1.3, 0.85
_TICK_SIZE, _VALUE_LENGTH = 7.5, 8  # points, characters; chosen: values of neighbouring cells do not overlap
_AXIS_POINTS = 200.0  # of a line below a map; chosen: two maps and their rows' names share 648 points


def heat_maps_of(one: StoredRange) -> list[HeatMap]:
    """The maps of a range that are drawn: the first ones where there are very many."""
    return one.heat_maps()[:MAPS_DRAWN]


def heat_map_plot(run: Document, one: StoredRange, map_: HeatMap) -> Figure | None:
    """One panel per main metric: the mean of every pair of values as colour and as number, the best one framed.

    A metric has the same scale in all maps of a range, so that they can be compared.
    """
    metrics = metrics_of(run, one)
    if not metrics:
        return None
    columns = min(2, len(metrics))
    grid_rows = ceil(len(metrics) / columns)
    height = max(_LEAST_INCHES, _ROW_INCHES * len(map_.rows)) + _ROOM_INCHES
    drawn, panels = figure(0.6 + height * grid_rows, columns=columns, grid_rows=grid_rows)
    for axes, name in zip(panels, metrics, strict=False):
        _panel(axes, run, one, map_, name)
    for axes in panels[len(metrics) :]:
        axes.set_visible(False)
    names = label_text(one.label) + (f"\n{label_text(map_.others)}" if map_.others else "")
    drawn.suptitle(f"Mean over two parameters (the best is framed)\n{names}", x=0.01, ha="left")
    return drawn


def heat_map_caption(run: Document, one: StoredRange, map_: HeatMap) -> str:
    """What a map shows, and where its highest and lowest values are, for those who do not see it."""
    where = f" with {map_.others}" if map_.others else ""
    names = metrics_of(run, one)
    leading = "recall@5" if "recall@5" in names else next(iter(names), "")
    values = {cell: metric(run, label, leading) for cell, label in map_.labels.items()}
    known = {cell: value for cell, value in values.items() if value is not None}
    shown = f"{one.label}{where}: means over {map_.across} (across) and {map_.down} (down), one map per metric."
    if not known:
        return shown
    high, low = max(known, key=known.__getitem__), min(known, key=known.__getitem__)
    if known[high] == known[low]:
        return f"{shown} {leading} is {known[high]:.3f} everywhere."
    return f"{shown} Highest {leading}: {_said(map_, high, known[high])}; lowest: {_said(map_, low, known[low])}."


def _said(map_: HeatMap, cell: tuple[str, str], value: float) -> str:
    return f"{value:.3f} at {map_.across}={cell[0]}, {map_.down}={cell[1]}"


def _panel(axes: Axes, run: Document, one: StoredRange, map_: HeatMap, name: str) -> None:
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
    _axes(axes, map_)
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
        axes.text(x, y, _written(value), ha="center", va="center", fontsize=_TICK_SIZE, color=_ink(share))


def _frame_highest(axes: Axes, table: _Values, low: float, high: float) -> None:
    """Frames the cells with the highest value of this map, which a scale common to several maps need not reach."""
    top = max((value for _, _, value in _cells(table) if value is not None), default=None)
    for x, y, value in _cells(table):
        if value is not None and value == top:
            axes.add_patch(_frame(x, y, _ink((value - low) / (high - low))))


def _frame(x: int, y: int, colour: str) -> Rectangle:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.46, y - 0.44), 0.92, 0.88, fill=False, edgecolor=colour, linewidth=1.6)


def _axes(axes: Axes, map_: HeatMap) -> None:
    axes.set_xticks(range(len(map_.columns)), [_short(value) for value in map_.columns], fontsize=_TICK_SIZE)
    axes.set_yticks(range(len(map_.rows)), [_short(value) for value in map_.rows], fontsize=_TICK_SIZE)
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


def _short(value: str) -> str:
    return label_text(value if len(value) <= _VALUE_LENGTH else f"{value[: _VALUE_LENGTH - 1]}…")
