"""The plots of an evaluation report: recall curves, paired differences, latency; and how they are drawn.

Those named `latency_…` show timings, which differ from run to run; the others depend on the run alone and are the same
bytes every time. Colours: Okabe and Ito's palette, which people with any colour vision tell apart; line styles and
markers repeat what colour says.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import ceil, floor, log10
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, cast

from polyhop.tasks.evaluation.documents import (
    COMPARED_METRICS,
    Document,
    baselines,
    highlighted,
    latency,
    leading_metric,
    metric,
    number,
    paired,
    parts,
    ranked,
    recall_depths,
)
from polyhop.tasks.evaluation.metrics import PREFIX

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ft2font import FT2Font

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
LINES = ("-", "--", "-.")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
GREY = "#9a9a9a"
INK = "#333333"
WIDTH_INCHES = 9.0  # of a figure; chosen: 648 points, at which text of 9.5 points stays readable beside the page's own
DPI = 130  # pixels per inch; chosen: 1,170 pixels, sharp where a page shows the figure at its width
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
_HATCHES = ("", "///", "...", "xxx", "\\\\\\", "ooo", "+++")
_NAMED_POINTS = 8  # as many as other plots highlight; of more only the best are named, since names would overlap
_NAME_SIZE = 8.5  # points; one below the figure's text of 9.5, for names beside their points
_DATA_POINTS = 390.0
"""Width of the data beside the widest legend; beside a narrower one names have more room than they need."""
_SIDES = ((1, 0.0, "left"), (-1, 0.0, "right"), (1, 0.045, "left"), (1, -0.045, "left"), (-1, 0.045, "right"))


def report_plots(run: Document, timings: Document) -> dict[str, bytes]:
    """Every plot that the documents have values for.

    Args:
        run: The document of a run: strategies, results, paired.
        timings: Its timings: strategies with latency_ms and parts_ms.

    Returns:
        PNG bytes by file name; equal documents give equal bytes.
    Cost: about a quarter of a second per plot, once Matplotlib is imported.
    """
    with drawing():
        return {name: png(drawn) for name, drawn in report_figures(run, timings).items()}


def report_figures(run: Document, timings: Document) -> dict[str, Figure]:
    """The same as figures; to be drawn inside `drawing`."""
    figures = {"recall_at_k.png": recall_curves(run), "triple_recall_at_k.png": _curves(run, PREFIX, "triples")}
    figures |= {differences_plot(n): paired_differences(run, label) for n, label in enumerate(baselines(run))}
    figures["latency_against_recall.png"] = latency_against_recall(run, timings)
    figures["latency_by_part.png"] = latency_by_part(run, timings)
    return {name: drawn for name, drawn in figures.items() if drawn is not None}


def differences_plot(place: int) -> str:
    """File name of the differences to the baseline with this index, 0 for the first."""
    return "paired_differences.png" if place == 0 else f"paired_differences_{place + 1}.png"


def recall_curves(run: Document) -> Figure | None:
    """Recall against the number of passages; beyond eight strategies the others are grey."""
    return _curves(run, "", "passages")


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


def latency_against_recall(run: Document, timings: Document) -> Figure | None:
    """Median milliseconds (logarithmic) against the leading metric; a line joins those that none beats in both."""
    leading = leading_metric(run)
    points = _times_and_values(run, timings, leading) if leading else {}
    if not points:
        return None
    drawn, (axes,) = figure(max(4.6, 0.9 + 0.19 * sum(1 + label_lines(name).count("\n") for name in points)))
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
    """Names of the points that no other is both as fast and as good as, fastest first."""
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


def legend_below(drawn: Figure, entries: Mapping[str, Artist]) -> None:
    """A legend in one line under the data, for few and short entries."""
    if entries:
        names = [label_text(name) for name in entries]
        drawn.legend(list(entries.values()), names, loc="outside lower center", ncols=min(5, len(entries)))


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
