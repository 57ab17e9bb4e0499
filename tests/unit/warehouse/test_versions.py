"""Versions are published, pinned, held and pruned; an index has one writer, for whom others wait."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest
from empty_version import publish_empty

from polyhop.schemas.errors import (
    ConfigurationError,
    ManifestMismatchError,
    StoreConflictError,
    StoreError,
    UnknownIdError,
    UnknownIndexError,
)
from polyhop.schemas.manifest import EncoderRecord, VectorRecord
from polyhop.warehouse.files import versions as writer
from polyhop.warehouse.files.disk import write_whole, writing
from polyhop.warehouse.files.layout import IndexFolder, Layout
from polyhop.warehouse.files.versions import (
    current_version,
    hold_version,
    latest_version,
    pinned_version,
    point_to,
    prune_versions,
    published_versions,
    read_lease,
    read_manifest,
    remove_leftovers,
    require_version,
    writer_lease,
)
from polyhop.warehouse.machine import is_running, machine, now, peak_rss_mb, user_name
from polyhop.warehouse.tables.query import query_rows


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


@pytest.fixture
def index(layout: Layout) -> IndexFolder:
    """The folder of an index that has two versions."""
    folder = layout.index("a")
    publish_empty(folder, 1)
    publish_empty(folder, 2)
    return folder


def test_publishing_makes_a_version_current(layout: Layout, index: IndexFolder) -> None:
    assert published_versions(index) == [1, 2]
    assert current_version(index) == 2
    assert read_manifest(index.version(2)).version == 2
    assert layout.index_names() == ["a"]


def test_a_pinned_version_stays_current_while_others_are_published_and_pruned_beside_it(index: IndexFolder) -> None:
    point_to(index, 1, is_pinned=True)
    publish_empty(index, 3)
    assert (current_version(index), pinned_version(index), latest_version(index)) == (1, 1, 3)
    assert (published_versions(index), prune_versions(index, keep=1)) == ([1, 2, 3], [2])
    point_to(index, 3)
    publish_empty(index, 4)
    assert (current_version(index), pinned_version(index), latest_version(index)) == (4, None, 4)


def test_a_kill_while_a_version_is_published_beside_a_pinned_one_publishes_nothing(index: IndexFolder) -> None:
    point_to(index, 1, is_pinned=True)
    index.publishing.write_text("2\n")
    assert (published_versions(index), remove_leftovers(index), latest_version(index)) == ([1], [2], 1)


def test_a_damaged_pointer_pins_nothing_and_the_next_version_becomes_current(index: IndexFolder) -> None:
    point_to(index, 1, is_pinned=True)
    for damaged in ("x", "7\n"):
        index.current.write_text(damaged)
        assert pinned_version(index) is None
    (index.versions / "000003").mkdir()  # as a kill leaves it before the pointer moves
    assert published_versions(index) == [1, 2]
    publish_empty(index, 3)
    assert (current_version(index), pinned_version(index), index.pinned.exists()) == (3, None, False)


def test_a_folder_left_by_a_crash_before_the_pointer_moved_is_replaced(index: IndexFolder) -> None:
    (index.versions / "000003").mkdir()
    assert published_versions(index) == [1, 2]
    publish_empty(index, 3)
    assert current_version(index) == 3


def test_a_version_that_was_never_current_does_not_count_and_goes(layout: Layout, index: IndexFolder) -> None:
    """As a kill leaves it between the rename of its folder and that of the pointer."""
    index.current.write_text("1\n")
    index.publishing.write_text("2\n")
    (index.path / ".CURRENT.123.tmp").write_text("2\n")
    assert published_versions(index) == [1]
    with pytest.raises(UnknownIdError, match="no version 2; it has 1"):
        require_version(layout, "a", 2)
    assert remove_leftovers(index) == [2]
    assert sorted(path.name for path in index.path.iterdir() if path.is_file()) == ["CURRENT"]
    assert [folder.name for folder in index.versions.iterdir()] == ["000001"]


def test_a_version_that_became_current_before_a_kill_stays(layout: Layout, index: IndexFolder) -> None:
    index.publishing.write_text("2\n")
    assert published_versions(index) == [1, 2]
    assert remove_leftovers(index) == []
    point_to(index, 1)
    assert published_versions(index) == [1, 2]
    assert require_version(layout, "a")[0] == 1


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "x" * 200, "a b"])
def test_a_name_that_is_no_folder_name_is_refused(layout: Layout, name: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a name for an index"):
        layout.index(name)


def test_pruning_keeps_the_newest_the_current_and_those_in_use(layout: Layout, index: IndexFolder) -> None:
    for number in range(3, 7):
        publish_empty(index, number)
    point_to(index, 2)
    with hold_version(layout, "a", 3) as held:
        assert (held.number, held.folder) == (3, index.version(3))
        assert prune_versions(index, keep=2) == [1, 4]
    assert prune_versions(index, keep=2) == [3]
    assert published_versions(index) == [2, 5, 6]


def test_what_a_killed_removal_left_goes_away_and_the_current_version_never_does(index: IndexFolder) -> None:
    publish_empty(index, 3)
    index.version(1).manifest.unlink()  # as a kill between removing the manifest and the rest leaves it
    index.version(3).manifest.unlink()
    assert remove_leftovers(index) == [1]
    assert sorted(folder.name for folder in index.versions.iterdir()) == ["000002", "000003"]


@pytest.mark.parametrize(("pointer", "words"), [("7\n", r"version 7.*has 1, 2.*"), ("nonsense", "")])
def test_a_wrong_pointer_says_how_to_set_it(layout: Layout, index: IndexFolder, pointer: str, words: str) -> None:
    index.current.write_text(pointer)
    with pytest.raises(ManifestMismatchError, match=words + "polyhop versions --index a --use N"):
        require_version(layout, "a")


def test_what_is_unknown_or_damaged_is_named(layout: Layout, index: IndexFolder) -> None:
    with pytest.raises(UnknownIndexError, match=r"Unknown index 'x' .*known indexes: a.*polyhop index SOURCE"):
        require_version(layout, "x")
    index.version(1).manifest.write_text("{}")
    with pytest.raises(ManifestMismatchError, match=r"manifest\.json"):
        read_manifest(index.version(1))
    with pytest.raises(StoreError, match="the disk is full"), writing("x", layout.root):
        raise OSError(28, "No space left on device")
    write_whole(layout.root / "f", b"old")
    with pytest.raises(TypeError):
        write_whole(layout.root / "f", "no bytes")  # type: ignore[arg-type]
    assert [path.read_bytes() for path in layout.root.glob("*f*")] == [b"old"]


def test_queries_never_fail_while_versions_come_and_go(layout: Layout, tmp_path: Path) -> None:
    """The version that a query reads used to be pruned under it, or between looking it up and opening it."""
    index, is_enough, published = layout.index("a"), threading.Event(), [1]
    with duckdb.connect(str(tmp_path / "one.duckdb")) as connection:
        connection.execute("CREATE TABLE passages AS SELECT range AS n FROM range(10)")
    tables = (tmp_path / "one.duckdb").read_bytes()
    publish_empty(index, 1, tables)

    def publish_and_prune() -> None:
        while not is_enough.is_set():
            published.append(published[-1] + 1)
            publish_empty(index, published[-1], tables)
            prune_versions(index, keep=1)

    writer = threading.Thread(target=publish_and_prune)
    writer.start()
    reads = 0
    try:
        while reads < 20 or len(published) < 50:
            assert query_rows(layout, "a", "SELECT count(*) AS n FROM passages").to_pylist() == [{"n": 10}]
            reads += 1
    finally:
        is_enough.set()
        writer.join()
    prune_versions(index, keep=1)
    assert published_versions(index) == published[-1:]


def test_a_manifest_keeps_the_name_under_which_the_version_of_a_table_is_stored() -> None:
    """Versions that were published when the store was called by its maker's name must open, and be written alike."""
    stored = {"table": "passages", "lance_version": 4, "rows": 2, "dimension": 3, "model": "m", "hnsw": None}
    record = VectorRecord.model_validate(stored)
    assert record.table_version == 4
    written = record.model_dump(mode="json", exclude={"encoder"})
    assert written == stored
    assert list(written) == list(stored)
    assert record.encoder == EncoderRecord()  # versions from before there was a choice have the local one
    assert record == VectorRecord(table="passages", table_version=4, rows=2, dimension=3, model="m")


