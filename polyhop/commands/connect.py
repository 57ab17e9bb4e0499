"""`polyhop connect`: how two entities of an index connect."""

from typing import TYPE_CHECKING, Annotated

import typer

from polyhop.commands.options import IndexName, Json, Root, settings_of
from polyhop.output import print_json, print_line
from polyhop.schemas.printable import plural

if TYPE_CHECKING:
    from polyhop.graph_results import CitedPassage, Connection, Connections, StatedRelation

_Name = typer.Argument(help="Name of an entity, as you would write it.")


def connect(
    a: Annotated[str, _Name],
    b: Annotated[str, _Name],
    index: IndexName,
    max_length: Annotated[int, typer.Option("--max-length", min=1, max=10, help="Relations in a connection.")] = 4,
    paths: Annotated[int, typer.Option("--paths", min=1, max=1000, help="Connections to show.")] = 5,
    root: Root = None,
    json: Json = False,
) -> None:
    """Show the shortest connections between two entities, and the passages that state them."""
    from polyhop.api import open_index

    with open_index(index, settings=settings_of(root)) as opened:
        found = opened.graph.connect(a, b, max_length=max_length, paths=paths)
    if json:
        print_json(found.to_json())
        return
    print_line(_summary(found))
    for path in found.paths:
        _print_path(path)


def _summary(found: "Connections") -> str:
    """What was found, in one line."""
    length = plural(found.max_length, "relation")
    if not found.paths:
        return f"{found.a} and {found.b} are not connected by up to {length}, and no passage mentions both."
    first = found.paths[0]
    if first.via == "passage":
        return f"{found.a} and {found.b} are not connected by up to {length}; passages that mention both:"
    hops = len(first.hops)
    if not hops:
        return f"{found.a} and {found.b} are one entity:"
    return f"{found.a} and {found.b} are {hops} relation{'s' if hops > 1 else ''} apart:"


def _print_path(path: "Connection") -> None:
    """A connection on a line, and under it where each of its relations is stated."""
    print_line(f"  {path.text}")
    for passage in path.passages:
        print_line(f"    {_cited(passage)}")
    for hop in path.hops:
        for relation in hop:
            print_line(f"    {relation.relation}: {_sources(relation)}")


def _sources(relation: "StatedRelation") -> str:
    named = ", ".join(_cited(passage) for passage in relation.passages)
    more = relation.passage_count - len(relation.passages)
    return f"{named} and {more} more" if more > 0 else named or "(no passage)"


def _cited(passage: "CitedPassage") -> str:
    return f"[{passage.id}] {passage.title}".rstrip()
