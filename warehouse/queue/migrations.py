"""Bringing a queue's tables to the newest version: numbered files, each applied once, in order.

Invariant: processes that open a queue at once line up; a killed one leaves the version before or after, never between.
"""

from pathlib import Path

from sqlalchemy import inspect, text

from polyhop.schemas.errors import ManifestMismatchError
from polyhop.warehouse.queue.dialects import Database
from polyhop.warehouse.queue.statements import MIGRATIONS_FOLDER
from polyhop.warehouse.queue.transactions import Transaction, transact
from polyhop.warehouse.statements import read_statements


def migrations() -> dict[int, Path]:
    """{version: file}, by version; a file is called NNNN_name.sql."""
    return {int(path.name.split("_", 1)[0]): path for path in sorted(MIGRATIONS_FOLDER.glob("*.sql"))}


def migrate(database: Database, patience_seconds: float) -> None:
    """Applies what is missing.

    Raises:
        ManifestMismatchError: If the tables were made by a newer Polyhop.
        StoreError: If the database cannot be used.
    """
    newest = newest_version()
    applied = transact(database, patience_seconds, applied_version, "read", is_opening=True)
    if applied < newest:
        applied = transact(database, patience_seconds, lambda tx: _apply(tx, database), "durable")
    if applied > newest:
        raise ManifestMismatchError(
            f"The question queue {database.where} has tables of version {applied}, this Polyhop knows {newest}: "
            "upgrade Polyhop."
        )


def newest_version() -> int:
    """The version that opening a queue brings its tables to."""
    return max(migrations())


def applied_version(tx: Transaction) -> int:
    """The version of a database's tables, 0 if there are none."""
    if not inspect(tx.connection).has_table("schema_migrations"):
        return 0
    return int(tx.rows("migrate.applied")[0]["version"])


def _apply(tx: Transaction, database: Database) -> int:
    database.lock_migrations(tx.connection)
    tx.run("migrate.create_migrations")
    applied = int(tx.rows("migrate.applied")[0]["version"])
    for version, path in migrations().items():
        if version > applied:
            for sql in read_statements(path).values():
                tx.connection.execute(text(sql))
            tx.run("migrate.add_migration", version=version, name=path.stem, now=tx.now)
            applied = version
    return applied
