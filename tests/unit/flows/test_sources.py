"""Sources of an index: read as a whole or in part, told apart by name; their documents and passages, the quarantine."""

import json
import os
import shutil
import threading
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import document_files as made
import pytest
from real_index import RealIndex, flip, lasting, pages
from typer.testing import CliRunner

import polyhop
from polyhop import cli
from polyhop.commands.index import index
from polyhop.flows.index import check_sources, known_request, run_index, source_name
from polyhop.flows.reports import IndexReport
from polyhop.flows.runner import DirectRunner
from polyhop.schemas import errors
from polyhop.schemas.errors import (
    LossRefusedError,
    PolyhopError,
    QuarantineExceededError,
    SourceError,
    install_words,
)
from polyhop.schemas.records import Passage, SourceRecord
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import CorpusSettings, Settings
from polyhop.tasks.extraction import rules
from polyhop.tasks.passages import records as chunks
from polyhop.tasks.passages.records import check_share
from polyhop.terminal import passage_line
from polyhop.warehouse.documents import converter
from polyhop.warehouse.files import formats
from polyhop.warehouse.files.versions import document_checksum, writer_lease

pytestmark = pytest.mark.slow

NEWS = {"n1": "Ada met Bob.", "n2": "Bob went to Rome."}
WIKI = {"w1": "Rome is a town.", "w2": "Oslo is a town."}


class Root(RealIndex):
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
def two_sources(tmp_path_factory: pytest.TempPathFactory) -> Root:
    root = Root(tmp_path_factory.mktemp("sources"))
    root.index("news", NEWS)
    root.index("wiki", WIKI, source_name="wiki")
    return root


@pytest.fixture
def root(two_sources: Root, tmp_path: Path) -> Root:
    return two_sources.copy(tmp_path / "copy")


def test_a_partial_source_adds_changes_and_deletes_by_id_and_leaves_the_rest(root: Root) -> None:
    gone: dict[str, Any] = {id_: {"id": id_, "deleted": True} for id_ in ("w1", "w2", "w4", "w9")}
    edits = [gone["w1"], {"id": "w1", "title": "w1", "text": "Rome is a city."}, gone["w2"], gone["w9"]]
    edits += [{"id": "w4", "text": "Bonn."}, gone["w4"], {"deleted": True}, {"id": "w3", "text": "Bern, too."}]
    root.index("today", edits, source_name="wiki", is_partial=True)
    assert root.texts == {**NEWS, "w1": "Rome is a city.", "w3": "Bern, too."}
    assert root.manifest.source.endswith("wiki.jsonl")
    reason = "missing id to delete: expected a field named id or _id"
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
    assert (root.texts["n1"], root.rows("FROM quarantine")) == ("Another Ada.", [])


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
def test_another_file_replaces_a_source_if_told(many: Root, path: str, ways: dict[str, Any], sources: set[str]) -> None:
    (many.folder / "elsewhere").mkdir()
    words = (
        r"is not a source of index 'i', which has 'r' \(.*r.jsonl\)\. Nothing was read: --source-name NEW adds it "
        r"as another source, --replace replaces 'r' and deletes its records\."
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
    with pytest.raises(SourceError, match="has the sources new, news; choose with --source-name which of them"):
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


def test_an_empty_or_unreachable_folder_deletes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_first_source_is_named_after_its_file(tmp_path: Path) -> None:
    names = {"a/news.jsonl.gz": "news", "Pages of ours": "Pages-of-ours", "é.csv": "corpus"}
    assert {path: source_name(tmp_path / path) for path in names} == names


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
    with pytest.raises(errors.DamagedStoreError, match=r"polyhop index .*news.jsonl --source-name news --index i"):
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
        (None, {"source_name": "a/b"}, errors.ConfigurationError, "not a name for a source"),
        (None, {"kind": "graph", "is_partial": True}, SourceError, "A knowledge graph is read whole"),
        ("books", {}, SourceError, "has the sources news, wiki, and none called 'books'"),
        ("news", {"source": Path("wiki.jsonl"), "kind": "corpus"}, SourceError, "reads nothing"),
        ("news", {"index": "j"}, errors.UnknownIndexError, "Unknown index 'j'"),
    ],
)
def test_what_cannot_be_read_or_removed(
    root: Root, removed: str | None, more: dict[str, Any], error: type[PolyhopError], words: str, monkeypatch: Any
) -> None:
    monkeypatch.chdir(root.folder)
    with pytest.raises(error, match=words):
        root.remove(removed, **more) if removed else root.index("today", WIKI, **more)


