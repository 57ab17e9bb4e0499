"""What a published version knows about names: its entities, and the decisions of resolution.

Explains nothing (tasks/resolution/explain.py does).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from polyhop.schemas.resolution import Decision
from polyhop.schemas.settings import ResolutionSettings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import hold_version, read_manifest
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.connection import connect


@dataclass(frozen=True, slots=True)
class NameRecords:
    """What is known about some names.

    Attributes:
        entities: Key to name and type, of entities.
        decisions: Decisions about the names, in order.
        nearest: Key to the most similar names in the index.
        method: settings.resolution.method of the version.
        is_resolved: Whether names were resolved at all; the nodes of a knowledge graph are entities as they are.
    """

    entities: dict[str, tuple[str, str | None]]
    decisions: list[Decision]
    nearest: dict[str, list[str]]
    method: str
    is_resolved: bool = True


def read_name_records(layout: Layout, index: str, keys: Sequence[str]) -> NameRecords:
    """What the current version knows about these names, and about the entities that they lead to.

    Raises:
        UnknownIndexError: If there is no such index.
    """
    asked = {"keys": list(keys)}
    with hold_version(layout, index) as held, connect(held.folder.tables, read_only=True) as connection:
        manifest = read_manifest(held.folder)
        settings = manifest.settings.get("resolution", {"method": "off"})
        rows = connection.execute(statement("explain", "decisions_on_names"), asked).fetchall()
        decisions = [
            Decision(key, kind, scope, to, why, is_ambiguous=several) for key, kind, scope, to, several, why in rows
        ]
        meant = [*keys, *(decision.canonical for decision in decisions if decision.canonical)]
        found = connection.execute(statement("explain", "entities_by_keys"), {"keys": meant}).fetchall()
        near = connection.execute(statement("explain", "nearest_names"), asked).fetchall()
    nearest: dict[str, list[str]] = {}
    for key, name in near:
        nearest.setdefault(key, []).append(name)
    method = ResolutionSettings.model_validate(settings).method
    entities = {row[0]: (row[1], row[2]) for row in found}
    return NameRecords(entities, decisions, nearest, method, is_resolved="resolve" in manifest.stages)


def read_types(layout: Layout, index: str) -> list[str]:
    """Types that named entities of the current version have, sorted.

    Raises:
        UnknownIndexError: If there is no such index.
    """
    with hold_version(layout, index) as held, connect(held.folder.tables, read_only=True) as connection:
        return [row[0] for row in connection.execute(statement("explain", "types_of_entities")).fetchall()]
