"""Several sources of one index: read as a whole or in part, deleted by id, told apart by name."""

import json
import os
import shutil
import threading
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from real_index import RealIndex, flip, lasting, pages

from polyhop.commands.index import index
from polyhop.flows.index import check_sources, known_request, run_index, source_name
from polyhop.flows.reports import IndexReport
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import (
    ConfigurationError,
    DamagedStoreError,
    LossRefusedError,
    PolyhopError,
    QuarantineExceededError,
    SourceError,
    StoreConflictError,
    UnknownIndexError,
)
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import CorpusSettings
from polyhop.warehouse.files.versions import document_checksum, writer_lease

pytestmark = pytest.mark.slow

NEWS = {"n1": "Ada met Bob.", "n2": "Bob went to Rome."}
WIKI = {"w1": "Rome is a town.", "w2": "Oslo is a town."}


class Root(RealIndex):
    """A folder with an index, whose sources lie beside it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, corpus=CorpusSettings(max_quarantine_share=0.5))

    def index(self, name: str, rows: dict[str, Any] | list[Any], **request: Any) -> IndexReport:
        return self.read(pages(rows) if isinstance(rows, dict) else rows, name, **request)

    def remove(self, name: str, **more: Any) -> IndexReport:
        request = replace(IndexRequest("i", None, removed_source=name), **more)
        return run_index(self.settings, request, DirectRunner())

    @property
    def texts(self) -> dict[str, str]:
        return dict(self.rows("SELECT record_id, text FROM passages"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Root:
    root = Root(tmp_path_factory.mktemp("sources"))
    root.index("news", NEWS)
    root.index("wiki", WIKI, source_name="wiki")
    return root


@pytest.fixture
def root(made: Root, tmp_path: Path) -> Root:
    return made.copy(tmp_path / "copy")


def test_a_partial_source_adds_changes_and_deletes_by_id_and_leaves_the_rest(root: Root) -> None:
    edits = [
        {"id": "w1", "deleted": True},
        {"id": "w1", "title": "w1", "text": "Rome is a city."},
        {"id": "w2", "deleted": True},
        {"id": "w9", "deleted": True},
        {"id": "w4", "text": "Bonn."},
        {"id": "w4", "deleted": True},
        {"deleted": True},
        {"id": "w3", "text": "Bern, too."},
    ]
    root.index("today", edits, source_name="wiki", is_partial=True)
    assert root.texts == {**NEWS, "w1": "Rome is a city.", "w3": "Bern, too."}
    assert root.manifest.source.endswith("wiki.jsonl")
    reason = "there is no id to delete: expected a field named id or _id"
    assert root.rows("SELECT line, reason FROM quarantine") == [(7, reason)]
    root.index("news", {"n3": "Eve sings."}, source_name="news")  # as a whole: its own records go, and no others
    assert root.texts == {"n3": "Eve sings.", "w1": "Rome is a city.", "w3": "Bern, too."}
    assert root.rows("SELECT line, reason FROM quarantine") == [(7, reason)]
    with pytest.raises(QuarantineExceededError, match="1 of 1 record in"):
        root.index("today", [{"id": "w2"}], source_name="wiki", is_partial=True)


def test_an_id_of_two_sources_is_the_first_one_by_name_and_the_other_comes_back(root: Root) -> None:
    root.index("wiki", {**WIKI, "n1": "Another Ada."}, source_name="wiki")
    assert root.texts["n1"] == NEWS["n1"]
    ((line, reason),) = root.rows("SELECT line, reason FROM quarantine")
    assert line is None, "it does not depend on which source was read last"
    assert reason == (
        "id 'n1' of source 'wiki' has another text in source 'news', which comes first by name; give one of the two "
        "another id"
    )
    root.index("today", [{"id": "n1", "deleted": True}], source_name="news", is_partial=True)
    assert root.texts["n1"] == "Another Ada."
    assert root.rows("FROM quarantine") == []


def test_a_source_that_moved_is_named_once_and_then_known_by_its_path(root: Root) -> None:
    with pytest.raises(LossRefusedError, match=r"wiki\.jsonl is not a source of index 'i', which has 'news' \("):
        root.index("wiki", WIKI)
    moved = root.index("wiki", WIKI, source_name="wiki")
    assert (moved.changed, moved.computed) == (True, {})
    assert not root.index("wiki", WIKI).changed
    (root.folder / "today.jsonl").symlink_to("wiki.jsonl")
    root.run(root.folder / "today.jsonl")
    assert root.manifest.sources.keys() == {"news", "wiki"}
    with pytest.raises(SourceError, match=r"has the sources news, wiki, and none of them was read from .*feed.jsonl"):
        root.index("feed", WIKI, is_partial=True)


TWENTY = {f"r{number}": f"Town {number} is small." for number in range(20)}


@pytest.fixture(scope="module")
def made_of_many(tmp_path_factory: pytest.TempPathFactory) -> Root:
    root = Root(tmp_path_factory.mktemp("many"))
    root.index("r", TWENTY)
    return root


@pytest.fixture
def many(made_of_many: Root, tmp_path: Path) -> Root:
    """Twenty records of one source."""
    return made_of_many.copy(tmp_path / "copy")


@pytest.mark.parametrize(
    ("path", "ways", "sources"),
    [
        ("other", {"replaces": True}, {"other"}),
        ("other", {"source_name": "more", "replaces": True}, {"more"}),
        ("elsewhere/r", {"source_name": "r"}, {"r"}),
    ],
)
def test_another_file_neither_replaces_a_source_nor_takes_its_name_unless_told_to(
    many: Root, path: str, ways: dict[str, Any], sources: set[str]
) -> None:
    (many.folder / "elsewhere").mkdir()
    words = (
        r"is not a source of index 'i', which has 'r' \(.*r.jsonl\)\. Nothing was read: --source-name NEW adds it "
        r"as a further source, --replace puts it in the place of 'r', whose records go\."
    )
    with pytest.raises(LossRefusedError, match=words):
        many.index(path, WIKI)
    assert many.texts == TWENTY
    many.index(path, WIKI, allows_deletions=True, **ways)
    assert (set(many.manifest.sources), many.texts) == (sources, WIKI)


def test_a_source_is_renamed_only_when_told_to(root: Root) -> None:
    root.index("wiki", WIKI, source_name="wiki")
    with pytest.raises(LossRefusedError, match="is source 'wiki' of index 'i' already; leave out --source-name new"):
        root.index("wiki", WIKI, source_name="new")
    root.index("wiki", WIKI, source_name="new", replaces=True)
    assert root.manifest.sources.keys() == {"news", "new"}
    with pytest.raises(SourceError, match="has the sources new, news; say with --source-name which of them"):
        root.index("other", WIKI, replaces=True)
    with pytest.raises(SourceError, match="leave out one"):
        root.index("wiki", WIKI, replaces=True, is_partial=True)


FEWER: dict[str, str] = dict([*TWENTY.items()][:13])


def test_a_run_that_would_delete_much_of_a_source_is_refused_unless_allowed(many: Root) -> None:
    many.index("n", NEWS, source_name="n")
    many.index("r", TWENTY, source_name="r")  # known from now on by its path in this folder
    words = r"7 of 20 records of .*r.jsonl in index 'i' would be deleted, .* share of 0.3; nothing was published"
    ways: tuple[dict[str, Any], ...] = ({}, {"full": True}, {"source_name": "r"}, {"replaces": True})
    for way in ways:
        with pytest.raises(LossRefusedError, match=words):
            many.index("r", FEWER, **way)
    deletions = [{"id": id_, "deleted": True} for id_ in TWENTY.keys() - FEWER.keys()]
    with pytest.raises(LossRefusedError, match=words):
        many.index("r", deletions, is_partial=True)
    assert many.texts == {**TWENTY, **NEWS}
    flip(many.version.arrays / "records_of-r.parquet")
    with pytest.raises(LossRefusedError, match=words):
        many.index("r", FEWER)
    many.index("r", TWENTY)
    many.index("r", deletions, is_partial=True, allows_deletions=True)
    assert many.texts == {**FEWER, **NEWS}
    many.index("r", {id_: FEWER[id_] for id_ in [*FEWER][:1]})  # of a source with fewer than twenty nothing is asked
    many.remove("r")
    assert many.texts == NEWS


def test_a_folder_that_is_empty_or_cannot_be_reached_deletes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, docs, scandir = Root(tmp_path), tmp_path / "docs", os.scandir
    (docs / "sub").mkdir(parents=True)
    for number in range(30):
        (docs / f"{number}.txt").write_text(f"Town {number} is small.")
    (docs / "sub" / "x.txt").write_text("Oslo is a town.")
    root.run(docs)

    def refused(path: Any) -> Any:
        if not isinstance(path, int) and Path(path) == docs / "sub":
            raise PermissionError
        return scandir(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", refused)
        with pytest.raises(SourceError, match=r"Folder 'sub' of .* cannot be opened, and 1 record below it would be"):
            root.run(docs)
    for path in docs.rglob("*.txt"):
        path.unlink()
    with pytest.raises(SourceError, match=r"has no file that ends in .* No record was deleted"):
        root.run(docs)
    shutil.rmtree(docs)
    with pytest.raises(
        SourceError, match=r"There is no file or folder .*whether its disk is mounted. No record was de"
    ):
        root.run(docs)
    assert len(root.texts) == 31


@pytest.mark.parametrize(
    ("path", "name"), [("a/news.jsonl.gz", "news"), ("Pages of ours", "Pages-of-ours"), ("é.csv", "corpus")]
)
def test_the_first_source_is_named_after_its_file(tmp_path: Path, path: str, name: str) -> None:
    assert source_name(tmp_path / path) == name


def test_a_version_without_kept_records_must_be_read_whole_once(root: Root) -> None:
    path = root.version.manifest
    document = json.loads(path.read_bytes())
    del document["checksum"], document["sources"]
    path.write_text(json.dumps({**document, "checksum": document_checksum(document)}), encoding="utf-8")
    with pytest.raises(SourceError, match="kept no records of its source"):
        root.index("wiki", WIKI, is_partial=True)
    with pytest.raises(LossRefusedError, match=r"is not what index 'i' was made from \(.*wiki.jsonl\)"):
        root.index("other", WIKI)


def test_damaged_records_of_another_source_are_not_built_on(root: Root) -> None:
    flip(root.version.arrays / "records_of-news.parquet")
    with pytest.raises(DamagedStoreError, match=r"polyhop index .*news.jsonl --source-name news --index i"):
        root.index("wiki", WIKI, source_name="wiki")
    root.index("news", NEWS, source_name="news")
    assert root.texts == {**NEWS, **WIKI}


def test_changes_say_what_became_of_records_since_the_version_before(root: Root) -> None:
    assert "changes" not in root.manifest.tables  # of those that a full build repeats
    rows: list[Any] = [
        {"id": "w1", "title": "w1", "text": WIKI["w1"], "year": 1900},
        {"id": "w7", "title": "w2", "text": WIKI["w2"]},
        {"id": "w8", "text": "Bern is a town."},
    ]
    report = root.index("wiki", rows, source_name="wiki")
    assert report.changes == {"added": 1, "changed": 1, "deleted": 0, "renamed": 1}
    columns = "SELECT record_id, kind, from_id, source, version FROM changes ORDER BY record_id"
    changed, renamed = ("w1", "changed", None, "wiki", 3), ("w7", "renamed", "w2", "wiki", 3)
    assert root.rows(columns) == [changed, renamed, ("w8", "added", None, "wiki", 3)]
    assert root.index("wiki", rows[:2], source_name="wiki").changes["deleted"] == 1
    assert root.rows(columns) == [("w8", "deleted", None, "wiki", 4)]
    assert not any(root.index("wiki", rows[:2], source_name="wiki").changes.values())


def test_a_removed_source_is_gone_as_if_it_had_never_been_there(root: Root, tmp_path: Path) -> None:
    rows = [{"id": "n1", "text": "Another Ada."}, {"id": "w1", "text": "Rome."}, {"id": "w2"}]
    root.index("wiki", rows, source_name="wiki")
    assert root.texts["n1"] == NEWS["n1"]
    report = root.remove("news")
    assert root.texts == {"n1": "Another Ada.", "w1": "Rome."}
    assert (report.changed, report.changes["deleted"], report.changes["changed"]) == (True, 1, 1)
    assert {name: state.records for name, state in root.manifest.sources.items()} == {"wiki": 2}
    assert root.manifest.source == str(root.folder / "wiki.jsonl")
    fresh = Root(tmp_path / "fresh")
    fresh.index("wiki", rows)
    assert lasting(root.manifest) == lasting(fresh.manifest)


@pytest.mark.parametrize(
    ("removed", "more", "error", "words"),
    [
        (None, {"source_name": "a/b"}, ConfigurationError, "not a name for a source"),
        (None, {"kind": "graph", "is_partial": True}, SourceError, "A knowledge graph is read whole"),
        ("books", {}, SourceError, "has the sources news, wiki, and none called 'books'"),
        ("news", {"source": Path("wiki.jsonl"), "kind": "corpus"}, SourceError, "reads nothing"),
        ("news", {"index": "j"}, UnknownIndexError, "Unknown index 'j'"),
    ],
)
def test_what_cannot_be_read_or_removed(
    root: Root, removed: str | None, more: dict[str, Any], error: type[PolyhopError], words: str, monkeypatch: Any
) -> None:
    monkeypatch.chdir(root.folder)
    with pytest.raises(error, match=words):
        root.remove(removed, **more) if removed else root.index("today", WIKI, **more)


def test_the_command_removes_a_source_but_not_the_only_one_nor_all_its_records(
    root: Root, capsys: pytest.CaptureFixture[str]
) -> None:
    index("i", remove_source="wiki", root=root.root, set_=["strategies=bm25"])
    assert "records: 2 deleted" in capsys.readouterr().out
    assert root.texts == NEWS
    with pytest.raises(SourceError, match="Nothing would be left of index 'i'"):
        root.index("today", [{"id": id_, "deleted": True} for id_ in NEWS], is_partial=True, source_name="news")
    with pytest.raises(SourceError, match="'news' is the only source of index 'i'; nothing would be left"):
        root.remove("news")


def test_a_run_waits_for_the_one_that_writes_the_index(root: Root) -> None:
    lease = root.index_folder.lease
    notes: list[str] = []
    runner = DirectRunner(on_note=notes.append)
    request = IndexRequest("i", Path(root.manifest.sources["wiki"].location), wait_seconds=60)
    with ExitStack() as held:
        held.enter_context(writer_lease(lease, "i"))
        with pytest.raises(StoreConflictError, match="being written by process"):
            run_index(root.settings, replace(request, wait_seconds=0), runner)
        threading.Timer(0.1, held.pop_all().close).start()
    assert not run_index(root.settings, request, runner).changed
    assert [note.endswith("waiting for it…") for note in notes] == [True]


def test_a_source_is_read_again_from_where_it_was_read_last(made: Root) -> None:
    request = known_request(made.settings, "i", "wiki")
    assert request is not None
    assert (request.source, request.source_name) == (made.folder / "wiki.jsonl", "wiki")
    with pytest.raises(SourceError, match="has the sources news, wiki; say with --source-name"):
        known_request(made.settings, "i")
    with pytest.raises(SourceError, match="Nothing is known of where source 'x'"):
        known_request(made.settings, "i", "x")
    assert known_request(made.settings, "none") is None


def test_a_source_in_a_folder_that_may_not_be_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", refuse)
    with pytest.raises(SourceError, match=r"corpus\.jsonl cannot be read: permission denied; allow reading it"):
        check_sources(IndexRequest("one", tmp_path / "corpus.jsonl"))
