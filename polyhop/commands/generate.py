"""`polyhop generate`: a corpus of any size with questions, for scale tests and sweeps."""

from pathlib import Path
from typing import Annotated

import typer

from polyhop.commands.options import Json, Root
from polyhop.output import print_json, print_line
from polyhop.schemas.printable import plural

_QUESTIONS = 200  # without --questions; as many as `polyhop sweep` asks by default


def generate(
    folder: Annotated[Path, typer.Argument(help="Folder for corpus.jsonl and questions.jsonl.")],
    passages: Annotated[int, typer.Option("--passages", help="Passages, at least 20.")] = 1000,
    questions: Annotated[
        int | None,
        typer.Option("--questions", help="Questions, at most as many as passages (default 200, or so many)."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same files.")] = 13,
    root: Root = None,
    json: Json = False,
) -> None:
    """Write a generated corpus (names by Zipf's law) and questions of two to four hops with gold passages."""
    del root  # every command takes it; this one reads and writes no index
    from polyhop.generation import write_generated

    wanted = min(_QUESTIONS, passages) if questions is None else questions
    report = write_generated(folder, passages, wanted, seed)
    if json:
        print_json(report.to_json())
        return
    print_line(f"{plural(report.passage_count, 'passage')} and {plural(report.question_count, 'question')} written")
    print_line(f"  index them with:  polyhop index {report.corpus} --index generated")
    print_line(f"  evaluate with:    polyhop eval {report.questions} --index generated")
