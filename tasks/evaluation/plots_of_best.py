"""The best mean of each value of a parameter over all values of the others: the ablation plots of SPRIG, appendix F.

Judges nothing: the best of many settings is chosen on the questions that it is shown on (`polyhop tune` holds some
out). Source: algorithms.md 2.11 (SPRIG, figures A.1, A.3, A.4, A.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import TYPE_CHECKING

from polyhop.tasks.evaluation.documents import Document, metric
from polyhop.tasks.evaluation.drawing import curves, figure, label_lines, label_text, legend, looks
from polyhop.tasks.evaluation.ranges import StoredRange, metrics_of, numbers_of
from polyhop.tasks.evaluation.value_axis import PANEL_POINTS, places_of, value_ticks

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

_Best = Mapping[str, float]


def has_best_plot(one: StoredRange) -> bool:
    """Whether two parameters or more have several values; with one, the best of a value is the value itself."""
    return len(one.several()) > 1


def best_plot(run: Document, one: StoredRange) -> Figure | None:
    """One panel per parameter with several values: the best mean of each value in every main metric."""
    metrics = metrics_of(run, one)
    if not metrics or not has_best_plot(one):
        return None
    parameters = one.several()
    columns = min(2, len(parameters))
    grid_rows = ceil(len(parameters) / columns)
    drawn, panels = figure(1.4 + 2.6 * grid_rows, columns=columns, grid_rows=grid_rows)
    look = looks(metrics)
    entries: dict[str, Artist] = {}
    for axes, parameter in zip(panels, parameters, strict=False):
        places = places_of(one.values_of(parameter))
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


def best_values(run: Document, one: StoredRange, parameter: str, name: str) -> _Best:
    """{value of the parameter: the highest mean of a metric over all values of the others}, where it was judged."""
    place = one.parameters.index(parameter)
    best: dict[str, float] = {}
    for label, values in one.points:
        mean = metric(run, label, name)
        if mean is not None:
            best[values[place]] = max(mean, best.get(values[place], mean))
    return best
