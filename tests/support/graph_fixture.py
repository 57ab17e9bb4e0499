"""Small graphs for tests of spreading activation: the same entities and relations as arrays and in Neo4j."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from neo4j_process import Neo4jServer
from numpy.typing import NDArray

from polyhop.flows.export import MAKERS, Published, graph_row
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.graph import Activation, ChainRule, RelationGraph, SeedName, SeedRule, SpreadQuestion, SpreadRule
from polyhop.schemas.ports import GRAPH_KINDS, Artefact, GraphKind, GraphStore, HeldRow
from polyhop.schemas.records import Address
from polyhop.schemas.settings import Settings
from polyhop.schemas.text import ID_LENGTH, content_hash, entity_id
from polyhop.tasks.graph.stage import relation_arrays
from polyhop.warehouse.artefacts import RELATIONS, partitioned, vectors_of
from polyhop.warehouse.graph.neo4j_server import BATCH_ROWS, Neo4jConnection
from polyhop.warehouse.graph.neo4j_store import Neo4jGraph, Neo4jStore

TOLERANCE = 1e-4


def disagreement(one: Activation, other: Activation) -> str:
    """What two engines do not agree on, in words; "" if nothing."""
    found = [[(seed.entity, seed.match) for seed in activation.seeds] for activation in (one, other)]
    if found[0] != found[1]:
        return f"seeds {found[0]} and {found[1]}"
    starts = [np.array([seed.activation for seed in activation.seeds]) for activation in (one, other)]
    if not np.allclose(*starts, rtol=0, atol=TOLERANCE):  # type: ignore[arg-type, misc]
        return f"activations of seeds {starts[0]} and {starts[1]}"
    if one.entities.tolist() != other.entities.tolist():
        return f"{len(one.entities)} entities and {len(other.entities)}"
    if not np.allclose(one.values, other.values, rtol=0, atol=TOLERANCE):
        return f"activations, by {np.abs(one.values - other.values).max()}"
    chains = [[(chain.entities, chain.hops) for chain in activation.chains] for activation in (one, other)]
    if chains[0] == chains[1]:
        return ""
    pairs = zip(one.chains, other.chains, strict=False)
    place = next((n for n, (left, right) in enumerate(pairs) if left.entities != right.entities), -1)
    return f"{len(chains[0])} and {len(chains[1])} chains, first at place {place}: {[c[place:][:1] for c in chains]}"


Edge = tuple[str, str, str]


@dataclass
class SmallGraph:
    """Entities by key with their vectors (None: without one) and relations (source, label, target)."""

    vectors: Mapping[str, Sequence[float] | None]
    edges: Sequence[Edge]

    @property
    def keys(self) -> list[str]:
        return sorted(self.vectors)

    @property
    def matrix(self) -> NDArray[np.float32]:
        width = max(len(vector) for vector in self.vectors.values() if vector is not None)
        return np.array([self.vectors[key] or [0.0] * width for key in self.keys], dtype=np.float32)

    @property
    def arrays(self) -> RelationGraph:
        number = {key: n for n, key in enumerate(self.keys)}
        names = sorted({label for _, label, _ in self.edges})
        rows = sorted((number[s], number[t], names.index(label)) for s, label, t in set(self.edges))
        columns = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        made = relation_arrays(columns[0], columns[1], columns[2], len(number))
        return RelationGraph(
            indptr=made["indptr"],  # type: ignore[arg-type]
            indices=made["indices"],  # type: ignore[arg-type]
            label_indptr=made["label-indptr"],  # type: ignore[arg-type]
            labels=made["labels"],  # type: ignore[arg-type]
            names=tuple(names),
        )

    def load(self, connection: Neo4jConnection, index: str) -> Neo4jGraph:
        """Writes it as an index of that name, in place of what was there."""
        self.write_to(Neo4jStore(connection, index))
        return Neo4jGraph(connection, index, self.keys)

    def write_to(self, store: GraphStore) -> None:
        """Writes it in place of the entities and relations that were there."""
        store.prepare(has_hubs=False)
        store.claim()
        kinds: tuple[GraphKind, ...] = ("relations", "entities")
        for kind in kinds:
            store.delete(kind, [key for key, _ in store.hashes(kind)])
        rows = [(MAKERS["entities"](_entity_row(key)), self.vectors[key]) for key in self.keys]
        store.write("entities", (graph_row(row, vector) for row, vector in rows))
        relations = [MAKERS["relations"](_relation_row(*edge)) for edge in sorted(set(self.edges))]
        store.write("relations", (graph_row(row, None) for row in relations))
        store.index_vectors(self.matrix.shape[1], is_new=True)

    def question(self, vector: Sequence[float], seeds: Mapping[str, float]) -> SpreadQuestion:
        """A question that starts at these entities: at those with 1 by name, at others by a hint of that cosine.

        The last axis of all vectors must be free: the rest of a hint goes there.
        """
        return SpreadQuestion(np.array(vector, dtype=np.float32), tuple(self._name(*seed) for seed in seeds.items()))

    def _name(self, key: str, value: float) -> SeedName:
        number = self.keys.index(key)
        if value == 1.0:
            return SeedName(key, "exact", (number,))
        hint = value * self.matrix[number].astype(np.float64)
        hint[-1] = np.sqrt(1.0 - value * value)
        return SeedName(f"like {key}", "vector", (), hint.astype(np.float32))


@dataclass(frozen=True)
class Rules:
    """Everything an engine is told, with the paper's defaults."""

    seeds: SeedRule = field(default_factory=SeedRule)
    spread: SpreadRule = field(default_factory=SpreadRule)
    chains: ChainRule = field(default_factory=ChainRule)


