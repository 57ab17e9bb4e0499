"""Batch answering on a real Prefect server: one flow run per job; a worker started by a process work pool."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_processes import Commands
from prefect_pool import pool_worker, wait_for
from prefect_rest import post, run_deployment, runs_named

from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.queue import QuestionState
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.open import open_questions
from polyhop.warehouse.queue.queue import QuestionQueue

Run = Callable[..., subprocess.CompletedProcess[str]]
WriteCorpus = Callable[..., Path]
pytestmark = pytest.mark.prefect
PROJECT = Path(__file__).resolve().parents[2]

RECORDS: list[dict[str, object]] = [
    {"id": f"p{n}", "title": f"Lake {n}", "text": f"Lake {n} lies near Mount {n} in Country {n % 3}."}
    for n in range(20)
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with an index that needs no vectors."""
    folder = tmp_path_factory.mktemp("lakes")
    (folder / "corpus.jsonl").write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    settings = Settings(root=folder / "root", strategies=("bridge-lexical", "bm25"))
    run_index(settings, IndexRequest("lakes", folder / "corpus.jsonl"), DirectRunner())
    return settings.root


@pytest.fixture(scope="module")
def pool(root: Path, prefect_server: dict[str, str]) -> Iterator[Callable[..., str]]:
    """Runs `prefect` commands beside a worker, with all deployments of the repository."""
    with pool_worker(prefect_server, root, root.parent, PROJECT) as run:
        run("deploy", "--all")
        yield run


@pytest.fixture
def questions(write_corpus: WriteCorpus) -> Path:
    """A question file with gold, in a folder that no other test has."""
    rows: list[dict[str, object]] = [
        {"id": f"q{n}", "question": f"What lies near Mount {n}?", "answers": [f"Lake {n}"], "supporting": [f"p{n}"]}
        for n in range(8)
    ]
    return write_corpus(rows, "questions.jsonl")


@pytest.fixture
def queue(root: Path) -> Iterator[QuestionQueue]:
    opened = open_questions(Settings(root=root))
    yield opened
    opened.close()


def test_a_job_is_one_flow_run_with_progress_results_and_metrics(
    commands: Commands, root: Path, questions: Path, prefect_server: dict[str, str], tmp_path: Path
) -> None:
    questions.rename(tmp_path / "one-job.jsonl")  # a name that no other test on this server uses
    script = (
        "import json\nfrom polyhop.flows.prefect_answer import answer_flow\n"
        "print(json.dumps(answer_flow('one-job.jsonl', 'lakes', strategy='bm25')))\n"
    )
    variables = prefect_server | {"PREFECT_LOGGING_LEVEL": "INFO", "POLYHOP_ROOT": str(root)}
    done = commands.python(script, (), tmp_path, variables)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    job = f"job {report['job_id']}"
    assert (report["done"], report["dead"]) == (8, 0)
    assert report["metrics"]["recall@5"] == 1.0
    (run,) = runs_named(prefect_server, f"answer lakes {job} one-job.jsonl")
    assert run["state_type"] == "COMPLETED"
    tasks = post(prefect_server, "/task_runs/filter", {"flow_runs": {"id": {"any_": [run["id"]]}}})
    assert {task["name"] for task in tasks} == {"submit questions", "answer questions", "show results"}
    shown = {a["key"]: a for a in post(prefect_server, "/artifacts/filter") if a["flow_run_id"] == run["id"]}
    assert shown.keys() == {"job-lakes", "job-lakes-progress", "job-lakes-results"}
    assert shown["job-lakes-progress"]["description"] == f"questions of {job}: 8 of 8"
    wait_for(lambda: f"{job}: 8 done" in _logged(prefect_server, run["id"]), "its log did not arrive")
    logged = _logged(prefect_server, run["id"])
    assert f"{job}: 8 questions, 0 left out" in logged
    assert "answers default." in logged  # the worker's own words


@pytest.mark.usefixtures("pool")
def test_a_process_work_pool_starts_a_worker_and_a_deployment_takes_a_file_path(
    polyhop: Run, root: Path, queue: QuestionQueue, questions: Path, prefect_server: dict[str, str]
) -> None:
    before = len(queue.jobs())
    asked = {"questions": str(questions), "index": "lakes", "strategy": "bm25", "workers": 0}
    run_deployment(prefect_server, "answer/main-answers", asked)
    wait_for(lambda: len(queue.jobs()) > before, "no job was submitted")
    run_deployment(prefect_server, "worker/worker", {"queues": "default"})
    wait_for(lambda: _states(prefect_server, questions) == ["COMPLETED"], "the job did not complete")
    (worked,) = runs_named(prefect_server, "worker default")
    wait_for(lambda: runs_named(prefect_server, "worker default")[0]["state_type"] == "COMPLETED", "the worker goes on")
    tasks = post(prefect_server, "/task_runs/filter", {"flow_runs": {"id": {"any_": [worked["id"]]}}})
    assert [task["name"] for task in tasks] == ["answer questions of default"]
    job = json.loads(polyhop("jobs", "--json", "--root", root).stdout)[0]
    assert (job["done"], job["queued"], job["dead"]) == (8, 0, 0)


def test_cancelling_or_killing_a_run_cancels_the_questions_that_nobody_has_answered(
    pool: Callable[..., str], queue: QuestionQueue, questions: Path, prefect_server: dict[str, str]
) -> None:
    for end in (_cancel, _kill):
        before = len(queue.jobs())
        asked = {"questions": str(questions), "index": "lakes", "strategy": "bm25", "workers": 0, "queue": "nobody"}
        run_deployment(prefect_server, "answer/main-answers", asked)
        wait_for(lambda held=before: len(queue.jobs()) > held, "no job was submitted")  # type: ignore[misc]
        job_id = queue.jobs()[0].job_id
        assert queue.job(job_id).counts[QuestionState.QUEUED] == 8
        end(pool, _running_id(prefect_server, questions))
        wait_for(lambda number=job_id: not queue.job(number).is_open, "its questions stayed queued")  # type: ignore[misc]
        assert queue.job(job_id).counts[QuestionState.CANCELLED] == 8
    wait_for(lambda: _states(prefect_server, questions) == ["CANCELLED", "CRASHED"], "the runs go on")


def _cancel(run: Callable[..., str], run_id: str) -> None:
    run("flow-run", "cancel", run_id)


def _kill(_run: Callable[..., str], run_id: str) -> None:
    """The process that runs the flow, as the kernel kills one that takes too much memory."""
    marker = run_id.encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command, variables = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
        except OSError:
            continue
        if marker in variables and b"prefect" in command:
            os.kill(int(folder.name), signal.SIGKILL)


def _running_id(environment: dict[str, str], questions: Path) -> str:
    """The run that answers this file; others may be running that another test has left."""
    (found,) = (run["id"] for run in _runs(environment, questions) if run["state_type"] == "RUNNING")
    return str(found)


def _states(environment: dict[str, str], questions: Path) -> list[str]:
    return sorted(run["state_type"] for run in _runs(environment, questions))


def _runs(environment: dict[str, str], questions: Path) -> list[dict[str, Any]]:
    """The runs that were asked to answer this file."""
    found = post(environment, "/flow_runs/filter")
    return [run for run in found if run["parameters"].get("questions") == str(questions)]


def _logged(environment: dict[str, str], run_id: str) -> str:
    body: dict[str, object] = {"logs": {"flow_run_id": {"any_": [run_id]}}}
    return "\n".join(log["message"] for log in post(environment, "/logs/filter", body))
