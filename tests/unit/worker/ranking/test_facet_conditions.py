"""Conditions on hubs, ranges of numbers, kinds of values and superlatives: algorithms.md 4B."""

from collections.abc import Sequence
from math import inf, nextafter

import numpy as np
import pytest
from facet_index import make_units, music_hubs, shown, units_from

from polyhop.worker.ranking.facets.conditions import (
    HUB,
    NOT_EXTREME,
    ReadQuestion,
    asked_extreme,
    asked_kinds,
    number_ranges,
)
from polyhop.worker.ranking.facets.labels import question_words, words_of
from polyhop.worker.ranking.facets.ranking import FacetRanking, FacetRule
from polyhop.worker.ranking.facets.units import Fields, Kind, Units


def conditions_of(units: Units, question: str) -> ReadQuestion:
    return FacetRanking(units, None, ["Album"], FacetRule()).read(question)


def matched(units: Units, conditions: ReadQuestion) -> list[dict[tuple[str, str], float]]:
    """Documents of each facet with their strengths."""
    return [
        {shown(units, number): round(strength, 3) for number, strength in facet.documents.items()}
        for facet in conditions.facets
    ]


@pytest.fixture(scope="module")
def music() -> Units:
    return units_from(music_hubs())


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (
            "Which rock albums did Anna Angstrom record in Paris?",
            [("has genre", "Rock"), ("performed by", "Anna Ångström"), ("recorded at located in", "Paris")],
        ),
        ("Which albums of 1969 or 1973 are folk?", [("release year", "1969", "1973"), ("has genre", "Folk")]),
    ],
)
def test_each_value_is_a_condition_and_those_of_one_field_are_alternatives(
    music: Units, question: str, expected: list[tuple[str, ...]]
) -> None:
    documents = [{(field, value): 1.0 for value in values} for field, *values in expected]
    assert matched(music, conditions_of(music, question)) == documents


def test_the_label_of_a_hub_is_a_condition(music: Units) -> None:
    (facet,) = conditions_of(music, "Who performed Morning Hills?").facets
    assert (facet.signatures, facet.hubs, facet.documents) == ((HUB,), {1: 1.0}, {})


@pytest.mark.parametrize(
    ("words", "years"),
    [
        *((words, range(1969, 1973)) for words in ("between 1969 and 1972", "between the years 1972 and 1969")),
        ("from 1969 to 1972", range(1969, 1973)),
        # other words around two numbers are no range
        *((words, (1969, 1972)) for words in ("1969 and 1972", "between 1969 or 1972", "from 1969 and 1972")),
    ],
)
def test_two_numbers_admit_those_between(words: str, years: Sequence[int]) -> None:
    units = make_units("a year 1969; b year 1970; c year 1971; d year 1972; e year 1973", tuple("abcde"))
    (found,) = matched(units, conditions_of(units, f"What appeared {words}?"))
    assert found == {("year", str(year)): 1.0 for year in years}


SHIPS = ("a", "b", "c")
LAUNCHED = "a launched 1880; b launched 1895; c launched 1910; a length 40; b length 90; c length 95"


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        # 1900 is no label; all lengths are below it, so that it tells nothing of them
        ("What appeared before 1900?", [("launched", "1880", "1895")]),
        ("What has more than 80 metres of length?", [("length", "90", "95")]),
        ("What appeared after 1895?", [("launched", "1910")]),
        # two ranges of one field are two conditions
        ("What appeared after 1885 but before 1900?", [("launched", "1895", "1910"), ("launched", "1880", "1895")]),
        # a range that no value is in, or all are
        ("What appeared before 1700?", []),
        ("What appeared after 7?", []),
    ],
)
def test_a_range_with_one_end_needs_no_label_of_its_number(question: str, expected: list[tuple[str, ...]]) -> None:
    units = make_units(LAUNCHED, SHIPS)
    documents = [{(field, value): 1.0 for value in values} for field, *values in expected]
    assert matched(units, conditions_of(units, question)) == documents


def test_a_number_within_a_longer_label_is_no_range() -> None:
    units = make_units(LAUNCHED, SHIPS, {"a": "Life before 1900 remembered"})
    (facet,) = conditions_of(units, 'How long is "Life before 1900 remembered"?').facets
    assert (facet.signatures, facet.hubs) == ((HUB,), {0: 1.0})


TWO_FIELDS = "a drummer ann; b singer ann; c drummer bob; d singer cid"
PEOPLE = {"ann": "Ann Lee", "bob": "Bob Roe", "cid": "Cid Poe"}


