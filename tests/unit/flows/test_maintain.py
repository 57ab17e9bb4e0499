"""Maintenance and rollbacks: what is removed, what stays, and how a pinned version comes back."""

import json
import os
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import typer
from real_index import RealIndex, flip, pages

from polyhop.api import open_index
from polyhop.commands.index import index as index_command
from polyhop.commands.operate import maintain
from polyhop.commands.stores import versions
from polyhop.flows.maintain import repair, run_maintenance, run_verify
from polyhop.flows.reports import IndexReport, headline, published_payload
from polyhop.schemas.chat import Rung, Usage
from polyhop.schemas.errors import UnknownIndexError
from polyhop.schemas.queue import JobSpec, NewQuestion
from polyhop.schemas.requests import MaintenanceReport, MaintenanceRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.cache.replies import ReplyCache, ReplySource
from polyhop.warehouse.files.disk import size_of
from polyhop.warehouse.files.layout import IndexFolder, Layout
from polyhop.warehouse.files.versions import (
    current_version,
    latest_version,
    pinned_version,
    published_versions,
    writer_lease,
)
from polyhop.warehouse.open import open_questions
from polyhop.warehouse.tables.query import query_rows

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> RealIndex:
    """An index `towns` with four versions of a text that changed each time."""
    index = RealIndex(tmp_path_factory.mktemp("maintained"), "towns", strategies=("dense",), keep_versions=10)
    for edition in range(4):
        index.read([{"id": "a", "title": "Ada", "text": f"Ada wrote letter {edition}."}])
    return index


@pytest.fixture
def root(indexed: RealIndex, tmp_path: Path) -> Path:
    return indexed.copy(tmp_path).root


def maintained(root: Path, request: MaintenanceRequest | None = None) -> MaintenanceReport:
    settings = Settings(root=root, strategies=("dense",), keep_versions=2)
    return run_maintenance(settings, request or MaintenanceRequest())


def towns(root: Path) -> IndexFolder:
    return Layout(root).index("towns")


def files_below(root: Path) -> dict[str, bytes]:
    """All files but SQLite's, whose log comes and goes as they are read."""
    files = (path for path in root.rglob("*") if path.is_file() and ".sqlite" not in path.name)
    return {str(path): path.read_bytes() for path in files if path.suffix != ".onnx"}


def test_old_versions_and_their_vectors_go_as_a_dry_run_said_and_the_rest_is_whole(root: Path) -> None:
    before, files = size_of(towns(root).vectors), files_below(root)
    with writer_lease(towns(root).lease, "towns"):
        refused = maintained(root)
    assert refused.removed_versions == {}
    assert "Index 'towns' is being written by" in refused.skipped[0]
    said = maintained(root, MaintenanceRequest(dry_run=True))
    assert files_below(root) == files
    report = maintained(root)
    assert (said.removed_versions, said.removed) == (report.removed_versions, report.removed)
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
    with pytest.raises(UnknownIndexError, match="town"):
        maintained(root, MaintenanceRequest("town"))


def test_a_version_in_use_stays_with_its_vectors(root: Path) -> None:
    with open_index("towns", root=root, version=1) as index:
        assert maintained(root).removed_versions == {"towns": [2]}
        assert index.sql("FROM passage_vectors").num_rows == 1
        assert index.ask("What did Ada write?", strategy="dense").passages[0]["id"] == "a"
    assert maintained(root).removed_versions == {"towns": [1]}


def test_parts_of_an_interrupted_run_stay_until_they_are_old(root: Path) -> None:
    staging, forgotten = towns(root).staging, towns(root).path / ".runs.jsonl.123.tmp"
    (staging / "parts").mkdir(parents=True)
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


@pytest.fixture
def queued(tmp_path: Path) -> Path:
    """A root whose queue has a job of some 2 MB that ended, and an open one; and a paid reply."""
    root = tmp_path / "queued"
    with closing(ReplyCache(Layout(root).reply_cache)) as cache:
        cache.put_reply(ReplySource("k", "model", "task", "hash", 1), "{}", Rung.AS_IS, 1, Usage())
    with open_questions(Settings(root=root)) as queue:
        job = queue.submit(JobSpec("towns"), [NewQuestion(f"q{n}", f"{n} " + "Who? " * 1000) for n in range(400)])
        queue.submit(JobSpec("towns"), [NewQuestion("q", "Who?")])
        queue.cancel(job)
    return root


