"""Paths in words and their hashes: algorithms.md G-HUB-5."""

import pytest

from polyhop.schemas.graph import NamedTriple
from polyhop.tasks.hubs.paths import humanised, path_hash, path_text

TWO_STEPS = [
    NamedTriple("H1", "Paper One", "author", "A1", "Jane Doe"),
    NamedTriple("A1", "Jane Doe", "affiliation", "U1", "Uni Y"),
]


def test_golden_hash_and_text() -> None:
    assert path_hash(TWO_STEPS).hex() == "2e70baf4d6387e939127f86c6d68acbb239de4a45ee4aed2e08393b7233351d7"
    assert path_text(TWO_STEPS) == "Paper One author Jane Doe; Jane Doe affiliation Uni Y."
    venue = NamedTriple("H1", "Paper One", "hasVenue", "V", "ICSA")
    place = NamedTriple("V", "ICSA", "located_in", "O", "Oslo")
    assert path_text([venue, place]) == "Paper One has venue ICSA; ICSA located in Oslo."


def test_any_changed_id_label_or_predicate_changes_the_hash() -> None:
    before = path_hash(TWO_STEPS)
    for part in NamedTriple._fields:
        assert path_hash([TWO_STEPS[0]._replace(**{part: "other"}), TWO_STEPS[1]]) != before
    assert path_hash(TWO_STEPS[:1]) != before


@pytest.mark.parametrize(
    ("predicate", "words"),
    [
        ("http://example.org/ns#hasVenue", "has venue"),
        ("https://example.org/prop/located_in", "located in"),
        ("https://example.org/prop/", "prop"),
        ("Threats to  Validity", "threats to validity"),
        ("input/output", "input/output"),
        ("P2Type-of", "p2 type of"),
    ],
)
def test_predicates_in_words(predicate: str, words: str) -> None:
    assert humanised(predicate) == words


def test_addresses_are_left_out_of_the_text_and_empty_labels_are_ids() -> None:
    link = NamedTriple("H1", "", "sourceUrl", "L1", "https://example.org/x")
    assert path_text([link]) == "H1 source url."
