"""`polyhop maintain`: frees what nobody needs any more, by a policy, and says what it freed."""

from typing import TYPE_CHECKING, Annotated

import typer

from polyhop.commands.options import Json, Root, Set, settings_of
from polyhop.output import print_json, print_line, print_table

if TYPE_CHECKING:
    from polyhop.schemas.maintenance import MaintenanceReport


def maintain(
    index: Annotated[str | None, typer.Option("--index", help="Only this index; default: all.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; print what would be removed.")] = False,
    queue_days: Annotated[
        float | None,
        typer.Option(
            "--queue-days", min=0, help="Also delete jobs that ended at least this many days ago; default: none."
        ),
    ] = None,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Prune versions, free vectors, vacuum caches and queue, remove what killed runs left: settings maintenance.*."""
    from polyhop.flows.maintain import run_maintenance
    from polyhop.schemas.maintenance import MaintenanceRequest

    report = run_maintenance(settings_of(root, set_), MaintenanceRequest(index, dry_run, queue_days))
    if json:
        print_json(report.to_json())
    else:
        print_report(report)


def print_report(report: "MaintenanceReport") -> None:
    """What went, and what each part takes before and after."""
    verb = "would be removed" if report.dry_run else "removed"
    for name, numbers in report.removed_versions.items():
        if numbers:
            print_line(f"Index '{name}': versions {', '.join(map(str, numbers))} {verb}")
    for what, count in report.removed.items():
        if count:
            print_line(f"{count:,} {what} {verb}")
    for part, freed in report.compacted.items():
        print_line(f"{part}: {freed / 1e6:.1f} MB of empty pages {verb}")
    for sentence in report.skipped:
        print_line(sentence)
    _print_sizes(report)


def _print_sizes(report: "MaintenanceReport") -> None:
    """A row per part that takes space before or after, and all together."""
    rows = [
        [part.part, part.before.files, part.after.files, part.before.bytes / 1e6, part.after.bytes / 1e6]
        for part in report.parts
        if part.before.files or part.after.files
    ]
    before, after = report.before, report.after
    rows.append(["all", before.files, after.files, before.bytes / 1e6, after.bytes / 1e6])
    print_table(["part", "files before", "after", "MB before", "after"], rows)
