"""The features, one by one, worked by hand; then the weighted sum and the confidence."""

from collections.abc import Callable
from math import exp, log

import pytest

from polyhop.warehouse.artefacts import NAMES
from polyhop.worker.reading.candidates import (
    WEIGHTS,
    Candidate,
    Features,
    Situation,
    choose,
    confidence,
    features_of,
    find_candidates,
    score,
)
from polyhop.worker.reading.pages import CorpusPages, Page, pages_of
from polyhop.worker.reading.question import ParsedQuestion, parse_question

Titled = tuple[str, str]
Rows = dict[str, Features]
ROE = ("Ann Roe", "Ann Roe (born 1950) is a painter of boats. She married Ben Poe in Ulm. Her boat sank.")
ULM = ("Ulm", "Ulm is a town in Germany. The town has a tower.")
TOWER = ("High Tower", "The tower was built by Carl Zoe. It stands in Ulm, Baden, near Lake Bodo.")


@pytest.fixture
def rows(reading_index: type) -> Callable[..., Rows]:
    """Features by answer, the first of each, with every word equally rare and the given cosines."""

    def compute(question: str, *passages: Titled, cosines: tuple[float, ...] = (0.9, 0.5, 0.1)) -> Rows:
        index = reading_index(passages)
        parsed: ParsedQuestion = parse_question(question, index.artefact(NAMES).find(question))
        pages: list[Page] = pages_of(index.context())
        candidates: list[Candidate] = [one for page in pages for one in find_candidates(parsed, page)]
        situation = Situation(parsed, pages, cosines[: len(pages)], lambda _: 1.0, CorpusPages(index))
        found: Rows = {}
        for candidate, row in zip(candidates, features_of(situation, candidates), strict=True):
            found.setdefault(candidate.answer, row)
        return found

    return compute


def test_mov_is_the_share_of_the_questions_words_in_sentence_or_title(rows: Callable[..., Rows]) -> None:
    found = rows("Who built the old tower?", TOWER)
    assert found["Carl Zoe"].mov == pytest.approx(2 / 3)
    assert rows("Who built the old tower?", ULM)["Germany"].mov == 0.0


def test_bp_is_the_closeness_of_the_page_that_names_this_one(rows: Callable[..., Rows]) -> None:
    found = rows("Who built it?", ROE, ULM, TOWER)
    assert found["Germany"].bp == 0.9
    assert found["Carl Zoe"].bp == 0.0
    assert rows("Who built it in Ulm?", ROE, ULM)["Germany"].bp == 0.0


def test_qtitle_is_a_page_that_the_question_names(rows: Callable[..., Rows]) -> None:
    found = rows("Where in the High Tower is it?", TOWER, ULM)
    assert (found["Carl Zoe"].qtitle, found["Germany"].qtitle) == (1.0, 0.0)


def test_phrases_are_marked(rows: Callable[..., Rows]) -> None:
    found = rows("What is it?", TOWER)
    assert (found["tower"].kP, found["Ulm"].kP) == (1.0, 0.0)


def test_chead_is_the_head_noun_in_the_answer(rows: Callable[..., Rows]) -> None:
    found = rows("Which lakes are near it?", TOWER)
    assert (found["Lake Bodo"].chead, found["Ulm"].chead) == (1.0, 0.0)


def test_place_knows_words_countries_and_prepositions(rows: Callable[..., Rows]) -> None:
    found = rows("Where is it?", TOWER, ULM, ROE)
    assert (found["Germany"].place, found["Ulm"].place) == (1.0, 0.7)
    assert (found["Lake Bodo"].place, found["Carl Zoe"].place) == (1.0, 0.0)
    assert rows("Where is it?", TOWER)["Ulm"].place == 0.7
    assert rows("Who is it?", TOWER)["Ulm"].place == 0.0


def test_person_knows_pages_and_honorifics(rows: Callable[..., Rows]) -> None:
    doe = ("Wedding", "There Ann Doe met Captain Hook, Ben Poe, the Ulm Society For Boats, Ulm and Ann Roe.")
    found = rows("Who is it?", doe, ROE, ULM)
    assert [found[name].person for name in ("Ann Roe", "Captain Hook", "Ben Poe")] == [1.0, 1.0, 0.5]
    assert (found["Ulm Society For Boats"].person, found["Ulm"].person) == (0.0, 0.0)
    assert rows("Where is it?", doe, ROE)["Ann Roe"].person == 0.0


def test_pat_is_the_relation_before_the_answer(rows: Callable[..., Rows]) -> None:
    found = rows("Who is the husband of her?", ROE)
    assert (found["Ben Poe"].pat, found["Ulm"].pat) == (1.0, 1.0)
    assert rows("Who built it?", TOWER)["Carl Zoe"].pat == 0.0
    assert rows("Who is the spouse?", TOWER)["Carl Zoe"].pat == 0.0


