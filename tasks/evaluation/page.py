"""The evaluation report as one page: its tables, its sections, and what each says.

What a run has no values for is said in a sentence in place of its section. In Markdown, names and errors are data: what
would be markup in them is escaped.
"""

from collections.abc import Callable, Mapping, Sequence

from polyhop.schemas.text import escaped, table_lines
from polyhop.tasks.evaluation.documents import (
    COMPARED_METRICS,
    MAIN_METRICS,
    MAIN_TRIPLE_METRICS,
    SHOWN_METRICS,
    SHOWN_TRIPLE_METRICS,
    Document,
    StoredRange,
    at,
    baselines,
    best_labels,
    fields,
    group_title,
    groups,
    interval,
    interval_words,
    judged_metrics,
    labels,
    latency,
    leading_metric,
    long_answers_sentence,
    metric,
    number,
    paired,
    parts,
    range_metrics,
    ranked,
    rows,
    stored_ranges,
)
from polyhop.tasks.evaluation.plots import differences_plot
from polyhop.tasks.evaluation.rendering import (
    NOTHING,
    Cell,
    Page,
    Plot,
    Row,
    Section,
    Table,
    decimal,
    listed,
    milliseconds,
    render,
    signed,
)

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
    columns += [
        [Cell(milliseconds(number(timings, "strategies", label, "parts_ms", part, "p50"))) for label in names]
        for part in found
    ]
    columns.append([Cell(decimal(number(timings, "strategies", label, "total_seconds"), 1)) for label in names])
    header = ("strategy", *(f"{q} ms" for q in QUANTILES), *(f"{part} p50 ms" for part in found), "all questions s")
    return _by_strategy(f"Latency of a question; {_BEST}", header, names, columns)


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
        [Cell(_cost_cell(number(timings, "costs", label, kind, key), places)) for label in names]
        for kind, of in _COSTS.items()
        for key, (_, places) in of.items()
    ]
    header = (f"{kind}: {name}" for kind, of in _COSTS.items() for name, _ in of.values())
    return _by_strategy(caption, ("strategy", *header), names, columns)


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


def _cost_cell(value: float | None, places: int) -> str:
    return NOTHING if value is None else f"{value:,.{places}f}"


def _count(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}"


_FAILURES_LISTED = 10  # rows; chosen: a summary is read at a glance, and report.html has more
_DROPPED = ("recall@1", "recall@20", "recall@30", "failures")
_HASH_LENGTH = 12  # hexadecimal digits shown: 48 bits tell any settings and files apart, and run.json has them whole
_OF_TRIPLES = (
    " triple_… are the same for ranked triples and golden triples; precision@k is the share of golden ones in k, f1@k "
    "the harmonic mean of precision and recall, ndcg@k the discounted cumulative gain."
)


def report_page(run: Document, timings: Document, plots: Mapping[str, bytes]) -> str:
    """A stored evaluation as HTML, complete in one file: no script, nothing loaded from anywhere.

    Args:
        run: The document of the run.
        timings: Its timings; what is missing there is left out here.
        plots: `report_plots` of both.

    Returns:
        The page; equal arguments give equal text.
    """
    sections = (
        _results(run, timings),
        _differences(run),
        ranges_section(run, timings, "Over a parameter"),
        _groups(run, "by_hops", "By number of hops", "The questions are not grouped by hops."),
        _groups(run, "by_type", "By type of question", "The questions have no types."),
        *[
            _groups(run, f"by_field/{name}", f"By {name}", "", f"by-field-{n}")
            for n, name in enumerate(fields(run), start=1)
        ],
        _answers(run),
        _confidence(run),
        _latency(run, timings),
        _cost(run, timings),
        Section("failures", "Failures", tables=(failures_table(run),), absent="No question failed."),
    )
    title = f"Evaluation of index {run.get('index')}, version {run.get('version')}"
    return render(Page(title, facts(run, timings), tuple(findings(run, timings)), sections), plots)


