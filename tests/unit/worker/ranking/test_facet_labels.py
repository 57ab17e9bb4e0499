"""Words and labels that questions name: algorithms.md 4B, rules 1, 2 and 4."""

import re
from collections.abc import Collection

import numpy as np
import pytest
from bm25s.stopwords import STOPWORDS_EN_PLUS

from polyhop.worker.ranking.facets.labels import (
    STOP_WORDS,
    LabelIndex,
    are_family,
    content_stems,
    find_mentions,
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


LABELS = (
    *("Case Study", "Data Mining Technique", "Freedom from Risk", "Architecture Evolution", "Theory of Games"),
    *("Games of Theory", "Jane Doe", "Quality of Method", "The"),
    "A very long label about many other things and one Zyx",
)
PREDICATES = ("publication year", "quality")


def mentioned(question: str, shared: Collection[str] = ()) -> list[tuple[str, list[str], float]]:
    """Span, labels and strength of each mention."""
    index = LabelIndex(list(map(words_of, LABELS)), list(map(words_of, PREDICATES)))
    named = {index.number_of(words_of(label)): label for label in (*LABELS, *PREDICATES)}
    words = words_of(question)
    is_shared = np.array([named[number] in shared for number in range(len(index.stems))])
    found = find_mentions(index, list(map(index.meanings, words)), words, 0.6, is_shared)
    return [
        (
            " ".join(word.text for word in words[one.start : one.end]),
            [named[n] for n in one.labels],
            round(one.strength, 3),
        )
        for one in found
    ]


@pytest.mark.parametrize(
    ("question", "shared", "expected"),
    [
        ("Who did a case study in 2019?", (), [("case study", ["Case Study"], 1.0)]),
        # most of a label by weight is enough
        ("Who used data mining?", (), [("data mining", ["Data Mining Technique"], 0.667)]),
        ("Who used data?", (), []),
        # a word of one short value that hubs share is half a mention
        ("Who used mining?", ["Data Mining Technique"], [("mining", ["Data Mining Technique"], 0.5)]),
        ("Who used mining?", (), []),
        ("Who plays games?", ["Theory of Games", "Games of Theory"], []),
        ("Who asks for quality?", ["Quality of Method"], []),
        ("Who wrote many things?", LABELS, []),
        # words may stand in another order with stop words between, but not too far apart
        ("a study of the case", (), [("study of the case", ["Case Study"], 1.0)]),
        ("the risk they have freedom from", (), [("risk they have freedom", ["Freedom from Risk"], 0.952)]),
        ("a case that people study", (), []),
        # a word family finds a label and weakens it
        ("evolving architecture", (), [("evolving architecture", ["Architecture Evolution"], 0.95)]),
        # readings of one span and score stay alternatives, a heavier one takes the words
        ("the theory of games", (), [("theory of games", ["Games of Theory", "Theory of Games"], 1.0)]),
        ("which quality of a method", (), [("quality of a method", ["Quality of Method"], 1.0)]),
        # stop words and unknown words alone name nothing
        *((question, (), []) for question in ("What is the most of the?", "", "?", "zzz", "the of and")),
    ],
)
def test_a_label_is_mentioned_where_enough_of_its_words_are(
    question: str, shared: Collection[str], expected: list[tuple[str, list[str], float]]
) -> None:
    assert mentioned(question, shared) == expected
