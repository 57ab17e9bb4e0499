"""bridge, bridge-lexical and bridge-masked on the small corpus: seeds, hops, cover; masks, trust, and who encodes."""

from typing import Any

import pytest
from memory_index import PASSAGES, MemoryIndex, ids_of, memory_services, retrieved, scores_of

from polyhop.schemas.evidence import PASSAGES_ONLY, QuestionNames
from polyhop.schemas.query import Question, Retrieval
from polyhop.warehouse.artefacts import COSINE_SCALE, GRAPH
from polyhop.worker.answer import Answerer
from polyhop.worker.strategies import bridge, bridge_masked
from polyhop.worker.strategies.bridge import ENTITY_PENALTY
from polyhop.worker.strategies.bridge_masked import IN_MASKED_COSINES, BridgeMaskedParameters
from polyhop.worker.strategies.registry import make

HOPS = "Which river flows through the capital of Poland, Warsaw?"


def test_the_evidence_names_what_starts_the_walk(memory_index: Any) -> None:
    evidence = retrieved(memory_index, "bridge", "Who knew Ada Lovelace and John Doe?").evidence
    assert evidence.names == QuestionNames(("ada lovelace",), ("john doe",))
    assert list(evidence.seed_weights("entity")) == ["ada lovelace"]
    assert [seed.kind for seed in evidence.seeds].count("passage") == 5
    assert evidence.fallback is None
    parts = [seed.weight for seed in evidence.seeds]
    assert sum(parts) == pytest.approx(1, abs=1e-5)
    evidence = retrieved(memory_index, "bridge", "longest river").evidence
    assert evidence.fallback == PASSAGES_ONLY
    assert evidence.seed_weights("entity") == {}


@pytest.mark.parametrize("strategy", ["bridge", "bridge-lexical", "rrf"])
def test_the_parts_of_a_score_sum_to_it(memory_index: Any, strategy: str) -> None:
    found = retrieved(memory_index, strategy, HOPS)
    parts = found.evidence.score_parts
    sums = {passage_id: sum(shares.values()) for passage_id, shares in parts.items()}
    assert sums == pytest.approx(scores_of(found), abs=3e-6)
    assert max(len(shares) for shares in parts.values()) > 1


def test_words_are_no_similarity_without_vectors(memory_index: Any) -> None:
    parts = retrieved(memory_index, "bridge-lexical", HOPS).evidence.score_parts
    assert {shares["similarity"] for shares in parts.values()} == {0.0}
    assert max(shares["words"] for shares in parts.values()) > 0


def test_only_the_first_scores_are_given_in_parts(memory_index: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "EXPLAINED", 2)
    found = retrieved(memory_index, "bridge", HOPS)
    assert list(found.evidence.score_parts) == ids_of(found)[:2]


def test_the_walk_reaches_a_passage_that_shares_no_word_with_the_question(memory_index: Any) -> None:
    """Troy is linked to the mythical Paris by Helen only."""
    for given, is_reached in (({"graph_weight": 0}, False), ({}, True)):
        found = retrieved(memory_index, "bridge-lexical", "Paris (mythology)", **given)
        assert ("p10" in ids_of(found)) is is_reached


def test_bridge_lexical_starts_from_no_passage_that_shares_no_word_and_counts_a_word_once(memory_index: Any) -> None:
    evidence = retrieved(memory_index, "bridge-lexical", "Helen").evidence
    assert set(evidence.seed_weights("passage")) == {"p09", "p10"}
    assert ids_of(retrieved(memory_index, "bridge-lexical", "zzz qqq")) == []
    assert len(ids_of(retrieved(memory_index, "bridge", "zzz qqq"))) == 13
    texts = ("river Poland", "river rivers Poland river")
    once, twice = (retrieved(memory_index, "bridge-lexical", text) for text in texts)
    assert once.passages == twice.passages


