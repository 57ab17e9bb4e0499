"""The records of a version that are not as in the version before: its table `changes`.

It says how a version came about, so a full build of the same corpus need not repeat it; nothing is derived from it.
"""

from collections.abc import Mapping

import duckdb

from polyhop.schemas.errors import LossRefusedError
from polyhop.schemas.manifest import Manifest
from polyhop.schemas.tables import CHANGES
from polyhop.warehouse.build import Build
from polyhop.warehouse.files.folders import UNOPENED
from polyhop.warehouse.files.kept_records import kept_count, kept_files
from polyhop.warehouse.integrity import Damage
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.changes import compare_records
from polyhop.warehouse.tables.connection import attached
from polyhop.warehouse.tables.definitions import create_statement

FEWEST_GUARDED = 20
"""Records of a source below which a run may delete any share of them; chosen: what a person sees at a glance."""


def check_deletions(build: Build, before: Manifest, damage: Damage) -> None:
    """Refuses a run that, once its source is read, would delete too much of what the version before has of it.

    A record whose title and text are still there, under another id or in another source, counts as kept. Of a graph,
    its relations and its passages count.

    Args:
        build: The build, its source read.
        before: Manifest of the version before.
        damage: What of that version cannot be compared; where its records are damaged, their number is.

    Raises:
        LossRefusedError: If more than `corpus.max_deleted_share` of at least `FEWEST_GUARDED` records would go, or any
            records below a folder that cannot be opened.
    """
    published = build.folder.version(before.version)
    with build.tables(read_only=True) as connection:
        if build.source_name in before.sources:
            _check_records(build, connection, before, damage)
        elif not before.sources:  # a graph, or a corpus of which an earlier Polyhop kept no records
            wanted = {"passages": "deleted_passages"}
            if build.source_kind == "graph":
                wanted["relations"] = "deleted_relations"
            with attached(connection, published.tables, "before"):
                for what, name in wanted.items():
                    if what in before.tables and what not in damage.tables:
                        total, gone = connection.execute(statement("changes", name)).fetchone() or (0, 0)
                        _refuse(build, what, total, gone)


def _check_records(build: Build, connection: duckdb.DuckDBPyConnection, before: Manifest, damage: Damage) -> None:
    file, held = kept_files(build.source_name)[0], before.sources[build.source_name].records
    if file in damage.arrays:
        _refuse(build, "records", held, held - kept_count(build.staging.arrays / file))
        return
    now = [str(path) for path in sorted(build.staging.arrays.glob(kept_files("*")[0]))]
    files = {"before": [str(build.folder.version(before.version).arrays / file)], "after": now}
    (gone,) = connection.execute(statement("changes", "deleted_ids"), files).fetchone() or (0,)
    if not gone:
        return  # the usual case, which reads no text
    values = {**files, "reason": UNOPENED}
    gone, below, folder = connection.execute(statement("changes", "deleted_records"), values).fetchone() or (0, 0, "")
    if below:
        raise LossRefusedError(
            f"Folder '{folder}' of {build.source} cannot be opened, and {below:,} "
            f"{'record' if below == 1 else 'records'} below it would be deleted "
            f"from index '{build.index}'; nothing was published. Allow opening it, or say --allow-deletions."
        )
    _refuse(build, "records", held, gone)


def _refuse(build: Build, what: str, total: int, gone: int) -> None:
    share = build.settings.corpus.max_deleted_share
    if total >= FEWEST_GUARDED and gone > share * total:
        raise LossRefusedError(
            f"{gone:,} of {total:,} {what} of {build.source} in index '{build.index}' would be deleted, more than the "
            f"allowed share of {share:g} (corpus.max_deleted_share); nothing was published. Check that the source is "
            "whole; if they are to go, say --allow-deletions."
        )


def fill_changes(
    build: Build, connection: duckdb.DuckDBPyConnection, before: Manifest | None, number: int
) -> Mapping[str, int]:
    """Fills the table of the staged version; returns how many records changed, by kind.

    Where the tables of the version before cannot be read, every record counts as added.

    Args:
        build: The build, its tables filled.
        connection: Its tables.
        before: Manifest of the version before, None if there is none.
        number: The version that is being published.
    """
    connection.execute(create_statement(CHANGES))
    folders = [build.staging.arrays]
    published = build.folder.version(before.version) if before is not None else None
    if published is not None:
        folders.append(published.arrays)
    found = compare_records(connection, published.tables if published is not None else None, folders)
    connection.execute(statement("changes", "fill_changes"), {"version": number})
    return found
