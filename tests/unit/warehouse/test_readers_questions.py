"""Question files of every format, and what can be wrong with a question."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from polyhop.schemas.errors import SourceError
from polyhop.schemas.records import BadRecord, QuestionRecord, SourceRecord
from polyhop.schemas.text import record_id
from polyhop.warehouse.files.corpora import read_corpus
from polyhop.warehouse.files.questions import read_questions

FIELDS = {
    "id": 5,
    "question": "Who wrote?",
    "answers": ["Ada", "Ada Lovelace", "Ada"],
    "supporting": ["m1", 2],
    "hops": 2,
    "type": "bridge",
    "topic_entity": "R1",
    "level": "hard",
}
WHOLE = QuestionRecord("5", "Who wrote?", ("Ada", "Ada Lovelace"), ("m1", "2"), 2, "bridge", "R1", {"level": "hard"})


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def test_json_lines(tmp_path: Path) -> None:
    lines = [json.dumps(FIELDS), "", json.dumps({"question": "When?", "answer": 1843}), json.dumps({"question": "?"})]
    path = write(tmp_path / "q.jsonl", "\n".join(lines))
    assert read_questions(path) == (
        [WHOLE, QuestionRecord("q000003", "When?", ("1843",)), QuestionRecord("q000004", "?")],
        [],
    )


def test_gzipped_json_lines_and_a_json_list(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl.gz").write_bytes(gzip.compress(json.dumps(FIELDS).encode()))
    write(tmp_path / "q.json", json.dumps([FIELDS]))
    assert read_questions(tmp_path / "q.jsonl.gz") == ([WHOLE], [])
    assert read_questions(tmp_path / "q.json") == ([WHOLE], [])


def test_csv_separates_lists_by_bars(tmp_path: Path) -> None:
    header = "id,Question,answers,supporting,hops,type,topic_entity,level"
    path = write(tmp_path / "q.csv", f"{header}\n5,Who wrote?,Ada|Ada Lovelace,m1|2,2,bridge,R1,hard\n,When?,1843\n")
    assert read_questions(path) == ([WHOLE, QuestionRecord("q000003", "When?", ("1843",))], [])


def test_parquet(tmp_path: Path) -> None:
    row = {**FIELDS, "supporting": ["m1", "2"]}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "q.parquet")
    assert read_questions(tmp_path / "q.parquet") == ([WHOLE], [])


def test_a_text_file_has_one_question_a_line(tmp_path: Path) -> None:
    path = tmp_path / "q.txt"
    path.write_bytes(b"Who?\r\n\n caf\xe9\n  When?")
    assert read_questions(path) == (
        [QuestionRecord("q000001", "Who?"), QuestionRecord("q000004", "When?")],
        [BadRecord("q.txt", 3, "the line is not UTF-8 (invalid byte 0xe9 at byte 5)")],
    )


def corpus_ids(path: Path) -> dict[str, str]:
    return {record.id: record.text for record in read_corpus(path) if isinstance(record, SourceRecord)}


@pytest.mark.parametrize(
    ("extra", "text"), [({}, "Ada wrote.In 1843."), ({"evidences": [["a", "b", "c"]]}, "Ada wrote. In 1843.")]
)
def test_hotpotqa_and_2wiki_support_is_found_in_the_corpus_of_the_same_file(
    tmp_path: Path, extra: dict[str, object], text: str
) -> None:
    item = {
        "_id": "h1",
        "question": "Who?",
        "answer": "Ada",
        "type": "bridge",
        "level": "easy",
        "supporting_facts": [["Ada ", 0], ["Ada ", 1], ["Gone", 0]],
        "context": [["Bob", ["Bob read."]], ["Ada ", ["Ada wrote.", "In 1843."]]],
        **extra,
    }
    path = write(tmp_path / "h.json", json.dumps([item]))
    (question,), bad = read_questions(path)
    supporting = (record_id("Ada", text),)
    metadata = {"level": "easy", **extra}
    assert bad == []
    assert question == QuestionRecord("h1", "Who?", ("Ada",), supporting, None, "bridge", None, metadata)
    assert corpus_ids(path)[supporting[0]] == text


def test_hotpotqa_of_parquet_files(tmp_path: Path) -> None:
    item = {
        "id": "h1",
        "question": "Who?",
        "answer": "Ada",
        "supporting_facts": {"title": ["Ada"], "sent_id": [0]},
        "context": {"title": ["Bob", "Ada"], "sentences": [["Bob read."], ["Ada wrote.", " In 1843."]]},
    }
    pq.write_table(pa.Table.from_pylist([item]), tmp_path / "h.parquet")
    (question,), _ = read_questions(tmp_path / "h.parquet")
    assert question == QuestionRecord("h1", "Who?", ("Ada",), (record_id("Ada", "Ada wrote. In 1843."),))


def test_musique_has_all_spellings_of_the_answer_and_leaves_out_what_is_not_answerable(tmp_path: Path) -> None:
    item = {
        "id": "3hop1__1_2_3",
        "question": "Who?",
        "answer": "Ada",
        "answer_aliases": ["A. L."],
        "answerable": True,
        "paragraphs": [
            {"idx": 0, "title": "Ada", "paragraph_text": "Ada wrote.", "is_supporting": True},
            {"idx": 1, "title": "Bob", "paragraph_text": "Bob read.", "is_supporting": False},
            {"idx": 2, "title": None, "paragraph_text": "Untitled.", "is_supporting": True},
        ],
    }
    path = write(tmp_path / "m.jsonl", f"{json.dumps(item)}\n{json.dumps({**item, 'id': 'x', 'answerable': False})}\n")
    (question,), (bad,) = read_questions(path)
    supporting = (record_id("Ada", "Ada wrote."), record_id("", "Untitled."))
    assert question == QuestionRecord("3hop1__1_2_3", "Who?", ("Ada", "A. L."), supporting, 3, "3hop1")
    assert (bad.line, bad.reason) == (2, "marked as not answerable, so it is left out")
    assert set(supporting) <= corpus_ids(path).keys()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON: Expecting property name enclosed in double quotes at character 2"),
        ('{"text": "a"}', "there is no question: expected a field named question"),
        ('{"question": " "}', "the question is empty"),
        ('{"question": 3}', "the question is not a string but a number"),
        (json.dumps({"question": "x" * 10_001}), "the question is 10,001 characters long; the limit is 10,000"),
        ('{"question": "?", "answers": [true]}', "the answers are not strings but hold true or false"),
        ('{"question": "?", "answer": {}}', "the answer are not strings but hold an object"),
        ('{"question": "?", "supporting": [["a"]]}', "the supporting are not strings but hold a list"),
        ('{"question": "?", "hops": "two"}', "the hops are not a whole number but a string"),
        ('{"question": "?", "hops": 2.5}', "the hops are not a whole number but a number"),
        ('{"question": "?", "type": []}', "the type is neither a string nor a whole number but a list"),
        ('{"question": "?", "id": "a\\tb"}', "the id contains a control character (U+0009)"),
        ('{"question": "?", "id": "first"}', "the id 'first' was already used in line 1"),
        ('{"question": "?", "paragraphs": [5]}', "a paragraph is not an object but a number"),
        ('{"question": "?", "context": [], "supporting_facts": 5}', "the supporting facts is not a list but a number"),
    ],
)
def test_a_bad_question_is_named_and_the_others_are_read(tmp_path: Path, line: str, reason: str) -> None:
    path = write(tmp_path / "q.jsonl", f'{{"id": "first", "question": "Who?"}}\n{line}\n')
    questions, bad = read_questions(path)
    assert [question.id for question in questions] == ["first"]
    assert [(record.line, record.reason) for record in bad] == [(2, reason)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("q.csv", "query,answer\na,b\n", r"has no column named question \(its columns: query, answer\); rename one\."),
        ("q.md", "Who?", r"has an unknown format; known formats are \.csv, \.csv\.gz, \.json,"),
        ("q.txt", "\n\n", "holds no question; at least one is needed"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        read_questions(write(tmp_path / name, content))


def test_a_folder_is_no_question_file(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is a folder; name a file in it"):
        read_questions(tmp_path)
