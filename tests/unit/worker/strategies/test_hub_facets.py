"""hub-facets on graphs of other fields: products, music, predicates as URIs, labels in other scripts."""

from collections.abc import Mapping
from typing import Any
from unittest.mock import create_autospec

import pytest
from memory_index import MemoryIndex, Passage, hubs_of, memory_services, music_hubs, value_texts_of, written

from polyhop.schemas.errors import AlgorithmError, ConfigurationError
from polyhop.schemas.evidence import as_row, evidence_of
from polyhop.schemas.query import Question, ReadingItem, Retrieval
from polyhop.tasks.hubs.paths import STORED_HUBS, StoredHubs
from polyhop.terminal import evidence_lines
from polyhop.warehouse.artefacts import vectors_of
from polyhop.worker.reading.models import ModelReader
from polyhop.worker.reading.reader import FacetReader, RuleReader
from polyhop.worker.strategies.hub_facets import names_of
from polyhop.worker.strategies.registry import make, make_reader

PRODUCTS = """
https://shop.org/item/1 http://schema.org/isMadeBy acme; https://shop.org/item/1 http://schema.org/primaryColor red;
https://shop.org/item/1 http://schema.org/hasBattery none; https://shop.org/item/2 http://schema.org/isMadeBy acme;
https://shop.org/item/2 http://schema.org/primaryColor blue;
https://shop.org/item/2 http://schema.org/hasBattery lithium;
https://shop.org/item/3 http://schema.org/isMadeBy zenith; https://shop.org/item/3 http://schema.org/primaryColor red;
https://shop.org/item/3 http://schema.org/hasBattery lithium
"""
NAMES = {
    "https://shop.org/item/1": "Desk lamp",
    "https://shop.org/item/2": "Field radio",
    "acme": "Acme Electrics",
    "zenith": "Zenith",
    "none": "No battery",
    "lithium": "Lithium battery",
}
ITEMS = tuple(f"https://shop.org/item/{number}" for number in (1, 2, 3))


def products(**more: Any) -> StoredHubs:
    return hubs_of(written(PRODUCTS), set(ITEMS), NAMES, **more)[0]


def index_of(stored: StoredHubs, passages: tuple[Passage, ...] = ()) -> MemoryIndex:
    """An index of these hubs; its vectors count words of its passages."""
    texts = value_texts_of(stored)
    rows = [*passages, ("words", "", " ".join(texts))]
    encode = MemoryIndex(rows).encode
    given = {STORED_HUBS: stored, vectors_of("hubvalue"): encode(texts)}
    return MemoryIndex(rows, given)  # type: ignore[arg-type]


def ask(stored: StoredHubs, text: str, parameters: Mapping[str, object] | None = None, limit: int = 10) -> Retrieval:
    index = index_of(stored)
    strategy = make("hub-facets", index, parameters or {}, memory_services(index))
    return strategy.retrieve([Question(text, vector=index.encode([text])[0])], limit=limit)[0]


def triples(retrieval: Retrieval) -> list[tuple[str, str, str]]:
    return [(triple.subject, triple.predicate.rpartition("/")[2], triple.object) for triple in retrieval.triples]


def test_the_hub_that_meets_all_conditions_gives_the_first_triples() -> None:
    found = triples(ask(products(), "Which red thing is made by Acme?"))
    assert set(found[:2]) == {("Desk lamp", "primaryColor", "red"), ("Desk lamp", "isMadeBy", "Acme Electrics")}


def test_predicates_in_uris_and_camel_case_are_words() -> None:
    assert triples(ask(products(), "What is the primary colour of the field radio?"))[0] == (
        "Field radio",
        "primaryColor",
        "blue",
    )


def test_a_negated_value_is_that_of_the_other_hubs() -> None:
    found = triples(ask(products(), "Which red one does not have a lithium battery?"))
    assert found[0] in {("Desk lamp", "primaryColor", "red"), ("Desk lamp", "hasBattery", "No battery")}


def test_a_hub_without_a_label_is_called_by_its_id() -> None:
    stored = hubs_of(written("https://shop.org/item/3 p red; x2 p blue"), {ITEMS[2], "x2"}, {ITEMS[2]: "", "x2": ""})[0]
    assert {"x2", "3"} <= set(names_of(stored))
    assert triples(ask(stored, "What is x2?"))[0] == ("", "p", "blue")


def test_labels_in_other_scripts_are_found() -> None:
    stored = hubs_of(
        written("b1 автор a1; b1 год 1866; b2 автор a2; b2 год 1877; b3 作者 a3"),
        {"b1", "b2", "b3"},
        {"a1": "Фёдор Достоевский", "a2": "Лев Толстой", "a3": "魯迅"},
    )[0]
    assert triples(ask(stored, "Фёдор Достоевский: год?"))[0][0] == "b1"
    assert triples(ask(stored, "魯迅"))[0] == ("b3", "作者", "魯迅")


