"""Both engines of spreading activation agree: on 200 random graphs, whatever the parameters."""

from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import pytest
from graph_fixture import Arrays, SmallGraph, connect_to, disagreement
from numpy.typing import NDArray

from polyhop.schemas.graph import ChainRule, SeedName, SeedRule, SeedScore, SpreadQuestion, SpreadRule
from polyhop.warehouse.graph.neo4j_server import Neo4jConnection
from polyhop.warehouse.graph.neo4j_store import Neo4jGraph
from polyhop.worker.strategies.qasa import EmbeddedEngine, Neo4jEngine, QasaRules

pytestmark = [pytest.mark.rare, pytest.mark.neo4j]
GRAPHS = 200
WIDTH = 6
SIZES = [(0, 1), (1, 4), (2, 3), (2, 6), (3, 2), (4, 5)]
"""Steps and longest chain: the query's text depends on these two, and Neo4j takes seconds to plan each new text.

Each number of steps and each length occurs; pairs of all of them would be thirty texts.
"""


def random_part(random: np.random.Generator, number: int) -> SmallGraph:
    """A graph of 2 to 12 entities, some without vector, some joined more than once."""
    count = int(random.integers(2, 13))
    keys = [f"g{number:03d} {chr(97 + n)}" for n in range(count)]
    vectors = {key: _vector(random).tolist() if random.random() < 0.85 else None for key in keys}
    vectors[keys[0]] = _vector(random).tolist()
    edges = []
    for _ in range(int(random.integers(1, 3 * count))):
        source, target = random.integers(0, count, 2)
        if source != target:
            edges.append((keys[source], f"r{random.integers(0, 3)}", keys[target]))
    return SmallGraph(vectors, edges)


def _vector(random: np.random.Generator) -> NDArray[np.float64]:
    values = random.normal(size=WIDTH)
    values[0] += 1.0
    made: NDArray[np.float64] = values / np.linalg.norm(values)
    return made


def random_rules(random: np.random.Generator) -> QasaRules:
    """Parameters anywhere in their range; long chains only where a limit bounds the search."""
    steps, length = SIZES[int(random.integers(len(SIZES)))]
    dedupe = random.choice(["after_limit", "before_limit"], p=[0.6, 0.4]) if length < 4 else "after_limit"
    return QasaRules(
        SeedRule(int(random.integers(1, 7)), random.choice(get_args(SeedScore))),
        SpreadRule(
            steps=steps,
            decay=float(random.choice([0.3, 0.5, 0.7, 0.9, 1.0])),
            threshold=float(random.choice([0.0, 0.01, 0.2])),
            gate=random.choice(["cosine", "none"], p=[0.7, 0.3]),
            edge_multiplicity=random.choice(["set", "per_edge"]),
            uniform_requires_embedding=bool(random.integers(0, 2)),
        ),
        ChainRule(
            limit=int(random.choice([1, 5, 30])),
            max_length=length,
            dedupe=dedupe,  # type: ignore[arg-type]
        ),
    )


def random_question(random: np.random.Generator, whole: SmallGraph, part: SmallGraph) -> SpreadQuestion:
    """Names of the part's entities, and now and then a name that is searched for everywhere."""
    places = [whole.keys.index(key) for key in part.keys]
    picked = random.choice(places, size=int(random.integers(1, 4)))
    names = [SeedName(whole.keys[n], random.choice(["exact", "alias"]), (int(n),)) for n in dict.fromkeys(picked)]
    if random.random() < 0.4:
        names.append(SeedName("searched", "vector", (), _vector(random).astype(np.float32)))
    return SpreadQuestion(_vector(random).astype(np.float32), tuple(names))


@pytest.fixture(scope="module")
def world(neo4j_server: Any) -> Iterator[tuple[SmallGraph, list[SmallGraph], Neo4jGraph]]:
    """All graphs side by side in one index: none is joined to another."""
    random = np.random.default_rng(20261121)
    parts = [random_part(random, number) for number in range(GRAPHS)]
    whole = SmallGraph(
        {key: vector for part in parts for key, vector in part.vectors.items()},
        [edge for part in parts for edge in part.edges],
    )
    connection: Neo4jConnection = connect_to(neo4j_server)
    yield whole, parts, whole.load(connection, "two hundred")
    connection.close()


def test_both_engines_agree_on_two_hundred_random_graphs(
    world: tuple[SmallGraph, list[SmallGraph], Neo4jGraph],
) -> None:
    whole, parts, database = world
    arrays = Arrays(whole.arrays, whole.matrix)
    random = np.random.default_rng(7)
    with_chains = 0
    for number, part in enumerate(parts):
        rules, question = random_rules(random), random_question(random, whole, part)
        local = EmbeddedEngine(arrays, rules).activate(question)  # type: ignore[arg-type]
        remote = Neo4jEngine(database, rules).activate(question)
        assert not disagreement(local, remote), f"graph {number}, {rules}"
        with_chains += bool(local.chains)
    assert with_chains > GRAPHS / 2
