"""graph-search and fusion: golden values, names, similarity, fallbacks, evidence."""

import re
from typing import Any

import numpy as np
import pytest
from memory_index import names_of

from polyhop.schemas.errors import AlgorithmError, ConfigurationError
from polyhop.schemas.evidence import BY_VECTOR, NOTHING_SEARCHED, QuestionNames
from polyhop.schemas.graph import Mention
from polyhop.schemas.ports import Services
from polyhop.schemas.query import Question, QuestionName, Retrieval
from polyhop.warehouse.artefacts import ALIASES, GRAPH, NAMES, RELATIONS, vectors_of
from polyhop.worker.strategies.registry import STRATEGIES, make

# Keys of G-ARC that keep the order of its ids; k6..k9 mention nothing.
KEYS = ["alder", "birch", "cedar", "dogwood", "elm", "x alder street"]
TRIPLES = [
    ("birch", "grows by", "alder"),
    ("alder", "shades", "cedar"),
    ("dogwood", "r", "alder"),
    ("elm", "r", "dogwood"),
]
MENTIONS = [
    ("alder", "birch"),
    ("alder", "cedar"),
    ("dogwood", "alder"),
    ("elm", "dogwood"),
    (KEYS[5],),
    (),
    (),
    (),
    (),
]
SIMILARITIES = {"k3": 0.9, "k9": 0.8, "k1": 0.7}


class Words:
    """Every capitalised word of a question is a name."""

    def find(self, text: str) -> list[Mention]:
        return [Mention(m[0].lower(), m[0], *m.span()) for m in re.finditer(r"\S+", text) if m[0][0].isupper()]


@pytest.fixture
def trees(make_index: Any, make_graph: Any, make_relations: Any) -> Any:
    """G-ARC as an index; the vectors rank k3, k9, k1 first and all others equally."""
    ids = [f"k{number}" for number in range(1, 10)]
    vectors = np.array([[SIMILARITIES.get(i, 0.1), 0] for i in ids], dtype=np.float32)
    entity_vectors = np.array([[1, 0], [0.8, 0.6], [0, 1], [-1, 0], [0, 0], [0, 0]], dtype=np.float32)
    return make_index(
        [(passage_id, "", "") for passage_id in ids],
        {
            GRAPH: make_graph([dict.fromkeys(row, 1.0) for row in MENTIONS]),
            RELATIONS: make_relations(KEYS, TRIPLES),
            NAMES: Words(),
            ALIASES: {"tanglewood": "birch"},
            vectors_of("passage"): vectors,
            vectors_of("entity"): entity_vectors,
        },
        name="trees",
    )


def ask(index: Any, name: str, text: str, limit: int = 5, **parameters: object) -> Retrieval:
    question = Question(text, vector=np.array([1, 0], dtype=np.float32))
    return make(name, index, parameters).retrieve([question], limit=limit)[0]


def ids(retrieval: Retrieval) -> list[str]:
    return [passage.passage_id for passage in retrieval.passages]


def scores(retrieval: Retrieval) -> dict[str, float]:
    return {passage.passage_id: round(passage.score, 6) for passage in retrieval.passages}


def test_golden_graph_search(trees: Any) -> None:
    """G-ARC."""
    found = ask(trees, "graph-search", "where is Birch", depth=2)
    assert scores(found) == {"k1": 0.15, "k2": 0.075, "k3": 0.075, "k4": 0.025}
    assert ids(found) == ["k1", "k2", "k3", "k4"]


def test_golden_fusion(trees: Any) -> None:
    """G-ARC; behind the golden three, the list by vector has all other passages here, which the limit cuts off."""
    dense = ids(ask(trees, "dense", "birch", limit=9))
    assert dense[:3] == ["k3", "k9", "k1"]
    found = ask(trees, "fusion", "where is Birch", depth=2, limit=2)
    assert scores(found) == {"k3": 0.032266, "k1": 0.032266}
    assert found.evidence.fallback is None
    assert ids(found) == ["k3", "k1"]


@pytest.mark.parametrize(
    ("lengths", "wanted"),
    [
        (
            {"vector_passages": 3, "graph_passages": 10_000},
            {"k3": 0.032266, "k1": 0.032266, "k9": 0.016129, "k2": 0.016129, "k4": 0.015625},
        ),
        (
            {"vector_passages": 3, "graph_passages": 2},
            {"k1": 0.032266, "k3": 0.016393, "k9": 0.016129, "k2": 0.016129},
        ),
        ({"vector_passages": 1, "graph_passages": 1}, {"k3": 0.016393, "k1": 0.016393}),
    ],
)
def test_golden_fusion_of_short_lists(trees: Any, lengths: Any, wanted: dict[str, float]) -> None:
    """G-ARC: [k3, k9, k1] by vector, [k1, k2, k3, k4] by the graph, cut as Arcana's page cuts the first."""
    found = ask(trees, "fusion", "where is Birch", depth=2, limit=9, **lengths)
    assert list(scores(found).items()) == list(wanted.items())
    assert ids(ask(trees, "fusion", "where is Birch", depth=2, limit=2, **lengths)) == [*wanted][:2]


@pytest.mark.parametrize("text", ["where", "Oak"])
def test_without_a_known_name_fusion_keeps_the_order_by_vector(trees: Any, text: str) -> None:
    found = ask(trees, "fusion", text, limit=3)
    assert ids(found) == ["k3", "k9", "k1"]
    assert found.evidence.fallback == BY_VECTOR
    assert found.evidence.names == QuestionNames((), ("oak",) if text == "Oak" else ())
    assert scores(found)["k3"] == (round(1 / 61, 6) if text == "Oak" else 0.9)


