"""Versions are published, pinned, held and pruned by one writer; files are written whole, numbered, by many at once."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from unittest.mock import Mock, call

import duckdb
import pytest
from command_processes import line_of
from empty_version import publish_empty

from polyhop.schemas import errors
from polyhop.schemas.errors import ConfigurationError, ContractError, StoreConflictError, StoreError, UnknownIdError
from polyhop.schemas.manifest import Outcome, RunRecord, StageUse, Starter, VectorRecord
from polyhop.schemas.records import EntityEdit
from polyhop.schemas.settings import Settings
from polyhop.warehouse.cache.database import DocumentCache
from polyhop.warehouse.files import evaluations, versions
from polyhop.warehouse.files.disk import require_writable, write_json_lines
from polyhop.warehouse.files.evaluations import check_folder, read_run, run_numbers, store_run
from polyhop.warehouse.files.layout import IndexFolder, Layout
from polyhop.warehouse.files.versions import point_to, published_versions, read_lease, read_runs, writer_lease
from polyhop.warehouse.inbox import keep_records
from polyhop.warehouse.machine import is_running
from polyhop.warehouse.open import open_questions
from polyhop.warehouse.tables.query import query_rows
from polyhop.warehouse.user_files import change_edits, read_edits

HOLDS = (
    "import sys; from pathlib import Path; from polyhop.warehouse.files.versions import writer_lease\n"
    "with writer_lease(Path(sys.argv[1]), 'a'):\n    print('held', flush=True); sys.stdin.read()"
)
ROWS: list[dict[str, object]] = [{"a": 1}, {"b": "é\n東京"}]
RUN = {"index": "i", "version": 1, "questions": {}, "strategies": [], "parameters": {}}
RUN |= {"settings_hash": "x", "results": {}}
TIMINGS = {"started": "2026-01-01", "strategies": {}}
ROW = {"id": "q", "question": "one\u2028two\x85three\rfour", "strategy": "bm25", "answer": "", "guess": "Ada"}
FILES = {
    "run.json": json.dumps(RUN).encode(),
    "timings.json": json.dumps(TIMINGS).encode(),
    "questions.jsonl": (json.dumps(ROW, ensure_ascii=False) + "\n").encode() * 2,
}
MOMENT = "2026-01-02T03:04:05+00:00"
APPEND = """
import sys
from pathlib import Path
from polyhop.schemas.manifest import RunRecord
from polyhop.schemas.records import EntityEdit, with_edit
from polyhop.warehouse.files.layout import IndexFolder
from polyhop.warehouse.files.versions import begin_run
from polyhop.warehouse.user_files import change_edits
folder = IndexFolder(Path(sys.argv[1]), "wiki")
sys.stdin.read()
for n in range(20):
    begin_run(folder, lambda n: RunRecord(run=n, started=sys.argv[2]), kept=20)
    change_edits(folder, lambda edits: with_edit(edits, EntityEdit("delete", f"{sys.argv[3]} {n}", "")))
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


@pytest.fixture
def index(layout: Layout) -> IndexFolder:
    folder = layout.index("a")
    for number in (1, 2):
        publish_empty(folder, number)
    return folder


def current_and_pinned(index: IndexFolder) -> tuple[int | None, int | None]:
    return versions.current_version(index), versions.pinned_version(index)


def test_a_pinned_version_stays_current_while_others_are_published_and_pruned_beside_it(index: IndexFolder) -> None:
    point_to(index, 1, is_pinned=True)
    publish_empty(index, 3)
    assert current_and_pinned(index) == (1, 1)
    assert (published_versions(index), versions.prune_versions(index, keep=1)) == ([1, 2, 3], [2])
    point_to(index, 3)
    publish_empty(index, 4)
    assert (*current_and_pinned(index), versions.latest_version(index)) == (4, None, 4)


