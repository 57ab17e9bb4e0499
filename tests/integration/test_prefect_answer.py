"""Batch answering on a real Prefect server: one flow run per job; a worker started by a process work pool."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from prefect_rest import post

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


def _python(script: str, environment: dict[str, str], root: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("POLYHOP_", "PREFECT_"))}
    return subprocess.run(
        [sys.executable, "-c", script],
        env=clean | environment | {"POLYHOP_ROOT": str(root)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_a_job_is_one_flow_run_with_progress_results_and_metrics(
    root: Path, prefect_server: dict[str, str], tmp_path: Path
) -> None:
    script = (
        "import json\nfrom flows.prefect_answer import answer_flow\n"
        "print(json.dumps(answer_flow('questions.jsonl', 'lakes', strategy='bm25', start_worker=True)))\n"
    )
    done = _python(script, prefect_server, root, tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert (report["done"], report["dead"]) == (8, 0)
    assert report["metrics"]["recall@5"] == 1.0
    runs = post(prefect_server, "/flow_runs/filter", {"flow_runs": {"name": {"any_": ["answer questions.jsonl"]}}})
    assert [run["state_type"] for run in runs] == ["COMPLETED"]
    keys = {artifact["key"] for artifact in post(prefect_server, "/artifacts/filter")}
    job = report["job_id"]
    assert {f"job-{job}-progress", f"job-{job}-results", f"job-{job}-summary"} <= keys


def test_a_process_work_pool_starts_a_worker_and_a_deployment_takes_a_file_path(
    polyhop: Run, root: Path, prefect_server: dict[str, str], tmp_path: Path
) -> None:
    prefect = str(Path(sys.executable).parent / "prefect")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("POLYHOP_", "PREFECT_"))}
    environment = clean | prefect_server | {"POLYHOP_ROOT": str(root)}

    def run(*arguments: str) -> None:
        done = subprocess.run(
            [prefect, "--no-prompt", *arguments],
            env=environment, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)

    run("work-pool", "create", "polyhop", "--type", "process")
    run("deploy", "--all")
    run("deployment", "run", "answer/batch", "-p", f"questions={tmp_path / 'questions.jsonl'}", "-p", "index=lakes",
        "-p", "strategy=bm25")  # fmt: skip
    log = (tmp_path / "pool.log").open("w")
    pool = subprocess.Popen(
        [prefect, "--no-prompt", "worker", "start", "--pool", "polyhop"],
        env=environment, cwd=PROJECT, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        _wait_for(lambda: bool(polyhop("jobs", "--json", "--root", root).stdout), "no job was submitted")
        run("deployment", "run", "worker/worker", "-p", "queues=default")
        _wait_for(lambda: _deployed_states(prefect_server) == ["COMPLETED", "COMPLETED"], "the runs did not complete")
    finally:
        os.killpg(pool.pid, signal.SIGKILL)
        pool.wait()
        log.close()
    jobs = [json.loads(line) for line in polyhop("jobs", "--json", "--root", root).stdout.splitlines()]
    assert [(job["done"], job["queued"], job["dead"]) for job in jobs] == [(8, 0, 0)]


def _deployed_states(environment: dict[str, str]) -> list[str]:
    body: dict[str, object] = {"flow_runs": {"deployment_id": {"is_null_": False}}}
    return [run["state_type"] for run in post(environment, "/flow_runs/filter", body)]


def _wait_for(is_reached: Callable[[], bool], otherwise: str) -> None:
    end = time.monotonic() + 180
    while not is_reached():
        assert time.monotonic() < end, otherwise
        time.sleep(1)
