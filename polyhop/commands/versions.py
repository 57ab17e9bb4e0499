"""`polyhop versions`: what was published, and rolling back."""

from typing import Annotated

import typer

from polyhop.commands.options import IndexName, Json, Root, settings_of
from polyhop.output import print_error, print_json, print_line, print_table
from polyhop.schemas.errors import ManifestMismatchError


def versions(
    index: IndexName,
    use: Annotated[int | None, typer.Option("--use", help="Make this version the current one (roll back).")] = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """List the published versions of an index, or make one of them current."""
    from polyhop.warehouse.files.layout import Layout
    from polyhop.warehouse.files.versions import (
        point_to,
        published_versions,
        read_manifest,
        require_version,
        writer_lease,
    )

    layout = Layout(settings_of(root).root)
    folder = layout.index(index)
    current, chosen = require_version(layout, index, use)
    if use is not None:
        read_manifest(chosen)  # refuses what could not be asked afterwards
        with writer_lease(folder.lease, index):
            point_to(folder, use)
    rows = []
    for number in published_versions(folder):
        row: dict[str, object] = {"version": number, "current": number == current}
        try:
            manifest = read_manifest(folder.version(number))
        except ManifestMismatchError as error:
            print_error(f"Version {number} cannot be used: {error}")
            rows.append({**row, "source": None})
        else:
            rows.append({**row, "source": manifest.source, **manifest.counts})
    if json:
        print_json(rows)
        return
    columns = ["version", "", "documents", "passages", "entities", "relations", "propositions", "source"]
    print_table(
        columns,
        [[*(("current" if row["current"] else "") if c == "" else row.get(c) for c in columns)] for row in rows],
    )
    if use is not None:
        print_line(f"Version {use} of '{index}' is current.")
