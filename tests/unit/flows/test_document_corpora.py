"""A folder of documents as an index: where passages stand, what is read again, and what the quarantine says."""

import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import document_files as made
import duckdb
import pytest

import polyhop
from polyhop import cli
from polyhop.flows.index import run_index
from polyhop.flows.reports import IndexReport
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import QuarantineExceededError
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import CorpusSettings, Settings
from polyhop.tasks.passages.records import check_share
from polyhop.terminal import passage_line
from polyhop.warehouse.documents import converter
from polyhop.warehouse.files import formats
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import require_version

if TYPE_CHECKING:
    from polyhop.warehouse.build import Build

pytestmark = pytest.mark.slow


def indexed(folder: Path, name: str = "i", **more: Any) -> IndexReport:
    settings = Settings(root=folder / "root", strategies=("bm25",), corpus=CorpusSettings(max_quarantine_share=0.4))
    return run_index(settings, IndexRequest(name, folder / "corpus", **more), DirectRunner())


def rows(folder: Path, query: str, name: str = "i") -> list[tuple[Any, ...]]:
    _, version = require_version(Layout(folder / "root"), name)
    with duckdb.connect(str(version.tables), read_only=True) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    made.pdf(folder / "a.pdf", [["Engines", "Ada wrote a program."], ["Mills grind."]], outline=[("Engines", 0)])
    made.slides(folder / "b.pptx")
    (folder / "c.md").write_text("# Notes\n\nBob read.\n", encoding="utf-8")
    (folder / "d.txt").write_text("Plain text.", encoding="utf-8")
    (folder / "e.py").write_text("print()", encoding="utf-8")
    return tmp_path


def test_where_passages_stand_is_in_a_table_and_comes_back_with_answers(corpus: Path) -> None:
    report = indexed(corpus)
    assert report.unread == {".py": 1}
    assert rows(corpus, "SELECT * FROM locations ORDER BY passage_id") == [
        ("a.pdf", 1, 2, None, None, None, ["Engines"], None, None),
        ("b.pptx#0", None, None, 1, None, None, ["Engines"], None, None),
        ("b.pptx#1", None, None, 2, None, None, [], None, None),
        ("c.md", None, None, None, None, None, ["Notes"], None, None),
    ]
    with polyhop.open_index("i", root=corpus / "root") as index:
        passages = index.ask("Who wrote a program?", strategy="bm25").passages
    assert passages[0]["location"] == {"first_page": 1, "last_page": 2, "headings": ("Engines",)}
    assert passage_line(passages[0]).endswith("[a.pdf]  pages 1-2, Engines")


