"""The tables of an evaluation report.

Computes no metric and writes no markup (report.py and rendering.py do). Rows are strategies by descending score.
"""

from collections.abc import Callable, Sequence

from polyhop.tasks.evaluation.documents import (
    MAIN_METRICS,
    SHOWN_METRICS,
    Document,
    StoredRange,
    at,
    group_title,
    groups,
    interval,
    interval_words,
    judged_metrics,
    labels,
    latency,
    metric,
    number,
    paired,
    parts,
    range_metrics,
    ranked,
    rows,
)
from polyhop.tasks.evaluation.rendering import NOTHING, Cell, Row, Table, decimal, milliseconds, signed

QUANTILES = ("p50", "p95", "p99", "mean")
FAILURES_SHOWN = 200  # rows; chosen: bounds the page of a run in which all fail, and run.json has them all
_COSTS = {
    "index": {
        "prompt_tokens": ("prompt tokens", 0),
        "completion_tokens": ("completion tokens", 0),
        "seconds": ("seconds", 1),
    },
    "question": {
        "prompt_tokens": ("prompt tokens", 1),
        "completion_tokens": ("completion tokens", 1),
        "seconds": ("seconds", 4),
    },
}
"""Of what, which value: its heading and decimal places."""
_BEST = "the best value of each column is marked"


def results_table(run: Document, timings: Document) -> Table:
    """The metrics that most people ask for, latency and failures of every strategy."""
    metrics = judged_metrics(run, MAIN_METRICS)
    names = ranked(run)
    columns = [_column([metric(run, label, name) for label in names], decimal, max) for name in metrics]
    columns += [_column([latency(timings, label, q) for label in names], milliseconds, min) for q in ("p50", "p95")]
    columns.append([Cell(_count(number(run, "results", label, "failures"))) for label in names])
    header = ("strategy", *metrics, "p50 ms", "p95 ms", "failures")
    return _by_strategy(f"Means over the questions; {_BEST}", header, names, columns)


def metrics_table(run: Document) -> Table:
    """Every judged metric of every strategy."""
    metrics = judged_metrics(run, SHOWN_METRICS)
    names = ranked(run)
    columns = [_column([metric(run, label, name) for label in names], decimal, max) for name in metrics]
    return _by_strategy("All metrics", ("strategy", *metrics), names if metrics else [], columns)


def intervals_table(run: Document, metrics: Sequence[str], what: str = "") -> Table:
    """The mean and its interval of every strategy in these metrics, as far as they were judged."""
    shown = judged_metrics(run, metrics)
    names = [label for label in ranked(run) if any(interval(run, label, name) for name in shown)]
    columns = [mean_column(run, names, name) for name in shown]
    caption = f"{what}Mean [interval: {interval_words(run)}]; {_BEST}"
    return _by_strategy(caption, ("strategy", *shown), names, columns)


def range_table(run: Document, timings: Document, one: StoredRange) -> Table:
    """The main metrics of every combination of a range's values, with the interval of each mean."""
    names = [label for label, _ in one.points]
    metrics = range_metrics(run, one)
    columns = [[Cell(values[place]) for _, values in one.points] for place in range(len(one.parameters))]
    columns += [mean_column(run, names, name) for name in metrics]
    columns.append(_column([latency(timings, label, "p50") for label in names], milliseconds, min))
    rows_ = tuple(zip(*columns, strict=True)) if metrics else ()
    caption = f"{one.label}: mean [95 % interval]; {_BEST}"
    return Table(caption, (*one.parameters, *metrics, "p50 ms"), rows_, name_columns=len(one.parameters))


def mean_column(run: Document, names: Sequence[str], name: str) -> list[Cell]:
    """Cells of one metric, each mean with its interval where it has one."""
    means = _column([metric(run, label, name) for label in names], decimal, max)
    bounds = [interval(run, label, name) for label in names]
    return [
        cell if found is None else Cell(f"{cell.text} [{decimal(found[0])}, {decimal(found[1])}]", cell.mark)
        for cell, found in zip(means, bounds, strict=True)
    ]


