"""The real corpora and question sets beside the project are read without a bad record."""

from pathlib import Path

import pytest

from schemas.corpus import SourceRecord
from warehouse.files.questions import read_questions
from warehouse.files.readers import read_corpus

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


@pytest.mark.parametrize(("name", "count"), [("musique100/questions.jsonl", 100), ("orkg/questions.jsonl", 170)])
def test_a_question_set_is_read_whole(name: str, count: int) -> None:
    questions, bad = read_questions(DATA / name)
    assert (len(questions), bad) == (count, [])
