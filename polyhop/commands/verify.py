"""`polyhop verify`: do tables, arrays, vectors and Neo4j agree?"""

from typing import TYPE_CHECKING, Annotated

import typer

from polyhop.commands.options import Database, IndexName, Json, Password, Root, Set, Uri, User, settings_of
from polyhop.output import print_json, print_line

if TYPE_CHECKING:
    from polyhop.flows.verify import VerifyReport


def verify(
    index: IndexName,
    neo4j: Annotated[
        bool, typer.Option("--neo4j", help="Also compare with Neo4j (always, if --uri is given).")
    ] = False,
    repair: Annotated[bool, typer.Option("--repair", help="Fix what differs, then compare again.")] = False,
    uri: Uri = None,
    user: User = None,
    password: Password = None,
    database: Database = None,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Compare what is stored with what was published, and Neo4j with it; exit code 1 if something differs."""
    from polyhop.flows.verify import repair as repair_stores
    from polyhop.flows.verify import run_verify
    from polyhop.warehouse.graph.address import find_address

    settings = settings_of(root, set_)
    address = find_address(uri, user, password, database) if neo4j or uri else None
    report = run_verify(settings, index, address)
    if repair and not report.ok:
        if not json:
            _print(report, "before the repair", is_repaired=True)
        repair_stores(settings, report, address)
        report = run_verify(settings, index, address)
    if json:
        print_json(report.to_json())
    else:
        _print(report, f"version {report.version}")
    if not report.ok:
        raise typer.Exit(1)


def _print(report: "VerifyReport", when: str, *, is_repaired: bool = False) -> None:
    print_line(f"Index '{report.index}', {when}:")
    for name, found in report.differences.items():
        print_line(f"{'ok  ' if not found else 'FAIL'}  {name.replace('_', ' ')}")
        for sentence in found:
            print_line(f"      {sentence}")
    if not report.ok and not is_repaired:
        database = " --neo4j" if report.differences.get("neo4j") else ""
        print_line(f"Fix it with: polyhop verify --index {report.index}{database} --repair")
