"""Typed candidates, and their features one by one, worked by hand; the weighted sum and the confidence."""

from collections.abc import Callable
from math import exp
from typing import Any

import pytest

from polyhop.warehouse.artefacts import NAMES
from polyhop.worker.reading.candidates import (
    MOST_CANDIDATES,
    MOST_CERTAIN,
    WEIGHTS,
    WRONG,
    Best,
    Features,
    Situation,
    choose,
    features_of,
    find_candidates,
    fitness,
    score,
)
from polyhop.worker.reading.pages import CorpusPages, Page, pages_of
from polyhop.worker.reading.question import ParsedQuestion, parse_question

Parse = Callable[..., ParsedQuestion]
Pages = Callable[..., list[Page]]
OPENED = "It opened on 3 May 1950, closed in June 1960, then on 4 July, and burnt in 1999."


@pytest.mark.parametrize(
    ("question", "text", "answers"),
    [
        ("When did it open?", OPENED, ["3 May 1950", "June 1960", "4 July", "1999"]),
        ("In what year did it open?", OPENED, ["1950", "1960", "1999"]),
        (
            "How many?",
            "In May 1950 it had 1,200 seats, 3.5 million cars, 40 % and two cats, 1999.",
            ["1999", "1,200", "3.5 million", "40 %", "two"],
        ),
        ("How high?", "It is the 3rd, 120 metres high, for $5 billion, once.", ["120 metres", "$5 billion"]),
        ("Who was it?", "There Prime Minister Ann Roe met Ben Poe in May 1950.", ["Prime Minister Ann Roe", "Ben Poe"]),
        ("Where was it?", "It was in Salem, Massachusetts.", ["Salem", "Massachusetts"]),
        ("In which country was it?", "A German in Bonn.", ["German", "Bonn", "Germany"]),
        ("What nationality is it?", "The French and German towns.", ["French", "German", "French", "German"]),
        ("What was it?", "Ann sang of the old wooden town.", ["Ann", "old wooden town"]),
    ],
)
def test_a_type_gets_its_spans(parsed: Parse, pages: Pages, question: str, text: str, answers: list[str]) -> None:
    found = find_candidates(parsed(question), pages(("T", text))[0])
    assert [candidate.span.answer for candidate in found] == answers


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("When did it open?", "It opened early, with 12 people."),
        ("In what year was it?", "It was on 3 May, item 12345."),
        ("How many?", "It was in May 1950 or on 3 May 1951, said Ann."),
        ("Who was it?", "it was nobody in may, of 1950."),
        ("Who was Ann Roe?", "Ann Roe was Roe."),
        ("What was it?", "12, 13. 14!"),
        ("What nationality is it?", "The old and new towns."),
        ("When did it open in 1950?", "It opened in 1950."),
    ],
)
def test_nothing_is_offered_that_is_of_no_type_or_in_the_question(
    parsed: Parse, pages: Pages, question: str, text: str
) -> None:
    assert find_candidates(parsed(question), pages(("T", text))[0]) == []


def test_offsets_point_at_the_answer(parsed: Parse, pages: Pages) -> None:
    page = pages(("T", "A first line\nThere Prime Minister Ann Roe met Éva Doe."))[0]
    for one in find_candidates(parsed("Who was it?"), page):
        begin = one.sentence.start
        assert page.content.text[begin + one.span.start : begin + one.span.end] == one.span.answer


def test_a_list_of_names_is_cut(parsed: Parse, pages: Pages) -> None:
    page = pages(("T", ", ".join(f"Ann{chr(97 + n % 26)}{chr(97 + n // 26)} Roe" for n in range(200))))[0]
    assert len(find_candidates(parsed("Who was it?"), page)) == MOST_CANDIDATES


Titled = tuple[str, str]
Rows = dict[str, Features]
ROE = ("Ann Roe", "Ann Roe (born 1950) is a painter of boats. She married Ben Poe in Ulm. Her boat sank.")
ULM = ("Ulm", "Ulm is a town in Germany. The town has a tower.")
TOWER = ("High Tower", "The tower was built by Carl Zoe. It stands in Ulm, Baden, near Lake Bodo.")


