"""Comparison rules: what each computes, with both values and sentences, and where it must stay silent."""

from collections.abc import Callable

import pytest

from polyhop.schemas.query import Reading
from polyhop.worker.reading.comparisons import MISSING, by_dates, by_life_span, compare, larger_wins, measure
from polyhop.worker.reading.pages import Page
from polyhop.worker.reading.quantities import Option, choice, follow, option_of, role_of
from polyhop.worker.reading.question import ParsedQuestion
from polyhop.worker.reading.word_lists import date_attributes

Ask = Callable[..., Reading]
Parse = Callable[..., ParsedQuestion]
Pages = Callable[..., list[Page]]

ANN = ("Ann Roe", "Ann Roe (12 June 1516 – 3 May 1560) was an English writer. She liked figs.")
BEN = ("Ben Poe", "Ben Poe (born January 20, 1546 in Missoula) is an American filmmaker.")
CAT = ("Cat Loe", "Cat Loe (1510 – 1599) was a French painter.")
BLANK = ("Dan Moe", "Dan Moe is a painter of some note.")
UP = ("Up High", "Up High is a 1988 Indian film directed by Ben Poe.")
DOWN = ("Down Low", "Down Low is a 1977 Italian film written and directed by Cat Loe.")
WORLD = ("Guitar World", "Guitar World is a monthly magazine published since July 1980. It has 30 editors.")
TIMES = ("Lute Times", "Lute Times is a magazine founded in 1981. It has 12 editors.")


@pytest.mark.parametrize(
    ("question", "passages", "answer", "rule", "values"),
    [
        (
            "Who lived longer, Ann Roe or Cat Loe?",
            (ANN, CAT),
            "Cat Loe",
            "life span",
            ["1516-06-12 to 1560-05-03", "1510 to 1599"],
        ),
        ("Who died first, Ann Roe or Cat Loe?", (ANN, CAT), "Ann Roe", "death", ["1560-05-03", "1599"]),
        ("Who is younger, Ann Roe or Ben Poe?", (ANN, BEN), "Ben Poe", "birth", ["1516-06-12", "1546-01-20"]),
        ("Was Ben Poe or Ann Roe born first?", (ANN, BEN), "Ann Roe", "birth", ["1546-01-20", "1516-06-12"]),
        ("Between Ann Roe and Ben Poe, who is older?", (ANN, BEN), "Ann Roe", "birth", ["1516-06-12", "1546-01-20"]),
        ("Which film came out later, Down Low or Up High?", (UP, DOWN), "Up High", "release", ["1977", "1988"]),
        (
            "Which magazine is older, Lute Times or Guitar World?",
            (WORLD, TIMES),
            "Guitar World",
            "founding",
            ["1981", "1980-07"],
        ),
        ("Which has more editors, Lute Times or Guitar World?", (WORLD, TIMES), "Guitar World", "number", ["12", "30"]),
        ("Which has fewer editors, Lute Times or Guitar World?", (WORLD, TIMES), "Lute Times", "number", ["12", "30"]),
        (
            "Which film has the director born first, Up High or Down Low?",
            (UP, DOWN, BEN, CAT),
            "Down Low",
            "birth",
            ["1546-01-20", "1510"],
        ),
        (
            "Who was born later, the director of Up High or the director of Down Low?",
            (UP, DOWN, BEN, CAT),
            "Ben Poe",
            "birth",
            ["1546-01-20", "1510"],
        ),
    ],
)
def test_a_comparison_names_the_option_and_both_values(
    ask: Ask, question: str, passages: tuple[tuple[str, str], ...], answer: str, rule: str, values: list[str]
) -> None:
    reading = ask(question, *passages)
    assert (reading.answer, reading.kind, reading.rule) == (answer, "computed", rule)
    assert [value.value for value in reading.values] == values