def facts(run: Document, timings: Document) -> tuple[tuple[str, str], ...]:
    """What was evaluated, on what, when and how: (name, value), without what is not known."""
    questions, excluded = number(run, "questions", "n"), number(run, "questions", "excluded")
    seconds, peak = number(timings, "seconds"), number(timings, "peak_rss_mb")
    compared = baselines(run)
    found = (
        ("Questions", None if questions is None else f"{questions:.0f} from {at(run, 'questions', 'file')}"),
        ("Sample", _sample(run)),
        ("Without gold passages", f"{excluded:.0f} (not judged by retrieval)" if excluded else None),
        ("Supporting ids in no passage of the index", at(run, "questions", "unknown_supporting") or None),
        ("Golden triples", _golden(run)),
        ("Strategies", str(len(run["strategies"]))),
        ("Baseline" if len(compared) < 2 else "Baselines", ", ".join(compared) or None),
        ("Parameters for all", _parameters(run)),
        ("Reader", at(run, "reader")),
        ("Passages asked for", at(run, "depth")),
        ("Intervals of means", interval_words(run) or None),
        ("Seed of the bootstrap", at(run, "seed")),
        ("Polyhop", at(run, "polyhop")),
        ("Settings", _short(at(run, "settings_hash"))),
        ("Question file (SHA-256)", _short(at(run, "questions", "sha256"))),
        ("Started", at(timings, "started")),
        ("Duration", _measured(seconds, "{:.1f} s")),
        ("Peak memory", _measured(peak, "{:,.0f} MB")),
        ("Machine", _machine(timings)),
    )
    return tuple((name, str(value)) for name, value in found if value is not None)


def _measured(value: float | None, form: str) -> str | None:
    return None if value is None else form.format(value)


def _parameters(run: Document) -> str | None:
    return ", ".join(f"{name}={value}" for name, value in sorted((at(run, "parameters") or {}).items())) or None


def _machine(timings: Document) -> str | None:
    machine = at(timings, "machine")
    return " · ".join(f"{name}: {value}" for name, value in machine.items()) if isinstance(machine, Mapping) else None


def _sample(run: Document) -> str | None:
    size, seed, of = (number(run, "questions", "sample", key) for key in ("size", "seed", "of"))
    if size is None or seed is None or of is None:
        return None
    if at(run, "questions", "sample", "rest"):
        return f"{of - size:.0f} of {of:.0f} usable questions: all but a random sample of {size:.0f}, seed {seed:.0f}"
    if size >= of:
        return f"all {of:.0f} usable questions ({size:.0f} were asked for)"
    return f"{size:.0f} of {of:.0f} usable questions, random, seed {seed:.0f}"


def _golden(run: Document) -> str | None:
    """How many golden triples there are, and what was not judged by them; None without any."""
    count, of, unknown = (number(run, "golden_triples", key) for key in ("triples", "questions", "unknown"))
    if count is None or of is None:
        return None
    unranked = at(run, "golden_triples", "not_ranked_by") or ()
    parts = [f"{count:.0f} in {of:.0f} questions"]
    parts += [f"{unknown:.0f} not in the graph, which count as missed"] if unknown else []
    parts += [f"no triples are ranked by {', '.join(map(str, unranked))}"] if unranked else []
    return "; ".join(parts)


def _short(digest: object) -> str | None:
    return None if digest is None else str(digest)[:_HASH_LENGTH]


def _results(run: Document, timings: Document) -> Section:
    leading = leading_metric(run)
    order = f"Sorted by {leading}. " if leading else ""
    text = (
        f"{order}recall@k is the share of a question's gold passages among the first k, hit@k whether one is, all@k "
        "whether all are; mrr is 1 / rank of the first; em and f1 compare the answer with the gold answers."
    )
    text += _OF_TRIPLES if at(run, "golden_triples") else ""
    plots = (
        Plot("recall_at_k.png", "Recall against the number of passages that are looked at."),
        Plot("triple_recall_at_k.png", "Recall against the number of triples that are looked at."),
    )
    others = [name for name in SHOWN_METRICS if name not in COMPARED_METRICS]
    recalls = [name for name in others if name.startswith("recall")]
    rest = [name for name in others if name not in recalls]  # several tables: one would be wider than the page
    tables = (results_table(run, timings), intervals_table(run, COMPARED_METRICS))
    groups = (recalls, rest, *SHOWN_TRIPLE_METRICS)
    folded = (metrics_table(run), *(intervals_table(run, names, "Other metrics. ") for names in groups))
    return Section("results", "Results", (text,), plots, tables, folded)


def _differences(run: Document) -> Section:
    compared = baselines(run)
    text = (
        f"Every strategy on the same questions as {listed(compared) if compared else None}; the interval is a paired "
        "bootstrap over the questions. An interval that includes 0 says that the questions are too few to tell the two "
        "apart."
    )
    others = [name for name in SHOWN_METRICS if name not in COMPARED_METRICS]
    caption = "Filled points: the 95 % interval excludes 0."
    return Section(
        "differences",
        "Differences to the baseline" if len(compared) < 2 else "Differences to the baselines",
        (text,),
        tuple(Plot(differences_plot(place), caption) for place in range(len(compared))),
        tuple(differences_table(run, baseline, COMPARED_METRICS) for baseline in compared),
        tuple(
            differences_table(run, baseline, names, "The other metrics. ")
            for baseline in compared
            for names in (others, *SHOWN_TRIPLE_METRICS)
        ),
        absent="There is nothing to compare: only the baseline was run, or nothing was judged.",
    )


