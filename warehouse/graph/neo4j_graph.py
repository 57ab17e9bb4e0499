"""Spreading activation on a Neo4j server: one query, one round trip, in a transaction that cannot write.

Gives what the query returns; duplicates among chains are dropped elsewhere (worker/ranking/chains.py), by the function
that every engine uses. Source: algorithms.md 1.6.
"""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import AlgorithmError, StoreError
from polyhop.schemas.graph import Entity
from polyhop.schemas.spreading import (
    Activation,
    Chain,
    ChainRule,
    Hop,
    Match,
    Seed,
    SeedRule,
    SpreadQuestion,
    SpreadRule,
)
from polyhop.warehouse.graph.neo4j_layout import vector_index
from polyhop.warehouse.graph.neo4j_server import Neo4jConnection
from polyhop.warehouse.graph.statements import activation_query, cypher

_FETCH = 200
"""Candidates of a vector search: with fewer the search, which is approximate, misses some of the nearest (measured)."""

_DECIMALS = 12  # algorithms.md 0.3.
_SURENESS: tuple[Match, ...] = ("vector", "alias", "exact")
_Labels = Mapping[tuple[int, int], Sequence[str]]


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
        """Seeds, activations and chains of a question, all from one query; duplicates among the chains are still there.

        Args:
            question: Its vector and names; none gives an empty result.
            seeds: How names become seeds.
            spread: How activation spreads.
            chains: Which chains are kept; with `before_limit` all of them are, up to `max_paths`.

        Raises:
            AlgorithmError: If a name that must be searched comes without vector.
            StoreError: If the server does not answer as it should.
        """
        begun = time.perf_counter()
        values = {
            **question_values(question, self._keys),
            **rule_values(len(question.names), seeds, spread, chains),
            "vector_index": vector_index(self._index),
        }
        records = self._read(activation_query(spread.steps, chains.max_length), values)
        seconds = {"seed": 0.0, "traversal": time.perf_counter() - begun}
        if not records:
            return Activation((), np.zeros(0, np.intp), np.zeros(0), seconds=seconds)
        return self._activation(question, records[0], seconds)

    def named(self, folded: str, name: str) -> list[int]:
        """Numbers of the entities whose key is the folded name, or whose name is `name` (`norm_ws`), in no order.

        Raises:
            StoreError: If the server does not answer as it should.
        """
        rows = self._read(cypher("entities", "entities_by_name"), {"folded": folded, "name": name})
        return [self._number_of[row["key"]] for row in rows]

    def entities(self, numbers: Sequence[int]) -> list[Entity]:
        """Entities as people see them, in the order asked.

        Raises:
            StoreError: If the server does not answer as it should, or one is missing.
        """
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

    def _activation(
        self, question: SpreadQuestion, record: Mapping[str, Any], seconds: Mapping[str, float]
    ) -> Activation:
        numbers = [self._number_of[key] for key in record["keys"]]
        entities = np.array(numbers, dtype=np.intp)
        order = np.argsort(entities)
        found = [(self._number_of[key], float(score)) for key, score in record["seeds"]]
        labels: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
        for row in record["relations"]:
            labels[numbers[row["source"]], numbers[row["target"]]].append(row["relation"])
        return Activation(
            seeds=_seeds(question, found),
            entities=entities[order],
            values=np.array(record["values"], dtype=np.float64)[order],
            chains=[_chain([numbers[n] for n in row["places"]], row["score"], labels) for row in record["found"]],
            is_cut=bool(record["is_cut"]),
            seconds=seconds,
        )


def question_values(question: SpreadQuestion, keys: Sequence[str]) -> dict[str, Any]:
    """The question as parameters of the query.

    Raises:
        AlgorithmError: If a name that must be searched comes without vector.
    """
    for name in question.names:
        if not name.entities and name.vector is None:
            raise AlgorithmError(f"'{name.name}' is not an entity's name; encode its hint with the question first.")
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


def _seeds(question: SpreadQuestion, found: Sequence[tuple[int, float]]) -> tuple[Seed, ...]:
    matches: dict[int, Match] = {}
    for name in question.names:
        for entity in name.entities:
            matches[entity] = max(matches.get(entity, "vector"), name.match, key=_SURENESS.index)
    largest = max(score for _, score in found)
    seeds = [Seed(entity, score, score / largest, matches.get(entity, "vector")) for entity, score in found]
    return tuple(sorted(seeds, key=lambda seed: (-round(seed.activation, _DECIMALS), seed.entity)))


def _chain(path: Sequence[int], score: float, labels: _Labels) -> Chain:
    hops = tuple(
        Hop(tuple(sorted(labels.get((left, right), ()))), tuple(sorted(labels.get((right, left), ()))))
        for left, right in pairwise(path)
    )
    return Chain(tuple(path), float(score), hops)
