"""Maintenance removes what its policy names and nothing that anybody can still need; a dry run removes nothing."""

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from polyhop.api import open_index
from polyhop.commands.operate import maintain
from polyhop.flows.index import run_index
from polyhop.flows.maintain import run_maintenance, run_verify
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.chat import Rung, Usage
from polyhop.schemas.errors import UnknownIndexError
from polyhop.schemas.queue import JobSpec, NewQuestion
from polyhop.schemas.requests import IndexRequest, MaintenanceReport, MaintenanceRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.cache.replies import ReplyCache, ReplySource
from polyhop.warehouse.files.disk import size_of
from polyhop.warehouse.files.layout import IndexFolder, Layout
from polyhop.warehouse.files.versions import published_versions, writer_lease
from polyhop.warehouse.open import open_questions

pytestmark = pytest.mark.slow

EDITIONS = 4


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root whose index `towns` has four versions of a text that changed each time."""
    folder = tmp_path_factory.mktemp("maintained")
    corpus = folder / "corpus.jsonl"
    for edition in range(EDITIONS):
        corpus.write_text(json.dumps({"id": "a", "title": "Ada", "text": f"Ada wrote letter {edition}."}) + "\n")
        settings = Settings(root=folder / "root", strategies=("dense",), keep_versions=10)
        run_index(settings, IndexRequest("towns", corpus), DirectRunner())
    return folder / "root"


@pytest.fixture
def root(indexed: Path, tmp_path: Path) -> Path:
    shutil.copytree(indexed, tmp_path / "root")
    return tmp_path / "root"


def maintained(root: Path, request: MaintenanceRequest | None = None) -> MaintenanceReport:
    settings = Settings(root=root, strategies=("dense",), keep_versions=2)
    return run_maintenance(settings, request or MaintenanceRequest())


def towns(root: Path) -> IndexFolder:
    return Layout(root).index("towns")


def files_below(root: Path) -> dict[str, bytes]:
    """All files but SQLite's, whose log comes and goes as they are read."""
    files = (path for path in root.rglob("*") if path.is_file() and ".sqlite" not in path.name)
    return {str(path): path.read_bytes() for path in files if path.suffix != ".onnx"}


def test_old_versions_their_vectors_and_their_cached_vectors_go_and_the_rest_is_whole(root: Path) -> None:
    before = size_of(towns(root).vectors)
    report = maintained(root)
    assert report.removed_versions == {"towns": [1, 2]}
    assert report.removed["cached vectors"] == 2
    assert published_versions(towns(root)) == [3, 4]
    assert size_of(towns(root).vectors).files < before.files
    assert (report.after.files, report.after.bytes) < (report.before.files, report.before.bytes)
    assert run_verify(Settings(root=root), "towns").ok
    for version in (3, 4):
        with open_index("towns", root=root, version=version) as index:
            assert index.ask("What did Ada write?", strategy="dense").passages[0]["id"] == "a"
            assert index.sql("FROM passage_vectors").num_rows == 1
    again = maintained(root)
    assert (again.removed_versions, again.removed) == ({"towns": []}, {"leftovers": 0, "cached vectors": 0})


def test_a_dry_run_says_the_same_and_changes_no_file(root: Path) -> None:
    before = files_below(root)
    said = maintained(root, MaintenanceRequest(dry_run=True))
    assert files_below(root) == before
    done = maintained(root)
    assert (said.removed_versions, said.removed) == (done.removed_versions, done.removed)


def test_a_version_in_use_stays_with_its_vectors(root: Path) -> None:
    with open_index("towns", root=root, version=1) as index:
        assert maintained(root).removed_versions == {"towns": [2]}
        assert index.sql("FROM passage_vectors").num_rows == 1
        assert index.ask("What did Ada write?", strategy="dense").passages[0]["id"] == "a"
    assert maintained(root).removed_versions == {"towns": [1]}


def test_an_index_that_is_being_written_is_left_alone(root: Path) -> None:
    with writer_lease(towns(root).lease, "towns"):
        report = maintained(root)
    assert report.removed_versions == {}
    assert "Index 'towns' is being written by" in report.skipped[0]
    assert published_versions(towns(root)) == [1, 2, 3, 4]


