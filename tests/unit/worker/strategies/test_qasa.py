"""qasa on the small corpus: names to seeds, ranking, evidence, rules."""

from functools import partial
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from memory_index import PASSAGES, MemoryIndex, memory_services, retrieved

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.evidence import NOTHING_SEARCHED, QUESTION_VECTOR, QuestionNames, Seed
from polyhop.schemas.graph import Activation, Chain, ChainRule, SeedRule, SpreadQuestion, SpreadRule
from polyhop.schemas.query import Question, QuestionName, Retrieval
from polyhop.warehouse.artefacts import ALIASES, EXACT_NAMES, GRAPH, vectors_of
from polyhop.worker.strategies import qasa
from polyhop.worker.strategies.qasa import Neo4jEngine, QasaParameters, QasaRules, rules_of
from polyhop.worker.strategies.registry import make

pytestmark = pytest.mark.slow


def asked(index: Any, text: str, *names: str) -> Question:
    """A question with these names, each its own hint."""
    return Question(text, vector=index.encode([text])[0], names=tuple(QuestionName(name, name) for name in names))


def ask(index: Any, text: str, *names: str, **given: object) -> Retrieval:
    return retrieved(index, "qasa", asked(index, text, *names), **given)


RIVER = "Which river is in Warsaw?"


@pytest.mark.parametrize(
    ("names", "given", "seeds", "unmatched"),
    [
        (["charles babbage"], {}, [("charles babbage", "exact")], ()),
        (["Chárles-Babbage"], {}, [("charles babbage", "exact")], ()),
        (["O'LONDON", "City of Light"], {}, [("london", "exact"), ("paris", "alias")], ()),
        (["the thames"], {"seed_vector_budget": 1}, [("river thames", "vector")], ("the thames",)),
    ],
    ids=["known", "accents and signs", "normalised and merged", "unknown, searched by its hint"],
)
def test_names_of_a_question_are_seeds(names: list[str], given: Any, seeds: Any, unmatched: Any) -> None:
    number = MemoryIndex(PASSAGES).artefact(GRAPH).number_of["london"]
    index = MemoryIndex(PASSAGES, {EXACT_NAMES: {"o'london": [number]}, ALIASES: {"city of light": "paris"}})
    evidence = ask(index, "Which is meant?", *names, **given).evidence
    assert [(seed.key, seed.match) for seed in evidence.seeds] == seeds
    matched = tuple(key for key, match in seeds if match != "vector")
    assert evidence.names == QuestionNames(matched, unmatched)


def test_only_hints_of_unknown_names_are_encoded(memory_index: Any) -> None:
    calls: list[list[str]] = []
    strategy = make("qasa", memory_index, {}, memory_services(memory_index, calls))
    strategy.retrieve([asked(memory_index, "Paris?", "paris"), asked(memory_index, "Which?", "the thames")], limit=3)
    assert calls == [["the thames"]]


def test_without_names_the_question_itself_finds_seeds_or_nothing_does(memory_index: Any) -> None:
    by_vector = ask(memory_index, "river thames").evidence
    assert by_vector.fallback == QUESTION_VECTOR
    assert [seed.match for seed in by_vector.seeds] == ["vector"] * 5
    nothing = ask(memory_index, "river thames", no_entity_policy="empty")
    assert nothing.passages == ()
    assert (nothing.evidence.fallback, nothing.evidence.node_count) == (NOTHING_SEARCHED, 0)
    assert nothing.evidence.context == "Chains:\n(none)\n\nEntities:\n(none)"


def test_a_passage_s_score_is_its_strongest_entity_s_activation(memory_index: Any) -> None:
    retrieval = ask(memory_index, RIVER, "warsaw", top_k_entities=100)
    activation = {node.key: node.weight for node in retrieval.evidence.nodes}
    graph = memory_index.artefact(GRAPH)
    for passage in retrieval.passages:
        number = memory_index.number_of_passage[passage.passage_id]
        mentioned = graph.indices[graph.indptr[number] : graph.indptr[number + 1]]
        values = [activation.get(graph.keys[entity], 0.0) for entity in mentioned]
        assert passage.score == pytest.approx(max(values), abs=1e-6)  # type: ignore[type-var]