def test_both_sentences_of_a_comparison_are_evidence(ask: Ask) -> None:
    reading = ask("Who is older, Ben Poe or Ann Roe?", ANN, BEN)
    assert [(sentence.passage_id, sentence.start) for sentence in reading.sentences] == [("p001", 0), ("p000", 0)]
    assert reading.sentences[1].text == "Ann Roe (12 June 1516 – 3 May 1560) was an English writer."
    assert [value.name for value in reading.values] == ["Ben Poe", "Ann Roe"]
    assert reading.confidence == 0.85


def test_a_choice_without_a_value_goes_to_the_one_of_whom_a_sentence_says_it(ask: Ask) -> None:
    reading = ask("Which one is a painter of note, Ann Roe or Dan Moe?", ANN, BLANK)
    assert (reading.answer, reading.rule, reading.confidence) == ("Dan Moe", "cover", 0.4)
    silent = ask("Which one met Al Fay in Rome, Ann Roe or Dan Moe?", ANN, BLANK)
    assert (silent.answer, silent.kind, silent.rule) == ("", "none", "cover")


BYRON = ("Lord Byron", "Lord Byron was an English poet. He died of fever at Missolonghi in Greece in 1824.")
LOVELACE = ("Ada Lovelace", "Ada Lovelace was an English mathematician born in London in 1815.")
BABBAGE = ("Charles Babbage", "Charles Babbage was an English inventor. He designed an engine.")
EIFFEL = ("Eiffel Tower", "The Eiffel Tower is a tower in Paris. It opened in May 1889.")
GATE = ("Golden Gate Bridge", "The Golden Gate Bridge is a bridge. Work began in 1933. The bridge opened in May 1937.")
ELM = ("Elm Building", "The Elm Building is a skyscraper that was completed in May 1930.")


@pytest.mark.parametrize(
    ("question", "passages", "rule", "missing"),
    [
        ("Was Lord Byron born before Ada Lovelace?", (BYRON, LOVELACE), "birth", "Lord Byron"),
        ("Who was born first, Lord Byron or Ada Lovelace?", (LOVELACE, BYRON), "birth", "Lord Byron"),
        ("Was Ada Lovelace born before Charles Babbage?", (LOVELACE, BABBAGE), "birth", "Charles Babbage"),
        ("Did Ada Lovelace die before Lord Byron?", (LOVELACE, BYRON), "death", "Ada Lovelace"),
        (
            "Is the Elm Building older than the Golden Gate Bridge?",
            (ELM, GATE),
            "opening",
            "Elm Building",
        ),
        (
            "Which opened first, the Elm Building or the Eiffel Tower?",
            (ELM, EIFFEL),
            "opening",
            "Elm Building",
        ),
        ("Was Ada Lovelace born before Lord Byron was born?", (LOVELACE, BYRON), "birth", "Lord Byron"),
        ("Which is taller, the Eiffel Tower or the Elm Building?", (ELM, EIFFEL), "measure", "Eiffel Tower"),
    ],
)
def test_without_both_values_of_what_is_asked_there_is_no_answer_and_the_missing_one_is_shown(
    ask: Ask, question: str, passages: tuple[tuple[str, str], ...], rule: str, missing: str
) -> None:
    reading = ask(question, *passages)
    assert (reading.answer, reading.kind, reading.sentences) == ("", "none", ())
    assert {value.name for value in reading.values if value.value == MISSING} >= {missing}
    assert all((value.sentence is None) == (value.value == MISSING) for value in reading.values)
    assert reading.rule == rule


@pytest.mark.parametrize(
    ("question", "answer", "values"),
    [
        ("Is the Eiffel Tower older than the Golden Gate Bridge?", "yes", ["1889-05", "1937-05"]),
        ("Is the Golden Gate Bridge older than the Eiffel Tower?", "no", ["1937-05", "1889-05"]),
        ("Was the Golden Gate Bridge opened after the Eiffel Tower?", "yes", ["1937-05", "1889-05"]),
        ("Was Ada Lovelace born before Lord Byron died?", "yes", ["1815", "1824"]),
        ("Did Lord Byron die before Ada Lovelace was born?", "no", ["1824", "1815"]),
    ],
)
def test_an_order_is_computed_from_the_two_dates_that_the_question_names(
    ask: Ask, question: str, answer: str, values: list[str]
) -> None:
    reading = ask(question, EIFFEL, GATE, LOVELACE, BYRON)
    assert (reading.answer, reading.kind, [value.value for value in reading.values]) == (answer, "computed", values)
    assert all(value.sentence is not None for value in reading.values)


