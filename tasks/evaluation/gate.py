"""A gate: the least value that a metric must reach, as `polyhop eval --fail-below recall@5=.65` writes it.

Measures nothing. Invariant: a metric that could not be measured does not pass.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polyhop.schemas.errors import ConfigurationError
from polyhop.tasks.evaluation.report import ALL_METRICS, ANSWER_METRICS
from polyhop.tasks.evaluation.triple_metrics import TRIPLE_METRICS


@dataclass(frozen=True, slots=True)
class Gate:
    """Every strategy, or the named one, must reach `threshold` in `metric`."""

    metric: str
    threshold: float
    strategy: str | None = None


def parse_gate(text: str) -> Gate:
    """A gate from `metric=value` or `strategy:metric=value`; the strategy may have parameters of its own.

    Raises:
        ConfigurationError: If it is written otherwise, or there is no such metric.
    """
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
    """Refuses gates for what is not evaluated, before anything runs.

    Raises:
        ConfigurationError: If a gate names a strategy that is not among `strategies`.
    """
    for gate in gates:
        if gate.strategy is not None and gate.strategy not in strategies:
            raise ConfigurationError(
                f"--fail-below names '{gate.strategy}', which is not evaluated; evaluated: {', '.join(strategies)}."
            )


def check_measured(gates: Sequence[Gate], *, unranked: str, reads: bool) -> None:
    """Refuses gates for what this evaluation does not measure, before anything runs.

    Args:
        gates: All gates.
        unranked: The row that ranks no passages.
        reads: Whether answers are read.

    Raises:
        ConfigurationError: If a gate is for answers that nobody reads, or for the retrieval of `unranked`.
    """
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