def ranges_section(run: Document, timings: Document, title: str) -> Section:
    """The table of each strategy that was run with several values of a parameter."""
    text = (
        "Strategies whose intervals overlap may still differ: the paired differences are the test. The best of several "
        "settings was chosen on the questions that it is shown on, so it looks better than it is; polyhop tune keeps "
        "questions back to find out."
    )
    tables = tuple(range_table(run, timings, one) for one in stored_ranges(run))
    absent = "No strategy was run with several values of a parameter."
    return Section("ranges", title, (text,), tables=tables, absent=absent)


def _groups(run: Document, kind: str, title: str, absent: str, section: str = "") -> Section:
    leading = leading_metric(run)
    others = [name for name in judged_metrics(run, COMPARED_METRICS) if name != leading]
    return Section(
        section or kind.replace("_", "-"),
        title,
        tables=(group_table(run, kind, leading),) if leading else (),
        folded=tuple(group_table(run, kind, name) for name in others),
        absent=absent,
    )


def _answers(run: Document) -> Section:
    text = (
        "Over all questions with gold answers, and over those that got an answer at all. A reader that stays silent "
        "where it knows nothing answers fewer questions and is right in more of them."
    )
    absent = "No answers were judged: no reader ran, or the questions have no gold answers."
    return Section("answers", "Answers", (text,), tables=(answers_table(run),), absent=absent)


def _confidence(run: Document) -> Section:
    found = at(run, "long_answers")
    text = "Answers in groups of equal size by stated confidence; below 0, answers are right less often than stated."
    return Section(
        "confidence",
        "Can the confidence be believed?",
        (text,),
        folded=(calibration_table(run),),
        absent=long_answers_sentence(found) if found else "No answer came with a confidence.",
    )


def _latency(run: Document, timings: Document) -> Section:
    text = (
        "Questions one after another on the machine named above; timings differ from run to run. Medians of parts need "
        "not add up to the median of the whole, which also holds what belongs to no part."
    )
    return Section(
        "latency",
        "Latency",
        (text,),
        (
            Plot("latency_against_recall.png", "Median latency against quality; the line joins the best trade-offs."),
            Plot("latency_by_part.png", "Median milliseconds of each part of a question."),
        ),
        (latency_table(run, timings),),
        absent="No latency was measured.",
    )


def _cost(run: Document, timings: Document) -> Section:
    return Section(
        "cost",
        "Tokens and cost",
        tables=(side_by_side_table(run, timings), cost_table(run)),
        absent="No model was asked: no tokens, no cost.",
    )


def findings(run: Document, timings: Document) -> list[str]:
    """Who finds most, who differs from the baseline beyond chance, who answers best, who is fastest, what failed."""
    against = [_against(run, baseline) for baseline in baselines(run)]
    ends = [_best_answers(run), _fastest(run, timings), _failures(run), _left_out(run)]
    return [sentence for sentence in (_most_found(run), *against, *ends) if sentence]


def _most_found(run: Document) -> str:
    leading = leading_metric(run)
    if leading is None:
        return "Nothing could be judged: the questions have neither gold passages nor gold answers."
    best = best_labels(run, leading)
    value = decimal(metric(run, best[0], leading))
    below = [name for name in baselines(run) if name not in best]
    against = ", ".join(f"the baseline {name} has {decimal(metric(run, name, leading))}" for name in below)
    against = f" ({against})" if against else ""
    only = len(labels(run)) == 1
    return f"{best[0]} has {leading} {value}." if only else f"Highest {leading}: {listed(best)} with {value}{against}."


def _against(run: Document, baseline: str) -> str:
    leading = leading_metric(run)
    if not leading:
        return ""
    rows = paired(run, baseline)
    differences = {label: row for label in labels(run) if (row := at(rows, label, leading))}
    if not differences:
        return ""
    return f"Against the baseline {baseline} in {leading}, by the 95 % interval, {'; '.join(_verdicts(differences))}."


def _verdicts(differences: Mapping[str, Document]) -> list[str]:
    """Which strategies are better than the baseline, which worse, and how many are neither."""
    compared = list(differences)
    significant = [label for label, row in differences.items() if at(row, "significant")]
    better = [label for label in significant if (number(differences[label], "difference") or 0) > 0]
    worse = [label for label in significant if label not in better]
    rest = len(compared) - len(significant)
    undecided = [f"not told apart from it: {rest} of {len(compared)}"] if rest else []
    decided = [
        f"{said}: {f'all {len(names)} others' if 2 < len(compared) == len(names) else listed(names)}"
        for said, names in (("better", better), ("worse", worse))
        if names
    ]
    return decided + undecided