def test_a_damaged_pointer_pins_nothing_and_the_next_version_becomes_current(index: IndexFolder) -> None:
    (index.versions / "000003" / "arrays").mkdir(parents=True)  # as a kill leaves it before the pointer moves
    assert published_versions(index) == [1, 2]
    point_to(index, 1, is_pinned=True)
    for damaged in ("x", "7\n"):
        index.current.write_text(damaged)
        assert (versions.pinned_version(index), published_versions(index)) == (None, [1, 2])
    publish_empty(index, 3)
    assert (*current_and_pinned(index), index.pinned.exists()) == (3, None, False)


@pytest.mark.parametrize("is_pinned", [False, True])
def test_a_version_that_was_never_current_goes(layout: Layout, index: IndexFolder, is_pinned: bool) -> None:
    """As a kill leaves it between the rename of its folder and that of the pointer."""
    point_to(index, 1, is_pinned=is_pinned)
    index.publishing.write_text("2\n")
    (index.path / ".CURRENT.123.tmp").write_text("2\n")
    assert published_versions(index) == [1]
    with pytest.raises(UnknownIdError, match="no version 2; it has 1"):
        versions.require_version(layout, "a", 2)
    assert (versions.remove_leftovers(index), versions.latest_version(index)) == ([2], 1)
    assert not list(index.path.glob(".CURRENT*"))
    assert names_in(index.versions) == ["000001"]


def test_a_version_that_became_current_before_a_kill_stays(layout: Layout, index: IndexFolder) -> None:
    index.publishing.write_text("2\n")
    assert (published_versions(index), versions.remove_leftovers(index)) == ([1, 2], [])
    point_to(index, 1)
    assert (published_versions(index), versions.require_version(layout, "a")[0]) == ([1, 2], 1)


