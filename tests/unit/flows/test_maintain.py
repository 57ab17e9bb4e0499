"""Maintenance, rollbacks, damage: what is removed, what stays, how a pinned or a damaged version comes back."""

import json
import os
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import duckdb
import pytest
import typer
from real_index import RealIndex, flip, lasting, pages, write_lines

from polyhop.api import open_index
from polyhop.commands.index import index as index_command
from polyhop.commands.operate import maintain
from polyhop.commands.stores import versions
from polyhop.doctor import run_checks
from polyhop.flows.maintain import repair, run_maintenance, run_verify
from polyhop.flows.reports import IndexReport, headline, published_payload
from polyhop.schemas.chat import Repair, Usage
from polyhop.schemas.errors import DamagedStoreError, ManifestMismatchError, UnknownIndexError
from polyhop.schemas.queue import JobSpec, NewQuestion
from polyhop.schemas.requests import MaintenanceReport, MaintenanceRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.cache.replies import ReplyCache, ReplySource
from polyhop.warehouse.files import versions as kept
from polyhop.warehouse.files.disk import size_of
from polyhop.warehouse.files.layout import IndexFolder, Layout
from polyhop.warehouse.open import open_questions
from polyhop.warehouse.open_models import close_encoders
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


def folder_of(root: Path) -> IndexFolder:
    return Layout(root).index("towns")


def files_below(root: Path) -> dict[str, bytes]:
    """All files but SQLite's, whose log comes and goes as they are read."""
    files = (path for path in root.rglob("*") if path.is_file() and ".sqlite" not in path.name)
    return {str(path): path.read_bytes() for path in files if path.suffix != ".onnx"}


def test_old_versions_and_their_vectors_go_as_a_dry_run_said_and_the_rest_is_whole(root: Path) -> None:
    before, files = size_of(folder_of(root).vectors), files_below(root)
    with kept.writer_lease(folder_of(root).lease, "towns"):
        refused = maintained(root)
    assert refused.removed_versions == {}
    assert "Index 'towns' is being written by" in refused.skipped[0]
    said = maintained(root, MaintenanceRequest(dry_run=True))
    assert files_below(root) == files
    report = maintained(root)
    assert (said.removed_versions, said.removed) == (report.removed_versions, report.removed)
    assert (report.removed_versions, report.removed["cached vectors"]) == ({"towns": [1, 2]}, 2)
    assert kept.published_versions(folder_of(root)) == [3, 4]
    assert size_of(folder_of(root).vectors).files < before.files
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
    staging, forgotten = folder_of(root).staging, folder_of(root).path / ".runs.jsonl.123.tmp"
    (staging / "parts").mkdir(parents=True)
    forgotten.write_text("")
    report = maintained(root)
    assert staging.exists()
    assert "Cached vectors were not cleaned up: index 'towns'" in report.skipped[0]
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
        cache.put_reply(ReplySource("k", "model", "task", "hash", 1), "{}", Repair.AS_IS, 1, Usage())
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


NOTE = "version 1 is pinned and stays current; to use version 3, unpin it: polyhop versions --index i --use latest"


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


