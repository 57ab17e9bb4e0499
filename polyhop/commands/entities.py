"""`polyhop entities`: what became of names, and what people decide about them; every later run applies it."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer import Argument

from polyhop.commands.options import IndexName, Json, Root, settings_of
from polyhop.output import print_json, print_line
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.text import plural

if TYPE_CHECKING:
    from polyhop.schemas.extraction_schema import ExtractionSchema
    from polyhop.schemas.records import EntityEdit, Kind
    from polyhop.warehouse.files.layout import IndexFolder, Layout

entities = typer.Typer(help="Explain how names were resolved to entities, and correct it.", no_args_is_help=True)
_ARGUMENTS = {"rename": 2, "merge": 2, "split": 2, "retype": 2, "delete": 1, "list": 0, "undo": 1}
"""What can be done, and how many names, types or numbers each takes."""


@entities.command("edit")
def edit(
    action: Annotated[
        str,
        Argument(
            help="rename NAME NEW: the old name still finds it; merge A B: join two entities; split A B: separate "
            "two names; "
            "retype NAME TYPE: a type of the index, like PERSON, or NONE; delete NAME: its passages stay; "
            "list: show all edits; undo NUMBER: a number that list shows."
        ),
    ],
    index: IndexName,
    arguments: Annotated[list[str] | None, Argument(metavar="[NAME...]", help="Arguments of the edit.")] = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Rename, merge, split, retype or delete an entity, from the next run on."""
    given = arguments or []
    if action not in _ARGUMENTS:
        raise ConfigurationError(f"Unknown edit '{action}'; choose one of {', '.join(_ARGUMENTS)}.")
    if len(given) != _ARGUMENTS[action]:
        wanted = plural(_ARGUMENTS[action], "argument")
        raise ConfigurationError(f"'{action}' takes {wanted}, not {len(given)} (polyhop entities edit --help).")
    from polyhop.entity_edits import add_edit, edit_words, undo_edit
    from polyhop.warehouse.files.layout import Layout

    if action == "list":
        from polyhop.warehouse.user_files import read_edits

        edits = read_edits(_folder(index, root))
        if json:
            print_json([_row(edit) for edit in edits])
            return
        for number, edit in enumerate(edits, 1):
            print_line(f"{number}  {edit_words(edit)}")
        if not edits:
            print_line(f"Index '{index}' has no edits of entities.")
    elif action == "undo":
        undone = undo_edit(_folder(index, root), given[0])
        _report(_folder(index, root), undone, "Undone", is_json=json)
    else:
        layout = Layout(settings_of(root).root)
        saved = add_edit(layout, index, cast("Kind", action), given)
        _report(layout.index(index), saved, "Saved", is_json=json)


def _folder(index: str, root: Any) -> "IndexFolder":
    from polyhop.warehouse.files.layout import Layout
    from polyhop.warehouse.files.versions import require_version

    layout = Layout(settings_of(root).root)
    require_version(layout, index)
    return layout.index(index)


def _report(folder: "IndexFolder", edit: "EntityEdit", verb: str, *, is_json: bool) -> None:
    from polyhop.entity_edits import edit_words

    if is_json:
        print_json({**_row(edit), "file": str(folder.edits)})
        return
    print_line(f"{verb} in {folder.edits}: {edit_words(edit)}.")
    print_line(f"Apply it with: polyhop index --index {folder.name}")


def _row(edit: "EntityEdit") -> dict[str, str]:
    return {"edit": edit.kind, "key": edit.key, "other": edit.other}


_AskedName = Argument(help="A name, as you would write it.")


@entities.command("explain")
def explain(
    a: Annotated[str, _AskedName],
    b: Annotated[str, _AskedName],
    index: IndexName,
    root: Root = None,
    json: Json = False,
) -> None:
    """Explain why two names are one entity, or why they are two."""
    from polyhop.tasks.resolution.resolve import explain as explain_names
    from polyhop.tasks.resolution.resolve import keys_of
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