@pytest.mark.parametrize(
    ("strategies", "expected"), [(["bm25", "bridge"], "bridge"), (["rrf", "bm25"], "rrf"), ([], "bridge")]
)
def test_the_default_strategy_is_one_that_the_version_was_built_for(
    index: IndexFolder, strategies: list[str], expected: str
) -> None:
    manifest = versions.read_manifest(index.version(1))
    built = manifest.model_copy(update={"settings": {"strategies": strategies}})
    assert versions.default_strategy(built) == expected


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "x" * 200, "a b"])
def test_a_name_that_is_no_folder_name_is_refused(layout: Layout, name: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a name for an index"):
        layout.index(name)


def test_pruning_keeps_the_newest_the_current_and_those_in_use(layout: Layout, index: IndexFolder) -> None:
    for number in range(3, 7):
        publish_empty(index, number)
    point_to(index, 2)
    with versions.hold_version(layout, "a", 3) as held:
        assert (held.number, held.folder) == (3, index.version(3))
        assert versions.prune_versions(index, keep=2) == [1, 4]
    assert (versions.prune_versions(index, keep=2), published_versions(index)) == ([3], [2, 5, 6])


def test_what_a_killed_removal_left_goes_away_and_the_current_version_never_does(index: IndexFolder) -> None:
    publish_empty(index, 3)
    index.version(1).manifest.unlink()  # as a kill between removing the manifest and the rest leaves it
    index.version(3).manifest.unlink()
    assert versions.remove_leftovers(index) == [1]
    assert names_in(index.versions) == ["000002", "000003"]


@pytest.mark.parametrize(("pointer", "words"), [("7\n", r"version 7.*has 1, 2.*"), ("nonsense", "")])
def test_a_wrong_pointer_says_how_to_set_it(layout: Layout, index: IndexFolder, pointer: str, words: str) -> None:
    index.current.write_text(pointer)
    with pytest.raises(errors.ManifestMismatchError, match=words + "polyhop versions --index a --use N"):
        versions.require_version(layout, "a")


def test_what_is_unknown_or_damaged_is_named(layout: Layout, index: IndexFolder) -> None:
    (layout.indexes / "begun").mkdir()  # nothing was published in it yet
    with pytest.raises(errors.UnknownIndexError, match=r"Unknown index 'x' .*known indexes: a[^,].*polyhop index S"):
        versions.require_version(layout, "x")
    index.version(1).manifest.write_text("{}")
    with pytest.raises(errors.ManifestMismatchError, match=r"manifest\.json"):
        versions.read_manifest(index.version(1))


@pytest.mark.rare
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
            versions.prune_versions(index, keep=1)

    thread, reads = threading.Thread(target=publish_and_prune), 0
    thread.start()
    try:
        while reads < 20 or len(published) < 50:
            assert query_rows(layout, "a", "SELECT count(*) AS n FROM passages").to_pylist() == [{"n": 10}]
            reads += 1
    finally:
        is_enough.set()
        thread.join()
    versions.prune_versions(index, keep=1)
    assert published_versions(index) == published[-1:]


def test_a_manifest_keeps_the_name_under_which_the_version_of_a_table_is_stored() -> None:
    """Versions that were published when the store was called by its maker's name must open, and be written alike."""
    stored = {"table": "passages", "lance_version": 4, "rows": 2, "dimension": 3, "model": "m", "hnsw": None}
    record = VectorRecord.model_validate(stored)
    assert record.model_dump(mode="json", exclude={"encoder"}) == {**stored, "partitions": None}
    assert record == VectorRecord(table="passages", table_version=4, rows=2, dimension=3, model="m")


def left_by(index: IndexFolder, *, host: str, seconds: float, pid: int = 1) -> None:
    """What a writer that never removed its lease leaves; it runs out in so many seconds."""
    until = datetime.now(UTC) + timedelta(seconds=seconds)
    document = {"user": "ada", "host": host, "pid": pid, "since": "2026-01-02T03:04:05+00:00"}
    index.lease.write_text(json.dumps({**document, "until": until.isoformat()}), encoding="utf-8")


def test_a_second_writer_waits_for_the_first(index: IndexFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", HOLDS, str(index.lease)]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert line_of(other) == "held\n"
    words = rf"written by process {other.pid} of .+@{socket.gethostname()} \(since .* UTC; unless .* UTC\); wait"
    monkeypatch.setattr(versions, "_POLL_SECONDS", 0.01)
    for wait in (0, 0.05):
        with pytest.raises(StoreConflictError, match=words), writer_lease(index.lease, "a", wait_seconds=wait):
            pass
    lease: Any = read_lease(index)
    assert (lease.pid, lease.until > lease.since) == (other.pid, True)
    said: list[str] = []
    threading.Timer(0.2, other.kill).start()
    with writer_lease(index.lease, "a", wait_seconds=60, on_wait=said.append):
        assert [f"process {other.pid} of" in sentence for sentence in said] == [True]
        lease = read_lease(index)
        assert lease.pid == os.getpid()
    assert read_lease(index) is None
    other.communicate()


def test_another_hosts_lease_counts_until_it_runs_out_and_ours_with_its_lock(index: IndexFolder) -> None:
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
    write, written = versions._write, SimpleQueue[datetime]()

    def noted(descriptor: int, since: datetime) -> None:
        write(descriptor, since)
        written.put(since)

    monkeypatch.setattr(versions, "_write", noted)
    monkeypatch.setattr(versions, "LEASE_SECONDS", 0.03)
    with writer_lease(index.lease, "a"):
        assert len({written.get(timeout=20) for _ in range(3)}) == 1


@pytest.mark.parametrize(
    ("host", "error", "runs"),
    [("", None, True), ("", ProcessLookupError, False), ("", PermissionError, True), ("elsewhere", None, None)],
)
def test_is_running(monkeypatch: pytest.MonkeyPatch, host: str, error: type[OSError] | None, runs: bool | None) -> None:
    kill = Mock(side_effect=error)
    monkeypatch.setattr(os, "kill", kill)
    assert is_running(host or socket.gethostname(), 4321) is runs
    assert kill.call_args_list == ([] if host else [call(4321, 0)])


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_error_of_a_row_leaves_the_file_before_and_nothing_beside_it_and_a_link_stays_a_link(tmp_path: Path) -> None:
    def broken() -> Iterator[dict[str, object]]:
        yield {"new": 1}
        raise KeyboardInterrupt

    path, link = tmp_path / "rows.jsonl", tmp_path / "link.jsonl"
    path.write_bytes(b"before")
    link.symlink_to(path)
    with pytest.raises(KeyboardInterrupt):
        write_json_lines(path, broken(), "the rows")
    assert (path.read_bytes(), names_in(tmp_path)) == (b"before", ["link.jsonl", "rows.jsonl"])
    write_json_lines(link, ROWS[:1], "the rows")
    assert (link.is_symlink(), path.read_bytes()) == (True, b'{"a": 1}\n')


def test_a_place_where_no_file_can_be_is_said_with_what_was_to_be_written(tmp_path: Path) -> None:
    path = tmp_path / "none" / "rows.jsonl"
    for work in (lambda: write_json_lines(path, ROWS, "the scores"), lambda: require_writable(path, "the scores")):
        with pytest.raises(StoreError, match=r"the scores.*there is no folder .*none; create it first"):
            work()
    with pytest.raises(StoreError, match=r"the scores.*that is a folder; name a file"):
        require_writable(tmp_path, "the scores")
    require_writable(tmp_path / "new.jsonl", "the scores")
    assert names_in(tmp_path) == []


def test_evaluations_are_numbered_from_one_and_read_as_they_were_stored(tmp_path: Path) -> None:
    folder = tmp_path / "evaluations"
    assert (run_numbers(folder), store_run(folder, FILES)) == ([], (1, folder / "000001"))
    assert store_run(folder, {**FILES, "plot.png": b"\x89PNG"}) == (2, folder / "000002")
    assert run_numbers(folder) == [1, 2]
    stored = read_run(folder, 2)
    assert (stored.run, stored.timings, stored.question_rows()) == (RUN, TIMINGS, [ROW, ROW])
    assert names_in(stored.path) == sorted([*FILES, "plot.png"])
    assert names_in(folder) == ["000001", "000002"]


def test_a_number_is_not_given_twice_where_many_store_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluations, "run_numbers", lambda *_: [])  # nobody sees what another has just stored
    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda _: store_run(tmp_path / "evaluations", FILES)[0], range(24)))
    assert sorted(numbers) == list(range(1, 25))
    assert len(names_in(tmp_path / "evaluations")) == 24