def test_chains_carry_relations_and_cuts_are_flagged(memory_index: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    evidence = ask(memory_index, RIVER, "warsaw").evidence
    assert evidence.seeds == (Seed("entity", "warsaw", 1, "Warsaw", "exact", 1),)
    chain = next(path for path in evidence.paths if path.nodes[:2] == ("warsaw", "vistula"))
    assert "mentions" in chain.edges[0].forward
    assert chain.text.startswith("Warsaw --[mentions]--> ")
    assert chain.text in evidence.context
    assert set(chain.nodes) <= {node.key for node in evidence.nodes}
    assert "Warsaw: All about warsaw." in evidence.context
    assert (evidence.fallback, evidence.notes) == (None, ())
    monkeypatch.setattr(qasa, "ChainRule", partial(ChainRule, max_paths=1))
    assert ask(memory_index, RIVER, "warsaw").evidence.notes


def test_every_parameter_reaches_the_engine_s_rules() -> None:
    seeds: Any = {"seed_vector_budget": 4, "seed_score": "entity"}
    spread: Any = {"steps": 2, "decay": 0.6, "threshold": 0.02, "gate": "none", "edge_multiplicity": "per_edge"}
    chains: Any = {"top_k_chains": 7, "max_chain_length": 3, "chain_dedupe": "before_limit"}
    parameters = QasaParameters(**seeds, **spread, **chains, uniform_requires_embedding=False)
    spreading = SpreadRule(2, 0.6, 0.02, "none", "per_edge", uniform_requires_embedding=False)
    assert rules_of(parameters) == QasaRules(SeedRule(4, "entity"), spreading, ChainRule(7, 3, "before_limit"))


def test_the_engine_on_a_database_asks_with_its_rules_and_drops_duplicates_up_to_the_limit() -> None:
    rules = QasaRules(SeedRule(3), SpreadRule(steps=1), ChainRule(limit=2))
    chains = [Chain(path, 0.5) for path in [(0, 1, 2), (2, 1, 0), (0, 1), (3, 4), (5, 6)]]
    database = Mock()
    database.activate.return_value = Activation((), np.array([0]), np.array([1.0]), tuple(chains))
    question = SpreadQuestion(np.array([1.0], dtype=np.float32), ())
    found = Neo4jEngine(database, rules).activate(question)
    database.activate.assert_called_once_with(question, rules.seeds, rules.spread, rules.chains)
    assert [chain.entities for chain in found.chains] == [(0, 1, 2), (3, 4)]
    assert found.values.tolist() == [1.0]


def test_passages_are_ranked_by_their_own_activation_where_they_are_nodes(memory_index: Any) -> None:
    retrieval = ask(memory_index, RIVER, "warsaw", passage_nodes=True, steps=1, decay=0.5, threshold=0)
    question = asked(memory_index, RIVER, "warsaw")
    vectors = memory_index.artefact(vectors_of("passage"))
    graph = memory_index.artefact(GRAPH)
    mentioning = graph.rows[graph.indices == graph.number_of["warsaw"]].tolist()
    expected = {memory_index.passage_ids[n]: 0.5 * float(vectors[n] @ question.vector) for n in mentioning}
    assert {one.passage_id: one.score for one in retrieval.passages} == pytest.approx(expected, abs=1e-6)
    scores = [one.score for one in retrieval.passages]
    assert scores == sorted(scores, reverse=True)


def test_a_second_pass_reaches_what_one_of_twice_the_steps_does(memory_index: Any) -> None:
    one, two = (ask(memory_index, RIVER, "warsaw", gate="none", threshold=0, **given) for given in ({"steps": 1}, {}))
    again = ask(memory_index, RIVER, "warsaw", gate="none", threshold=0, steps=1, passes=3)
    assert one.evidence.node_count < again.evidence.node_count == two.evidence.node_count
    assert again.evidence.seeds == one.evidence.seeds


@pytest.mark.parametrize("given", [{"passes": 2}, {"passage_nodes": True}])
def test_what_the_one_query_of_a_server_has_not_is_refused_there(memory_index: Any, given: Any) -> None:
    with pytest.raises(ConfigurationError, match="require engine=embedded"):
        make("qasa", memory_index, {"engine": "neo4j", **given})


def test_a_thin_client_needs_a_server(memory_index: Any) -> None:
    with pytest.raises(ConfigurationError, match="requires engine=neo4j"):
        make("qasa", memory_index, {"thin_client": True})