def test_an_introducer_is_used_up() -> None:
    units = make_units(TWO_FIELDS, ("a", "b", "c", "d"), PEOPLE)
    assert conditions_of(units, "Where is the drummer Ann Lee?").shares.tolist() == [0.0, 0.0]
    asked = conditions_of(units, "Where does Ann Lee stand near some far away tired drummer?").shares
    assert asked.tolist() == [1.0, 0.0]


def test_a_predicate_named_as_a_whole_is_asked_for(music: Units) -> None:
    """`live album` is a predicate; album is what all hubs are, and tells nothing."""
    shares = conditions_of(music, "In which release year did Morning Hills appear?").shares
    expected = [float(text == "release year") for text in music.signature_texts]
    assert shares.tolist() == pytest.approx(expected)
    assert conditions_of(music, "Which album is it?").shares.tolist() == [0.0] * len(music.signature_texts)


@pytest.fixture(scope="module")
def tools() -> Units:
    """Half of the hubs have no tool."""
    labels = {"yes": "Tool is available", "no": "No tool used", "other": "Tool is not available"}
    kinds, hubs = ["yes", "no", "other"], tuple(f"h{number}" for number in range(6))
    text = "; ".join(f"{hub} toolSupport {kinds[n % 3]}; {hub} grade g{n}" for n, hub in enumerate(hubs))
    return make_units(text, hubs, labels)


def test_a_value_in_the_question_s_own_polarity_is_met_and_a_negation_before_it_turns_it_round(tools: Units) -> None:
    (found,) = matched(tools, conditions_of(tools, "Where is a tool available?"))
    assert found["tool support", "Tool is available"] == 1.0
    assert found.get(("tool support", "No tool used"), 0.0) < 0.15
    (found,) = matched(tools, conditions_of(tools, "Where isn't a tool available?"))
    assert ("tool support", "Tool is available") not in found
    assert found["tool support", "Tool is not available"] >= 0.55
    assert found["tool support", "No tool used"] == pytest.approx(0.6, abs=0.05)
    far = "Not one of the many people here knows where a tool is available"
    (found,) = matched(tools, conditions_of(tools, far))
    assert found["tool support", "Tool is available"] == 1.0


def test_booleans_have_no_polarity() -> None:
    labels = {"t": "True", "f": "False"}
    text = "; ".join(f"h{number} replication {'t' if number % 2 else 'f'}" for number in range(6))
    units = make_units(text, tuple(f"h{number}" for number in range(6)), labels)
    assert conditions_of(units, "Which ones come without replication?").facets == ()


def test_the_rest_of_a_question_has_it_for_what_was_named(music: Units) -> None:
    ranking = FacetRanking(music, None, (), FacetRule())
    assert ranking.read("Who sang Morning Hills in 1970?").rest == "Who sang it in it"
    assert ranking.read("").rest == ""


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("made before 1600", [("1600", -inf, 1600)]),
        ("known until the 1600 fire", [("1600", -inf, 1601)]),
        ("after the year 1990", [("1990", 1991, inf)]),
        ("more than 20 rooms", [("20", 21, inf)]),
        ("at least 20, at most 30", [("20", 20, inf), ("30", -inf, 31)]),
        ("earlier than 1800 and since 1700", [("1800", -inf, 1800), ("1700", 1700, inf)]),
        ("between the years 1972 and 1969", [("1972 and 1969", 1969, 1973)]),
        ("from 3 to 5 after 7", [("3 to 5", 3, 6), ("7", 8, inf)]),
        ("before 1990 or 2000", [("1990", -inf, 1990)]),
        ("after 14 June 2021", [("14 June 2021", 2021 + 169 / 372, inf)]),
        ("until 2021-06-14", [("2021 06 14", -inf, 2021 + 169 / 372)]),
        ("since June 2021", [("June 2021", 2021 + 155 / 372, inf)]),
        ("longer than 2 weeks", [("2 weeks", nextafter(14, inf), inf)]),
        ("less than 1 day", [("1 day", -inf, 1)]),
        *((text, []) for text in ("in 1990", "older than 40", "before x1990", "")),
        ("before the great fire of London in 1666", []),
    ],
)
def test_a_range_is_a_number_and_what_opens_it(question: str, expected: list[tuple[str, float, float]]) -> None:
    words = words_of(question)
    found = [
        (" ".join(word.text for word in words[one.start : one.end]), one.low, one.high) for one in number_ranges(words)
    ]
    assert [text for text, _, _ in found] == [text for text, _, _ in expected]
    bounds = [bound for _, low, high in expected for bound in (low, high)]
    assert [bound for _, low, high in found for bound in (low, high)] == pytest.approx(bounds, abs=0, rel=1e-15)


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
