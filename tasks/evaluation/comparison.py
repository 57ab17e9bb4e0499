"""Two stored evaluations side by side, and gates on metrics. Differences are the second run minus the first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.settings import flatten
from polyhop.tasks.evaluation.bootstrap import compare_pairs
from polyhop.tasks.evaluation.metrics import TRIPLE_METRICS
from polyhop.tasks.evaluation.report import ALL_METRICS, ANSWER_METRICS

CHANGED_QUESTIONS = 20  # questions that are shown: those that changed most
_WEIGHED = ("recall@5", "mrr", "triple_recall@10", "triple_mrr", "em", "f1", "containment")
_FACTS = ("polyhop", "index", "version", "reader", "depth", "seed")

Row = Mapping[str, Any]  # A line of questions.jsonl: {id, question, strategy, answer, …ALL_METRICS}


def compare_runs(
    first: Mapping[str, Any], second: Mapping[str, Any], rows: tuple[Sequence[Row], Sequence[Row]]
) -> dict[str, Any]:
    """What changed between two runs (run.json, questions.jsonl); a question is the same where id and text are.

    Returns {changed{name: [first, second]}, strategies{name: {metric: {first, second, difference, paired}}},
    questions{common, only_first, only_second}, most_changed[…], only_first[…], only_second[…]}; `paired` is the
    bootstrap over the questions of both runs, None without one.
    """
    names = [name for name in first["strategies"] if name in second["strategies"]]
    before, after = ({(row["strategy"], row["id"], row["question"]): row for row in some} for some in rows)
    pairs = {
        name: [(row, after[key]) for key, row in before.items() if key[0] == name and key in after] for name in names
    }
    asked, again = ({(row["id"], row["question"]) for row in some} for some in rows)
    return {
        "changed": _changed(first, second),
        "only_first": [name for name in first["strategies"] if name not in names],
        "only_second": [name for name in second["strategies"] if name not in names],
        "questions": {
            "common": len(asked & again),
            "only_first": len(asked - again),
            "only_second": len(again - asked),
        },
        "strategies": {name: _metrics(first["results"][name], second["results"][name], pairs[name]) for name in names},
        "most_changed": _most_changed([pair for name in names for pair in pairs[name]]),
    }


def _changed(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Facts, questions, parameters and settings that differ: [first, second], None where one has no such thing."""
    before, after = (
        {
            **{name: run.get(name) for name in _FACTS},
            **flatten(run["questions"], "questions."),
            **{f"parameters.{name}": value for name, value in run["parameters"].items()},
            **{f"settings.{name}": value for name, value in run.get("settings", {}).items()},
        }
        for run in (first, second)
    )
    names = dict.fromkeys((*before, *after))
    return {name: [before.get(name), after.get(name)] for name in names if before.get(name) != after.get(name)}


def _metrics(
    first: Mapping[str, Any], second: Mapping[str, Any], pairs: Sequence[tuple[Row, Row]]
) -> dict[str, dict[str, Any]]:
    before, after = [row for row, _ in pairs], [row for _, row in pairs]
    metrics = [metric for metric in ALL_METRICS if metric in first and metric in second]
    paired = compare_pairs({"second": after, "first": before}, [("second", "first")], metrics)["second", "first"]
    return {
        metric: {
            "first": first[metric],
            "second": second[metric],
            "difference": _difference(first[metric], second[metric]),
            "paired": paired.get(metric),
        }
        for metric in metrics
    }


