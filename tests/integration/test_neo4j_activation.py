"""Spreading activation on a real Neo4j: golden numbers of algorithms.md section 8, and what the embedded engine finds
on 200 random graphs."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, get_args

import numpy as np
import pytest
from graph_fixture import EIGHT, FINAL, SEEDS, Arrays, Rules, SmallGraph, ask, connect_to, disagreement, on_axes
from numpy.typing import NDArray

from polyhop.schemas.errors import AlgorithmError, StatementRejectedError, StoreError
from polyhop.schemas.graph import Activation, ChainRule, Hop, SeedName, SeedRule, SeedScore, SpreadQuestion, SpreadRule
from polyhop.warehouse.graph.neo4j_server import Neo4jConnection
from polyhop.warehouse.graph.neo4j_store import Neo4jGraph
from polyhop.worker.strategies.qasa import EmbeddedEngine, Neo4jEngine, QasaRules

pytestmark = pytest.mark.neo4j
STAR = SmallGraph(
    on_axes({"s1": 0.2, "s2": 0.2, "s3": 0.9, "v": 0.9, "w": 0.05}),
    [("s1", "r", "v"), ("s2", "r", "v"), ("s3", "r", "v"), ("v", "r", "w")],
)
SEEDED = SmallGraph(on_axes({"x": 0.0, "y": 0.0, "z": 0.0}), [("x", "r", "y"), ("y", "r", "z")])
SCORED = SmallGraph(on_axes({"x": 0.62, "y": -0.4}), [("x", "r", "y")])
GATED = SmallGraph(on_axes({"x": 1.0, "y": 0.62, "z": 0.0, "o": -0.4}), [("x", "r", k) for k in "yzo"])
THRICE = SmallGraph(on_axes({"x": 1.0, "y": 1.0}), [("x", label, "y") for label in "rst"])
ONCE = SmallGraph(on_axes({"x": 1.0, "y": 1.0}), [("x", "r", "y")])
MINE, EVIL = "it's `mine`) MATCH (n) DELETE n //", "x'}) DETACH DELETE (n) //`"
MINED = SmallGraph(on_axes({EVIL: 0.9, '"; RETURN 1': 0.8}), [(EVIL, "'] -> () //", '"; RETURN 1')])
GRAPHS = {
    "eight nodes": EIGHT,
    "star of five": STAR,
    "seeds alone": SEEDED,
    "scores of seeds": SCORED,
    "gates of cosines": GATED,
    "threshold of sources": THRICE,
    "threshold of increments": ONCE,
    MINE: MINED,
}


@pytest.fixture(scope="module")
def connection(neo4j_server: Any) -> Iterator[Neo4jConnection]:
    opened = connect_to(neo4j_server)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def databases(connection: Neo4jConnection) -> Mapping[str, Neo4jGraph]:
    """All graphs, there before the first question.

    Neo4j takes seconds to plan a query, and does so again after every new vector index and for parameters of another
    type or size: the names of these indexes all have more than ten letters, and most questions the same steps.
    """
    return {index: graph.load(connection, index) for index, graph in GRAPHS.items()}


@pytest.fixture(scope="module")
def eight(databases: Mapping[str, Neo4jGraph]) -> Neo4jGraph:
    return databases["eight nodes"]


def first_axis(graph: SmallGraph) -> list[float]:
    return [1.0, *[0.0] * (graph.matrix.shape[1] - 1)]


def spread_eight(
    eight: Neo4jGraph,
    spread: SpreadRule | None = None,
    chains: ChainRule | None = None,
) -> Activation:
    question = EIGHT.question(first_axis(EIGHT), SEEDS)
    return ask(eight, question, Rules(SeedRule(len(SEEDS), "entity"), spread or SpreadRule(), chains or ChainRule()))


def by_key(graph: SmallGraph, found: Activation) -> dict[str, float]:
    return {graph.keys[n]: value for n, value in zip(found.entities.tolist(), found.values.tolist(), strict=True)}


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        (SpreadRule(steps=0), {"a": 1, "b": 0.6}),
        (SpreadRule(steps=1), {"a": 1, "b": 0.6, "c": 0.896, "d": 0.42}),
        (SpreadRule(steps=2), {"a": 1, "b": 0.85088, "c": 1.456, "d": 1.21632, "e": 0.2058}),
        (SpreadRule(), FINAL),
        (
            SpreadRule(steps=4),
            {"a": 1.935312, "b": 1.66624, "c": 3.563365, "d": 2.640671, "e": 1.697438, "f": 0.211595},
        ),
        (SpreadRule(decay=0.5), {"a": 1.26, "b": 0.936, "c": 1.04, "d": 1.404, "e": 0.3822, "f": 0.01575}),
        (SpreadRule(threshold=0.2), {key: value for key, value in FINAL.items() if key != "f"}),
        (
            SpreadRule(edge_multiplicity="per_edge"),
            {"a": 2.0192, "b": 1.41536, "c": 3.717504, "d": 2.911104, "e": 0.917045, "f": 0.043218},
        ),
        (
            SpreadRule(gate="none"),
            {"a": 3.3128, "b": 1.384, "c": 4.8664, "d": 2.184, "e": 2.0188, "f": 0.343, "h": 2.0188},
        ),
        (
            SpreadRule(gate="none", uniform_requires_embedding=False),
            {"a": 3.3128, "b": 1.384, "c": 4.8664, "d": 2.184, "e": 2.0188, "f": 0.343, "g": 1.568, "h": 2.0188},
        ),
    ],
    ids=lambda value: None if isinstance(value, dict) else str(value).removeprefix("SpreadRule"),
)
def test_golden_propagation_on_the_server(eight: Neo4jGraph, rule: SpreadRule, wanted: dict[str, float]) -> None:
    assert by_key(EIGHT, spread_eight(eight, rule)) == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize(
    ("seeds", "wanted"),
    [
        ({"x": 1.0, "y": 0.62, "z": 0.31}, {"x": 1, "y": 0.62, "z": 0.31}),
        ({"y": 0.62, "z": 0.31}, {"y": 1, "z": 0.5}),
    ],
)
def test_seeds_are_shares_of_the_largest_cosine(
    databases: Mapping[str, Neo4jGraph], seeds: dict[str, float], wanted: dict[str, float]
) -> None:
    rules = Rules(SeedRule(len(seeds), "entity"), SpreadRule(steps=0))
    found = ask(databases["seeds alone"], SEEDED.question(first_axis(SEEDED), seeds), rules)
    assert {SEEDED.keys[seed.entity]: seed.activation for seed in found.seeds} == pytest.approx(wanted, abs=1e-5)
    assert {seed.match for seed in found.seeds} == ({"exact", "vector"} if 1.0 in seeds.values() else {"vector"})


@pytest.mark.parametrize(("score", "wanted"), [("question", 0.62), ("entity", 0.31), ("neo4j", 0.655)])
def test_scores_of_seeds_are_cosines_unless_neo4js_are_asked_for(
    databases: Mapping[str, Neo4jGraph], score: Any, wanted: float
) -> None:
    question = SCORED.question(first_axis(SCORED), {"x": 0.31})
    found = ask(databases["scores of seeds"], question, Rules(SeedRule(1, score), SpreadRule(steps=1)))
    assert [(seed.entity, seed.activation) for seed in found.seeds] == [(0, 1.0)]
    assert found.seeds[0].score == pytest.approx(wanted, abs=1e-5)


def _threshold(value: float, decay: float, edges: Literal["set", "per_edge"]) -> SpreadRule:
    return SpreadRule(steps=1, decay=decay, threshold=value, gate="none", edge_multiplicity=edges)


STARS = {"s1": 1.0, "s2": 1.0, "s3": 0.8}
X = {"x": 1.0}


@pytest.mark.parametrize(
    ("index", "seeds", "rule", "wanted"),
    [
        # a star exceeds 1, and equal nodes do not feed each other
        (
            *("star of five", STARS, SpreadRule(steps=3)),
            {"s1": 1.49392, "s2": 1.49392, "s3": 1.91132, "v": 2.968132, "w": 0.12348},
        ),
        # an opposite gate lets nothing through
        ("gates of cosines", X, SpreadRule(steps=1), {"x": 1, "y": 0.7 * 0.62}),
        # three relations carry 3 * 1.0, far above tau, but the source itself must be above it
        ("threshold of sources", X, _threshold(1.0, 1.0, "per_edge"), {"x": 1}),
        ("threshold of sources", X, _threshold(0.99, 1.0, "per_edge"), {"x": 1, "y": 3}),
        # one relation carries 0.5 * 1.0: an increment at the threshold is dropped
        ("threshold of increments", X, _threshold(0.5, 0.5, "set"), {"x": 1}),
        ("threshold of increments", X, _threshold(0.49, 0.5, "set"), {"x": 1, "y": 0.5}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_activations_by_hand_on_the_server(
    databases: Mapping[str, Neo4jGraph], index: str, seeds: dict[str, float], rule: SpreadRule, wanted: dict[str, float]
) -> None:
    graph = GRAPHS[index]
    found = ask(databases[index], graph.question(first_axis(graph), seeds), Rules(SeedRule(len(seeds), "entity"), rule))
    assert by_key(graph, found) == pytest.approx(wanted, abs=1e-12 if index.startswith("threshold") else 1e-5)


ALL_CHAINS = (
    "ad 1.881576, acd 1.739717, adc 1.739717, ac 1.695656, adcb 1.619428, bcad 1.619428, bcda 1.619428, acb 1.549957, "
    "bca 1.549957, ade 1.52165, bcd 1.514133, acde 1.505237, bcade 1.455902, bc 1.35728, bcde 1.336049, "
    "acdef 1.212833, adef 1.152042, bcdef 1.077483"
)


def chains_of(found: Activation) -> dict[str, float]:
    return {"".join(EIGHT.keys[n] for n in chain.entities): chain.score for chain in found.chains}


def test_golden_chains_on_the_server_all_or_the_first_of_a_bounded_search(eight: Neo4jGraph) -> None:
    wanted = {name: float(score) for name, score in (pair.split() for pair in ALL_CHAINS.split(", "))}
    found = chains_of(spread_eight(eight))
    assert list(found) == list(wanted)
    assert found == pytest.approx(wanted, abs=1e-5)
    for limit in (1, 5, 17):
        assert list(chains_of(spread_eight(eight, chains=ChainRule(limit=limit)))) == list(wanted)[:limit]


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        (ChainRule(), ["adcb", "bcade", "acdef", "adef", "bcdef"]),
        (ChainRule(limit=5), ["acd", "adcb"]),
        (ChainRule(limit=2, dedupe="before_limit"), ["adcb", "bcade"]),
    ],
)
def test_the_engine_drops_duplicates_as_the_golden_list_does(
    eight: Neo4jGraph, rule: ChainRule, wanted: list[str]
) -> None:
    rules = QasaRules(SeedRule(2, "entity"), SpreadRule(), rule)
    found = Neo4jEngine(eight, rules).activate(EIGHT.question(first_axis(EIGHT), SEEDS))
    assert list(chains_of(found)) == wanted


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
    with pytest.raises(AlgorithmError, match="'who' is not an entity's name"):
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


@pytest.fixture(scope="module")
def world(connection: Neo4jConnection) -> tuple[SmallGraph, list[SmallGraph], Neo4jGraph]:
    """All graphs side by side in one index: none is joined to another."""
    random = np.random.default_rng(20261121)
    parts = [random_part(random, number) for number in range(RANDOM_GRAPHS)]
    whole = SmallGraph(
        {key: vector for part in parts for key, vector in part.vectors.items()},
        [edge for part in parts for edge in part.edges],
    )
    return whole, parts, whole.load(connection, "two hundred")


@pytest.mark.rare
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
    assert with_chains > RANDOM_GRAPHS / 2
