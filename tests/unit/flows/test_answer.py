"""What a flow run does about workers, what it refuses to submit, and the metrics of a job."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from empty_version import publish_empty

import polyhop.flows.answer
from polyhop.flows.answer import Crew, job_metrics, submit_file
from polyhop.schemas.errors import ConfigurationError, PolyhopError, UnknownParameterError, UnknownStrategyError
from polyhop.schemas.queue import JobSpec, QuestionState, ResultRow
from polyhop.schemas.requests import SubmissionRequest
from polyhop.schemas.settings import Settings, as_environment, environment_settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.open import open_questions
from polyhop.warehouse.queue.queue import QuestionQueue


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Of a root with an index `wiki`, which nothing but its manifest is read of."""
    root = tmp_path / "root"
    publish_empty(Layout(root).index("wiki"))
    return Settings(root=root)


@pytest.fixture
def queue(settings: Settings) -> Iterator[QuestionQueue]:
    with open_questions(settings) as opened:
        yield opened


def submission(strategy: str = "bm25", **parameters: object) -> SubmissionRequest:
    return SubmissionRequest(Path("questions.jsonl"), JobSpec("wiki", strategy=strategy, parameters=parameters))


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (submission("bridge", dampin=0.9), UnknownParameterError),
        (submission("bm25", k1="much"), ConfigurationError),
        (submission("bm26"), UnknownStrategyError),
    ],
)
def test_a_strategy_or_parameter_that_does_not_exist_is_refused_before_anything_is_submitted(
    settings: Settings, queue: QuestionQueue, wanted: SubmissionRequest, error: type[PolyhopError]
) -> None:
    with pytest.raises(error):
        submit_file(settings, queue, wanted)
    assert queue.jobs() == []


def test_a_run_without_workers_says_once_that_nobody_serves_its_queue_and_starts_none_where_one_does(
    queue: QuestionQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    crew = Crew(queue, "mine", 0, {}, said.append)
    crew.look_after()
    assert said == []  # not before its time
    monkeypatch.setattr(polyhop.flows.answer, "UNSERVED_SECONDS", 0.0)
    queue.report_worker("w1", host="here", process_id=1, queues=["other"], versions={})
    crew.look_after()
    crew.look_after()
    assert len(said) == 1
    assert "polyhop worker --queues mine" in said[0]
    monkeypatch.setattr(polyhop.flows.answer, "WorkerProcess", lambda *_: pytest.fail("a worker was started"))
    queue.report_worker("w1", host="here", process_id=1, queues=["other", "mine"], versions={})
    Crew(queue, "mine", 2, {}, pytest.fail).look_after()


def test_a_worker_that_crashes_is_started_again_twice_and_then_ends_the_run(
    queue: QuestionQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Mock] = []

    def start(*_: object) -> Mock:
        started.append(Mock(code=1, is_ended=False))
        return started[-1]

    monkeypatch.setattr(polyhop.flows.answer, "WorkerProcess", start)
    crew = Crew(queue, "mine", 1, {}, pytest.fail)
    for _ in range(3):
        crew.look_after()
    with pytest.raises(PolyhopError, match="ended with an error 3 times, the last with code 1"):
        crew.look_after()
    crew.end()
    assert [worker.end.called for worker in started] == [True] * 3


def test_settings_reach_a_process_by_environment_as_they_are() -> None:
    url = "postgresql://u:p@h/d"
    made = as_environment({"root": "a b", "strategies": ["bm25", "dense"], "queue.url": url, "max_tokens": None})
    assert made == {"POLYHOP_ROOT": "a b", "POLYHOP_STRATEGIES": "bm25,dense", "POLYHOP_QUEUE__URL": url}
    assert environment_settings(made) == {"root": "a b", "strategies": "bm25,dense", "queue.url": url}


NOTHING: dict[str, Any] = dict.fromkeys(field.name for field in fields(ResultRow))
ROW = ResultRow(
    **NOTHING
    | {"question": "Who?", "answers": ("Ann",), "supporting": ("p1", "p9"), "metadata": {}, "strategy": "bm25"}
    | {"state": QuestionState.DONE, "answer": "Ann", "result": {}}
)


def metrics_of(*rows: ResultRow) -> Mapping[str, Any]:
    found = job_metrics(iter([replace(row, question_id=f"q{n}", ordinal=n) for n, row in enumerate(rows)]))
    assert found is not None
    return found


@pytest.mark.parametrize(("limit", "unjudged"), [(5, {"recall@10", "recall@30", "all@10", "all@30"}), (30, set())])
def test_depths_beyond_the_limit_of_a_job_are_not_judged(limit: int, unjudged: set[str]) -> None:
    result = {"limit": limit, "passages": [{"id": f"p{n}"} for n in range(3)]}
    metrics = metrics_of(*[replace(ROW, result=result)] * 2)
    assert (metrics["recall@5"], metrics["mrr"], metrics["em"]) == (0.5, 0.5, 1.0)
    depths = {"recall@5", "hit@5", "all@2", "recall@10", "recall@30", "all@10", "all@30"} & metrics.keys()
    assert {name for name in depths if metrics[name] is None} == unjudged & metrics.keys()


def test_ranked_triples_of_a_job_are_judged_by_the_golden_triples_in_its_metadata() -> None:
    """By hand: rank 2 of two golden ones; the failed one counts 0; a question without golden triples not at all."""
    golden = {"golden_triples": ["(R0:Ada, knows, R2:x, y)", ["R0", "knows", "R9"]]}
    ends = {"subject": {"id": "R0", "name": "Ada"}, "predicate": "knows"}
    triples = [ends | {"object": {"id": f"R{number}", "name": "x, y"}} for number in (1, 2)]
    ranked = replace(ROW, result={"limit": 10, "passages": [], "triples": triples})
    failed = replace(ROW, state=QuestionState.DEAD, error="gone", metadata=golden)
    metrics = metrics_of(replace(ranked, metadata=golden), failed, ranked)
    assert (metrics["triple_recall@10"], metrics["triple_mrr"], metrics["triple_recall@30"]) == (0.25, 0.25, None)
    plain = replace(ROW, result={"passages": []})
    assert metrics_of(replace(plain, metadata=golden), failed)["triple_mrr"] is None
    assert "triple_mrr" not in metrics_of(replace(plain, metadata={"golden_triples": 3}))
