"""qasa on the small corpus: names to seeds, ranking, evidence, ablations."""

from typing import Any

import pytest

from schemas.errors import AlgorithmError
from schemas.query import Question, QuestionName, Retrieval
from worker.strategies.registry import STRATEGIES, make


def asked(index: Any, text: str, *names: str, hints: bool = True) -> Question:
    """A question with these names, each its own hint."""
    vectors = dict(zip(names, index.encode(names), strict=True)) if hints and names else {}
    found = tuple(QuestionName(name, name) for name in names)
    return Question(text, vector=index.encode([text])[0], names=found, hint_vectors=vectors)


def retrieve(index: Any, question: Question, limit: int = 13, **parameters: object) -> Retrieval:
    return make("qasa", index, parameters).retrieve([question], limit=limit)[0]


def test_a_known_name_is_a_seed_of_full_activation(memory_index: Any) -> None:
    evidence = retrieve(memory_index, asked(memory_index, "Who is Charles Babbage?", "charles babbage")).evidence
    assert evidence["question_entities"] == {"matched": ["charles babbage"], "unmatched": []}
    (seed,) = evidence["seeds"]
    assert seed == {"key": "charles babbage", "name": "Charles Babbage", "match": "exact", "score": 1, "activation": 1}
    assert evidence["fallback"] == "none"


def test_a_name_with_accents_and_signs_is_found_by_its_folded_key(memory_index: Any) -> None:
    evidence = retrieve(memory_index, asked(memory_index, "Who?", "Chárles-Babbage")).evidence
    assert [seed["match"] for seed in evidence["seeds"]] == ["exact"]


def test_normalised_names_and_merged_names_lead_to_their_entity(make_index: Any, corpus: Any) -> None:
    index = make_index(corpus)
    index.exact_names = {"o'london": [index.graph.number_of["london"]]}
    index.aliases = {"city of light": "paris"}
    evidence = retrieve(index, asked(index, "Where?", "O'LONDON", "City of Light", hints=False)).evidence
    assert [(seed["key"], seed["match"]) for seed in evidence["seeds"]] == [("london", "exact"), ("paris", "alias")]
    assert evidence["question_entities"]["matched"] == ["london", "paris"]


def test_an_unknown_name_is_searched_by_its_hint(memory_index: Any) -> None:
    question = asked(memory_index, "Which Thames is meant?", "the thames")
    assert make("qasa", memory_index, {}).searched_hints(question) == ["the thames"]  # type: ignore[attr-defined]
    evidence = retrieve(memory_index, question, seed_vector_budget=1).evidence
    assert [(seed["key"], seed["match"]) for seed in evidence["seeds"]] == [("river thames", "vector")]
    assert evidence["question_entities"]["unmatched"] == ["the thames"]


def test_an_unknown_name_whose_hint_was_not_encoded_is_refused(memory_index: Any) -> None:
    with pytest.raises(AlgorithmError, match="the thames"):
        retrieve(memory_index, asked(memory_index, "Which?", "the thames", hints=False))


def test_no_hint_of_a_known_name_is_wanted(memory_index: Any) -> None:
    question = asked(memory_index, "Paris?", "paris", hints=False)
    assert make("qasa", memory_index, {}).searched_hints(question) == []  # type: ignore[attr-defined]


def test_without_names_the_question_itself_finds_seeds_or_nothing_does(memory_index: Any) -> None:
    question = asked(memory_index, "river thames")
    by_vector = retrieve(memory_index, question)
    assert by_vector.evidence["fallback"] == "question_vector"
    assert len(by_vector.evidence["seeds"]) == 5
    nothing = retrieve(memory_index, question, no_entity_policy="empty")
    assert nothing.passages == ()
    assert (nothing.evidence["fallback"], nothing.evidence["activated"]) == ("empty", 0)
    assert nothing.evidence["context"] == "Chains:\n(none)\n\nEntities:\n(none)"


def test_activation_reaches_passages_that_do_not_name_the_seed(memory_index: Any) -> None:
    """warsaw is mentioned in p05, p06; vistula, one relation further, in p07."""
    question = asked(memory_index, "Which river is in Warsaw?", "warsaw")
    found = [passage.passage_id for passage in retrieve(memory_index, question).passages]
    seeds_only = [passage.passage_id for passage in retrieve(memory_index, question, steps=0).passages]
    assert sorted(seeds_only) == ["p05", "p06"]
    assert {"p05", "p06", "p07"} <= set(found)


def test_a_passage_s_score_is_its_strongest_entity_s_activation(memory_index: Any) -> None:
    retrieval = retrieve(memory_index, asked(memory_index, "Which river is in Warsaw?", "warsaw"), top_k_entities=100)
    activation = {entity["key"]: entity["activation"] for entity in retrieval.evidence["entities"]}
    graph = memory_index.graph
    for passage in retrieval.passages:
        number = memory_index.number_of_passage[passage.passage_id]
        mentioned = graph.indices[graph.indptr[number] : graph.indptr[number + 1]]
        values = [activation.get(graph.keys[entity], 0.0) for entity in mentioned]
        assert passage.score == pytest.approx(max(values), abs=1e-6)


def test_the_gate_closes_what_a_question_is_not_about(memory_index: Any) -> None:
    question = asked(memory_index, "Where is London?", "london")
    gated, open_ = (retrieve(memory_index, question, gate=gate).evidence for gate in ("cosine", "none"))
    assert gated["activations"]["london"] < open_["activations"]["london"]


def test_chains_carry_names_relations_and_their_text(memory_index: Any) -> None:
    evidence = retrieve(memory_index, asked(memory_index, "Which river is in Warsaw?", "warsaw")).evidence
    chain = next(chain for chain in evidence["chains"] if chain["keys"][:2] == ["warsaw", "vistula"])
    first = chain["hops"][0]
    assert {"relation": "mentions", "forward": True} in first
    assert chain["text"].startswith("Warsaw --[mentions]--> ")
    assert chain["text"] in evidence["context"]
    assert set(chain["keys"]) <= set(evidence["activations"])
    assert "Warsaw: All about warsaw." in evidence["context"]


def test_a_search_for_chains_that_was_cut_is_flagged(memory_index: Any) -> None:
    question = asked(memory_index, "Which river is in Warsaw?", "warsaw")
    assert not retrieve(memory_index, question).evidence["is_cut"]
    assert retrieve(memory_index, question, max_paths_enumerated=1).evidence["is_cut"]


def test_the_papers_values_are_the_defaults_of_qasa() -> None:
    """algorithms.md 1.5."""
    assert STRATEGIES["qasa"].parameters().model_dump() == {
        "engine": "embedded",
        "steps": 3,
        "decay": 0.7,
        "threshold": 0.01,
        "gate": "cosine",
        "uniform_requires_embedding": True,
        "edge_multiplicity": "set",
        "seed_vector_budget": 5,
        "seed_score": "question",
        "no_entity_policy": "question_vector",
        "top_k_entities": 30,
        "top_k_chains": 30,
        "max_chain_length": 4,
        "chain_dedupe": "after_limit",
        "max_paths_enumerated": 200_000,
    }
