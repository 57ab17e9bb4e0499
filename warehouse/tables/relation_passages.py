"""Which passages of a published version state the relations between some entities.

Searches no paths (worker/ranking/traversal.py does).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import hold_version
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.connection import connect

Stated = tuple[str, str, str]
"""Key of the source, label, key of the target."""


@dataclass(frozen=True, slots=True)
class RelationPassages:
    """The first passages that state a relation, ascending, and how many do in all."""

    passage_ids: tuple[str, ...]
    count: int


def read_relation_passages(
    layout: Layout, index: str, version: int, keys: Sequence[str], limit: int
) -> dict[Stated, RelationPassages]:
    """Passages of every relation from one of these entities to another, at most `limit` for each.

    Raises:
        UnknownIndexError: If there is no such index.
        UnknownIdError: If it has no such version.
    """
    with hold_version(layout, index, version) as held, connect(held.folder.tables, read_only=True) as connection:
        values = {"keys": list(keys), "limit": limit}
        rows = connection.execute(statement("connect", "relation_passages"), values).fetchall()
    return {(source, label, target): RelationPassages(tuple(ids), count) for source, label, target, count, ids in rows}
