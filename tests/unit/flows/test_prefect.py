"""On Prefect: schedules that keep what people made of them, and progress once per group of batches."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.objects import DeploymentSchedule
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule
from prefect_rest import prefect_document

from polyhop.flows import prefect_index, prefect_run
from polyhop.flows.prefect_deploy import SCHEDULED, DeployedIndex, Deployment, deployments, merged_schedules
from polyhop.flows.prefect_run import TASK_RUNS

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
    assert lines[0] == "extract: 30 of at most 410 passages"
    assert lines[-1] == "extract: 405 of 405 passages"
