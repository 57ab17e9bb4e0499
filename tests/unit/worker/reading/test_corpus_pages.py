"""What the corpus knows about names, read in few calls, and countries in texts."""

import pytest
from memory_index import ReadingIndex

from polyhop.worker.reading.pages import CorpusPages, own_page
from polyhop.worker.reading.word_lists import geography, nationalities, places_in, relations, shared_countries

LYNCH = ("David Lynch", "David Lynch (born January 20, 1946) is an American filmmaker.")
ULM = ("Ulm", "Ulm (from the old Hulma) is a town on the Danube. It is old.")
STRAUSS = ("Johann Strauss", "Johann Strauss was an Austrian composer born near Vienna in 1825.")


def test_a_persons_page_is_known_by_its_parenthesis_or_its_definition() -> None:
    assert own_page(*LYNCH).is_person
    assert own_page(*STRAUSS).is_person
    assert not own_page(*ULM).is_person
    assert not own_page("", "").is_person


def test_a_definition_skips_parentheses_and_takes_those_of_the_title() -> None:
    own = own_page("Ulm (town)", ULM[1])
    assert "town" in own.kinds
    assert "hulma" not in own.kinds
    assert "film" in own_page("Up (2009 film)", "Up.").kinds


def test_pages_are_found_by_title_key_and_read_once(reading_index: type[ReadingIndex]) -> None:
    index = reading_index((LYNCH, ULM, ("Ulm (film)", "A film.")))
    corpus = CorpusPages(index)
    corpus.prepare(["ulm", "david lynch", "nobody"])
    calls = index.calls
    own = corpus.find("ulm")
    assert own is not None
    assert "town" in own.kinds
    assert corpus.find("nobody") is None
    corpus.prepare(["ulm"])
    assert index.calls == calls


@pytest.mark.parametrize(
    ("text", "country"),
    [
        ("Ann Roe was an English writer.", "england"),
        ("Up is a 1988 Indian Malayalam film.", "india"),
        ("A school in Austin, Texas.", "united states"),
        ("Jo Bloggs was a Norman knight.", ""),
        ("They told us of turkey and polish.", ""),
    ],
)
def test_the_first_country_that_a_text_names(text: str, country: str) -> None:
    assert next((place.country for place in places_in(text)), "") == country


def test_a_definition_says_more_than_places_of_birth_and_death() -> None:
    lead = "Eve (born in Paris, France) was a Danish writer. She died in Spain."
    assert [place.country for place in places_in(lead)] == ["france", "denmark", "spain"]
    assert [place.country for place in nationalities(lead)] == ["denmark"]
    assert [place.country for place in nationalities("A village in Iran.")] == ["iran"]


def test_a_part_of_the_kingdom_shares_with_the_whole_only() -> None:
    assert shared_countries({"england"}, {"united kingdom"}) == {"united kingdom"}
    assert shared_countries({"england"}, {"scotland"}) == set()
    assert shared_countries({"france", "italy"}, {"italy"}) == {"italy"}


def test_lists_are_complete_and_in_lower_case() -> None:
    lists = geography()
    assert (len(relations()), len(lists.countries), len(lists.states), len(lists.demonyms)) == (30, 147, 60, 154)
    assert all(name == name.lower() for name in (*lists.countries, *lists.states, *lists.demonyms))
