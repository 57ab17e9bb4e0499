"""Metrics of a job: what its limit left unseen is not judged."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from polyhop.flows.answer import job_metrics
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


def _triple(number: int) -> dict[str, object]:
    return {
        "subject": {"id": "R0", "name": "Ada"},
        "predicate": "knows",
        "object": {"id": f"R{number}", "name": "x, y"},
    }


GOLDEN = {"golden_triples": ["(R0:Ada, knows, R2:x, y)", ["R0", "knows", "R9"]]}


def test_ranked_triples_of_a_job_are_judged_by_the_golden_triples_in_its_metadata() -> None:
    """By hand: rank 2 of two golden ones; the failed one counts 0; a question without golden triples not at all."""
    result = {"limit": 10, "passages": [], "triples": [_triple(1), _triple(2)]}
    first = replace(_row(0, result), metadata=GOLDEN)
    failed = replace(_row(1, {}), metadata=GOLDEN, state=QuestionState.DEAD, error="gone")
    metrics = job_metrics(iter([first, failed, _row(2, result)]))
    assert metrics is not None
    assert (metrics["triple_recall@10"], metrics["triple_mrr"], metrics["triple_recall@30"]) == (0.25, 0.25, None)


def test_a_job_that_ranks_no_triples_is_not_judged_by_them_though_one_of_its_questions_failed() -> None:
    failed = replace(_row(1, {}), metadata=GOLDEN, state=QuestionState.DEAD, error="gone")
    metrics = job_metrics(iter([replace(_row(0, {"passages": []}), metadata=GOLDEN), failed]))
    assert metrics is not None
    assert metrics["triple_mrr"] is None


def test_metadata_called_golden_triples_that_is_something_else_judges_nothing() -> None:
    metrics = job_metrics(iter([replace(_row(0, {"passages": []}), metadata={"golden_triples": 3})]))
    assert metrics is not None
    assert "triple_mrr" not in metrics
