"""`polyhop doctor`: checks the installation and says what to fix."""

from typing import TYPE_CHECKING

import typer

from polyhop.commands.options import Json, Root, settings_of
from polyhop.output import print_json, print_line

if TYPE_CHECKING:
    from polyhop.health import Check


def doctor(root: Root = None, json: Json = False) -> None:
    """Check packages, disk, stores, encoder, indexes, writers, queue, Prefect and Neo4j, and say what to fix."""
    from polyhop.health import run_checks

    checks = run_checks(settings_of(root))
    healthy = all(check.ok for check in checks)
    if json:
        print_json({"ok": healthy, "checks": [_row(check) for check in checks]})
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            print_line(f"{'ok  ' if check.ok else 'FAIL'}  {check.name:<{width}}  {check.message}")
        print_line("Everything works." if healthy else "Fix what is marked FAIL and run `polyhop doctor` again.")
    if not healthy:
        raise typer.Exit(1)


def _row(check: "Check") -> dict[str, object]:
    return {"name": check.name, "ok": check.ok, "message": check.message}