def test_what_a_killed_process_left_behind_goes_after_a_day(tmp_path: Path) -> None:
    for name, age in ((".old.tmp", 2 * 86_400), (".new.tmp", 60)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_bytes(b"{")
        os.utime(tmp_path / name, (time.time() - age, time.time() - age))
    store_run(tmp_path, FILES)
    assert names_in(tmp_path) == [".new.tmp", "000001"]


def test_only_names_that_are_numbers_count_and_none_is_used_again(tmp_path: Path) -> None:
    store_run(tmp_path, FILES)
    for name in ("²", "٣", "old", "000002"):
        shutil.copytree(tmp_path / "000001", tmp_path / name)
    (tmp_path / "000001").rename(tmp_path / "gone")
    assert (run_numbers(tmp_path), store_run(tmp_path, FILES)[0]) == ([2], 3)


def test_nothing_is_seen_of_an_evaluation_whose_writing_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluations, "sync_file", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(StoreError, match="the disk is full"):
        store_run(tmp_path / "evaluations", FILES)
    assert names_in(tmp_path / "evaluations") == []


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("run.json", b"[]", "it is not a JSON object"),
        ("timings.json", b'{"strategies": {}}', "it has no 'started'"),
        ("timings.json", b"{half", ""),
        ("questions.jsonl", b"[1]\n", "it is not a JSON object"),
        ("questions.jsonl", b'{"id": "q"}\n', "it has no 'answer'"),
        ("questions.jsonl", None, "No such file or directory"),
    ],
)
def test_a_file_that_is_no_evaluation_is_named(tmp_path: Path, name: str, content: bytes | None, reason: str) -> None:
    store_run(tmp_path, {one: data for one, data in (FILES | {name: content}).items() if data is not None})
    with pytest.raises(ContractError, match=rf"{name} cannot be read: {reason}.*; restore .* or remove its folder"):
        read_run(tmp_path, 1).question_rows()
    with pytest.raises(UnknownIdError, match=r"no stored evaluation 7 in .*; stored: 1"):
        read_run(tmp_path, 7)