def test_jobs_go_only_when_asked_and_their_file_shrinks_but_replies_stay(queued: Path) -> None:
    kept = maintained(queued)
    assert (kept.compacted, "jobs" in kept.removed) == ({}, False)
    assert maintained(queued, MaintenanceRequest(dry_run=True, queue_days=0)).removed["jobs"] == 1
    report = maintained(queued, MaintenanceRequest(queue_days=0))
    (part,) = (part for part in report.parts if part.part == "queue")
    assert report.removed["jobs"] == 1
    assert part.after.bytes < part.before.bytes - report.compacted["queue"] / 2
    assert Layout(queued).queue.stat().st_size < 200_000
    with open_questions(Settings(root=queued)) as queue:
        assert [sum(job.counts.values()) for job in queue.jobs()] == [1]
    with closing(ReplyCache(Layout(queued).reply_cache)) as cache:
        assert cache.stats().reply_count == 1


def test_a_queue_that_somebody_uses_is_not_compacted(queued: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_questions(Settings(root=queued)) as worker:
        assert len(worker.jobs()) == 2
        report = maintained(queued, MaintenanceRequest(queue_days=0))
        assert report.compacted == {}
        assert "The queue keeps 2." in report.skipped[0]
        assert len(worker.jobs()) == 1
    assert maintained(queued, MaintenanceRequest(dry_run=True)).compacted["queue"] > 2_000_000
    maintain(root=queued)
    assert "queue: 2." in capsys.readouterr().out


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
    maintain(root=root.parent / "nothing")
    assert capsys.readouterr().out.splitlines()[-1].split() == ["all", "0", "0", "0.000", "0.000"]
    assert not (root.parent / "nothing").exists()


NOTE = (
    "version 1 is pinned and stays current, version 3 lies beside it; the latest becomes current with: "
    "polyhop versions --index i --use latest"
)


class Rolled(RealIndex):
    """An index of two editions of a corpus, rolled back to the first."""

    def index(self, text: str = "", **request: Any) -> IndexReport:
        return self.read(pages({"a": text}), source_name="corpus", **request) if text else self.run(None, **request)

    def use(self, version: str) -> None:
        versions(index="i", use=version, root=self.root)

    def texts(self, version: int | None = None) -> list[str]:
        return [text for (text,) in self.rows("SELECT text FROM passages", version)]


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Rolled:
    index = Rolled(tmp_path_factory.mktemp("rolled"))
    index.index("good")
    index.index("bad")
    index.use("1")
    return index


@pytest.fixture
def rolled(twice: Rolled, tmp_path: Path) -> Rolled:
    return twice.copy(tmp_path)


def test_a_run_after_a_rollback_publishes_beside_it_and_says_so(
    rolled: Rolled, capsys: pytest.CaptureFixture[str]
) -> None:
    report = rolled.index("corrected")
    assert (report.version, report.pinned, report.changed, report.to_json()["pinned"]) == (3, 1, True, 1)
    assert (rolled.texts(), rolled.texts(3)) == (["good"], ["corrected"])
    assert report.changes == {"added": 0, "changed": 1, "deleted": 0, "renamed": 0}
    assert headline(report).endswith(NOTE)
    assert published_payload(rolled.settings, report)["pinned"] == 1
    sentences = query_rows(Layout(rolled.root), "i", "SELECT sentence FROM index_runs", None)
    assert sentences.column("sentence").to_pylist()[-1] == NOTE
    index_command(index="i", set_=["strategies=bm25"], root=rolled.root)
    said = capsys.readouterr().out
    assert "nothing has changed.\n" in said
    assert NOTE in said


def test_later_runs_derive_from_the_latest_version_and_reports_unpin_it(rolled: Rolled) -> None:
    with pytest.raises(typer.BadParameter, match="'newest' is neither the number of a version nor latest"):
        rolled.use("newest")
    extended = rolled.index(add_strategies=("graph",))
    assert rolled.texts(extended.version) == ["bad"], "built on the latest version, not on the pinned one"
    rolled.use("latest")
    assert (current_version(rolled.index_folder), pinned_version(rolled.index_folder)) == (3, None)
    report = rolled.index("corrected")
    assert (report.pinned, rolled.texts()) == (None, ["corrected"])


def test_the_listing_marks_the_pinned_version(twice: Rolled, capsys: pytest.CaptureFixture[str]) -> None:
    versions(index="i", root=twice.root)
    said = capsys.readouterr().out
    assert "current, pinned" in said
    assert "Version 1 of 'i' is current and pinned: runs publish beside it until: polyhop versions" in said
    versions(index="i", root=twice.root, json=True)
    listed = json.loads(capsys.readouterr().out)
    assert [(row["version"], row["current"], row["pinned"]) for row in listed] == [(1, True, True), (2, False, False)]


def test_a_damaged_pinned_version_is_repaired_from_itself_and_stays_pinned(rolled: Rolled) -> None:
    flip(next(rolled.index_folder.version(1).arrays.glob("lexical*.npy")))
    repair(rolled.settings, run_verify(rolled.settings, "i"))
    assert run_verify(rolled.settings, "i").ok
    assert rolled.texts() == ["good"]
    assert pinned_version(rolled.index_folder) == latest_version(rolled.index_folder) == 3