def test_triples_have_ranks_ids_and_descending_scores() -> None:
    found = ask(products(), "Which red thing is made by Acme?").triples
    assert [triple.rank for triple in found] == list(range(1, 10))
    scores = [triple.score for triple in found]
    assert scores == sorted(scores, reverse=True)
    assert found[0].subject_id == ITEMS[0]
    assert len({triple.relation_id for triple in found}) == len(found)


def test_as_many_triples_are_ranked_as_passages_are_asked_for() -> None:
    every = ask(products(), "Which red thing is made by Acme?").triples
    assert ask(products(), "Which red thing is made by Acme?", limit=2).triples == every[:2]
    assert ask(products(), "Which red thing is made by Acme?", limit=0).triples == ()


def test_passages_attached_to_hubs_come_by_their_hubs() -> None:
    stored = products(hub_passages=[(ITEMS[0], 0), (ITEMS[2], 1)])
    index = index_of(stored, (("lamp", "", "On lamps."), ("other", "", "On others.")))
    strategy = make("hub-facets", index, {}, memory_services(index))
    text = "Which red thing is made by Zenith?"
    (found,) = strategy.retrieve([Question(text, vector=index.encode([text])[0])], limit=5)
    assert [passage.passage_id for passage in found.passages] == ["other", "lamp"]
    assert found.passages[0].score == found.triples[0].score


def test_the_evidence_names_values_conditions_and_hubs() -> None:
    evidence = evidence_of(as_row(ask(products(), "Which red thing is made by Acme?").evidence))
    assert evidence.names is not None
    assert evidence.names.matched == ("red", "Acme Electrics")
    assert (evidence.nodes[0].name, evidence.nodes[0].kind) == ("Desk lamp", "hub")
    lines = evidence_lines(evidence, {})
    red, acme = (line for line in lines if line.startswith("Condition"))
    assert red.startswith("Condition  red as primary color: red 1.00; met by 2 hubs:")
    assert "Desk lamp 1.000" in red
    assert "Field radio" not in red
    assert "Acme as is made by: Acme Electrics" in acme
    assert evidence.fallback is None


def test_the_evidence_says_that_a_question_sets_no_condition() -> None:
    found = ask(products(), "What is there?")
    assert found.evidence.fallback is not None
    assert found.evidence.fallback.code == "similarity"
    assert len(found.triples) == 9


def test_the_evidence_has_the_short_answer_with_its_triples() -> None:
    found = ask(products(), "What is the primary colour of the field radio?").evidence.data["facet_answer"]
    assert (found["texts"], found["kind"], found["hub_count"]) == (["blue"], "values", 1)
    assert found["hubs"] == [{"id": ITEMS[1], "name": "Field radio"}]
    ((triple,)) = found["triples"]
    assert (triple["hub"], triple["object"]) == ("Field radio", "blue")
    assert "facet_answer" not in ask(products(), "What is there?").evidence.data


def test_the_facets_are_read_unless_a_model_reads() -> None:
    index, services = index_of(products()), memory_services(index_of(products()))
    rules = RuleReader(index, min_confidence=0.95)
    model = create_autospec(ModelReader, instance=True)
    own = make_reader("hub-facets", index, {}, services, rules)
    assert isinstance(own, FacetReader)
    retrieval = ask(products(), "What is the primary colour of the field radio?")
    (reading,) = own.read([ReadingItem(Question("What is the primary colour?"), retrieval, ())])
    assert reading.answer == ""  # its confidence is below what the user asks for
    assert make_reader("hub-facets", index, {}, services, model) is model


def test_a_graph_without_hubs_gives_nothing() -> None:
    found = ask(hubs_of(written("a p b"), set())[0], "What is a?")
    assert (found.triples, found.passages) == ((), ())


def test_hubs_without_paths_give_nothing() -> None:
    assert ask(hubs_of(written("a p b"), {"b"})[0], "What is b?").triples == ()


def test_the_rest_of_the_question_is_encoded_only_if_fields_are_compared() -> None:
    stored = music_hubs()
    index = index_of(stored)
    question = Question("Who made Morning Hills?", vector=index.encode(["Who made Morning Hills?"])[0])
    assert make("hub-facets", index, {"signature_similarity": 0}).retrieve([question], limit=3)[0].triples
    with pytest.raises(AlgorithmError, match="No encoder"):
        make("hub-facets", index, {}).retrieve([question], limit=3)


def test_a_question_without_its_vector_is_refused() -> None:
    index = index_of(music_hubs())
    with pytest.raises(AlgorithmError, match="encode 'Who sang\\?' first"):
        make("hub-facets", index, {}, memory_services(index)).retrieve([Question("Who sang?")], limit=3)


@pytest.mark.parametrize(
    ("name", "value"), [("floor", 0), ("least_coverage", 1.5), ("signature_similarity", -1), ("soft_weight", -1)]
)
def test_parameters_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=f"Parameter '{name}' of strategy 'hub-facets'"):
        make("hub-facets", index_of(music_hubs()), {name: value})
