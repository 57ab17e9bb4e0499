"""An index has one writer; the others are told who it is, or wait."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from polyhop.schemas.errors import StoreConflictError
from polyhop.warehouse.files import versions as writer
from polyhop.warehouse.files.layout import IndexFolder, Layout
from polyhop.warehouse.files.versions import read_lease, writer_lease

HOLDS = (
    "import sys; from pathlib import Path; from polyhop.warehouse.files.versions import writer_lease\n"
    "with writer_lease(Path(sys.argv[1]), 'a'):\n    print('held', flush=True); sys.stdin.read()"
)


@pytest.fixture
def index(tmp_path: Path) -> IndexFolder:
    folder = Layout(tmp_path).index("a")
    folder.path.mkdir(parents=True)
    return folder


@pytest.fixture
def other(index: IndexFolder) -> Iterator[subprocess.Popen[str]]:
    """Another process that writes the index."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(index.lease)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def left_by(index: IndexFolder, *, host: str, seconds: float, pid: int = 1) -> None:
    """What a writer that never removed its lease leaves; it runs out in so many seconds."""
    until = datetime.now(UTC) + timedelta(seconds=seconds)
    document = {"user": "ada", "host": host, "pid": pid, "since": "2026-01-02T03:04:05+00:00"}
    index.lease.write_text(json.dumps({**document, "until": until.isoformat()}), encoding="utf-8")


def test_a_second_writer_is_told_who_the_first_is_until_that_is_dead(
    index: IndexFolder, other: subprocess.Popen[str]
) -> None:
    words = (
        rf"is being written by process {other.pid} of .+@{socket.gethostname()} \(since .* UTC; unless .* UTC\); wait"
    )
    with pytest.raises(StoreConflictError, match=words), writer_lease(index.lease, "a"):
        pass
    lease = read_lease(index)
    assert lease is not None
    assert (lease.pid, lease.until > lease.since) == (other.pid, True)
    other.kill()
    other.wait()
    assert read_lease(index) is None
    with writer_lease(index.lease, "a"):
        held = read_lease(index)
        assert held is not None
        assert held.pid == os.getpid()
    assert read_lease(index) is None


def test_who_waits_says_for_whom_and_writes_next(index: IndexFolder, other: subprocess.Popen[str]) -> None:
    said: list[str] = []
    threading.Timer(0.2, other.kill).start()
    with writer_lease(index.lease, "a", wait_seconds=60, on_wait=said.append):
        assert [f"process {other.pid} of" in sentence for sentence in said] == [True]


def test_a_wait_has_an_end(index: IndexFolder, other: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_POLL_SECONDS", 0.01)
    with pytest.raises(StoreConflictError), writer_lease(index.lease, "a", wait_seconds=0.05):
        pass
    assert other.poll() is None


def test_another_hosts_lease_counts_until_it_runs_out(index: IndexFolder) -> None:
    left_by(index, host="elsewhere", seconds=30)
    with pytest.raises(StoreConflictError, match="process 1 of ada@elsewhere"), writer_lease(index.lease, "a"):
        pass
    assert str(read_lease(index)).startswith("process 1 of ada@elsewhere (since 2026-01-02 03:04:05 UTC")
    left_by(index, host="elsewhere", seconds=-1)
    assert read_lease(index) is None
    with writer_lease(index.lease, "a"):
        pass


def test_a_lease_of_this_host_without_its_lock_is_taken_over_at_once(index: IndexFolder) -> None:
    left_by(index, host=socket.gethostname(), seconds=30, pid=os.getpid())
    with writer_lease(index.lease, "a"):
        pass


@pytest.mark.parametrize("content", ["", '{"pid": 5, "host": "old"}', "no JSON"])
def test_a_file_that_does_not_say_who_writes_stops_nobody(index: IndexFolder, content: str) -> None:
    index.lease.write_text(content)
    assert read_lease(index) is None
    with writer_lease(index.lease, "a"):
        pass


def test_a_lease_is_renewed_while_its_holder_works(index: IndexFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    renewed = threading.Event()
    written = []
    write = writer._write

    def noted(descriptor: int, since: datetime) -> None:
        write(descriptor, since)
        written.append(since)
        if len(written) == 3:
            renewed.set()

    monkeypatch.setattr(writer, "_write", noted)
    monkeypatch.setattr(writer, "LEASE_SECONDS", 0.03)
    with writer_lease(index.lease, "a"):
        assert renewed.wait(20)
    assert len(set(written)) == 1
