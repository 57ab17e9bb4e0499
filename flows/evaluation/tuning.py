"""Tuning: which setting of a strategy is best on some questions, how it does on the others, and its page.

The result on the sample never stands without the one on the rest. Source: algorithms.md 6.3 (SPRIG, table A.15).
"""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from polyhop.flows.evaluation.bootstrap import bootstrap_p
from polyhop.flows.evaluation.metrics import CONTAINMENT
from polyhop.flows.evaluation.page import (
    COMPARED_METRICS,
    NOTHING,
    Cell,
    Document,
    ReportSection,
    ReportTable,
    decimal,
    difference_cell,
    interval_words,
    metric,
    paired,
    ranges_section,
    render,
)
from polyhop.flows.evaluation.report import ANSWER_METRICS, RETRIEVAL_METRICS, long_answer_words
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.records import QuestionRecord
from polyhop.schemas.requests import Range, parse_variant
from polyhop.schemas.text import plural

MOST_TUNED = 500  # questions that settings are tried on unless a user says otherwise: as many as SPRIG took
LEAST_JUDGED = 10
"""Questions that the metric judges on either side; chosen: of fewer, a single one moves the mean by a tenth."""


class EvaluatedPart(NamedTuple):
    """Some of the questions, evaluated: the document of their run, and a line {id, strategy, …metrics} per question."""

    run: Document
    rows: Sequence[Mapping[str, Any]]


def is_judged(record: QuestionRecord, name: str) -> bool:
    """Returns whether a question has the gold that a metric needs: answers, supporting passages or golden triples."""
    if name in ANSWER_METRICS:
        return bool(record.answers)
    return bool(record.supporting if name in RETRIEVAL_METRICS else record.golden_triples)


def check_parts(parts: Sequence[Sequence[QuestionRecord]], name: str) -> None:
    """Refuses to tune on questions, or to judge by a rest, of which the metric judges fewer than LEAST_JUDGED."""
    for part in parts:
        is_long = long_answer_words(record.answers for record in part) is not None
        if name == ("em" if is_long else CONTAINMENT):
            kind = "long" if is_long else "short"
            raise ConfigurationError(f"Gold answers this {kind} are not judged by {name}; take --metric f1.")
    counts = [sum(is_judged(record, name) for record in part) for part in parts]
    if min(counts) < LEAST_JUDGED:
        records = [record for part in parts for record in part]
        found = {
            "supporting passages": sum(bool(record.supporting) for record in records),
            "answers": sum(bool(record.answers) for record in records),
            "golden triples": sum(bool(record.golden_triples) for record in records),
        }
        gold = ", ".join(f"{count} have {what}" for what, count in found.items())
        raise ConfigurationError(
            f"Tuning by {name} needs at least {LEAST_JUDGED} questions that it judges on either side: there are "
            f"{counts[0]} to tune on and {counts[1]} to keep back; take more questions, another --sample, or another "
            f"--metric (of {len(records)} questions, {gold})."
        )


def chosen_setting(name: str, default: str, labels: Sequence[str], run: Document) -> str:
    """The setting with the highest mean: of equal ones the default, then the first in the order tried."""
    values = {label: value for label in labels if (value := metric(run, label, name)) is not None}
    if not values:
        raise ConfigurationError(f"{name} judged nothing: the questions have no gold for it; take another --metric.")
    best = [label for label, value in values.items() if value == max(values.values())]
    return default if default in best else best[0]


def tuning_document(
    name: str, default: str, tried: Range, tuning: EvaluatedPart, rest: EvaluatedPart, parameters: Mapping[str, object]
) -> dict[str, Any]:
    """Document of tuning: the settings tried, the best one, and its score on the other questions.

    Returns {strategy, metric, grid, default, chosen, is_default, tried[{label, values, mean, low, high}],
    tuning{n, default, chosen}, rest{n, default, chosen, paired, metrics}, use}; `paired` is chosen minus default with
    wins, ties, losses and p, None if the default is chosen; `metrics` has the same of the other main metrics.
    """
    labels = [default, *tried.points]
    chosen = chosen_setting(name, default, labels, tuning.run)
    variant = parse_variant(chosen, parameters)
    values = {label: dict(zip(tried.parameters, point, strict=True)) for label, point in tried.points.items()}
    return {
        "strategy": variant.strategy,
        "metric": name,
        "parameters": dict(parameters),
        "grid": {
            parameter: list(dict.fromkeys(point[column] for point in tried.points.values()))
            for column, parameter in enumerate(tried.parameters)
        },
        "default": default,
        "chosen": chosen,
        "is_default": chosen == default,
        "tried": [
            {"label": label, "values": values.get(label, {}), **_mean(tuning.run, label, name)} for label in labels
        ],
        "tuning": _part(name, default, chosen, tuning),
        "rest": {
            **_part(name, default, chosen, rest),
            "paired": _paired(name, default, chosen, rest),
            "metrics": {
                other: {
                    "default": metric(rest.run, default, other),
                    "chosen": metric(rest.run, chosen, other),
                    "paired": _paired(other, default, chosen, rest),
                }
                for other in COMPARED_METRICS
                if other != name and metric(rest.run, default, other) is not None
            },
        },
        "use": {
            "strategy": variant.strategy,
            "param": [f"{key}={value}" for key, value in variant.parameters.items()],
            "label": chosen,
        },
    }