@pytest.mark.parametrize("text", ["where", "Oak"])
def test_without_a_known_name_graph_search_finds_nothing(trees: Any, text: str) -> None:
    found = ask(trees, "graph-search", text)
    assert found.passages == ()
    assert (found.evidence.fallback, found.evidence.node_count, found.evidence.nodes) == (NOTHING_SEARCHED, 0, ())


def test_depth_0_finds_the_passages_that_name_the_entity(trees: Any) -> None:
    assert ids(ask(trees, "graph-search", "Birch", depth=0)) == ["k1"]


def test_decay_decides_how_much_distance_costs(trees: Any) -> None:
    """Without decay an entity two relations away counts as much as the one asked for."""
    found = ask(trees, "graph-search", "Birch", depth=2, decay=1)
    assert scores(found) == {"k1": 0.2, "k2": 0.2, "k3": 0.2, "k4": 0.1}


def test_names_that_a_question_brings_come_before_those_of_the_finder(trees: Any) -> None:
    question = Question("Birch", names=(QuestionName("elm", "elm"),))
    found = make("graph-search", trees, {"depth": 0}).retrieve([question], limit=5)[0]
    assert names_of(found.evidence).matched == ("elm",)


def test_a_merged_name_leads_to_its_entity(trees: Any) -> None:
    assert names_of(ask(trees, "graph-search", "Tanglewood").evidence).matched == ("birch",)


def test_fuzzy_names_are_those_that_contain_the_name(trees: Any) -> None:
    exact, fuzzy = (ask(trees, "graph-search", "Alder", depth=0, matcher=matcher) for matcher in ("exact", "fuzzy"))
    assert names_of(exact.evidence).matched == ("alder",)
    assert names_of(fuzzy.evidence).matched == ("alder", "x alder street")
    assert ids(fuzzy) == ["k1", "k2", "k3", "k5"]


def test_similarity_needs_no_name(trees: Any) -> None:
    found = ask(trees, "graph-search", "where", depth=0, matcher="embedding")
    found_by = {seed.key: seed.similarity for seed in found.evidence.seeds if seed.match == "vector"}
    assert found_by == {"alder": 1.0, "birch": pytest.approx(0.8, abs=1e-6)}
    assert ids(found) == ["k1", "k2", "k3"]
    assert ids(ask(trees, "graph-search", "where", depth=0, matcher="embedding", entities=1)) == ["k1", "k2", "k3"]
    nothing = ask(trees, "fusion", "where", matcher="embedding", min_similarity=1.0, entities=1, depth=0)
    assert names_of(nothing.evidence).matched == ("alder",)


def test_a_question_without_its_vector_asks_for_it_only_where_similarity_is_wanted(trees: Any) -> None:
    question = Question("where")
    with pytest.raises(AlgorithmError, match="No encoder was given"):
        make("graph-search", trees, {"matcher": "embedding"}).retrieve([question], limit=1)
    services = Services(lambda texts, *_, **__: np.array([[1, 0] for _ in texts], dtype=np.float32))
    strategy = make("graph-search", trees, {"matcher": "embedding"}, services)
    assert names_of(strategy.retrieve([question], limit=1)[0].evidence).matched == ("alder", "birch")
    assert make("graph-search", trees, {}).retrieve([question], limit=1)[0].evidence.fallback is not None


def test_similarity_without_vectors_of_entities_is_refused_when_the_strategy_is_made(trees: Any) -> None:
    trees.artefacts = frozenset({"graph", "graph:relations"})
    with pytest.raises(ConfigurationError, match=r"'vectors:entity'.*'trees'.*--add-strategy naive-vector"):
        make("graph-search", trees, {"matcher": "embedding"})


def test_the_evidence_shows_how_each_entity_was_reached(trees: Any) -> None:
    evidence = ask(trees, "graph-search", "Birch Oak", depth=2).evidence
    assert evidence.names == QuestionNames(("birch",), ("oak",))
    assert evidence.node_count == 4
    assert [(node.key, node.distance) for node in evidence.nodes[:3]] == [("birch", 0), ("alder", 1), ("cedar", 2)]
    assert [path.text for path in evidence.paths[:2]] == [
        "Birch --[grows by]--> Alder",
        "Birch --[grows by]--> Alder --[shades]--> Cedar",
    ]
    assert evidence.paths[1].nodes == ("birch", "alder", "cedar")


def test_the_limit_changes_neither_fusion_nor_evidence(trees: Any) -> None:
    few, many = (ask(trees, "fusion", "Birch", limit=limit, over_fetch=1) for limit in (2, 9))
    assert ids(few) == ids(many)[:2]
    assert few.evidence == many.evidence


def test_the_sources_values_are_the_defaults() -> None:
    """algorithms.md 5.2, 5.4 A4."""
    search = {"depth": 1, "decay": 0.5, "matcher": "exact", "entities": 20, "min_similarity": 0.3}
    assert STRATEGIES["graph-search"].parameters().model_dump() == search
    assert STRATEGIES["fusion"].parameters().model_dump() == search | {
        "rrf_k": 60,
        "over_fetch": 2,
        "vector_passages": None,
        "graph_passages": None,
    }
