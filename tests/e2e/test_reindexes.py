"""A reader and a worker go on without an error while an index is made again and again, the last version only kept.

By hand with more: POLYHOP_REINDEXES=20 uv run pytest -n 0 tests/e2e/test_reindexes.py
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from command_processes import Commands, clean_environment

from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import published_versions

Run = Callable[..., subprocess.CompletedProcess[str]]
REINDEXES = int(os.environ.get("POLYHOP_REINDEXES", "5"))
TOWNS = 20
READER = """
import sys
from pathlib import Path
import polyhop
root, stop = sys.argv[1:]
seen, reads = set(), 0
print("begun", flush=True)
while not Path(stop).exists():
    with polyhop.open_index("towns", root=root) as index:
        rows = index.sql("SELECT DISTINCT regexp_extract(text, 'Edition ([0-9]+)', 1) AS edition FROM passages")
        editions = {row["edition"] for row in rows.to_pylist()}
        assert len(editions) == 1, f"a mix of {editions}"
        assert len(index.ask("What lies on the River 3?", strategy="bm25").passages) > 0
    seen |= editions
    reads += 1
print(reads, len(seen))
"""


def _publish(settings: Settings, folder: Path, edition: int) -> None:
    corpus = folder / "corpus.jsonl"
    rows = [
        {"id": f"p{n}", "title": f"Town {n}", "text": f"Town {n} lies on the River {n % 7}. Edition {edition}."}
        for n in range(TOWNS)
    ]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run_index(settings, IndexRequest("towns", corpus), DirectRunner()).changed


def test_a_reader_and_a_worker_see_whole_versions_throughout_many_runs(
    polyhop: Run, commands: Commands, tmp_path: Path
) -> None:
    settings = Settings(root=tmp_path / "polyhop-data", strategies=("bm25",), keep_versions=1)
    _publish(settings, tmp_path, 0)
    stop, questions = tmp_path / "stop", tmp_path / "questions.jsonl"
    questions.write_text("".join(f'{{"id": "q{n}", "question": "What lies on the River {n}?"}}\n' for n in range(7)))

    reader = subprocess.Popen(
        [sys.executable, "-c", READER, str(settings.root), str(stop)],
        cwd=tmp_path, env=clean_environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with (tmp_path / "worker.log").open("w") as log:
        worker = commands.start(("worker",), tmp_path, {}, log)
    assert reader.stdout is not None
    reader.stdout.readline()
    jobs = []
    try:
        for edition in range(1, REINDEXES + 1):
            submitted = polyhop("submit", questions, "--index", "towns", "--strategy", "bm25", "--json")
            assert submitted.returncode == 0, submitted.stderr
            jobs.append(json.loads(submitted.stdout)["job_id"])
            _publish(settings, tmp_path, edition)
        drained = polyhop("worker", "--until-empty")
        assert drained.returncode == 0, drained.stderr
    finally:
        stop.touch()
        worker.terminate()
    said, complaints = reader.communicate(timeout=60)
    assert reader.returncode == 0, complaints
    assert int(said.split()[0]) >= REINDEXES
    assert worker.wait(timeout=60) == 0, (tmp_path / "worker.log").read_text()
    for job in jobs:
        rows = [json.loads(line) for line in polyhop("results", job, "--json").stdout.splitlines()]
        assert [row["state"] for row in rows] == ["done"] * 7
        assert all(row["passages"] for row in rows)
    _publish(settings, tmp_path, REINDEXES + 1)
    index = Layout(settings.root).index("towns")
    assert published_versions(index) == [REINDEXES + 2], "versions that a reader held go with the next run"
    assert not index.staging.exists()
