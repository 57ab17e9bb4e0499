"""F-TYPE: what a page states of its own title."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.names import UNTYPED, UNTYPED_HEADS, title_keys
from polyhop.schemas.types import HEADS, TITLES_OF_PERSONS, title_type

TYPES = {"PERSON", "ORGANIZATION", "LOCATION", "EVENT", "WORK"}


@pytest.mark.parametrize(
    ("title", "lead", "expected"),
    [
        ("Up (2009 film)", "", ("WORK", 0.95)),
        ("Theodred II (Bishop of Elmham)", "", ("PERSON", 0.95)),
        ("Roe", "Roe is a 1988 Indian Malayalam film directed by an actor.", ("WORK", 0.9)),
        ("Roe", "Roe was a Dutch physician, iatrochemist and more.", ("PERSON", 0.9)),
        ("Roe", "Roe is an unincorporated community in a county.", ("LOCATION", 0.9)),
        ("Roe", "Roe was a German mountaineer in the club.", (None, 0)),
        ("Roe", "Roe is the name of a river.", (None, 0)),
        ("Roe", "Roe is a Bantu language.", (None, 0.9)),
        ("Roe", "Roe (a town) was bishop of Chur.", ("PERSON", 0.9)),
        ("Roe", "Roe (born 1900) sang.", ("PERSON", 0.9)),
        ("Roe", "Roe (1 May 1900 – 2 June 1980) was a war.", ("EVENT", 0.9)),
        ("Roe", "Roe (( from Bo ) once) is a 1952 film starring the comedy team Bo.", ("WORK", 0.9)),
        ("Roe (Bo Theatre)", "Roe is the ninth episode of Bo Theatre.", ("WORK", 0.9)),
        ("Roe Bell", "Roe Bell may refer to:", (None, 0)),
        ("Roe", "Another thing is a film.", (None, 0)),
        ("Ann Roe", "", (None, 0)),
    ],
)
def test_a_page_types_its_title(title: str, lead: str, expected: tuple[str | None, float]) -> None:
    assert title_type(title, title_keys(title)[0], lead) == expected


def test_the_lists_hold_lower_case_words() -> None:
    lists = (HEADS, UNTYPED, UNTYPED_HEADS, TITLES_OF_PERSONS)
    assert all(word == word.lower().strip() != "" for words in lists for word in words)
    assert HEADS.keys().isdisjoint(UNTYPED_HEADS)
    assert set(HEADS.values()) == TYPES


@given(st.text(max_size=50))
def test_a_type_that_a_page_states_is_nearly_certain(text: str) -> None:
    kind, confidence = title_type(text, "roe", text)
    assert kind in {*TYPES, None}
    assert confidence in {0, 0.9, 0.95}
    assert kind is None or confidence


@pytest.mark.shared_data
def test_most_pages_of_wiki2_type_their_title_with_confidence(shared_data: Path) -> None:
    records = map(json.loads, (shared_data / "wiki2" / "corpus.jsonl").read_text(encoding="utf-8").splitlines())
    titled = [(record["title"], title_keys(record["title"]), record["text"]) for record in records]
    sure = [title_type(title, keys[0], text)[1] >= 0.9 for title, keys, text in titled if keys]
    assert sum(sure) / len(sure) > 0.8
