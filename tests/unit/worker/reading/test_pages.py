"""What the corpus knows about names, what stands beside a span, and questions over five kinds of documents."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from memory_index import ReadingIndex

from polyhop.schemas.query import Reading
from polyhop.tasks.evaluation.metrics import exact_match
from polyhop.worker.reading.clauses import Surroundings
from polyhop.worker.reading.pages import CorpusPages, own_page
from polyhop.worker.reading.word_lists import geography, nationalities, places_in, relations, shared_countries

LYNCH = ("David Lynch", "David Lynch (born January 20, 1946) is an American filmmaker.")
ULM = ("Ulm", "Ulm (from the old Hulma) is a town on the Danube. It is old.")
STRAUSS = ("Johann Strauss", "Johann Strauss was an Austrian composer born near Vienna in 1825.")


def test_a_persons_page_is_known_by_its_parenthesis_or_its_definition() -> None:
    assert own_page(*LYNCH).is_person
    assert own_page(*STRAUSS).is_person
    assert not own_page(*ULM).is_person
    assert not own_page("", "").is_person


def test_a_definition_skips_parentheses_and_takes_those_of_the_title() -> None:
    own = own_page("Ulm (town)", ULM[1])
    assert "town" in own.kinds
    assert "hulma" not in own.kinds
    assert "film" in own_page("Up (2009 film)", "Up.").kinds


def test_pages_are_found_by_title_key_and_read_once(reading_index: type[ReadingIndex]) -> None:
    index = reading_index((LYNCH, ULM, ("Ulm (film)", "A film.")))
    corpus = CorpusPages(index)
    corpus.prepare(["ulm", "david lynch", "nobody"])
    calls = index.calls
    own = corpus.find("ulm")
    assert own is not None
    assert "town" in own.kinds
    assert corpus.find("nobody") is None
    corpus.prepare(["ulm"])
    assert index.calls == calls


@pytest.mark.parametrize(
    ("text", "country"),
    [
        ("Ann Roe was an English writer.", "england"),
        ("Up is a 1988 Indian Malayalam film.", "india"),
        ("A school in Austin, Texas.", "united states"),
        ("Jo Bloggs was a Norman knight.", ""),
        ("They told us of turkey and polish.", ""),
    ],
)
def test_the_first_country_that_a_text_names(text: str, country: str) -> None:
    assert next((place.country for place in places_in(text)), "") == country


def test_a_definition_says_more_than_places_of_birth_and_death() -> None:
    lead = "Eve (born in Paris, France) was a Danish writer. She died in Spain."
    assert [place.country for place in places_in(lead)] == ["france", "denmark", "spain"]
    assert [place.country for place in nationalities(lead)] == ["denmark"]
    assert [place.country for place in nationalities("A village in Iran.")] == ["iran"]


def test_a_part_of_the_kingdom_shares_with_the_whole_only() -> None:
    assert shared_countries({"england"}, {"united kingdom"}) == {"united kingdom"}
    assert shared_countries({"england"}, {"scotland"}) == set()
    assert shared_countries({"france", "italy"}, {"italy"}) == {"italy"}


def test_lists_are_complete_and_in_lower_case() -> None:
    lists = geography()
    assert (len(relations()), len(lists.countries), len(lists.states), len(lists.demonyms)) == (30, 147, 60, 154)
    assert all(name == name.lower() for name in (*lists.countries, *lists.states, *lists.demonyms))


def beside(text: str) -> Surroundings:
    """Of the span in brackets."""
    start, end = text.index("["), text.index("]") - 1
    return Surroundings(text.replace("[", "").replace("]", ""), start, end)


@pytest.mark.parametrize(
    ("text", "word", "noun"),
    [
        ("Born in [London].", "in", "in"),
        ("Born in the [Hague].", "in", "in"),
        ("The author of the [Iliad] lived.", "of", "author"),
        ("[London] is large.", "", ""),
        ("A TOWN, [London]", "", ""),
    ],
)
def test_the_word_and_the_noun_before_in_lower_case(text: str, word: str, noun: str) -> None:
    assert (beside(text).word_before, beside(text).noun_before) == (word, noun)


@pytest.mark.parametrize(
    ("text", "noun"),
    [
        ("[Ely] is a village.", "village"),
        ("[Ely], the city", "city"),
        ("[Ely] was city", "city"),
        ("[Ely].", ""),
        ("[Ely] Cathedral", ""),
    ],
)
def test_the_noun_after(text: str, noun: str) -> None:
    assert beside(text).noun_after == noun


@pytest.mark.parametrize(
    ("text", "verb"),
    [
        ("It was Commissioned by the [Duke].", "commissioned"),
        ("It was designed by the young architect [Wren].", "designed"),
        ("It was built by [Wren].", ""),
        ("It stands by [Wren].", ""),
    ],
)
def test_the_participle_of_a_passive(text: str, verb: str) -> None:
    assert beside(text).passive_verb == verb


@pytest.mark.parametrize(
    ("text", "is_wider"),
    [
        ("He died at Missolonghi in [Greece].", True),
        ("He died in Patras, in the [Morea].", True),
        ("He died in [Greece].", False),
        ("Missolonghi and [Greece].", False),
    ],
)
def test_a_name_that_another_lies_in_is_wider(text: str, is_wider: bool) -> None:
    assert beside(text).is_wider is is_wider


def test_the_words_of_a_span_are_those_that_begin_in_it() -> None:
    words = [(0, 1), (2, 4), (5, 8), (9, 10)]
    assert Surroundings("a bb ccc d", 2, 8).word_range(words) == (1, 2)
    assert Surroundings("a bb ccc d", 0, 1).word_range(words) == (0, 0)


def test_at_most_so_many_characters_before() -> None:
    found = beside("abcdef [x]")
    assert (found.last(3), found.last(99)) == ("ef ", "abcdef ")


Ask = Callable[..., Reading]
DATA = Path(__file__).resolve().parents[4] / "benchmarks" / "data" / "reader"


def rows_of(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def test_computed_and_confident_answers_are_right(ask: Ask) -> None:
    passages: dict[str, list[tuple[str, str]]] = {}
    for row in rows_of("corpus"):
        passages.setdefault(row["metadata"]["kind"], []).append((row["title"], row["text"]))
    sure = 0
    for row in rows_of("questions"):
        reading = ask(row["question"], *passages[row["kind"]])
        if reading.answer and (reading.kind == "computed" or reading.confidence > 0.6):
            sure += 1
            assert exact_match(reading.answer, list(row["answers"])) == 1, (row["question"], reading)
    assert sure >= 20
