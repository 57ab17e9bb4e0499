"""Batches in other processes, on this machine and on a real Dask cluster: the same version, also when one is killed."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import dask
import pytest
from dying_batches import NotingRunner
from prefect_rest import post
from small_indexes import wait_for, write_rows

from polyhop.flows.index import run_index
from polyhop.flows.runner import MOST_DEATHS, DirectRunner, batch_pool, do_batch, portable_work
from polyhop.schemas.errors import ConfigurationError, StoreError, StoreUnavailableError
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings, parse_settings
from polyhop.tasks.extraction.stage import EXTRACT
from polyhop.warehouse.build import Build
from polyhop.warehouse.files.layout import Layout

BATCHES = 4
SIZE = 6


def _settings(root: Path, **more: object) -> Settings:
    known = {"root": str(root), "batch_size": SIZE, "strategies": "dense", "cores": 2}
    return parse_settings({"test": known | {name.replace("__", "."): value for name, value in more.items()}})


def _request(folder: Path) -> IndexRequest:
    texts = [f"Lake {n} lies near Mount {n % 5} in Country {n % 3}." for n in range(BATCHES * SIZE)]
    rows = [{"id": f"p{n:02d}", "title": f"Lake {n}", "text": text} for n, text in enumerate(texts)]
    return IndexRequest("lakes", write_rows(folder / "corpus.jsonl", rows))


def _published(root: Path, index: str = "lakes") -> tuple[object, object]:
    folder = Layout(root).index(index).version(1)
    manifest = json.loads(folder.manifest.read_text())
    return manifest["tables"], manifest["arrays"]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> tuple[object, object]:
    folder = tmp_path_factory.mktemp("local")
    run_index(_settings(folder / "root"), _request(folder), DirectRunner())
    return _published(folder / "root")


@pytest.mark.rare
@pytest.mark.parametrize("kind", ["processes", "dask"])
def test_a_killed_process_costs_a_batch_and_no_more(kind: str, tmp_path: Path, local: tuple[object, object]) -> None:
    settings = _settings(tmp_path / "root", runner__kind=kind)
    with batch_pool(settings) as pool:
        runner = NotingRunner(tmp_path / "notes", pool, "embed-passage", victims=1)
        run_index(settings, _request(tmp_path), runner)
    assert _published(tmp_path / "root") == local
    done = runner.processes()
    assert len(done) == 2 * BATCHES, "batches of extraction and of embedding"
    assert {process for processes in done.values() for process in processes}.isdisjoint({os.getpid()})
    assert len(done["embed-passage-1"]) == 2
    assert runner.times().keys() == {1, 2}, "no batch is lost, none is done more than twice"
    assert not Layout(settings.root).index("lakes").staging.exists()


@pytest.mark.rare
def test_a_batch_that_kills_every_process_ends_the_run_with_a_sentence(tmp_path: Path) -> None:
    settings = _settings(tmp_path / "root", runner__kind="processes")
    with (
        batch_pool(settings) as pool,
        pytest.raises(StoreError, match=r"^A batch of stage extract was given up: .*Lower cores or batch_size"),
    ):
        run_index(settings, _request(tmp_path), NotingRunner(tmp_path / "notes", pool, "extract", victims=100))
    assert len((tmp_path / "notes" / "extract-1").read_text().split()) == MOST_DEATHS
    assert Layout(settings.root).index_names() == []
    report = run_index(settings, _request(tmp_path), DirectRunner())
    assert report.changed
    assert report.computed.get("extract", 0) <= SIZE * (BATCHES - 1), "finished batches were kept"


@pytest.mark.rare
@pytest.mark.parametrize("is_long", [True, False])
def test_by_default_a_long_extraction_is_done_in_other_processes_and_all_else_here(
    tmp_path: Path, local: tuple[object, object], monkeypatch: pytest.MonkeyPatch, is_long: bool
) -> None:
    if is_long:
        monkeypatch.setattr("polyhop.flows.runner.LEAST_UNITS", BATCHES * SIZE)
    settings = _settings(tmp_path / "root")
    assert settings.runner.kind == "auto"
    with batch_pool(settings) as pool:
        runner = NotingRunner(tmp_path / "notes", pool, "", victims=0)
        run_index(settings, _request(tmp_path), runner)
    done = runner.processes()
    assert sorted(name.partition("-")[0] for name in done) == ["embed"] * BATCHES + ["extract"] * BATCHES
    elsewhere = {name.partition("-")[0] for name, processes in done.items() if processes != [os.getpid()]}
    assert elsewhere == ({"extract"} if is_long else set())
    assert _published(tmp_path / "root") == local


@pytest.mark.rare
def test_a_program_that_cannot_be_imported_does_its_batches(tmp_path: Path, local: tuple[object, object]) -> None:
    request = _request(tmp_path)
    program = f"""
from pathlib import Path
from polyhop.flows import runner as pools
from polyhop.flows.index import run_index
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import parse_settings
pools.LEAST_UNITS = 1
known = {{"root": "{tmp_path}/root", "batch_size": {SIZE}, "strategies": "dense", "cores": 2}}
settings = parse_settings({{"test": known}})
with pools.batch_pool(settings) as pool:
    run_index(settings, IndexRequest("lakes", Path("{request.source}")), pools.DirectRunner(pool=pool))
