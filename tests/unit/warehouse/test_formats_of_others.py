"""Corpus formats of other packages: asked about late, checked like ours, clear about what does not work."""

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from polyhop.schemas.errors import ConfigurationError, SourceError
from polyhop.schemas.records import BadRecord, SourceRecord
from polyhop.warehouse.files import formats
from polyhop.warehouse.files.corpora import read_corpus
from polyhop.warehouse.files.formats import described_formats
from polyhop.warehouse.files.records import FaultError, Row, bad_record

GOOD = Row(3, {"id": "a", "title": "Ada", "text": "Ada wrote.", "year": 1843})


def two_rows(_path: Path) -> Iterator[Row | BadRecord]:
    yield GOOD
    yield Row(4, {"id": "b", "text": 7})
    yield bad_record("elsewhere", 5, "odd", "raw")


def failing(_path: Path) -> Iterator[Row | BadRecord]:
    yield GOOD
    raise KeyError("w:p")


def faulty(_path: Path) -> Iterator[Row | BadRecord]:
    yield GOOD
    raise FaultError("the rest is encrypted")


def mappings(_path: Path) -> Iterator[object]:
    yield {"text": "Ada wrote."}


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes an entry point known as if its package were installed."""

    def known(value: str, ending: str = ".odd") -> None:
        point = EntryPoint(ending, value if ":" in value else f"{__name__}:{value}", formats.GROUP)
        monkeypatch.setattr(formats, "extensions", lambda group: {ending: point} if group == formats.GROUP else {})

    return known


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "corpus" / "deep" / "Some.ODD"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"PK\x03\x04\0\0\0\0\0\0\0\0")  # binary: that is for its reader to judge
    return path


def test_records_of_another_format_are_checked_like_ours(source: Path, install: Callable[..., None]) -> None:
    install("two_rows")
    for given, name in ((source, "Some.ODD"), (source.parents[1], "deep/Some.ODD")):
        assert list(read_corpus(given)) == [
            SourceRecord("a", "Ada", "Ada wrote.", name, 3, {"year": 1843}),
            BadRecord(name, 4, "the text is not a string but a number", '{"id": "b", "text": 7}'),
            BadRecord(name, 5, "odd", "raw"),
        ]


def test_an_ending_of_ours_stays_ours_and_no_package_is_asked_about_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: Callable[..., None]
) -> None:
    (tmp_path / "a.txt").write_text("Ada wrote.", encoding="utf-8")
    install("failing", ".TXT")
    assert [record.source for record in read_corpus(tmp_path / "a.txt")] == ["a.txt"]
    monkeypatch.setattr(formats, "extensions", pytest.fail)
    assert len(list(read_corpus(tmp_path / "a.txt"))) == len(list(read_corpus(tmp_path))) == 1


def test_an_unknown_ending_and_the_help_name_all_formats(tmp_path: Path, install: Callable[..., None]) -> None:
    install("two_rows")
    path = tmp_path / "corpus.docs"
    path.write_text("text", encoding="utf-8")
    with pytest.raises(SourceError, match=r"known formats are \.csv, .*\.odd, \.parquet, \.pdf, .*\.txt, .*\.xlsx\."):
        read_corpus(path)
    assert described_formats() == (
        ".jsonl(.gz), .json(.gz), .csv(.gz), .parquet, .odd, or a folder of .txt, .md, .markdown, .html, .htm, "
        ".xhtml, .pdf, .docx, .pptx, .xlsx, .epub, .eml, .csv, .odd files"
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("polyhop_nowhere:records", "does not load: ModuleNotFoundError: No module named 'polyhop_nowhere'"),
        ("GOOD", "which is not a function"),
        ("mappings", "yields dict where a Row or a BadRecord is needed"),
    ],
)
def test_a_package_that_does_not_work_is_named(
    source: Path, install: Callable[..., None], value: str, words: str
) -> None:
    install(value)
    package = "polyhop_nowhere" if ":" in value else __name__
    for given in (source, source.parents[1]):
        with pytest.raises(ConfigurationError, match=f"ormat '.odd' of the package '{package}'.*{words}"):
            list(read_corpus(given))


def test_a_reader_that_fails_ends_the_run_for_a_file_and_is_a_bad_record_in_a_folder(
    source: Path, install: Callable[..., None]
) -> None:
    install("failing")
    reason = (
        f"{source} cannot be read after record 1: the format '.odd' of the package '{__name__}' failed with KeyError"
    )
    with pytest.raises(SourceError) as raised:
        list(read_corpus(source))
    assert str(raised.value).startswith(reason)
    record, bad = read_corpus(source.parents[1])
    assert isinstance(record, SourceRecord)
    assert isinstance(bad, BadRecord)
    assert (bad.source, reason in bad.reason) == ("deep/Some.ODD", True)


def test_a_fault_that_a_reader_raises_is_a_bad_record_with_its_words(
    source: Path, install: Callable[..., None]
) -> None:
    install("faulty")
    assert list(read_corpus(source))[1] == BadRecord("Some.ODD", 2, "the rest is encrypted")
