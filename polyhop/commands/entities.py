"""`polyhop entities`: what became of names, and what people decide about them."""

import dataclasses
from typing import Annotated, Any

import typer

from polyhop.commands.entity_edits import app as edit_app
from polyhop.commands.options import IndexName, Json, Root, settings_of
from polyhop.output import print_json, print_line

app = typer.Typer(help="Explain how names were resolved to entities, and correct it.", no_args_is_help=True)
app.add_typer(edit_app, name="edit")

_Name = typer.Argument(help="A name, as you would write it.")


@app.command("explain")
def explain(
    a: Annotated[str, _Name],
    b: Annotated[str, _Name],
    index: IndexName,
    root: Root = None,
    json: Json = False,
) -> None:
    """Explain why two names are one entity, or why they are two."""
    from polyhop.tasks.resolution.explain import explain as explain_names
    from polyhop.tasks.resolution.explain import keys_of
    from polyhop.warehouse.files.layout import Layout
    from polyhop.warehouse.tables.decisions import read_name_records

    records = read_name_records(Layout(settings_of(root).root), index, keys_of(a, b))
    explanation = explain_names(a, b, records)
    if json:
        print_json({**dataclasses.asdict(explanation), "a": a, "b": b})
        return
    print_line(f"{a} and {b} are {'one entity' if explanation.same else 'not one entity'}: {explanation.reason}.")
    for name, similar in explanation.nearest.items():
        print_line(f"Names like {name}: {', '.join(similar) or 'none'}")
    _print_decisions(explanation.decisions)


def _print_decisions(decisions: list[Any]) -> None:
    if decisions:
        print_line("Decisions")
    for decision in decisions:
        kind = "by hand" if decision.kind == "manual" else "resolution"
        meant = decision.canonical or ("ambiguous" if decision.is_ambiguous else "nothing")
        print_line(f"  {decision.key} -> {meant}  ({kind}{', ' + decision.scope if decision.scope else ''})")
        print_line(f"    {decision.reason}")
