"""What the figures of this folder share: values of a stored evaluation, and how curves, legends and rows are drawn."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import ceil, floor, isfinite, log10
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, cast

from polyhop.flows.evaluation.page import (
    COLOURS,
    DPI,
    GREY,
    HIGHLIGHTED,
    INK,
    LINES,
    MARKERS,
    RANGE_METRICS,
    WIDTH_INCHES,
    Document,
    metric,
)

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ft2font import FT2Font

LABEL_LENGTH = 44  # characters; chosen: two lines of a legend, and the tables have whole names
LEGEND_POINTS, ROW_POINTS = 180.0, 172.0
"""Width of a line of a name in a legend and before a row: about a quarter of the figure's 648 points each."""
_STYLE: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9.5,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.8,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "figure.titlesize": 11,
    "figure.titleweight": "bold",
    "figure.facecolor": "white",
}


def at(document: object, *keys: str) -> Any:
    """The value under nested keys, None where one of them is missing."""
    for key in keys:
        if not isinstance(document, Mapping) or key not in document:
            return None
        document = document[key]
    return document


def number(document: object, *keys: str) -> float | None:
    """The finite number under nested keys, None if there is none."""
    value = at(document, *keys)
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return float(value)


def rows(document: object, *keys: str) -> list[Document]:
    """The list of objects under nested keys, empty if there is none."""
    value = at(document, *keys)
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list | tuple) else []


def interval(run: Document, label: str, name: str) -> tuple[float, float] | None:
    """The interval of a strategy's mean; None if it was not judged, or the run is older than intervals."""
    low, high = (number(run, "results", label, "intervals", name, key) for key in ("low", "high"))
    return None if low is None or high is None else (low, high)


def baselines(run: Document) -> list[str]:
    """The strategies that the others are compared with; runs from before there could be several have one."""
    found = at(run, "baselines") or [at(run, "baseline")]
    return [str(label) for label in found if label is not None]


def highlighted(run: Document, candidates: Sequence[str]) -> list[str]:
    """The strategies that get a colour of their own where all would be a tangle: the best ones and the baselines.

    Args:
        run: The document of a run.
        candidates: Strategies with something to draw, in descending order of score.
    """
    if len(candidates) <= HIGHLIGHTED:
        return list(candidates)
    kept = [label for label in baselines(run) if label in candidates][:HIGHLIGHTED]
    others = [label for label in candidates if label not in kept][: HIGHLIGHTED - len(kept)]
    return [label for label in candidates if label in kept or label in others]


def groups(run: Document, kind: str) -> dict[str, Document]:
    """The question groups of "by_hops", "by_type" or, as "by_field/NAME", of a field of the question file.

    Numbers come first, ascending, then words in alphabetical order.
    """
    found = at(run, *kind.split("/", maxsplit=1))
    if not isinstance(found, Mapping):
        return {}
    names = sorted(map(str, found), key=lambda name: (not name.isdecimal(), int(name) if name.isdecimal() else 0, name))
    return {name: found[name] for name in names if isinstance(found[name], Mapping)}


def fields(run: Document) -> list[str]:
    """The fields of the question file that group the questions; runs from before there were any have none."""
    found = at(run, "by_field")
    return [str(name) for name in found] if isinstance(found, Mapping) else []


def group_title(kind: str, name: str) -> str:
    """How a group is called where people read it."""
    if kind != "by_hops":
        return name
    return f"{name} hop" if name == "1" else f"{name} hops"


@dataclass(frozen=True, slots=True)
class StoredRange:
    """A strategy that a run evaluated with several values of some parameters.

    Attributes:
        label: As written.
        parameters: Those with several values.
        points: (label of the variant, its values, one per parameter), in the order of the values as written.
    """

    label: str
    parameters: tuple[str, ...]
    points: tuple[tuple[str, tuple[str, ...]], ...]


def stored_ranges(run: Document) -> list[StoredRange]:
    """The ranges of a run, in the order written."""
    return [
        StoredRange(
            label=str(row["label"]),
            parameters=tuple(map(str, row["parameters"])),
            points=tuple((str(at(point, "label")), tuple(map(str, point["values"]))) for point in rows(row, "points")),
        )
        for row in rows(run, "ranges")
    ]


def range_metrics(run: Document, one: StoredRange) -> list[str]:
    """The main metrics in which a point of the range was judged."""
    labels_ = [label for label, _ in one.points]
    return [name for name in RANGE_METRICS if any(metric(run, label, name) is not None for label in labels_)]


@dataclass(frozen=True, slots=True)
class Look:
    """How one strategy is drawn in every plot of a report."""

    colour: str
    line: str
    marker: str


def looks(names: Sequence[str], of: Sequence[str] | None = None) -> dict[str, Look]:
    """The look of each name by its place, so that a name looks the same in every plot.

    Args:
        names: All names, in the same order for every plot; no two of the first 77 look alike.
        of: Those to return, in this order; all of them if None.
    """
    found = {
        name: Look(COLOURS[place % len(COLOURS)], LINES[place % len(LINES)], MARKERS[place % len(MARKERS)])
        for place, name in enumerate(names)
    }
    return {name: found[name] for name in (names if of is None else of)}


