"""Kinds of values, superlatives, and what of a question is encoded: algorithms.md 4B."""

import numpy as np
import pytest
from facet_index import make_units, shown

from polyhop.worker.ranking.facets.conditions import NOT_EXTREME, asked_extreme, asked_kinds
from polyhop.worker.ranking.facets.labels import question_words
from polyhop.worker.ranking.facets.ranking import FacetRanking, FacetRule
from polyhop.worker.ranking.facets.units import Fields, Kind, Units

BRIDGES = """
b1 river Severn; b1 opened 1966; b1 length 1600; b1 toll True; b1 span 3|May|1990;
b2 river Severn; b2 opened 1996; b2 length 5128; b2 toll False; b2 span 1990;
b3 river Tamar; b3 opened 1859; b3 length 667; b3 toll True; b3 span 1991
"""


@pytest.fixture(scope="module")
def bridges() -> Units:
    labels = {f"b{number}": name for number, name in enumerate(("Old Crossing", "New Crossing", "Royal Albert"), 1)}
    return make_units(BRIDGES, ("b1", "b2", "b3"), {**labels, "3|May|1990": "3 May 1990"})


def ranking_of(units: Units) -> FacetRanking:
    return FacetRanking(units, None, ["Bridge"], FacetRule())


def best_hubs(units: Units, question: str) -> list[str]:
    """Labels of hubs in descending order of how well they meet the question's conditions, superlatives included."""
    ranking = ranking_of(units)
    paths = np.argsort(-ranking.score(ranking.read(question), None).paths, kind="stable")
    hubs = dict.fromkeys(units.path_hubs[paths].tolist())
    return [units.value_texts[int(units.hub_values[hub])] for hub in hubs]


def test_a_field_is_of_the_kind_of_its_values(bridges: Units) -> None:
    assert dict(zip(bridges.signature_texts, Fields(bridges).kinds.tolist(), strict=True)) == {
        "river": Kind.OTHER, "opened": Kind.TIME, "length": Kind.NUMBER, "toll": Kind.YES_NO, "span": Kind.TIME
    }  # fmt: skip


@pytest.mark.parametrize(
    ("question", "kinds"),
    [
        ("When was it opened?", Kind.TIME),
        ("Who built it, and when was that?", Kind.TIME),
        ("How long is it?", Kind.NUMBER),
        ("Which has the most lanes?", Kind.NUMBER),
        ("Which material is the most common?", Kind.OTHER),
        ("Is there a toll?", Kind.YES_NO),
        ("Do both have the same toll?", Kind.OTHER),
        ("What is there?", Kind.OTHER),
        ("", Kind.OTHER),
    ],
)
def test_a_question_asks_for_kinds_in_plain_words(question: str, kinds: Kind) -> None:
    assert asked_kinds(question_words(question)) == kinds


@pytest.mark.parametrize(
    ("question", "extreme"),
    [
        ("Which is the longest?", (Kind.NUMBER, True)),
        ("Which has the fewest lanes?", (Kind.NUMBER, False)),
        ("Which is the most recent?", (Kind.TIME, True)),
        ("Which opened the earliest?", (Kind.TIME, False)),
        ("Which river has the most bridges?", (Kind.NUMBER, True)),
        ("Which is the most common river?", None),
        ("List them, oldest first.", None),
        ("Sort them from newest to oldest.", None),
        ("Which has at least 2 lanes?", None),
        ("Which has most?", None),
    ],
)
def test_a_superlative_asks_for_one_end_of_a_field(question: str, extreme: tuple[Kind, bool] | None) -> None:
    assert asked_extreme(question_words(question)) == extreme


def test_the_hub_at_the_end_of_a_field_comes_first_of_those_that_meet_the_rest(bridges: Units) -> None:
    assert best_hubs(bridges, "Which bridge over the Severn opened the earliest?")[0] == "Old Crossing"
    assert best_hubs(bridges, "Which bridge over the Severn is the latest?")[0] == "New Crossing"
    assert best_hubs(bridges, "Which bridge has the smallest length?")[0] == "Royal Albert"


def test_numbers_that_are_not_at_the_end_stay_possible(bridges: Units) -> None:
    ranking = ranking_of(bridges)
    question = ranking.read("Which bridge over the Severn has the largest length?")
    scores = ranking.score(question, None)
    shown_paths = [shown(bridges, document) for document in bridges.path_documents.tolist()]
    first, second = (scores.paths[shown_paths.index(("length", value))] for value in ("5128", "1600"))
    assert second / first == pytest.approx(NOT_EXTREME, abs=0.1)  # its hub meets the condition so far


def test_words_of_the_hubs_type_are_not_encoded_unless_its_kind_is_asked_for(bridges: Units) -> None:
    ranking = ranking_of(bridges)
    assert ranking.read("Which bridge over the Severn is long?").rest == "Which over the it is long"
    assert ranking.read("What kind of bridge is long?").rest == "What kind of bridge is long"
    texts = [word.text for word in ranking.read("Which bridge is long?").words_beside_hubs]
    assert texts == ["Which", "is", "long"]


def test_amounts_and_times_are_limited_in_fields_of_their_own(bridges: Units) -> None:
    ranking = ranking_of(bridges)

    def fields(question: str) -> set[str]:
        (facet,) = ranking.read(question).facets
        return {bridges.signature_texts[signature] for signature in facet.signatures}

    assert fields("Which bridges have more than 1000 metres?") == {"length"}
    assert fields("Which bridges came before 1900?") == {"opened"}
    assert fields("Which are between 1000 and 1970?") == {"length", "opened"}