HOLDS = (
    "import sys; from pathlib import Path; from polyhop.warehouse.files.versions import writer_lease\n"
    "with writer_lease(Path(sys.argv[1]), 'a'):\n    print('held', flush=True); sys.stdin.read()"
)


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


def test_who_waits_says_for_whom_and_writes_next(
    index: IndexFolder, other: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_POLL_SECONDS", 0.01)
    with pytest.raises(StoreConflictError), writer_lease(index.lease, "a", wait_seconds=0.05):
        pass
    said: list[str] = []
    threading.Timer(0.2, other.kill).start()
    with writer_lease(index.lease, "a", wait_seconds=60, on_wait=said.append):
        assert [f"process {other.pid} of" in sentence for sentence in said] == [True]


def test_another_hosts_lease_counts_until_it_runs_out_and_one_of_this_host_only_with_its_lock(
    index: IndexFolder,
) -> None:
    left_by(index, host="elsewhere", seconds=30)
    with pytest.raises(StoreConflictError, match="process 1 of ada@elsewhere"), writer_lease(index.lease, "a"):
        pass
    assert str(read_lease(index)).startswith("process 1 of ada@elsewhere (since 2026-01-02 03:04:05 UTC")
    for host, seconds, pid in (("elsewhere", -1, 1), (socket.gethostname(), 30, os.getpid())):
        left_by(index, host=host, seconds=seconds, pid=pid)
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


@pytest.mark.parametrize(
    ("host", "error", "runs"),
    [("", None, True), ("", ProcessLookupError, False), ("", PermissionError, True), ("elsewhere", None, None)],
)
def test_a_process_of_this_host_runs_unless_it_is_not_there(
    monkeypatch: pytest.MonkeyPatch, host: str, error: type[OSError] | None, runs: bool | None
) -> None:
    def kill(process: int, signal: int) -> None:
        assert (process, signal) == (4321, 0)
        if error is not None:
            raise error

    monkeypatch.setattr(os, "kill", kill)
    assert is_running(host or socket.gethostname(), 4321) is runs


def test_a_user_without_a_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    assert user_name()

    def unknown() -> str:
        raise KeyError

    monkeypatch.setattr("getpass.getuser", unknown)
    assert user_name() == f"user {os.getuid()}"


def test_memory_and_machine_are_stated() -> None:
    assert 10 < peak_rss_mb() < 1_000_000
    assert machine()["cores"] == os.cpu_count()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", now())
