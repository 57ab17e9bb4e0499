"""What a flow run does about workers, and what it refuses to submit."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from empty_version import publish_empty

import polyhop.flows.answer
from polyhop.flows.answer import Crew, submit_file
from polyhop.schemas.errors import ConfigurationError, PolyhopError, UnknownParameterError, UnknownStrategyError
from polyhop.schemas.queue import JobSpec
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


def report(queue: QuestionQueue, *queues: str) -> None:
    queue.report_worker("w1", host="here", process_id=1, queues=queues, versions={})


def test_a_run_without_workers_says_once_that_nobody_serves_its_queue(
    queue: QuestionQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    crew = Crew(queue, "mine", 0, {}, said.append)
    crew.look_after()
    assert said == []  # not before its time
    monkeypatch.setattr(polyhop.flows.answer, "UNSERVED_SECONDS", 0.0)
    report(queue, "other")
    crew.look_after()
    crew.look_after()
    assert len(said) == 1
    assert "polyhop worker --queues mine" in said[0]


def test_a_run_starts_no_worker_where_one_serves_its_queue(
    queue: QuestionQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polyhop.flows.answer, "WorkerProcess", lambda *_: pytest.fail("a worker was started"))
    monkeypatch.setattr(polyhop.flows.answer, "UNSERVED_SECONDS", 0.0)
    report(queue, "other", "mine")
    Crew(queue, "mine", 2, {}, pytest.fail).look_after()


class Crashed:
    """A worker that has ended with an error."""

    code = 1
    is_ended = False

    def end(self) -> None:
        self.is_ended = True


def test_a_worker_that_crashes_is_started_again_twice_and_then_ends_the_run(
    queue: QuestionQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Crashed] = []

    def start(*_: object) -> Crashed:
        started.append(Crashed())
        return started[-1]

    monkeypatch.setattr(polyhop.flows.answer, "WorkerProcess", start)
    crew = Crew(queue, "mine", 1, {}, pytest.fail)
    for _ in range(3):
        crew.look_after()
    with pytest.raises(PolyhopError, match="ended with an error 3 times, the last with code 1"):
        crew.look_after()
    assert len(started) == 3
    crew.end()
    assert all(worker.is_ended for worker in started)


def test_settings_reach_a_process_by_environment_as_they_are() -> None:
    values = {"root": "a b", "strategies": ["bm25", "dense"], "queue.url": "postgresql://u:p@h/d", "max_tokens": None}
    made = as_environment(values)
    assert made == {
        "POLYHOP_ROOT": "a b",
        "POLYHOP_STRATEGIES": "bm25,dense",
        "POLYHOP_QUEUE__URL": "postgresql://u:p@h/d",
    }
    assert environment_settings(made) == {
        "root": "a b",
        "strategies": "bm25,dense",
        "queue.url": "postgresql://u:p@h/d",
    }