def _difference(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else round(second - first, 12)


def _most_changed(pairs: Sequence[tuple[Row, Row]]) -> list[dict[str, Any]]:
    """Questions by the sum of their changes, largest first; equal ones by strategy and id."""
    rows = []
    for before, after in pairs:
        changes = {metric: _difference(before.get(metric), after.get(metric)) or 0.0 for metric in _WEIGHED}
        size = round(sum(map(abs, changes.values())), 12)
        if size or before["answer"] != after["answer"]:
            rows.append(
                {
                    "id": before["id"],
                    "question": before["question"],
                    "strategy": before["strategy"],
                    "change": size,
                    **{metric: change for metric, change in changes.items() if change},
                    "answers": [before["answer"], after["answer"]],
                }
            )
    rows.sort(key=lambda row: (-row["change"], row["strategy"], row["id"]))
    return rows[:CHANGED_QUESTIONS]


@dataclass(frozen=True, slots=True)
class Gate:
    """Every strategy, or the named one, must reach `threshold` in `metric`."""

    metric: str
    threshold: float
    strategy: str | None = None


def parse_gate(text: str) -> Gate:
    """A gate from `metric=value` or `strategy:metric=value`; the strategy may have parameters of its own."""
    left, separator, value = text.rpartition("=")
    strategy, colon, metric = left.rpartition(":")
    try:
        threshold = float(value)
    except ValueError:
        separator = ""
        threshold = 0.0
    if not separator or not 0 <= threshold <= 1:
        raise ConfigurationError(
            f"--fail-below takes metric=value or strategy:metric=value with a value from 0 to 1, "
            f"like recall@5=.65 or bridge:em=.1, not '{text}'."
        )
    if metric.strip() not in ALL_METRICS:
        raise ConfigurationError(f"--fail-below knows no metric '{metric.strip()}'; metrics: {', '.join(ALL_METRICS)}.")
    return Gate(metric.strip(), threshold, strategy.strip() if colon else None)


def check_names(gates: Sequence[Gate], strategies: Sequence[str]) -> None:
    """Refuses gates for what is not evaluated, before anything runs."""
    for gate in gates:
        if gate.strategy is not None and gate.strategy not in strategies:
            raise ConfigurationError(
                f"--fail-below names '{gate.strategy}', which is not evaluated; evaluated: {', '.join(strategies)}."
            )


def check_measured(gates: Sequence[Gate], *, unranked: str, reads: bool) -> None:
    """Refuses gates for what this evaluation does not measure, before anything runs; `unranked` ranks nothing."""
    for gate in gates:
        if gate.metric in ANSWER_METRICS and not reads:
            raise ConfigurationError(f"--fail-below {gate.metric} needs answers, and --reader none reads none.")
        if gate.strategy == unranked and gate.metric not in ANSWER_METRICS:
            raise ConfigurationError(
                f"--fail-below cannot judge {gate.metric} of '{unranked}', which ranks no passages; "
                f"its metrics: {', '.join(ANSWER_METRICS)}."
            )


def gate_rows(
    gates: Sequence[Gate], strategies: Mapping[str, Mapping[str, Any]], *, unranked: str = ""
) -> list[dict[str, Any]]:
    """What became of each gate and strategy: [{strategy, metric, threshold, value, passed}], in the order given.

    A gate for the retrieval of all strategies leaves out the row `unranked`, which has none.
    """
    return [
        {
            "strategy": name,
            "metric": gate.metric,
            "threshold": gate.threshold,
            "value": result.get(gate.metric),
            "passed": (value := result.get(gate.metric)) is not None and value >= gate.threshold,
        }
        for gate in gates
        for name, result in strategies.items()
        if gate.strategy in {None, name} and not (name == unranked and gate.metric not in ANSWER_METRICS)
    ]


def failure_sentence(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """One sentence on the gates that failed; None if none did."""
    failed = [
        f"{row['metric']} of {row['strategy']} "
        + (
            f"could not be measured ({_reason(row['metric'])}), {row['threshold']:g} is wanted"
            if row["value"] is None
            else f"is {row['value']:.6g}, below {row['threshold']:g}"
        )
        for row in rows
        if not row["passed"]
    ]
    return f"The gate failed: {'; '.join(failed)}." if failed else None


def _reason(metric: str) -> str:
    without = "the questions have no gold for it"
    if metric in ANSWER_METRICS:
        return f"{without}, or their gold answers are too long or too short for it"
    return f"{without}, or the strategy ranks no triples" if metric in TRIPLE_METRICS else without
