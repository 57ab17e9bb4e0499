"""Spreading activation on a real Neo4j: the golden numbers of algorithms.md section 8, and who may write."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from graph_fixture import EIGHT, FINAL, SEEDS, Rules, SmallGraph, ask, connect_to, on_axes

from polyhop.schemas.errors import AlgorithmError, ContractError, StatementRejectedError, StoreError
from polyhop.schemas.graph import Activation, ChainRule, Hop, SeedName, SeedRule, SpreadQuestion, SpreadRule
from polyhop.warehouse.graph.neo4j_server import Neo4jConnection
from polyhop.warehouse.graph.neo4j_store import Neo4jGraph, Neo4jStore
from polyhop.worker.strategies.qasa import Neo4jEngine, QasaRules

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
        (SpreadRule(decay=0.3), {"a": 1, "b": 0.69216, "c": 1.008, "d": 0.74736, "e": 0.127915}),
        (SpreadRule(decay=0.5), {"a": 1.26, "b": 0.936, "c": 1.04, "d": 1.404, "e": 0.3822, "f": 0.01575}),
        (
            SpreadRule(decay=0.9),
            {"a": 2.284336, "b": 1.42944, "c": 3.470746, "d": 1.70208, "e": 1.41251, "f": 0.091854},
        ),
        (SpreadRule(decay=1.0), {"a": 2.624, "b": 1.624, "c": 4.1664, "d": 1.968, "e": 1.7976, "f": 0.126}),
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
    ("steps", "wanted"),
    [
        (1, {"s1": 1, "s2": 1, "s3": 0.8, "v": 1.764}),
        (2, {"s1": 1.24696, "s2": 1.24696, "s3": 1.91132, "v": 1.764, "w": 0.06174}),
        (3, {"s1": 1.49392, "s2": 1.49392, "s3": 1.91132, "v": 2.968132, "w": 0.12348}),
    ],
)
def test_a_star_exceeds_one_and_equal_nodes_do_not_feed_each_other(
    databases: Mapping[str, Neo4jGraph], steps: int, wanted: dict[str, float]
) -> None:
    question = STAR.question(first_axis(STAR), {"s1": 1.0, "s2": 1.0, "s3": 0.8})
    found = ask(databases["star of five"], question, Rules(SeedRule(3, "entity"), SpreadRule(steps=steps)))
    assert by_key(STAR, found) == pytest.approx(wanted, abs=1e-5)


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


def test_an_opposite_gate_lets_nothing_through(databases: Mapping[str, Neo4jGraph]) -> None:
    question = GATED.question(first_axis(GATED), {"x": 1.0})
    found = ask(databases["gates of cosines"], question, Rules(spread=SpreadRule(steps=1)))
    assert by_key(GATED, found) == pytest.approx({"x": 1, "y": 0.7 * 0.62}, abs=1e-5)


@pytest.mark.parametrize(("threshold", "wanted"), [(1.0, {"x": 1}), (0.99, {"x": 1, "y": 3})])
def test_a_source_at_the_threshold_sends_nothing(
    databases: Mapping[str, Neo4jGraph], threshold: float, wanted: dict[str, float]
) -> None:
    """By hand: three relations carry 3 * 1.0, far above tau, but the source itself must be above it."""
    rule = SpreadRule(steps=1, decay=1.0, threshold=threshold, gate="none", edge_multiplicity="per_edge")
    question = THRICE.question(first_axis(THRICE), {"x": 1.0})
    found = ask(databases["threshold of sources"], question, Rules(spread=rule))
    assert by_key(THRICE, found) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize(("threshold", "wanted"), [(0.5, {"x": 1}), (0.49, {"x": 1, "y": 0.5})])
def test_an_increment_at_the_threshold_is_dropped(
    databases: Mapping[str, Neo4jGraph], threshold: float, wanted: dict[str, float]
) -> None:
    """By hand: one relation carries 0.5 * 1.0 = 0.5."""
    rule = SpreadRule(steps=1, decay=0.5, threshold=threshold, gate="none")
    question = ONCE.question(first_axis(ONCE), {"x": 1.0})
    found = ask(databases["threshold of increments"], question, Rules(spread=rule))
    assert by_key(ONCE, found) == pytest.approx(wanted, abs=1e-12)


ALL_CHAINS = (
    "ad 1.881576, acd 1.739717, adc 1.739717, ac 1.695656, adcb 1.619428, bcad 1.619428, bcda 1.619428, acb 1.549957, "
    "bca 1.549957, ade 1.52165, bcd 1.514133, acde 1.505237, bcade 1.455902, bc 1.35728, bcde 1.336049, "
    "acdef 1.212833, adef 1.152042, bcdef 1.077483"
)


def chains_of(found: Activation) -> dict[str, float]:
    return {"".join(EIGHT.keys[n] for n in chain.entities): chain.score for chain in found.chains}


def test_golden_chains_on_the_server(eight: Neo4jGraph) -> None:
    wanted = {name: float(score) for name, score in (pair.split() for pair in ALL_CHAINS.split(", "))}
    found = chains_of(spread_eight(eight))
    assert list(found) == list(wanted)
    assert found == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("limit", [1, 2, 5, 17])
def test_bounded_search_gives_the_first_of_all_chains(eight: Neo4jGraph, limit: int) -> None:
    found = chains_of(spread_eight(eight, chains=ChainRule(limit=limit)))
    assert list(found) == [pair.split()[0] for pair in ALL_CHAINS.split(", ")][:limit]


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


def test_hops_carry_labels_of_both_directions(eight: Neo4jGraph) -> None:
    chains = {chain.entities: chain.hops for chain in spread_eight(eight).chains}
    assert chains[0, 2] == (Hop(("wrote",), ("written-by",)),)
    assert chains[1, 2] == (Hop(("studied-at",), ()),)
    assert chains[0, 2, 1] == (Hop(("wrote",), ("written-by",)), Hop((), ("studied-at",)))


def test_a_search_that_stops_early_says_so(eight: Neo4jGraph) -> None:
    assert not spread_eight(eight).is_cut
    assert spread_eight(eight, chains=ChainRule(max_paths=3)).is_cut


def test_a_question_without_names_is_empty(eight: Neo4jGraph) -> None:
    found = ask(eight, SpreadQuestion(np.array(first_axis(EIGHT), dtype=np.float32), ()))
    assert found.seeds == ()
    assert len(found.entities) == len(found.values) == len(found.chains) == 0


def test_a_name_to_search_without_vector_is_refused(eight: Neo4jGraph) -> None:
    question = SpreadQuestion(np.array(first_axis(EIGHT), dtype=np.float32), (SeedName("who", "vector"),))
    with pytest.raises(AlgorithmError, match="'who' is not an entity's name"):
        ask(eight, question)


def test_names_with_cypher_in_them_are_data(databases: Mapping[str, Neo4jGraph]) -> None:
    question = MINED.question(first_axis(MINED), {EVIL: 1.0})
    found = ask(databases[MINE], question, Rules(spread=SpreadRule(steps=1)))
    assert set(by_key(MINED, found)) == {EVIL, '"; RETURN 1'}
    assert found.chains[0].hops in {(Hop(("'] -> () //",), ()),), (Hop((), ("'] -> () //",)),)}


def test_a_question_is_one_round_trip(eight: Neo4jGraph) -> None:
    before = eight.round_trips
    spread_eight(eight)
    assert eight.round_trips == before + 1


def counts(connection: Neo4jConnection) -> list[dict[str, Any]]:
    nodes = connection.read("MATCH (n) RETURN labels(n) AS labels, count(*) AS count ORDER BY labels")
    return nodes + connection.read("MATCH ()-[r]->() RETURN type(r) AS type, count(*) AS count ORDER BY type")


@pytest.mark.rare
def test_eight_readers_at_once_get_what_one_gets_and_write_nothing(
    connection: Neo4jConnection, eight: Neo4jGraph
) -> None:
    rules = [SpreadRule(steps=n % 5, decay=0.3 + 0.1 * (n % 7)) for n in range(40)]
    before = counts(connection)
    alone = [spread_eight(eight, rule) for rule in rules]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda rule: spread_eight(eight, rule), rules))
    for one, other in zip(alone, together, strict=True):
        assert one.seeds == other.seeds
        assert by_key(EIGHT, one) == by_key(EIGHT, other)
        assert one.chains == other.chains
    assert counts(connection) == before


def test_the_server_itself_refuses_writes_of_a_reader(connection: Neo4jConnection) -> None:
    with pytest.raises((StatementRejectedError, StoreError)):
        connection.read("CREATE (n:Intruder)")
    assert connection.read("MATCH (n:Intruder) RETURN n") == []


@pytest.mark.usefixtures("eight")
def test_a_version_that_was_not_exported_is_refused(connection: Neo4jConnection) -> None:
    with pytest.raises(ContractError, match="holds no complete version of index 'eight nodes', not version 1"):
        Neo4jStore(connection, "eight nodes").spreading(1, ())
