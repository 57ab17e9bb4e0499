"""Tuning: which setting of a strategy is best on some questions, how it does on the others, and its page.

The result on the sample never stands without the one on the rest. Source: algorithms.md 6.3 (SPRIG, table A.15).
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.records import QuestionRecord
from polyhop.schemas.requests import Range, parse_variant
from polyhop.tasks.evaluation.bootstrap import bootstrap_p
from polyhop.tasks.evaluation.documents import (
    COMPARED_METRICS,
    Document,
    at,
    interval,
    interval_words,
    metric,
    number,
    paired,
)
from polyhop.tasks.evaluation.metrics import CONTAINMENT
from polyhop.tasks.evaluation.page import ranges_section
from polyhop.tasks.evaluation.rendering import NOTHING, Cell, Page, Row, Section, Table, decimal, render, signed
from polyhop.tasks.evaluation.report import ANSWER_METRICS, RETRIEVAL_METRICS, long_answer_words

MOST_TUNED = 500
"""Questions that settings are tried on unless a user says otherwise: as many as SPRIG took."""
LEAST_JUDGED = 10
"""Questions that the metric judges on either side; chosen: of fewer, a single one moves the mean by a tenth."""

Rows = Sequence[Mapping[str, Any]]
"""Lines of questions.jsonl: {id, strategy, …metrics}."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the questions, evaluated.

    Attributes:
        run: The document of their run.
        rows: A line per question and strategy.
    """

    run: Document
    rows: Rows


def is_judged(record: QuestionRecord, name: str) -> bool:
    """Whether a question has what a metric needs: answers, supporting passages or golden triples."""
    if name in ANSWER_METRICS:
        return bool(record.answers)
    return bool(record.supporting if name in RETRIEVAL_METRICS else record.golden_triples)


def check_parts(parts: Sequence[Sequence[QuestionRecord]], name: str) -> None:
    """Refuses to tune on too few questions, or to judge by too few.

    Args:
        parts: The questions to tune on, and the rest.
        name: The metric.

    Raises:
        ConfigurationError: If a part has fewer than LEAST_JUDGED questions that the metric judges, or its gold answers
            are too long or too short for it.
    """
    for part in parts:
        is_long = long_answer_words(record.answers for record in part) is not None
        if name == ("em" if is_long else CONTAINMENT):
            kind = "long" if is_long else "short"
            raise ConfigurationError(f"Gold answers this {kind} are not judged by {name}; take --metric f1.")
    counts = [sum(is_judged(record, name) for record in part) for part in parts]
    if min(counts) < LEAST_JUDGED:
        raise ConfigurationError(
            f"Tuning by {name} needs at least {LEAST_JUDGED} questions that it judges on either side: there are "
            f"{counts[0]} to tune on and {counts[1]} to keep back; take more questions, another --sample, or another "
            f"--metric ({_gold_words([record for part in parts for record in part])})."
        )


def _gold_words(records: Sequence[QuestionRecord]) -> str:
    found = {
        "supporting passages": sum(bool(record.supporting) for record in records),
        "answers": sum(bool(record.answers) for record in records),
        "golden triples": sum(bool(record.golden_triples) for record in records),
    }
    return f"of {len(records)} questions, " + ", ".join(f"{count} have {what}" for what, count in found.items())


def best_setting(values: Mapping[str, float], default: str) -> str:
    """The label of the highest value: of equal ones the default, then the first in the order tried."""
    top = max(values.values())
    best = [label for label, value in values.items() if value == top]
    return default if default in best else best[0]


def tuning_document(
    name: str, default: str, tried: Range, tuning: Part, rest: Part, parameters: Mapping[str, object]
) -> dict[str, Any]:
    """What was tried on some questions, what was best, and what it is worth on the others.

    Args:
        name: The metric.
        default: The strategy without parameters of its own.
        tried: The settings tried.
        tuning: The questions that all were tried on.
        rest: Those that the default and the best one were judged on.
        parameters: Given to all of them.

    Returns:
        {strategy, metric, grid, default, chosen, is_default, tried[{label, values, mean, low, high}],
        tuning{n, default, chosen}, rest{n, default, chosen, paired, metrics}, use}; `paired` is chosen minus default
        with wins, ties, losses and p, None if the default is chosen; `metrics` has the same of the other main metrics.
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
            parameter: list(dict.fromkeys(point[place] for point in tried.points.values()))
            for place, parameter in enumerate(tried.parameters)
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
                other: _other(other, default, chosen, rest)
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


def chosen_setting(name: str, default: str, labels: Sequence[str], run: Document) -> str:
    """The best of these settings in a run.

    Raises:
        ConfigurationError: If the metric judged none of them.
    """
    values = {label: value for label in labels if (value := metric(run, label, name)) is not None}
    if not values:
        raise ConfigurationError(f"{name} judged nothing: the questions have no gold for it; take another --metric.")
    return best_setting(values, default)


def _mean(run: Document, label: str, name: str) -> dict[str, float | None]:
    bounds = interval(run, label, name) or (None, None)
    return {"mean": metric(run, label, name), "low": bounds[0], "high": bounds[1]}


def _part(name: str, default: str, chosen: str, part: Part) -> dict[str, Any]:
    judged = sum(row["strategy"] == default and row.get(name) is not None for row in part.rows)
    return {
        "n": part.run["questions"]["n"],
        "judged": judged,
        "default": _mean(part.run, default, name),
        "chosen": _mean(part.run, chosen, name),
    }


def _other(name: str, default: str, chosen: str, part: Part) -> dict[str, Any]:
    return {
        "default": metric(part.run, default, name),
        "chosen": metric(part.run, chosen, name),
        "paired": _paired(name, default, chosen, part),
    }


