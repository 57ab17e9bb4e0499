"""The evaluation report as one page: which sections it has, in which order, and what each says.

Owns no markup (report.html.jinja), no number (report_tables.py) and no plot (plots.py). What a run has no values for is
said in a sentence in place of its section.
"""

from collections.abc import Mapping
from dataclasses import replace

from polyhop.tasks.evaluation.documents import (
    COMPARED_METRICS,
    SHOWN_METRICS,
    SHOWN_TRIPLE_METRICS,
    Document,
    at,
    baselines,
    fields,
    interval_words,
    judged_metrics,
    leading_metric,
    long_answers_sentence,
    number,
)
from polyhop.tasks.evaluation.findings import findings
from polyhop.tasks.evaluation.plots import differences_plot, field_plot
from polyhop.tasks.evaluation.plots_of_answers import PANELS, calibrated
from polyhop.tasks.evaluation.ranges_section import ranges_section
from polyhop.tasks.evaluation.rendering import Page, Plot, Section, listed, render
from polyhop.tasks.evaluation.report_tables import (
    answers_table,
    calibration_table,
    cost_table,
    differences_table,
    failures_table,
    group_table,
    intervals_table,
    latency_table,
    metrics_table,
    results_table,
    side_by_side_table,
)

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
        ranges_section(run, timings),
        _groups(run, "by_hops", "By number of hops", "The questions are not grouped by hops."),
        _groups(run, "by_type", "By type of question", "The questions have no types."),
        *_fields(run),
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
    """Which part of the question set was asked; None if all of it."""
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


def _groups(run: Document, kind: str, title: str, absent: str) -> Section:
    leading = leading_metric(run)
    others = [name for name in judged_metrics(run, COMPARED_METRICS) if name != leading]
    return Section(
        kind.replace("_", "-"),
        title,
        plots=(Plot(f"{kind}.png", "One row per strategy, one marker per group of questions."),),
        tables=(group_table(run, kind, leading),) if leading else (),
        folded=tuple(group_table(run, kind, name) for name in others),
        absent=absent,
    )


def _fields(run: Document) -> list[Section]:
    """A section for each field of the question file that groups the questions."""
    sections = [_groups(run, f"by_field/{name}", f"By {name}", "") for name in fields(run)]
    plot = "One row per strategy, one marker per group of questions."
    return [
        replace(section, id=f"by-field-{n + 1}", plots=(Plot(field_plot(n), plot),))
        for n, section in enumerate(sections)
    ]


def _answers(run: Document) -> Section:
    text = (
        "Over all questions with gold answers, and over those that got an answer at all. A reader that stays silent "
        "where it knows nothing answers fewer questions and is right in more of them."
    )
    absent = "No answers were judged: no reader ran, or the questions have no gold answers."
    return Section("answers", "Answers", (text,), tables=(answers_table(run),), absent=absent)


def _confidence(run: Document) -> Section:
    count, found = len(calibrated(run)), at(run, "long_answers")
    shown = f" The {PANELS} strategies with the most exact matches of {count} are drawn." if count > PANELS else ""
    text = (
        "Answers in groups of equal size by stated confidence: below the dashed line answers are right less often than "
        f"stated.{shown} Right of the second plot all answers are given, at its left only the most confident ones."
    )
    return Section(
        "confidence",
        "Can the confidence be believed?",
        (text,),
        (
            Plot("calibration.png", "Stated confidence against the share of exact matches, one panel per strategy."),
            Plot("precision_at_coverage.png", "Precision against the share of questions that get an answer."),
        ),
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
