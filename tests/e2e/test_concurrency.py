"""Readers never wait and never see half an index; runs do not mix; a killed run goes on where it was.

By hand with more new versions: POLYHOP_REINDEXES=20 uv run pytest -n 0 tests/e2e/test_concurrency.py
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from command_processes import Commands, Started, clean_environment
from small_indexes import Call, Run, indexed, printed, record, write_rows

from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import published_versions, read_manifest, require_version

REINDEXES = int(os.environ.get("POLYHOP_REINDEXES", "5"))
READER = """
import sys
from pathlib import Path
import polyhop
root, stop = sys.argv[1:]
seen, reads = set(), 0
print("begun", flush=True)
while not Path(stop).exists():
    with polyhop.open_index("villages", root=root) as index:
        rows = index.sql("SELECT DISTINCT regexp_extract(text, 'edition ([0-9]+)', 1) AS edition FROM passages")
        editions = {row["edition"] for row in rows.to_pylist()}
        assert len(editions) == 1, f"a mix of {editions}"
        assert len(index.ask("What lies on River 3?", strategy="bm25").passages) > 0
    seen |= editions
    reads += 1
print(reads, len(seen))
"""


def records(count: int, edition: int) -> list[dict[str, object]]:
    texts = (f"of edition {edition} lies near Village {(n * 7) % count} on River {n % 50}." for n in range(count))
    return [record(f"p{n:05d}", f"Village {n}", f"Village {n} {text}") for n, text in enumerate(texts)]


@pytest.fixture
def start(commands: Commands, tmp_path: Path) -> Call:
    """Starts a command in the test's folder; the process, and the file of what it prints."""

    def run(*arguments: str | Path) -> tuple[Started, Path]:
        with tempfile.NamedTemporaryFile("w", dir=tmp_path, delete=False) as log:
            return commands.start(arguments, tmp_path, {}, log), Path(log.name)

    return run


def ended(process: Started, log: Path) -> tuple[int, str]:
    """Exit code of a command and all that it printed, once it ended."""
    return process.wait(300), log.read_text(encoding="utf-8")


def manifest(folder: Path, index: str) -> Any:
    """Of the current version."""
    layout = Layout(folder / "polyhop-data")
    return read_manifest(require_version(layout, index)[1])


def test_two_runs_on_one_index_do_not_mix_and_two_indexes_are_built_at_once_with_one_cache(
    polyhop: Run, start: Call, write_corpus: Call, tmp_path: Path
) -> None:
    command = ("index", write_corpus(records(300, 1)), "--index", "one", "--set", "strategies=bm25", "--json")
    runs = [start(*command) for _ in range(2)]
    ends = sorted(ended(*run) for run in runs)
    codes = [code for code, _ in ends]
    assert codes in ([0, 0], [0, 1]), ends
    if codes == [0, 1]:
        assert re.search("Index 'one' is being written by (process|another process)", ends[1][1])
    rows = printed(polyhop("versions", "--index", "one", "--json"))
    assert [row["passages"] for row in rows] == [300]
    corpus = write_corpus(records(100, 1))
    for run in [start("index", corpus, "--index", name, "--json") for name in ("a", "b")]:
        code, text = ended(*run)
        assert (code, json.loads(text.splitlines()[-1])["version"]) == (0, 1), text
    assert manifest(tmp_path, "a").tables == manifest(tmp_path, "b").tables


@pytest.mark.rare
def test_a_killed_run_leaves_the_version_and_the_next_run_ends_as_an_undisturbed_one(
    polyhop: Run, start: Call, write_corpus: Call, tmp_path: Path
) -> None:
    assert polyhop("index", write_corpus(records(50, 1)), "--index", "killed").returncode == 0
    index = ("index", write_corpus(records(400, 2)), "--index", "killed", "--set", "batch_size=50", "--json")
    for delay in (0.1, 0.4, 0.8, 1.4, 2.5):
        process, log = start(*index)
        time.sleep(delay)
        process.kill()
        ended(process, log)
        assert printed(polyhop("ask", "What lies near Village 7?", "--index", "killed", "--json"))["passages"]
    printed(polyhop(*index))
    assert polyhop("index", index[1], "--index", "calm").returncode == 0
    killed, calm = (manifest(tmp_path, name) for name in ("killed", "calm"))
    assert (killed.tables, killed.arrays) == (calm.tables, calm.arrays)


@pytest.mark.rare
def test_readers_and_workers_see_whole_versions_throughout_many_runs(polyhop: Run, start: Call, tmp_path: Path) -> None:
    """Only the last version is kept."""
    settings = Settings(root=tmp_path / "polyhop-data", strategies=("bm25",), keep_versions=1)

    def publish(edition: int) -> None:
        corpus = write_rows(tmp_path / "corpus.jsonl", records(20, edition))
        assert indexed(settings, corpus, "villages").changed

    publish(0)
    stop, asked = tmp_path / "stop", ({"id": f"q{n}", "question": f"What lies on River {n}?"} for n in range(7))
    questions = write_rows(tmp_path / "questions.jsonl", asked)
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, str(settings.root), str(stop)],
        cwd=tmp_path, env=clean_environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    worker = start("worker")
    assert reader.stdout is not None
    reader.stdout.readline()
    submit = ("submit", questions, "--index", "villages", "--strategy", "bm25", "--json")
    jobs, answered = [], []
    try:
        jobs.append(printed(polyhop(*submit, "--wait"))["job_id"])  # from now on the worker holds a version
        for edition in range(1, REINDEXES + 1):
            jobs.append(printed(polyhop(*submit))["job_id"])
            publish(edition)
            query = "SELECT count(*) AS n FROM results WHERE state = 'done'"
            answered.append(printed(polyhop("sql", query, "--index", "villages", "--json"))[0]["n"])
        jobs.append(printed(polyhop(*submit, "--wait"))["job_id"])
    finally:
        stop.touch()
        worker[0].terminate()
    said, complaints = reader.communicate(timeout=60)
    assert reader.returncode == 0, complaints
    assert int(said.split()[0]) >= REINDEXES
    code, log = ended(*worker)
    assert (code, "lock" in log, "Traceback" in log) == (0, False, False), log
    assert answered == sorted(answered)
    for job in jobs:
        rows = [json.loads(line) for line in polyhop("results", job, "--json").stdout.splitlines()]
        assert [(row["state"], bool(row["passages"])) for row in rows] == [("done", True)] * 7
    assert {row["version"] for row in rows} == {REINDEXES + 1}
    publish(REINDEXES + 1)
    index = Layout(settings.root).index("villages")
    assert published_versions(index) == [REINDEXES + 2], "versions that a reader held go with the next run"
    assert not index.staging.exists()