def _best_answers(run: Document) -> str:
    long_answers = at(run, "long_answers")
    if long_answers and judged_metrics(run, ("f1",)):
        best = best_labels(run, "f1")
        return (
            f"Highest token F1: {listed(best)} with {decimal(metric(run, best[0], 'f1'))} (containment "
            f"{decimal(metric(run, best[0], 'containment'))}). {long_answers_sentence(long_answers)}"
        )
    if not judged_metrics(run, ("em",)):
        return "No answers were judged."
    best = best_labels(run, "em")
    share = number(run, "results", best[0], "answered", "share")
    right = number(run, "results", best[0], "answered", "em")
    more = "" if share is None else f"; {best[0]} answers {100 * share:.0f} % of the questions"
    more += "" if right is None or not more else f" and is right in {100 * right:.0f} % of those"
    return f"Highest exact match: {listed(best)} with {decimal(metric(run, best[0], 'em'))}{more}."


def _fastest(run: Document, timings: Document) -> str:
    measured = {label: value for label in labels(run) if (value := latency(timings, label, "p50")) is not None}
    if not measured:
        return "No latency was measured."
    fastest = min(measured, key=lambda label: measured[label])
    return f"Lowest median latency: {fastest} with {milliseconds(measured[fastest])} ms per question."


def _failures(run: Document) -> str:
    counts = {label: number(run, "results", label, "failures") for label in labels(run)}
    failed = {label: int(count) for label, count in counts.items() if count}
    if any(count is None for count in counts.values()) and not failed:
        return ""
    if not failed:
        return "No question failed."
    details = listed([f"{label} {count}" for label, count in failed.items()])
    return f"Failed questions count 0 in every metric: {details}."


def _left_out(run: Document) -> str:
    """Strategies that the index cannot serve, with the reason."""
    reasons = at(run, "left_out")
    if not isinstance(reasons, Mapping) or not reasons:
        return ""
    return f"Left out: {'; '.join(f'{name} ({reason})' for name, reason in sorted(reasons.items()))}"


def summary_markdown(run: Document, timings: Document) -> str:
    """A stored evaluation in Markdown: findings, what was evaluated, results, differences, ranges, answers, failures.

    Args:
        run: The document of the run.
        timings: Its timings.

    Returns:
        Text that ends with a newline; equal arguments give equal text.
    """
    title = f"# Evaluation of index {escaped(str(run.get('index')))}, version {escaped(str(run.get('version')))}"
    sentences = "\n".join(f"* {escaped(sentence)}" for sentence in findings(run, timings))
    about = " · ".join(f"{escaped(name)}: {escaped(value)}" for name, value in facts(run, timings))
    tables = [_markdown_table(table) for table in _summary_tables(run, timings) if table.rows]
    return "\n\n".join([title, sentences, about, *tables, *_failure_lines(run)]) + "\n"


def _summary_tables(run: Document, timings: Document) -> list[Table]:
    """Results, differences, ranges, groups where triples are ranked, and answers where any were judged."""
    tables = [_without(results_table(run, timings), _DROPPED), intervals_table(run, COMPARED_METRICS)]
    tables += [differences_table(run, baseline, COMPARED_METRICS) for baseline in baselines(run)]
    tables += [range_table(run, timings, one) for one in stored_ranges(run)]
    if (leading := leading_metric(run)) in MAIN_TRIPLE_METRICS:
        groups = ("by_hops", *(f"by_field/{field}" for field in fields(run)))
        tables += [group_table(run, kind, str(leading)) for kind in groups]
    if judged_metrics(run, ("em", "f1")):
        tables.append(answers_table(run))
    return tables


def _failure_lines(run: Document) -> list[str]:
    """The first failures, and how many more there are; nothing if no question failed."""
    failures = failures_table(run)
    if not failures.rows:
        return []
    shown = Table(failures.caption, failures.columns, failures.rows[:_FAILURES_LISTED], failures.name_columns)
    more = len(failures.rows) - _FAILURES_LISTED
    return [_markdown_table(shown), *([f"{more} more failures are listed in report.html."] if more > 0 else [])]


def _markdown_table(table: Table) -> str:
    header = [escaped(name) for name in table.columns]
    body = [[(f"**{escaped(cell.text)}**" if cell.mark else escaped(cell.text)) for cell in row] for row in table.rows]
    lines = "\n".join(table_lines([header, *body], table.name_columns))
    return f"{escaped(table.caption)}:\n\n{lines}"


def _without(table: Table, names: tuple[str, ...]) -> Table:
    kept = [place for place, name in enumerate(table.columns) if name not in names]
    rows = tuple(tuple(row[place] for place in kept) for row in table.rows)
    return Table(table.caption, tuple(table.columns[place] for place in kept), rows, table.name_columns)
