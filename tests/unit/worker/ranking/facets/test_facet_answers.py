"""Short answers from facets: algorithms.md 4B, answers."""

import numpy as np
import pytest
from facet_index import make_units

from polyhop.worker.ranking.facets.answers import PRECISION, FacetAnswer, answer_of
from polyhop.worker.ranking.facets.ranking import FacetRanking, FacetRule
from polyhop.worker.ranking.facets.units import Units

BRIDGES = """
b1 river Severn; b1 opened 1966; b1 length 1600; b1 material Steel; b1 material Iron; b1 toll True;
b1 bridgeClass Road; b1 span s1; s1 shape Arch; s1 lanes 4; b1 span s2; s2 shape Beam; s2 lanes 2;
b2 river Severn; b2 opened 1996; b2 length 5128; b2 material Steel; b2 toll False; b2 bridgeClass Road;
b3 river Tamar; b3 opened 1859; b3 length 667; b3 material Iron; b3 toll True; b3 bridgeClass Rail
"""
NAMES = {"b1": "Old Crossing", "b2": "New Crossing", "b3": "Royal Albert"}


@pytest.fixture(scope="module")
def bridges() -> Units:
    return make_units(BRIDGES, tuple(NAMES), NAMES)


def answered(units: Units, question: str) -> FacetAnswer | None:
    ranking = FacetRanking(units, None, ["Bridge"], FacetRule())
    read = ranking.read(question)
    return answer_of(units, read, ranking.score(read, None), ranking.fields.kinds)


@pytest.mark.parametrize(
    ("question", "kind", "texts"),
    [
        ("What is the material of Royal Albert?", "values", {"Iron"}),
        ("Which material has Old Crossing?", "values", {"Steel", "Iron"}),
        ("What is the length of New Crossing?", "values", {"5128"}),
        ("Which bridges cross the Severn?", "names", {"Old Crossing", "New Crossing"}),
        ("How many bridges cross the Severn?", "number", {"2"}),
        ("How many kinds of material has Old Crossing?", "number", {"2"}),
        ("What is the number of bridges of Iron?", "number", {"2"}),
        ("What bridge class has Royal Albert?", "values", {"Rail"}),
        ("Which material is most common on the Severn?", "most frequent", {"Steel"}),
        ("Does New Crossing take a toll?", "yes or no", {"no"}),
        ("Does Royal Albert take a toll?", "yes or no", {"yes"}),
        ("How many lanes has the Arch of Old Crossing?", "values", {"4"}),
    ],
)
def test_plain_questions_have_an_answer(bridges: Units, question: str, kind: str, texts: set[str]) -> None:
    answer = answered(bridges, question)
    assert answer is not None
    assert (answer.kind, set(answer.texts)) == (kind, texts)
    assert 0.6 < answer.confidence <= PRECISION


@pytest.mark.parametrize(
    "question",
    [
        "What is the weight of Royal Albert?",
        "What is there?",
        "Who built it?",
        "Which is longer, Old Crossing or New Crossing?",
        "How do the bridges of the Severn differ?",
        "Is Royal Albert of Iron?",
        "Which bridge of the Severn is the largest?",
        "What are the material and the length of Royal Albert?",
        "Which shape is most common on Old Crossing?",
        "Rank the bridges of the Severn by length.",
        "",
    ],
)
def test_in_doubt_there_is_no_answer(bridges: Units, question: str) -> None:
    assert answered(bridges, question) is None


def test_an_answer_rests_on_the_paths_and_hubs_that_say_so(bridges: Units) -> None:
    answer = answered(bridges, "What is the length of New Crossing?")
    assert answer is not None
    assert [bridges.value_texts[int(bridges.hub_values[hub])] for hub in answer.hubs] == ["New Crossing"]
    documents = bridges.path_documents[answer.paths]
    assert [bridges.value_texts[int(bridges.document_values[document])] for document in documents] == ["5128"]


def test_a_list_is_no_short_answer_when_it_is_long() -> None:
    names = {f"b{number}": f"Crossing{number}" for number in range(11)}
    units = make_units("; ".join(f"{name} river Severn" for name in names), tuple(names), names)
    assert answered(units, "Which bridges cross the Severn?") is None
    count = answered(units, "How many bridges cross the Severn?")
    assert count is not None
    assert count.texts == ("11",)
    assert len(count.hubs) == 11
    assert np.all(np.diff(count.hubs) > 0)


@pytest.mark.parametrize(("more", "expected"), [("", {"yes"}), ("b3 toll yes", {"yes"}), ("b3 toll False", None)])
def test_a_field_that_says_yes_and_no_is_no_answer(more: str, expected: set[str] | None) -> None:
    units = make_units(f"{BRIDGES}; {more}" if more else BRIDGES, tuple(NAMES), NAMES)
    answer = answered(units, "Does Royal Albert take a toll?")
    assert (answer and set(answer.texts)) == expected
