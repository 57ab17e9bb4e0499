"""F-SENT: examples by hand, and laws."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.names import split_sentences


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in split_sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Mr. Smith met J. R. R. Tolkien vs. Foo.", ["Mr. Smith met J. R. R. Tolkien vs. Foo."]),
        ("No. 5 is in the U.S. Army list, e.g. This.", ["No. 5 is in the U.S. Army list, e.g. This."]),
        ("He lived in the U.S. He left.", ["He lived in the U.S.", "He left."]),
        ("It was World War I. It ended.", ["It was World War I.", "It ended."]),
        ("Acme Inc. The firm of Dr. No", ["Acme Inc.", "The firm of Dr. No"]),
        ('He said "Hi." Then (Yes.) she left.', ['He said "Hi."', "Then (Yes.) she left."]),
        ("Born 1950. 12 came. “Who?” (It)", ["Born 1950.", "12 came.", "“Who?”", "(It)"]),
        ("ok... then. and so", ["ok... then. and so"]),
        ("Version 3.5 is out.Now", ["Version 3.5 is out.Now"]),
        ("A heading\n\nA text\ngoes on\n \nEnd", ["A heading", "A text\ngoes on", "End"]),
        ("今日は。明日は？", ["今日は。", "明日は？"]),
        ("جملة. جملة", ["جملة.", "جملة"]),
        ("", []),
        (" \n ", []),
    ],
)
def test_examples(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@given(st.text(alphabet="aA.!?\"'( \n1é。"))
def test_sentences_are_trimmed_in_order_and_lose_only_white_space(text: str) -> None:
    found = split_sentences(text)
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in found)
    assert all(before[1] <= after[0] for before, after in pairwise(found))
    assert "".join("".join(text[start:end] for start, end in found).split()) == "".join(text.split())


@pytest.mark.timeout(300)  # quadratic takes hours
@pytest.mark.parametrize(
    ("piece", "count"),
    [("a ", 1), (".", 1), (". ", 1), (". A", 2), ("\n", 0), ("\n ", 0), (" ", 0), ('."', 1), ("Ab. ", 250_000)],
)
def test_a_million_characters_are_no_trouble(piece: str, count: int) -> None:
    assert len(split_sentences(piece * (1_000_000 // len(piece)))) == count