def _paired(name: str, default: str, chosen: str, part: Part) -> dict[str, Any] | None:
    found = paired(part.run, default).get(chosen, {}).get(name)
    if found is None:
        return None
    values = {label: _values(part.rows, label, name) for label in (default, chosen)}
    differences = [values[chosen][key] - value for key, value in values[default].items() if key in values[chosen]]
    return {**found, "p": round(bootstrap_p(np.array(differences)), 12)}


def _values(rows: Rows, label: str, name: str) -> dict[str, float]:
    return {row["id"]: row[name] for row in rows if row["strategy"] == label and row.get(name) is not None}


def tuning_page(report: Document, run: Document, timings: Document) -> str:
    """The page as HTML, complete in one file.

    Args:
        report: The JSON of `polyhop tune`.
        run: The run on the sample.
        timings: Its timings.
    """
    sections = (
        Section("parts", "Sample and rest", (_PARTS,), tables=(_parts_table(report), _rest_table(report))),
        ranges_section(run, timings, "What was tried on the sample"),
    )
    title = f"Tuning of {report['strategy']} on index {report['index']}, version {report['version']}"
    return render(Page(title, _facts(report, run), tuple(tuning_findings(report)), sections), {})


_PARTS = (
    "A setting that was chosen on the sample looks better there than it is. What it is worth is said by the questions "
    "that were kept back; its paired difference to the default there is the test."
)


def tuning_findings(report: Document) -> list[str]:
    """What was chosen, what it is worth, and how to use it, in sentences."""
    name, chosen, rest = report["metric"], report["chosen"], report["rest"]
    if report["is_default"]:
        return [f"No setting has a higher {name} on the sample than the default; there is nothing to change."]
    found = rest["paired"]
    words = (
        f"{signed(found['difference'])} [{signed(found['low'])}, {signed(found['high'])}], {found['wins']} wins "
        f"{found['ties']} ties {found['losses']} losses, p = {found['p']:.3g}"
    )
    is_better = found["significant"] and found["difference"] > 0
    best, usual = (decimal(at(report, "tuning", who, "mean")) for who in ("chosen", "default"))
    return [
        f"Highest {name} on the sample: {chosen} with {best}; the default has {usual}.",
        f"On the {rest['n']} questions kept back, chosen minus default: {words}: {_verdict(found)}",
        f"Nothing was changed; to use it{'' if is_better else ' all the same'}: {use_line(report)}",
    ]


def _verdict(found: Document) -> str:
    if not found["significant"]:
        return "no more than chance, so the default is as good a choice."
    return "better by more than chance." if found["difference"] > 0 else "worse by more than chance: keep the default."


def use_line(report: Document) -> str:
    """The command that asks with the chosen setting."""
    use = report["use"]
    words = ["polyhop", "ask", "QUESTION", "--index", report["index"], "--strategy", use["strategy"]]
    return shlex.join([*words, *(word for one in use["param"] for word in ("--param", one))])


def _facts(report: Document, run: Document) -> tuple[tuple[str, str], ...]:
    of, tuned, rest = (number(report, *keys) for keys in (("questions", "of"), ("tuning", "n"), ("rest", "n")))
    common = ", ".join(f"{key}={value}" for key, value in report["parameters"].items())
    found = (
        ("Questions", f"{of:.0f} usable ones of {report['questions']['file']}"),
        ("Tuned on", f"{tuned:.0f}, random, seed {report['seed']}"),
        ("Kept back", f"{rest:.0f}"),
        ("Settings tried", str(len(report["tried"]))),
        ("Chosen by", str(report["metric"])),
        ("Parameters for all", common),
        ("Reader", str(report["reader"])),
        ("Intervals of means", interval_words(run)),
        ("Polyhop", str(at(run, "polyhop") or "")),
    )
    return tuple((name, value) for name, value in found if value)


def _parts_table(report: Document) -> Table:
    name = report["metric"]
    rows = tuple(
        (Cell(who), Cell(report[who]), *(_mean_cell(report[part][who]) for part in ("tuning", "rest")))
        for who in ("default", "chosen")
    )
    header = ("choice", "setting", f"{name} on the sample", f"{name} on the rest")
    return Table(f"{name}: mean [95 % interval]", header, rows, name_columns=2)


def _rest_table(report: Document) -> Table:
    rest, name = report["rest"], report["metric"]
    first = {name: {"default": rest["default"]["mean"], "chosen": rest["chosen"]["mean"], "paired": rest["paired"]}}
    rows = tuple(_compared(metric, found) for metric, found in {**first, **rest["metrics"]}.items())
    header = ("metric", "default", "chosen", "chosen minus default", "wins/ties/losses", "p")
    caption = "The rest: means, paired difference [95 % interval] and p; marked where the interval excludes 0"
    return Table(caption, header, () if report["is_default"] else rows)


def _compared(name: str, found: Document) -> Row:
    means = (Cell(decimal(found["default"])), Cell(decimal(found["chosen"])))
    paired = found["paired"]
    if paired is None:
        return (Cell(name), *means, Cell(NOTHING), Cell(NOTHING), Cell(NOTHING))
    difference = f"{signed(paired['difference'])} [{signed(paired['low'])}, {signed(paired['high'])}]"
    cell = Cell(difference)
    if paired["significant"]:
        cell = Cell(difference, "better" if paired["difference"] > 0 else "worse")
    return (
        *(Cell(name), *means, cell),
        Cell("/".join(str(paired[key]) for key in ("wins", "ties", "losses"))),
        Cell(f"{paired['p']:.3g}"),
    )


def _mean_cell(found: Document) -> Cell:
    bounds = "" if found["low"] is None else f" [{decimal(found['low'])}, {decimal(found['high'])}]"
    return Cell(f"{decimal(found['mean'])}{bounds}")
