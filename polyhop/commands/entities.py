"""`polyhop entities`: what became of names, and what people decide about them; every later run applies it."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyhop.commands.options import IndexName, Json, Root, settings_of
from polyhop.output import print_json, print_line
from polyhop.schemas.errors import ConfigurationError

if TYPE_CHECKING:
    from polyhop.schemas.records import EntityEdit, Kind
    from polyhop.warehouse.files.layout import IndexFolder
    from polyhop.warehouse.tables.version_rows import NameRecords


app = typer.Typer(help="Rename, merge, split, retype or delete entities, from the next run on.", no_args_is_help=True)

_Name = typer.Argument(help="A name of the entity, as you would write it.")


@app.command("rename")
def rename(
    name: Annotated[str, _Name],
    new_name: Annotated[str, typer.Argument(help="What it is called from now on; questions may use both.")],
    index: IndexName,
    root: Root = None,
    json: Json = False,
) -> None:
    """Rename an entity; its old name still finds it."""
    _note(index, root, "rename", [name], new_name.strip(), is_json=json)


@app.command("merge")
def merge(
    a: Annotated[str, _Name], b: Annotated[str, _Name], index: IndexName, root: Root = None, json: Json = False
) -> None:
    """Merge two names into one entity."""
    _note(index, root, "merge", [a, b], is_json=json)


@app.command("split")
def split(
    a: Annotated[str, _Name], b: Annotated[str, _Name], index: IndexName, root: Root = None, json: Json = False
) -> None:
    """Keep two names apart as two entities."""
    _note(index, root, "split", [a, b], is_json=json)


@app.command("retype")
def retype(
    name: Annotated[str, _Name],
    new_type: Annotated[str, typer.Argument(metavar="TYPE", help="A type of the index, like PERSON; NONE for none.")],
    index: IndexName,
    root: Root = None,
    json: Json = False,
) -> None:
    """Give an entity another type, or none."""
    _note(index, root, "retype", [name], new_type.strip().upper(), is_json=json)


@app.command("delete")
def delete(name: Annotated[str, _Name], index: IndexName, root: Root = None, json: Json = False) -> None:
    """Delete an entity and its relations; the passages that name it stay."""
    _note(index, root, "delete", [name], is_json=json)


@app.command("list")
def show(index: IndexName, root: Root = None, json: Json = False) -> None:
    """List the decisions with their numbers, as `undo` takes them."""
    from polyhop.warehouse.user_files import read_edits

    folder = _folder(index, root)
    edits = read_edits(folder)
    if json:
        print_json([_row(edit) for edit in edits])
        return
    for number, edit in enumerate(edits, 1):
        print_line(f"{number}  {_said(edit)}")
    if not edits:
        print_line(f"Nothing was decided about entities of '{index}'.")


@app.command("undo")
def undo(
    number: Annotated[int, typer.Argument(help="Number of the decision, as `list` shows it.", min=1)],
    index: IndexName,
    root: Root = None,
    json: Json = False,
) -> None:
    """Undo a decision."""
    from polyhop.warehouse.user_files import change_edits

    def without_it(edits: "Sequence[EntityEdit]") -> "list[EntityEdit]":
        if number > len(edits):
            raise ConfigurationError(f"There is no decision {number} about '{index}': it has {len(edits)}.")
        return [*edits[: number - 1], *edits[number:]]

    folder = _folder(index, root)
    before = change_edits(folder, without_it)
    _report(folder, before[number - 1], "Taken back", is_json=json)


def _note(index: str, root: Any, kind: "Kind", names: Sequence[str], other: str = "", *, is_json: bool) -> None:
    """Checks an edit against the current version and adds it to the file."""
    from polyhop.schemas.records import NO_TYPE, EntityEdit, with_edit
    from polyhop.schemas.types import HEADS
    from polyhop.tasks.resolution.explain import keys_of
    from polyhop.tasks.resolution.resolve import link_key
    from polyhop.warehouse.files.layout import Layout
    from polyhop.warehouse.tables.version_rows import read_name_records, read_types
    from polyhop.warehouse.user_files import change_edits

    layout = Layout(settings_of(root).root)
    asked = keys_of(names[0], other if kind == "rename" else names[-1])
    records = read_name_records(layout, index, asked)
    keys = [_known_key(name, records, index, as_written=kind == "split") for name in names]
    if kind in ("merge", "split"):
        other = keys[1]
        if keys[0] == keys[1]:
            wanted = "are one entity already" if kind == "merge" else "have one key and cannot be told apart"
            raise ConfigurationError(f"'{names[0]}' and '{names[1]}' {wanted} ('{keys[0]}').")
    elif kind == "rename" and link_key(other) in records.entities and link_key(other) != keys[0]:
        raise ConfigurationError(
            f"'{other}' is the name of another entity. Merge the two: polyhop entities edit merge."
        )
    elif kind == "retype":
        types = sorted({*read_types(layout, index), *HEADS.values(), NO_TYPE})
        if other not in types:
            raise ConfigurationError(f"'{other}' is not a type; choose one of {', '.join(types)}.")
    edit = EntityEdit(kind, keys[0], other)
    folder = layout.index(index)
    change_edits(folder, lambda edits: with_edit(edits, edit))
    _report(folder, edit, "Noted", is_json=is_json)


def _known_key(name: str, records: "NameRecords", index: str, *, as_written: bool) -> str:
    """Key of the entity that a name means, or of the name itself where a merge may be undone."""
    from polyhop.tasks.resolution.explain import entity_of, known_key

    if not records.is_resolved:
        raise ConfigurationError(f"The entities of '{index}' are nodes of a graph; edit the graph instead.")
    key = entity_of(name, records)
    if key is None:
        near = ", ".join(f"'{other}'" for others in records.nearest.values() for other in others[:3])
        raise ConfigurationError(
            f"No passage of '{index}' mentions '{name}', or several entities have that name. Names like it: {near}."
        )
    return known_key(name, records) if as_written else key


def _folder(index: str, root: Any) -> "IndexFolder":
    """Folder of an index that exists."""
    from polyhop.warehouse.files.layout import Layout
    from polyhop.warehouse.files.versions import require_version

    layout = Layout(settings_of(root).root)
    require_version(layout, index)
    return layout.index(index)


def _report(folder: "IndexFolder", edit: "EntityEdit", verb: str, *, is_json: bool) -> None:
    if is_json:
        print_json({**_row(edit), "file": str(folder.edits)})
        return
    print_line(f"{verb} in {folder.edits}: {_said(edit)}.")
    print_line(f"The next run applies it: polyhop index --index {folder.name}")


def _row(edit: "EntityEdit") -> dict[str, str]:
    return {"edit": edit.kind, "key": edit.key, "other": edit.other}


def _said(edit: "EntityEdit") -> str:
    """An edit in words."""
    join = {"rename": "to", "merge": "with", "split": "from", "retype": "to"}.get(edit.kind, "")
    return f"{edit.kind} '{edit.key}'" + (f" {join} '{edit.other}'" if join else "")


entities = typer.Typer(help="Explain how names were resolved to entities, and correct it.", no_args_is_help=True)
entities.add_typer(app, name="edit")

_AskedName = typer.Argument(help="A name, as you would write it.")


@entities.command("explain")
def explain(
    a: Annotated[str, _AskedName],
    b: Annotated[str, _AskedName],
    index: IndexName,
    root: Root = None,
    json: Json = False,
) -> None:
    """Explain why two names are one entity, or why they are two."""
    from polyhop.tasks.resolution.explain import explain as explain_names
    from polyhop.tasks.resolution.explain import keys_of
    from polyhop.warehouse.files.layout import Layout
    from polyhop.warehouse.tables.version_rows import read_name_records

    records = read_name_records(Layout(settings_of(root).root), index, keys_of(a, b))
    explanation = explain_names(a, b, records)
    if json:
        print_json({**dataclasses.asdict(explanation), "a": a, "b": b})
        return
    print_line(f"{a} and {b} are {'one entity' if explanation.same else 'not one entity'}: {explanation.reason}.")
    for name, similar in explanation.nearest.items():
        print_line(f"Names like {name}: {', '.join(similar) or 'none'}")
    if explanation.decisions:
        print_line("Decisions")
    for decision in explanation.decisions:
        kind = "by hand" if decision.kind == "manual" else "resolution"
        meant = decision.canonical or ("ambiguous" if decision.is_ambiguous else "nothing")
        print_line(f"  {decision.key} -> {meant}  ({kind}{', ' + decision.scope if decision.scope else ''})")
        print_line(f"    {decision.reason}")
