"""A corpus as an index: documents, records that are copied unchanged, passages that go to the quarantine."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import document_files as made
import pytest
from real_index import RealIndex, pages
from typer.testing import CliRunner

import polyhop
from polyhop import cli
from polyhop.schemas.errors import QuarantineExceededError
from polyhop.schemas.records import Passage, SourceRecord
from polyhop.schemas.settings import CorpusSettings, Settings
from polyhop.tasks.extraction import rules
from polyhop.tasks.passages import records as chunks
from polyhop.tasks.passages.records import check_share
from polyhop.terminal import passage_line
from polyhop.warehouse.documents import converter
from polyhop.warehouse.files import formats

if TYPE_CHECKING:
    from polyhop.warehouse.build import Build

pytestmark = pytest.mark.slow


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


def test_an_unchanged_file_is_not_read_again_and_an_edit_is_as_a_full_build(
    files: RealIndex, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    ask = converter.Converter._asked
    monkeypatch.setattr(
        converter.Converter,
        "_asked",
        lambda self, given: (asked.append(Path(str(given["path"])).name), ask(self, given))[1],  # type: ignore[func-returns-value]
    )
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
    assert lines[0].endswith(
        f"22 of 58 records in {folder} are unusable, more than the allowed share of 0.05. "
        f"Fix them, or go on without them: {flag}"
    )
    assert lines[1:] == [*(f"  bad{number:02}.pdf: {why}" for number in range(10)), "  and 12 more"]
    assert "version 2 published" in CliRunner().invoke(cli.app, [*options, *flag.split()]).stdout


def test_without_the_extra_the_run_goes_on_and_says_what_to_install(
    files: RealIndex, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "find_spec", lambda _: None)
    files.name = "nothing-known"
    report = files.run(corpus)  # two of four files lack a package: more than the share of unusable ones
    assert report.unread == {".py": 1, ".pdf without the extra office": 1, ".pptx without the extra office": 1}
    reasons = files.rows("SELECT source, reason FROM quarantine ORDER BY source")
    assert [source for source, _ in reasons] == ["a.pdf", "b.pptx"]
    assert all(reason.endswith("install it with: pip install 'polyhop[office]'") for _, reason in reasons)
    for name in ("c.md", "d.txt"):
        (corpus / name).unlink()
    files.name = "nothing-else"
    with pytest.raises(QuarantineExceededError, match="polyhop\\[office\\]"):
        files.run(corpus)


ROWS = {"a": "Ada met Bob.", "b": "Bob went to Rome. " * 15, "c": "Rome is a town.", "d": "Oslo is a town."}
CITY, NEWS = {"c": "Rome is a city."}, {"c": "Rome is in Italy.", "n": "New."}


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
        (NEWS, ROWS | {"d": "Oslo is a city."}, {}, "bcd", None),  # c is that of `news`, which comes first by name
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


def test_an_index_above_the_limit_splits_every_record(
    tmp_path: Path, split: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_a_passage_that_a_rule_fails_on_goes_to_the_quarantine_and_is_tried_again(
    towns: RealIndex, failing: pytest.MonkeyPatch
) -> None:
    beside = [{"id": key, "title": ODD, "text": "It is small."} for key in ("a", "z")]
    report = towns.read([*beside, *records()])
    assert (report.counts["passages"], report.counts["quarantined"]) == (42, 1)
    ((source, line, reason, excerpt),) = towns.rows("FROM quarantine")
    assert (source, line, excerpt) == ("corpus.jsonl", 43, "Odd Town lies on the Aire.")
    assert "passage 'odd'" in str(reason)
    assert "IndexError: list index out of range (test_corpora.py line" in str(reason)
    odd = towns.rows(f"SELECT passage_id, ordinal FROM passages WHERE title = '{ODD}' ORDER BY 1")
    assert odd == [("a", 0), ("z", 1)]
    without = RealIndex(towns.folder / "without", strategies=towns.settings.strategies)
    without.read([*beside, *records()[:-1]])
    for table in ("passages", "documents", "entities", "mentions", "relations", "propositions"):
        assert towns.rows(f"FROM {table} ORDER BY ALL") == without.rows(f"FROM {table} ORDER BY ALL")
    without.name = "few"
    with pytest.raises(QuarantineExceededError, match=r"(?s)1 of 10 records .* IndexError: list index out of range"):
        without.read(records(9))
    assert not towns.read([*beside, *records()]).changed
    failing.undo()
    assert towns.read([*beside, *records()]).counts["passages"] == 43


def test_of_a_passage_from_a_source_that_was_not_read_the_line_is_not_known(
    towns: RealIndex, request: pytest.FixtureRequest
) -> None:
    towns.read(records())
    request.getfixturevalue("failing")
    rows = [{"title": "York", "text": "It is large."}, {"title": "Leeds", "text": "Leeds is large."}]
    report = towns.read(rows, "other", source_name="other", full=True)
    assert (report.counts["passages"], report.counts["quarantined"]) == (41, 2)
    lines = towns.rows("SELECT source, line FROM quarantine ORDER BY source")
    assert lines == [("corpus.jsonl", None), ("other.jsonl", 2)]
