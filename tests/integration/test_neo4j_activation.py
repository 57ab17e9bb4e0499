"""Spreading activation on a real Neo4j is that of the embedded engine, on golden graphs and on 200 random ones."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_args

import numpy as np
import pytest
from graph_fixture import EIGHT, FINAL, SEEDS, Arrays, Rules, SmallGraph, ask, connect_to, disagreement, on_axes
from numpy.typing import NDArray

from polyhop.schemas.errors import AlgorithmError, StatementRejectedError, StoreError
from polyhop.schemas.graph import Activation, ChainRule, Hop, SeedName, SeedRule, SeedScore, SpreadQuestion, SpreadRule
from polyhop.warehouse.graph.neo4j_server import Neo4jConnection
from polyhop.warehouse.graph.neo4j_store import Neo4jGraph
from polyhop.worker.ranking.chains import search_paths
from polyhop.worker.strategies.qasa import EmbeddedEngine, Neo4jEngine, QasaRules

pytestmark = pytest.mark.neo4j
RAYS = [(ray, "r", "v") for ray in ("s1", "s2", "s3")]
THRICE_AS_MUCH = {"steps": 1, "gate": "none", "decay": 1.0, "edge_multiplicity": "per_edge"}
HALF_AS_MUCH = {"steps": 1, "gate": "none", "decay": 0.5}
MINE, EVIL = "it's `mine`) MATCH (n) DELETE n //", "x'}) DETACH DELETE (n) //`"
MINED = SmallGraph(on_axes({EVIL: 0.9, '"; RETURN 1': 0.8}), [(EVIL, "'] -> () //", '"; RETURN 1')])
GRAPHS = {
    "eight nodes": EIGHT,
    "star of five": SmallGraph(
        on_axes({"s1": 0.2, "s2": 0.2, "s3": 0.9, "v": 0.9, "w": 0.05}), [*RAYS, ("v", "r", "w")]
    ),
    "seeds alone": SmallGraph(on_axes({"x": 0.0, "y": 0.0, "z": 0.0}), [("x", "r", "y"), ("y", "r", "z")]),
    "scores of seeds": SmallGraph(on_axes({"x": 0.62, "y": -0.4}), [("x", "r", "y")]),
    "gates of cosines": SmallGraph(on_axes({"x": 1.0, "y": 0.62, "z": 0, "o": -0.4}), [("x", "r", k) for k in "yzo"]),
    "threshold of sources": SmallGraph(on_axes({"x": 1.0, "y": 1.0}), [("x", label, "y") for label in "rst"]),
    "threshold of increments": SmallGraph(on_axes({"x": 1.0, "y": 1.0}), [("x", "r", "y")]),
    MINE: MINED,
}


@pytest.fixture(scope="module")
def connection(neo4j_server: Any) -> Iterator[Neo4jConnection]:
    opened = connect_to(neo4j_server)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def databases(connection: Neo4jConnection) -> Mapping[str, Neo4jGraph]:
    """All graphs, there before the first question."""
    return {index: graph.load(connection, index) for index, graph in GRAPHS.items()}


@pytest.fixture(scope="module")
def eight(databases: Mapping[str, Neo4jGraph]) -> Neo4jGraph:
    return databases["eight nodes"]


def first_axis(graph: SmallGraph) -> list[float]:
    return [1.0, *[0.0] * (graph.matrix.shape[1] - 1)]


def spread_eight(eight: Neo4jGraph, spread: SpreadRule | None = None, chains: ChainRule | None = None) -> Activation:
    question = EIGHT.question(first_axis(EIGHT), SEEDS)
    return ask(eight, question, Rules(SeedRule(len(SEEDS), "entity"), spread or SpreadRule(), chains or ChainRule()))


def by_key(graph: SmallGraph, found: Activation) -> dict[str, float]:
    return {graph.keys[n]: value for n, value in zip(found.entities.tolist(), found.values.tolist(), strict=True)}


STARS, X, LIKE = {"s1": 1.0, "s2": 1.0, "s3": 0.8}, {"x": 1.0}, {"y": 0.62, "z": 0.31}


@pytest.mark.parametrize(
    ("index", "seeds", "spread", "score"),
    [
        *(("eight nodes", SEEDS, {"steps": steps}, "entity") for steps in range(5)),
        ("eight nodes", SEEDS, {"decay": 0.5}, "entity"),
        ("eight nodes", SEEDS, {"threshold": 0.2}, "entity"),
        ("eight nodes", SEEDS, {"edge_multiplicity": "per_edge"}, "entity"),
        ("eight nodes", SEEDS, {"gate": "none"}, "entity"),
        ("eight nodes", SEEDS, {"gate": "none", "uniform_requires_embedding": False}, "entity"),
        ("seeds alone", X | LIKE, {"steps": 0}, "entity"),  # shares of the largest cosine
        ("seeds alone", LIKE, {"steps": 0}, "entity"),
        *(("scores of seeds", {"x": 0.31}, {"steps": 1}, score) for score in get_args(SeedScore)),
        ("star of five", STARS, {}, "entity"),  # it exceeds 1, and equal nodes do not feed each other
        ("gates of cosines", X, {"steps": 1}, "entity"),  # an opposite gate lets nothing through
        # three relations carry 3 * 1.0, far above tau, but the source itself must be above it
        ("threshold of sources", X, THRICE_AS_MUCH | {"threshold": 1.0}, "entity"),
        ("threshold of sources", X, THRICE_AS_MUCH | {"threshold": 0.99}, "entity"),
        # one relation carries 0.5 * 1.0: an increment at the threshold is dropped
        ("threshold of increments", X, HALF_AS_MUCH | {"threshold": 0.5}, "entity"),
        ("threshold of increments", X, HALF_AS_MUCH | {"threshold": 0.49}, "entity"),
    ],
    ids=str,
)
def test_activation_spreads_on_the_server_as_in_the_embedded_engine(
    databases: Mapping[str, Neo4jGraph], index: str, seeds: dict[str, float], spread: Any, score: SeedScore
) -> None:
    """Whose golden numbers are those of tests/unit/worker/ranking/test_qasa.py."""
    graph, rules = GRAPHS[index], QasaRules(SeedRule(len(seeds), score), SpreadRule(**spread), ChainRule())
    question = graph.question(first_axis(graph), seeds)
    found = Neo4jEngine(databases[index], rules).activate(question)
    local = EmbeddedEngine(Arrays(graph.arrays, graph.matrix), rules).activate(question)  # type: ignore[arg-type]
    assert not disagreement(local, found)
    exact = 1e-12 if index.startswith("threshold") else 1e-5
    assert by_key(graph, found) == pytest.approx(by_key(graph, local), abs=exact)
    scores = [[each.score for each in one.seeds] for one in (found, local)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)


def test_chains_on_the_server_are_those_of_the_full_search_or_the_first_of_a_bounded_one(eight: Neo4jGraph) -> None:
    found = spread_eight(eight)
    assert by_key(EIGHT, found) == pytest.approx(FINAL, abs=1e-5)
    wanted = search_paths(EIGHT.arrays, found.entities, found.values, [0, 1], ChainRule()).chains
    assert len(wanted) == 18
    assert [chain.entities for chain in found.chains] == [one.entities for one in wanted]
    assert [chain.score for chain in found.chains] == pytest.approx([one.score for one in wanted], abs=1e-5)
    for limit in (1, 5, 17):
        bounded = spread_eight(eight, chains=ChainRule(limit=limit)).chains
        assert [chain.entities for chain in bounded] == [chain.entities for chain in wanted[:limit]]


@pytest.mark.parametrize("rule", [ChainRule(limit=5), ChainRule(limit=2, dedupe="before_limit")], ids=str)
def test_the_engine_drops_duplicates_as_the_embedded_one_does(eight: Neo4jGraph, rule: ChainRule) -> None:
    rules, question = QasaRules(SeedRule(2, "entity"), SpreadRule(), rule), EIGHT.question(first_axis(EIGHT), SEEDS)
    local = EmbeddedEngine(Arrays(EIGHT.arrays, EIGHT.matrix), rules).activate(question)  # type: ignore[arg-type]
    assert not disagreement(local, Neo4jEngine(eight, rules).activate(question))


def test_hops_carry_labels_of_both_directions_in_one_round_trip(eight: Neo4jGraph) -> None:
    before = eight.round_trips
    chains = {chain.entities: chain.hops for chain in spread_eight(eight).chains}
    assert eight.round_trips == before + 1
    assert chains[0, 2] == (Hop(("wrote",), ("written-by",)),)
    assert chains[1, 2] == (Hop(("studied-at",), ()),)
    assert chains[0, 2, 1] == (Hop(("wrote",), ("written-by",)), Hop((), ("studied-at",)))


def test_a_search_that_stops_early_says_so(eight: Neo4jGraph) -> None:
    assert not spread_eight(eight).is_cut
    assert spread_eight(eight, chains=ChainRule(max_paths=3)).is_cut


def test_names_that_lead_nowhere_are_empty_or_refused(eight: Neo4jGraph) -> None:
    vector = np.array(first_axis(EIGHT), dtype=np.float32)
    found = ask(eight, SpreadQuestion(vector, ()))
    assert (found.seeds, len(found.entities), len(found.values), found.chains) == ((), 0, 0, ())
    with pytest.raises(AlgorithmError, match="'who' is not the name of an entity"):
        ask(eight, SpreadQuestion(vector, (SeedName("who", "vector"),)))


def test_names_with_cypher_in_them_are_data(databases: Mapping[str, Neo4jGraph]) -> None:
    question = MINED.question(first_axis(MINED), {EVIL: 1.0})
    found = ask(databases[MINE], question, Rules(spread=SpreadRule(steps=1)))
    assert set(by_key(MINED, found)) == {EVIL, '"; RETURN 1'}
    assert found.chains[0].hops in {(Hop(("'] -> () //",), ()),), (Hop((), ("'] -> () //",)),)}


@pytest.mark.rare
def test_eight_readers_at_once_get_what_one_gets(eight: Neo4jGraph) -> None:
    rules = [SpreadRule(steps=n % 5, decay=0.3 + 0.1 * (n % 7)) for n in range(40)]
    alone = [spread_eight(eight, rule) for rule in rules]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda rule: spread_eight(eight, rule), rules))
    for one, other in zip(alone, together, strict=True):
        assert one.seeds == other.seeds
        assert by_key(EIGHT, one) == by_key(EIGHT, other)
        assert one.chains == other.chains


def test_the_server_itself_refuses_writes_of_a_reader(connection: Neo4jConnection) -> None:
    with pytest.raises((StatementRejectedError, StoreError)):
        connection.read("CREATE (n:Intruder)")
    assert connection.read("MATCH (n:Intruder) RETURN n") == []


RANDOM_GRAPHS = 200
SHORT = 6
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
    values = random.normal(size=SHORT)
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


@pytest.mark.rare
def test_both_engines_agree_on_random_graphs(connection: Neo4jConnection) -> None:
    """All graphs stand side by side in one index: none is joined to another."""
    random = np.random.default_rng(20261121)
    parts = [random_part(random, number) for number in range(RANDOM_GRAPHS)]
    vectors = {key: vector for part in parts for key, vector in part.vectors.items()}
    whole = SmallGraph(vectors, [edge for part in parts for edge in part.edges])
    database = whole.load(connection, "two hundred")
    arrays = Arrays(whole.arrays, whole.matrix)
    random = np.random.default_rng(7)
    with_chains = 0
    for number, part in enumerate(parts):
        rules, question = random_rules(random), random_question(random, whole, part)
        local = EmbeddedEngine(arrays, rules).activate(question)  # type: ignore[arg-type]
        remote = Neo4jEngine(database, rules).activate(question)
        assert not disagreement(local, remote), f"graph {number}, {rules}"
        with_chains += bool(local.chains)
    assert with_chains > RANDOM_GRAPHS / 2
