"""The real corpora and question sets beside the project are read without a bad record."""

from pathlib import Path

import pytest

from polyhop.schemas.records import SourceRecord
from polyhop.warehouse.files.corpora import read_corpus
from polyhop.warehouse.files.questions import read_questions

DATA = Path(__file__).parents[4] / "shared" / "data"
pytestmark = [
    pytest.mark.shared_data,
    pytest.mark.skipif(not DATA.is_dir(), reason="the shared data are not beside the project"),
]


@pytest.mark.parametrize(
    ("name", "count"),
    [("musique100/corpus.jsonl", 1890), ("wiki2/corpus.jsonl", 6119), ("wiki20k/corpus.jsonl.gz", 20_519)],
)
def test_a_corpus_is_read_whole(name: str, count: int) -> None:
    records = list(read_corpus(DATA / name))
    assert all(isinstance(record, SourceRecord) for record in records)
    assert len({record.id for record in records if isinstance(record, SourceRecord)}) == count


def test_the_musique_questions_name_records_of_their_corpus() -> None:
    questions, bad = read_questions(DATA / "musique100/questions.jsonl")
    ids = {record.id for record in read_corpus(DATA / "musique100/corpus.jsonl") if isinstance(record, SourceRecord)}
    assert (len(questions), bad) == (100, [])
    assert all(question.supporting and set(question.supporting) <= ids for question in questions)


def test_the_orkg_questions_hold_one_twice() -> None:
    questions, bad = read_questions(DATA / "orkg/questions.jsonl")
    assert len(questions) == 169
    assert [record.reason.split("' ")[1] for record in bad] == ["was already used in line 105"]
