"""`polyhop score`: predictions made anywhere against their gold answers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyhop.commands.options import Json, Root
from polyhop.output import print_error, print_json, print_line, rounded
from polyhop.schemas.errors import SourceError
from polyhop.schemas.printable import plural

if TYPE_CHECKING:
    from polyhop.schemas.corpus import BadRecord


def score(
    predictions: Annotated[
        Path, typer.Argument(help="Predictions: .jsonl, .csv or .parquet of {id, prediction, answers[]}.")
    ],
    out: Annotated[Path | None, typer.Option("--out", help="Write one JSON line per prediction.")] = None,
    hotpot_yes_no: Annotated[
        bool, typer.Option("--hotpot-yes-no", help="F1 as HotpotQA's own script: a wrong yes or no shares nothing.")
    ] = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Score the good lines of a file with bad ones.")] = False,
    root: Root = None,
    json: Json = False,
) -> None:
    """Score predictions by exact match and token F1 (SQuAD's normalisation, the best of several gold answers)."""
    del root  # every command takes it; this one reads and writes no index
    from polyhop.tasks.evaluation.scoring import mean_scores, score_rows
    from polyhop.warehouse.files.predictions import read_predictions

    rows, bad = read_predictions(predictions)
    _check(predictions, len(rows), bad, skip_bad=skip_bad)
    scores = score_rows(rows, hotpot_yes_no=hotpot_yes_no)
    if out is not None:
        from polyhop.warehouse.files.json_lines import write_json_lines

        lines = (
            {
                "id": row.id,
                "prediction": row.prediction,
                "answers": row.answers,
                "em": found.em if found else None,
                "f1": found.f1 if found else None,
            }
            for row, found in zip(rows, scores, strict=True)
        )
        write_json_lines(out, lines, "the scores")
    means = rounded(mean_scores(scores))
    if json:
        print_json(means)
        return
    judged = sum(found is not None for found in scores)
    if not judged:
        print_line(f"{plural(means['n'], 'prediction')}, none with a gold answer to judge it by")
        return
    print_line(
        f"{plural(means['n'], 'prediction')}, {judged} judged: exact match {means['em']:.3f}, F1 {means['f1']:.3f}"
    )


def _check(path: Path, count: int, bad: "list[BadRecord]", *, skip_bad: bool) -> None:
    """Lists what is left out.

    Raises:
        SourceError: If a line is bad and may not be left out, or none is good.
    """
    if bad and not skip_bad:
        first = bad[0]
        raise SourceError(
            f"Nothing was scored: {plural(len(bad), 'line')} of {path} cannot be used; the first is line {first.line}: "
            f"{first.reason}. Fix them, or leave them out with --skip-bad."
        )
    for record in bad:
        print_error(f"{record.source} line {record.line} was left out: {record.reason}")
    if not count:
        raise SourceError(f"Nothing was scored: there is no usable prediction in {path}.")
