"""Questions taken apart: the golden cases of reader.md, wh-words, heads, types, main clauses, relations."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.names import NameFinder
from polyhop.worker.reading.question import ParsedQuestion, parse_question

Parse = Callable[..., ParsedQuestion]


@pytest.mark.parametrize(
    ("question", "expected", "head", "stems", "relations"),
    [
        (
            "Who was the first president of the association which published Journal of Psychotherapy Integration?",
            "PER",
            (),
            {"associ", "first", "presid"},
            ["president"],
        ),
        (
            "What is the name of the waterfall in the country where the Bubye River is found?",
            "LOC",
            ("waterfall",),
            {"countri", "waterfal"},
            ["located"],
        ),
        (
            "Which region is Corey Taylor's city of birth located?",
            "LOC",
            ("region",),
            {"birth", "citi", "locat", "region"},
            ["bornl", "located"],
        ),
        (
            "When was the astronomical clock built in the city where Karel Purkyně died?",
            "DATE",
            (),
            {"astronom", "built", "citi", "clock"},
            [],
        ),
        (
            "Who is the spouse of Big Eye's main director?",
            "PER",
            (),
            {"director", "main", "spous"},
            ["spouse", "director"],
        ),
    ],
)
def test_the_golden_questions_are_taken_apart_as_specified(
    parsed: Parse, question: str, expected: str, head: tuple[str, ...], stems: set[str], relations: list[str]
) -> None:
    found = parsed(question, "Big Eye")
    assert (found.expected, found.head, set(found.main_stems)) == (expected, head, stems)
    assert [relation.name for relation in found.relations] == relations


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Who wrote it?", "PER"),
        ("To whom was she married?", "PER"),
        ("Where was she born?", "LOC"),
        ("Where did she study?", "LOC"),
        ("Where is the university located?", "LOC"),
        ("When did it open?", "DATE"),
        ("How many people live there?", "NUM"),
        ("How did it end?", "ANY"),
        ("In what year did it open?", "YEAR"),
        ("On what date did it open?", "DATE"),
        ("What time does it open?", "DATE"),
        ("Which composer wrote it?", "PER"),
        ("What nationality is she?", "NAT"),
        ("Which cities are on it?", "LOC"),
        ("What is the population of it?", "NUM"),
        ("What is the area code of it?", "NUM"),
        ("Which film came out in May?", "ANY"),
        ("What does it mean?", "ANY"),
        ("Whose tower is it?", "ANY"),
        ("Is Warsaw a city?", "YES-NO"),
        ("Did it open?", "YES-NO"),
        ("Was Warsaw the capital of what country?", "LOC"),
        ("Name it.", "ANY"),
        ("", "ANY"),
    ],
)
def test_wh_word_and_head_noun_decide_the_type(parsed: Parse, question: str, expected: str) -> None:
    assert parsed(question).expected == expected


@pytest.mark.parametrize(
    ("question", "wh"),
    [
        ("In which city was the man who wrote it born?", "which"),
        ("The old man who wrote it was born in what city, and when?", "when"),
        ("The old man who left died. What was the town where he lived called?", "what"),
        ("The old town where the man lived lies in what country on the sea?", "what"),
        ("The house he built and where nobody who can lives is old", "who"),
        ("The man who wrote it was born in what city?", "who"),
        ("Warsaw is big", ""),
    ],
)
def test_the_asking_wh_word_is_found_among_several(parsed: Parse, question: str, wh: str) -> None:
    assert parsed(question).wh == wh


@pytest.mark.parametrize(
    ("question", "head"),
    [
        ("Which suspension bridge is it?", ("suspension", "bridge")),
        ("What is the term for it?", ("term",)),
        ("What is the title of the old song about it?", ("old", "song")),
        ("Which film won?", ("film",)),
        ("Which explorer accurately mapped the coast?", ("explorer",)),
        ("Which Polish city is it?", ()),
        ("Who is it?", ()),
    ],
)
def test_the_head_noun_ends_at_function_words_names_and_verbs(
    parsed: Parse, question: str, head: tuple[str, ...]
) -> None:
    assert parsed(question).head == head


def test_the_sentence_of_the_wh_word_is_the_main_clause(parsed: Parse) -> None:
    found = parsed("The probe is named after a painter. Who commissioned the chapel that holds his frescoes?")
    assert found.main_stems == ("commiss", "chapel")
    assert found.verbs == {"commissioned"}


def test_a_late_wh_word_takes_the_clause_behind_the_last_comma(parsed: Parse) -> None:
    found = parsed("The bridge of the old town, built by monks, crosses what river?")
    assert set(found.main_stems) == {"cross", "river"}


def test_a_question_of_names_only_keeps_them_as_its_words(parsed: Parse) -> None:
    assert set(parsed("Who is from Warsaw?", "Warsaw").main_stems) == {"warsaw"}


def test_a_relation_of_another_type_is_not_asked_for(parsed: Parse) -> None:
    assert [one.name for one in parsed("When was he born?").relations] == ["bornd"]
    assert [one.name for one in parsed("Where was he born?").relations] == ["bornl"]


def test_overlapping_names_leave_the_longest(parsed: Parse) -> None:
    found = parsed("Were the Beatles from Liverpool?", "The Beatles", "Beatles", "Liverpool")
    assert [name.surface for name in found.names] == ["the Beatles", "Liverpool"]
    assert found.name_keys == {"the beatles", "beatles", "liverpool"}


@given(st.text(max_size=80))
def test_any_text_can_be_taken_apart(question: str) -> None:
    found = parse_question(question, NameFinder(()).find(question))
    assert len(found.main_stems) == len(set(found.main_stems))
