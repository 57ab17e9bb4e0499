"""`polyhop diagnose`: what the names in questions reach in an index, and what its graphs look like."""

from pathlib import Path
from typing import Annotated, Any

import typer

from polyhop.commands.options import IndexName, Json, Parameters, Root, Set, pairs, settings_of
from polyhop.output import print_error, print_json, print_line, print_table, progress, rounded
from polyhop.schemas.printable import plural

_STRATEGIES = "graph,graph-hybrid"


def diagnose(
    index: IndexName,
    questions: Annotated[
        Path | None,
        typer.Argument(help="Questions: .jsonl {id, question, supporting[]}, …; without, only graphs are described."),
    ] = None,
    strategies: Annotated[
        str, typer.Option("--strategies", help="Strategies whose rankings are judged per bucket, separated by commas.")
    ] = _STRATEGIES,
    param: Parameters = None,
    hub_top_percent: Annotated[
        float,
        typer.Option("--hub-top-percent", min=0, max=100, help="Share of the entities to prune, in %."),
    ] = 1.0,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Say what questions' names reach (no entity, no gold title, a gold title), what pruning costs, how big graphs are.

    --param names what makes entities equal, as for graph: entity_norm=lower, title_aliases=true.
    """
    from polyhop.diagnosis import DiagnosisRequest
    from polyhop.diagnosis import diagnose as diagnose_index
    from polyhop.schemas.requests import names_in

    request = DiagnosisRequest(
        index=index,
        questions=questions,
        strategies=tuple(dict.fromkeys(names_in(strategies))),
        nodes=pairs(param, "--param"),
        hub_top_percent=hub_top_percent,
    )
    with progress() as update:
        report, bad = diagnose_index(settings_of(root, set_), request, update)
    for record in bad:
        print_error(f"{record.source} line {record.line} was left out: {record.reason}")
    if json:
        print_json(rounded(report))
        return
    print_diagnosis(report)


def print_diagnosis(report: dict[str, Any]) -> None:
    """Tables in words: what names reach, what pruning costs, what the graphs look like."""
    if "buckets" in report:
        _print_questions(report)
    else:
        print_line(f"'{report['index']}', version {report['version']}")
    print_line()
    graphs = report["graphs"]
    if graphs:
        names = list(next(iter(graphs.values())))
        rows = [[name.replace("_", " "), *(found[name] for found in graphs.values())] for name in names]
        print_table(["", *(f"{graph} graph" for graph in graphs)], rows)
        print_line()
    _print_propositions(report)


def _print_questions(report: dict[str, Any]) -> None:
    print_line(f"{plural(report['n'], 'question')} on '{report['index']}', version {report['version']}")
    if report["excluded"]:
        print_line(f"  {report['excluded']} more name no supporting passage of the index")
    labels = list(report["buckets"]["all"]["strategies"])
    columns = [f"{label} {metric}" for label in labels for metric in ("R@10", "MRR")]
    rows = []
    for bucket, row in report["buckets"].items():
        values = [row["strategies"][label][metric] for label in labels for metric in ("recall@10", "mrr")]
        rows.append([bucket.replace("_", " "), row["n"], f"{100 * row['share']:.1f} %", *values])
    print_table(["names reach", "questions", "share", *columns], rows)
    for label, failed in report["failed"].items():
        for one in failed:
            print_line(f"  {label} failed on {one['id']}, which counts 0: {one['error']}")
    pruning = report["hub_pruning"]
    print_line()
    print_line(
        f"Without the top {pruning['hub_top_percent']:g} % of entities ({pruning['hubs']:,}): "
        f"{len(pruning['removed'])} of {pruning['titles']} gold titles gone ({100 * pruning['title_share']:.2f} %), "
        f"{pruning['touched']} of {pruning['questions']} questions touched ({100 * pruning['question_share']:.2f} %)"
    )


def _print_propositions(report: dict[str, Any]) -> None:
    found = report["propositions"]
    if found is None:
        from polyhop.schemas.errors import MissingArtefactError

        wanted_by = "The graph over propositions"
        print_line(str(MissingArtefactError("graph:propositions", report["index"], "proprag", wanted_by)))
        return
    rows = [[name.replace("_", " "), count] for name, count in found.items() if name != "synonym_recall"]
    print_table(["", "proposition graph"], rows)
    if found["synonym_recall"] is not None:
        print_line(f"The search for similar names found {100 * found['synonym_recall']:.1f} % of the exact neighbours.")
