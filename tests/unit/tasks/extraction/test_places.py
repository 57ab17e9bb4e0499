"""Names that others found, looked up in a text: by hand, and against the name finder."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.names import NameFinder
from polyhop.tasks.extraction.stated import PlacedText, key_of


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Antoni Gaudí", "antoni gaudi"),
        ("Norman's Crossing", "norman s crossing"),
        (" 24 October 1650 ", "date:1650-10-24"),
        ("1999", "date:1999"),
        ("1,200", "number:1200"),
        ("3.5 million", "number:3500000"),
        ("in 1999", "in 1999"),
        ("25 miles", "25 miles"),
        ("±", ""),
        ("", ""),
    ],
)
def test_keys(name: str, key: str) -> None:
    assert key_of(name) == key


@pytest.mark.parametrize(
    ("text", "name", "surfaces"),
    [
        ("New York, new-york and Newyork.", "New York", ["New York", "new-york"]),
        ("Gaudí, Gaudi\u0301 and GAUDI", "gaudi", ["Gaudí", "Gaudi", "GAUDI"]),
        ("Yorkshire", "York", []),
        ("a a a", "a a", ["a a"]),
        ("Born 24 October 1650, not 1650.", "October 24, 1650", ["24 October 1650"]),
        ("In 12,000 years", "12000", ["12,000"]),
        ("ﬁne ﬁsh", "fish", ["ﬁsh"]),
        ("", "x", []),
        ("x", "±", []),
    ],
)
def test_places(text: str, name: str, surfaces: list[str]) -> None:
    assert [text[start:end] for start, end in PlacedText(text).find(key_of(name))] == surfaces


@given(st.text(alphabet="AbÉe\u0301ﬁ .-1", max_size=40))
def test_every_name_that_the_finder_sees_is_found_at_its_place(text: str) -> None:
    placed = PlacedText(text)
    for mention in NameFinder([]).find(text):
        starts = [start for start, _ in placed.find(mention.key)]
        if mention.key == key_of(mention.surface):
            assert mention.start in starts or any(start < mention.end for start in starts)