def options_of(pages: list[Page]) -> tuple[Option, Option]:
    first, second = (Option(page.passage.title, page, page.passage.title) for page in pages)
    return first, second


@pytest.mark.parametrize("kind", ["birth", "death", "founding", "release"])
def test_no_date_decides_where_a_page_has_none(pages: Pages, kind: str) -> None:
    prepared = pages(ANN, BLANK)
    one = date_attributes()[kind]
    found = by_dates(options_of(prepared), (one, one), prepared)
    assert found.sign == 0
    assert [value.value for value in found.values][1] == MISSING


def test_no_life_span_or_death_is_compared_with_a_living_person(pages: Pages) -> None:
    prepared = pages(ANN, BEN)
    death = date_attributes()["death"]
    assert by_life_span(options_of(prepared), prepared).sign == 0
    assert by_dates(options_of(prepared), (death, death), prepared).sign == 0


def test_equal_values_decide_nothing(pages: Pages) -> None:
    prepared = pages(ANN, ("Ann Roe II", ANN[1].replace("Ann Roe", "Ann Roe II")))
    birth = date_attributes()["birth"]
    found = by_dates(options_of(prepared), (birth, birth), prepared)
    assert (found.sign, found.missing) == (0, 0)
    assert by_life_span(options_of(prepared), prepared).sign == 0


def test_a_year_does_not_decide_against_a_day_of_that_year(pages: Pages) -> None:
    prepared = pages(UP, ("Up Low", "Up Low was released on 3 May 1988."))
    release = date_attributes()["release"]
    assert by_dates(options_of(prepared), (release, release), prepared).sign == 0


def test_numbers_are_compared_only_where_both_pages_count_the_noun(parsed: Parse, pages: Pages) -> None:
    question = parsed("Which has more editors, Lute Times or Up High?", "Lute Times", "Up High")
    prepared = pages(TIMES, UP)
    found = measure(question, options_of(prepared), prepared)
    assert found is not None
    assert (found.sign, [value.value for value in found.values]) == (0, ["12", MISSING])
    assert measure(parsed("Which is better?"), options_of(prepared), prepared) is None


@pytest.mark.parametrize(
    "question",
    [
        "Who wrote Ann Roe?",
        "Is it older or newer than Ann Roe?",
        "What is the distance between Ann Roe and Ben Poe?",
        "Who met Ann Roe and Ben Poe?",
        "Was Ann Roe born in Rome or a town with a long and old name near Ben Poe?",
    ],
)
def test_without_two_names_to_choose_from_nothing_is_compared(parsed: Parse, pages: Pages, question: str) -> None:
    found = parsed(question, "Ann Roe", "Ben Poe")
    assert choice(found) is None
    assert compare(found, pages(ANN, BEN), lambda _: 1.0) is None


def test_options_without_pages_or_dates_elsewhere_are_not_compared(parsed: Parse, pages: Pages) -> None:
    question = parsed("Who is older, Eve Doe or Gus Hoe?", "Eve Doe", "Gus Hoe")
    found = compare(question, pages(ANN, BEN), lambda _: 1.0)
    assert found is not None
    assert (found.answer, found.confidence) == ("", 0.0)


def test_an_or_within_a_name_separates_nothing(parsed: Parse) -> None:
    found = choice(parsed("Which is older, Sink or Swim or Ann Roe?", "Sink or Swim", "Ann Roe"))
    assert found is not None
    assert [name.surface for name in found] == ["Sink or Swim", "Ann Roe"]


