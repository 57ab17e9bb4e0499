"""F-TYPE: cues in the name, around it, and on its own page."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.names import COMMON_WORDS, GIVEN_NAMES, NAME_PARTICLES, UNTYPED, UNTYPED_HEADS, title_keys
from polyhop.schemas.types import HEADS, LOCATIONS, mention_type, name_type, title_type

TYPES = {"PERSON", "ORGANIZATION", "LOCATION", "EVENT", "WORK"}


CUES_IN_A_NAME = {
    "ORGANIZATION": "university of leeds; university; labour party; acme inc; house of lords",
    "EVENT": "battle of hastings; winter olympics; olympics; queen anne s war; world war ii",
    "LOCATION": "thames river; republic of texas; united states; lake ontario; of the city of leeds",
    "PERSON": "king louis xiv; ada lovelace; duke of legnica; leader of the opposition; margaret of sicily; "
    "landulf ii of capua; d h lawrence; hamad ibn isa al khalifah",
    None: "american; indian tamil; roman catholic; academy award; best director; the time; jehovah s witnesses; "
    "apollo; civil engineering; one two three four; of the securities exchange act of; of; of of of of",
}


@pytest.mark.parametrize(
    ("key", "kind"), [(key, kind) for kind, keys in CUES_IN_A_NAME.items() for key in keys.split("; ")]
)
def test_cues_in_the_name(key: str, kind: str | None) -> None:
    assert name_type(key)[0] == kind


CUES_AROUND_ROE = {
    "PERSON": "He met Dr. Roe there; Roe was born there; a film directed by Roe; Roe (1815–1852) sat there; "
    "the film of Roe's second novel; he met Roe, daughter of a king; they met the physicist Roe there; "
    'a novel starring Roe; Ann "Roe" Bell sat; Roe married him',
    "LOCATION": "they live in Roe now; he met Roe, a Polish city, and left; he came to Roe, Hungary; "
    "they like the town of Roe best",
    "WORK": 'the Roe album sold; the hit "Roe" sold; for him Roe is a British film that lost',
    "ORGANIZATION": "they heard the band Roe there",
    None: "Roe",
}


@pytest.mark.parametrize(
    ("text", "surface", "kind"),
    [
        *((text, "Roe", kind) for kind, texts in CUES_AROUND_ROE.items() for text in texts.split("; ")),
        ("they saw Ann Roe", "Ann Roe", "PERSON"),
        ("an English film", "English", None),
        ("all at The Time of", "The Time", None),
    ],
)
def test_cues_around_the_name(text: str, surface: str, kind: str | None) -> None:
    start = text.index(surface)
    assert mention_type(surface.lower(), text, start, start + len(surface))[0] == kind


@pytest.mark.parametrize(
    ("title", "lead", "expected"),
    [
        ("Up (2009 film)", "", ("WORK", 0.95)),
        ("Theodred II (Bishop of Elmham)", "", ("PERSON", 0.95)),
        ("Roe", "Roe is a 1988 Indian Malayalam film directed by an actor.", ("WORK", 0.9)),
        ("Roe", "Roe was a Dutch physician, iatrochemist and more.", ("PERSON", 0.9)),
        ("Roe", "Roe is an unincorporated community in a county.", ("LOCATION", 0.9)),
        ("Roe", "Roe was a German mountaineer in the club.", ("PERSON", 0.6)),
        ("Roe", "Roe is the name of a river.", ("LOCATION", 0.4)),
        ("Roe", "Roe (a town) was bishop of Chur.", ("PERSON", 0.9)),
        ("Roe", "Roe, count of Bo and Cy (so they say.", ("PERSON", 0.8)),
        ("Roe", "Roe (1 May 1900 – 2 June 1980) sang.", ("PERSON", 0.85)),
        ("Roe", "Roe (1 May 1900 – 2 June 1980) was a war.", ("EVENT", 0.9)),
        ("Roe", "Roe (( from Bo ) once) is a 1952 film starring the comedy team Bo.", ("WORK", 0.9)),
        ("Roe (Bo Theatre)", "Roe is the ninth episode of Bo Theatre.", ("WORK", 0.9)),
        ("Roe Bell", "Roe Bell may refer to:", (None, 0.3)),
        ("Roe", "Another thing is a film.", (None, 0.2)),
        ("Lovelace Roe", "", ("PERSON", 0.3)),
        ("Ann Roe", "", ("PERSON", 0.65)),
    ],
)
def test_a_page_types_its_title(title: str, lead: str, expected: tuple[str | None, float]) -> None:
    assert title_type(title, title_keys(title)[0], lead) == expected


def test_the_lists_hold_lower_case_words() -> None:
    lists = (HEADS, LOCATIONS, UNTYPED, UNTYPED_HEADS, GIVEN_NAMES, NAME_PARTICLES, COMMON_WORDS)
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
    records = map(json.loads, (shared_data / "wiki2" / "corpus.jsonl").read_text(encoding="utf-8").splitlines())
    titled = [(record["title"], title_keys(record["title"]), record["text"]) for record in records]
    sure = [title_type(title, keys[0], text)[1] >= 0.6 for title, keys, text in titled if keys]
    assert sum(sure) / len(sure) > 0.85