def test_the_command_removes_a_source_but_not_the_only_one(root: Root, capsys: pytest.CaptureFixture[str]) -> None:
    index("i", remove_source="wiki", root=root.root, set_=["strategies=bm25"])
    assert "records: 2 deleted" in capsys.readouterr().out
    assert root.texts == NEWS
    with pytest.raises(SourceError, match="Nothing would be left of index 'i'"):
        root.index("today", [{"id": id_, "deleted": True} for id_ in NEWS], is_partial=True, source_name="news")
    with pytest.raises(
        SourceError, match="'news' is the only source of index 'i', so removing it would empty the index"
    ):
        root.remove("news")


def test_a_run_waits_for_the_one_that_writes_the_index(root: Root) -> None:
    lease = root.index_folder.lease
    notes: list[str] = []
    runner = DirectRunner(on_note=notes.append)
    request = IndexRequest("i", Path(root.manifest.sources["wiki"].location), wait_seconds=60)
    with ExitStack() as held:
        held.enter_context(writer_lease(lease, "i"))
        with pytest.raises(errors.StoreConflictError, match="being written by process"):
            run_index(root.settings, replace(request, wait_seconds=0), runner)
        threading.Timer(0.1, held.pop_all().close).start()
    assert not run_index(root.settings, request, runner).changed
    assert [note.endswith("waiting for it…") for note in notes] == [True]


def test_a_source_is_read_again_from_where_it_was_read_last(two_sources: Root) -> None:
    request = known_request(two_sources.settings, "i", "wiki")
    assert request is not None
    assert (request.source, request.source_name) == (two_sources.folder / "wiki.jsonl", "wiki")
    with pytest.raises(SourceError, match="has the sources news, wiki; choose one with --source-name"):
        known_request(two_sources.settings, "i")
    with pytest.raises(SourceError, match="has no recorded location for source 'x'"):
        known_request(two_sources.settings, "i", "x")
    assert known_request(two_sources.settings, "none") is None


def test_a_source_in_a_folder_that_may_not_be_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", refuse)
    with pytest.raises(SourceError, match=r"corpus\.jsonl cannot be read: permission denied; allow reading it"):
        check_sources(IndexRequest("one", tmp_path / "corpus.jsonl"))


@pytest.fixture(scope="module")
def read_once(tmp_path_factory: pytest.TempPathFactory) -> RealIndex:
    """An index that was read from a folder of files, one of which is of no kind that is read."""
    folder = tmp_path_factory.mktemp("read") / "corpus"
    folder.mkdir()
    made.pdf(folder / "a.pdf", [["Engines", "Ada wrote a program."], ["Mills grind."]], outline=[("Engines", 0)])
    made.slides(folder / "b.pptx")
    (folder / "c.md").write_text("# Notes\n\nBob read.\n", encoding="utf-8")
    (folder / "d.txt").write_text("Plain text.", encoding="utf-8")
    (folder / "e.py").write_text("print()", encoding="utf-8")
    index = RealIndex(folder.parent, corpus=CorpusSettings(max_quarantine_share=0.4))
    assert index.run(folder).unread == {".py": 1}
    return index


@pytest.fixture
def files(read_once: RealIndex, tmp_path: Path) -> RealIndex:
    return read_once.copy(tmp_path)


@pytest.fixture
def corpus(files: RealIndex) -> Path:
    return files.folder / "corpus"


