"""An efficiency sweep as plots and as one page: cost of indexing and of asking against corpus size.

Measures nothing (polyhop/sweep.py does).
Source: algorithms.md 2.11 (SPRIG, Figure 1: index and query cost against corpus size).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log, log10
from typing import TYPE_CHECKING

from polyhop.tasks.evaluation.documents import Document, at, number, rows
from polyhop.tasks.evaluation.drawing import (
    GREY,
    curves,
    drawing,
    figure,
    legend,
    logarithmic_ticks,
    looks,
    png,
)
from polyhop.tasks.evaluation.rendering import Cell, Page, Plot, Section, Table, decimal, milliseconds, render

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STAGES_DRAWN = 5  # curves; chosen: with that of all stages six of the seven colours
Points = list[tuple[float, float]]


def sweep_plots(sweep: Document) -> dict[str, bytes]:
    """Index cost, query latency and memory against the number of passages, as far as they were measured.

    Args:
        sweep: {"sizes", "index": [{passages, seconds, ms_per_passage, stages, peak_rss_mb, disk_mb}],
            "query": {strategy: [{passages, p50_ms, p95_ms, p99_ms, peak_rss_mb}]}}.

    Returns:
        PNG bytes by file name; equal documents give equal bytes.
    """
    drawn = {"index_cost.png": _index_cost, "query_latency.png": _query_latency, "memory.png": _memory}
    with drawing():
        figures = {name: draw(sweep) for name, draw in drawn.items()}
        return {name: png(made) for name, made in figures.items() if made is not None}


def _index_cost(sweep: Document) -> Figure | None:
    measured = rows(sweep, "index")
    total, each = _points(measured, "seconds"), _points(measured, "ms_per_passage")
    if not total:
        return None
    drawn, panels = figure(4.2, columns=2)
    lines = {"all stages": total} | {
        stage: points for stage in _largest_stages(measured) if (points := _points(measured, "stages", stage))
    }
    entries = curves(panels[0], lines, looks(list(lines)), markers=len(total))
    entries |= _proportional(panels[0], total)
    _sizes(panels[0], [x for x, _ in total])
    _positive(panels[0], lines)
    panels[0].set(title="Time to index", ylabel="seconds (logarithmic)")
    if each:
        curves(panels[1], {"all stages": each}, looks(list(lines), of=["all stages"]), markers=len(each))
        panels[1].set_ylim(0, 1.25 * max(y for _, y in each))
    _sizes(panels[1], [x for x, _ in total])
    panels[1].set(title="Time per passage", ylabel="milliseconds per passage")
    legend(drawn, entries)
    return drawn


def _query_latency(sweep: Document) -> Figure | None:
    lines = {label: points for label in _strategies(sweep) if (points := _points(_asked(sweep, label), "p95_ms"))}
    if not lines:
        return None
    drawn, (axes,) = figure(4.4)
    entries = curves(axes, lines, looks(_strategies(sweep), of=list(lines)), markers=len(sweep["sizes"]))
    entries = {_with_slope(label, lines): artist for label, artist in entries.items()}
    entries |= _proportional(axes, min(lines.values(), key=lambda points: points[0][1]))
    _sizes(axes, [x for points in lines.values() for x, _ in points])
    _positive(axes, lines)
    axes.set(title="Time of a question against corpus size", ylabel="p95 latency (milliseconds, logarithmic)")
    legend(drawn, entries)
    return drawn


def _memory(sweep: Document) -> Figure | None:
    measured = rows(sweep, "index")
    found = {
        "indexing, memory": _points(measured, "peak_rss_mb"),
        "index on disk": _points(measured, "disk_mb"),
    } | {f"{label}, memory": _points(_asked(sweep, label), "peak_rss_mb") for label in _strategies(sweep)}
    lines = {name: points for name, points in found.items() if points}
    if not lines:
        return None
    drawn, (axes,) = figure(4.4)
    entries = curves(axes, lines, looks(list(found), of=list(lines)), markers=len(sweep["sizes"]))
    _sizes(axes, [x for points in lines.values() for x, _ in points])
    _positive(axes, lines)
    axes.set(title="Memory and disk against corpus size", ylabel="megabytes (logarithmic)")
    legend(drawn, entries)
    return drawn


def _points(measured: Sequence[Document], *keys: str) -> Points:
    """(passages, value) by size, where both are above 0: a logarithmic axis has no place for the others."""
    found = [(number(row, "passages"), number(row, *keys)) for row in measured]
    return sorted((x, y) for x, y in found if x is not None and y is not None and x > 0 and y > 0)


def _largest_stages(measured: Sequence[Document]) -> list[str]:
    """The stages that take longest at the largest size, longest first."""
    largest = max(measured, key=lambda row: number(row, "passages") or 0.0)
    seconds = {str(stage): number(largest, "stages", str(stage)) or 0.0 for stage in at(largest, "stages") or {}}
    return sorted(seconds, key=lambda stage: (-seconds[stage], stage))[:STAGES_DRAWN]


def _proportional(axes: Axes, total: Points) -> dict[str, Artist]:
    """A line of slope 1 through the first point: twice the passages, twice the time."""
    (x, y), (last, _) = total[0], total[-1]
    if last <= x:
        return {}
    (line,) = axes.plot([x, last], [y, y * last / x], color=GREY, linestyle=":", linewidth=1.4)
    return {"in proportion": line}


def slope(points: Points) -> float | None:
    """Slope on logarithmic axes between the two largest sizes: 1 is in proportion, 0 is flat; None for one size."""
    if len(points) == 1:
        return None
    (first, low), (last, high) = points[-2:]
    return log(high / low) / log(last / first)


def _with_slope(label: str, lines: Mapping[str, Points]) -> str:
    steepness = slope(lines[label])
    return label if steepness is None else f"{label}, slope {steepness:.2f}"


def _sizes(axes: Axes, passages: Sequence[float]) -> None:
    """A logarithmic axis of passages whose ticks are the sizes measured, where their labels have room."""
    sizes = sorted(set(passages))
    ticks = spaced(sizes)
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{size:,.0f}" for size in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlim(sizes[0] / 1.4, sizes[-1] * 1.4)
    axes.set_xlabel("passages (logarithmic)")


def spaced(sizes: Sequence[float]) -> list[float]:
    """The first of these ascending sizes, and each that is a fifth of a logarithmic axis after the one kept before."""
    least = log10(1.4**2 * sizes[-1] / sizes[0]) / 5  # 1.4: the axis goes on at both ends
    kept = [sizes[0]]
    for size in sizes[1:]:
        if log10(size / kept[-1]) >= least:
            kept.append(size)
    return kept


def _positive(axes: Axes, lines: Mapping[str, Points]) -> None:
    logarithmic_ticks(axes, "y", [y for points in lines.values() for _, y in points])


def _strategies(sweep: Document) -> list[str]:
    return [str(label) for label in at(sweep, "query") or {}]


def _asked(sweep: Document, label: str) -> list[Document]:
    return rows(sweep, "query", label)


def sweep_page(sweep: Document, plots: Mapping[str, bytes]) -> str:
    """A sweep as HTML, complete in one file: no script, nothing loaded from anywhere.

    Args:
        sweep: As for `sweep_plots`.
        plots: `sweep_plots` of it.
    """
    sizes = [f"{size:,.0f}" for size in sweep["sizes"]]
    facts = [("Passages", ", ".join(sizes)), ("Strategies", ", ".join(_strategies(sweep)) or "none")]
    questions = number(sweep, "questions")
    facts += [("Questions per size and strategy", f"{questions:.0f}")] if questions is not None else []
    facts += [("Seed of the corpora", str(sweep["seed"]))] if "seed" in sweep else []
    memory = (Plot("memory.png", "Largest resident memory of each process, and the size of the index on disk."),)
    cost = (
        Plot(
            "index_cost.png",
            "Left: seconds by stage; dotted: twice the passages, twice the time. Right: flat means the same.",
        ),
    )
    asked = (
        Plot(
            "query_latency.png",
            "95 of 100 questions are answered in this time or less. Slopes are those between the two largest sizes: "
            "1 is in proportion (dotted), 0 is flat.",
        ),
    )
    sections = (
        Section("index", "Index cost", plots=cost, tables=(_index_table(sweep),), absent="No index was measured."),
        Section("query", "Query cost", plots=asked, tables=(_query_table(sweep),), absent="No question was asked."),
        Section("memory", "Memory and disk", plots=memory, absent="No memory was measured."),
    )
    return render(Page("Cost against corpus size", tuple(facts), tuple(sweep_findings(sweep)), sections), plots)


def sweep_findings(sweep: Document) -> list[str]:
    """How cost grows from the smallest to the largest corpus, in sentences."""
    measured = rows(sweep, "index")
    each = _points(measured, "ms_per_passage")
    found = []
    if each:
        found.append(f"Index time per passage: {_growth(each)}.")
    for label in _strategies(sweep):
        asked = _points(_asked(sweep, label), "p95_ms")
        if asked:
            found.append(f"{label}, p95 of a question: {_growth(asked)}.")
    memory = _points(measured, "peak_rss_mb")
    if memory:
        found.append(f"Peak memory while indexing: {memory[-1][1]:,.0f} MB at {memory[-1][0]:,.0f} passages.")
    return found


def _growth(points: Points) -> str:
    (first, low), (last, high) = points[0], points[-1]
    at_first = f"{milliseconds(low)} ms at {first:,.0f} passages"
    if last == first:
        return at_first
    return f"{at_first}, {milliseconds(high)} ms at {last:,.0f} ({high / low:.2f} times, slope {slope(points):.2f})"


def _index_table(sweep: Document) -> Table:
    measured = rows(sweep, "index")
    stages = list(dict.fromkeys(str(stage) for row in measured for stage in at(row, "stages") or {}))
    header = ("passages", "seconds", "ms per passage", *(f"{stage} s" for stage in stages), "memory MB", "disk MB")
    found = tuple(
        (
            Cell(_whole(number(row, "passages"))),
            Cell(decimal(number(row, "seconds"), 1)),
            Cell(milliseconds(number(row, "ms_per_passage"))),
            *(Cell(decimal(number(row, "stages", stage), 2)) for stage in stages),
            Cell(_whole(number(row, "peak_rss_mb"))),
            Cell(_whole(number(row, "disk_mb"))),
        )
        for row in measured
    )
    return Table("Indexing, one process per corpus", header, found)


def _query_table(sweep: Document) -> Table:
    header = ("strategy", "passages", "p50 ms", "p95 ms", "p99 ms", "memory MB")
    found = tuple(
        (
            Cell(label),
            Cell(_whole(number(row, "passages"))),
            *(Cell(milliseconds(number(row, key))) for key in ("p50_ms", "p95_ms", "p99_ms")),
            Cell(_whole(number(row, "peak_rss_mb"))),
        )
        for label in _strategies(sweep)
        for row in _asked(sweep, label)
    )
    return Table("Asking, one process per corpus and strategy", header, found)


def _whole(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"
