"""F-TYPE: cues in the name, around it, and on its own page."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.names import COMMON_WORDS, GIVEN_NAMES, NAME_PARTICLES, UNTYPED, UNTYPED_HEADS, title_keys
from polyhop.schemas.types import HEADS, PLACES, mention_type, name_type, title_type

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
        ("world war ii", "EVENT"),
        ("lake ontario", "LOCATION"),
        ("house of lords", "ORGANIZATION"),
        ("duke of legnica", "PERSON"),
        ("leader of the opposition", "PERSON"),
        ("margaret of sicily", "PERSON"),
        ("landulf ii of capua", "PERSON"),
        ("d h lawrence", "PERSON"),
        ("hamad ibn isa al khalifah", "PERSON"),
        ("american", None),
        ("indian tamil", None),
        ("roman catholic", None),
        ("academy award", None),
        ("best director", None),
        ("the time", None),
        ("jehovah s witnesses", None),
        ("civil engineering", None),
        ("apollo", None),
        ("one two three four", None),
        ("of the securities exchange act of", None),
        ("of the city of leeds", "LOCATION"),
        ("of", None),
        ("of of of of", None),
    ],
)
def test_cues_in_the_name(key: str, expected: str | None) -> None:
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
        ("Roe (1815–1852) sat there", "Roe", "PERSON"),
        ("the film of Roe's second novel", "Roe", "PERSON"),
        ("he met Roe, a Polish city, and left", "Roe", "LOCATION"),
        ("he met Roe, daughter of a king", "Roe", "PERSON"),
        ("he came to Roe, Hungary", "Roe", "LOCATION"),
        ("for him Roe is a British film that lost", "Roe", "WORK"),
        ("they like the town of Roe best", "Roe", "LOCATION"),
        ("they met the physicist Roe there", "Roe", "PERSON"),
        ("a novel starring Roe", "Roe", "PERSON"),
        ("they heard the band Roe there", "Roe", "ORGANIZATION"),
        ('Ann "Roe" Bell sat', "Roe", "PERSON"),
        ("an English film", "English", None),
        ("written in English", "English", None),
        ("all at The Time of", "The Time", None),
        ("Roe", "Roe", None),
    ],
)
def test_cues_around_the_name(text: str, surface: str, expected: str | None) -> None:
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
        ("Roe", "Roe (a town) was bishop of Chur.", ("PERSON", 0.9)),
        ("Roe", "Roe, count of Bo and Cy (so they say.", ("PERSON", 0.8)),
        ("Roe", "Roe (1 May 1900 – 2 June 1980) sang.", ("PERSON", 0.85)),
        ("Roe", "Roe (1 May 1900 – 2 June 1980) was a war.", ("EVENT", 0.9)),
        ("Roe", "Roe (( from Bo ) once) is a 1952 film starring the comedy team Bo.", ("WORK", 0.9)),
        ("Roe (Bo Theatre)", "Roe is the ninth episode of Bo Theatre.", ("WORK", 0.9)),
        ("Roe", "Roe is a Bantu language.", (None, 0.9)),
        ("Roe Bell", "Roe Bell may refer to:", (None, 0.3)),
        ("Roe", "Another thing is a film.", (None, 0.2)),
        ("Lovelace Roe", "", ("PERSON", 0.3)),
        ("Ann Roe", "", ("PERSON", 0.65)),
    ],
)
def test_a_page_types_its_title(title: str, lead: str, expected: tuple[str | None, float]) -> None:
    assert title_type(title, title_keys(title)[0], lead) == expected


def test_the_lists_hold_lower_case_words() -> None:
    lists = (HEADS, PLACES, UNTYPED, UNTYPED_HEADS, GIVEN_NAMES, NAME_PARTICLES, COMMON_WORDS)
    assert all(word == word.lower().strip() != "" for words in lists for word in words)
    assert HEADS.keys().isdisjoint(UNTYPED_HEADS)
    assert set(HEADS.values()) == TYPES


@given(st.text(max_size=50), st.integers(0, 50), st.integers(0, 50))
def test_every_name_has_a_type_and_a_confidence(text: str, start: int, length: int) -> None:
    start = min(start, len(text))
    end = min(start + length, len(text))
    for typed in (mention_type("roe", text, start, end), title_type(text, "roe", text)):
        assert typed[0] in {*TYPES, None}
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
