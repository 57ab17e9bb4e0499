"""`bridge-masked` on the small corpus: masks, trust, edge cases, and who encodes what."""

from typing import Any

import pytest
from memory_index import PASSAGES, memory_services

from polyhop.schemas.evidence import PASSAGES_ONLY, QuestionNames
from polyhop.schemas.query import Question, Retrieval
from polyhop.warehouse.artefacts import ALIASES, COSINE_SCALE
from polyhop.worker.answer import Answerer
from polyhop.worker.strategies import bridge_masked
from polyhop.worker.strategies.bridge import BridgeParameters
from polyhop.worker.strategies.bridge_masked import IN_MASKED_COSINES, BridgeMaskedParameters
from polyhop.worker.strategies.registry import make

NAME = "bridge-masked"


def ask(index: Any, text: str, limit: int = 13, **parameters: object) -> Retrieval:
    question = Question(text, vector=index.encode([text])[0])
    return make(NAME, index, parameters, memory_services(index)).retrieve([question], limit=limit)[0]


def scores(retrieval: Retrieval) -> list[tuple[str, float]]:
    return [(passage.passage_id, passage.score) for passage in retrieval.passages]


def noted(retrieval: Retrieval) -> tuple[str, dict[str, float]]:
    """The masked question, and c, kappa, o, r."""
    masked, trust = retrieval.evidence.notes
    assert (masked.label, trust.label) == ("Masked question", "Trust in words")
    return masked.text, {label.split("(")[1].strip(")"): value for label, value in trust.items}


def test_the_evidence_shows_mask_and_trust_beside_names_and_seeds(memory_index: Any) -> None:
    found = ask(memory_index, "Where was Ada Lovelace's friend John Doe born?")
    masked, values = noted(found)
    assert masked == "Where was friend John Doe born"  # only what is a node is masked
    assert list(values) == ["c", "kappa", "o", "r"]
    assert values["c"] == 1
    assert values["r"] == pytest.approx(max(values["kappa"], min(1, values["o"] / 3)))
    assert found.evidence.names == QuestionNames(("ada lovelace",), ("john doe",))
    assert list(found.evidence.seed_weights("entity")) == ["ada lovelace"]
    assert found.evidence.fallback is None


