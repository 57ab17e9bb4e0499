"""A corpus as an index: documents, records that are copied unchanged, passages that go to the quarantine."""

import json
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
from polyhop.schemas.manifest import Manifest
from polyhop.schemas.records import Passage, SourceRecord
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import CorpusSettings, Settings, parse_settings
from polyhop.schemas.types import name_type
from polyhop.tasks.extraction import rules
from polyhop.tasks.passages import records as chunks
from polyhop.tasks.passages.records import check_share
from polyhop.terminal import passage_line
from polyhop.warehouse.documents import converter
from polyhop.warehouse.files import formats
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import current_version, read_manifest, require_version
from polyhop.warehouse.tables.connection import connect

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


ROWS = {"a": "Ada met Bob.", "b": "Bob went to Rome. " * 15, "c": "Rome is a town.", "d": "Oslo is a town."}


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


def read(root: Path, rows: dict[str, str], *, name: str = "wiki", characters: int = 200, **more: Any) -> Manifest:
    path = root / f"{name}.jsonl"
    lines = (json.dumps({"id": id_, "title": id_, "text": text, "of": name}) for id_, text in rows.items())
    path.write_text("\n".join(lines), encoding="utf-8")
    chosen = CorpusSettings(max_passage_characters=characters, max_quarantine_share=0.9)
    settings = Settings(root=root, strategies=("bm25",), corpus=chosen)
    run_index(settings, IndexRequest("i", path, source_name=name, **more), DirectRunner())
    return read_manifest(require_version(Layout(root), "i")[1])


def test_a_whole_source_splits_what_changed_and_what_was_cut(tmp_path: Path, split: list[str]) -> None:
    read(tmp_path, ROWS)
    assert sorted(split) == ["a", "b", "c", "d"]
    split.clear()
    changed = ROWS | {"c": "Rome is a city.", "e": "Elm is a tree."}
    edited = read(tmp_path, changed)
    assert sorted(split) == ["b", "c", "e"]
    (fresh := tmp_path / "fresh").mkdir()
    assert edited.tables["passages"] == read(fresh, changed).tables["passages"]


def test_a_part_splits_its_records_and_what_was_cut(tmp_path: Path, split: list[str]) -> None:
    read(tmp_path, ROWS)
    split.clear()
    edited = read(tmp_path, {"c": "Rome is a city."}, is_partial=True)
    assert sorted(split) == ["b", "c"]
    (fresh := tmp_path / "fresh").mkdir()
    assert edited.tables["passages"] == read(fresh, ROWS | {"c": "Rome is a city."}).tables["passages"]


def test_other_pieces_are_cut_when_the_longest_passage_changes(tmp_path: Path, split: list[str]) -> None:
    read(tmp_path, ROWS)
    split.clear()
    edited = read(tmp_path, ROWS, characters=300)
    assert sorted(split) == ["a", "b", "c", "d"]
    assert edited.counts["passages"] == 4


def test_a_full_run_splits_everything(tmp_path: Path, split: list[str]) -> None:
    read(tmp_path, ROWS)
    split.clear()
    read(tmp_path, ROWS, full=True)
    assert sorted(split) == ["a", "b", "c", "d"]


def test_a_record_that_another_source_holds_with_another_text_is_split(tmp_path: Path, split: list[str]) -> None:
    read(tmp_path, ROWS)
    read(tmp_path, {"c": "Rome is in Italy.", "n": "New."}, name="news")
    split.clear()
    edited = read(tmp_path, ROWS | {"d": "Oslo is a city."})
    assert sorted(split) == ["b", "c", "d"]  # passage c is that of `news`, which comes first by name
    (fresh := tmp_path / "fresh").mkdir()
    read(fresh, {"c": "Rome is in Italy.", "n": "New."}, name="news")
    whole = read(fresh, ROWS | {"d": "Oslo is a city."})
    tables = ("passages", "documents", "quarantine")
    assert [edited.tables[name] for name in tables] == [whole.tables[name] for name in tables]


