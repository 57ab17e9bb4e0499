"""The section of a page on ranges of parameters: curves, maps over two parameters, best values, and the table of all.

Owns no number (report_tables.py) and draws nothing (plots.py does).
"""

from collections.abc import Sequence

from polyhop.tasks.evaluation.documents import Document
from polyhop.tasks.evaluation.plots import best_file, curve_plot, map_file
from polyhop.tasks.evaluation.plots_of_maps import MAPS_DRAWN, heat_map_caption, heat_maps_of
from polyhop.tasks.evaluation.ranges import StoredRange, stored_ranges
from polyhop.tasks.evaluation.rendering import Plot, Section
from polyhop.tasks.evaluation.report_tables import range_table

_CURVES = (
    "One curve over the first parameter with several values, one for each combination of the others; words have no "
    "order, so that their points are not joined. Vertical lines are the intervals of the means, horizontal lines the "
    "baselines. Strategies whose intervals overlap may still differ: the paired differences are the test."
)


def ranges_section(run: Document, timings: Document) -> Section:
    """Every range with its plots and its table of all values.

    Args:
        run: The document of a run.
        timings: Its timings.
    """
    found = stored_ranges(run)
    return Section(
        "ranges",
        "Over a parameter",
        (_CURVES, *_texts(found)),
        tuple(plot for place, one in enumerate(found) for plot in _plots(run, place, one)),
        tuple(range_table(run, timings, one) for one in found),
        absent="No strategy was run with several values of a parameter.",
    )


def _texts(found: Sequence[StoredRange]) -> list[str]:
    """What is to be known about maps and best values, where there are any."""
    texts = []
    if any(one.heat_maps() for one in found):
        texts.append("Two parameters with numbers make a map: the table has its values with their intervals.")
    if any(len(one.several()) > 1 for one in found):
        texts.append(
            "The best of several settings was chosen on the questions that it is shown on, so it looks better than it "
            "is; polyhop tune keeps questions back to find out."
        )
    for one in found:
        left = len(one.heat_maps()) - MAPS_DRAWN
        if left > 0:
            texts.append(f"{one.label}: {left} more maps are not drawn; their values are in the table.")
    return texts


def _plots(run: Document, place: int, one: StoredRange) -> list[Plot]:
    """The plots of the range with this index: curves, maps over two parameters, best values."""
    return [
        Plot(curve_plot(place), f"{one.label}: means over the questions, with their 95 % intervals."),
        *(Plot(map_file(place, n), heat_map_caption(run, one, found)) for n, found in enumerate(heat_maps_of(one))),
        Plot(best_file(place), f"{one.label}: the best mean of each value over all values of the other parameters."),
    ]
