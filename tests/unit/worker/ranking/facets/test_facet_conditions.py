"""Conditions on hubs: algorithms.md 4B, rules 3 to 7."""

from collections.abc import Mapping

import pytest
from facet_index import make_units, music_hubs, shown, units_from

from polyhop.worker.ranking.facets.conditions import HUB, ReadQuestion
from polyhop.worker.ranking.facets.ranking import FacetRanking, FacetRule
from polyhop.worker.ranking.facets.units import Units


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


def test_each_value_is_a_condition_of_its_own(music: Units) -> None:
    conditions = conditions_of(music, "Which rock albums did Anna Angstrom record in Paris?")
    assert matched(music, conditions) == [
        {("has genre", "Rock"): 1.0},
        {("performed by", "Anna Ångström"): 1.0},
        {("recorded at located in", "Paris"): 1.0},
    ]


def test_values_of_the_same_field_are_alternatives(music: Units) -> None:
    conditions = conditions_of(music, "Which albums of 1969 or 1973 are folk?")
    assert matched(music, conditions) == [
        {("release year", "1969"): 1.0, ("release year", "1973"): 1.0},
        {("has genre", "Folk"): 1.0},
    ]


def test_the_label_of_a_hub_is_a_condition(music: Units) -> None:
    (facet,) = conditions_of(music, "Who performed Morning Hills?").facets
    assert (facet.signatures, facet.hubs, facet.documents) == ((HUB,), {1: 1.0}, {})


@pytest.mark.parametrize("words", ["between 1969 and 1972", "between the years 1972 and 1969", "from 1969 to 1972"])
def test_two_numbers_admit_those_between(words: str) -> None:
    units = make_units("a year 1969; b year 1970; c year 1971; d year 1972; e year 1973", ("a", "b", "c", "d", "e"))
    (found,) = matched(units, conditions_of(units, f"What appeared {words}?"))
    assert found == {("year", year): 1.0 for year in ("1969", "1970", "1971", "1972")}


@pytest.mark.parametrize("words", ["1969 and 1972", "between 1969 or 1972", "from 1969 and 1972"])
def test_other_words_around_two_numbers_are_no_range(words: str) -> None:
    units = make_units("a year 1969; b year 1970; c year 1971; d year 1972", ("a", "b", "c", "d"))
    (found,) = matched(units, conditions_of(units, f"What appeared {words}?"))
    assert found == {("year", "1969"): 1.0, ("year", "1972"): 1.0}


SHIPS = ("a", "b", "c")
LAUNCHED = "a launched 1880; b launched 1895; c launched 1910; a length 40; b length 90; c length 95"


def test_a_range_with_one_end_needs_no_label_of_its_number() -> None:
    """1900 is no label; all lengths are below it, so that it tells nothing of them."""
    units = make_units(LAUNCHED, SHIPS)
    (found,) = matched(units, conditions_of(units, "What appeared before 1900?"))
    assert found == {("launched", "1880"): 1.0, ("launched", "1895"): 1.0}
    (found,) = matched(units, conditions_of(units, "What has more than 80 metres of length?"))
    assert found == {("length", "90"): 1.0, ("length", "95"): 1.0}


def test_a_number_that_opens_a_range_is_not_the_value_itself() -> None:
    units = make_units(LAUNCHED, SHIPS)
    (found,) = matched(units, conditions_of(units, "What appeared after 1895?"))
    assert found == {("launched", "1910"): 1.0}


def test_two_ranges_of_one_field_are_two_conditions() -> None:
    units = make_units(LAUNCHED, SHIPS)
    first, second = matched(units, conditions_of(units, "What appeared after 1885 but before 1900?"))
    assert first == {("launched", "1895"): 1.0, ("launched", "1910"): 1.0}
    assert second == {("launched", "1880"): 1.0, ("launched", "1895"): 1.0}


def test_a_number_within_a_longer_label_is_no_range() -> None:
    units = make_units(LAUNCHED, SHIPS, {"a": "Life before 1900 remembered"})
    (facet,) = conditions_of(units, 'How long is "Life before 1900 remembered"?').facets
    assert (facet.signatures, facet.hubs) == ((HUB,), {0: 1.0})


def test_a_range_that_no_value_is_in_or_all_are_is_no_condition() -> None:
    units = make_units(LAUNCHED, SHIPS)
    assert conditions_of(units, "What appeared before 1700?").facets == ()
    assert conditions_of(units, "What appeared after 7?").facets == ()


TWO_FIELDS = "a drummer ann; b singer ann; c drummer bob; d singer cid"
PEOPLE = {"ann": "Ann Lee", "bob": "Bob Roe", "cid": "Cid Poe"}


def test_an_introducer_is_used_up() -> None:
    units = make_units(TWO_FIELDS, ("a", "b", "c", "d"), PEOPLE)
    asked = conditions_of(units, "Where is the drummer Ann Lee?").shares
    assert asked.tolist() == [0.0, 0.0]
    asked = conditions_of(units, "Where does Ann Lee stand behind some far away tired drummer?").shares
    assert asked.tolist() == [1.0, 0.0]


def test_a_predicate_named_as_a_whole_is_asked_for(music: Units) -> None:
    shares = conditions_of(music, "In which release year did Morning Hills appear?").shares
    asked = dict(zip(music.signature_texts, shares.tolist(), strict=True))
    assert asked.pop("release year") == pytest.approx(1.0)
    assert max(asked.values()) == 0.0


def test_the_words_of_a_hub_s_type_tell_nothing(music: Units) -> None:
    """`live album` is a predicate; album is what all hubs are."""
    shares = conditions_of(music, "Which album is it?").shares
    assert shares.tolist() == [0.0] * len(music.signature_texts)


def polar(hubs: int = 6) -> tuple[Units, Mapping[str, str]]:
    """Half of the hubs have no tool."""
    labels = {"yes": "Tool is available", "no": "No tool used", "other": "Tool is not available"}
    kinds = ["yes", "no", "other"]
    text = "; ".join(f"h{number} toolSupport {kinds[number % 3]}; h{number} grade g{number}" for number in range(hubs))
    return make_units(text, tuple(f"h{number}" for number in range(hubs)), labels), labels


def test_a_value_in_the_question_s_own_polarity_is_met() -> None:
    units, _ = polar()
    (found,) = matched(units, conditions_of(units, "Where is a tool available?"))
    assert found["tool support", "Tool is available"] == 1.0
    assert found.get(("tool support", "No tool used"), 0.0) < 0.15


def test_a_negation_before_a_value_turns_it_round() -> None:
    units, _ = polar()
    (found,) = matched(units, conditions_of(units, "Where isn't a tool available?"))
    assert ("tool support", "Tool is available") not in found
    assert found["tool support", "Tool is not available"] >= 0.55
    assert found["tool support", "No tool used"] == pytest.approx(0.6, abs=0.05)


def test_a_negation_further_away_is_none_of_the_value_s() -> None:
    units, _ = polar()
    (found,) = matched(units, conditions_of(units, "Not one of the many people here knows where a tool is available"))
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