def test_the_excerpt_of_a_long_record_that_another_source_has_depends_on_no_order(tmp_path: Path) -> None:
    long = "".join(f"Town {n} lies near Lake {n}. " for n in range(60))
    read(tmp_path, ROWS | {"c": long})
    edited = read(tmp_path, {"c": "Rome is in Italy."}, name="news")
    (fresh := tmp_path / "fresh").mkdir()
    read(fresh, {"c": "Rome is in Italy."}, name="news")
    assert edited.tables["quarantine"] == read(fresh, ROWS | {"c": long}).tables["quarantine"]
    with duckdb.connect(require_version(Layout(fresh), "i")[1].tables, read_only=True) as connection:
        shown = connection.execute("SELECT excerpt FROM quarantine").fetchall()
    ((excerpt,),) = shown
    assert excerpt in long
    assert excerpt.startswith("Town 0 "), "the smallest of its pieces"


def test_an_index_above_the_limit_splits_every_record(
    tmp_path: Path, split: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read(tmp_path, ROWS)
    split.clear()
    monkeypatch.setattr("polyhop.tasks.corpus.stage.MOST_COMPARED", 2)
    read(tmp_path, ROWS | {"c": "Rome is a city."})
    assert sorted(split) == ["a", "b", "c", "d"]


ODD = "Odd Town"
TEN_K = """UNITED STATES SECURITIES AND EXCHANGE COMMISSION
Washington, D.C. 20549

FORM 10-K

(Mark One)
☒ ANNUAL REPORT PURSUANT TO SECTION 13 OR 15(d) OF THE SECURITIES EXCHANGE ACT OF 1934
For the fiscal year ended December 31, 2023
OR
☐ TRANSITION REPORT PURSUANT TO SECTION 13 OR 15(d) OF THE SECURITIES EXCHANGE ACT OF 1934

Commission file number 001-36743 ACME INDUSTRIES, INC. (Exact name of Registrant as specified in its charter)
Delaware | 94-2404110
Title of each class | Trading symbol(s) | Name of each exchange on which registered
Common Stock, $0.00001 par value per share | ACME | The Nasdaq Stock Market LLC

Item 1. Business. Acme Industries was founded by Jane Roe in Leeds. Net sales were $383,285 million (in millions).
"""


def records(count: int = 40) -> list[dict[str, str]]:
    towns = [{"id": f"p{n}", "title": f"Town {n % 20}", "text": f"Town {n} lies near {ODD}."} for n in range(count)]
    return [*towns, {"id": "odd", "title": ODD, "text": f"{ODD} lies on the Aire."}]


def index(folder: Path, rows: list[dict[str, str]], **settings: object) -> IndexReport:
    corpus = folder / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    known = {"root": str(folder / "root"), "strategies": "bm25,bridge-lexical"} | settings
    return run_index(parse_settings({"test": known}), IndexRequest("one", corpus), DirectRunner())


def rows_of(folder: Path, sql: str) -> list[tuple[object, ...]]:
    index_folder = Layout(folder / "root").index("one")
    version = index_folder.version(current_version(index_folder) or 0)
    with connect(version.tables, read_only=True) as connection:
        return connection.execute(sql).fetchall()


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A rule with a defect that shows on one text."""
    whole = rules.find_dates  # type: ignore[attr-defined]

    def find_dates(text: str) -> object:
        if "on the Aire" in text:
            return [][len(text)]
        return whole(text)

    monkeypatch.setattr(rules, "find_dates", find_dates)
    return monkeypatch


def test_a_passage_that_a_rule_fails_on_goes_to_the_quarantine_and_is_tried_again(
    tmp_path: Path, failing: pytest.MonkeyPatch
) -> None:
    report = index(tmp_path, records())
    assert (report.counts["passages"], report.counts["quarantined"]) == (40, 1)
    ((source, line, reason, excerpt),) = rows_of(tmp_path, "FROM quarantine")
    assert (source, line, excerpt) == ("corpus.jsonl", 41, "Odd Town lies on the Aire.")
    assert "passage 'odd'" in str(reason)
    assert "IndexError: list index out of range (test_corpora.py line" in str(reason)
    again = index(tmp_path, records())
    assert (again.changed, again.version) == (False, 1)
    failing.undo()
    fixed = index(tmp_path, records())
    assert (fixed.counts["passages"], fixed.counts["quarantined"]) == (41, 0)


def test_the_rest_is_as_if_the_passage_were_not_in_the_corpus(tmp_path: Path, failing: pytest.MonkeyPatch) -> None:
    for name, rows in (("with", records()), ("without", records()[:-1])):
        (tmp_path / name).mkdir()
        index(tmp_path / name, rows)
    for table in ("passages", "documents", "entities", "mentions", "relations", "propositions"):
        with_it, without = (rows_of(tmp_path / name, f"FROM {table} ORDER BY ALL") for name in ("with", "without"))
        assert with_it == without


def test_a_document_loses_the_passage_only(tmp_path: Path, failing: pytest.MonkeyPatch) -> None:
    first, last = ({"id": key, "title": ODD, "text": "It is small."} for key in ("a", "z"))
    index(tmp_path, [first, *records(), last])
    assert rows_of(tmp_path, f"SELECT passage_id, ordinal FROM passages WHERE title = '{ODD}' ORDER BY 1") == [
        ("a", 0),
        ("z", 1),
    ]
    assert rows_of(tmp_path, f"SELECT passage_count FROM documents WHERE title = '{ODD}'") == [(2,)]


def test_too_many_such_passages_end_the_run_and_nothing_is_published(
    tmp_path: Path, failing: pytest.MonkeyPatch
) -> None:
    with pytest.raises(QuarantineExceededError, match=r"(?s)1 of 10 records .* IndexError: list index out of range"):
        index(tmp_path, records(9))
    assert current_version(Layout(tmp_path / "root").index("one")) is None


def test_a_version_without_its_source_loses_the_passage_too(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    index(tmp_path, records())
    request.getfixturevalue("failing")
    settings = parse_settings({"test": {"root": str(tmp_path / "root"), "strategies": "bm25,bridge-lexical"}})
    report = run_index(settings, IndexRequest("one", None, full=True), DirectRunner())
    assert (report.counts["passages"], report.counts["quarantined"]) == (40, 1)
    assert rows_of(tmp_path, "SELECT source, line FROM quarantine") == [("corpus.jsonl", None)]


def test_of_a_passage_from_a_source_that_was_not_read_the_line_is_not_known(
    tmp_path: Path, failing: pytest.MonkeyPatch
) -> None:
    failing.undo()
    index(tmp_path, records())
    failing.setattr(rules, "find_dates", lambda text: [][len(text)] if "Aire" in text or "Leeds" in text else [])
    other = tmp_path / "other.jsonl"
    rows = [{"title": "York", "text": "It is large."}, {"title": "Leeds", "text": "Leeds is large."}]
    other.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    settings = parse_settings({"test": {"root": str(tmp_path / "root"), "strategies": "bm25,bridge-lexical"}})
    report = run_index(settings, IndexRequest("one", other, source_name="other", full=True), DirectRunner())
    assert (report.counts["passages"], report.counts["quarantined"]) == (41, 2)
    assert rows_of(tmp_path, "SELECT source, line FROM quarantine ORDER BY source") == [
        ("corpus.jsonl", None),
        ("other.jsonl", 2),
    ]


def test_an_annual_report_is_indexed_from_cover_page_to_names(tmp_path: Path) -> None:
    report = index(tmp_path, [{"id": "10-K", "title": "Acme Industries 10-K", "text": TEN_K}])
    assert report.counts["quarantined"] == 0
    names = dict(rows_of(tmp_path, "SELECT key, type FROM entities WHERE is_named"))  # type: ignore[arg-type, var-annotated]
    assert {"acme industries", "jane roe", "leeds"} <= names.keys()
    assert name_type("of the securities exchange act of")[0] == names["of the securities exchange act of"]