def test_an_unchanged_file_is_not_read_again_and_an_edit_is_as_a_full_build(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexed(corpus)
    asked: list[str] = []
    ask = converter.Converter._asked
    monkeypatch.setattr(
        converter.Converter,
        "_asked",
        lambda self, given: (asked.append(str(given["path"])), ask(self, given))[1],  # type: ignore[func-returns-value]
    )
    assert indexed(corpus).changed is False
    assert asked == []
    made.pdf(corpus / "corpus" / "a.pdf", [["Ada wrote two programs."]])
    assert indexed(corpus).changed is True
    assert [Path(path).name for path in asked] == ["a.pdf"]
    indexed(corpus, "full")
    for table in ("locations", "passages", "documents"):
        query = f"SELECT * FROM {table} ORDER BY ALL"
        assert rows(corpus, query) == rows(corpus, query, "full")


def test_locations_of_a_source_stay_when_another_is_read(corpus: Path) -> None:
    indexed(corpus)
    before = rows(corpus, "FROM locations ORDER BY ALL")
    news = corpus / "news.jsonl"
    news.write_text('{"id": "n", "title": "N", "text": "News."}\n', encoding="utf-8")
    settings = Settings(root=corpus / "root", strategies=("bm25",), corpus=CorpusSettings(max_quarantine_share=0.4))
    run_index(settings, IndexRequest("i", news, source_name="news"), DirectRunner())
    assert rows(corpus, "FROM locations ORDER BY ALL") == before
    assert rows(corpus, "SELECT count(*) FROM passages") == [(6,)]


def test_a_broken_file_is_quarantined_with_the_reason(corpus: Path) -> None:
    made.pdf(corpus / "corpus" / "z.pdf", [["x"]], is_encrypted=True)
    indexed(corpus)
    ((source, reason),) = rows(corpus, "SELECT source, reason FROM quarantine")
    assert (source, reason) == ("z.pdf", "it is encrypted with a password; save it without one")


@pytest.mark.parametrize(
    ("good", "bad", "lacking", "files", "is_refused"),
    [
        (33, 3, 0, 3, False),
        (1, 19, 0, 19, False),
        (1, 20, 0, 20, True),
        (380, 20, 0, 20, False),
        (379, 20, 0, 20, True),
        (0, 3, 0, 3, True),
        (33, 3, 0, 0, True),  # rows of a file
        (33, 5, 0, 3, True),  # 2 of 35 rows
        (98, 5, 0, 3, False),
        (1, 30, 11, 19, False),
        (0, 30, 11, 19, True),
    ],
)
def test_files_count_for_the_limit_from_twenty_on_or_if_nothing_is_left(
    good: int, bad: int, lacking: int, files: int, is_refused: bool
) -> None:
    build = SimpleNamespace(settings=Settings(), source="docs", index="i")
    with pytest.raises(QuarantineExceededError) if is_refused else nullcontext():
        check_share(cast("Build", build), good, bad, [("a.pdf", 0, "why")], lacking, files)


def test_a_folder_of_some_bad_files_is_read_and_of_many_refused_with_a_list_and_the_flag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(33):
        (folder / f"good{number:02}.txt").write_text(f"Town {number} lies on a river.")
    (folder / "empty.md").write_text("\n")
    (folder / "rows.csv").write_text("id,text\n1,A row.\n")
    (folder / "western.txt").write_bytes("Das Gerät.".encode("windows-1252"))
    (folder / "table.csv").write_text("name,born\nAda,1815\n")
    options = ("--index", "i", "--root", str(tmp_path / "root"), "--set", "strategies=bm25")

    def run(*more: str) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["polyhop", "index", str(folder), *options, *more])
        with suppress(SystemExit):
            cli.main()
        printed = capsys.readouterr()
        return printed.out, printed.err

    for number in range(3):
        made.pdf(folder / f"bad{number:02}.pdf", [["x"]], is_encrypted=True)
    out, err = run()
    why = "it is encrypted with a password; save it without one"
    assert out.endswith(f"    bad00.pdf: {why}\n    bad01.pdf: {why}\n    bad02.pdf: {why}\n")
    assert err == ""
    assert rows(tmp_path, "SELECT count(*), max(record_id) FILTER (text = 'A row.') FROM passages") == [
        (36, "rows.csv/1")
    ]
    for number in range(3, 22):
        made.pdf(folder / f"bad{number:02}.pdf", [["x"]], is_encrypted=True)
    lines = run()[1].splitlines()
    flag = "--set corpus.max_quarantine_share=0.38"
    assert lines[0].endswith(
        f"22 of 58 records in {folder} are unusable, more than the allowed share of 0.05. "
        f"Fix them, or go on without them: {flag}"
    )
    assert lines[1:] == [*(f"  bad{number:02}.pdf: {why}" for number in range(10)), "  and 12 more"]
    assert "version 2 published" in run(*flag.split())[0]


def test_without_the_extra_the_run_goes_on_and_says_what_to_install(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "find_spec", lambda _: None)
    made.pdf(corpus / "corpus" / "z.pdf", [["x"]])
    report = indexed(corpus)  # three of five files lack a package: more than the share of unusable ones
    assert report.unread == {".py": 1, ".pdf without the extra office": 2, ".pptx without the extra office": 1}
    reasons = rows(corpus, "SELECT source, reason FROM quarantine ORDER BY source")
    assert [source for source, _ in reasons] == ["a.pdf", "b.pptx", "z.pdf"]
    assert all(reason.endswith("install it with: pip install 'polyhop[office]'") for _, reason in reasons)
    for name in ("c.md", "d.txt"):
        (corpus / "corpus" / name).unlink()
    with pytest.raises(QuarantineExceededError, match="polyhop\\[office\\]"):
        indexed(corpus, "nothing-else")