def _mean(run: Document, label: str, name: str) -> dict[str, float | None]:
    bounds = run["results"][label]["intervals"].get(name) or {"low": None, "high": None}
    return {"mean": metric(run, label, name), **bounds}


def _part(name: str, default: str, chosen: str, part: EvaluatedPart) -> dict[str, Any]:
    return {
        "n": part.run["questions"]["n"],
        "judged": sum(row["strategy"] == default and row.get(name) is not None for row in part.rows),
        "default": _mean(part.run, default, name),
        "chosen": _mean(part.run, chosen, name),
    }


def _paired(name: str, default: str, chosen: str, part: EvaluatedPart) -> dict[str, Any] | None:
    found = paired(part.run, default).get(chosen, {}).get(name)
    if found is None:
        return None
    of_default, of_chosen = (
        {row["id"]: row[name] for row in part.rows if row["strategy"] == label and row.get(name) is not None}
        for label in (default, chosen)
    )
    differences = [of_chosen[key] - value for key, value in of_default.items() if key in of_chosen]
    return {**found, "p": round(bootstrap_p(np.array(differences)), 12)}


def tuning_page(report: Document, run: Document, timings: Document) -> str:
    """The page of the JSON of `polyhop tune` and the run on the sample as HTML, complete in one file."""
    name, rest = report["metric"], report["rest"]

    def mean_cell(found: Document) -> Cell:
        bounds = "" if found["low"] is None else f" [{decimal(found['low'])}, {decimal(found['high'])}]"
        return Cell(f"{decimal(found['mean'])}{bounds}")

    means = ReportTable(
        f"{name}: mean [95 % interval]",
        ("choice", "setting", f"{name} on the sample", f"{name} on the rest"),
        [
            (Cell(who), Cell(report[who]), *(mean_cell(report[part][who]) for part in ("tuning", "rest")))
            for who in ("default", "chosen")
        ],
        name_columns=2,
    )
    first = {name: {"default": rest["default"]["mean"], "chosen": rest["chosen"]["mean"], "paired": rest["paired"]}}
    differences = ReportTable(
        "The rest: means, paired difference [95 % interval] won/tied/lost and p; marked where the interval excludes 0",
        ("metric", "default", "chosen", "chosen minus default", "p"),
        [
            (
                *(Cell(metric), Cell(decimal(found["default"])), Cell(decimal(found["chosen"]))),
                difference_cell(found["paired"]),
                Cell(f"{found['paired']['p']:.3g}" if found["paired"] else NOTHING),
            )
            for metric, found in {**first, **rest["metrics"]}.items()
            if not report["is_default"]
        ],
    )
    facts = {
        "Questions": f"{report['questions']['of']} usable ones of {report['questions']['file']}",
        "Tuned on": f"{report['tuning']['n']}, random, seed {report['seed']}",
        "Kept back": str(rest["n"]),
        "Settings tried": str(len(report["tried"])),
        "Chosen by": name,
        "Parameters for all": ", ".join(f"{key}={value}" for key, value in report["parameters"].items()),
        "Reader": report["reader"],
        "Intervals of means": interval_words(run),
        "Polyhop": run["polyhop"],
    }
    sections = (
        ReportSection("parts", "Sample and rest", (means, differences), (_PARTS, *tuning_findings(report))),
        ranges_section(run, timings, "What was tried on the sample"),
    )
    title = f"Tuning of {report['strategy']} on index {report['index']}, version {report['version']}"
    return render(title, {key: value for key, value in facts.items() if value}, sections, {})


_PARTS = (
    "A setting that was chosen on the sample looks better there than it is. What it is worth is said by the questions "
    "that were kept back; its paired difference to the default there is the test."
)


def tuning_findings(report: Document) -> list[str]:
    """Sentences on the chosen setting, its score, and how to use it."""
    name, chosen, rest = report["metric"], report["chosen"], report["rest"]
    if report["is_default"]:
        return [f"No setting has a higher {name} on the sample than the default; there is nothing to change."]
    found = rest["paired"]
    words = (
        f"{found['difference']:+.3f} [{found['low']:+.3f}, {found['high']:+.3f}], {found['wins']} wins "
        f"{found['ties']} ties {found['losses']} losses, p = {found['p']:.3g}"
    )
    is_better = found["significant"] and found["difference"] > 0
    verdict = "no more than chance, so the default is as good a choice."
    if found["significant"]:
        verdict = "better by more than chance." if is_better else "worse by more than chance: keep the default."
    best, usual = (decimal(report["tuning"][who]["mean"]) for who in ("chosen", "default"))
    use = report["use"]
    parameters = [word for one in use["param"] for word in ("--param", one)]
    command = ["polyhop", "ask", "QUESTION", "--index", report["index"], "--strategy", use["strategy"], *parameters]
    return [
        f"Highest {name} on the sample: {chosen} with {best}; the default has {usual}.",
        f"On the {plural(rest['n'], 'question')} kept back, chosen minus default: {words}: {verdict}",
        f"Nothing was changed; to use it{'' if is_better else ' all the same'}: {shlex.join(command)}",
    ]
