"""Labels that a question names: algorithms.md 4B, rule 2."""

from collections.abc import Collection

import numpy as np
import pytest

from polyhop.worker.ranking.facets.labels import LabelIndex, find_mentions, words_of

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