@pytest.mark.parametrize(
    ("question", "larger"),
    [
        ("Who is younger, A or B?", True),
        ("Who died most recently, A or B?", True),
        ("Who is older, A or B?", False),
        ("Which has less, A or B?", False),
        ("Who had the shorter life, A or B?", False),
    ],
)
def test_words_say_whether_the_larger_value_wins(parsed: Parse, question: str, larger: bool) -> None:
    assert larger_wins(parsed(question)) is larger


def test_words_within_names_do_not_say_which_value_wins(parsed: Parse) -> None:
    assert not larger_wins(parsed("Which is older, The Last Coupon or Up High?", "The Last Coupon", "Up High"))


def test_a_role_is_followed_to_the_persons_page(parsed: Parse, pages: Pages) -> None:
    question = parsed("Who is the director of Up High?", "Up High")
    prepared = pages(UP, BEN)
    assert role_of(question, question.names[0]) == "director"
    option = option_of(question, question.names[0], prepared)
    assert (option.name, option.page, option.via) == ("Ben Poe", prepared[1], prepared[0])


def test_a_role_is_not_followed_without_the_persons_page_or_from_a_persons_own(parsed: Parse, pages: Pages) -> None:
    assert follow(pages(UP)[0], "director", pages(UP)) == ("", None)
    question = parsed("Who is the director of Ben Poe?", "Ben Poe")
    prepared = pages(BEN, UP)
    assert option_of(question, question.names[0], prepared).page is prepared[0]
    assert role_of(parsed("Who is the brother of Up High?", "Up High"), question.names[0]) == ""


RED = ("Red Lake", "Red Lake is a 1994 Indian film directed by Cat Loe.")
SERIES = ("Up High", "Down Low", "Red Lake")


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which film came out first, Up High, Down Low or Red Lake?", "Down Low"),
        ("Which film came out first, Down Low, Up High, or Red Lake?", "Down Low"),
        ("Which film came out last, Up High, Down Low, or Red Lake?", "Red Lake"),
        ("Which of Up High, Down Low and Red Lake was released most recently?", "Red Lake"),
        ("Of Red Lake, Up High, and Down Low, which was released first?", "Down Low"),
        ("Was Red Lake, Up High or Down Low released first?", "Down Low"),
    ],
)
def test_of_three_the_one_that_beats_both_others_wins(parsed: Parse, pages: Pages, question: str, answer: str) -> None:
    found = compare(parsed(question, *SERIES), pages(UP, DOWN, RED), lambda _: 1.0)
    assert found is not None
    assert (found.answer, found.rule) == (answer, "release")
    assert sorted(value.value for value in found.values) == ["1977", "1988", "1994"]
    assert all(value.sentence is not None for value in found.values)


def test_of_three_none_wins_while_one_value_is_missing(parsed: Parse, pages: Pages) -> None:
    for question in (
        "Which film came out first, Up High, Down Low or Red Lake?",
        "Which of Up High, Down Low and Red Lake was released first?",
    ):
        found = compare(parsed(question, *SERIES), pages(UP, DOWN), lambda _: 1.0)
        assert found is not None
        assert found.answer == ""
        assert [value.value for value in found.values] == ["1988", "1977", MISSING]


def test_a_list_of_names_that_nothing_compares_is_no_choice(parsed: Parse) -> None:
    assert choice(parsed("Who met one of Up High, Down Low and Red Lake?", *SERIES)) is None
    assert choice(parsed("Who directed Up High, Down Low and Red Lake?", *SERIES)) is None


def test_of_three_the_one_of_which_a_sentence_says_it_wins(parsed: Parse, pages: Pages) -> None:
    question = parsed("Who liked figs, Ann Roe, Ben Poe or Cat Loe?", "Ann Roe", "Ben Poe", "Cat Loe")
    found = compare(question, pages(ANN, BEN, CAT), lambda _: 1.0)
    assert found is not None
    assert (found.answer, found.rule, len(found.values)) == ("Ann Roe", "cover", 3)
