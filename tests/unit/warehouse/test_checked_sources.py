"""What is said of a file before and while it is read: each kind of file that cannot be, and why."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from polyhop.schemas.errors import SourceError
from polyhop.warehouse.files.records import check_source, guarded, suffix_of

KNOWN = {".jsonl", ".jsonl.gz", ".csv"}


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("a.jsonl", ".jsonl"), ("a.JSONL.GZ", ".jsonl.gz"), ("a.b.csv", ".csv"), ("a", ""), (".gz", ""), ("a.gz", ".gz")],
)
def test_a_suffix_names_the_format_also_of_a_packed_file(name: str, suffix: str) -> None:
    assert suffix_of(Path("folder") / name) == suffix


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.jsonl", b"", "is empty"),
        ("a.jsonl", b"\x89PNG\r\n", "not a text file: it is a PNG image"),
        ("a.csv", b"PK\x03\x04rest", "a ZIP archive or office document"),
        ("a.csv", b"\xff\xfea\x00", "UTF-16; save it as UTF-8"),
        ("a.jsonl", bytes(range(256)), "it is binary"),
        ("a.xyz", b"text", r"unknown format; known formats are \.csv, \.jsonl, \.jsonl\.gz, \.own"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_beforehand(
    tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=words):
        check_source(tmp_path / name, KNOWN, accepts_folder=True, others=lambda: {".own"})


def test_text_with_a_few_odd_characters_and_packed_files_and_those_of_others_are_read(tmp_path: Path) -> None:
    files = {"a.jsonl": b"\x00\x01ok", "b.jsonl.gz": gzip.compress(b"{}"), "c.own": bytes(range(256))}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        check_source(tmp_path / name, KNOWN, accepts_folder=False, others=lambda: {".own"})


def test_folders_and_what_is_not_there(tmp_path: Path) -> None:
    check_source(tmp_path, KNOWN, accepts_folder=True)
    with pytest.raises(SourceError, match="is a folder; name a file in it"):
        check_source(tmp_path, KNOWN, accepts_folder=False)
    with pytest.raises(SourceError, match="There is no file or folder"):
        check_source(tmp_path / "none.csv", KNOWN, accepts_folder=True)


def broken(error: Exception | None, count: int) -> Iterator[int]:
    yield from range(count)
    if error is not None:
        raise error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (EOFError(), "cannot be read after record 2: it breaks off in the middle"),
        (gzip.BadGzipFile("x"), "after record 2: it is not gzip, or damaged"),
        (zlib.error("x"), "after record 2: it is not gzip, or damaged"),
        (PermissionError(13, "no"), "permission denied; allow reading it"),
        (OSError(5, "no"), "Input/output error; check the disk"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "damaged or not what its name says"),
    ],
)
def test_what_came_before_a_break_is_kept_and_the_reason_said(error: Exception, words: str) -> None:
    found: list[int] = []
    with pytest.raises(SourceError, match=words):
        found.extend(guarded(Path("a.jsonl"), broken(error, 2), "record"))
    assert found == [0, 1]


def test_a_file_of_nothing_is_refused_and_so_is_whatever_a_parser_raises() -> None:
    with pytest.raises(SourceError, match="holds no record; at least one"):
        list(guarded(Path("a"), broken(None, 0), "record"))
    with pytest.raises(SourceError, match="after record 1: it is damaged or not what its name says"):
        list(guarded(Path("a"), broken(KeyError("k"), 1), "record"))
    assert list(guarded(Path("a"), broken(None, 3), "record")) == [0, 1, 2]
