"""Words of questions and labels: algorithms.md 4B, rules 1 and 4."""

import re

import pytest
from bm25s.stopwords import STOPWORDS_EN_PLUS

from polyhop.worker.ranking.facets.labels import (
    STOP_WORDS,
    LabelIndex,
    are_family,
    content_stems,
    question_words,
    words_of,
)


def test_stop_words_are_those_of_bm25s_as_words_are_split_here() -> None:
    assert len(STOPWORDS_EN_PLUS) == 179
    assert {part for word in STOPWORDS_EN_PLUS for part in re.findall(r"[^\W_]+", word)} == STOP_WORDS


def test_words_are_stemmed_without_accents_and_stop_words_are_marked() -> None:
    words = words_of("The Grüners evaluated: MÉTHODES")
    assert [(word.text, word.stem, word.is_stop) for word in words] == [
        ("The", "the", True),
        ("Gruners", "gruner", False),
        ("evaluated", "evalu", False),
        ("METHODES", "method", False),
    ]
    assert content_stems(words) == ("gruner", "evalu", "method")


@pytest.mark.parametrize(
    ("text", "negated"),
    [
        ("not available", ["not"]),
        ("it isn't there", ["t"]),
        ("they don’t know", ["t"]),
        ("it lacks a guide, without which nothing works", ["lacks", "without"]),
        ("the t test of Can T", []),
        ("a note on Norway", []),
    ],
)
def test_negations_are_words_and_contracted_endings(text: str, negated: list[str]) -> None:
    assert [word.text for word in words_of(text) if word.is_negation] == negated


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("evolv", "evolut", True),
        ("architect", "architectur", True),
        ("evil", "evolut", False),
        ("cat", "cats", False),
        ("interview", "interact", False),
        ("20181", "20182", False),
    ],
)
def test_a_family_shares_most_of_a_long_enough_beginning(one: str, other: str, expected: bool) -> None:
    assert are_family(one, other) is are_family(other, one) is expected


def index_of(*labels: str) -> LabelIndex:
    return LabelIndex([words_of(label) for label in labels], [])


def meant(index: LabelIndex, word: str) -> list[tuple[str, float]]:
    names = {number: stem for stem, number in index.numbers.items()}
    (only,) = words_of(word)
    return [(names[number], factor) for number, factor in index.meanings(only)]


def test_a_family_counts_less_than_the_word_itself() -> None:
    index = index_of("architecture evolution", "evolving systems")
    assert meant(index, "evolving") == [("evolv", 1.0), ("evolut", 0.9)]
    assert meant(index, "zzzzzz") == []


def test_rare_words_of_labels_weigh_more_and_stop_words_a_tenth() -> None:
    index = index_of("red of", "red car", "blue car of")
    numbers = index.numbers
    assert index.idf[numbers["blue"]] > index.idf[numbers["red"]]
    assert index.idf[numbers["of"]] == pytest.approx(index.idf[numbers["red"]] / 10)


@pytest.mark.parametrize(
    ("question", "content"),
    [
        ("List the drummers. Sort them by age", ("drummer", "age")),
        ("Which drummers are on the list?", ("drummer", "list")),
        ("Do they show up? Show it", ("show",)),
    ],
)
def test_what_a_sentence_says_to_do_with_the_answer_names_nothing(question: str, content: tuple[str, ...]) -> None:
    assert content_stems(question_words(question)) == content
    assert [word.text for word in question_words(question)] == [word.text for word in words_of(question)]
