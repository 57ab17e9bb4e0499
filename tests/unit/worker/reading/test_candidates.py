"""Typed candidates, and their features one by one, worked by hand; the weighted sum and the confidence."""

from math import exp

import pytest
from memory_index import ReadingIndex

from polyhop.schemas.names import NameFinder
from polyhop.warehouse.artefacts import NAMES
from polyhop.worker.reading.candidates import (
    MOST_CANDIDATES,
    MOST_CERTAIN,
    WEIGHTS,
    WRONG,
    Best,
    Candidate,
    Features,
    Situation,
    choose,
    features_of,
    find_candidates,
    fitness,
    score,
)
from polyhop.worker.reading.pages import CorpusPages, pages_of
from polyhop.worker.reading.question import parse_question

OPENED = "It opened on 3 May 1950, closed in June 1960, then on 4 July, and burnt in 1999."


def candidates_of(question: str, *texts: str) -> list[Candidate]:
    parsed = parse_question(question, NameFinder(()).find(question))
    pages = pages_of(ReadingIndex([("T", text) for text in texts]).context())
    return [one for page in pages for one in find_candidates(parsed, page)]


@pytest.mark.parametrize(
    ("question", "text", "answers"),
    [
        ("When did it open?", OPENED, ["3 May 1950", "June 1960", "4 July", "1999"]),
        ("When did it open?", "It opened early, with 12 people.", []),
        ("When did it open in 1950?", "It opened in 1950.", []),
        ("In what year did it open?", OPENED, ["1950", "1960", "1999"]),
        ("In what year was it?", "It was on 3 May, item 12345.", []),
        (
            "How many?",
            "In May 1950 it had 1,200 seats, 3.5 million cars, 40 % and two cats, 1999.",
            ["1999", "1,200", "3.5 million", "40 %", "two"],
        ),
        ("How many?", "It was in May 1950 or on 3 May 1951, said Ann.", []),
        ("How high?", "It is the 3rd, 120 metres high, for $5 billion, once.", ["120 metres", "$5 billion"]),
        ("Who was it?", "There Prime Minister Ann Roe met Ben Poe in May 1950.", ["Prime Minister Ann Roe", "Ben Poe"]),
        ("Who was it?", "it was nobody in may, of 1950.", []),
        ("Who was Ann Roe?", "Ann Roe was Roe.", []),
        ("Where was it?", "It was in Salem, Massachusetts.", ["Salem", "Massachusetts"]),
        ("In which country was it?", "A German in Bonn.", ["German", "Bonn", "Germany"]),
        ("What nationality is it?", "The French and German towns.", ["French", "German", "French", "German"]),
        ("What nationality is it?", "The old and new towns.", []),
        ("What was it?", "Ann sang of the old wooden town.", ["Ann", "old wooden town"]),
        ("What was it?", "12, 13. 14!", []),
    ],
)
def test_a_type_gets_its_spans_and_nothing_that_is_in_the_question(
    question: str, text: str, answers: list[str]
) -> None:
    assert [candidate.span.answer for candidate in candidates_of(question, text)] == answers


def test_offsets_point_at_the_answer_and_a_list_of_names_is_cut() -> None:
    text = "A first line\nThere Prime Minister Ann Roe met Éva Doe."
    for one in candidates_of("Who was it?", text):
        begin = one.sentence.start
        assert text[begin + one.span.start : begin + one.span.end] == one.span.answer
    names = ", ".join(f"Ann{chr(97 + n % 26)}{chr(97 + n // 26)} Roe" for n in range(200))
    assert len(candidates_of("Who was it?", names)) == MOST_CANDIDATES


Titled = tuple[str, str]

ROE = ("Ann Roe", "Ann Roe (born 1950) is a painter of boats. She married Ben Poe in Ulm. Her boat sank.")
ULM = ("Ulm", "Ulm is a town in Germany. The town has a tower.")
TOWER = ("High Tower", "The tower was built by Carl Zoe. It stands in Ulm, Baden, near Lake Bodo.")