def situation_of(reading_index: type, question: str, passages: tuple[Titled, ...], cosines: tuple[float, ...]) -> Any:
    """A question and its passages with every word equally rare, and the candidates there."""
    index = reading_index(passages)
    parsed: ParsedQuestion = parse_question(question, index.artefact(NAMES).find(question))
    found: list[Page] = pages_of(index.context())
    situation = Situation(parsed, found, cosines[: len(found)], lambda _: 1.0, CorpusPages(index))
    return situation, [one for page in found for one in find_candidates(parsed, page)]


@pytest.fixture
def rows(reading_index: type) -> Callable[..., Rows]:
    """Features by answer, the first of each."""

    def compute(question: str, *passages: Titled, cosines: tuple[float, ...] = (0.9, 0.5, 0.1)) -> Rows:
        situation, candidates = situation_of(reading_index, question, passages, cosines)
        found = zip(candidates, features_of(situation, candidates), strict=True)
        return {candidate.span.answer: row for candidate, row in reversed(list(found))}

    return compute


@pytest.fixture
def fits(reading_index: type) -> Callable[..., dict[str, float]]:
    """How well each answer fits the expected type, the first of each."""

    def compute(question: str, *passages: Titled) -> dict[str, float]:
        situation, candidates = situation_of(reading_index, question, passages, (0.0,) * len(passages))
        found = zip(candidates, features_of(situation, candidates), strict=True)
        return {
            one.span.answer: fitness(situation.question, one, situation.own_page(one), row)
            for one, row in reversed(list(found))
        }

    return compute


WEDDING = ("Wedding", "There Ann Doe met Captain Hook, Ben Poe, the Ulm Society For Boats, Ulm and Ann Roe.")
CHAPEL = ("Chapel", "It was commissioned by the rich banker Dan Moe. Later it was painted by Gus Hoe.")


@pytest.mark.parametrize(
    ("feature", "question", "passages", "values"),
    [
        # the share of the question's words in sentence or title
        ("mov", "Who built the old tower?", (TOWER,), {"Carl Zoe": 2 / 3}),
        ("mov", "Who built the old tower?", (ULM,), {"Germany": 0}),
        # the closeness of the page that names this one
        ("bp", "Who built it?", (ROE, ULM, TOWER), {"Germany": 0.9, "Carl Zoe": 0}),
        ("bp", "Who built it in Ulm?", (ROE, ULM), {"Germany": 0}),
        # a page that the question names
        ("qtitle", "Where in the High Tower is it?", (TOWER, ULM), {"Carl Zoe": 1, "Germany": 0}),
        # the head noun in the answer
        ("chead", "Which lakes are near it?", (TOWER,), {"Lake Bodo": 1, "Ulm": 0}),
        # words of places, countries and prepositions
        ("place", "Where is it?", (TOWER, ULM, ROE), {"Germany": 1, "Ulm": 0.7, "Lake Bodo": 1, "Carl Zoe": 0}),
        ("place", "Where is it?", (TOWER,), {"Ulm": 0.7}),
        ("place", "Who is it?", (TOWER,), {"Ulm": 0}),
        # pages of people and honorifics
        ("person", "Who is it?", (WEDDING, ROE, ULM), {"Ann Roe": 1, "Captain Hook": 1, "Ben Poe": 0.5}),
        ("person", "Who is it?", (WEDDING, ROE, ULM), {"Ulm Society For Boats": 0, "Ulm": 0}),
        ("person", "Where is it?", (WEDDING, ROE), {"Ann Roe": 0}),
        # what is asked, or a word that says the same, a few words before the answer
        ("pat", "Who is the husband of her?", (ROE,), {"Ben Poe": 1, "Ulm": 1}),
        ("pat", "Who is the spouse?", (TOWER,), {"Carl Zoe": 0}),
        ("pat", "Who commissioned the chapel?", (CHAPEL,), {"Dan Moe": 1, "Gus Hoe": 0}),
        ("pat", "Who built it?", (TOWER,), {"Carl Zoe": 1, "Ulm": 0}),
        # fades with the distance to the question's words
        ("mwin", "Who built it?", (TOWER,), {"Carl Zoe": exp(-1 / 6)}),
        ("mwin", "Who liked it?", (TOWER,), {"Carl Zoe": 0}),
    ],
)
def test_features_by_hand(
    rows: Callable[..., Rows], feature: str, question: str, passages: tuple[Titled, ...], values: dict[str, float]
) -> None:
    found = rows(question, *passages)
    assert {answer: getattr(found[answer], feature) for answer in values} == pytest.approx(values)


