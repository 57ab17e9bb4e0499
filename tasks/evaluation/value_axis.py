"""An axis of a parameter's values as written: numbers where they are, words beside each other.

Draws no data (plots_of_ranges.py and plots_of_best.py do).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from polyhop.tasks.evaluation.drawing import label_lines
from polyhop.tasks.evaluation.ranges import numbers_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL_POINTS = 160.0
"""Width of the data of one of two panels beside a legend: what the labels of its axis share."""
_LEAST_LABEL_POINTS = 30.0  # width of a label: room for a number of five digits or so at that size; chosen
_TICK_SIZE = 8.0  # points; chosen: a little below the figure's text of 9.5
_TICK_LINES = 3  # of a long value; chosen: more would take height from the data, and the table has it whole


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
