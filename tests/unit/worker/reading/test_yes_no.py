"""Yes-no rules: what each decides, with its values, and where it must stay silent."""

from collections.abc import Callable

import pytest

from polyhop.schemas.query import Reading
from polyhop.worker.reading.comparisons import Computed
from polyhop.worker.reading.pages import Page
from polyhop.worker.reading.question import ParsedQuestion
from polyhop.worker.reading.yes_no import by_country, by_order, by_same_time, by_shared_name, by_state, options_of

Ask = Callable[..., Reading]
Parse = Callable[..., ParsedQuestion]
Pages = Callable[..., list[Page]]

ANN = ("Ann Roe", "Ann Roe (12 June 1516 – 3 May 1560) was an English writer.")
BEN = ("Ben Poe", "Ben Poe (born January 20, 1516 in London, England) is an American filmmaker. He met Kim Noe.")
CAT = ("Cat Loe", "Cat Loe (1510 – 1599) was a British writer. She met Kim Noe.")
DAN = ("Dan Moe", "Dan Moe is a painter of some note.")
HIGH = ("Alfa High", "Alfa High is a school in Bethlehem, Pennsylvania.")
LOW = ("Beta Low", "Beta Low is a school in Pittsburgh, Pennsylvania.")
INN = ("Gamma Inn", "Gamma Inn is a school in Austin, Texas.")
UP = ("Up High", "Up High is a 1988 film directed by Ben Poe.")
SCOTT = ("Sam Scott", "Sam Scott is a director. He was young. Later he made Red Sand.")


@pytest.mark.parametrize(
    ("question", "passages", "answer", "rule", "values"),
    [
        (
            "Do Ann Roe and Ben Poe share the same nationality?",
            (ANN, BEN),
            "no",
            "demonym",
            ["england", "united states"],
        ),
        ("Are Ann Roe and Cat Loe from the same country?", (ANN, CAT), "yes", "demonym", ["england", "united kingdom"]),
        (
            "Are Alfa High and Gamma Inn in the same country?",
            (HIGH, INN),
            "yes",
            "country",
            ["united states", "united states"],
        ),
        (
            "Are Alfa High and Beta Low in the same state?",
            (HIGH, LOW),
            "yes",
            "shared name",
            ["pennsylvania", "pennsylvania"],
        ),
        ("Are Alfa High and Gamma Inn in the same state?", (HIGH, INN), "no", "shared name", ["pennsylvania", "texas"]),
        ("Were Ann Roe and Ben Poe born in the same year?", (ANN, BEN), "yes", "birth", ["1516-06-12", "1516-01-20"]),
        ("Were Ann Roe and Cat Loe born in the same year?", (ANN, CAT), "no", "birth", ["1516-06-12", "1510"]),
        ("Did Ben Poe and Cat Loe meet the same man?", (BEN, CAT), "yes", "shared name", ["kim noe", "kim noe"]),
        ("Was Ann Roe born before Cat Loe?", (ANN, CAT), "no", "birth", ["1516-06-12", "1510"]),
        ("Did Ann Roe die before Cat Loe?", (ANN, CAT), "yes", "death", ["1560-05-03", "1599"]),
        (
            "Were Ann Roe and Cat Loe both writers?",
            (ANN, CAT),
            "yes",
            "definition",
            ["was an English writer", "was a British writer"],
        ),
        ("Were Ann Roe and Ben Poe both American writers?", (ANN, BEN), "no", "definition", None),
        ("Were Ann Roe and Up High both films?", (ANN, UP), "no", "definition", None),
        ("Is Dan Moe a painter?", (DAN, ANN), "yes", "definition", ["is a painter of some note"]),
        ("Did Sam Scott make Red Sand?", (SCOTT, ANN), "yes", "statement", ["Later he made Red Sand."]),
    ],
)
def test_yes_or_no_comes_with_its_rule_and_values(
    ask: Ask, question: str, passages: tuple[tuple[str, str], ...], answer: str, rule: str, values: list[str] | None
) -> None:
    reading = ask(question, *passages)
    assert (reading.answer, reading.kind, reading.rule) == (answer, "computed", rule)
    assert values is None or [value.value for value in reading.values] == values


