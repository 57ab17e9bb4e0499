"""What a published version knows about names: its entities, and the decisions of resolution.

Explains nothing (tasks/resolution/explain.py does).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.resolution import Decision
from schemas.settings import ResolutionSettings
from warehouse.files.layout import Layout
from warehouse.files.versions import read_manifest, require_version
from warehouse.tables.connection import connect
from warehouse.tables.statements import statement


@dataclass(frozen=True, slots=True)
class NameRecords:
    """What is known about some names.

    Attributes:
        entities: Key to name and type, of entities.
        decisions: Decisions about the names, in order.
        nearest: Key to the most similar names in the index.
        method: settings.resolution.method of the version.
    """

    entities: dict[str, tuple[str, str | None]]
    decisions: list[Decision]
    nearest: dict[str, list[str]]
    method: str


def read_name_records(layout: Layout, index: str, keys: Sequence[str]) -> NameRecords:
    """What the current version knows about these names, and about the entities that they lead to.

    Raises:
        UnknownIndexError: If there is no such index.
    """
    _, folder = require_version(layout, index)
    settings = ResolutionSettings.model_validate(read_manifest(folder).settings.get("resolution", {"method": "off"}))
    asked = {"keys": list(keys)}
    with connect(folder.tables, read_only=True) as connection:
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
    return NameRecords({row[0]: (row[1], row[2]) for row in found}, decisions, nearest, settings.method)
