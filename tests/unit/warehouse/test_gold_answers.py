"""Gold answers and golden triples as question files state them, and the sentences about those that are not so."""

from typing import Any

import pytest

from polyhop.warehouse.files.questions import golden_triples, has_references, with_gold_answers
from polyhop.warehouse.files.records import FaultError


@pytest.mark.parametrize(
    ("item", "answers"),
    [
        ({"reference": [{"answers": ["a", "b"], "aliases": "c"}, "d"]}, ["a", "b", "c", "d"]),
        ({"reference": [3], "answer_aliases": ["e"]}, ["3", "e"]),
        ({"obj": "x", "possible_answers": '["x", "y"]', "o_aliases": ["z"]}, ["x", "x", "y", "z"]),
        ({"possible_answers": "[not json", "answers": ["own"]}, ["own"]),
        ({"reference": "a citation", "answer": "own"}, None),
        ({"question": "Who?"}, None),
    ],
)
def test_answers_are_taken_from_the_fields_of_nq_and_popqa(item: dict[str, Any], answers: list[str] | None) -> None:
    assert with_gold_answers(item).get("answers") == answers


def test_the_other_fields_stay() -> None:
    item = {"id": "q", "reference": ["a"], "obj": "o"}
    assert with_gold_answers(item) == {"id": "q", "answers": ["a"]}
    assert item == {"id": "q", "reference": ["a"], "obj": "o"}


def test_a_reference_that_is_a_text_is_none() -> None:
    assert [has_references({"reference": value}) for value in ("a", None, [], ["a"])] == [False, False, True, True]


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"reference": [{"title": "x"}]}, "no field named answers or answer"),
        ({"reference": [["a"]]}, "answers in reference are not strings"),
        ({"reference": [True]}, "answers in reference are not strings"),
        ({"possible_answers": "[x"}, "possible_answers begin like a JSON list but are not valid JSON"),
        ({"possible_answers": [{}]}, "answers in possible_answers are not strings"),
    ],
)
def test_answers_that_are_none_are_said_with_their_field(item: dict[str, Any], words: str) -> None:
    with pytest.raises(FaultError, match=words):
        with_gold_answers(item)


@pytest.mark.parametrize(
    ("value", "triples"),
    [
        (None, ()),
        ("P author A", ("P author A",)),
        ([" P author A ", "", "P author A"], ("P author A",)),
        ([["P", "author", "A"], ["P", "author", "A"]], (("P", "author", "A"),)),
        ([{"subject": {"id": "P"}, "predicate": "year", "object": 1990}], (("P", "year", "1990"),)),
        ([{"subject": {"name": "Pe"}, "predicate": "p", "object": {"id": "A", "name": "Ann"}}], (("Pe", "p", "A"),)),
    ],
)
def test_golden_triples_are_texts_or_ids_each_once(value: object, triples: tuple[object, ...]) -> None:
    assert golden_triples({"golden_triples": value}) == triples


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (3, "neither a text nor subject, predicate and object"),
        ([["P", "author"]], "neither a text nor subject, predicate and object"),
        ([["P", "author", None]], "the object of a golden triple holds no id"),
        ([["P", " ", "A"]], "the predicate of a golden triple holds no id"),
        ([["P", "author", True]], "the object of a golden triple holds no id"),
        ([{"subject": {}, "predicate": "p", "object": "o"}], "the subject of a golden triple holds no id"),
    ],
)
def test_golden_triples_that_are_none_are_refused(value: object, words: str) -> None:
    with pytest.raises(FaultError, match=words):
        golden_triples({"golden_triples": value})