@pytest.mark.parametrize(
    ("question", "passages"),
    [
        ("Is Zed Xoe a painter?", (DAN, ANN)),
        ("Did Ann Roe and Dan Moe meet the same man?", (ANN, DAN)),
        ("Did Sam Scott make Blue Sand?", (SCOTT, ANN)),
        ("Did Sam Scott sell Red Sand?", (SCOTT, ANN)),
        ("Was Ann Roe a scientist?", (ANN,)),
        ("Is Dan Moe the father of Ann Roe?", (DAN, ANN)),
        ("Were Ann Roe and Dan Moe born in the same year?", (ANN, DAN)),
        ("Are Ann Roe and Dan Moe from the same country?", (ANN, DAN)),
        ("Was Ann Roe born before Dan Moe?", (ANN, DAN)),
    ],
)
def test_nothing_is_answered_no_because_nothing_was_found(
    ask: Ask, question: str, passages: tuple[tuple[str, str], ...]
) -> None:
    reading = ask(question, *passages)
    assert (reading.answer, reading.kind, reading.confidence) == ("", "none", 0.0)


def test_a_statement_needs_the_question_s_preposition_before_its_name(ask: Ask) -> None:
    city = ("Elm", "Elm is the capital of Ardenia and the second largest city of Borduria.")
    assert ask("Is Elm the capital of Ardenia?", city).answer == "yes"
    never = ("Sam Scott", "Sam Scott is a director. He never made Red Sand.")
    assert ask("Did Sam Scott make Red Sand?", never).answer == ""


def test_the_same_country_is_shown_by_the_sentence_that_names_it(ask: Ask) -> None:
    reading = ask("Are Ann Roe and Cat Loe from the same country?", ANN, CAT)
    assert [sentence.text for sentence in reading.sentences] == [ANN[1], "Cat Loe (1510 – 1599) was a British writer."]


def test_a_shared_role_asks_about_the_persons(ask: Ask) -> None:
    down = ("Down Low", "Down Low is a 1977 film directed by Ann Roe.")
    reading = ask("Do directors of Up High and Down Low have the same nationality?", UP, down, BEN, ANN)
    assert (reading.answer, [value.name for value in reading.values]) == ("no", ["Up High", "Down Low"])
    assert [value.value for value in reading.values] == ["united states", "england"]


Rule = Callable[..., Computed | None]


@pytest.mark.parametrize(
    ("rule", "question"),
    [
        (by_country, "Are Ann Roe and Cat Loe from England?"),
        (by_country, "Is Ann Roe from the same country?"),
        (by_country, "Did Ann Roe and Cat Loe meet the same man?"),
        (by_state, "Are Beta Low and Alfa High in the same country?"),
        (by_same_time, "Were Ann Roe and Cat Loe born that year?"),
        (by_shared_name, "Were Ann Roe and Cat Loe both writers?"),
        (by_shared_name, "Did Ann Roe meet the same man?"),
        (by_order, "Was Ann Roe born with Cat Loe?"),
        (by_order, "Was Ann Roe better than Cat Loe?"),
        (by_order, "Was Ann Roe born before the war?"),
    ],
)
def test_a_rule_is_silent_where_it_is_not_asked(parsed: Parse, pages: Pages, rule: Rule, question: str) -> None:
    passages = (ANN, BEN, CAT, DAN, HIGH, LOW)
    found = parsed(question, *(title for title, _ in passages))
    prepared = pages(*passages)
    more = (prepared,) if rule in (by_order, by_same_time) else ()
    assert rule(found, options_of(found, prepared), *more) is None
