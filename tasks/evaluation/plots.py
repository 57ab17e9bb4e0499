"""The plots of an evaluation report, by file name.

Draws nothing itself (plots_of_rankings.py and its neighbours do). Those named `latency_…`
show timings, which differ from run to run; the others depend on the run alone and are the same bytes every time.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from polyhop.tasks.evaluation.documents import baselines, fields
from polyhop.tasks.evaluation.drawing import drawing, png
from polyhop.tasks.evaluation.plots_of_answers import calibration, precision_at_coverage
from polyhop.tasks.evaluation.plots_of_best import best_plot
from polyhop.tasks.evaluation.plots_of_latency import latency_against_recall, latency_by_part
from polyhop.tasks.evaluation.plots_of_maps import heat_map_plot, heat_maps_of
from polyhop.tasks.evaluation.plots_of_ranges import range_plot
from polyhop.tasks.evaluation.plots_of_rankings import (
    by_field,
    by_hops,
    by_type,
    paired_differences,
    recall_curves,
    triple_recall_curves,
)
from polyhop.tasks.evaluation.ranges import stored_ranges

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Document = Mapping[str, Any]

_OF_THE_RUN: Mapping[str, "Callable[[Document], Figure | None]"] = {
    "recall_at_k.png": recall_curves,
    "triple_recall_at_k.png": triple_recall_curves,
    "by_hops.png": by_hops,
    "by_type.png": by_type,
    "calibration.png": calibration,
    "precision_at_coverage.png": precision_at_coverage,
}
_OF_THE_TIMINGS: Mapping[str, "Callable[[Document, Document], Figure | None]"] = {
    "latency_against_recall.png": latency_against_recall,
    "latency_by_part.png": latency_by_part,
}


def report_plots(run: Document, timings: Document) -> dict[str, bytes]:
    """Every plot that the documents have values for.

    Args:
        run: The document of a run: strategies, results, paired, by_hops, by_type.
        timings: Its timings: strategies with latency_ms and parts_ms.

    Returns:
        PNG bytes by file name; equal documents give equal bytes.
    Cost: about a quarter of a second per plot, once Matplotlib is imported.
    """
    with drawing():
        return {name: png(drawn) for name, drawn in report_figures(run, timings).items()}


def differences_plot(place: int) -> str:
    """File name of the differences to the baseline with this index, 0 for the first."""
    return "paired_differences.png" if place == 0 else f"paired_differences_{place + 1}.png"


def curve_plot(place: int) -> str:
    """File name of the curves of the range with this index."""
    return f"range_{place + 1}.png"


def best_file(place: int) -> str:
    """File name of the best values of the range with this index."""
    return f"range_{place + 1}_best.png"


def map_file(place: int, number: int) -> str:
    """File name of a heat map of the range with this index: 0 for the first combination of its other parameters."""
    return f"heat_map_{place + 1}.png" if number == 0 else f"heat_map_{place + 1}_{number + 1}.png"


def field_plot(place: int) -> str:
    """File name of the groups by the field with this index: its own name may be no file's."""
    return f"by_field_{place + 1}.png"


def report_figures(run: Document, timings: Document) -> "dict[str, Figure]":
    """The same as figures; to be drawn inside `drawing`."""
    figures = {name: draw(run) for name, draw in _OF_THE_RUN.items()}
    figures |= {differences_plot(n): paired_differences(run, label) for n, label in enumerate(baselines(run))}
    figures |= {field_plot(n): by_field(run, name) for n, name in enumerate(fields(run))}
    figures |= {name: draw(run, timings) for name, draw in _OF_THE_TIMINGS.items()}
    return {name: drawn for name, drawn in figures.items() if drawn is not None} | range_figures(run)


def range_figures(run: Document) -> "dict[str, Figure]":
    """Those of the run's ranges alone: curves, maps over two parameters, best values; inside `drawing` likewise."""
    figures: dict[str, Figure | None] = {}
    for n, one in enumerate(stored_ranges(run)):
        figures[curve_plot(n)] = range_plot(run, one)
        figures |= {map_file(n, m): heat_map_plot(run, one, found) for m, found in enumerate(heat_maps_of(one))}
        figures[best_file(n)] = best_plot(run, one)
    return {name: drawn for name, drawn in figures.items() if drawn is not None}
