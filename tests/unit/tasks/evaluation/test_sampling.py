"""Samples of questions: the same for the same seed, whatever the order and the other options."""

import itertools
from collections import Counter

from polyhop.schemas.records import QuestionRecord
from polyhop.tasks.evaluation.bootstrap import sampled

RECORDS = [QuestionRecord(f"q{n}", f"Question {n}?") for n in range(40)]


def _ids(records: list[QuestionRecord]) -> list[str]:
    return [record.id for record in records]


def test_a_sample_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    first = _ids(sampled(RECORDS, 10, 13))
    assert first == _ids(sampled(RECORDS, 10, 13))
    # by sha256sum of the lines sample, 13 and the id: the sample of a stored run can be drawn again later
    assert first == ["q1", "q3", "q4", "q7", "q10", "q11", "q18", "q19", "q26", "q29"]
    assert first != _ids(sampled(RECORDS, 10, 14))


def test_the_order_of_the_file_decides_the_order_but_not_the_questions() -> None:
    backwards = _ids(sampled(RECORDS[::-1], 10, 13))
    assert backwards == _ids(sampled(RECORDS, 10, 13))[::-1]


def test_a_smaller_sample_is_part_of_a_larger_one() -> None:
    samples = [set(_ids(sampled(RECORDS, size, 5))) for size in range(1, 41)]
    assert [len(ids) for ids in samples] == list(range(1, 41))
    assert all(small < large for small, large in itertools.pairwise(samples))


def test_a_sample_that_is_larger_than_the_set_is_the_set() -> None:
    assert sampled(RECORDS, 41, 1) == RECORDS
    assert sampled(RECORDS, 40, 1) == RECORDS


def test_every_question_is_about_as_likely_as_every_other() -> None:
    drawn = Counter(record.id for seed in range(2000) for record in sampled(RECORDS[:10], 3, seed))
    assert set(drawn) == {f"q{n}" for n in range(10)}
    assert all(500 < count < 700 for count in drawn.values())  # 600 expected, standard deviation 20