def test_the_first_places_cover_the_question_within_a_pool(memory_index: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both hops come before a third passage about one of them."""
    plain = ids_of(retrieved(memory_index, "bridge", HOPS, coverage_weight=0))
    assert set(ids_of(retrieved(memory_index, "bridge", HOPS))[:3]) >= {"p06", "p07"}
    monkeypatch.setattr(bridge, "POOL", 4)
    covered = ids_of(retrieved(memory_index, "bridge", HOPS))
    assert set(covered[:4]) == set(plain[:4])
    assert covered[4:] == plain[4:]


def test_an_entity_of_one_passage_weighs_more_than_one_of_two() -> None:
    """Weights are df ** -.5, so 1 against .707, whatever the passages' share is."""
    rows = [("a", "Rome", "Rome met Oslo."), ("b", "Oslo", "It is cold."), ("c", "Bern", "Bern is small.")]
    index = MemoryIndex(rows)
    graph = index.artefact(GRAPH)
    df = dict(zip(graph.keys, graph.df.tolist(), strict=True))
    assert (df["bern"], df["oslo"]) == (1, 2)
    weights = retrieved(index, "bridge-lexical", "Did Bern meet Oslo?").evidence.seed_weights("entity")
    assert weights["oslo"] / weights["bern"] == pytest.approx(2**-ENTITY_PENALTY, abs=1e-5)


def test_bm25_counts_in_the_score_only_if_the_question_names_nothing_rare(memory_index: Any) -> None:
    for text, is_counted in (("longest river", True), ("Where was Ada Lovelace born?", False)):
        scores = [scores_of(retrieved(memory_index, "bridge", text, graph_weight=0, lexical_weight=w)) for w in (0, 1)]
        added = [scores[1][passage_id] - scores[0][passage_id] for passage_id in scores[0]]
        assert max(added) == pytest.approx(1 if is_counted else 0, abs=1e-12)
        assert min(added) == pytest.approx(0, abs=1e-12)


def test_the_walk_of_a_question_without_a_name_counts_three_tenths(
    memory_index: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = scores_of(retrieved(memory_index, "bridge", "longest river"))
    monkeypatch.setattr(bridge, "LEAST_GRAPH_SHARE", 1.0)
    whole = scores_of(retrieved(memory_index, "bridge", "longest river", graph_weight=0.06))
    assert part == pytest.approx(whole, abs=1e-12)


def test_a_question_without_a_name_covers_its_words_half_as_much(
    memory_index: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def order(weight: float) -> list[str]:
        return ids_of(retrieved(memory_index, "bridge", "river program", coverage_weight=weight))

    half, none = order(0.6), order(0)
    monkeypatch.setattr(bridge, "LEAST_COVERAGE_SHARE", 1.0)
    assert half == order(0.3)
    assert half not in (order(0.6), none)


def test_a_common_word_that_begins_a_question_hardly_starts_the_walk() -> None:
    """`Parse` is a name in one passage and a word in nine, so its weight is five ninths of that of a name like Oslo."""
    rows = [("a", "", "Parse it. It is in Oslo."), *((f"b{n}", "", f"They parse number {n}.") for n in range(8))]
    weights = retrieved(MemoryIndex(rows), "bridge", "Parse a text in Oslo").evidence.seed_weights("entity")
    assert weights["parse"] / weights["oslo"] == pytest.approx(5 / 9, abs=1e-4)


def ask(index: MemoryIndex, text: str, **given: object) -> Retrieval:
    return retrieved(index, "bridge-masked", text, **given)


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


def test_without_a_name_passages_start_a_walk_of_a_fifth(memory_index: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "longest river"
    found = ask(memory_index, text)
    assert found.evidence.fallback == PASSAGES_ONLY
    masked, values = noted(found)
    assert (masked, values["c"]) == ("none", 0)
    fifth = scores_of(ask(memory_index, text, lexical_share=0.0))
    monkeypatch.setattr(bridge_masked, "LEAST_GRAPH_SHARE", 1.0)
    whole = scores_of(ask(memory_index, text, graph_weight=0.07, lexical_share=0.0))
    assert fifth == pytest.approx(whole, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "given"),
    [("What is Paris?", {}), ("Is Troy or Helen it?", {}), ("Where was Ada Lovelace born?", {"mask_weight": 0})],
)
def test_an_empty_or_weightless_mask_is_never_encoded(memory_index: Any, text: str, given: dict[str, object]) -> None:
    calls: list[list[str]] = []
    strategy = make("bridge-masked", memory_index, given, memory_services(memory_index, calls))
    (found,) = strategy.retrieve([Question(text, vector=memory_index.encode([text])[0])], limit=5)
    assert (noted(found)[0], calls) == ("none", [])
    assert found.passages == ask(memory_index, text, mask_weight=0).passages[:5]


def test_a_question_of_unknown_words_trusts_nothing(memory_index: Any) -> None:
    found = ask(memory_index, "zzz qqq")
    assert noted(found) == ("none", {"c": 0, "kappa": 0, "o": 0, "r": 0})
    assert len(found.passages) == 13


def test_similarity_is_a_mixture_of_both_cosines(memory_index: Any) -> None:
    given = {"graph_weight": 0, "lexical_share": 0}
    plain, masked = (scores_of(ask(memory_index, HOPS, mask_weight=weight, **given)) for weight in (0, 1))
    assert plain != masked
    expected = {passage_id: 0.3 * plain[passage_id] + 0.7 * score for passage_id, score in masked.items()}
    assert scores_of(ask(memory_index, HOPS, **given)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("rerank", [False, True])
def test_the_masks_of_a_batch_are_encoded_in_one_call_each_once(memory_index: Any, rerank: bool) -> None:
    texts = ["Where was Ada Lovelace born?", "What is a river?", "Where was Charles Babbage born?", "Who saw Troy?"]
    calls: list[list[str]] = []
    parameters = {"rerank": True} if rerank else {}
    answerer = Answerer(memory_index, "bridge-masked", parameters, memory_services(memory_index, calls), None)
    together = answerer.retrieve([Question(text) for text in texts], limit=5)
    assert calls == [texts, ["Where was born", "Who saw"]]
    calls.clear()
    alone = [["Where was born"], texts[3:], ["Who saw"]]
    apart = [answerer.retrieve([Question(text)], limit=5)[0].passages for text in texts]
    assert apart == [found.passages for found in together]
    assert calls == [[texts[0]], ["Where was born"], *([text] for text in texts[1:3]), *alone]


def test_weights_in_cosines_are_scaled_to_the_encoder_s_spread(memory_index: Any) -> None:
    defaults = BridgeMaskedParameters()
    scaled = {name: getattr(defaults, name) * 0.25 for name in IN_MASKED_COSINES}
    assert set(scaled) == {"seed_temperature", "lexical_weight", "graph_weight", "coverage_weight", "lexical_share"}
    other = ask(MemoryIndex(PASSAGES, {COSINE_SCALE: 0.25}), HOPS).passages
    assert other == ask(memory_index, HOPS, **scaled).passages
    assert other != ask(memory_index, HOPS).passages