def test_a_place_where_nothing_can_be_stored_is_refused_beforehand(tmp_path: Path) -> None:
    check_folder(tmp_path / "root" / "evaluations")
    assert names_in(tmp_path / "root" / "evaluations") == []
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="a file is where a folder is needed"):
        check_folder(tmp_path / "file")


@pytest.fixture
def folder(layout: Layout) -> IndexFolder:
    layout.index("wiki").path.mkdir(parents=True)
    return layout.index("wiki")


def started(number: int) -> RunRecord:
    return RunRecord(run=number, started=MOMENT, started_by=versions.starter())


def done(folder: IndexFolder, outcome: Outcome = "published", kept: int = 100) -> RunRecord:
    begun = versions.begin_run(folder, started, kept=kept)
    ended = begun.model_copy(update={"outcome": outcome, "stages": {"ingest": StageUse(seconds=1.0)}})
    versions.end_run(folder, ended)
    return ended


def outcomes(folder: IndexFolder) -> list[str]:
    return [run.outcome for run in read_runs(folder)]


@pytest.mark.parametrize("cut", [1, 30, 200])
def test_runs_are_numbered_and_a_line_cut_short_is_removed_by_the_next(folder: IndexFolder, cut: int) -> None:
    assert read_runs(folder) == []
    first, second = done(folder), done(folder, "unchanged")
    assert (read_runs(folder), len(folder.runs.read_bytes().splitlines())) == ([first, second], 4)
    folder.runs.write_bytes(folder.runs.read_bytes()[:-cut])
    assert (read_runs(folder)[0], [first.run, second.run, done(folder).run]) == (first, [1, 2, 3])
    assert outcomes(folder) == ["published", "killed", "published"]


def test_only_the_newest_are_kept_and_numbers_go_on(folder: IndexFolder) -> None:
    sizes = []
    for _ in range(50):
        done(folder, kept=5)
        sizes.append(folder.runs.stat().st_size)
    assert [run.run for run in read_runs(folder)][-5:] == [46, 47, 48, 49, 50]
    assert len(read_runs(folder)) <= 10
    assert max(sizes) == max(sizes[:20])


def test_a_run_whose_process_is_gone_was_killed_and_one_whose_process_lives_is_running(folder: IndexFolder) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        dead = process.pid
    here = versions.starter().host
    for host, pid, outcome in ((here, dead, "killed"), (here, os.getpid(), "running"), ("elsewhere", dead, "running")):
        by = {"started_by": Starter(host=host, process=pid)}
        versions.begin_run(folder, lambda number, by=by: started(number).model_copy(update=by))  # type: ignore[misc]
        assert outcomes(folder)[-1] == outcome
    done(folder)
    assert outcomes(folder) == ["killed", "killed", "killed", "published"]