def test_parts_of_an_interrupted_run_stay_until_they_are_old(root: Path) -> None:
    staging = towns(root).staging
    (staging / "parts").mkdir(parents=True)
    forgotten = towns(root).path / ".runs.jsonl.123.tmp"
    forgotten.write_text("")
    report = maintained(root)
    assert staging.exists()
    assert "Cached vectors were left alone: index 'towns'" in report.skipped[0]
    assert "cached vectors" not in report.removed
    for path in (forgotten, staging / "parts", staging):
        os.utime(path, (time.time() - 8 * 86_400,) * 2)
    assert maintained(root).removed == {"leftovers": 2, "cached vectors": 2}
    assert not staging.exists()
    assert not forgotten.exists()


def test_what_a_kill_left_of_versions_goes(root: Path) -> None:
    (towns(root).version(1).manifest).unlink()
    maintained(root)
    assert not towns(root).version(1).path.exists()


def test_replies_stay_and_jobs_go_only_when_asked(root: Path) -> None:
    cache = ReplyCache(Layout(root).reply_cache)
    cache.put_reply(ReplySource("k", "model", "task", "hash", 1), "{}", Rung.AS_IS, 1, Usage())
    with open_questions(Settings(root=root)) as queue:
        queue.cancel(queue.submit(JobSpec("towns"), [NewQuestion("q", "Who?")]))
    time.sleep(0.01)
    assert "jobs" not in maintained(root).removed
    assert maintained(root, MaintenanceRequest(dry_run=True, queue_days=0)).removed["jobs"] == 1
    assert maintained(root, MaintenanceRequest(queue_days=0)).removed["jobs"] == 1
    assert cache.stats().reply_count == 1
    cache.close()
    with open_questions(Settings(root=root)) as queue:
        assert queue.jobs() == []


@pytest.fixture
def emptied_queue(tmp_path: Path) -> Path:
    """A root whose queue held a job of some 2 MB that ended."""
    root = tmp_path / "queued"
    with open_questions(Settings(root=root)) as queue:
        job = queue.submit(JobSpec("towns"), [NewQuestion(f"q{n}", f"{n} " + "Who? " * 1000) for n in range(400)])
        queue.submit(JobSpec("towns"), [NewQuestion("q", "Who?")])
        queue.cancel(job)
    return root


def test_a_queue_file_shrinks_once_its_jobs_are_forgotten(emptied_queue: Path) -> None:
    file = Layout(emptied_queue).queue
    assert maintained(emptied_queue).compacted == {}, "there is nothing to free yet"
    report = maintained(emptied_queue, MaintenanceRequest(queue_days=0))
    before, after = (
        getattr(next(part for part in report.parts if part.part == "queue"), at) for at in ("before", "after")
    )
    assert report.removed["jobs"] == 1
    assert after.bytes < before.bytes - report.compacted["queue"] / 2
    assert file.stat().st_size < 200_000
    with open_questions(Settings(root=emptied_queue)) as queue:
        assert [sum(job.counts.values()) for job in queue.jobs()] == [1]


def test_a_queue_that_somebody_uses_is_not_compacted(emptied_queue: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = MaintenanceRequest(queue_days=0)
    with open_questions(Settings(root=emptied_queue)) as worker:
        assert len(worker.jobs()) == 2
        report = maintained(emptied_queue, request)
        assert report.compacted == {}
        assert "The queue keeps 2." in report.skipped[0]
        assert len(worker.jobs()) == 1
    assert maintained(emptied_queue, MaintenanceRequest(dry_run=True)).compacted["queue"] > 2_000_000
    maintain(root=emptied_queue)
    assert "queue: 2." in capsys.readouterr().out


def test_a_wrong_name_is_refused(root: Path) -> None:
    with pytest.raises(UnknownIndexError, match="town"):
        maintained(root, MaintenanceRequest("town"))


@pytest.fixture
def empty_root(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "nothing"
    assert not (tmp_path / "nothing").exists()


def test_a_root_without_anything_is_fine(empty_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    maintain(root=empty_root)
    assert capsys.readouterr().out.splitlines()[-1].split() == ["all", "0", "0", "0.000", "0.000"]


def test_the_command_says_what_went_in_words_and_as_json(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    maintain(dry_run=True, set_=["keep_versions=3"], root=root)
    words = capsys.readouterr().out
    assert "Index 'towns': versions 1 would be removed" in words
    assert "1 cached vectors would be removed" in words
    maintain(set_=["keep_versions=3"], root=root, json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["removed_versions"] == {"towns": [1]}
    assert document["before"]["files"] > document["after"]["files"]
    assert {part["part"] for part in document["parts"]} >= {"index towns: versions", "cache of vectors", "queue"}