def differences_table(run: Document, baseline: str, metrics: Sequence[str], what: str = "") -> Table:
    """Each strategy minus a baseline: difference, interval, and questions won, tied and lost."""
    found = paired(run, baseline)
    compared = [label for label in ranked(run) if found.get(label)]
    shown = [name for name in metrics if any(at(found, label, name) for label in compared)]
    columns = [[_difference(at(found, label, name)) for label in compared] for name in shown]
    caption = (
        f"{what}Strategy minus {baseline}: difference [95 % interval] questions won/tied/lost; "
        "marked where the interval excludes 0"
    )
    return _by_strategy(caption, ("strategy", *shown), compared if shown else [], columns)


def group_table(run: Document, kind: str, name: str) -> Table:
    """One metric in every group of questions ("by_hops", "by_type" or "by_field/NAME")."""
    found = groups(run, kind)
    names = [
        label
        for label in ranked(run)
        if any(number(row, "strategies", label, name) is not None for row in found.values())
    ]
    columns = [
        _column([number(row, "strategies", label, name) for label in names], decimal, max) for row in found.values()
    ]
    header = [f"{group_title(kind, group)} (n = {_count(number(row, 'n'))})" for group, row in found.items()]
    word = {"by_hops": "hops", "by_type": "type"}.get(kind, kind.partition("/")[2])
    return _by_strategy(f"{name} by {word}; {_BEST}", ("strategy", *header), names, columns)


def answers_table(run: Document) -> Table:
    """How many questions were answered, and how well; best reader first."""
    is_long = at(run, "long_answers") is not None
    kinds = ("f1", "containment") if is_long else ("em", "f1")
    names = [label for label in ranked(run, kinds[0]) if judged_metrics({**run, "strategies": [label]}, kinds)]
    keys = (*((kind,) for kind in kinds), ("answered", "share"), *(("answered", kind) for kind in kinds))
    columns = [_column([number(run, "results", label, *key) for label in names], decimal, max) for key in keys]
    header = ("strategy", *kinds, "share answered", *(f"{kind} of the answered" for kind in kinds))
    meaning = "em is the share of exact matches"
    if is_long:
        meaning = "containment is the share of a gold answer's content words"
    return _by_strategy(f"Answers: {meaning}; {_BEST}", header, names, columns)


def calibration_table(run: Document) -> Table:
    """Stated confidence against observed exact match in groups of answers, the least confident first."""
    found = [
        (Cell(label), Cell(str(place)), *_calibration(row))
        for label in ranked(run, "em")
        for place, row in enumerate(rows(run, "results", label, "calibration"), start=1)
    ]
    header = ("strategy", "group", "answers", "stated", "observed", "observed minus stated")
    return Table("Stated confidence and observed exact match by group of answers", header, tuple(found))


def latency_table(run: Document, timings: Document) -> Table:
    """Milliseconds per question, medians of its parts, and the seconds of the whole set."""
    names = [label for label in ranked(run) if any(latency(timings, label, q) is not None for q in QUANTILES)]
    found = parts(timings, names)
    columns = [_column([latency(timings, label, q) for label in names], milliseconds, min) for q in QUANTILES]
    columns += [_part_column(timings, names, part) for part in found]
    columns.append([Cell(decimal(number(timings, "strategies", label, "total_seconds"), 1)) for label in names])
    header = ("strategy", *(f"{q} ms" for q in QUANTILES), *(f"{part} p50 ms" for part in found), "all questions s")
    return _by_strategy(f"Latency of a question; {_BEST}", header, names, columns)


def _part_column(timings: Document, names: Sequence[str], part: str) -> list[Cell]:
    return [Cell(milliseconds(number(timings, "strategies", label, "parts_ms", part, "p50"))) for label in names]


