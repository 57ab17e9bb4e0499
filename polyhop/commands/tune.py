"""`polyhop tune`: settings of a strategy tried on some questions, the best one judged on the rest; changes nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from polyhop.commands.options import IndexName, Json, Parameters, ReaderName, Root, Set, pairs, settings_of, with_reader
from polyhop.output import print_error, print_json, print_line, print_table, progress, rounded
from polyhop.schemas.printable import plural

SHOWN = 10
"""Settings that are printed: the best ones; JSON and report have them all."""


def tune(
    questions: Annotated[Path, typer.Argument(help="Questions, as polyhop eval takes them.")],
    index: IndexName,
    strategy: Annotated[
        str,
        typer.Option(
            "--strategy",
            help="With the values to try, bridge:graph_weight=.2,.35,.5; a name alone: the strategy's own values; "
            "default: that of the index.",
        ),
    ] = "",
    metric: Annotated[
        str, typer.Option("--metric", help="What the best setting is chosen by: recall@10, mrr, f1, triple_mrr, …")
    ] = "recall@5",
    sample: Annotated[
        int | None,
        typer.Option("--sample", min=1, help="Try them on that many questions, at random; default: half, at most 500."),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Of the sample; default: 13.")] = None,
    param: Parameters = None,
    reader: ReaderName = None,
    no_store: Annotated[bool, typer.Option("--no-store", help="Keep no result and no report under root.")] = False,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Try settings of a strategy on a sample of the questions, and judge the best one on the rest; changes nothing.

    Answers are read only if the metric is em or f1, or with --reader.
    """
    from polyhop.flows.tuning import tune_index
    from polyhop.schemas.requests import TuningRequest
    from polyhop.tasks.evaluation.report import ANSWER_METRICS

    settings = with_reader(settings_of(root, set_), reader if reader or metric in ANSWER_METRICS else "none")
    request = TuningRequest(
        questions=questions,
        index=index,
        strategy=strategy.strip(),
        parameters=pairs(param, "--param"),
        metric=metric.strip(),
        sample=sample,
        seed=seed,
        is_stored=not no_store,
    )
    with progress() as update:
        tuning = tune_index(settings, request, update)
    for sentence in tuning.sentences:
        print_error(sentence)
    if json:
        print_json(rounded(tuning.report))
        return
    print_tuning(tuning.report)


def print_tuning(report: Mapping[str, Any]) -> None:
    """The best settings on the sample, the default and the chosen one on both parts, and what follows from that."""
    from polyhop.tasks.evaluation.tuning import tuning_findings

    name, tuned, rest = report["metric"], report["tuning"], report["rest"]
    print_line(
        f"{report['strategy']} on '{report['index']}', version {report['version']}: {len(report['tried'])} settings on "
        f"{tuned['n']} of {report['questions']['of']} questions (random sample, seed {report['seed']})"
    )
    best = sorted(report["tried"], key=lambda one: -one["mean"])[:SHOWN]
    print_table(["setting", f"{name} on the sample", "95 % interval"], [_tried(one) for one in best])
    left = len(report["tried"]) - len(best)
    if left:
        print_line(f"  {left} more, which are lower or equal")
    print_table(
        ["choice", f"sample ({tuned['n']})", f"rest ({rest['n']})", "95 % interval of the rest"],
        [[who, tuned[who]["mean"], rest[who]["mean"], _interval(rest[who])] for who in ("default", "chosen")],
    )
    for sentence in tuning_findings(report):
        print_line(sentence)
    for label, count in report["failures"].items():
        if count:
            print_line(f"{plural(count, 'question')} of the rest failed with {label}, counted as 0")
    if report["folder"] is not None:
        print_line(f"Stored as tuning {report['run']}, with a report: {report['folder']}/report.html")


def _tried(one: Mapping[str, Any]) -> list[object]:
    return [one["label"], one["mean"], _interval(one)]


def _interval(found: Mapping[str, Any]) -> str:
    return "" if found["low"] is None else f"[{found['low']:.3f}, {found['high']:.3f}]"
