"""F-PROP: a sentence and its names, by hand."""

import pytest

from polyhop.schemas.names import NameFinder, split_sentences, title_keys
from polyhop.schemas.records import Passage
from polyhop.schemas.values import find_dates
from polyhop.tasks.extraction.rules import sentence_propositions


def propositions(title: str, text: str) -> list[tuple[str, list[str]]]:
    page = Passage("p", "p", "d", 0, title, text, 0, len(text))
    names = NameFinder([]).find(text)
    return sentence_propositions(page, title_keys(title), split_sentences(text), names, find_dates(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ann Roe met Bo.", [("Ann Roe met Bo.", ["ann roe", "bo"])]),
        ("She met Bo.", [("Ann Roe: She met Bo.", ["ann roe", "bo"])]),
        ("“Her house” in Rome", [("Ann Roe: “Her house” in Rome", ["ann roe", "rome"])]),
        ("She is Ann Roe.", [("She is Ann Roe.", ["ann roe"])]),
        ("Here is Rome.", [("Here is Rome.", ["rome"])]),
        ("The work\n went on.", [("The work went on.", ["ann roe"])]),
        ("Then in 1990 all ended.", [("Then in 1990 all ended.", ["ann roe", "date:1990"])]),
        ("In Rome in 1990", [("In Rome in 1990", ["rome", "date:1990"])]),
        ("Bruno, Ed, Bruno. Al", [("Bruno, Ed, Bruno.", ["bruno", "ed"]), ("Al", ["al"])]),
        ("", []),
    ],
)
def test_examples(text: str, expected: list[tuple[str, list[str]]]) -> None:
    assert propositions("Ann Roe", text) == expected


def test_a_title_without_keys_still_explains_a_pronoun() -> None:
    assert propositions("It", "It ended.") == [("It: It ended.", [])]