def cost_table(run: Document) -> Table:
    """Tokens and dollars of every strategy that used any."""
    names = [label for label in ranked(run) if _used(run, label)]
    kinds = sorted({str(kind) for label in names for kind in at(run, "results", label, "tokens") or {}})
    columns = [[Cell(_count(number(run, "results", label, "tokens", kind))) for label in names] for kind in kinds]
    costs = [number(run, "results", label, "cost_usd") for label in names]
    columns.append([Cell("unknown" if cost is None else decimal(cost, 4)) for cost in costs])
    header = ("strategy", *(f"{kind.replace('_', ' ')}" for kind in kinds), "cost (US dollars)")
    return _by_strategy("Tokens and cost of reading", header, names, columns)


def side_by_side_table(run: Document, timings: Document) -> Table:
    """What the index and a question cost, of every strategy whose costs were noted."""
    names = [label for label in ranked(run) if at(timings, "costs", label)]
    caption = (
        "The index as far as each strategy needs it (seconds of the runs that computed it), and a question (means)"
    )
    columns = [
        _cost_column(timings, names, kind, key, places)
        for kind, of in _COSTS.items()
        for key, (_, places) in of.items()
    ]
    header = (f"{kind}: {name}" for kind, of in _COSTS.items() for name, _ in of.values())
    return _by_strategy(caption, ("strategy", *header), names, columns)


def _cost_column(timings: Document, names: Sequence[str], kind: str, key: str, places: int) -> list[Cell]:
    return [Cell(_cost(timings, label, kind, key, places=places)) for label in names]


def failures_table(run: Document) -> Table:
    """Questions that failed, with their errors; the first ones where there are very many."""
    found = [
        (Cell(label), Cell(str(row.get("id"))), Cell(str(row.get("error"))))
        for label in labels(run)
        for row in rows(run, "results", label, "failed")
    ]
    rest = len(found) - FAILURES_SHOWN
    caption = "Questions that failed" + (f" (the first {FAILURES_SHOWN}, {rest} more in run.json)" if rest > 0 else "")
    return Table(caption, ("strategy", "question", "error"), tuple(found[:FAILURES_SHOWN]), name_columns=3)


def _by_strategy(caption: str, header: Sequence[str], names: Sequence[str], columns: Sequence[Sequence[Cell]]) -> Table:
    found: list[Row] = [(Cell(label), *(column[place] for column in columns)) for place, label in enumerate(names)]
    return Table(caption, tuple(header), tuple(found))


def _column(
    values: Sequence[float | None], written: Callable[[float | None], str], best: Callable[[list[float]], float]
) -> list[Cell]:
    """Cells of one column; what reads the same as the best value is marked too, unless all do."""
    known = [value for value in values if value is not None]
    texts = [written(value) for value in values]
    top = written(best(known)) if len({written(value) for value in known}) > 1 else None
    return [Cell(text, "best" if text == top else "") for text in texts]


def _difference(found: Document | None) -> Cell:
    difference, low, high = (number(found, key) for key in ("difference", "low", "high"))
    if difference is None:
        return Cell(NOTHING)
    counts = "/".join(_count(number(found, key)) for key in ("wins", "ties", "losses"))
    text = f"{signed(difference)} [{signed(low)}, {signed(high)}] {counts}"
    return Cell(text, ("better" if difference > 0 else "worse") if at(found, "significant") else "")


def _calibration(row: Document) -> tuple[Cell, ...]:
    stated, observed = number(row, "stated"), number(row, "observed")
    gap = observed - stated if stated is not None and observed is not None else None
    return Cell(_count(number(row, "n"))), Cell(decimal(stated)), Cell(decimal(observed)), Cell(signed(gap))


def _used(run: Document, label: str) -> bool:
    tokens = at(run, "results", label, "tokens") or {}
    return bool(number(run, "results", label, "cost_usd")) or any(number(tokens, kind) for kind in tokens)


def _cost(timings: Document, label: str, of: str, key: str, *, places: int) -> str:
    value = number(timings, "costs", label, of, key)
    return NOTHING if value is None else f"{value:,.{places}f}"


def _count(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}"
