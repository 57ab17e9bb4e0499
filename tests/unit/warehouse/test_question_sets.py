"""NQ and PopQA as HippoRAG stores them: gold answers with all spellings, gold passages that their corpus files hold."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from polyhop.schemas.records import BadRecord, QuestionRecord, SourceRecord
from polyhop.schemas.text import record_id
from polyhop.warehouse.files.corpora import read_corpus
from polyhop.warehouse.files.questions import read_questions

NQ = {
    "id": "nq-7",
    "question": "when did man last walk on the moon",
    "reference": ["14 December 1972 UTC", "December 1972", "December 1972"],
    "contexts": [
        {"title": "Apollo 17", "text": "It was on the Moon in December 1972.", "is_supporting": True},
        {"title": "Apollo 11", "text": "It was the first.", "is_supporting": False},
    ],
}
POPQA: dict[str, Any] = {
    "id": 4222362,
    "subj": "George Rankin",
    "prop": "occupation",
    "obj": "politician",
    "o_wiki_title": "Politician",
    "o_aliases": '["political leader", "pol"]',
    "possible_answers": '["politician", "political leader", "polit."]',
    "question": "What is George Rankin's occupation?",
    "paragraphs": [
        {"title": "George Rankin", "text": "George James Rankin was a politician.", "is_supporting": True},
        {"title": "Rankin", "text": "Rankin is a surname.", "is_supporting": False},
        {"title": "G. Rankin", "text": "He farmed, too."},
    ],
}
POPQA_ANSWERS = ("politician", "Politician", "political leader", "polit.", "pol")


def stored(folder: Path, *items: object) -> Path:
    path = folder / "set.json"
    path.write_text(json.dumps(items), encoding="utf-8")
    return path


def question_of(folder: Path, item: dict[str, Any]) -> QuestionRecord:
    (question,), bad = read_questions(stored(folder, item))
    assert bad == []
    return question


def reasons(folder: Path, item: dict[str, Any]) -> list[str]:
    questions, bad = read_questions(stored(folder, {"id": "good", "question": "Who?"}, item))
    assert [question.id for question in questions] == ["good"]
    assert [record.line for record in bad] == [2]
    return [record.reason for record in bad]


def test_nq_has_its_references_as_answers_and_its_supporting_contexts_as_gold(tmp_path: Path) -> None:
    gold = record_id("Apollo 17", "It was on the Moon in December 1972.")
    answers = ("14 December 1972 UTC", "December 1972")
    assert question_of(tmp_path, NQ) == QuestionRecord("nq-7", str(NQ["question"]), answers, (gold,))


def test_references_may_be_objects_with_answers_and_contexts_may_be_called_paragraphs(tmp_path: Path) -> None:
    references = [{"answer": "Ada", "aliases": ["A. L."]}, {"answers": ["Lovelace"]}, 1843]
    item = {"question": "Who?", "reference": references, "paragraphs": NQ["contexts"], "answer_aliases": ["Augusta"]}
    question = question_of(tmp_path, item)
    assert question.answers == ("Ada", "A. L.", "Lovelace", "1843", "Augusta")
    assert question.supporting == (record_id("Apollo 17", "It was on the Moon in December 1972."),)


def test_popqa_has_all_names_of_the_object_and_paragraphs_that_do_not_say_otherwise_are_gold(tmp_path: Path) -> None:
    supporting = (
        record_id("George Rankin", "George James Rankin was a politician."),
        record_id("G. Rankin", "He farmed, too."),
    )
    metadata = {"subj": "George Rankin", "prop": "occupation"}
    expected = QuestionRecord("4222362", POPQA["question"], POPQA_ANSWERS, supporting, None, None, None, metadata)
    assert question_of(tmp_path, POPQA) == expected
    unpacked = {**POPQA, **{name: json.loads(POPQA[name]) for name in ("o_aliases", "possible_answers")}}
    assert question_of(tmp_path, unpacked) == expected


def test_popqa_without_paragraphs_has_answers_and_no_gold_passages(tmp_path: Path) -> None:
    item = {name: value for name, value in POPQA.items() if name != "paragraphs"}
    pq.write_table(pa.Table.from_pylist([item]), tmp_path / "popqa.parquet")
    (question,), _ = read_questions(tmp_path / "popqa.parquet")
    assert (question.answers, question.supporting) == (POPQA_ANSWERS, ())


def test_one_possible_answer_need_not_be_a_list(tmp_path: Path) -> None:
    assert question_of(tmp_path, {"question": "?", "possible_answers": "Rome"}).answers == ("Rome",)


def test_gold_is_found_in_the_sets_as_corpora_and_in_their_corpus_files(tmp_path: Path) -> None:
    supporting = {one for item in (NQ, POPQA) for one in question_of(tmp_path, item).supporting}
    inside = [record for item in (NQ, POPQA) for record in read_corpus(stored(tmp_path, item))]
    assert all(isinstance(record, SourceRecord) for record in inside)
    assert len(inside) == 5
    assert supporting < {record.id for record in inside if isinstance(record, SourceRecord)}
    passages = [{"title": p["title"], "text": p["text"], "idx": n} for n, p in enumerate(POPQA["paragraphs"])]
    apart = read_corpus(stored(tmp_path, *passages))
    texts = {record_id(record.title, record.text) for record in apart if isinstance(record, SourceRecord)}
    assert set(question_of(tmp_path, POPQA).supporting) < texts


def test_fields_of_these_names_in_other_files_stay_what_they_were(tmp_path: Path) -> None:
    item = {"question": "Who?", "answer": "Ada", "reference": "Menabrea 1843", "contexts": ["Ada wrote."], "obj": 3}
    question = question_of(tmp_path, item)
    metadata = {name: item[name] for name in ("reference", "contexts", "obj")}
    assert question == QuestionRecord("q000001", "Who?", ("Ada",), (), None, None, None, metadata)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"reference": [{"text": "Ada"}]}, "an object in reference has no field named answers or answer"),
        ({"reference": [["Ada"]]}, "the answers in reference are not strings but hold a list"),
        ({"reference": [{"answer": {}}]}, "the answers in reference are not strings but hold an object"),
        ({"contexts": [{"title": "a", "text": "b"}, "c"]}, "a paragraph is not an object but a string"),
        (
            {"contexts": [{"title": "a", "text": "b", "is_supporting": "yes"}]},
            "the is_supporting of a paragraph is neither true nor false but a string",
        ),
    ],
)
def test_a_bad_item_of_nq_is_named_in_a_sentence(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    assert reasons(tmp_path, {**NQ, **change}) == [reason]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"possible_answers": '["politician'},
            "the answers in possible_answers begin like a JSON list but are not valid",
        ),
        ({"o_aliases": "[true]"}, "the answers in o_aliases are not strings but hold true or false"),
        ({"paragraphs": [5]}, "a paragraph is not an object but a number"),
    ],
)
def test_a_bad_item_of_popqa_is_named_in_a_sentence(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    (found,) = reasons(tmp_path, {**POPQA, **change})
    assert found.startswith(reason)


def test_a_bad_paragraph_of_a_corpus_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    item = {**POPQA, "paragraphs": [{"title": "A", "is_supporting": True}, POPQA["paragraphs"][0]]}
    bad, good = read_corpus(stored(tmp_path, item))
    assert isinstance(bad, BadRecord)
    assert bad.reason == "paragraph 1: there is no text: expected a field named text, contents or body"
    assert isinstance(good, SourceRecord)
    (broken,) = read_corpus(stored(tmp_path, {**POPQA, "paragraphs": [5]}))
    assert isinstance(broken, BadRecord)
    assert broken.reason == "not a PopQA item: a paragraph is not an object but a number"
