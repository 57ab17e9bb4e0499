"""Batch answering on a real Prefect server: one flow run per job; a worker started by a process work pool."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_processes import Commands
from prefect_pool import pool_worker, wait_for
from prefect_rest import post, run_deployment, runs_named

from polyhop.schemas.queue import QuestionState
from polyhop.schemas.settings import Settings
from polyhop.warehouse.open import open_questions

Run = Callable[..., subprocess.CompletedProcess[str]]
WriteCorpus = Callable[..., Path]
pytestmark = pytest.mark.prefect
PROJECT = Path(__file__).resolve().parents[2]

RECORDS: list[dict[str, object]] = [
    {"id": f"p{n}", "title": f"Lake {n}", "text": f"Lake {n} lies near Mount {n} in Country {n % 3}."}
    for n in range(20)
]


@pytest.fixture
def root(polyhop: Run, write_corpus: WriteCorpus, tmp_path: Path) -> Path:
    """A root with an index that needs no vectors, and a question file with gold."""
    settings = ("--set", "strategies=bridge-lexical,bm25", "--root", tmp_path / "root")
    assert polyhop("index", write_corpus(RECORDS), "--index", "lakes", *settings).returncode == 0
    rows = [
        {"id": f"q{n}", "question": f"What lies near Mount {n}?", "answers": [f"Lake {n}"], "supporting": [f"p{n}"]}
        for n in range(8)
    ]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "root"


def test_a_job_is_one_flow_run_with_progress_results_and_metrics(
    commands: Commands, root: Path, prefect_server: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "questions.jsonl").rename(tmp_path / "one-job.jsonl")  # a name that no other test on this server uses
    script = (
        "import json\nfrom polyhop.flows.prefect_answer import answer_flow\n"
        "print(json.dumps(answer_flow('one-job.jsonl', 'lakes', strategy='bm25')))\n"
    )
    variables = prefect_server | {"PREFECT_LOGGING_LEVEL": "INFO", "POLYHOP_ROOT": str(root)}
    done = commands.python(script, (), tmp_path, variables)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert (report["done"], report["dead"]) == (8, 0)
    assert report["metrics"]["recall@5"] == 1.0
    (run,) = _runs(prefect_server, "one-job.jsonl")
    assert (run["state_type"], run["name"].startswith("answer lakes job 1 one-job.jsonl 2")) == ("COMPLETED", True)
    tasks = post(prefect_server, "/task_runs/filter", {"flow_runs": {"id": {"any_": [run["id"]]}}})
    assert {task["name"] for task in tasks} == {"submit questions", "answer questions", "show results"}
    shown = {a["key"]: a for a in post(prefect_server, "/artifacts/filter") if a["flow_run_id"] == run["id"]}
    assert shown.keys() == {"job-lakes", "job-lakes-progress", "job-lakes-results"}
    assert shown["job-lakes-progress"]["description"] == "questions of job 1: 8 of 8"
    wait_for(lambda: "job 1: 8 done" in _logged(prefect_server, run["id"]), "its log did not arrive")
    logged = _logged(prefect_server, run["id"])
    assert "job 1: 8 questions, 0 left out" in logged
    assert "answers default." in logged  # the worker's own words
    assert "job 1: 8 done" in logged


def test_a_process_work_pool_starts_a_worker_and_a_deployment_takes_a_file_path(
    polyhop: Run, root: Path, prefect_server: dict[str, str], tmp_path: Path
) -> None:
    with pool_worker(prefect_server, root, tmp_path, PROJECT) as run:
        run("deploy", "--all")
        asked = {"questions": str(tmp_path / "questions.jsonl"), "index": "lakes", "strategy": "bm25", "workers": 0}
        run_deployment(prefect_server, "answer/main-answers", asked)
        wait_for(
            lambda: bool(json.loads(polyhop("jobs", "--json", "--root", root).stdout or "[]")), "no job was submitted"
        )
        run_deployment(prefect_server, "worker/worker", {"queues": "default"})
        wait_for(lambda: _states(prefect_server, asked["questions"]) == ["COMPLETED"], "the job did not complete")  # type: ignore[arg-type]
        (worked,) = runs_named(prefect_server, "worker default")
        wait_for(
            lambda: runs_named(prefect_server, "worker default")[0]["state_type"] == "COMPLETED", "the worker goes on"
        )
        tasks = post(prefect_server, "/task_runs/filter", {"flow_runs": {"id": {"any_": [worked["id"]]}}})
        assert [task["name"] for task in tasks] == ["answer questions of default"]
    jobs = json.loads(polyhop("jobs", "--json", "--root", root).stdout)
    assert [(job["done"], job["queued"], job["dead"]) for job in jobs] == [(8, 0, 0)]


def test_cancelling_or_killing_a_run_cancels_the_questions_that_nobody_has_answered(
    root: Path, prefect_server: dict[str, str], tmp_path: Path
) -> None:
    queue = open_questions(Settings(root=root))
    with pool_worker(prefect_server, root, tmp_path, PROJECT) as run:
        run("deploy", "--name", "main-answers")
        for job_id, end in ((1, _cancel), (2, _kill)):
            asked = {"questions": str(tmp_path / "questions.jsonl"), "index": "lakes", "strategy": "bm25"}
            run_deployment(prefect_server, "answer/main-answers", {**asked, "workers": 0, "queue": f"nobody-{job_id}"})
            wait_for(lambda number=job_id: len(queue.jobs()) == number, "no job was submitted")  # type: ignore[misc]
            assert queue.job(job_id).counts[QuestionState.QUEUED] == 8
            end(run, _running_id(prefect_server, asked["questions"]))
            wait_for(lambda number=job_id: not queue.job(number).is_open, "its questions stayed queued")  # type: ignore[misc]
            assert queue.job(job_id).counts[QuestionState.CANCELLED] == 8
        asked_of = str(tmp_path / "questions.jsonl")
        wait_for(lambda: _states(prefect_server, asked_of) == ["CANCELLED", "CRASHED"], "the runs go on")
    queue.close()


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


def _running_id(environment: dict[str, str], questions: str) -> str:
    """The run that answers this file; others may be running that another test has left."""
    (found,) = (run["id"] for run in _runs(environment, questions) if run["state_type"] == "RUNNING")
    return str(found)


def _states(environment: dict[str, str], questions: str) -> list[str]:
    return sorted(run["state_type"] for run in _runs(environment, questions))


def _runs(environment: dict[str, str], questions: object) -> list[dict[str, Any]]:
    """The runs that were asked to answer this file."""
    return [run for run in post(environment, "/flow_runs/filter") if run["parameters"].get("questions") == questions]


def _logged(environment: dict[str, str], run_id: str) -> str:
    body: dict[str, object] = {"logs": {"flow_run_id": {"any_": [run_id]}}}
    return "\n".join(log["message"] for log in post(environment, "/logs/filter", body))
