"""Readers never wait and never see half an index; a killed run goes on where it was."""

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb
import pytest
from command_processes import Commands, Started

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


class Running:
    """A command that runs beside the test, and what it prints."""

    def __init__(self, commands: Commands, folder: Path, *arguments: str | Path) -> None:
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as log:
            self.process: Started = commands.start(arguments, folder, {}, log)
        self.log = Path(log.name)

    def ended(self) -> tuple[int, str]:
        """Its exit code and all that it printed, once it ended."""
        return self.process.wait(300), self.log.read_text(encoding="utf-8")


@pytest.fixture
def start(commands: Commands, tmp_path: Path) -> Callable[..., Running]:
    """Starts a command in the test's folder."""
    return partial(Running, commands, tmp_path)


@pytest.mark.real_time
def test_sql_duckdb_and_questions_work_while_an_index_run_writes(
    polyhop: Run, start: Callable[..., Running], write_corpus: WriteCorpus, tmp_path: Path
) -> None:
    assert polyhop("index", write_corpus(_records(200, 1)), "--index", "busy").returncode == 0
    published = tmp_path / "polyhop-data/indexes/busy/versions/000001/index.duckdb"
    writer = start("index", write_corpus(_records(350, 2), "second.jsonl"), "--index", "busy", "--replace", "--json")
    asker = start("ask", "What lies near Village 7?", "--index", "busy", "--json")
    reads = 0
    while writer.process.poll() is None:
        count = duckdb.connect(str(published), read_only=True).execute("SELECT count(*) FROM passages").fetchone()
        assert count == (200,)
        done = polyhop("sql", "SELECT count(*) AS n FROM passages", "--index", "busy", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)[0]["n"] in {200, 350}
        reads += 1
    code, answered = asker.ended()
    assert code == 0, answered
    assert json.loads(answered.splitlines()[-1])["passages"]
    code, written = writer.ended()
    assert code == 0, written
    assert json.loads(written.splitlines()[-1])["version"] == 2
    assert reads >= 2


def test_two_runs_on_one_index_do_not_mix(
    polyhop: Run, start: Callable[..., Running], write_corpus: WriteCorpus
) -> None:
    corpus = write_corpus(_records(300, 1))
    runs = [start("index", corpus, "--index", "one", "--json") for _ in range(2)]
    ends = sorted(run.ended() for run in runs)
    codes = [code for code, _ in ends]
    assert codes in ([0, 0], [0, 1]), ends
    if codes == [0, 1]:
        assert re.search("Index 'one' is being written by (process|another process)", ends[1][1])
    rows = json.loads(polyhop("versions", "--index", "one", "--json").stdout)
    assert [row["passages"] for row in rows] == [300]


def test_two_indexes_are_built_at_the_same_time_with_one_cache(
    start: Callable[..., Running], write_corpus: WriteCorpus, tmp_path: Path
) -> None:
    corpus = write_corpus(_records(150, 1))
    runs = [start("index", corpus, "--index", name) for name in ("a", "b")]
    for run in runs:
        code, printed = run.ended()
        assert code == 0, printed
    manifests = [
        json.loads((tmp_path / f"polyhop-data/indexes/{name}/versions/000001/manifest.json").read_text())
        for name in ("a", "b")
    ]
    assert manifests[0]["tables"] == manifests[1]["tables"]


def test_a_killed_run_leaves_the_version_and_the_next_run_ends_as_an_undisturbed_one(
    polyhop: Run, start: Callable[..., Running], write_corpus: WriteCorpus, tmp_path: Path
) -> None:
    assert polyhop("index", write_corpus(_records(50, 1)), "--index", "killed").returncode == 0
    corpus = write_corpus(_records(400, 2))
    settings = ("--set", "batch_size=50")
    for delay in (0.1, 0.4, 0.8, 1.4, 2.5):
        run = start("index", corpus, "--index", "killed", *settings)
        time.sleep(delay)
        run.process.kill()
        run.ended()
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
