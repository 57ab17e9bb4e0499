"""A plain graph store in memory: what tests/contract holds Neo4j against, and a second implementation of the port.

Spreads with the embedded engine, on arrays made of the rows that it holds.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
from graph_fixture import Arrays, SmallGraph

from polyhop.schemas.errors import ContractError, MissingArtefactError, StoreConflictError
from polyhop.schemas.graph import Activation, ChainRule, Entity, SeedRule, SpreadQuestion, SpreadRule
from polyhop.schemas.ports import NODE_KINDS, RELATIONSHIP_KINDS, GraphKind, GraphRecord, GraphRow, HeldRow, NodeKind
from polyhop.worker.strategies.qasa import EmbeddedEngine, QasaRules

ENDS: Mapping[GraphKind, tuple[NodeKind, NodeKind]] = {
    "document_paragraphs": ("documents", "paragraphs"),
    "document_mentions": ("documents", "entities"),
    "paragraph_mentions": ("paragraphs", "entities"),
    "relations": ("entities", "entities"),
    "hub_entities": ("hubs", "entities"),
    "paths_of_hubs": ("hubs", "hub_paths"),
    "hub_path_entities": ("hub_paths", "entities"),
    "hub_candidates": ("hubs", "entities"),
}
BATCH = 100


@dataclass
class MemoryIndex:
    """What is kept of one index."""

    rows: dict[GraphKind, dict[str, GraphRow]] = field(default_factory=lambda: defaultdict(dict))
    epoch: int = 0
    record: GraphRecord | None = None
    dimension: int = 0


class MemoryDatabase:
    """What outlives the process: several indexes."""

    def __init__(self) -> None:
        self.indexes: defaultdict[str, MemoryIndex] = defaultdict(MemoryIndex)


class MemoryGraph:
    """Implements polyhop.schemas.ports.GraphStore."""

    def __init__(self, database: MemoryDatabase, index: str) -> None:
        self._name = index
        self._index = database.indexes[index]
        self._epoch = -1

    def prepare(self, *, has_hubs: bool) -> None:
        """Nothing to be set up."""

    def claim(self) -> None:
        self._index.epoch += 1
        self._index.record = None
        self._epoch = self._index.epoch

    def recorded(self) -> GraphRecord | None:
        return self._index.record

    def record(self, record: GraphRecord) -> None:
        self._hold()
        self._index.record = replace(record, counts=dict(record.counts))

    def hashes(self, kind: GraphKind) -> list[tuple[str, str]]:
        return [(row.id, row.hash) for row in self._index.rows[kind].values()]

    def rows(self, kind: GraphKind, probe: Sequence[float]) -> list[HeldRow]:
        return [
            HeldRow(row.id, row.hash, dict(row.properties), row.source, row.target, True, _similarity(row, probe))
            for row in self._index.rows[kind].values()
        ]

    def write(self, kind: GraphKind, rows: Iterable[GraphRow]) -> None:
        left = iter(rows)
        while part := list(islice(left, BATCH)):
            self._hold()
            self._index.rows[kind] |= {row.id: row for row in part if self._has_ends(kind, row)}

    def delete(self, kind: GraphKind, ids: Sequence[str]) -> None:
        if ids:
            self._hold()
        for key in ids:
            self._index.rows[kind].pop(key, None)
        for edges in RELATIONSHIP_KINDS if kind in NODE_KINDS else ():
            held = self._index.rows[edges]
            self._index.rows[edges] = {key: row for key, row in held.items() if self._has_ends(edges, row)}

    def index_vectors(self, dimension: int, *, is_new: bool) -> None:
        self._index.dimension = dimension

    def has_vector_index(self, dimension: int) -> bool:
        return self._index.dimension == dimension

    def spreading(self, version: int, keys: Sequence[str]) -> "MemorySpreading":
        record = self._index.record
        if record is None or record.version != version:
            held = f"version {record.version}" if record is not None else "no complete version"
            raise ContractError(f"The store holds {held} of index '{self._name}', not version {version}.")
        if not record.dimension:
            raise MissingArtefactError("vectors:entity", self._name, "qasa")
        return MemorySpreading(self._index, keys)

    def close(self) -> None:
        """Nothing is open."""

    def _hold(self) -> None:
        if self._epoch != self._index.epoch:
            raise StoreConflictError(f"Another export of index '{self._name}' has begun; this one has stopped.")
        self._index.record = None

    def _has_ends(self, kind: GraphKind, row: GraphRow) -> bool:
        if kind not in ENDS:
            return True
        source, target = ENDS[kind]
        return row.source in self._index.rows[source] and row.target in self._index.rows[target]


class MemorySpreading:
    """Implements polyhop.schemas.ports.SpreadingDatabase."""

    def __init__(self, index: MemoryIndex, keys: Sequence[str]) -> None:
        key_of: dict[str, Any] = {row.id: row.properties["folded_key"] for row in index.rows["entities"].values()}
        edges = index.rows["relations"].values()
        graph = SmallGraph(
            {key_of[row.id]: row.vector for row in index.rows["entities"].values() if key_of[row.id] in keys},
            [(key_of[row.source], row.properties["relation"], key_of[row.target]) for row in edges],
        )
        self._keys = list(keys)
        self._entities = [row.properties for row in index.rows["entities"].values()]
        self._arrays = Arrays(graph.arrays, graph.matrix)

    def named(self, folded: str, name: str) -> list[int]:
        rows = [row["folded_key"] for row in self._entities if folded == row["folded_key"] or name == row["key"]]
        return [self._keys.index(key) for key in rows if key in self._keys]

    def entities(self, numbers: Sequence[int]) -> list[Entity]:
        row_of = {row["folded_key"]: row for row in self._entities}
        rows = [row_of[self._keys[number]] for number in numbers]
        return [Entity(row["folded_key"], row["name"], row.get("type", ""), row["description"]) for row in rows]

    def activate(self, question: SpreadQuestion, seeds: SeedRule, spread: SpreadRule, chains: ChainRule) -> Activation:
        return EmbeddedEngine(self._arrays, QasaRules(seeds, spread, chains)).activate(question)  # type: ignore[arg-type]


def _similarity(row: GraphRow, probe: Sequence[float]) -> float | None:
    if row.vector is None:
        return None
    if len(row.vector) != len(probe):
        return -1.0
    one, other = np.array(row.vector), np.array(probe)
    return float((1 + one @ other / np.linalg.norm(one) / np.linalg.norm(other)) / 2)
