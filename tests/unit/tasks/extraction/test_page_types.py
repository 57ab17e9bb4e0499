"""Types of names by the other names of their page."""

import pytest

from polyhop.schemas.names import NameFinder
from polyhop.schemas.records import Passage
from polyhop.tasks.extraction.rules import rules_page


def types(text: str, title: str = "Xy") -> dict[str, str | None]:
    page = rules_page(Passage("p", "p", "d", 0, title, text, 0, len(text)), NameFinder([title]))
    return {key: row.type for key, row in page.rows.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It was a play starring Ulm, Kuno and Zed.", {"ulm": "PERSON", "kuno": "PERSON", "zed": "PERSON"}),
        ("They live in Kuno, Zed or Ulm now.", {"kuno": "LOCATION", "zed": "LOCATION", "ulm": "LOCATION"}),
        ("They live in Kuno. Zed, Ulm left.", {"kuno": "LOCATION", "zed": None, "ulm": None}),
        ("The band Kuno and Zed left.", {"kuno": "ORGANIZATION", "zed": None}),
        ("They live in Kuno and, so they say, Zed left.", {"kuno": "LOCATION", "zed": None}),
    ],
)
def test_names_of_a_list_are_persons_or_places_together(text: str, expected: dict[str, str | None]) -> None:
    found = types(text)
    assert {key: found[key] for key in expected} == expected


def test_another_name_of_the_title_in_the_first_sentence_has_its_type() -> None:
    text = 'Old Xy, also known as "Wolves of Zed", or Kuno, is a 1952 film. It was called Ulm.'
    found = types(text, title="Old Xy Zo")
    assert found["old xy zo"] == "WORK"
    assert [found[key] for key in ("old xy", "wolves of zed", "kuno")] == ["WORK"] * 3
    assert found["ulm"] is None


def test_a_page_that_does_not_say_what_it_is_gives_no_other_name_a_type() -> None:
    assert types("Xy, also known as Kuno, sat there.")["kuno"] is None


def test_a_part_of_the_name_of_a_person_is_a_person_on_that_page() -> None:
    found = types("They met Ann Kuno. Then Kuno left for Zed.")
    assert (found["ann kuno"], found["kuno"], found["zed"]) == ("PERSON", "PERSON", None)
    assert types("They met the Bell Kuno company. Then Kuno left.")["kuno"] is None


@pytest.mark.parametrize(
    ("text", "title", "key"),
    [
        ("2023-05-02 (born 1950) was a Tuesday.", "2023-05-02", "2023 05 02"),
        ("Written by Title, John Kuno and Mary Kuno.", "Xy", "title"),
        ("Ann Zed, Title and Version left.", "Xy", "version"),
        ("An INTEGER and a BIT STRING.", "Xy", "bit string"),
        ("The value is a", "BIT STRING", "bit string"),
        ("BIT STRING, John Kuno and Mary Kuno left.", "Xy", "bit string"),
    ],
)
def test_a_date_a_header_or_a_term_in_capitals_is_no_person(text: str, title: str, key: str) -> None:
    assert types(text, title)[key] is None


def test_persons_written_as_terms_and_headers_are_stay_persons() -> None:
    assert types("JOHN KUNO left.")["john kuno"] == "PERSON"
    assert types("Doris Day sang. Then Day left.")["day"] == "PERSON"
    assert types("Price (born 1950) is an English singer.", title="Price")["price"] == "PERSON"