print("published")
"""
    (tmp_path / "run.py").write_text(program)  # no `if __name__ == "__main__"`
    done = subprocess.run([sys.executable, tmp_path / "run.py"], capture_output=True, text=True, check=False)
    assert done.stdout == "published\n", done.stderr
    assert _published(tmp_path / "root") == local


def test_what_is_done_or_is_one_batch_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(dask.config.config, "scheduler-address", "tcp://127.0.0.1:9")
    settings = _settings(tmp_path / "root", runner__kind="dask", batch_size=100)
    with batch_pool(settings) as pool:
        assert run_index(settings, _request(tmp_path), DirectRunner(pool=pool)).changed
        assert not run_index(settings, _request(tmp_path), DirectRunner(pool=pool)).changed
    assert multiprocessing.active_children() == []


def test_a_scheduler_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyhop.flows.runner.CONNECT_SECONDS", 0.3)
    monkeypatch.setitem(dask.config.config, "scheduler-address", "tcp://127.0.0.1:9")
    settings = _settings(tmp_path / "root", runner__kind="dask")
    words = r"^No Dask scheduler answers at tcp://127\.0\.0\.1:9 .*dask scheduler"
    with batch_pool(settings) as pool, pytest.raises(StoreUnavailableError, match=words):
        run_index(settings, _request(tmp_path), DirectRunner(pool=pool))


def test_what_travels_holds_no_address_and_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    secrets = {"queue.url": "postgresql://me:secret@host/db", "models.api_base": "https://me:secret@host"}
    secrets["encoder.api_base"] = "https://me:secret@host"
    settings = parse_settings({"test": {"root": "data", **secrets}})
    build = Build(settings, "lakes", None, (), fingerprints=(("extract", "0" * 64),))
    work = portable_work(EXTRACT, build)
    assert "secret" not in repr(work)
    assert work.build.settings.root == tmp_path / "data"
    with pytest.raises(ConfigurationError, match=r"cannot access .*data; put the root folder on storage that all"):
        do_batch(work, 0, 1)


def test_processes_of_a_run_that_is_killed_end_with_it(tmp_path: Path) -> None:
    program = """
import sys, time
from polyhop.flows.runner import ProcessPool
if __name__ == "__main__":
    pool = ProcessPool(2)
    executor = pool._started()
    list(executor.map(abs, range(4)))
    print(*executor._processes, flush=True)
    time.sleep(60)
"""
    (tmp_path / "run.py").write_text(program)
    run = subprocess.Popen([sys.executable, tmp_path / "run.py"], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    processes = [Path("/proc", process) for process in run.stdout.readline().split()]
    assert processes
    run.send_signal(signal.SIGKILL)
    run.communicate()
    wait_for(lambda: not any(process.exists() for process in processes), 120)


@pytest.mark.rare
@pytest.mark.prefect
@pytest.mark.parametrize("kind", ["processes", "dask"])
def test_a_flow_run_with_a_killed_worker_is_the_same(kind: str, prefect_server: dict[str, str], tmp_path: Path) -> None:
    size, count, root = 10, 150, tmp_path / "polyhop-data"
    texts = [f"Lake {n} is a lake near Mount {n % 50}." for n in range(count)]
    rows = [{"id": f"p{n}", "title": f"Lake {n}", "text": text} for n, text in enumerate(texts)]
    corpus = write_rows(tmp_path / "corpus.jsonl", rows)
    settings = (f"batch_size={size}", "strategies=dense", "cores=2", f"runner.kind={kind}")
    arguments = ["index", str(corpus), "--index", kind, *(word for one in settings for word in ("--set", one))]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("POLYHOP_", "PREFECT_"))}
    command, pipe = [sys.executable, "-m", "polyhop.cli", *arguments], subprocess.PIPE
    run = subprocess.Popen(command, cwd=tmp_path, env=clean | prefect_server, text=True, stdout=pipe, stderr=pipe)
    parts = root / "indexes" / kind / "staging" / "parts"
    wait_for(lambda: run.poll() is not None or any(parts.glob("embed-*/*.done")), 120)
    assert run.poll() is None, "the run ended before a worker was killed"
    assert len([*parts.glob("embed-*/*.done")]) < count / size
    threads = Path(f"/proc/{run.pid}/task").glob("*/children")
    children = [int(pid) for file in threads for pid in file.read_text().split()]
    workers = [pid for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGKILL)
    _, complaints = run.communicate(timeout=200)
    assert run.returncode == 0, complaints
    assert [line for line in complaints.splitlines() if "leaked" in line] == []

    run_index(_settings(root, batch_size=size), IndexRequest("local", corpus), DirectRunner())
    assert _published(root, kind) == _published(root, "local")
    (ours,) = (each for each in post(prefect_server, "/flow_runs/filter") if each["parameters"].get("index") == kind)
    assert ours["state_type"] == "COMPLETED"
    tasks = post(prefect_server, "/task_runs/filter", {"flow_runs": {"id": {"any_": [ours["id"]]}}})
    batches = [task["state_type"] for task in tasks if task["name"].startswith("embed-passage batch")]
    assert batches == ["COMPLETED"] * (count // size)
