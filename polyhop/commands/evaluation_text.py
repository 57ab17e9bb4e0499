"""Evaluations, stored ones and comparisons of two as tables for people.

Computes nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from polyhop.commands.evaluation_costs import print_costs
from polyhop.commands.evaluation_triples import LEADING, print_triples
from polyhop.commands.evaluation_triples import WITH_INTERVAL as OF_TRIPLES
from polyhop.output import print_error, print_line, print_table
from polyhop.schemas.chat import cost_words
from polyhop.schemas.printable import plural
from polyhop.schemas.strategies import CLOSED_BOOK

OF_ANSWERS = ("em", "f1", "containment")
SHOWN = ("recall@2", "recall@5", "recall@10", "recall@30", "hit@10", "mrr", *OF_ANSWERS)
COMPARED = ("recall@2", "recall@5", "recall@10", "mrr", *OF_ANSWERS)
WITH_INTERVAL = ("recall@5", "recall@10", "mrr", *OF_ANSWERS)
WEIGHED = ("recall@5", "mrr", LEADING, "triple_mrr", *OF_ANSWERS)
# characters; chosen: leaves the other columns of a run room on one line, and the JSON has all labels
LONGEST_LABELS = 60


def question_count(count: int, sample: Mapping[str, int] | None) -> str:
    """How many questions were asked, and of how many if they are a sample."""
    if sample is None or sample["size"] >= sample["of"]:
        return plural(count, "question")
    if sample.get("rest"):
        return (
            f"{count} of {sample['of']} questions (all but a random sample of {sample['size']}, seed {sample['seed']})"
        )
    return f"{count} of {sample['of']} questions (random sample, seed {sample['seed']})"


def print_evaluation(report: Mapping[str, Any]) -> None:
    """The comparison as tables: metrics and their intervals, hops, confidence, and what the paired bootstrap says."""
    unused, judge = ("em", "f1") if "long_answers" in report else ("containment", "em")
    shown = [name for name in (OF_ANSWERS if _has_only_triples(report) else SHOWN) if name != unused]
    columns = ["strategy", *shown, "answered", f"{judge} of answered", "p50 ms", "p95 ms", "failures"]
    rows = []
    for name, result in report["strategies"].items():
        latency, answered = result["latency_ms"], result["answered"]
        rows.append(
            [
                name,
                *(result[m] for m in shown),
                *(answered["share"], answered[judge], latency["p50"], latency["p95"]),
                result["failures"],
            ]
        )
    print_table(columns, rows)
    _print_intervals(report)
    print_triples(report)
    print_costs(report["costs"])
    if report["reader"] == "none":
        print_line("No answers were read (--reader none), so there is no em and no f1")
    elif "long_answers" in report:
        from polyhop.tasks.evaluation.documents import long_answers_sentence

        print_line(long_answers_sentence(report["long_answers"]))
    _print_models(report.get("reading", {}))
    if not _has_only_triples(report):
        _print_hops(report["by_hops"])
    _print_calibration(report["strategies"])
    _print_paired(report)


def _has_only_triples(report: Mapping[str, Any]) -> bool:
    """Whether questions have golden triples and no gold passages: columns of passages would be empty."""
    return "golden_triples" in report and report["excluded"] == report["n"]


def print_stored(rows: Sequence[Mapping[str, Any]]) -> None:
    """The stored evaluations, the oldest first, with figures of their best strategy by recall@5."""
    if not rows:
        print_line("No evaluation is stored yet; polyhop eval QUESTIONS --index NAME stores one.")
        return
    readable = [row for row in rows if "error" not in row]
    triples = [LEADING] if any(LEADING in one for row in readable for one in row["strategies"].values()) else []
    columns = ["run", "started", "index", "version", "questions", "strategies", "best", "recall@5", *triples, "em"]
    print_table(columns, [_stored_row(row, triples) for row in readable])
    for row in rows:
        if "error" in row:
            print_error(f"evaluation {row['run']} is left out: {row['error']}")


def print_comparison(changes: Mapping[str, Any]) -> None:
    """What changed from the first to the second stored evaluation."""
    print_line(f"Evaluation {changes['first']} -> {changes['second']}")
    _print_facts(changes)
    if not changes["strategies"]:
        print_line("  no strategy is in both")
        return
    for name, latency in changes["latency_ms"].items():
        print_line(f"  {name}, latency p50: {_milliseconds(latency['p50'])}, p95: {_milliseconds(latency['p95'])}")
    rows = [
        [name, metric, found["first"], found["second"], _signed(found["difference"]), *_paired_cells(found["paired"])]
        for name, metrics in changes["strategies"].items()
        for metric in (*COMPARED, *OF_TRIPLES)
        if metric in metrics and _has_changed(found := metrics[metric])
    ]
    if not rows:
        print_line("  no metric changed in any strategy of both")
        return
    print_table(["strategy", "metric", "before", "after", "change", "95 % interval", "wins/ties/losses", ""], rows)
    _print_most_changed(changes["most_changed"])


def _print_most_changed(rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        print_line("Questions that changed most")
    for row in rows:
        before, after = (answer or "(none)" for answer in row["answers"])
        moved = ", ".join(f"{m} {row[m]:+.2f}" for m in WEIGHED if m in row)
        print_line(f"  {row['strategy']}  [{row['id']}] {moved or 'another answer'}: {before} -> {after}")


def _print_facts(changes: Mapping[str, Any]) -> None:
    """What was run differently."""
    for name, (before, after) in changes["changed"].items():
        print_line(f"  {name}: {before} -> {after}")
    if not changes["changed"]:
        print_line("  the same index, version, questions, parameters and settings")
    for key, number in (("only_first", "first"), ("only_second", "second")):
        if changes[key]:
            print_line(f"  only in {changes[number]}: {', '.join(changes[key])}")
    questions = changes["questions"]
    if questions["only_first"] or questions["only_second"]:
        print_line(
            f"  in both: {plural(questions['common'], 'question')}; {questions['only_first']} only in "
            f"{changes['first']}, {questions['only_second']} only in {changes['second']}; intervals: those in both"
        )


def _stored_row(row: Mapping[str, Any], triples: Sequence[str]) -> list[object]:
    figures = row["strategies"]
    best = max(figures, key=lambda name: figures[name]["recall@5"] or figures[name].get(LEADING) or 0.0)
    labels = ",".join(figures)
    shown = labels if len(labels) <= LONGEST_LABELS else f"{labels[:LONGEST_LABELS]}… ({len(figures)})"
    return [
        *(row["run"], row["started"], row["index"], row["version"], _asked(row), shown),
        *(best, figures[best]["recall@5"], *(figures[best].get(name) for name in triples), figures[best]["em"]),
    ]


def _asked(row: Mapping[str, Any]) -> str:
    """The question file, and which part of it was asked."""
    sample = row.get("sample")
    if sample is None or sample["size"] >= sample["of"]:
        return str(row["questions"])
    what = "the rest, " if sample.get("rest") else ""
    return f"{row['questions']} ({what}{row['n']} of {sample['of']}, seed {sample['seed']})"


def _print_intervals(report: Mapping[str, Any]) -> None:
    """The intervals of the metrics that most people ask for, as far as they were judged."""
    found = {name: result["intervals"] for name, result in report["strategies"].items()}
    judged = [metric for metric in WITH_INTERVAL if any(intervals.get(metric) for intervals in found.values())]
    if not judged:
        return
    kind = report["interval"]
    print_line(f"{100 * kind['level']:.0f} % intervals of the means ({kind['kind']}, {kind['resamples']:,} resamples)")
    print_table(
        ["strategy", *judged],
        [[name, *(_bounds(intervals.get(metric)) for metric in judged)] for name, intervals in found.items()],
    )


def _bounds(interval: Mapping[str, float] | None) -> str:
    return "" if interval is None else f"[{interval['low']:.3f}, {interval['high']:.3f}]"


def _print_models(reading: Mapping[str, Any]) -> None:
    for name, taken in reading.items():
        if taken["model"]:
            print_line(
                f"{name} read by {taken['model']}: {plural(taken['calls'], 'call')}, {taken['cached']} cached, "
                f"{taken['fallbacks']} {_without_reply(name)}, {taken['prompt_tokens']} + {taken['completion_tokens']} "
                f"tokens, {cost_words(taken['cost_usd'])}"
            )


def _without_reply(name: str) -> str:
    """What becomes of questions to which the model replied nothing usable."""
    return "left unanswered" if name == CLOSED_BOOK else "read by rules instead"


def _print_hops(groups: Mapping[str, Any]) -> None:
    if len(groups) < 2:
        return
    print_line("recall@5 by number of hops")
    names = next(iter(groups.values()))["strategies"]
    columns = ["strategy", *(f"{key} ({group['n']})" for key, group in groups.items())]
    print_table(
        columns, [[name, *(group["strategies"][name]["recall@5"] for group in groups.values())] for name in names]
    )


def _print_calibration(strategies: Mapping[str, Any]) -> None:
    """Stated confidence against exact match in fifths of the answered questions."""
    rows = [
        [name, *(f"{group['stated']:.2f} -> {group['observed']:.2f} ({group['n']})" for group in result["calibration"])]
        for name, result in strategies.items()
        if result["calibration"]
    ]
    if not rows:
        return
    width = max(len(row) for row in rows)
    print_line("Confidence stated -> exact match observed (answers), from the least to the most confident fifth")
    columns = ["strategy", *(str(number) for number in range(1, width))]
    print_table(columns, [[*row, *[""] * (width - len(row))] for row in rows])


def _print_paired(report: Mapping[str, Any]) -> None:
    """Each strategy against each baseline, as the report has the pairs."""
    starts = tuple(f"{baseline} vs " for baseline in report["baselines"])
    ends = tuple(f" vs {baseline}" for baseline in report["baselines"])
    for pair, metrics in report["paired"].items():
        if pair.startswith(starts) or pair.endswith(ends):
            for metric in _leading_metrics(metrics):
                _print_difference(f"{pair}, {metric}", metrics[metric])


def _leading_metrics(metrics: Mapping[str, Any]) -> list[str]:
    """The metrics of rankings that sum up a pair; one of answers where one of the two ranks nothing (closed-book)."""
    ranked = [name for name in ("recall@5", LEADING) if name in metrics]
    return ranked or [name for name in ("em", "f1") if name in metrics][:1]


def _print_difference(what: str, found: Mapping[str, Any]) -> None:
    word = "significant" if found["significant"] else "not significant"
    print_line(
        f"{what}: {found['difference']:+.3f} [{found['low']:+.3f}, {found['high']:+.3f}], "
        f"{found['wins']} wins {found['ties']} ties {found['losses']} losses, {word}"
    )


def _has_changed(found: Mapping[str, Any]) -> bool:
    paired = found["paired"]
    return bool(found["difference"]) or (paired is not None and paired["wins"] + paired["losses"] > 0)


def _milliseconds(pair: Sequence[float | None]) -> str:
    return " -> ".join("unmeasured" if value is None else f"{value:.1f} ms" for value in pair)


def _signed(value: float) -> str:
    return f"{value:+.3f}"


def _paired_cells(paired: Mapping[str, Any] | None) -> list[str]:
    if paired is None:
        return ["", "", ""]
    return [
        f"[{paired['low']:+.3f}, {paired['high']:+.3f}]",
        f"{paired['wins']}/{paired['ties']}/{paired['losses']}",
        "significant" if paired["significant"] else "",
    ]
