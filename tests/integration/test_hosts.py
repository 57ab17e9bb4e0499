"""Batches on Dask workers of other hosts: folders of their own, no disk in common, a real S3 server between them."""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3  # type: ignore[import-untyped]
import dask
import pytest
from moto.server import ThreadedMotoServer
from small_indexes import wait_for, write_rows

from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner, batch_pool
from polyhop.schemas.errors import ConfigurationError, StoreUnavailableError
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings, parse_settings
from polyhop.warehouse.files.layout import Layout

pytestmark = [pytest.mark.filterwarnings("ignore::ResourceWarning"), pytest.mark.xdist_group("hosts")]
SIZE, BATCHES = 6, 20
CORPUS = [
    {"id": f"p{n:03d}", "title": f"Lake {n}", "text": f"Lake {n} lies near Mount {n % 5} in Country {n % 3}."}
    for n in range(SIZE * BATCHES)
]


def published(root: Path, number: int = 1) -> tuple[object, object]:
    manifest = json.loads(Layout(root).index("lakes").version(number).manifest.read_text())
    return manifest["tables"], manifest["arrays"]


class Cluster:
    """A scheduler, and two hosts that have a worker and a root folder each; keys of the store's objects."""

    def __init__(self, folder: Path, store: Callable[[], list[str]]) -> None:
        self._folder, self.objects = folder, store
        self._log = (folder / "cluster.log").open("a")
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str, **variables: str) -> subprocess.Popen[bytes]:
        """A process of the cluster; the scheduler is found by its file."""
        variables["DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL"] = "4s"  # a worker that says nothing for so long is gone
        command = [sys.executable, "-m", "dask", *words, "--scheduler-file", str(self._folder / "scheduler.json")]
        environment = {**os.environ, **variables}
        self.processes.append(subprocess.Popen(command, env=environment, stdout=self._log, stderr=self._log))
        return self.processes[-1]

    def begin(self) -> list[subprocess.Popen[bytes]]:
        """Starts all of it; returns the scheduler and the workers."""
        file = self._folder / "scheduler.json"
        file.unlink(missing_ok=True)
        scheduler = self.start("scheduler", "--port", "0", "--no-dashboard")
        wait_for(lambda: file.exists() and file.read_text().rstrip().endswith("}"))
        workers = []
        for host in ("a", "b"):
            folder = self._folder / host
            folder.mkdir(exist_ok=True)
            words = ("--local-directory", str(folder), "--no-nanny", "--nthreads", "1", "--no-dashboard")
            workers.append(self.start("worker", *words, POLYHOP_ROOT=str(folder / "polyhop-data")))
        dask.config.set({"scheduler-address": json.loads(file.read_text())["address"]})
        return [scheduler, *workers]

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        self._log.close()


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server, bucket = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False), f"b{uuid4().hex[:12]}"
    server.start()
    address = "http://{}:{}".format(*server.get_host_and_port())
    secrets = {"ACCESS_KEY_ID": "someone", "SECRET_ACCESS_KEY": "secret", "DEFAULT_REGION": "us-east-1"}
    for name, value in {**secrets, "ENDPOINT_URL": address}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    client: Any = boto3.client("s3")
    client.create_bucket(Bucket=bucket)
    monkeypatch.setenv("POLYHOP_INDEX__REMOTE", f"s3://{bucket}/team")
    made = Cluster(tmp_path, lambda: [one["Key"] for one in client.list_objects_v2(Bucket=bucket).get("Contents", ())])
    with dask.config.set({"scheduler-address": None}):
        yield made
        made.end()
    server.stop()


def settings_of(root: Path, **more: str) -> Settings:
    known = {"root": str(root), "batch_size": SIZE, "strategies": "dense", "cores": 2, "runner.kind": "dask"}
    return parse_settings({"test": known | {name.replace("__", "."): value for name, value in more.items()}})


def index(root: Path, source: Path, kind: str = "dask", on_progress: Any = None) -> Any:
    remote = os.environ["POLYHOP_INDEX__REMOTE"] if kind == "dask" else ""
    settings = settings_of(root, runner__kind=kind, index__remote=remote)
    with batch_pool(settings) as pool:
        return run_index(settings, IndexRequest("lakes", source), DirectRunner(on_progress, pool=pool))


def test_workers_with_folders_of_their_own_make_the_version_of_one_process_whoever_dies(
    cluster: Cluster, tmp_path: Path
) -> None:
    source, far, near = write_rows(tmp_path / "corpus.jsonl", CORPUS), tmp_path / "far", tmp_path / "near"
    _, slow, killed = cluster.begin()
    seen: dict[str, int] = {}

    def disturb(stage: str, done: int, _total: int) -> None:
        if stage == "extract" and done and stage not in seen:
            slow.send_signal(signal.SIGSTOP)  # it says nothing any more: what it holds is given to the other one
        if stage == "embed-passage" and done and stage not in seen:
            slow.send_signal(signal.SIGCONT)
            cluster.start("worker", "--no-nanny", "--local-directory", str(tmp_path / "c"), POLYHOP_ROOT=str(tmp_path))
            killed.kill()
        seen[stage] = done
        if stage in ("extract", "embed-passage") and done:
            assert any("/lakes/run-" in key for key in cluster.objects())

    index(far, source, on_progress=disturb)
    assert (seen["extract"], seen["embed-passage"]) == (len(CORPUS), len(CORPUS))
    index(near, source, "local")
    assert published(far) == published(near)
    assert [key for key in cluster.objects() if "/run-" in key] == []

    edited = [{**row, "text": f"{row['text']} It is deep."} if n % 4 else row for n, row in enumerate(CORPUS)]
    write_rows(source, edited)
    for root, kind in ((far, "dask"), (near, "local")):
        assert index(root, source, kind).changes["changed"] == len(CORPUS) * 3 // 4
    assert published(far, 2) == published(near, 2)


@pytest.mark.rare
def test_a_scheduler_that_dies_ends_the_run_and_the_next_one_goes_on(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polyhop.flows.runner.CONNECT_SECONDS", 3)
    source, far, near = write_rows(tmp_path / "corpus.jsonl", CORPUS), tmp_path / "far", tmp_path / "near"
    scheduler, *workers = cluster.begin()

    def kill(stage: str, done: int, _total: int) -> None:
        if stage == "embed-passage" and done:
            scheduler.kill()

    with pytest.raises(StoreUnavailableError, match=r"^The Dask scheduler at tcp://.* broke off; run again"):
        index(far, source, on_progress=kill)
    for worker in workers:
        worker.kill()
    cluster.begin()
    assert index(far, source).computed.get("extract", 0) == 0
    index(near, source, "local")
    assert published(far) == published(near)


def test_without_a_store_workers_elsewhere_are_named(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_rows(tmp_path / "corpus.jsonl", CORPUS)
    cluster.begin()
    monkeypatch.setenv("POLYHOP_INDEX__REMOTE", "")
    with pytest.raises(ConfigurationError, match=r"cannot access .*far; .* or name a store that they reach"):
        index(tmp_path / "far", source)
