"""Batches of a flow run in other processes: on a real Dask cluster through prefect-dask, with a worker killed.

By hand also with the processes that threads wait for: POLYHOP_RUNNERS=dask,processes.
"""

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

from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import parse_settings

KINDS = os.environ.get("POLYHOP_RUNNERS", "dask").split(",")
SIZE = 10
WriteCorpus = Callable[..., Path]
pytestmark = pytest.mark.prefect

RECORDS: list[dict[str, object]] = [
    {"id": f"p{n}", "title": f"Lake {n}", "text": f"Lake {n} is a lake near Mount {n % 50} in Country {n % 3}."}
    for n in range(150)
]


def _kill_a_worker(run: subprocess.Popen[str], folder: Path) -> None:
    """Kills a process that does batches once the first batch of embedding is there, and others are not."""
    end = time.monotonic() + 120
    while not (done := list(folder.glob("embed-*/*.done"))):
        assert run.poll() is None, "the run ended before a worker was killed"
        assert time.monotonic() < end, "no batch was done in 120 s"
        time.sleep(0.01)
    assert len(done) < len(RECORDS) / SIZE
    threads = Path(f"/proc/{run.pid}/task").glob("*/children")
    children = [int(pid) for file in threads for pid in file.read_text().split()]
    workers = [pid for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGKILL)


@pytest.mark.rare
@pytest.mark.parametrize("kind", KINDS)
def test_a_flow_run_whose_worker_is_killed_gives_the_same_tables_and_shows_its_batches(
    kind: str, write_corpus: WriteCorpus, prefect_server: dict[str, str], tmp_path: Path
) -> None:
    corpus = write_corpus(RECORDS)
    settings = ("--set", f"batch_size={SIZE}", "--set", "strategies=dense", "--set", "cores=2")
    arguments = ["index", corpus, "--index", kind, *settings, "--set", f"runner.kind={kind}", "--json"]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("POLYHOP_", "PREFECT_"))}
    run = subprocess.Popen(
        [sys.executable, "-m", "polyhop.cli", *map(str, arguments)],
        cwd=tmp_path,
        env=clean | prefect_server,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    _kill_a_worker(run, tmp_path / f"polyhop-data/indexes/{kind}/staging/parts")
    _, complaints = run.communicate(timeout=200)
    assert run.returncode == 0, complaints
    assert [line for line in complaints.splitlines() if "leaked" in line] == []

    root = tmp_path / "polyhop-data"
    chosen = parse_settings({"test": {"root": str(root), "batch_size": SIZE, "strategies": "dense"}})
    run_index(chosen, IndexRequest("local", corpus), DirectRunner())
    manifests = [
        json.loads((root / f"indexes/{name}/versions/000001/manifest.json").read_text()) for name in (kind, "local")
    ]
    assert manifests[0]["tables"] == manifests[1]["tables"]
    assert manifests[0]["arrays"] == manifests[1]["arrays"]

    runs = post(prefect_server, "/flow_runs/filter")
    ours = [run for run in runs if run["parameters"].get("index") == kind]
    assert [run["state_type"] for run in ours] == ["COMPLETED"]
    tasks = post(prefect_server, "/task_runs/filter", {"flow_runs": {"id": {"any_": [ours[0]["id"]]}}})
    batches = [task for task in tasks if task["name"].startswith("embed-passage batch")]
    assert len(batches) == len(RECORDS) / SIZE
    assert {task["state_type"] for task in batches} == {"COMPLETED"}
