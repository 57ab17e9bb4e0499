"""The report of a stored evaluation: its facts and tables, as one HTML page without script or network, and in Markdown.

Invariant: names and errors are data; what would be markup in them is escaped. The plots (recall curve, paired
differences) are the same bytes of equal runs, in Okabe and Ito's palette, which people with any colour vision tell
apart; line styles and markers repeat what colour says.
"""

from __future__ import annotations

import io
import warnings
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from polyhop.flows.evaluation.metrics import CONTAINMENT, PREFIX, RECALL_DEPTHS
from polyhop.schemas.errors import install_words
from polyhop.schemas.text import escaped, plural, printable, table_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Document = Mapping[str, Any]
MAIN_TRIPLE_METRICS = ("triple_recall@10", "triple_recall@30", "triple_hit@10", "triple_mrr")
MAIN_METRICS = (
    *(f"recall@{k}" for k in (1, 2, 5, 10, 20, 30)),
    *("hit@10", "all@5", "mrr", *MAIN_TRIPLE_METRICS, "em", "f1", CONTAINMENT),
)
COMPARED_METRICS = ("recall@5", "mrr", "triple_recall@10", "triple_mrr", "em", "f1", CONTAINMENT)
LEADING_METRICS = ("recall@5", "mrr", "triple_recall@10", "triple_mrr", "f1", "em")
RANGE_METRICS = ("recall@2", "recall@5", "recall@10", "mrr", "em", "f1", CONTAINMENT, *MAIN_TRIPLE_METRICS)
FAILURES_SHOWN = 50  # rows; chosen: bounds the page of a run in which all fail, and run.json has them all
NOTHING = "–"
_BEST = "the best value of each column is marked"
_HASH_LENGTH = 12  # hexadecimal digits shown: 48 bits tell any settings and files apart, and run.json has them whole


class Cell(NamedTuple):
    """A cell of a table, and what sets it off: "best" of its column, or "better" or "worse" beyond chance."""

    text: str
    mark: Literal["", "best", "better", "worse"] = ""


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table whose first columns are names, the others numbers; one without rows is not shown."""

    caption: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    name_columns: int = 1


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A part of a page: sentences, tables, plots by file name with their captions.

    A section without a plot that was drawn or a table with rows is not shown.
    """

    id: str
    title: str
    tables: Sequence[ReportTable]
    texts: tuple[str, ...] = ()
    plots: Mapping[str, str] | None = None


def metric(run: Document, label: str, name: str) -> float | None:
    """A strategy's mean over the questions; None if it was not judged."""
    value: float | None = run["results"][label].get(name)
    return value


def judged_metrics(run: Document, names: Iterable[str]) -> list[str]:
    """Those of the metrics that at least one strategy has a value for."""
    return [name for name in names if any(metric(run, label, name) is not None for label in run["strategies"])]


def leading_metric(run: Document) -> str | None:
    """The metric that orders the strategies: recall@5 where passages are judged, else of triples, else of answers."""
    return next(iter(judged_metrics(run, LEADING_METRICS)), None)


def ranked(run: Document, name: str | None = None) -> list[str]:
    """The strategies, in descending order of a metric (the leading one unless named), as named where it is equal.

    Those without a value come last.
    """
    key = name or leading_metric(run)
    values = {label: metric(run, label, key) if key else None for label in run["strategies"]}
    return sorted(values, key=lambda label: (values[label] is None, -(values[label] or 0.0)))


def paired(run: Document, baseline: str) -> Document:
    """{strategy: {metric: …}}: every other strategy minus a baseline."""
    found: Document = run["paired"] if baseline == run["baseline"] else run["paired_further"][baseline]
    return found


def latency(timings: Document, label: str, quantile: str) -> float | None:
    """Milliseconds per question of a strategy at p50, p95, p99 or mean; None if unmeasured."""
    value: float | None = timings["strategies"][label]["latency_ms"][quantile]
    return value


def parts(timings: Document, names: Iterable[str]) -> list[str]:
    """The parts of the latency that some strategy measured, in the order in which a question passes them."""
    return list(dict.fromkeys(part for label in names for part in timings["strategies"][label]["parts_ms"]))


def long_answers_sentence(found: Document) -> str:
    """Sentence on the effect of long gold answers (`long_answers` of a report) on the metrics."""
    return (
        f"The gold answers are long (median {found['median_words']:g} words), so answers are judged by token F1 and "
        "containment (the share of a gold answer's content words), not by exact match, and confidence is not judged."
    )


