"""The file of runs: whole lines only, whatever a kill leaves; bounded; what did not end was killed or still runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from polyhop.schemas.manifest import Outcome, RunRecord, StageUse, Starter
from polyhop.warehouse.files.layout import IndexFolder
from polyhop.warehouse.files.versions import (
    begin_run,
    end_run,
    read_runs,
    starter,
)

MOMENT = "2026-01-02T03:04:05+00:00"
STAGES = {"ingest": StageUse(seconds=1.0)}


@pytest.fixture
def folder(tmp_path: Path) -> IndexFolder:
    return IndexFolder(tmp_path / "wiki", "wiki")


def started(number: int) -> RunRecord:
    return RunRecord(run=number, started=MOMENT, started_by=starter())


def done(folder: IndexFolder, outcome: Outcome = "published", kept: int = 100) -> RunRecord:
    begun = begin_run(folder, started, kept=kept)
    ended = begun.model_copy(update={"outcome": outcome, "stages": STAGES})
    end_run(folder, ended)
    return ended


def of_process(number: int, process: int, host: str = starter().host) -> RunRecord:
    return started(number).model_copy(update={"started_by": Starter(host=host, process=process)})


def dead_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        return process.pid


def test_runs_are_numbered_and_keep_their_last_line(folder: IndexFolder) -> None:
    first, second = done(folder), done(folder, "unchanged")
    assert (first.run, second.run) == (1, 2)
    assert read_runs(folder) == [first, second]
    assert len(folder.runs.read_bytes().splitlines()) == 4


def test_an_index_without_runs_has_none(folder: IndexFolder) -> None:
    assert read_runs(folder) == []


@pytest.mark.parametrize("cut", [1, 30, 200])
def test_a_line_cut_short_is_skipped_and_the_next_run_removes_it(folder: IndexFolder, cut: int) -> None:
    whole = done(folder)
    done(folder)
    folder.runs.write_bytes(folder.runs.read_bytes()[:-cut])
    assert read_runs(folder)[0] == whole
    third = done(folder)
    assert third.run == 3
    assert [run.outcome for run in read_runs(folder)] == ["published", "killed", "published"]


def test_only_the_newest_are_kept_and_numbers_go_on(folder: IndexFolder) -> None:
    sizes = []
    for _ in range(50):
        done(folder, kept=5)
        sizes.append(folder.runs.stat().st_size)
    assert [run.run for run in read_runs(folder)][-5:] == [46, 47, 48, 49, 50]
    assert len(read_runs(folder)) <= 10
    assert max(sizes) == max(sizes[:20])


def test_a_run_whose_process_is_gone_was_killed_and_one_whose_process_lives_is_running(folder: IndexFolder) -> None:
    dead, here = dead_process(), os.getpid()
    begin_run(folder, lambda number: of_process(number, dead))
    assert read_runs(folder)[0].outcome == "killed"
    begin_run(folder, lambda number: of_process(number, here))
    begin_run(folder, lambda number: of_process(number, dead, host="elsewhere"))
    assert [run.outcome for run in read_runs(folder)] == ["killed", "running", "running"]
    done(folder)
    assert [run.outcome for run in read_runs(folder)] == ["killed", "killed", "killed", "published"]


def test_prefects_process_says_which_flow_run_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT__FLOW_RUN_ID", "abc")
    assert starter().flow_run_id == "abc"
    assert starter("named", "http://page").flow_run_id == "named"
    monkeypatch.delenv("PREFECT__FLOW_RUN_ID")
    assert starter().flow_run_id == ""


def test_many_processes_append_whole_lines(folder: IndexFolder) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom polyhop.schemas.manifest import RunRecord\n"
        "from polyhop.warehouse.files.layout import IndexFolder\n"
        "from polyhop.warehouse.files.versions import begin_run\n"
        f"for _ in range(25):\n begin_run(IndexFolder(Path(sys.argv[1]), 'wiki'), "
        f"lambda n: RunRecord(run=n, started={MOMENT!r}), kept=20)\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code, str(folder.path)]) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert read_runs(folder)[-1].run == 50


def test_no_password_of_a_server_reaches_the_file(folder: IndexFolder) -> None:
    who = starter("run-1", "https://svc:planted-0001@prefect.example/runs/flow-run/run-1")
    begin_run(folder, lambda number: started(number).model_copy(update={"started_by": who}), kept=100)
    assert b"planted-0001" not in folder.runs.read_bytes()
    (run,) = read_runs(folder)
    assert run.started_by.flow_run_url == "https://svc:***@prefect.example/runs/flow-run/run-1"