def test_a_run_after_a_rollback_publishes_beside_it(rolled: Rolled, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert ("nothing has changed.\n" in said, NOTE in said) == (True, True)


def test_later_runs_derive_from_the_latest_version_and_reports_unpin_it(rolled: Rolled) -> None:
    with pytest.raises(typer.BadParameter, match="'newest' is neither the number of a version nor latest"):
        rolled.use("newest")
    extended = rolled.index(add_strategies=("graph",))
    assert rolled.texts(extended.version) == ["bad"], "built on the latest version, not on the pinned one"
    rolled.use("latest")
    assert (kept.current_version(rolled.index_folder), kept.pinned_version(rolled.index_folder)) == (3, None)
    report = rolled.index("corrected")
    assert (report.pinned, rolled.texts()) == (None, ["corrected"])


def test_the_listing_marks_the_pinned_version(twice: Rolled, capsys: pytest.CaptureFixture[str]) -> None:
    versions(index="i", root=twice.root)
    said = capsys.readouterr().out
    assert "current, pinned" in said
    assert "Version 1 of 'i' is current and pinned; later runs do not replace it until: polyhop versions" in said
    versions(index="i", root=twice.root, json=True)
    listed = json.loads(capsys.readouterr().out)
    assert [(row["version"], row["current"], row["pinned"]) for row in listed] == [(1, True, True), (2, False, False)]


def test_a_damaged_pinned_version_is_repaired_from_itself_and_stays_pinned(rolled: Rolled) -> None:
    flip(next(rolled.index_folder.version(1).arrays.glob("lexical*.npy")))
    repair(rolled.settings, run_verify(rolled.settings, "i"))
    assert run_verify(rolled.settings, "i").ok
    assert rolled.texts() == ["good"]
    assert kept.pinned_version(rolled.index_folder) == kept.latest_version(rolled.index_folder) == 3


FIX = "polyhop verify --index towns --repair"


class Towns(RealIndex):
    """A root with one published version, and what tests do to it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "towns", strategies=("bridge",))

    def write(self, count: int = 12, *, edited: int = 0) -> None:
        texts = (f"Town {n} lies on the River {n % 4}." + (" It is old." if n < edited else "") for n in range(count))
        rows = ({"id": f"p{n:02d}", "title": f"Town {n}", "text": text} for n, text in enumerate(texts))
        write_lines(self.folder / "corpus.jsonl", rows)

    def index(self, *, source: bool = True, full: bool = False, add: tuple[str, ...] = ()) -> IndexReport:
        read = {"source_name": "corpus"} if source else {}
        return self.run(self.folder / "corpus.jsonl" if source else None, add_strategies=add, full=full, **read)

    def found(self) -> dict[str, list[str]]:
        """Stores that verify finds something in."""
        return {name: some for name, some in run_verify(self.settings, "towns").differences.items() if some}

    def is_repaired(self) -> bool:
        repair(self.settings, run_verify(self.settings, "towns"))
        return not self.found()

    def ask(self) -> str:
        with open_index("towns", settings=self.settings) as index:
            return str(index.ask("Which river does Town 3 lie on?").passages[0]["title"])

    def doctor(self) -> dict[str, str]:
        """Names and messages of the checks that fail."""
        return {check.name: check.message for check in run_checks(self.settings) if not check.ok}


@pytest.fixture(scope="module")
def made_towns(tmp_path_factory: pytest.TempPathFactory) -> Towns:
    towns = Towns(tmp_path_factory.mktemp("published"))
    towns.write()
    towns.index()
    return towns


@pytest.fixture
def towns(made_towns: Towns, tmp_path: Path) -> Towns:
    close_encoders()
    return made_towns.copy(tmp_path)


def test_damaged_tables_and_arrays_are_made_again_and_said(towns: Towns) -> None:
    before = towns.manifest
    flip(towns.version.arrays / "bipartite_tf.npy")
    report = towns.index(source=False, add=("bm25",))
    sentence = "file 'bipartite_tf.npy' has another content than was published"
    assert report.damaged == [sentence]
    assert ("graph" in report.reused, "lexical-stems" in report.reused) == (False, True)
    assert towns.manifest.arrays["bipartite_tf.npy"] == before.arrays["bipartite_tf.npy"]
    assert towns.found() == {"older_versions": [f"version 1: {sentence}"]}

    flip(towns.version.tables, 4096 + 20)
    with pytest.raises(DamagedStoreError, match=FIX):
        towns.ask()
    assert FIX in towns.doctor()["index towns"]
    report = towns.index()
    assert (report.changed, report.damaged) == (True, ["file 'index.duckdb' has another content than was published"])
    assert lasting(towns.manifest)[0] == lasting(before)[0]
    assert not towns.index().changed
    assert towns.is_repaired()
    assert towns.ask() == "Town 3"


def test_a_lost_view_is_damage_to_the_file_and_a_damaged_list_of_checksums_is_noticed(towns: Towns) -> None:
    with duckdb.connect(str(towns.version.tables)) as connection:
        connection.execute("DROP VIEW entities_of_passage")
    (towns.index_folder.vectors / "checksums.json").write_bytes(b"{")
    assert towns.found() == {
        "tables": ["file 'index.duckdb' has another content than was published"],
        "vectors": ["file 'checksums.json' of the vectors is damaged"],
    }
    assert towns.is_repaired()


def test_a_damaged_corpus_needs_its_source_which_the_sentence_names(towns: Towns, made_towns: Towns) -> None:
    flip(towns.version.tables, 4096 + 20)
    with pytest.raises(DamagedStoreError, match=rf"polyhop index {made_towns.folder}/corpus.jsonl --index towns"):
        towns.index(source=False, full=True)
    assert towns.is_repaired()


def test_full_and_repair_make_lance_tables_from_nothing(towns: Towns) -> None:
    for file in towns.index_folder.vectors.glob("*.lance/_versions/*.manifest"):
        flip(file, 10)
    assert list(towns.found()) == ["vectors"]
    assert towns.index(full=True).changed
    assert list(towns.found()) == ["older_versions"]
    assert towns.is_repaired()


def test_a_damaged_manifest_is_refused_and_replaced_from_the_source(towns: Towns) -> None:
    content = towns.version.manifest.read_text()
    towns.version.manifest.write_text(content.replace('"passages": 12', '"passages": 13'))
    for use in (towns.ask, towns.found, lambda: towns.index(source=False, full=True)):
        with pytest.raises(ManifestMismatchError, match="polyhop index SOURCE --index towns"):
            use()
    assert "polyhop index SOURCE --index towns" in towns.doctor()["index towns"]
    towns.index_folder.current.write_text("7\n")
    with pytest.raises(ManifestMismatchError, match="polyhop versions --index towns --use N"):
        towns.index(source=False, full=True)
    assert towns.index().version == 2
    assert towns.is_repaired()


def test_a_damaged_cache_is_named_and_an_index_run_goes_on_with_a_new_one(towns: Towns) -> None:
    before, cache = towns.manifest, Layout(towns.root).vector_cache
    cache.write_bytes(b"no database at all" * 1000)
    assert "vectors.sqlite is damaged (file is not a database)" in towns.found()["caches"][0]
    towns.index(full=True)
    assert towns.manifest.arrays == before.arrays
    assert cache.with_name("vectors.sqlite.damaged-1").exists()
    assert (towns.found(), towns.doctor()) == ({}, {})


def test_a_run_killed_before_its_version_is_visible_is_no_damage(towns: Towns, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run gives the same number, and so the same pin, to other vectors."""
    towns.write(edited=2)
    with monkeypatch.context() as patched:
        patched.setattr("polyhop.tasks.publish.publish.publish_folder", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            towns.index()
    assert towns.manifest.version == 1
    towns.write(edited=4)
    towns.index()
    assert (towns.manifest.version, towns.found()) == (2, {})
    assert towns.manifest.vectors["passage"].table == "passages"