def report_page(run: Document, timings: Document, plots: Mapping[str, bytes]) -> str:
    """A stored evaluation with its plots as HTML, complete in one file: no script, nothing loaded from anywhere."""
    title = f"Evaluation of index {run['index']}, version {run['version']}"
    return render(title, facts(run, timings), sections(run, timings), plots)


def summary_markdown(run: Document, timings: Document) -> str:
    """The same in Markdown, without plots."""
    title = f"# Evaluation of index {escaped(str(run['index']))}, version {escaped(str(run['version']))}"
    about = "\n".join(f"* {escaped(name)}: {escaped(value)}" for name, value in facts(run, timings).items())
    tables = [table for section in sections(run, timings) for table in section.tables if table.rows]
    shown = [title, about]
    for table in tables:
        header = [escaped(name) for name in table.columns]
        body = [
            [f"**{escaped(cell.text)}**" if cell.mark else escaped(cell.text) for cell in row] for row in table.rows
        ]
        shown.append(f"{escaped(table.caption)}:\n\n" + "\n".join(table_lines([header, *body], table.name_columns)))
    return "\n\n".join(shown) + "\n"


def render(title: str, facts: Mapping[str, str], sections: Sequence[ReportSection], plots: Mapping[str, bytes]) -> str:
    """A page as HTML; plots are embedded as data URIs, and the page's own policy forbids it to load anything."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("polyhop.flows.evaluation", ""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    drawn = [
        {
            "id": section.id,
            "title": section.title,
            "texts": section.texts,
            "images": [
                (f"data:image/png;base64,{b64encode(plots[name]).decode('ascii')}", caption)
                for name, caption in (section.plots or {}).items()
                if name in plots
            ],
            "tables": [table for table in section.tables if table.rows],
        }
        for section in sections
    ]
    shown = [one for one in drawn if one["images"] or one["tables"]]
    return environment.get_template("report.html.jinja").render(title=title, facts=facts, sections=shown)


def facts(run: Document, timings: Document) -> dict[str, str]:
    """Facts of an evaluation: index, questions, time and settings, without those that do not apply."""
    questions, baselines = run["questions"], run["baselines"]
    parameters = [f"{name}={value}" for name, value in run["parameters"].items()]
    left_out = [f"{name} ({reason})" for name, reason in sorted(run["left_out"].items())]
    found = {
        "Questions": f"{run['questions']['n']} from {questions['file']}",
        "Sample": _sample(questions["sample"]),
        "Without gold passages": f"{questions['excluded']} (not judged by retrieval)" if questions["excluded"] else "",
        "Supporting ids in no passage of the index": questions["unknown_supporting"] or "",
        "Golden triples": _golden(run.get("golden_triples")),
        "Answers": long_answers_sentence(run["long_answers"]) if "long_answers" in run else "",
        "Strategies": len(run["strategies"]),
        "Left out": "; ".join(left_out),
        "Baseline" if len(baselines) == 1 else "Baselines": ", ".join(baselines),
        "Parameters for all": ", ".join(parameters),
        "Reader": run["reader"],
        "Passages asked for": run["depth"],
        "Intervals of means": interval_words(run),
        "Seed of the bootstrap": run["seed"],
        "Polyhop": run["polyhop"],
        "Settings": run["settings_hash"][:_HASH_LENGTH],
        "Question file (SHA-256)": questions["sha256"][:_HASH_LENGTH],
        "Started": timings["started"],
        "Duration": f"{timings['seconds']:.1f} s",
        "Peak memory": f"{timings['peak_rss_mb']:,.0f} MB",
        "Machine": " · ".join(f"{name}: {value}" for name, value in timings["machine"].items()),
        "Plots": "" if find_spec("matplotlib") else f"none; {install_words('plots')}",
    }
    return {name: str(value) for name, value in found.items() if value != ""}


def interval_words(run: Document) -> str:
    """Description of the intervals of means: "95 %, percentile bootstrap …"."""
    kind = run["interval"]
    return f"{100 * kind['level']:.0f} %, {kind['kind']}, {kind['resamples']:,} resamples"


def _sample(sample: Document | None) -> str:
    if sample is None:
        return ""
    size, seed, of = sample["size"], sample["seed"], sample["of"]
    if sample.get("rest"):
        return f"{of - size} of {of} usable questions: all but a random sample of {size}, seed {seed}"
    if size >= of:
        return f"all {of} usable questions ({size} were asked for)"
    which = "the first" if seed is None else f"random, seed {seed}"
    return f"{size} of {of} usable questions, {which}"


def _golden(found: Document | None) -> str:
    """Number of golden triples, and the strategies that they do not score."""
    if found is None:
        return ""
    said = [f"{found['triples']} in {plural(found['questions'], 'question')}"]
    said += [f"{found['unknown']} not in the graph, which count as missed"] if found["unknown"] else []
    said += [f"no triples are ranked by {', '.join(found['not_ranked_by'])}"] if found["not_ranked_by"] else []
    return "; ".join(said)


def sections(run: Document, timings: Document) -> list[ReportSection]:
    """Everything that the page shows, in order."""
    baselines, leading = run["baselines"], leading_metric(run)
    texts = {
        "results": (f"Sorted by {leading}. " if leading else "")
        + "recall@k is the share of a question's gold passages among the first k, "
        "hit@k whether one is, all@k whether all are; mrr is 1 / rank of the first; em and f1 compare the answer with "
        "the gold answers. triple_… are the same for ranked triples and golden triples.",
        "differences": f"Every strategy on the same questions as {', '.join(baselines)}; the interval is a paired "
        "bootstrap over the questions. An interval that includes 0 says that the questions are too few to tell the two "
        "apart.",
        "answers": "Over all questions with gold answers, and over those that got an answer at all. A reader that "
        "stays silent where it knows nothing answers fewer questions and is right in more of them.",
        "latency": "Questions one after another on the machine named above; timings differ from run to run. Medians of "
        "parts need not add up to the median of the whole, which also holds what belongs to no part.",
    }
    kinds = {"hops": run["by_hops"], "type": run["by_type"], **run.get("by_field", {})}
    differences = {index: f"Strategy minus {name}" for index, name in enumerate(baselines)}
    names = ranked(run)
    means = {name: _means(run, names, name) for name in judged_metrics(run, COMPARED_METRICS)}
    return [
        ReportSection(
            "results",
            "Results",
            (_results(run, timings), _by_strategy(f"Mean [interval: {interval_words(run)}]; {_BEST}", names, means)),
            (texts["results"],),
            {
                "recall_at_k.png": "Recall against the number of passages that are looked at.",
                "triple_recall_at_k.png": "Recall against the number of triples that are looked at.",
            },
        ),
        ReportSection(
            "differences",
            "Differences to the baseline" + ("s" if len(baselines) > 1 else ""),
            [_differences(run, name) for name in baselines],
            (texts["differences"],),
            {
                differences_plot(index): f"{caption}; filled points: the 95 % interval excludes 0."
                for index, caption in differences.items()
            },
        ),
        ranges_section(run, timings, "Over a parameter"),
        *(
            ReportSection(f"by-{n}", f"By {kind}", [_groups(run, kind, found, leading)])
            for n, (kind, found) in enumerate(kinds.items(), start=1)
            if leading
        ),
        ReportSection("answers", "Answers", (_answers(run),), (texts["answers"],)),
        ReportSection("latency", "Latency", (_latency(run, timings),), (texts["latency"],)),
        ReportSection("cost", "Tokens and cost", (_index_costs(run, timings), _reading_costs(run))),
        ReportSection("failures", "Failures", (_failures(run),)),
    ]


def differences_plot(index: int) -> str:
    """File name of the differences to the baseline with this index, 0 for the first."""
    return "paired_differences.png" if index == 0 else f"paired_differences_{index + 1}.png"


def ranges_section(run: Document, timings: Document, title: str) -> ReportSection:
    """The table of each strategy that was run with several values of a parameter."""
    text = (
        "Strategies whose intervals overlap may still differ: the paired differences are the test. The best of several "
        "settings was chosen on the questions that it is shown on, so it looks better than it is; polyhop tune keeps "
        "questions back to find out."
    )
    tables = []
    for one in run["ranges"]:
        values = {point["label"]: point["values"] for point in one["points"]}
        metrics = [name for name in RANGE_METRICS if any(metric(run, label, name) is not None for label in values)]
        columns = [[Cell(value[column]) for value in values.values()] for column in range(len(one["parameters"]))]
        columns += [_means(run, list(values), name) for name in metrics]
        columns.append(_column([latency(timings, label, "p50") for label in values], milliseconds, min))
        caption = f"{one['label']}: mean [95 % interval]; {_BEST}"
        header = (*one["parameters"], *metrics, "p50 ms")
        tables.append(
            ReportTable(caption, header, list(zip(*columns, strict=True)), name_columns=len(one["parameters"]))
        )
    return ReportSection("ranges", title, tables, (text,))


def _results(run: Document, timings: Document) -> ReportTable:
    names = ranked(run)
    columns = {
        name: _column([metric(run, label, name) for label in names], decimal, max)
        for name in judged_metrics(run, MAIN_METRICS)
    }
    for quantile in ("p50", "p95"):
        columns[f"{quantile} ms"] = _column([latency(timings, label, quantile) for label in names], milliseconds, min)
    columns["failures"] = [Cell(_count(run["results"][label]["failures"])) for label in names]
    return _by_strategy(f"Means over the questions; {_BEST}", names, columns)


def _means(run: Document, names: Sequence[str], name: str) -> list[Cell]:
    cells = _column([metric(run, label, name) for label in names], decimal, max)
    bounds = [run["results"][label]["intervals"].get(name) for label in names]
    return [
        cell._replace(text=cell.text + (f" [{decimal(found['low'])}, {decimal(found['high'])}]" if found else ""))
        for cell, found in zip(cells, bounds, strict=True)
    ]


def _differences(run: Document, baseline: str) -> ReportTable:
    """Each strategy minus a baseline: difference, interval, and questions won, tied and lost."""
    found = paired(run, baseline)
    names = [label for label in ranked(run) if found.get(label)]
    columns = {
        name: [difference_cell(found[label].get(name)) for label in names]
        for name in COMPARED_METRICS
        if any(name in found[label] for label in names)
    }
    caption = f"Strategy minus {baseline}: difference [95 % interval] questions won/tied/lost; "
    return _by_strategy(f"{caption}marked where the interval excludes 0", names, columns)


def difference_cell(found: Document | None) -> Cell:
    """A paired difference with its interval, and the questions won, tied and lost."""
    if found is None:
        return Cell(NOTHING)
    text = f"{found['difference']:+.3f} [{found['low']:+.3f}, {found['high']:+.3f}]"
    text += f" {found['wins']}/{found['ties']}/{found['losses']}"
    return Cell(text, ("better" if found["difference"] > 0 else "worse") if found["significant"] else "")


def _groups(run: Document, kind: str, groups: Document, name: str) -> ReportTable:
    """One metric in every group of questions: by hops, type or a field of the question file."""
    names = ranked(run)
    columns = {
        f"{key} (n = {group['n']})": _column([group["strategies"][label].get(name) for label in names], decimal, max)
        for key, group in groups.items()
    }
    return _by_strategy(f"{name} by {kind}; {_BEST}", names, columns)


def _answers(run: Document) -> ReportTable:
    """Quality of guesses, of shown answers and of sentences; best reader first."""
    kinds = ("f1", CONTAINMENT) if "long_answers" in run else ("em", "f1")
    names = [label for label in ranked(run, kinds[0]) if any(metric(run, label, kind) is not None for kind in kinds)]
    shown = [run["results"][label]["shown"] for label in names]
    columns = {kind: _column([metric(run, label, kind) for label in names], decimal, max) for kind in kinds}
    columns["share shown"] = _column([found["share"] for found in shown], decimal, max)
    for kind in kinds:
        columns[f"{kind} of the shown"] = _column([found[kind] for found in shown], decimal, max)
    hits = [run["results"][label]["sentence_hit"] for label in names]
    columns["sentence hit"] = _column(hits, decimal, max)
    meaning = "containment is the share of a gold answer's content words"
    if "long_answers" not in run:
        meaning = "em is the share of exact matches"
    return _by_strategy(f"Answers: {meaning}; {_BEST}", names, columns)


def _latency(run: Document, timings: Document) -> ReportTable:
    """Milliseconds per question, medians of its parts, and the seconds of the whole set."""
    names = [label for label in ranked(run) if latency(timings, label, "p50") is not None]
    measured = [timings["strategies"][label] for label in names]
    columns = {
        f"{q} ms": _column([found["latency_ms"][q] for found in measured], milliseconds, min)
        for q in ("p50", "p95", "p99", "mean")
    }
    for part in parts(timings, names):
        medians = [found["parts_ms"].get(part, {}).get("p50") for found in measured]
        columns[f"{part} p50 ms"] = _column(medians, milliseconds)
    columns["all questions s"] = [Cell(f"{found['total_seconds']:.1f}") for found in measured]
    return _by_strategy(f"Latency of a question; {_BEST}", names, columns)


def _reading_costs(run: Document) -> ReportTable:
    """Tokens and dollars of every strategy that used any."""
    results = {label: run["results"][label] for label in ranked(run)}
    used = {label: one for label, one in results.items() if one["cost_usd"] or any(one["tokens"].values())}
    kinds = list(dict.fromkeys(kind for one in used.values() for kind in one["tokens"]))
    columns = {kind.replace("_", " "): [Cell(_count(u["tokens"].get(kind))) for u in used.values()] for kind in kinds}
    columns["cost (US dollars)"] = [
        Cell("unknown" if one["cost_usd"] is None else decimal(one["cost_usd"], 4)) for one in used.values()
    ]
    return _by_strategy("Tokens and cost of reading", list(used), columns)


def _index_costs(run: Document, timings: Document) -> ReportTable:
    """Costs of the index and of a question, by strategy."""
    costs = {label: timings["costs"][label] for label in ranked(run) if label in timings["costs"]}
    columns = {
        f"{kind}: {key.replace('_', ' ')}": [Cell(decimal(cost[kind][key], digits)) for cost in costs.values()]
        for kind, decimals in (("index", (0, 0, 1)), ("question", (1, 1, 4)))
        for key, digits in zip(("prompt_tokens", "completion_tokens", "seconds"), decimals, strict=True)
    }
    caption = "The index as far as each strategy needs it (seconds of the runs that computed it), and a question"
    return _by_strategy(f"{caption} (means)", list(costs), columns)


def _failures(run: Document) -> ReportTable:
    """Questions that failed, with their errors; the first ones where there are very many."""
    rows = [
        (Cell(label), Cell(str(row["id"])), Cell(str(row["error"])))
        for label in run["strategies"]
        for row in run["results"][label]["failed"]
    ]
    rest = len(rows) - FAILURES_SHOWN
    caption = "Questions that failed" + (f" (the first {FAILURES_SHOWN}, {rest} more in run.json)" if rest > 0 else "")
    return ReportTable(caption, ("strategy", "question", "error"), rows[:FAILURES_SHOWN], name_columns=3)


def _by_strategy(caption: str, names: Sequence[str], columns: Mapping[str, Sequence[Cell]]) -> ReportTable:
    """A row per strategy; none if nothing is known of any."""
    rows = [[Cell(label), *(cells[row] for cells in columns.values())] for row, label in enumerate(names)]
    return ReportTable(caption, ("strategy", *columns), rows if columns else [])


def _column(
    values: Sequence[float | None],
    written: Callable[[float | None], str],
    best: Callable[[list[float]], float] | None = None,
) -> list[Cell]:
    """Cells of one column; what reads the same as the best value is marked too, unless all do."""
    known = [value for value in values if value is not None]
    texts = [written(value) for value in values]
    top = written(best(known)) if best and len({written(value) for value in known}) > 1 else None
    return [Cell(text, "best" if text == top else "") for text in texts]


def decimal(value: float | None, digits: int = 3) -> str:
    """A number with fixed decimals, a dash if there is none."""
    return NOTHING if value is None else f"{value:,.{digits}f}"


def milliseconds(value: float | None) -> str:
    """Three significant digits or whole milliseconds: 0.51, 7.73, 16.2, 250."""
    return decimal(value, 0 if value is None or value >= 100 else 1 if value >= 10 else 2)


def _count(value: float | None) -> str:
    return decimal(value, 0)


COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
LINES = ("-", "--", "-.")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
GREY, INK = "#9a9a9a", "#333333"
HIGHLIGHTED = 8  # strategies with a colour and a name; chosen: seven colours can be distinguished
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
    for index, baseline in enumerate(run["baselines"]):
        drawers[differences_plot(index)] = lambda baseline=baseline: _paired_differences(run, baseline)  # type: ignore[misc]
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
    for row, label in enumerate(names):
        recall = [metric(run, label, f"{prefix}recall@{k}") or 0.0 for k in RECALL_DEPTHS]
        if row < HIGHLIGHTED or label in run["baselines"]:
            # no two of the first 77 look alike
            colour, line, marker = (kinds[row % len(kinds)] for kinds in (COLOURS, LINES, MARKERS))
            axes.plot(RECALL_DEPTHS, recall, f"{marker}{line}", color=colour, label=_label(label), markersize=5)
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


def _label(name: str) -> str:
    """A name in one short line; a legend leaves out what begins with an underscore, hence the zero-width space."""
    text = printable(name)
    return "\u200b" + (text if len(text) <= LABEL_LENGTH else f"{text[:16]}…{text[-16:]}")