def ask(graph: Neo4jGraph, question: SpreadQuestion, rules: Rules | None = None) -> Activation:
    """The server's answer, duplicates among the chains still there."""
    rules = rules or Rules()
    return graph.activate(question, rules.seeds, rules.spread, rules.chains)


@dataclass(frozen=True)
class Arrays:
    """As much of an open index as the embedded engine reads."""

    relations: RelationGraph
    matrix: NDArray[np.float32]

    def artefact(self, handle: Artefact[Any]) -> Any:
        """Those that the engine asks for, of a version that is not large."""
        return {RELATIONS: self.relations, vectors_of("entity"): self.matrix, partitioned("entity"): None}[handle]


def address_of(server: Neo4jServer) -> Address:
    return Address(server.uri, server.user, server.password)


def connect_to(server: Neo4jServer) -> Neo4jConnection:
    return Neo4jConnection(address_of(server))


def on_axes(cosines: Mapping[str, float | None]) -> dict[str, list[float] | None]:
    """Vectors of length 1 with these cosines to the first axis, each with an axis of its own; the last one is free."""
    vectors: dict[str, list[float] | None] = dict.fromkeys(cosines)
    for n, (key, cosine) in enumerate(cosines.items(), start=1):
        if cosine is not None:
            vectors[key] = [cosine, *[0.0] * (len(cosines) + 1)]
            vectors[key][n] = float(np.sqrt(1.0 - cosine * cosine))  # type: ignore[index]
    return vectors


def _entity_row(key: str) -> dict[str, object]:
    names = {"entity_id": entity_id(key), "key": key, "norm_name": key, "name": key.upper()}
    unknown = dict.fromkeys(("type", "content_hash", "number"))
    return {**names, **unknown, "description": f"About {key}.", "is_named": True, "document_count": 1}


def _relation_row(source: str, label: str, target: str) -> dict[str, object]:
    ends = entity_id(source), entity_id(target)
    own_id = content_hash("relation", ends[0], label, ends[1])[:ID_LENGTH]
    stated = {"relation_id": own_id, "source_id": ends[0], "target_id": ends[1], "relation": label}
    return {**stated, "count": 1, "confidence": None, "extractor": "import", "provenance": ["p1"]}


