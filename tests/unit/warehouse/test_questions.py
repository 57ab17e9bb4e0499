"""Question files of every format and question set, their gold answers, passages and triples, and bad questions."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from polyhop.schemas.records import BadRecord, QuestionRecord, SourceRecord
from polyhop.schemas.text import record_id
from polyhop.warehouse.files.corpora import read_corpus
from polyhop.warehouse.files.questions import golden_triples, read_questions
from polyhop.warehouse.files.records import FaultError

FIELDS: dict[str, Any] = {"id": 5, "question": "Who wrote?", "answers": ["Ada", "Ada Lovelace", "Ada"]}
FIELDS |= {"supporting": ["m1", 2], "hops": 2, "type": "bridge", "topic_entity": "R1", "level": "hard"}
WHOLE = QuestionRecord("5", "Who wrote?", ("Ada", "Ada Lovelace"), ("m1", "2"), 2, "bridge", "R1", {"level": "hard"})
ROW = json.dumps(FIELDS)
HEADER = "id,Question,answers,supporting,hops,type,topic_entity,level"
CSV = f"{HEADER}\n5,Who wrote?,Ada|Ada Lovelace,m1|2,2,bridge,R1,hard\n"
WHEN = QuestionRecord("q000003", "When?", ("1843",))
NQ = {
    "id": "nq-7",
    "question": "when did man last walk on the moon",
    "reference": ["14 December 1972 UTC", "December 1972", "December 1972"],
    "contexts": [
        {"title": "Apollo 17", "text": "It was on the Moon in December 1972.", "is_supporting": True},
        {"title": "Apollo 11", "text": "It was the first.", "is_supporting": False},
    ],
}
POPQA: dict[str, Any] = {"id": 4222362, "subj": "George Rankin", "prop": "occupation", "obj": "politician"}
POPQA |= {"question": "What is George Rankin's occupation?", "o_wiki_title": "Politician"}
POPQA |= {"o_aliases": '["political leader", "pol"]'}
POPQA |= {"possible_answers": '["politician", "political leader", "polit."]'}
POPQA["paragraphs"] = [
    {"title": "George Rankin", "text": "George James Rankin was a politician.", "is_supporting": True},
    {"title": "Rankin", "text": "Rankin is a surname.", "is_supporting": False},
    {"title": "G. Rankin", "text": "He farmed, too."},
]
POPQA_ANSWERS = ("politician", "Politician", "political leader", "polit.", "pol")
PARAGRAPH = {"title": "a", "text": "b"}


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def parquet(row: dict[str, Any]) -> bytes:
    pq.write_table(pa.Table.from_pylist([row]), stream := pa.BufferOutputStream())
    return bytes(stream.getvalue())


def items_file(folder: Path, *items: object) -> Path:
    return write(folder / "set.json", json.dumps(items))


def question_of(folder: Path, item: dict[str, Any]) -> QuestionRecord:
    (question,), bad = read_questions(items_file(folder, item))
    assert bad == []
    return question


def corpus_ids(path: Path) -> dict[str, str]:
    return {record.id: record.text for record in read_corpus(path) if isinstance(record, SourceRecord)}


@pytest.mark.parametrize(
    ("name", "content", "questions"),
    [
        ("q.jsonl", f'{ROW}\n\n{{"question": "When?", "answer": 1843}}\n{{"question": "?"}}', [WHOLE, WHEN, "q000004"]),
        ("q.jsonl.gz", gzip.compress(ROW.encode(), mtime=0), [WHOLE]),
        ("q.csv", f"{CSV},When?,1843\n", [WHOLE, WHEN]),
        ("q.parquet", parquet({**FIELDS, "supporting": ["m1", "2"]}), [WHOLE]),
    ],
)
def test_rows_are_questions(tmp_path: Path, name: str, content: str | bytes, questions: list[Any]) -> None:
    expected = [QuestionRecord(one, "?") if isinstance(one, str) else one for one in questions]
    assert read_questions(write(tmp_path / name, content)) == (expected, [])


def test_a_text_file_has_one_question_a_line(tmp_path: Path) -> None:
    assert read_questions(write(tmp_path / "q.txt", b"Who?\r\n\n caf\xe9\n  When?")) == (
        [QuestionRecord("q000001", "Who?"), QuestionRecord("q000004", "When?")],
        [BadRecord("q.txt", 3, "the line is not UTF-8 (invalid byte 0xe9 at byte 5)")],
    )


@pytest.mark.parametrize(
    ("extra", "text"), [({}, "Ada wrote.In 1843."), ({"evidences": [["a", "b", "c"]]}, "Ada wrote. In 1843.")]
)
def test_support_of_hotpotqa_and_2wiki_is_in_the_corpus(tmp_path: Path, extra: dict[str, object], text: str) -> None:
    item = {"_id": "h1", "question": "Who?", "answer": "Ada", "type": "bridge", "level": "easy", **extra}
    item["supporting_facts"] = [["Ada ", 0], ["Ada ", 1], ["Gone", 0]]
    item["context"] = [["Bob", ["Bob read."]], ["Ada ", ["Ada wrote.", "In 1843."]]]
    gold = record_id("Ada", text)
    expected = QuestionRecord("h1", "Who?", ("Ada",), (gold,), None, "bridge", None, {"level": "easy", **extra})
    assert question_of(tmp_path, item) == expected
    assert corpus_ids(tmp_path / "set.json")[gold] == text


def test_hotpotqa_of_parquet_files(tmp_path: Path) -> None:
    item = {"id": "h1", "question": "Who?", "answer": "Ada", "supporting_facts": {"title": ["Ada"], "sent_id": [0]}}
    item["context"] = {"title": ["Bob", "Ada"], "sentences": [["Bob read."], ["Ada wrote.", " In 1843."]]}
    (question,), _ = read_questions(write(tmp_path / "h.parquet", parquet(item)))
    gold = record_id("Ada", "Ada wrote. In 1843.")
    assert question == QuestionRecord("h1", "Who?", ("Ada",), (gold,))
    assert corpus_ids(tmp_path / "h.parquet")[gold] == "Ada wrote. In 1843."


def test_musique_has_all_spellings_of_the_answer_and_leaves_out_what_is_not_answerable(tmp_path: Path) -> None:
    names = {"id": "3hop1__1_2_3", "question": "Who?", "answer": "Ada", "answer_aliases": ["A. L."]}
    paragraphs = [
        {"idx": 0, "title": "Ada", "paragraph_text": "Ada wrote.", "is_supporting": True},
        {"idx": 1, "title": "Bob", "paragraph_text": "Bob read.", "is_supporting": False},
        {"idx": 2, "title": None, "paragraph_text": "Untitled.", "is_supporting": True},
    ]
    item = {**names, "answerable": True, "paragraphs": paragraphs}
    path = items_file(tmp_path, item, {**item, "id": "x", "answerable": False})
    (question,), (bad,) = read_questions(path)
    supporting = (record_id("Ada", "Ada wrote."), record_id("", "Untitled."))
    assert question == QuestionRecord("3hop1__1_2_3", "Who?", ("Ada", "A. L."), supporting, 3, "3hop1")
    assert (bad.line, bad.reason) == (2, "marked as not answerable, so it is left out")
    assert set(supporting) <= corpus_ids(path).keys()


def test_nq_has_its_references_as_answers_and_its_supporting_contexts_as_gold(tmp_path: Path) -> None:
    gold = record_id("Apollo 17", "It was on the Moon in December 1972.")
    answers = ("14 December 1972 UTC", "December 1972")
    assert question_of(tmp_path, NQ) == QuestionRecord("nq-7", str(NQ["question"]), answers, (gold,))
    contexts = {"question": "Who?", "reference": ["Ada"], "paragraphs": NQ["contexts"]}
    assert question_of(tmp_path, contexts).supporting == (gold,)


def test_popqa_has_all_names_of_the_object_and_paragraphs_that_do_not_say_otherwise_are_gold(tmp_path: Path) -> None:
    first, _, third = POPQA["paragraphs"]
    supporting = record_id(first["title"], first["text"]), record_id(third["title"], third["text"])
    metadata = {"subj": "George Rankin", "prop": "occupation"}
    expected = QuestionRecord("4222362", POPQA["question"], POPQA_ANSWERS, supporting, None, None, None, metadata)
    assert question_of(tmp_path, POPQA) == expected
    unpacked = {**POPQA, **{name: json.loads(POPQA[name]) for name in ("o_aliases", "possible_answers")}}
    assert question_of(tmp_path, unpacked) == expected


@pytest.mark.parametrize(
    ("item", "answers"),
    [
        ({"reference": [{"answers": ["a", "b"], "aliases": "c"}, {"answer": "d"}, 3]}, ("a", "b", "c", "d", "3")),
        ({"reference": ["a"], "answer_aliases": ["e"], "obj": "o"}, ("a", "e")),
        ({"obj": "x", "possible_answers": '["x", "y"]', "o_aliases": ["z"]}, ("x", "y", "z")),
        ({"possible_answers": "[not json", "answers": ["own"]}, ("own",)),
        ({"reference": "a citation", "contexts": ["a text"], "obj": 3, "answer": "own"}, ("own",)),
    ],
)
def test_answers_of_nq_and_popqa_are_found(tmp_path: Path, item: dict[str, Any], answers: tuple[str, ...]) -> None:
    assert question_of(tmp_path, {"question": "?", **item}).answers == answers


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON: Expecting property name enclosed in double quotes at character 2"),
        ({"question": None, "text": "a"}, "missing question: expected a field named question"),
        ({"question": "x" * 10_001}, "the question is 10,001 characters long; the limit is 10,000"),
        ({"answers": [True]}, "the answers are not strings but hold true or false"),
        ({"hops": "two"}, "the hops are not a whole number but a string"),
        ({"type": []}, "the type is neither a string nor a whole number but a list"),
        ({"id": "a\tb"}, "the id contains a control character (U+0009)"),
        ({"id": "first"}, "the id 'first' was already used in line 1"),
        ({"paragraphs": [5]}, "a paragraph is not an object but a number"),
        ({"context": [], "supporting_facts": 5}, "the supporting facts is not a list but a number"),
        ({"reference": [{"text": "Ada"}]}, "an object in reference has no field named answers or answer"),
        (
            {**NQ, "contexts": [{**PARAGRAPH, "is_supporting": "yes"}]},
            "the is_supporting of a paragraph is neither true nor false but a string",
        ),
        ({**POPQA, "o_aliases": "[true]"}, "the answers in o_aliases are not strings but"),
        ({"possible_answers": '["politi'}, "the answers in possible_answers begin like a JSON list but are not valid"),
    ],
)
def test_a_bad_question_is_named_and_others_are_read(tmp_path: Path, line: str | dict[str, Any], reason: str) -> None:
    bad_line = line if isinstance(line, str) else json.dumps({"question": "?", **line})
    path = write(tmp_path / "q.jsonl", f'{{"id": "first", "question": "Who?"}}\n{bad_line}')
    questions, (bad,) = read_questions(path)
    assert ([question.id for question in questions], bad.line) == (["first"], 2)
    assert bad.reason.startswith(reason)


def test_golden_triples_are_texts_or_ids_each_once() -> None:
    stated = {"subject": {"name": "Pe"}, "predicate": "year", "object": 1990}
    whole = {"subject": {"id": "P"}, "predicate": "p", "object": {"id": "A", "name": "Ann"}}
    value = [" P author A ", "", "P author A", ["P", "author", "A"], ["P", "author", "A"], stated, whole]
    expected = ("P author A", ("P", "author", "A"), ("Pe", "year", "1990"), ("P", "p", "A"))
    assert (golden_triples({"golden_triples": value}), golden_triples({"golden_triples": None})) == (expected, ())


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (3, "neither a text nor subject, predicate and object"),
        ([["P", "author", None]], "the object of a golden triple holds no id"),
        ([{"subject": {}, "predicate": "p", "object": "o"}], "the subject of a golden triple holds no id"),
    ],
)
def test_golden_triples_that_are_none_are_refused(value: object, words: str) -> None:
    with pytest.raises(FaultError, match=words):
        golden_triples({"golden_triples": value})


@pytest.mark.shared_data
def test_the_shared_questions_name_records_of_their_corpus_and_hold_one_twice(shared_data: Path) -> None:
    questions, bad = read_questions(shared_data / "musique100/questions.jsonl")
    ids = corpus_ids(shared_data / "musique100/corpus.jsonl").keys()
    assert (len(questions), bad) == (100, [])
    assert all(question.supporting and set(question.supporting) <= ids for question in questions)
    questions, bad = read_questions(shared_data / "orkg/questions.jsonl")
    assert len(questions) == 169
    assert [record.reason.split("' ")[1] for record in bad] == ["was already used in line 105"]
