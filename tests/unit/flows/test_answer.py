"""Flow runs: what they do about workers and refuse to submit, their metrics; schedules and progress on Prefect."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock
from uuid import uuid4

import pytest
from empty_version import publish_empty
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.objects import DeploymentSchedule
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule
from prefect_rest import prefect_document

import polyhop.flows.answer
from polyhop.flows import prefect_index, prefect_run
from polyhop.flows.answer import Crew, job_metrics, submit_file
from polyhop.flows.prefect_deploy import SCHEDULED, DeployedIndex, Deployment, deployments, merged_schedules
from polyhop.flows.prefect_run import TASK_RUNS
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


def test_an_unknown_strategy_or_parameter_is_refused_at_submission(settings: Settings, queue: QuestionQueue) -> None:
    for wanted, error in (
        (submission("bridge", dampin=0.9), UnknownParameterError),
        (submission("bm25", k1="much"), ConfigurationError),
        (submission("bm26"), UnknownStrategyError),
    ):
        with pytest.raises(error):
            submit_file(settings, queue, wanted)
    assert queue.jobs() == []


def test_a_run_says_once_that_nobody_serves_its_queue(queue: QuestionQueue, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_workers_that_crash_end_a_run_waiting_ones_do_not(
    queue: QuestionQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Mock] = []

    def start(*_: object) -> Mock:
        started.append(Mock(code=75 if not started else 1))
        return started[-1]

    monkeypatch.setattr(polyhop.flows.answer, "WorkerProcess", start)
    crew = Crew(queue, "mine", 1, {}, pytest.fail)
    for _ in range(3):
        crew.look_after()
    assert len(started) == 1  # it waits for a batch, and so does the run
    crew._idle_until = 0.0
    for _ in range(3):
        crew.look_after()
    with pytest.raises(PolyhopError, match="ended with an error 3 times, the last with code 1"):
        crew.look_after()
    crew.end()
    assert [worker.end.called for worker in started] == [True] * 4


def test_settings_reach_a_process_by_environment_as_they_are() -> None:
    url = "postgresql://u:p@h/d"
    made = as_environment({"root": "a b", "strategies": ["bm25", "dense"], "queue.url": url, "max_tokens": None})
    assert made == {"POLYHOP_ROOT": "a b", "POLYHOP_STRATEGIES": "bm25,dense", "POLYHOP_QUEUE__URL": url}
    assert environment_settings(made) == {"root": "a b", "strategies": "bm25,dense", "queue.url": url}


NOTHING: dict[str, Any] = dict.fromkeys(field.name for field in fields(ResultRow))
ASKED: dict[str, Any] = {"question": "Who?", "answers": ("Ann",), "supporting": ("p1", "p9"), "strategy": "bm25"}
DONE: dict[str, Any] = {"metadata": {}, "state": QuestionState.DONE, "answer": "Ann", "result": {}}
ROW = ResultRow(**NOTHING | ASKED | DONE)


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


BOTH = {"news": "/data/news.jsonl", "wiki": "/data/wiki.jsonl"}
EVERY_QUARTER = "*/15 * * * *"


def incremental(**sources: str) -> Deployment:
    index = DeployedIndex("x", source="/data/wiki.jsonl", sources=sources)
    return next(each for each in deployments([index]) if each.kind == "incremental")


def on_server(schedules: list[DeploymentScheduleCreate], source: str = "/data/wiki.jsonl") -> DeploymentResponse:
    """What the server has once these are registered."""
    stored = [DeploymentSchedule(**each.model_dump(exclude={"replaces"})) for each in schedules]
    return DeploymentResponse(name="x-incremental", flow_id=uuid4(), schedules=stored, parameters={"source": source})  # type: ignore[call-arg]


def said(schedules: list[DeploymentScheduleCreate]) -> list[tuple[str | None, Any, bool, dict[str, Any]]]:
    return [(each.slug, getattr(each.schedule, "cron", None), each.active, each.parameters) for each in schedules]


def whole(name: str, location: str) -> dict[str, Any]:
    return {"source": location, "source_name": name, "partial": False}


def test_a_further_registration_keeps_what_people_did_to_the_schedules() -> None:
    first = merged_schedules(incremental(**BOTH), None)
    hourly = CronSchedule(cron="0 * * * *", timezone="UTC")
    feed = {"source": "/feeds/today.jsonl", "source_name": "news", "partial": True}
    changed = [
        first[0].model_copy(update={"parameters": feed, "active": True}),
        first[1].model_copy(update={"schedule": hourly, "active": True}),
        DeploymentScheduleCreate(schedule=hourly, parameters={"full": True}, slug="whole", max_scheduled_runs=2),
    ]
    again = merged_schedules(incremental(news="/moved/news.jsonl", wiki="/moved/wiki.jsonl"), on_server(changed))
    assert said(again) == [
        ("news", EVERY_QUARTER, True, feed),
        ("wiki", "0 * * * *", True, whole("wiki", "/moved/wiki.jsonl")),
        ("whole", "0 * * * *", True, {"full": True}),
    ]
    assert again[2].max_scheduled_runs == 2


def test_the_schedule_of_the_only_source_stays_its_own_when_a_second_source_comes() -> None:
    (only,) = merged_schedules(incremental(), None)
    assert said([only]) == [(None, EVERY_QUARTER, False, {})]
    switched_on = only.model_copy(update={"active": True})
    again = merged_schedules(incremental(**BOTH), on_server([switched_on]))
    assert said(again) == [
        ("wiki", EVERY_QUARTER, True, whole("wiki", BOTH["wiki"])),
        ("news", EVERY_QUARTER, False, whole("news", BOTH["news"])),
    ]
    unknown = merged_schedules(incremental(**BOTH), on_server([switched_on], source="/elsewhere.jsonl"))
    assert [each.slug for each in unknown] == [None, "news", "wiki"]


def test_every_source_has_a_schedule_of_its_own_which_is_off_until_it_is_switched_on() -> None:
    expected = [(name, EVERY_QUARTER, False, whole(name, location)) for name, location in BOTH.items()]
    assert said(merged_schedules(incremental(**BOTH), None)) == expected
    documents = prefect_document([DeployedIndex("x", sources=BOTH)])["deployments"]
    (entry,) = (each for each in documents if each["name"] == "x-incremental")
    assert [(each["slug"], each["active"], each["parameters"]) for each in entry["schedules"]] == [
        (name, False, whole(name, location)) for name, location in BOTH.items()
    ]
    on = merged_schedules(incremental(**BOTH), None, is_on=True)
    assert [(each.slug, each.active) for each in on] == [("news", True), ("wiki", True)]
    assert [each.active for each in merged_schedules(incremental(**BOTH), on_server(on))] == [True, True]
    assert {each.kind for each in deployments([DeployedIndex("x")]) if each.cron} == set(SCHEDULED)
    export = next(each for each in deployments([DeployedIndex("x")]) if each.kind == "export")
    assert merged_schedules(export, None) == []
    nightly = DeploymentScheduleCreate(schedule=CronSchedule(cron="0 1 * * *"), parameters={"database": "x"})
    assert said(merged_schedules(export, on_server([nightly]))) == said([nightly])  # by people, where we have none


def test_batches_of_a_group_are_one_line_and_a_total_that_is_a_bound_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of ten passages, the last of five."""
    lines: list[str] = []
    log = SimpleNamespace(info=lambda line, *given: lines.append(line % given))
    monkeypatch.setattr(prefect_index, "get_run_logger", lambda: log)
    shown = SimpleNamespace(update=lambda done, total, what: None)
    monkeypatch.setattr(prefect_run, "Progress", lambda key: shown)
    monkeypatch.setattr(prefect_run, "run_step", lambda name, run, task_name: run())
    runner, numbers, done = prefect_index.PrefectRunner("x"), list(range(TASK_RUNS * 2 + 1)), 0
    stage: Any = SimpleNamespace(name="extract", unit="passages", is_portable=lambda build: False)
    stage.run = lambda build, number: 5 if number == TASK_RUNS * 2 else 10
    for number, units in enumerate(runner.batches(stage, cast("Any", None), numbers), start=1):
        done += cast("int", units)
        runner.progress("extract", done, done + 10 * (len(numbers) - number))
    groups = -(-len(numbers) // 3)
    assert len(lines) == groups == 14
    assert (lines[0], lines[-1]) == ("extract: 30 of at most 410 passages", "extract: 405 of 405 passages")