def test_without_a_name_the_walk_starts_from_passages_and_weighs_a_fifth(
    memory_index: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "longest river"
    found = ask(memory_index, text)
    assert found.evidence.fallback == PASSAGES_ONLY
    masked, values = noted(found)
    assert (masked, values["c"]) == ("none", 0)
    fifth = dict(scores(ask(memory_index, text, lexical_share=0.0)))
    monkeypatch.setattr(bridge_masked, "LEAST_GRAPH_SHARE", 1.0)
    whole = dict(scores(ask(memory_index, text, graph_weight=0.07, lexical_share=0.0)))
    assert fifth == pytest.approx(whole, abs=1e-12)


@pytest.mark.parametrize("text", ["Paris", "What is Paris?", "Is Troy or Helen it?"])
def test_a_mask_that_leaves_no_stem_is_none_and_never_encoded(memory_index: Any, text: str) -> None:
    calls: list[list[str]] = []
    services = memory_services(memory_index, calls)
    strategy = make(NAME, memory_index, {}, services)
    question = Question(text, vector=memory_index.encode([text])[0])
    (found,) = strategy.retrieve([question], limit=5)
    assert noted(found)[0] == "none"
    assert calls == []
    assert found.passages == make(NAME, memory_index, {"mask_weight": 0}).retrieve([question], limit=5)[0].passages


def test_a_frequent_name_is_a_seed_and_is_not_masked(make_index: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six passages of Rome, more than five: c is sqrt(5 / 6)."""
    rows = [(f"p{n}", f"Town {'ABCDEFG'[n]}x", f"It is near Rome, says no {n}.") for n in range(6)]
    index = make_index([*rows, ("p6", "Oslo", "Oslo is cold.")])
    found = ask(index, "Who is cold near Rome?")
    assert list(found.evidence.seed_weights("entity")) == ["rome"]
    masked, values = noted(found)
    assert masked == "none"
    assert values["c"] == pytest.approx((5 / 6) ** 0.5, abs=1e-6)
    monkeypatch.setattr(bridge_masked, "COMMON_SHARE", 6 / 7)
    assert noted(ask(index, "Who is cold near Rome?"))[0] == "Who is cold near"


def test_a_question_of_unknown_words_trusts_nothing(memory_index: Any) -> None:
    masked, values = noted(ask(memory_index, "zzz qqq"))
    assert (masked, values) == ("none", {"c": 0, "kappa": 0, "o": 0, "r": 0})
    assert len(ask(memory_index, "zzz qqq").passages) == 13


def test_a_nested_name_is_no_seed_and_does_not_count_but_is_matched_and_masked(make_index: Any) -> None:
    """`paris mythology` and `paris` are found at the same place."""
    index = make_index(PASSAGES)
    found = ask(index, "Who was in Paris Mythology with Paris?")
    assert found.evidence.names is not None
    assert found.evidence.names.matched == ("paris", "paris mythology")
    assert list(found.evidence.seed_weights("entity")) == ["paris mythology"]
    assert noted(found)[0] == "none"  # Who was in with


def test_an_alias_is_masked_as_its_entity(make_index: Any) -> None:
    index = make_index(PASSAGES, {ALIASES: {"countess lovelace": "ada lovelace"}})
    found = ask(index, "Where was Countess Lovelace born?")
    assert noted(found)[0] == "Where was born"
    assert list(found.evidence.seed_weights("entity")) == ["ada lovelace"]
    assert noted(ask(make_index(PASSAGES), "Where was Countess Lovelace born?"))[0] == "none"


def test_two_passages_are_enough_to_rank(make_index: Any) -> None:
    index = make_index([("a", "Rome", "Rome met Oslo."), ("b", "Oslo", "It is cold.")])
    found = ask(index, "Which cold town met Rome?")
    masked, values = noted(found)
    assert masked == "Which cold town met"
    assert values["o"] == 2
    assert values["r"] == pytest.approx(max(values["kappa"], 2 / 3), abs=1e-6)
    assert {passage.passage_id for passage in found.passages} == {"a", "b"}


def test_the_masked_question_brings_what_shares_no_name(make_index: Any) -> None:
    """`c` answers what is asked, and has none of the names."""
    rows = [
        ("a", "Rome", "Rome of Romulus and Remus, Rome of Romulus and Remus."),
        ("b", "Oslo", "Oslo has a fjord."),
        ("c", "Birth", "where people are born and were born"),
    ]
    index, text = make_index(rows), "Where were Romulus and Remus of Rome born?"
    plain, masked = (dict(scores(ask(index, text, graph_weight=0, mask_weight=w))) for w in (0, 1))
    assert plain["a"] > plain["c"]
    assert masked["c"] > masked["a"]


def test_similarity_is_a_mixture_of_both_cosines(memory_index: Any) -> None:
    text = "Which river flows through the capital of Poland, Warsaw?"
    parts = {w: dict(scores(ask(memory_index, text, graph_weight=0, lexical_share=0, mask_weight=w))) for w in (0, 1)}
    found = dict(scores(ask(memory_index, text, graph_weight=0, lexical_share=0)))
    for passage_id, score in found.items():
        assert score == pytest.approx(0.3 * parts[0][passage_id] + 0.7 * parts[1][passage_id], abs=1e-12)


@pytest.mark.parametrize("rerank", [False, True])
def test_the_masks_of_a_batch_are_encoded_in_one_call_each_once(memory_index: Any, rerank: bool) -> None:
    texts = ["Where was Ada Lovelace born?", "What is a river?", "Where was Charles Babbage born?", "Who saw Troy?"]
    calls: list[list[str]] = []
    parameters = {"rerank": True} if rerank else {}
    answerer = Answerer(memory_index, NAME, parameters, memory_services(memory_index, calls), None)
    together = answerer.retrieve([Question(text) for text in texts], limit=5)
    assert calls == [texts, ["Where was born", "Who saw"]]
    calls.clear()
    assert [answerer.retrieve([Question(text)], limit=5)[0].passages for text in texts] == [
        found.passages for found in together
    ]
    assert calls == [
        [texts[0]],
        ["Where was born"],
        [texts[1]],
        [texts[2]],
        ["Where was born"],
        [texts[3]],
        ["Who saw"],
    ]


def test_without_weight_for_the_mask_nothing_more_is_encoded(memory_index: Any) -> None:
    calls: list[list[str]] = []
    services = memory_services(memory_index, calls)
    answerer = Answerer(memory_index, NAME, {"mask_weight": 0}, services, None)
    (found,) = answerer.retrieve([Question("Where was Ada Lovelace born?")], limit=5)
    assert calls == [["Where was Ada Lovelace born?"]]
    assert noted(found)[0] == "none"


def test_scores_are_fused_scores_whatever_the_cover_did(memory_index: Any) -> None:
    text = "Which river flows through the capital of Poland, Warsaw?"
    covered, plain = (ask(memory_index, text, coverage_weight=weight) for weight in (1, 0))
    assert dict(scores(covered)) == dict(scores(plain))
    values = [score for _, score in scores(plain)]
    assert values == sorted(values, reverse=True)


def test_weights_in_cosines_are_scaled_to_the_encoder_s_spread(make_index: Any) -> None:
    text = "Which river flows through the capital of Poland, Warsaw?"
    defaults = BridgeMaskedParameters()
    scaled = {name: getattr(defaults, name) * 0.25 for name in IN_MASKED_COSINES}
    assert set(scaled) == {"seed_temperature", "lexical_weight", "graph_weight", "coverage_weight", "lexical_share"}
    other = ask(make_index(PASSAGES, {COSINE_SCALE: 0.25}), text)
    assert scores(other) == scores(ask(make_index(PASSAGES), text, **scaled))
    assert scores(other) != scores(ask(make_index(PASSAGES), text))


def test_what_is_not_named_keeps_the_defaults_of_bridge() -> None:
    ours, bridge = BridgeMaskedParameters().model_dump(), BridgeParameters().model_dump()
    changed = {name for name, value in bridge.items() if ours[name] != value}
    assert changed == {"graph_weight"}
    assert {name: ours[name] for name in sorted(ours.keys() - bridge.keys())} == {
        "lexical_share": 0.3,
        "mask_weight": 0.7,
    }