@pytest.mark.parametrize(
    ("question", "answers"),
    [("Where was he born?", {"Pescara", "Abruzzi"}), ("Where did he die?", {"Rome"}), ("Where is he?", set())],
)
def test_places_of_birth_and_death_are_read_from_a_parenthesis(
    rows: Callable[..., Rows], question: str, answers: set[str]
) -> None:
    found = rows(
        question, ("Luis", "Luis Doe (28 May 1902 in Pescara, Abruzzi – 5 June 1977 in Rome) was a man from Ulm.")
    )
    assert {answer for answer, row in found.items() if row.pat} == answers


def test_pat_is_also_the_questions_own_verb_in_the_passive(rows: Callable[..., Rows]) -> None:
    chapel = ("Chapel", "It was commissioned by the rich banker Dan Moe and painted by Gus Hoe.")
    found = rows("Who commissioned the chapel?", chapel)
    assert (found["Dan Moe"].pat, found["Gus Hoe"].pat) == (1.0, 0.0)


def test_mwin_fades_with_the_distance_to_the_questions_words(rows: Callable[..., Rows]) -> None:
    found = rows("Who built it?", TOWER)
    assert found["Carl Zoe"].mwin == pytest.approx(exp(-1 / 6))
    assert rows("Who liked it?", TOWER)["Carl Zoe"].mwin == 0.0


@pytest.mark.parametrize(
    ("question", "text", "wrong", "right"),
    [
        ("Who is it?", "There Ann Roe met the Ulm University in France.", ["France"], ["Ann Roe"]),
        ("Who is it?", "There was Anna of Ulm, a Danish aunt of Eve Doe.", ["Anna of Ulm", "Danish"], ["Eve Doe"]),
        ("Where is it?", "There is Ann Roe in Ulm.", ["Ann Roe"], ["Ulm"]),
        ("In which country is it?", "It is in Ulm and France.", ["Ulm"], ["France"]),
        ("In which city is it?", "It is in Fulda, Texas, or in France.", ["Texas", "France"], ["Fulda"]),
        ("In which state is it?", "It is in Texas, or in France.", ["France"], ["Texas"]),
        ("Where is it?", "It is in Texas, or in France.", [], ["Texas", "France"]),
        ("How many are it?", "There are 12 in 1999.", ["1999"], ["12"]),
        ("What nationality is it?", "The Danish Eve Doe.", [], ["Danish"]),
        ("What is it?", "There Ann Roe wrote Small Boats.", [], ["Ann Roe", "Small Boats"]),
        ("When is it?", "It was in May 1999.", [], ["May 1999"]),
    ],
)
def test_mism_marks_what_cannot_be_of_the_type(
    rows: Callable[..., Rows], question: str, text: str, wrong: list[str], right: list[str]
) -> None:
    found = rows(question, ("Page", text), ROE)
    assert [found[answer].mism for answer in wrong] == [1.0] * len(wrong)
    assert [found[answer].mism for answer in right] == [0.0] * len(right)


def test_a_score_is_the_weighted_sum() -> None:
    ones = Features(*[1.0] * len(Features._fields))
    assert score(ones) == pytest.approx(3 + 4.5 - 1.5 + 2.5 + 2 + 1.5 + 1.5 + 1 - 1 + 1.5)
    assert score(WEIGHTS._replace(**dict.fromkeys(Features._fields, 0.0))) == 0


def test_confidence_grows_with_score_and_share_and_stays_below_its_factor() -> None:
    assert confidence(1.0, 0.0) == pytest.approx(0.6 / (1 + exp(0.597)))
    assert confidence(0.5, 6.0) == pytest.approx(0.6 / (1 + exp(0.597 - 0.954 * log(0.5) - 0.226 * 6)))
    assert confidence(0.1, 2.0) < confidence(0.2, 2.0) < confidence(0.2, 3.0) < 0.6


def test_equal_scores_go_to_the_better_page_then_to_the_earlier_offset(
    parsed: Callable[..., ParsedQuestion], pages: Callable[..., list[Page]]
) -> None:
    prepared = pages(("T", "There Ann Roe met Ben Poe."), ("U", "There was Cat Loe."))
    candidates = [one for page in prepared for one in find_candidates(parsed("Who was it?"), page)]
    zeros = [Features(*[0.0] * len(Features._fields))] * 3
    best = choose(candidates[::-1], zeros, [1.0] * len(zeros))
    assert best is not None
    assert best.candidate.answer == "Ann Roe"
    assert best.share == pytest.approx(1 / 3)
    assert choose([], [], []) is None


def test_an_answer_found_twice_has_the_share_of_both(
    parsed: Callable[..., ParsedQuestion], pages: Callable[..., list[Page]]
) -> None:
    prepared = pages(("T", "There Ann Roe met Ben Poe."), ("U", "There was Ann Roe."))
    candidates = [one for page in prepared for one in find_candidates(parsed("Who was it?"), page)]
    best = choose(candidates, [Features(*[0.0] * len(Features._fields))] * 3, [1.0] * 3)
    assert best is not None
    assert best.share == pytest.approx(2 / 3)