def test_where_passages_stand_is_in_a_table_and_comes_back_with_answers(files: RealIndex) -> None:
    located = files.rows("SELECT * FROM locations ORDER BY passage_id")
    assert located == [
        ("a.pdf", 1, 2, None, None, None, ["Engines"], None, None),
        ("b.pptx#0", None, None, 1, None, None, ["Engines"], None, None),
        ("b.pptx#1", None, None, 2, None, None, [], None, None),
        ("c.md", None, None, None, None, None, ["Notes"], None, None),
    ]
    with polyhop.open_index("i", root=files.root) as index:
        passages = index.ask("Who wrote a program?", strategy="bm25").passages
    assert passages[0]["location"] == {"first_page": 1, "last_page": 2, "headings": ("Engines",)}
    assert passage_line(passages[0]).endswith("[a.pdf]  pages 1-2, Engines")
    files.read([{"id": "n", "title": "N", "text": "News."}], "news", source_name="news")
    assert files.rows("SELECT * FROM locations ORDER BY passage_id") == located, "of a source that was not read"
    assert files.rows("SELECT count(*) FROM passages") == [(6,)]


def test_an_edit_reads_what_changed_alone(files: RealIndex, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    ask = converter.Converter._asked

    def noted(self: converter.Converter, given: Any) -> Any:
        asked.append(Path(str(given["path"])).name)
        return ask(self, given)

    monkeypatch.setattr(converter.Converter, "_asked", noted)
    files.run(corpus, source_name="corpus")  # known from now on by its path here
    asked.clear()
    assert files.run(corpus).changed is False
    assert asked == []
    made.pdf(corpus / "a.pdf", [["Ada wrote two programs."]])
    assert files.run(corpus).changed is True
    assert asked == ["a.pdf"]
    fresh = RealIndex(files.folder / "fresh", corpus=files.settings.corpus)
    fresh.run(corpus)
    for table in ("locations", "passages", "documents"):
        assert files.rows(f"FROM {table} ORDER BY ALL") == fresh.rows(f"FROM {table} ORDER BY ALL")


@pytest.mark.parametrize(
    ("good", "bad", "lacking", "files", "is_refused"),
    [
        (1, 19, 0, 19, False),
        (1, 20, 0, 20, True),
        (380, 20, 0, 20, False),
        (379, 20, 0, 20, True),
        (33, 3, 0, 0, True),  # rows of a file
        (9, 10, 0, 0, False),
        (10, 10, 0, 0, True),
        (0, 1, 0, 0, True),
        (33, 5, 0, 3, True),  # 2 of 35 rows
        (98, 5, 0, 3, False),
        (1, 30, 11, 19, False),
        (0, 30, 11, 19, True),
    ],
)
def test_twenty_files_count_for_the_limit(good: int, bad: int, lacking: int, files: int, is_refused: bool) -> None:
    build: Any = SimpleNamespace(settings=Settings(), source="docs", index="i")
    with pytest.raises(QuarantineExceededError) if is_refused else nullcontext():
        check_share(build, good, bad, [("a.pdf", 0, "why")], lacking, files)


@pytest.mark.rare
def test_a_folder_of_some_bad_files_is_read_and_of_many_refused_with_a_list_and_the_flag(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(33):
        (folder / f"good{number:02}.txt").write_text(f"Town {number} lies on a river.")
    (folder / "empty.md").write_text("\n")
    (folder / "rows.csv").write_text("id,text\n1,A row.\n")
    (folder / "western.txt").write_bytes("Das Gerät.".encode("windows-1252"))
    (folder / "table.csv").write_text("name,born\nAda,1815\n")
    options = ("index", str(folder), "--index", "i", "--root", str(tmp_path / "root"), "--set", "strategies=bm25")
    for number in range(3):
        made.pdf(folder / f"bad{number:02}.pdf", [["x"]], is_encrypted=True)
    said = CliRunner().invoke(cli.app, options).stdout
    why = "it is encrypted with a password; save it without one"
    assert said.endswith(f"    bad00.pdf: {why}\n    bad01.pdf: {why}\n    bad02.pdf: {why}\n")
    counted = RealIndex(tmp_path).rows("SELECT count(*), max(record_id) FILTER (text = 'A row.') FROM passages")
    assert counted == [(36, "rows.csv/1")]
    for number in range(3, 22):
        made.pdf(folder / f"bad{number:02}.pdf", [["x"]], is_encrypted=True)
    lines = str(CliRunner().invoke(cli.app, options).exception).splitlines()
    flag = "--set corpus.max_quarantine_share=0.38"
    refused = f"22 of 58 records in {folder} are unusable, more than the allowed share of 0.05."
    assert lines[0].endswith(f"{refused} Fix them, or go on without them: {flag}")
    assert lines[1:] == [*(f"  bad{number:02}.pdf: {why}" for number in range(10)), "  and 12 more"]
    assert "version 2 published" in CliRunner().invoke(cli.app, [*options, *flag.split()]).stdout


def test_without_the_extra_a_run_says_so(files: RealIndex, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "find_spec", lambda _: None)
    files.name = "nothing-known"
    report = files.run(corpus)  # two of four files lack a package: more than the share of unusable ones
    assert report.unread == {".py": 1, ".pdf without the extra office": 1, ".pptx without the extra office": 1}
    reasons = files.rows("SELECT source, reason FROM quarantine ORDER BY source")
    assert [source for source, _ in reasons] == ["a.pdf", "b.pptx"]
    assert all(reason.endswith(install_words("office")) for _, reason in reasons)
    for name in ("c.md", "d.txt"):
        (corpus / name).unlink()
    files.name = "nothing-else"
    with pytest.raises(QuarantineExceededError, match="the extra 'office': uv sync"):
        files.run(corpus)


ROWS = {"a": "Ada met Bob.", "b": "Bob went to Rome. " * 15, "c": "Rome is a town.", "d": "Oslo is a town."}
CITY, OTHERS = {"c": "Rome is a city."}, {"c": "Rome is in Italy.", "n": "New."}


@pytest.fixture
def split(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of the records that were split since it was cleared."""
    asked: list[str] = []
    real = chunks.split_record

    def spy(record: SourceRecord, **chosen: int) -> list[Passage]:
        asked.append(record.id)
        return real(record, **chosen)

    monkeypatch.setattr(chunks, "split_record", spy)
    return asked


def read(root: Path, rows: dict[str, str], *, name: str = "wiki", characters: int = 200, **more: Any) -> RealIndex:
    chosen = CorpusSettings(max_passage_characters=characters, max_quarantine_share=0.9)
    index = RealIndex(root, corpus=chosen)
    index.read([page | {"of": name} for page in pages(rows)], name, source_name=name, **more)
    return index


@pytest.mark.rare
@pytest.mark.parametrize(
    ("others", "rows", "chosen", "expected", "whole"),
    [
        ({}, ROWS | CITY | {"e": "Elm is a tree."}, {}, "bce", None),
        ({}, CITY, {"is_partial": True}, "bc", ROWS | CITY),
        ({}, ROWS, {"characters": 300}, "abcd", None),
        ({}, ROWS, {"full": True}, "abcd", None),
        (OTHERS, ROWS | {"d": "Oslo is a city."}, {}, "bcd", None),  # c is that of `news`, which comes first by name
    ],
    ids=["whole", "part", "longest passage", "full", "two sources"],
)
def test_what_changed_and_what_was_cut_is_split_again(
    tmp_path: Path, split: list[str], others: Any, rows: Any, chosen: dict[str, Any], expected: str, whole: Any
) -> None:
    read(tmp_path, ROWS)
    if others:
        read(tmp_path, others, name="news")
    split.clear()
    edited = read(tmp_path, rows, **chosen).manifest
    assert "".join(sorted(split)) == expected
    if others:
        read(tmp_path / "fresh", others, name="news")
    fresh = read(tmp_path / "fresh", whole or rows, **chosen | {"is_partial": False}).manifest
    for table in ("passages", "documents", "quarantine"):
        assert edited.tables[table] == fresh.tables[table]


def test_an_index_above_the_limit_splits_all(tmp_path: Path, split: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    read(tmp_path, ROWS)
    split.clear()
    monkeypatch.setattr("polyhop.tasks.corpus.stage.MOST_COMPARED", 2)
    read(tmp_path, ROWS | CITY)
    assert sorted(split) == ["a", "b", "c", "d"]


ODD = "Odd Town"


def records(count: int = 40) -> list[dict[str, str]]:
    towns = [{"id": f"p{n}", "title": f"Town {n % 20}", "text": f"Town {n} lies near {ODD}."} for n in range(count)]
    return [*towns, {"id": "odd", "title": ODD, "text": f"{ODD} lies on the Aire."}]


@pytest.fixture
def towns(tmp_path: Path) -> RealIndex:
    return RealIndex(tmp_path, strategies=("bm25", "bridge-lexical"))


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A rule with a defect that shows on two texts."""
    whole = rules.find_dates  # type: ignore[attr-defined]

    def find_dates(text: str) -> object:
        return [][len(text)] if "on the Aire" in text or "Leeds is large" in text else whole(text)

    monkeypatch.setattr(rules, "find_dates", find_dates)
    return monkeypatch


def test_a_passage_that_a_rule_fails_on_is_tried_again(towns: RealIndex, failing: pytest.MonkeyPatch) -> None:
    beside = [{"id": key, "title": ODD, "text": "It is small."} for key in ("a", "z")]
    report = towns.read([*beside, *records()])
    assert (report.counts["passages"], report.counts["quarantined"]) == (42, 1)
    ((source, line, reason, excerpt),) = towns.rows("FROM quarantine")
    assert (source, line, excerpt) == ("corpus.jsonl", 43, "Odd Town lies on the Aire.")
    assert "passage 'odd'" in str(reason)
    assert "IndexError: list index out of range (test_sources.py line" in str(reason)
    odd = towns.rows(f"SELECT passage_id, ordinal FROM passages WHERE title = '{ODD}' ORDER BY 1")
    assert odd == [("a", 0), ("z", 1)]
    without = RealIndex(towns.folder / "without", strategies=towns.settings.strategies)
    without.read([*beside, *records()[:-1]])
    for table in ("passages", "documents", "entities", "mentions", "relations", "propositions"):
        assert towns.rows(f"FROM {table} ORDER BY ALL") == without.rows(f"FROM {table} ORDER BY ALL")
    strict = RealIndex(towns.folder / "strict", strategies=("bm25",), corpus=CorpusSettings(max_quarantine_share=0))
    with pytest.raises(QuarantineExceededError, match=r"(?s)1 of 43 records .* IndexError: list index out of range"):
        strict.read([*beside, *records()])
    assert not towns.read([*beside, *records()]).changed
    failing.undo()
    assert towns.read([*beside, *records()]).counts["passages"] == 43


def test_the_line_of_a_passage_that_was_not_read_is_unknown(towns: RealIndex, request: pytest.FixtureRequest) -> None:
    towns.read(records())
    request.getfixturevalue("failing")
    rows = [{"title": "York", "text": "It is large."}, {"title": "Leeds", "text": "Leeds is large."}]
    report = towns.read(rows, "other", source_name="other", full=True)
    assert (report.counts["passages"], report.counts["quarantined"]) == (41, 2)
    lines = towns.rows("SELECT source, line FROM quarantine ORDER BY source")
    assert lines == [("corpus.jsonl", None), ("other.jsonl", 2)]


def test_where_kept_passages_stand_stays_known(tmp_path: Path) -> None:
    """Of a folder that is read in part, and beside another source that is."""
    edited, fresh = (RealIndex(tmp_path / name) for name in ("edited", "fresh"))
    for one, word in ((edited, "Old"), (fresh, "New")):
        (folder := one.folder / "docs").mkdir()
        made.sheets(folder / "a.xlsx")
        (folder / "b.txt").write_text(word)
        one.run(folder, source_name="docs")
        one.read(pages({f"p{n}": "A town." for n in range(20)} | {"x": word}), "towns", source_name="towns")
    (edited.folder / "docs" / "a.xlsx").unlink()
    (edited.folder / "docs" / "b.txt").write_text("New")
    edited.run(edited.folder / "docs", source_name="docs", is_partial=True)
    edited.read(pages({"x": "New"}), "towns", source_name="towns", is_partial=True)
    assert (len(edited.rows("FROM locations")), lasting(edited.manifest)) == (2, lasting(fresh.manifest))
