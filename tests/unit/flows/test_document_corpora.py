"""A folder of documents as an index: where passages stand, what is read again, and what the quarantine says."""

from pathlib import Path
from typing import Any

import document_files as made
import duckdb
import pytest

import polyhop
from polyhop.flows.index import run_index
from polyhop.flows.reports import IndexReport
from polyhop.flows.runner import DirectRunner
from polyhop.passages import passage_line
from polyhop.schemas.errors import QuarantineExceededError
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import CorpusSettings, Settings
from polyhop.warehouse.documents import converter
from polyhop.warehouse.files import formats
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import require_version


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


def test_without_the_extra_the_run_goes_on_and_says_what_to_install(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "find_spec", lambda _: None)
    made.pdf(corpus / "corpus" / "z.pdf", [["x"]])
    report = indexed(corpus)  # three of five files lack a package: more than the share of unusable ones
    assert report.unread == {".py": 1, ".pdf without the extra office": 2, ".pptx without the extra office": 1}
    reasons = rows(corpus, "SELECT source, reason FROM quarantine ORDER BY source")
    assert [source for source, _ in reasons] == ["a.pdf", "b.pptx", "z.pdf"]
    assert all(reason.endswith('install it with: pip install "polyhop[office]"') for _, reason in reasons)
    for name in ("c.md", "d.txt"):
        (corpus / "corpus" / name).unlink()
    with pytest.raises(QuarantineExceededError, match="polyhop\\[office\\]"):
        indexed(corpus, "nothing-else")
