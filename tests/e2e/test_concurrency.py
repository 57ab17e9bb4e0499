"""Readers never wait and never see half an index; a killed run goes on where it was."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

Run = Callable[..., subprocess.CompletedProcess[str]]
WriteCorpus = Callable[..., Path]


def _records(count: int, edition: int) -> list[dict[str, object]]:
    return [
        {
            "id": f"p{n:05d}",
            "title": f"Village {n}",
            "text": f"Village {n} of edition {edition} lies near Village {(n * 7) % count} on River {n % 50}.",
        }
        for n in range(count)
    ]


def _start(tmp_path: Path, *arguments: str | Path) -> subprocess.Popen[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("POLYHOP_", "PREFECT_"))}
    command = [sys.executable, "-m", "polyhop.cli", *map(str, arguments)]
    return subprocess.Popen(command, cwd=tmp_path, env=clean, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_sql_duckdb_and_questions_work_while_an_index_run_writes(
    polyhop: Run, write_corpus: WriteCorpus, tmp_path: Path
) -> None:
    assert polyhop("index", write_corpus(_records(200, 1)), "--index", "busy").returncode == 0
    published = tmp_path / "polyhop-data/indexes/busy/versions/000001/index.duckdb"
    writer = _start(tmp_path, "index", write_corpus(_records(700, 2), "second.jsonl"), "--index", "busy", "--json")
    asker = _start(tmp_path, "ask", "What lies near Village 7?", "--index", "busy", "--json")
    reads = 0
    while writer.poll() is None:
        count = duckdb.connect(str(published), read_only=True).execute("SELECT count(*) FROM passages").fetchone()
        assert count == (200,)
        done = polyhop("sql", "SELECT count(*) AS n FROM passages", "--index", "busy", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)[0]["n"] in {200, 700}
        reads += 1
    answered, complaints = asker.communicate()
    assert asker.returncode == 0, complaints
    assert json.loads(answered)["passages"]
    written, complaints = writer.communicate()
    assert writer.returncode == 0, complaints
    assert json.loads(written)["version"] == 2
    assert reads >= 2


def test_two_runs_on_one_index_do_not_mix(polyhop: Run, write_corpus: WriteCorpus, tmp_path: Path) -> None:
    corpus = write_corpus(_records(300, 1))
    first = _start(tmp_path, "index", corpus, "--index", "one", "--json")
    second = _start(tmp_path, "index", corpus, "--index", "one", "--json")
    complaints = first.communicate()[1] + second.communicate()[1]
    codes = sorted([first.returncode, second.returncode])
    assert codes in ([0, 0], [0, 1])
    if codes == [0, 1]:
        assert "Index 'one' is being written by process" in complaints
    rows = json.loads(polyhop("versions", "--index", "one", "--json").stdout)
    assert [row["passages"] for row in rows] == [300]


def test_two_indexes_are_built_at_the_same_time_with_one_cache(
    polyhop: Run, write_corpus: WriteCorpus, tmp_path: Path
) -> None:
    corpus = write_corpus(_records(150, 1))
    runs = [_start(tmp_path, "index", corpus, "--index", name) for name in ("a", "b")]
    for run in runs:
        complaints = run.communicate()[1]
        assert run.returncode == 0, complaints
    manifests = [
        json.loads((tmp_path / f"polyhop-data/indexes/{name}/versions/000001/manifest.json").read_text())
        for name in ("a", "b")
    ]
    assert manifests[0]["tables"] == manifests[1]["tables"]


def test_a_killed_run_leaves_the_version_and_the_next_run_ends_as_an_undisturbed_one(
    polyhop: Run, write_corpus: WriteCorpus, tmp_path: Path
) -> None:
    assert polyhop("index", write_corpus(_records(50, 1)), "--index", "killed").returncode == 0
    corpus = write_corpus(_records(400, 2))
    settings = ("--set", "batch_size=50")
    for delay in (0.8, 1.6, 2.4, 3.2, 4.5):
        run = _start(tmp_path, "index", corpus, "--index", "killed", *settings)
        time.sleep(delay)
        if run.poll() is None:
            os.kill(run.pid, signal.SIGKILL)
        run.communicate()
        answer = polyhop("ask", "What lies near Village 7?", "--index", "killed", "--json")
        assert answer.returncode == 0, answer.stderr
    done = polyhop("index", corpus, "--index", "killed", *settings, "--json")
    assert done.returncode == 0, done.stderr
    assert polyhop("index", corpus, "--index", "calm").returncode == 0
    root = tmp_path / "polyhop-data/indexes"
    killed, calm = (
        json.loads(
            (
                root / name / "versions" / (root / name / "CURRENT").read_text().strip().zfill(6) / "manifest.json"
            ).read_text()
        )
        for name in ("killed", "calm")
    )
    assert killed["tables"] == calm["tables"]
    assert killed["arrays"] == calm["arrays"]