def test_prefect_says_its_flow_run_and_no_password(folder: IndexFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT__FLOW_RUN_ID", "abc")
    assert versions.starter().flow_run_id == "abc"
    who = versions.starter("run-1", "https://svc:planted-0001@prefect.example/runs/flow-run/run-1")
    monkeypatch.delenv("PREFECT__FLOW_RUN_ID")
    assert (who.flow_run_id, versions.starter().flow_run_id) == ("run-1", "")
    versions.begin_run(folder, lambda number: started(number).model_copy(update={"started_by": who}), kept=100)
    assert b"planted-0001" not in folder.runs.read_bytes()
    (run,) = read_runs(folder)
    assert run.started_by.flow_run_url == "https://svc:***@prefect.example/runs/flow-run/run-1"


def test_no_run_and_no_decision_is_lost_when_several_processes_add_to_the_files(folder: IndexFolder) -> None:
    commands = [[sys.executable, "-c", APPEND, str(folder.path), MOMENT, name] for name in "abc"]
    pipe = subprocess.PIPE
    processes = [subprocess.Popen(command, stdin=pipe, stderr=pipe, text=True) for command in commands]
    for process in processes:  # all begin when their input ends, so that none is done before another has started
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
    assert [process.communicate(timeout=60)[1] for process in processes] == [""] * 3
    assert read_runs(folder)[-1].run == 60
    assert sorted(edit.key for edit in read_edits(folder)) == sorted(f"{name} {n}" for name in "abc" for n in range(20))


def test_a_refused_change_and_a_line_that_is_none_leave_the_edits(folder: IndexFolder) -> None:
    first, second = EntityEdit("delete", "ada", ""), EntityEdit("rename", "bob", "Robert")
    assert change_edits(folder, lambda _: [first, second]) == ()

    def refuse(edits: tuple[EntityEdit, ...]) -> list[EntityEdit]:
        raise ConfigurationError(f"{len(edits)} are enough.")

    with pytest.raises(ConfigurationError, match="2 are enough"):
        change_edits(folder, refuse)
    before = change_edits(folder, lambda edits: edits[1:])
    places = [("delete", "ada", "edits.jsonl line 1"), ("rename", "bob", "edits.jsonl line 2")]
    assert [(edit.kind, edit.key, edit.location) for edit in before] == places
    assert [edit.key for edit in read_edits(folder)] == ["bob"]
    with folder.edits.open("a", encoding="utf-8") as stream:
        stream.write("nonsense\n")
    with pytest.raises(ConfigurationError, match="line 2: not JSON"):
        change_edits(folder, lambda edits: edits)
    assert folder.edits.read_text(encoding="utf-8").endswith("nonsense\n")


def take_lease(index: IndexFolder) -> None:
    with writer_lease(index.lease, index.name):
        pass


@pytest.mark.parametrize(
    "make",
    [
        lambda root: open_questions(Settings(root=root)).close(),
        lambda root: check_folder(Layout(root).evaluations),
        lambda root: DocumentCache(Layout(root).document_cache).close(),
        lambda root: take_lease(Layout(root).index("small")),
        lambda root: keep_records(Layout(root).index("small"), []),
    ],
    ids=["queue", "evaluations", "cache", "index", "inbox"],
)
def test_a_new_root_is_open_to_its_owner_alone(tmp_path: Path, make: Callable[[Path], object]) -> None:
    shared, root = tmp_path / "shared", tmp_path / "new" / "root"
    shared.mkdir(mode=0o755)
    make(shared)
    make(root)
    assert (shared.stat().st_mode & 0o777, root.stat().st_mode & 0o777) == (0o755, 0o700)
    assert {path.stat().st_mode & 0o777 for path in shared.iterdir() if path.is_dir()} <= {0o755}


@pytest.mark.parametrize(("is_shown", "answer"), [(True, "Ada"), (False, "")])
def test_an_evaluation_stored_before_guesses_had_a_name_is_read(tmp_path: Path, is_shown: bool, answer: str) -> None:
    before = {"id": "q", "question": "Who?", "strategy": "bm25", "answer": "Ada", "is_shown": is_shown}
    store_run(tmp_path, {**FILES, "questions.jsonl": json.dumps(before).encode()})
    (row,) = read_run(tmp_path, 1).question_rows()
    assert row == before | {"answer": answer, "guess": "Ada", "sentences": []}
