"""`polyhop eval`: strategies compared on questions with known passages and answers."""

from pathlib import Path
from typing import Annotated, Any

import typer

from polyhop.commands.options import IndexName, Json, Parameters, ReaderName, Root, Set, pairs, settings_of, with_reader
from polyhop.output import print_error, print_json, print_line, print_table, progress, rounded
from schemas.strategies import DEFAULT_STRATEGY

SHOWN = ("recall@2", "recall@5", "recall@10", "recall@30", "hit@10", "mrr", "em", "f1")


def evaluate(
    questions: Annotated[Path, typer.Argument(help="Questions: .jsonl {id, question, answers[], supporting[]}, …")],
    index: IndexName,
    strategies: Annotated[
        str,
        typer.Option(
            "--strategies", help="Names, separated by commas; with parameters of their own: qasa:gate=none:steps=1."
        ),
    ] = DEFAULT_STRATEGY,
    param: Parameters = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write one JSON line per question and strategy.")] = None,
    reader: ReaderName = None,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Compare strategies on a question set: recall, hit, MRR, exact match, F1, latency, paired bootstrap."""
    from polyhop.evaluation import EvaluationRequest, evaluate_index

    request = EvaluationRequest(
        questions=questions,
        index=index,
        strategies=tuple(name.strip() for name in strategies.split(",") if name.strip()),
        parameters=pairs(param, "--param"),
        out=out,
    )
    settings = with_reader(settings_of(root, set_), reader)
    with progress() as update:
        report, bad = evaluate_index(settings, request, update)
    for record in bad:
        print_error(f"{record.source} line {record.line} was left out: {record.reason}")
    if json:
        print_json(rounded(report))
        return
    print_line(f"{report['n']} questions on '{index}'")
    print_evaluation(report)


def print_evaluation(report: dict[str, Any]) -> None:
    """The comparison as a table, and what the paired bootstrap says."""
    columns = ["strategy", *SHOWN, "p50 ms", "p95 ms", "failures"]
    rows = []
    for name, result in report["strategies"].items():
        latency = result["latency_ms"]
        rows.append([name, *(result[m] for m in SHOWN), latency["p50"], latency["p95"], _count(result["failures"])])
    print_table(columns, rows)
    for name, taken in report.get("reading", {}).items():
        if taken["model"]:
            print_line(
                f"{name} read by {taken['model']}: {taken['calls']} calls, {taken['cached']} cached, "
                f"{taken['fallbacks']} read by rules instead, {taken['prompt_tokens']} + {taken['completion_tokens']} "
                f"tokens, ${taken['cost_usd']:.4f}"
            )
    first = next(iter(report["strategies"]))
    for pair, metrics in report["paired"].items():
        found = metrics.get("recall@5")
        if found is None or not pair.startswith(f"{first} vs "):
            continue
        word = "significant" if found["significant"] else "not significant"
        print_line(
            f"{pair}, recall@5: {found['difference']:+.3f} [{found['low']:+.3f}, {found['high']:+.3f}], "
            f"{found['wins']} wins {found['ties']} ties {found['losses']} losses, {word}"
        )


def _count(failures: Any) -> int:
    return failures if isinstance(failures, int) else len(failures)
