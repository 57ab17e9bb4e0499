"""`polyhop eval`: strategies compared on questions with known passages and answers; stored, listed, compared."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyhop.commands.evaluation_text import print_comparison, print_evaluation, print_stored, question_count
from polyhop.commands.options import (
    Json,
    MinConfidence,
    Parameters,
    ReaderName,
    Root,
    Set,
    Where,
    pairs,
    settings_of,
    with_reader,
)
from polyhop.output import print_error, print_json, print_line, progress, rounded
from polyhop.schemas.errors import ConfigurationError, GateFailedError

if TYPE_CHECKING:
    from polyhop.flows.evaluation.run import Evaluation
    from polyhop.schemas.requests import EvaluationRequest
    from polyhop.schemas.settings import Settings

Strategies = Annotated[
    str | None,
    typer.Option(
        "--strategies",
        help="Names, separated by commas, 'all', or 'own' (those that the index was built for); with parameters of "
        "their own, qasa:gate=none:steps=1, also "
        "several values, qasa:decay=.3,.5,.7, and ranges, proprag:beam_width=1..6; default: that of the index.",
    ),
]
Baselines = Annotated[
    list[str] | None,
    typer.Option("--baseline", help="What the others are compared with; default: the first; may be repeated."),
]
Gates = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-below",
        help="Exit 1 if a metric is lower: recall@5=.65, bridge:em=.1, triple_mrr=.9; may be repeated.",
    ),
]


def evaluate(
    questions: Annotated[
        Path | None,
        typer.Argument(help="Questions: .jsonl {id, question, answers[], supporting[], golden_triples[]}, …"),
    ] = None,
    index: Annotated[str | None, typer.Option("--index", help="Name of the index.")] = None,
    strategies: Strategies = None,
    where: Where = None,
    param: Parameters = None,
    baseline: Baselines = None,
    sample: Annotated[
        int | None, typer.Option("--sample", min=1, help="Ask that many of the questions, chosen at random.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Of the sample: the same number, the same questions; default: 13.")
    ] = None,
    rest: Annotated[bool, typer.Option("--rest", help="Ask the questions that the sample leaves out.")] = False,
    fail_below: Gates = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write one JSON line per question and strategy.")] = None,
    no_store: Annotated[bool, typer.Option("--no-store", help="Keep no evaluation and no report under root.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the stored evaluations.")] = False,
    compare: Annotated[
        tuple[int, int] | None, typer.Option("--compare", help="What changed between two stored evaluations.")
    ] = None,
    min_confidence: MinConfidence = None,
    reader: ReaderName = None,
    closed_book: Annotated[
        bool,
        typer.Option("--closed-book", help="One more row: the model answers without passages (with --reader model)."),
    ] = False,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Compare strategies on a question set: recall, hit, MRR, exact match, F1, latency, paired bootstrap."""
    settings = with_reader(settings_of(root, set_), reader)
    if list_ or compare is not None:
        _check_no_questions(questions)
    if list_:
        _list(settings, json=json)
        return
    if compare is not None:
        _compare(settings, *compare, json=json)
        return
    if questions is None or index is None:
        raise ConfigurationError(
            "polyhop eval needs a question file and an index: polyhop eval QUESTIONS --index NAME "
            "(stored evaluations: --list, --compare A B)."
        )
    from polyhop.schemas.requests import EvaluationRequest

    request = EvaluationRequest(
        questions=questions,
        index=index,
        strategies=() if strategies is None else (strategies,),
        parameters=pairs(param, "--param"),
        out=out,
        baselines=tuple(baseline or ()),
        fail_below=tuple(fail_below or ()),
        min_confidence=min_confidence,
        is_stored=not no_store,
        sample=sample,
        seed=seed,
        asks_rest=rest,
        closed_book=closed_book,
        where=where,
    )
    _evaluate(settings, request, json=json)


def _check_no_questions(questions: Path | None) -> None:
    if questions is not None:
        raise ConfigurationError("--list and --compare look at stored evaluations; leave the question file out.")


def _evaluate(settings: "Settings", request: "EvaluationRequest", *, json: bool) -> None:
    """Evaluates, stores, prints, and only then fails where a gate does."""
    from polyhop.flows.evaluate import evaluate_index
    from polyhop.tasks.evaluation.gate import failure_sentence

    with progress() as update:
        evaluation = evaluate_index(settings, request, update)
    _print(evaluation, json=json)
    sentence = failure_sentence(evaluation.report["gates"])
    if sentence is not None:
        raise GateFailedError(sentence)


def _print(evaluation: "Evaluation", *, json: bool) -> None:
    from polyhop.flows.evaluate import left_out_sentences

    report = evaluation.report
    for sentence in left_out_sentences(evaluation):
        print_error(sentence)
    if json:
        print_json(rounded(report))
        return
    print_line(f"{question_count(report['n'], report['sample'])} on '{report['index']}', version {report['version']}")
    print_evaluation(report)
    if report["folder"] is not None:
        print_line(f"Stored as evaluation {report['run']}, with a report: {report['folder']}/report.html")


def _list(settings: "Settings", *, json: bool) -> None:
    from polyhop.flows.evaluation.store import stored_rows

    rows = stored_rows(settings)
    if json:
        print_json(rounded(rows))
        return
    print_stored(rows)


def _compare(settings: "Settings", first: int, second: int, *, json: bool) -> None:
    from polyhop.flows.evaluation.store import compare

    changes = compare(settings, first, second)
    if json:
        print_json(rounded(changes))
        return
    print_comparison(changes)
