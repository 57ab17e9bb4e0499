"""F-TYPE: cues in the name, around it, and on its own page."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.names import title_keys
from polyhop.schemas.type_words import HEADS, PLACES
from polyhop.schemas.types import mention_type, name_type, title_type

TYPES = {"PERSON", "ORGANIZATION", "LOCATION", "EVENT", "WORK"}


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("university of leeds", "ORGANIZATION"),
        ("labour party", "ORGANIZATION"),
        ("acme inc", "ORGANIZATION"),
        ("battle of hastings", "EVENT"),
        ("winter olympics", "EVENT"),
        ("queen anne s war", "EVENT"),
        ("thames river", "LOCATION"),
        ("republic of texas", "LOCATION"),
        ("united states", "LOCATION"),
        ("king louis xiv", "PERSON"),
        ("ada lovelace", "PERSON"),
        ("apollo", "ORGANIZATION"),
        ("one two three four", "ORGANIZATION"),
        ("of the securities exchange act of", "ORGANIZATION"),
        ("of the city of leeds", "LOCATION"),
        ("of", "ORGANIZATION"),
        ("of of of of", "ORGANIZATION"),
    ],
)
def test_cues_in_the_name(key: str, expected: str) -> None:
    assert name_type(key)[0] == expected


@pytest.mark.parametrize(
    ("text", "surface", "expected"),
    [
        ("He met Dr. Roe there", "Roe", "PERSON"),
        ("Roe was born there", "Roe", "PERSON"),
        ("Roe (born 1950)", "Roe", "PERSON"),
        ("a film directed by Roe", "Roe", "PERSON"),
        ("Roe married him", "Roe", "PERSON"),
        ("they live in Roe now", "Roe", "LOCATION"),
        ("the Roe album sold", "Roe", "WORK"),
        ('the hit "Roe" sold', "Roe", "WORK"),
        ("they saw Ann Roe", "Ann Roe", "PERSON"),
        ("Roe", "Roe", "ORGANIZATION"),
    ],
)
def test_cues_around_the_name(text: str, surface: str, expected: str) -> None:
    start = text.index(surface)
    assert mention_type(surface.lower(), text, start, start + len(surface))[0] == expected


@pytest.mark.parametrize(
    ("title", "lead", "expected"),
    [
        ("Up (2009 film)", "", ("WORK", 0.95)),
        ("Theodred II (Bishop of Elmham)", "", ("PERSON", 0.95)),
        ("Roe", "Roe (born 1950) is a star.", ("PERSON", 0.9)),
        ("Roe", "Roe is a 1988 Indian Malayalam film directed by an actor.", ("WORK", 0.9)),
        ("Roe", "Roe was a Dutch physician, iatrochemist and more.", ("PERSON", 0.9)),
        ("Roe", "Roe is an unincorporated community in a county.", ("LOCATION", 0.9)),
        ("Roe", "Roe was one of the first battles of the war.", ("EVENT", 0.9)),
        ("Roe", "Roe was a German mountaineer in the club.", ("PERSON", 0.6)),
        ("Roe", "Roe is the name of a river.", ("LOCATION", 0.4)),
        ("Roe", "Another thing is a film.", ("ORGANIZATION", 0.2)),
        ("Ann Roe", "", ("PERSON", 0.3)),
    ],
)
def test_a_page_types_its_title(title: str, lead: str, expected: tuple[str, float]) -> None:
    assert title_type(title, title_keys(title)[0], lead) == expected


def test_the_lists_hold_lower_case_words() -> None:
    assert all(word == word.lower().strip() != "" for word in (*HEADS, *PLACES))
    assert set(HEADS.values()) == TYPES


@given(st.text(max_size=50), st.integers(0, 50), st.integers(0, 50))
def test_every_name_has_a_type_and_a_confidence(text: str, start: int, length: int) -> None:
    start = min(start, len(text))
    end = min(start + length, len(text))
    for typed in (mention_type("roe", text, start, end), title_type(text, "roe", text)):
        assert typed[0] in TYPES
        assert 0 < typed[1] <= 1


@pytest.mark.shared_data
def test_most_pages_of_wiki2_type_their_title_with_confidence(shared_data: Path) -> None:
    lines = (shared_data / "wiki2" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    sure = [
        title_type(record["title"], keys[0], record["text"])[1] >= 0.6
        for record in records
        if (keys := title_keys(record["title"]))
    ]
    assert sum(sure) / len(sure) > 0.85
