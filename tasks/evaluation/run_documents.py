"""The documents of a stored evaluation: what must be equal when it is repeated, and what may differ.

Measures and stores nothing. Invariant: no clock, no path of a machine and no run number is in the run document, so
that two evaluations of the same version, questions, strategies and settings give the same bytes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polyhop.schemas.ids import content_hash
from polyhop.tasks.evaluation.bootstrap import KIND, SEED
from polyhop.tasks.evaluation.pairs import Values, against
from polyhop.tasks.evaluation.report import METRICS
from polyhop.tasks.evaluation.triple_metrics import metrics_of

FORMAT = 1  # version of the layout of run.json: the first
PLACES = 12
"""Decimal places of stored numbers (algorithms.md 0.3)."""
RANKING_KEPT = 30  # the deepest k of recall@k: what can be judged again; architecture.md 9.
_TIMINGS = ("latency_ms", "parts_ms", "total_seconds")


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What was evaluated.

    Attributes:
        index: Its name.
        version: Its version.
        questions: {file, sha256, left_out, sample} of the question file; `sample` is {size, seed, of} or None.
        parameters: Given to every strategy.
        left_out: Strategies of `all` that the index cannot serve, with the reason.
        settings: What determines the answers, by dotted name.
        reader: "rules", or the model that reads.
        depth: Passages asked for.
        baselines: The strategies that the others are compared with, at least one.
        ranges: Strategies with several values of a parameter: [{label, parameters, points[{label, values}]}].
        polyhop: Version of the program.
    """

    index: str
    version: int
    questions: Mapping[str, Any]
    parameters: Mapping[str, object]
    left_out: Mapping[str, str]
    settings: Mapping[str, object]
    reader: str
    depth: int
    baselines: Sequence[str]
    ranges: Sequence[Mapping[str, Any]]
    polyhop: str


def run_document(facts: RunFacts, report: Mapping[str, Any], values: Mapping[str, Values]) -> dict[str, Any]:
    """The part of an evaluation that is the same every time.

    Args:
        facts: What was evaluated.
        report: From `polyhop.tasks.evaluation.report.evaluate`.
        values: By strategy: the metrics of each question.

    Returns:
        {format, index, version, questions, strategies, parameters, settings_hash, results, baseline, paired, …};
        `paired` is every other strategy minus `baseline`, the first of `baselines`; `paired_further` has the same by
        baseline for the others.
    """
    first, *further = facts.baselines
    paired = against(values, facts.baselines, metrics_of(METRICS, values))
    results = {
        name: {key: value for key, value in result.items() if key not in _TIMINGS}
        for name, result in report["strategies"].items()
    }
    settings = dict(sorted(facts.settings.items()))
    document = {
        "format": FORMAT,
        "polyhop": facts.polyhop,
        "index": facts.index,
        "version": facts.version,
        "questions": {**facts.questions, "n": report["n"], "excluded": report["excluded"]},
        "strategies": list(results),
        "left_out": dict(facts.left_out),
        "parameters": dict(sorted(facts.parameters.items())),
        "settings": settings,
        "settings_hash": content_hash(json.dumps(settings, sort_keys=True, default=str)),
        "seed": SEED,
        "interval": KIND,
        "reader": facts.reader,
        "depth": facts.depth,
        "results": results,
        "baseline": first,
        "baselines": list(facts.baselines),
        "paired": paired[first],
        "paired_further": {name: paired[name] for name in further},
        "ranges": list(facts.ranges),
        "by_hops": report["by_hops"],
        "by_type": report["by_type"],
        **{name: report[name] for name in ("by_field", "golden_triples", "long_answers") if name in report},
    }
    whole: dict[str, Any] = rounded(document)
    return whole


def timings_document(
    report: Mapping[str, Any], started: str, seconds: float, machine: Mapping[str, Any], peak_rss_mb: float
) -> dict[str, Any]:
    """The part of an evaluation that differs from run to run.

    Args:
        report: From `polyhop.tasks.evaluation.report.evaluate`, with what reading took of a model as `reading`, and
            what index and questions cost as `costs`.
        started: Time of the start, ISO 8601.
        seconds: Wall seconds of the whole evaluation.
        machine: What it ran on.
        peak_rss_mb: Largest resident memory of the process.
    """
    document = {
        "started": started,
        "seconds": seconds,
        "machine": dict(machine),
        "strategies": {name: {key: result[key] for key in _TIMINGS} for name, result in report["strategies"].items()},
        "reading": report.get("reading", {}),
        "costs": report.get("costs", {}),
        "peak_rss_mb": peak_rss_mb,
    }
    whole: dict[str, Any] = rounded(document)
    return whole


def rounded(document: Any) -> Any:
    """The same document with floats rounded to PLACES, tuples as lists."""
    if isinstance(document, float):
        return round(document, PLACES)
    if isinstance(document, Mapping):
        return {key: rounded(value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [rounded(value) for value in document]
    return document


def json_bytes(document: Mapping[str, Any]) -> bytes:
    """A document as a file: indented JSON, keys in the order that they have."""
    return (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode()


def json_lines(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows as a file of JSON lines."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