@entities.command("suggest")
def suggest(
    index: IndexName,
    types: Annotated[
        list[str] | None,
        Argument(
            metavar="[NAME=PATTERN...]",
            help="Types with word patterns (PROJECT='Project *') or 10 and more names (PROJECT='Osprey|Kestrel|…'); "
            "else those of the settings.",
        ),
    ] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Save the suggestions as edits.")] = False,
    root: Root = None,
    json: Json = False,
) -> None:
    """Suggest types of entities whose names fit a word pattern, or that are used like a type's examples."""
    from polyhop.schemas.records import EntityEdit, with_edit
    from polyhop.warehouse.files.layout import Layout
    from polyhop.warehouse.tables.version_rows import read_named_entities
    from polyhop.warehouse.user_files import change_edits, read_schema

    settings = settings_of(root)
    extraction = settings.extraction
    schema = read_schema("; ".join(types), "") if types else read_schema(extraction.types, extraction.schema_file)
    if not any(kind.patterns for kind in schema.types):
        raise ConfigurationError("No type has a word pattern; name one, such as PROJECT='Project *'.")
    layout = Layout(settings.root)
    named = read_named_entities(layout, index)
    rows = [
        {"key": key, "name": name, "type": kind, "suggested": suggested, "by": "pattern"}
        for key, name, kind in named
        if (suggested := schema.type_of(name)) and suggested != kind
    ]
    rows += _rows_by_examples(schema, named, layout, index)
    if accept:
        edits = [EntityEdit("retype", str(row["key"]), str(row["suggested"])) for row in rows]

        def with_all(known: "Sequence[EntityEdit]") -> "list[EntityEdit]":
            result = list(known)
            for edit in edits:
                result = list(with_edit(result, edit))
            return result

        change_edits(layout.index(index), with_all)
    if json:
        print_json({"suggestions": rows, "saved": accept})
        return
    for row in rows:
        by = ", like the examples" if row["by"] == "examples" else ""
        print_line(f"{row['suggested']}  {row['name']}  (now {row['type'] or 'without a type'}{by})")
    if not rows:
        print_line(f"Every entity of '{index}' whose name fits a pattern has its type.")
    elif accept:
        print_line(f"Saved as {plural(len(rows), 'edit')}. Apply with: polyhop index --index {index}")
    else:
        print_line("Save them with --accept, or single ones with: polyhop entities edit retype NAME TYPE")


def _rows_by_examples(
    schema: "ExtractionSchema", named: "Sequence[tuple[str, str, str | None]]", layout: "Layout", index: str
) -> list[dict[str, str | None]]:
    """Suggestions for the types that have enough examples; a name that fits a pattern is not among them."""
    from polyhop.schemas.extraction_schema import ExtractionSchema
    from polyhop.tasks.extraction import own_schema
    from polyhop.warehouse.tables.version_rows import read_mentioned_passages

    kinds = {kind.name: ExtractionSchema((kind,)) for kind in schema.types}
    examples = {
        kind.name: [key for key, name, _ in named if kinds[kind.name].type_of(name)]
        for kind in schema.types
        if len(own_schema.examples_of(kind)) >= own_schema.LEAST_EXAMPLES
    }
    enough = {kind: keys for kind, keys in examples.items() if len(keys) >= own_schema.LEAST_EXAMPLES}
    if not enough:
        return []
    every = sorted({key for keys in enough.values() for key in keys})
    passages = read_mentioned_passages(layout, index, every, own_schema.MOST_PASSAGES)
    vectors = own_schema.name_vectors(passages)
    known = {key: (name, kind) for key, name, kind in named if not schema.type_of(name)}
    return [
        {"key": key, "name": known[key][0], "type": known[key][1], "suggested": kind, "by": "examples"}
        for kind, keys in enough.items()
        for key in own_schema.names_like(keys, vectors)
        if key in known and known[key][1] != kind
    ]