@pytest.mark.parametrize(
    ("question", "text", "wrong", "right"),
    [
        ("Who is it?", "There Ann Roe met the Ulm University in France.", ["France"], ["Ann Roe"]),
        ("Who is it?", "There was Anna of Ulm, a Danish aunt of Eve Doe.", ["Anna of Ulm", "Danish"], ["Eve Doe"]),
        ("Where is it?", "There is Ann Roe in Ulm.", ["Ann Roe"], ["Ulm"]),
        ("In which country is it?", "It is in Ulm and France.", ["Ulm"], ["France"]),
        ("Where is it?", "It is in Texas, or in a Danish town.", ["Danish"], ["Texas"]),
        ("In which city is it?", "It is in Fulda, Texas, or in France.", ["Texas", "France"], ["Fulda"]),
        ("In which state is it?", "It is in Texas, or in France.", ["France"], ["Texas"]),
        ("How many are it?", "There are 12 in 1999.", ["1999"], ["12"]),
        ("What nationality is it?", "The Danish Eve Doe.", [], ["Danish"]),
        ("What is it?", "There Ann Roe wrote Small Boats.", [], ["Ann Roe", "Small Boats"]),
        ("When is it?", "It was in May 1999.", [], ["May 1999"]),
    ],
)
def test_what_cannot_be_of_the_type_is_a_wrong_fit(
    fits: Callable[..., dict[str, float]], question: str, text: str, wrong: list[str], right: list[str]
) -> None:
    found = fits(question, ("Page", text), ROE)
    assert [found[answer] for answer in wrong] == [WRONG] * len(wrong)
    assert all(found[answer] > WRONG for answer in right)


def test_a_score_is_the_weighted_sum() -> None:
    ones = Features(*[1.0] * len(Features._fields))
    assert score(ones) == pytest.approx(3 + 4.5 + 3.5 + 2 + 0.7 + 1.5 + 1 + 1.5)
    assert score(WEIGHTS._replace(**dict.fromkeys(Features._fields, 0.0))) == 0


def test_confidence_grows_with_score_share_and_agreement_and_is_bounded(parsed: Parse, pages: Pages) -> None:
    (candidate, *_) = find_candidates(parsed("Who was it?"), pages(("T", "There Ann Roe met Ben Poe."))[0])

    def told(score: float, share: float, *, is_shown: bool = True, is_one_step: bool = True) -> float:
        return Best(candidate, score, share).confidence(is_shown=is_shown, is_one_step=is_one_step)

    assert told(0, 0.5) < told(3, 0.5) < told(3, 0.9)
    assert told(3, 0.5, is_shown=False) < told(3, 0.5)
    assert told(3, 0.5, is_one_step=False) > told(3, 0.5)
    assert told(50, 1.0) == MOST_CERTAIN


@pytest.mark.parametrize(("second", "share"), [("There was Cat Loe.", 1 / 3), ("There was Ann Roe.", 2 / 3)])
def test_equal_scores_go_to_the_better_page_and_the_earlier_offset_and_share_by_answer(
    parsed: Parse, pages: Pages, second: str, share: float
) -> None:
    prepared = pages(("T", "There Ann Roe met Ben Poe."), ("U", second))
    candidates = [one for page in prepared for one in find_candidates(parsed("Who was it?"), page)]
    best = choose(candidates[::-1], [Features(*[0.0] * len(Features._fields))] * 3, [1.0] * 3)
    assert best is not None
    assert best.candidate.span.answer == "Ann Roe"
    assert best.share == pytest.approx(share)
    assert choose([], [], []) is None
