"""One index in a Neo4j database: schema, rows, the record of the version, and spreading activation in one query.

Implements polyhop.schemas.ports.GraphStore. Every write holds the index's
record, so that of two exports only the later one can write. Source: architecture.md section 7, algorithms.md 1.2.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import AlgorithmError, ContractError, MissingArtefactError, StoreConflictError, StoreError
from polyhop.schemas.graph import (
    Activation,
    ActivationSeed,
    Chain,
    ChainRule,
    Entity,
    Hop,
    Match,
    SeedRule,
    SpreadQuestion,
    SpreadRule,
)
from polyhop.schemas.ports import GRAPH_KINDS, GraphKind, GraphRecord, GraphRow, HeldRow
from polyhop.warehouse.graph.neo4j_server import BATCH_ROWS, Neo4jConnection, entity_label, file_of, vector_index
from polyhop.warehouse.statements import activation_query, cypher

# Source: algorithms.md 1.6.

_FETCH = 200
"""Candidates of a vector search: with fewer the search, which is approximate, misses some of the nearest (measured)."""

_SURENESS: tuple[Match, ...] = ("vector", "alias", "exact")


class Neo4jGraph:
    """An exported version of an index that answers questions.

    Attributes:
        round_trips: Queries sent so far: one per question, and of a thin client one per name and one for descriptions.
    """

    def __init__(self, connection: Neo4jConnection, index: str, keys: Sequence[str]) -> None:
        """Takes an open server, the index's name, and the keys of its named entities in number order."""
        self._connection = connection
        self._index = index
        self._keys = keys
        self._number_of = {key: number for number, key in enumerate(keys)}
        self.round_trips = 0

    def activate(self, question: SpreadQuestion, seeds: SeedRule, spread: SpreadRule, chains: ChainRule) -> Activation:
        """Seeds, activations and chains of a question from one query, none without names; chains may repeat."""
        begun = time.perf_counter()
        rules = rule_values(len(question.names), seeds, spread, chains)
        values = question_values(question, self._keys) | rules | {"vector_index": vector_index(self._index)}
        records = self._read(activation_query(spread.steps, chains.max_length), values)
        seconds = {"seed": 0.0, "traversal": time.perf_counter() - begun}
        if not records:
            return Activation((), np.zeros(0, np.intp), np.zeros(0), seconds=seconds)
        record = records[0]
        numbers = [self._number_of[key] for key in record["keys"]]
        entities = np.array(numbers, dtype=np.intp)
        order = np.argsort(entities)
        matches: dict[int, Match] = {}
        for name in question.names:
            for entity in name.entities:
                matches[entity] = max(matches.get(entity, "vector"), name.match, key=_SURENESS.index)
        found = [(self._number_of[key], float(score)) for key, score in record["seeds"]]
        largest = max(score for _, score in found)
        made = [
            ActivationSeed(entity, score, score / largest, matches.get(entity, "vector")) for entity, score in found
        ]
        labels: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
        for row in record["relations"]:
            labels[numbers[row["source"]], numbers[row["target"]]].append(row["relation"])
        return Activation(
            seeds=tuple(sorted(made, key=lambda seed: (-round(seed.activation, 12), seed.entity))),  # algorithms.md 0.3
            entities=entities[order],
            values=np.array(record["values"], dtype=np.float64)[order],
            chains=[_chain([numbers[n] for n in row["entities"]], row["score"], labels) for row in record["found"]],
            is_cut=bool(record["is_cut"]),
            seconds=seconds,
        )

    def named(self, folded: str, name: str) -> list[int]:
        """Numbers of the entities whose key is the folded name, or whose name is `name` (`norm_ws`), in no order."""
        rows = self._read(cypher("entities", "entities_by_name"), {"folded": folded, "name": name})
        return [self._number_of[row["key"]] for row in rows]

    def entities(self, numbers: Sequence[int]) -> list[Entity]:
        """Entities as people see them, in the order asked."""
        keys = [self._keys[number] for number in numbers]
        rows = self._read(cypher("entities", "described_entities"), {"keys": keys}) if keys else []
        found = {row["key"]: Entity(**row) for row in rows}
        for key in keys:
            if key not in found:
                raise StoreError(
                    f"Neo4j holds no entity '{key}' of index '{self._index}'; "
                    f"run: polyhop verify --index {self._index} --neo4j --repair"
                )
        return [found[key] for key in keys]

    def _read(self, text: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        self.round_trips += 1
        return self._connection.read(text, {**values, "index": self._index})


def question_values(question: SpreadQuestion, keys: Sequence[str]) -> dict[str, Any]:
    """The question as parameters of the query."""
    for name in question.names:
        if not name.entities and name.vector is None:
            raise AlgorithmError(
                f"'{name.name}' is not the name of an entity; encode its hint with the question first."
            )
    names = [
        {"keys": [keys[number] for number in name.entities], "vector": None if name.entities else _values(name.vector)}
        for name in question.names
    ]
    return {"names": names, "vector": _values(question.vector)}


def rule_values(name_count: int, seeds: SeedRule, spread: SpreadRule, chains: ChainRule) -> dict[str, Any]:
    """The rules as parameters of the query; steps and length of chains are its shape. Source: algorithms.md 1.5."""
    per_name = max(1, seeds.vector_budget // max(1, name_count))
    is_gated = spread.gate == "cosine"
    return {
        "k_per_name": per_name,
        "k_fetch": max(4 * per_name, _FETCH),
        "seed_score": seeds.score,
        "threshold": spread.threshold,
        "decay": spread.decay,
        "is_gated": is_gated,
        "needs_embedding": is_gated or spread.uniform_requires_embedding,
        "is_per_edge": spread.edge_multiplicity == "per_edge",
        "k_chains": chains.limit if chains.dedupe == "after_limit" else chains.max_paths,
        "max_length": chains.max_length,
        "max_paths": chains.max_paths,
    }


def _values(vector: NDArray[np.float32] | None) -> list[float] | None:
    if vector is None:
        return None
    values: list[float] = vector.astype(np.float64).tolist()
    return values


def _chain(path: Sequence[int], score: float, labels: Mapping[tuple[int, int], Sequence[str]]) -> Chain:
    ways = (((left, right), (right, left)) for left, right in pairwise(path))
    hops = tuple(Hop(*(tuple(sorted(labels.get(way, ()))) for way in both)) for both in ways)
    return Chain(tuple(path), float(score), hops)


# chosen: an index of a large graph takes minutes to become online; a server that needs longer is said to be at fault.
AWAIT_SECONDS = 600
_DELETED_AT_ONCE = 20_000  # chosen: Neo4j holds a transaction's changes in memory, and any number deletes the same rows
_OWN = frozenset({"index", "id", "row_hash", "embedding", "labelled"})
"""Properties that every row has, or none: not those of `GraphRow.properties`."""


class Neo4jStore:
    """The part of a database that belongs to one index; see `polyhop.schemas.ports.GraphStore`."""

    def __init__(self, connection: Neo4jConnection, index: str) -> None:
        self._connection = connection
        self._index = index
        self._label = entity_label(index)
        self._epoch: int | None = None

    def prepare(self, *, has_hubs: bool) -> None:
        """Makes constraints and indexes, of hubs only where there are any, and waits for them."""
        names = ["documents_unique", "paragraphs_unique", "entities_unique", "indexes_unique"]
        names += ["entity_folded_keys", "entity_keys", "document_titles"]
        for name in (*names, *(("hubs_unique", "hub_paths_unique") if has_hubs else ())):
            self._connection.alter(cypher("schema", name))
        self._connection.alter(cypher("schema", "await_indexes"), {"seconds": AWAIT_SECONDS})

    def recorded(self) -> GraphRecord | None:
        """Record of the version of the index in the database; None if there is none, or an incomplete one."""
        rows = self._connection.read(cypher("schema", "recorded"), {"index": self._index})
        held = rows[0]["record"] if rows else {}
        if not held.get("complete"):
            return None
        stated = {kind: held.get(f"{kind}_count") for kind in GRAPH_KINDS}
        counts: dict[GraphKind, int] = {kind: count for kind, count in stated.items() if count is not None}
        return GraphRecord(held.get("version", 0), held.get("fingerprint", ""), held.get("dimension", 0), counts)

    def claim(self) -> None:
        """Makes this the only export that can write the index from now on."""
        (rows,) = self._connection.write([(cypher("schema", "claim"), {"index": self._index})])
        self._epoch = int(rows[0]["epoch"])

    def hashes(self, kind: GraphKind) -> list[tuple[str, str]]:
        """(id, recorded hash) of all rows of a kind."""
        rows = self._connection.read(cypher(file_of(kind), f"stored_{kind}"), {"index": self._index})
        return [(row["id"], row["hash"] or "") for row in rows]

    def rows(self, kind: GraphKind, probe: Sequence[float]) -> list[HeldRow]:
        """Everything about all rows of a kind but their vectors, and how similar these are to `probe`."""
        values = {"index": self._index, "label": self._label, "probe": list(probe)}
        held = []
        for row in self._connection.read(cypher(file_of(kind), f"read_{kind}"), values):
            stated, ends = row["properties"], (row["source"] or "", row["target"] or "")
            properties = {name: value for name, value in stated.items() if name not in _OWN}
            is_found = bool(stated.get("labelled", True))
            held.append(HeldRow(row["id"], stated.get("row_hash") or "", properties, *ends, is_found, row["probe"]))
        return held

    def write(self, kind: GraphKind, rows: Iterable[GraphRow]) -> None:
        """Creates or replaces rows, a transaction per batch."""
        remaining = iter(rows)
        while part := list(islice(remaining, BATCH_ROWS[kind])):
            values = []
            for row in part:
                own = {"id": row.id, "row_hash": row.hash} | ({} if row.source else {"index": self._index})
                # nodes, which have no ends, say whose they are
                ends: dict[str, Any] = {"source": row.source, "target": row.target, "vector": row.vector}
                values.append({"id": row.id, **ends, "properties": {**row.properties, **own}})
            self._hold_and_run(cypher(file_of(kind), f"write_{kind}"), {"rows": values, "label": self._label})

    def delete(self, kind: GraphKind, ids: Sequence[str]) -> None:
        """Deletes rows; nodes with their relationships."""
        for start in range(0, len(ids), _DELETED_AT_ONCE):
            part = list(ids[start : start + _DELETED_AT_ONCE])
            self._hold_and_run(cypher(file_of(kind), f"delete_{kind}"), {"ids": part})

    def index_vectors(self, dimension: int, *, is_new: bool) -> None:
        """Makes the vector index, or rebuilds it, and waits for it; with dimension 0 removes it.

        An index that is filled at once is one segment, which answers four times as fast as one filled batch by batch.
        """
        name = {"name": vector_index(self._index)}
        state, held = self._vector_index()
        is_kept = held == dimension and state != "FAILED" and not is_new
        if state and not is_kept:
            self._connection.alter(cypher("schema", "drop_vector_index"), name)
        if not dimension:
            return
        if not is_kept:
            config = {"dimensions": dimension, "similarity_function": "cosine", "quantization.enabled": False}
            options = {"indexConfig": {f"vector.{key}": value for key, value in config.items()}}
            text = cypher("schema", "create_vector_index").replace("{label}", self._label)
            self._connection.alter(text, name | {"options": options})
        self._connection.alter(cypher("schema", "await_indexes"), {"seconds": AWAIT_SECONDS})
        if self._vector_index()[0] != "ONLINE":
            raise StoreError(f"Neo4j did not build the vector index of '{self._index}'; check its log.")

    def has_vector_index(self, dimension: int) -> bool:
        """Returns whether the vector index is online for vectors of this dimension; for 0, whether there is none."""
        return self._vector_index() == (("ONLINE", dimension) if dimension else ("", 0))

    def _vector_index(self) -> tuple[str, int]:
        """Its state and dimension; "" and 0 if there is none."""
        for row in self._connection.read(cypher("schema", "vector_index"), {"name": vector_index(self._index)}):
            return str(row["state"]), int(row["options"]["indexConfig"]["vector.dimensions"])
        return "", 0

    def record(self, record: GraphRecord) -> None:
        """Says which version the database holds: the last write of an export."""
        own = {"version": record.version, "fingerprint": record.fingerprint, "dimension": record.dimension}
        counts = {f"{kind}_count": record.counts.get(kind) for kind in GRAPH_KINDS}  # None removes what was said before
        self._hold_and_run(cypher("schema", "record"), {"record": own | counts})

    def spreading(self, version: int, keys: Sequence[str]) -> Neo4jGraph:
        """The index's entities and relations, ready to answer questions.

        Raises:
            ContractError: If another version was exported, none, or one only in part.
            MissingArtefactError: If entities came without vectors.
        """
        record = self.recorded()
        if record is None or record.version != version:
            held = f"version {record.version}" if record is not None else "no complete version"
            uri = self._connection.address.uri
            raise ContractError(
                f"Neo4j at {uri} holds {held} of index '{self._index}', not version {version}; "
                f"run: polyhop export neo4j --index {self._index}"
            )
        if not record.dimension:
            raise MissingArtefactError("vectors:entity", self._index, "qasa")
        return Neo4jGraph(self._connection, self._index, keys)

    def close(self) -> None:
        """Ends all connections to the server."""
        self._connection.close()

    def _hold_and_run(self, text: str, values: Mapping[str, Any]) -> None:
        index = {"index": self._index}
        refusal = StoreConflictError(
            f"Another export of index '{self._index}' to the same database has started; this one has stopped."
        )
        hold = (cypher("schema", "hold"), index)
        self._connection.write_held(hold, {"epoch": self._epoch}, (text, index | dict(values)), refusal)
