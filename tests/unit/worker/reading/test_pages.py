"""What the corpus knows about names, what stands beside a span, and questions over five kinds of documents."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from memory_index import ReadingIndex

from polyhop.schemas.query import Reading
from polyhop.tasks.evaluation.metrics import exact_match
from polyhop.worker.reading.pages import CorpusPages, own_page
from polyhop.worker.reading.word_lists import geography, nationalities, places_in, senses, words

LYNCH = ("David Lynch", "David Lynch (born January 20, 1946) is an American filmmaker.")
ULM = ("Ulm", "Ulm (from the old Hulma) is a town on the Danube. It is old.")
STRAUSS = ("Johann Strauss", "Johann Strauss was an Austrian composer born near Vienna in 1825.")


def test_a_page_says_what_it_is_by_parentheses_of_lead_or_title_and_its_definition() -> None:
    pages = (LYNCH, STRAUSS, ULM, ("", ""))
    assert [own_page(*page).is_person for page in pages] == [True, True, False, False]
    kinds = own_page("Ulm (town)", ULM[1]).kinds
    assert ("town" in kinds, "hulma" in kinds) == (True, False)
    assert "film" in own_page("Up (2009 film)", "Up.").kinds


def test_pages_are_found_by_title_key_and_read_once() -> None:
    index = ReadingIndex((LYNCH, ULM, ("Ulm (film)", "A film.")))
    corpus = CorpusPages(index)
    corpus.prepare(["ulm", "david lynch", "nobody"])
    calls, own = index.calls, corpus.find("ulm")
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


def test_lists_are_complete_and_in_lower_case() -> None:
    lists = geography()
    assert (len(lists.countries), len(lists.states), len(lists.demonyms)) == (147, 60, 154)
    assert set(lists.demonyms.values()) | set(lists.states.values()) <= {*lists.countries, *lists.demonyms.values()}
    assert senses()["wrote"] == {"author", "wrote", "write", "written", "writer", "novelist"}
    assert all(name == name.lower() for name in (*lists.countries, *lists.states, *lists.demonyms, *senses()))
    assert {"in", "near"} <= words("place_links")


DATA = Path(__file__).resolve().parents[4] / "benchmarks" / "data" / "reader"


def rows_of(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def test_computed_and_confident_answers_are_right(ask: Callable[..., Reading]) -> None:
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