_EDGES = [
    ("a", "wrote", "c"),
    ("c", "located-in", "d"),
    ("d", "capital-of", "e"),
    ("b", "studied-at", "c"),
    ("e", "part-of", "f"),
    ("a", "born-in", "d"),
    ("c", "mentions", "g"),
    ("d", "near", "h"),
    ("c", "written-by", "a"),
]
EIGHT = SmallGraph(on_axes({"a": 0.5, "b": 0.4, "c": 0.8, "d": 0.6, "e": 0.7, "f": 0.3, "g": None, "h": -0.2}), _EDGES)
"""The graph of G-QASA-1 (algorithms.md section 8), where a question starts in it, and what becomes of that."""
SEEDS = {"a": 1.0, "b": 0.6}
FINAL = {"a": 1.935312, "b": 1.25856, "c": 1.456, "d": 1.82784, "e": 0.801797, "f": 0.043218}


_LABELS = "Document|Paragraph|Entity|Hub|HubPath"
Hashes = dict[str, dict[str, str]]
Snapshot = dict[str, list[tuple[str, str]]]


def published_hashes(settings: Settings, index: str) -> Hashes:
    """Hash by id of every row of the current version, by kind."""
    with Published(settings, index) as published:
        return {kind: published.hashes(kind) for kind in GRAPH_KINDS}


def changes(before: Hashes, after: Hashes) -> dict[str, int]:
    """Rows created, updated and deleted between two versions, all kinds together."""
    counts: Counter[str] = Counter(created=0, updated=0, deleted=0)
    for kind in GRAPH_KINDS:
        old, new = before[kind], after[kind]
        counts["created"] += len(new.keys() - old.keys())
        counts["deleted"] += len(old.keys() - new.keys())
        counts["updated"] += sum(old[key] != new[key] for key in old.keys() & new.keys())
    return dict(counts)


def snapshot(connection: Neo4jConnection, index: str) -> Snapshot:
    """Everything the database holds of an index, by kind, but the record of the export and the index's own name."""
    store = Neo4jStore(connection, index)

    def shown(row: HeldRow) -> str:
        return json.dumps(asdict(row), sort_keys=True)

    return {kind: sorted((row.id, shown(row)) for row in store.rows(kind, [1.0])) for kind in GRAPH_KINDS}


def mark_all(connection: Neo4jConnection, index: str) -> None:
    """Puts a mark on every node of an index and every relationship that leaves one; writing a row again wipes it."""
    for what in (f"(n:{_LABELS} {{index: $index}})", f"(:{_LABELS} {{index: $index}})-[n]->()"):
        connection.write([(f"MATCH {what} SET n.marked = true", {"index": index})])


def wipe_marks(connection: Neo4jConnection, index: str) -> int:
    """Takes the marks away and counts them."""
    statements = (
        f"MATCH (n:{_LABELS} {{index: $index, marked: true}}) REMOVE n.marked RETURN count(n) AS count",
        f"MATCH (:{_LABELS} {{index: $index}})-[r]->() WHERE r.marked REMOVE r.marked RETURN count(r) AS count",
    )
    counted = connection.write([(statement, {"index": index}) for statement in statements])
    return sum(int(rows[0]["count"]) for rows in counted)


def assert_whole_batches(connection: Neo4jConnection, index: str, wanted: Hashes) -> None:
    """Of a first export that was cut short, every kind is there completely or in whole batches."""
    store = Neo4jStore(connection, index)
    for kind in GRAPH_KINDS:
        count = len(store.hashes(kind))
        assert count == len(wanted[kind]) or count % BATCH_ROWS[kind] == 0, f"{count} {kind}"


class KilledBefore(DirectRunner):
    """Ends before the step of that name, as a killed process would."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def step(self, name: str, run: Callable[[], Any]) -> Any:
        if name == f"export {self._name}":
            raise KeyboardInterrupt
        return super().step(name, run)
