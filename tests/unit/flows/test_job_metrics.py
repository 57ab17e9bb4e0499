"""Metrics of a job: what its limit left unseen is not judged."""

from collections.abc import Mapping

import pytest

from polyhop.flows.job_metrics import job_metrics
from polyhop.schemas.queue import QuestionState, ResultRow


def _row(number: int, result: Mapping[str, object]) -> ResultRow:
    return ResultRow(
        job_id=1,
        question_id=f"q{number}",
        ordinal=number,
        question="Who?",
        topic=None,
        answers=("Ann",),
        supporting=("p1", "p9"),
        metadata={},
        state=QuestionState.DONE,
        attempts=1,
        error=None,
        error_class=None,
        strategy="bm25",
        answer="Ann",
        version=1,
        worker_id="w",
        seconds=0.01,
        finished_at=1.0,
        result=result,
    )


@pytest.mark.parametrize(
    ("limit", "seen", "unseen"),
    [(5, {"recall@5", "hit@5", "all@2"}, {"recall@10", "all@10"}), (30, {"recall@30"}, set())],
)
def test_depths_beyond_the_limit_of_a_job_are_not_judged(limit: int, seen: set[str], unseen: set[str]) -> None:
    result = {"limit": limit, "passages": [{"id": f"p{n}"} for n in range(3)]}
    metrics = job_metrics(iter([_row(0, result), _row(1, result)]))
    assert metrics is not None
    assert (metrics["recall@5"], metrics["mrr"], metrics["em"]) == (0.5, 0.5, 1.0)
    assert all(metrics[name] is not None for name in seen)
    assert {name for name in unseen if metrics[name] is not None} == set()
