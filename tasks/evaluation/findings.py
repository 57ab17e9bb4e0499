"""What an evaluation found, in a few sentences for those who read no table.

Computes no metric (report.py does); the same sentences stand in the page and in the summary.
"""

from collections.abc import Mapping

from polyhop.tasks.evaluation.documents import (
    Document,
    at,
    baselines,
    best_labels,
    judged_metrics,
    labels,
    latency,
    leading_metric,
    long_answers_sentence,
    metric,
    number,
    paired,
)
from polyhop.tasks.evaluation.rendering import decimal, listed, milliseconds


def findings(run: Document, timings: Document) -> list[str]:
    """Who finds most, who differs from the baseline beyond chance, who answers best, who is fastest, what failed."""
    found = [_most_found(run), *(_against(run, baseline) for baseline in baselines(run)), _best_answers(run)]
    found += [_fastest(run, timings), _failures(run)]
    found.append(_left_out(run))
    return [sentence for sentence in found if sentence]


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
    return [*_verdict("better", better, compared), *_verdict("worse", worse, compared), *undecided]


def _verdict(said: str, names: list[str], compared: list[str]) -> list[str]:
    return [f"{said}: {_all_or(names, compared)}"] if names else []


def _all_or(names: list[str], compared: list[str]) -> str:
    return f"all {len(names)} others" if 2 < len(compared) == len(names) else listed(names)


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
