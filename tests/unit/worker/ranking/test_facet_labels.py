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
    "Case Study",
    "Data Mining Technique",
    "Freedom from Risk",
    "Architecture Evolution",
    "Theory of Games",
    "Games of Theory",
    "Jane Doe",
    "Quality of Method",
    "The",
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


def test_a_label_is_found_where_all_its_words_are() -> None:
    assert mentioned("Who did a case study in 2019?") == [("case study", ["Case Study"], 1.0)]


def test_most_of_a_label_by_weight_is_enough() -> None:
    ((span, labels, strength),) = mentioned("Who used data mining?")
    assert (span, labels) == ("data mining", ["Data Mining Technique"])
    assert strength == pytest.approx(2 / 3, abs=0.01)
    assert mentioned("Who used data?") == []


def test_a_word_of_one_short_value_that_hubs_share_is_half_a_mention() -> None:
    assert mentioned("Who used mining?", shared=["Data Mining Technique"]) == [
        ("mining", ["Data Mining Technique"], 0.5)
    ]
    assert mentioned("Who used mining?") == []
    assert mentioned("Who plays games?", shared=["Theory of Games", "Games of Theory"]) == []
    assert mentioned("Who asks for quality?", shared=["Quality of Method"]) == []
    assert mentioned("Who wrote many things?", shared=LABELS) == []


def test_words_may_stand_in_another_order_with_stop_words_between() -> None:
    assert mentioned("a study of the case") == [("study of the case", ["Case Study"], 1.0)]
    assert mentioned("the risk they have freedom from")[0][1] == ["Freedom from Risk"]


def test_words_too_far_apart_are_no_mention() -> None:
    assert mentioned("a case that people study") == []


def test_a_word_family_finds_a_label_and_weakens_it() -> None:
    ((span, labels, strength),) = mentioned("evolving architecture")
    assert (span, labels) == ("evolving architecture", ["Architecture Evolution"])
    assert 0.9 < strength < 1


def test_readings_of_one_span_and_score_stay_alternatives() -> None:
    assert mentioned("the theory of games") == [("theory of games", ["Games of Theory", "Theory of Games"], 1.0)]


def test_the_heavier_reading_takes_the_words() -> None:
    assert mentioned("which quality of a method") == [("quality of a method", ["Quality of Method"], 1.0)]


def test_stop_words_alone_name_nothing() -> None:
    assert mentioned("What is the most of the?") == []


@pytest.mark.parametrize("question", ["", "?", "zzz", "the of and"])
def test_unknown_words_mention_nothing(question: str) -> None:
    assert mentioned(question) == []