@contextmanager
def drawing() -> Iterator[None]:
    """Matplotlib's own defaults and the report's style, whatever the user's matplotlibrc says."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(cast("Any", _STYLE))
        yield


def figure(height: float, columns: int = 1, grid_rows: int = 1, **shared: Any) -> tuple[Figure, list[Axes]]:
    """A figure of the report's width and its axes, row by row.

    Args:
        height: Inches.
        columns: Axes side by side.
        grid_rows: Axes above each other.
        **shared: `sharex`, `sharey` as in Matplotlib's `subplots`.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=(WIDTH_INCHES, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(made)
    axes = made.subplots(grid_rows, columns, squeeze=False, **shared)
    return made, list(axes.ravel())


def png(drawn: Figure) -> bytes:
    """The figure as PNG, free of versions and dates."""
    target = io.BytesIO()
    drawn.savefig(target, format="png", metadata={"Software": None})
    return target.getvalue()


def curves(
    axes: Axes,
    points: Mapping[str, Sequence[tuple[float, float]]],
    look: Mapping[str, Look],
    markers: int = 6,
    *,
    joined: bool = True,
) -> dict[str, Artist]:
    """Draws lines: those with a look in it, the others thin and grey below them.

    Args:
        axes: Where to draw.
        points: (x, y) by name, each line at least one point long.
        look: By name, in the order of the legend; names without points are not drawn.
        markers: About how many points of a line get a marker.
        joined: Whether lines join the points; words on the axis have nothing between them.

    Returns:
        The legend's entries; all grey lines are one.
    """
    entries: dict[str, Artist] = {}
    others = [name for name in points if name not in look]
    for name in others:
        xs, ys = zip(*points[name], strict=True)
        line, marker = ("-", "") if joined else ("", ".")
        (grey,) = axes.plot(xs, ys, color=GREY, linestyle=line, marker=marker, linewidth=0.8, alpha=0.7)
    for name, style in look.items():
        if name not in points:
            continue
        xs, ys = zip(*points[name], strict=True)
        (entries[name],) = axes.plot(
            xs,
            ys,
            color=style.colour,
            linestyle=style.line if joined else "",
            marker=style.marker,
            markevery=max(1, len(xs) // markers),
            markersize=5,
            linewidth=1.7,
        )
    return entries | ({f"{len(others)} more": grey} if others else {})


def legend(drawn: Figure, entries: Mapping[str, Artist], title: str | None = None) -> None:
    """A legend right of the data, in two columns where there are many entries."""
    if not entries:
        return
    drawn.legend(
        list(entries.values()),
        [label_lines(name) for name in entries],
        loc="outside right upper",
        title=title,
        alignment="left",
        ncols=1 if len(entries) <= 30 else 2,
    )


def row_names(axes: Axes, names: Sequence[str]) -> None:
    """One row per name, the first at the top; a name of two lines is written smaller, so that a row has room for it."""
    small = 7.5  # two such lines are as high as a row
    texts = [label_lines(name, ROW_POINTS, small) for name in names]
    axes.set_yticks(range(len(names)), texts)
    for label, name in zip(axes.get_yticklabels(), names, strict=True):
        if text_points(label_text(name), _STYLE["font.size"]) > ROW_POINTS:
            label.set(fontsize=small, linespacing=1.0)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)


def logarithmic_ticks(axes: Axes, axis: Literal["x", "y"], values: Sequence[float]) -> None:
    """A logarithmic axis around positive values with ticks in plain numbers: 1, 2, 5, 10, …; decades if it is long."""
    low, high = min(values) / 2, max(values) * 2
    steps = (1, 2, 5) if high / low < 2000 else (1,)
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    ticks = [step * 10.0**decade for decade in decades for step in steps if low <= step * 10.0**decade <= high]
    scale, limits, place = (
        (axes.set_xscale, axes.set_xlim, axes.set_xticks)
        if axis == "x"
        else (axes.set_yscale, axes.set_ylim, axes.set_yticks)
    )
    scale("log")
    limits(low, high)
    place(ticks, [f"{tick:,.15g}" for tick in ticks])
    place([], minor=True)


def row_height(row_count: int, per_row: float = 0.27) -> float:
    """Inches that a plot with one row per strategy needs."""
    return 1.5 + per_row * max(row_count, 2)


def label_text(name: str) -> str:
    """A name as Matplotlib can draw it: one line, no mathematics, nothing the font lacks, not too long."""
    return _safe(_shortened(name))


def label_lines(name: str, points: float = LEGEND_POINTS, size: float = _STYLE["legend.fontsize"]) -> str:
    """The same in lines of at most so many points at this size of the font."""
    text = _shortened(name)
    length = int(points / max(text_points(text, size), 1.0) * len(text))
    return "\n".join(_safe(line) for line in wrap(text, max(length, 1)) or [""])


def text_points(text: str, size: float) -> float:
    """How wide a line of text is in the report's font."""
    font = _font()
    font.set_size(size, 72.0)
    font.set_text(text)
    return float(font.get_width_height()[0]) / 64  # FreeType counts in 64ths of a point


def _shortened(name: str) -> str:
    known = _characters()
    text = "".join(character if ord(character) in known else "□" for character in " ".join(name.split()))
    half = (LABEL_LENGTH - 1) // 2
    return text if len(text) <= LABEL_LENGTH else f"{text[:half]}…{text[-half:]}"


def _safe(text: str) -> str:
    # A legend leaves out what begins with an underscore; a zero-width space does not.
    return "\u200b" + text.replace("$", r"\$")


@cache
def _characters() -> frozenset[int]:
    return frozenset(_font().get_charmap())


@cache
def _font() -> FT2Font:
    from matplotlib.font_manager import findfont, get_font

    return get_font(findfont("DejaVu Sans"))
