"""F-REL: the words between two names, by hand."""

import pytest

from polyhop.schemas.names import NameFinder, split_sentences
from polyhop.tasks.extraction.rules import sentence_relations, title_relations


def relations(text: str, *titles: str) -> list[tuple[str, str, str]]:
    mentions = NameFinder(titles).find(text)
    sentences = split_sentences(text)
    homes = [max(n for n, (start, _) in enumerate(sentences) if start <= m.start) for m in mentions]
    return sentence_relations(text, mentions, homes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ann Roe was born in Rome.", [("ann roe", "was born in", "rome")]),
        ("Ann Roe (“Bo”) came.", [("ann roe", "related to", "bo")]),
        ("Ann's Rome", [("ann", "related to", "rome")]),
        ("Ann's house in Rome", [("ann", "house in", "rome")]),
        ("Ann, then, to Rome", [("ann", "related to", "rome")]),
        ("Ann a1 b c d e f g h Rome", [("ann", "a1 b c d e f g h", "rome")]),
        ("Ann a1 b c d e f g h i Rome", [("ann", "related to", "rome")]),
        ("Ann a1 b c d e f g h i j k l Rome", [("ann", "related to", "rome")]),
        ("Ann a1 b c d e f g h i j k l m Rome", []),
        ("Ann left. Rome stayed.", []),
        ("Ann saw Ann", []),
        ("Ann met Bo in Rome", [("ann", "met", "bo"), ("bo", "related to", "rome")]),
        ("Ann and Bo", [("ann", "related to", "bo")]),
        ("Ann, 1 May 1974, in the Rome", [("ann", "related to", "rome")]),
        ("Ann near Rome", [("ann", "near", "rome")]),
        ("", []),
    ],
)
def test_examples(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert relations(text) == expected


def test_of_overlapping_names_the_longest_counts() -> None:
    assert relations("The Beatles left Rome", "The Beatles") == [("the beatles", "left", "rome")]


def test_a_title_mentions_what_no_relation_links_to_it() -> None:
    stated = [("t", "met", "a"), ("b", "met", "t2"), ("a", "met", "c")]
    assert title_relations(["t", "t2"], ["t", "t2", "a", "b", "c"], stated) == [("t", "mentions", "c")]


def test_a_title_without_keys_mentions_nothing() -> None:
    assert title_relations([], ["a"], []) == []
