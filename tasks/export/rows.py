"""Published tables as nodes and relationships with a hash each, and what a database lacks of them (pure).

Source: algorithms.md 1.2.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polyhop.schemas.ports import GraphKind, GraphRow
from polyhop.schemas.text import ID_LENGTH, content_hash


@dataclass(frozen=True, slots=True)
class ExportRow:
    """A node, or a relationship (with ends): an id unique in kind and index, properties, row of its vector or None."""

    id: str
    properties: Mapping[str, Any]
    source: str = ""
    target: str = ""
    number: int | None = None

    @property
    def hash(self) -> str:
        """sha256 over everything that is written of it."""
        return row_hash(self.properties, self.source, self.target)


def row_hash(properties: Mapping[str, Any], source: str | None, target: str | None) -> str:
    """sha256 over properties and ends, alike before writing and after reading; the vector has `content_hash`."""
    shown = {name: value for name, value in properties.items() if value is not None}
    return content_hash(json.dumps([source or "", target or "", shown], sort_keys=True, ensure_ascii=False))


def graph_row(row: ExportRow, vector: Sequence[float] | None) -> GraphRow:
    """A row as a graph store takes it."""
    properties = {name: value for name, value in row.properties.items() if value is not None}
    return GraphRow(row.id, row.hash, properties, row.source, row.target, vector)


def _document(row: Mapping[str, Any]) -> ExportRow:
    return ExportRow(row["document_id"], {"title": row["title"], "paragraph_count": row["passage_count"]})


def _paragraph(row: Mapping[str, Any]) -> ExportRow:
    shown = {"text": row["text"], "doc_title": row["title"], "text_hash": row["content_hash"]}
    return ExportRow(row["passage_id"], shown | {"ordinal": row["ordinal"], "record_id": row["record_id"]})


def _entity(row: Mapping[str, Any]) -> ExportRow:
    properties = {
        "key": row["norm_name"],
        "folded_key": row["key"],
        "name": row["name"],
        "type": row["type"],
        "description": row["description"],
        "content_hash": row["content_hash"],
        "is_named": row["is_named"],
        "doc_count": row["document_count"],
    }
    return ExportRow(row["entity_id"], properties, number=row["number"])


def _edge(kind: str, row: Mapping[str, Any], source: str, target: str, *names: str) -> ExportRow:
    ends = row[source], row[target]
    key = content_hash(kind, *ends)[:ID_LENGTH]
    return ExportRow(key, {name: row[name] for name in names}, *ends)


def _relation(row: Mapping[str, Any]) -> ExportRow:
    names = ("relation", "count", "confidence", "extractor", "provenance")
    return ExportRow(row["relation_id"], {n: row[n] for n in names}, row["source_id"], row["target_id"])


def _hub(row: Mapping[str, Any]) -> ExportRow:
    names = ("definition", "index_level", "path_count", "left_out_count", "graph_hash")
    return ExportRow(row["hub_id"], {name: row[name] for name in names})


def _hub_path_id(row: Mapping[str, Any]) -> str:
    """Id of a path's node: hashes of paths are unique in a hub only."""
    return content_hash("hub path", row["hub_id"], row["path_hash"])[:ID_LENGTH]


def _hub_path(row: Mapping[str, Any]) -> ExportRow:
    names = ("hub_id", "path_hash", "length", "text", "textualiser", "end_kind")
    return ExportRow(_hub_path_id(row), {name: row[name] for name in names})


def _path_of_hub(row: Mapping[str, Any]) -> ExportRow:
    ends = {"source": row["hub_id"], "target": _hub_path_id(row)}
    return _edge("hub path", {**ends, "ordinal": row["ordinal"]}, "source", "target", "ordinal")


def _hub_path_entity(row: Mapping[str, Any]) -> ExportRow:
    ends = _hub_path_id(row), row["entity_id"]
    key = content_hash("passes", str(row["ordinal"]), *ends)[:ID_LENGTH]  # a path may pass an entity again
    return ExportRow(key, {"ordinal": row["ordinal"], "relation": row["relation"]}, *ends)


MAKERS: Mapping[GraphKind, Callable[[Mapping[str, Any]], ExportRow]] = {
    "documents": _document,
    "paragraphs": _paragraph,
    "entities": _entity,
    "document_paragraphs": lambda row: _edge("has", row, "document_id", "passage_id"),
    "document_mentions": lambda row: _edge("document", row, "document_id", "entity_id"),
    "paragraph_mentions": lambda row: _edge("paragraph", row, "passage_id", "entity_id", "tf"),
    "relations": _relation,
    "hubs": _hub,
    "hub_paths": _hub_path,
    "hub_entities": lambda row: _edge("hub", row, "hub_id", "entity_id"),
    "paths_of_hubs": _path_of_hub,
    "hub_path_entities": _hub_path_entity,
    "hub_candidates": lambda row: _edge("candidate", row, "hub_id", "next_entity_id", "kind", "path_hash"),
}
"""How the row of a table becomes a row of each kind."""


# Source: architecture.md section 7. Cost: O(rows).


@dataclass(frozen=True, slots=True)
class Difference:
    """Ids that differ between tables and database, ascending; what stands there twice is surplus, and missing."""

    missing: tuple[str, ...]
    changed: tuple[str, ...]
    surplus: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many differ."""
        return len({*self.missing, *self.changed, *self.surplus})


def compare(expected: Mapping[str, str], stored: Iterable[tuple[str, str]]) -> Difference:
    """The difference between hashes by id that should be there and (id, hash) that are."""
    pairs = list(stored)
    repeated = {key for key, times in Counter(key for key, _ in pairs).items() if times > 1}
    held = {key: digest for key, digest in pairs if key not in repeated}
    return Difference(
        missing=tuple(sorted(expected.keys() - held.keys())),
        changed=tuple(sorted(key for key in expected.keys() & held.keys() if expected[key] != held[key])),
        surplus=tuple(sorted((held.keys() - expected.keys()) | repeated)),
    )


def wanted_rows(rows: Iterable[ExportRow], difference: Difference) -> Iterable[ExportRow]:
    """The rows that have to be written."""
    wanted = {*difference.missing, *difference.changed}
    return (row for row in rows if row.id in wanted)