def rows(question: str, *passages: Titled) -> dict[str, tuple[Features, float]]:
    """Features of each answer, the first of each, and how well it fits the type; every word is equally rare."""
    index = ReadingIndex(passages)
    parsed = parse_question(question, index.artefact(NAMES).find(question))
    found = pages_of(index.context())
    situation = Situation(parsed, found, (0.9, 0.5, 0.1)[: len(found)], lambda _: 1.0, CorpusPages(index))
    candidates = [one for page in found for one in find_candidates(parsed, page)]
    both = [*zip(candidates, features_of(situation, candidates), strict=True)]
    return {one.span.answer: (row, fitness(parsed, one, situation.own_page(one), row)) for one, row in reversed(both)}


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
        ("place", "Who is it?", (TOWER,), {"Ulm": 0}),
        # pages of people and honorifics
        ("person", "Who is it?", (WEDDING, ROE, ULM), {"Ann Roe": 1, "Captain Hook": 1, "Ben Poe": 0.5}),
        ("person", "Who is it?", (WEDDING, ROE, ULM), {"Ulm Society For Boats": 0, "Ulm": 0}),
        ("person", "Where is it?", (WEDDING, ROE), {"Ann Roe": 0}),
        # what is asked, or a word that says the same, a few words before the answer
        ("pat", "Who is the husband of her?", (ROE,), {"Ben Poe": 1, "Ulm": 1}),
        ("pat", "Who is the spouse?", (TOWER,), {"Carl Zoe": 0}),
        ("pat", "Who commissioned the chapel?", (CHAPEL,), {"Dan Moe": 1, "Gus Hoe": 0}),
        # fades with the distance to the question's words
        ("mwin", "Who built it?", (TOWER,), {"Carl Zoe": exp(-1 / 6)}),
        ("mwin", "Who liked it?", (TOWER,), {"Carl Zoe": 0}),
    ],
)
def test_features_by_hand(feature: str, question: str, passages: tuple[Titled, ...], values: dict[str, float]) -> None:
    found = rows(question, *passages)
    assert {answer: getattr(found[answer][0], feature) for answer in values} == pytest.approx(values)


@pytest.mark.parametrize(
    ("question", "text", "wrong", "right"),
    [
        ("Who is it?", "There Ann Roe met the Ulm University in France.", ["France"], ["Ann Roe"]),
        ("Who is it?", "There was Anna of Ulm, a Danish aunt of Eve Doe.", ["Anna of Ulm", "Danish"], ["Eve Doe"]),
        ("Where is it?", "There is Ann Roe in Texas, or in a Danish town.", ["Ann Roe", "Danish"], ["Texas"]),
        ("In which country is it?", "It is in Ulm and France.", ["Ulm"], ["France"]),
        ("In which city is it?", "It is in Fulda, Texas, or in France.", ["Texas", "France"], ["Fulda"]),
        ("In which state is it?", "It is in Texas, or in France.", ["France"], ["Texas"]),
        ("How many are it?", "There are 12 in 1999.", ["1999"], ["12"]),
        ("What nationality is it?", "The Danish Eve Doe.", [], ["Danish"]),
        ("What is it?", "There Ann Roe wrote Small Boats.", [], ["Ann Roe", "Small Boats"]),
        ("When is it?", "It was in May 1999.", [], ["May 1999"]),
    ],
)
def test_what_cannot_be_of_the_type_is_a_wrong_fit(
    question: str, text: str, wrong: list[str], right: list[str]
) -> None:
    found = rows(question, ("Page", text), ROE)
    assert [found[answer][1] for answer in wrong] == [WRONG] * len(wrong)
    assert all(found[answer][1] > WRONG for answer in right)


def test_a_score_is_the_weighted_sum() -> None:
    ones = Features(*[1.0] * len(Features._fields))
    assert score(ones) == pytest.approx(3 + 4.5 + 3.5 + 2 + 0.7 + 1.5 + 1 + 1.5)
    assert score(WEIGHTS._replace(**dict.fromkeys(Features._fields, 0.0))) == 0


def test_confidence_grows_with_score_share_and_agreement_and_is_bounded() -> None:
    (candidate, *_) = candidates_of("Who was it?", "There Ann Roe met Ben Poe.")

    def told(score: float, share: float, *, is_shown: bool = True, is_one_step: bool = True) -> float:
        return Best(candidate, score, share).confidence(is_shown=is_shown, is_one_step=is_one_step)

    assert told(0, 0.5) < told(3, 0.5) < told(3, 0.9)
    assert told(3, 0.5, is_shown=False) < told(3, 0.5) < told(3, 0.5, is_one_step=False)
    assert told(50, 1.0) == MOST_CERTAIN


@pytest.mark.parametrize(("second", "share"), [("There was Cat Loe.", 1 / 3), ("There was Ann Roe.", 2 / 3)])
def test_equal_scores_go_to_the_better_page_and_the_earlier_offset_and_share_by_answer(
    second: str, share: float
) -> None:
    candidates = candidates_of("Who was it?", "There Ann Roe met Ben Poe.", second)
    best = choose(candidates[::-1], [Features(*[0.0] * len(Features._fields))] * 3, [1.0] * 3)
    assert best is not None
    assert best.candidate.span.answer == "Ann Roe"
    assert best.share == pytest.approx(share)
    assert choose([], [], []) is None
