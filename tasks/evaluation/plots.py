"""The plots of an evaluation, recall curve and paired differences: of equal runs the same bytes.

Colours: Okabe and Ito's palette, which people with any colour vision tell apart; line styles and markers repeat what
colour says.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from polyhop.schemas.text import printable
from polyhop.tasks.evaluation.metrics import PREFIX, RECALL_DEPTHS
from polyhop.tasks.evaluation.page import COMPARED_METRICS, Document, differences_plot, metric, paired, ranked

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
LINES = ("-", "--", "-.")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
GREY, INK = "#9a9a9a", "#333333"
HIGHLIGHTED = 8  # strategies with a colour and a name; chosen: there are seven colours, and more are not told apart
WIDTH_INCHES, DPI = 9.0, 130  # chosen: 1,170 pixels, sharp where a page shows the figure at its width
LABEL_LENGTH = 34  # characters; chosen: a quarter of the figure's width, and the tables have whole names
_STYLE: dict[str, Any] = {
    "font.size": 9.5,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e3e3",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "text.parse_math": False,
}


def report_plots(run: Document) -> dict[str, bytes]:
    """PNG bytes by file name of every plot that a run has values for, a quarter of a second each.

    Without Matplotlib there is none, which the page says.
    """
    try:
        import matplotlib as mpl
    except ModuleNotFoundError:
        return {}

    drawers: dict[str, Callable[[], Figure | None]] = {
        "recall_at_k.png": lambda: _recall_curves(run, "", "passages"),
        "triple_recall_at_k.png": lambda: _recall_curves(run, PREFIX, "triples"),
    }
    for place, baseline in enumerate(run["baselines"]):
        drawers[differences_plot(place)] = lambda baseline=baseline: _paired_differences(run, baseline)  # type: ignore[misc]
    found: dict[str, bytes] = {}
    # Matplotlib's own defaults and this style, whatever the user's matplotlibrc says
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # of a name in a script that the font lacks: boxes are drawn
        mpl.rcdefaults()
        mpl.rcParams.update(cast("Any", _STYLE))
        for name, draw in drawers.items():
            if (drawn := draw()) is not None:
                target = io.BytesIO()
                drawn.savefig(target, format="png", metadata={"Software": None})
                found[name] = target.getvalue()
    return found


def _recall_curves(run: Document, prefix: str, noun: str) -> Figure | None:
    """Recall against depth; beyond eight strategies the others are grey, but for the baselines."""
    names = [label for label in ranked(run) if metric(run, label, f"{prefix}recall@1") is not None]
    if not names:
        return None
    drawn, (axes,) = _figure(4.4)
    for place, label in enumerate(names):
        recall = [metric(run, label, f"{prefix}recall@{k}") or 0.0 for k in RECALL_DEPTHS]
        if place < HIGHLIGHTED or label in run["baselines"]:
            axes.plot(RECALL_DEPTHS, recall, **_look(place), label=_label(label), markersize=5)
        else:
            axes.plot(RECALL_DEPTHS, recall, color=GREY, linewidth=0.8, zorder=1)
    axes.set_xscale("log")
    axes.set_xticks(RECALL_DEPTHS, [str(k) for k in RECALL_DEPTHS])
    axes.set_xticks([], minor=True)
    axes.set(ylim=(0, 1.02), xlabel=f"k ({noun}, logarithmic)", ylabel="recall@k (share of the gold)")
    axes.set_title(f"How much of the gold is among the first k {noun}")
    drawn.legend(loc="outside right upper")
    return drawn


def _paired_differences(run: Document, baseline: str) -> Figure | None:
    """A forest plot: each strategy minus a baseline with its 95 % interval, one panel per metric."""
    found = paired(run, baseline)
    names = [label for label in ranked(run) if found.get(label)]
    metrics = [name for name in COMPARED_METRICS if any(name in found[label] for label in names)][:3]
    if not metrics:
        return None
    drawn, panels = _figure(1.9 + 0.27 * max(len(names), 2), columns=len(metrics), sharey=True)
    for axes, name in zip(panels, metrics, strict=True):
        axes.axvline(0, color=INK, linewidth=1)
        for row, label in enumerate(names):
            if one := found[label].get(name):
                colour, fill = (COLOURS[0], COLOURS[0]) if one["significant"] else (GREY, "white")
                axes.plot([one["low"], one["high"]], [row, row], color=colour, linewidth=1.8)
                axes.plot([one["difference"]], [row], "o", markersize=5.5, color=colour, markerfacecolor=fill)
        axes.margins(x=0.08)
        axes.locator_params(axis="x", nbins=3)  # three narrow panels stand side by side
        axes.set(title=name, xlabel=f"difference in {name}")
    panels[0].set_yticks(range(len(names)), [_label(name) for name in names])  # one row per name, the first at the top
    panels[0].set_ylim(len(names) - 0.4, -0.6)
    panels[0].grid(visible=False, axis="y")
    title = f"Better (right) or worse (left), mean and 95 % interval, than {_label(baseline)}"
    drawn.suptitle(title, x=0.01, ha="left")
    return drawn


def _figure(height: float, columns: int = 1, **shared: Any) -> tuple[Figure, list[Axes]]:
    """A figure of the report's width, so many inches high, and its panels side by side."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=(WIDTH_INCHES, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(made)
    return made, list(made.subplots(1, columns, squeeze=False, **shared).ravel())


def _look(place: int) -> dict[str, Any]:
    """How the strategy with this rank is drawn; no two of the first 77 look alike."""
    return {
        "color": COLOURS[place % len(COLOURS)],
        "linestyle": LINES[place % len(LINES)],
        "marker": MARKERS[place % len(MARKERS)],
    }


def _label(name: str) -> str:
    """A name in one short line; a legend leaves out what begins with an underscore, hence the zero-width space."""
    text = printable(name)
    return "\u200b" + (text if len(text) <= LABEL_LENGTH else f"{text[:16]}…{text[-16:]}")
