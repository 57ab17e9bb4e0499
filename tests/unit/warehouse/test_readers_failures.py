"""What can be wrong with a record is yielded as a BadRecord; what is wrong with a source is one sentence."""

import gzip
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from polyhop.schemas.corpus import BadRecord, SourceRecord
from polyhop.schemas.errors import SourceError
from polyhop.warehouse.files.formats import text_reader
from polyhop.warehouse.files.lines import MAX_RECORD_BYTES, open_bytes, read_lines
from polyhop.warehouse.files.readers import read_corpus

GOOD = b'{"id": "good", "text": "fine"}'


def faults_of(source: Path) -> list[tuple[int, str]]:
    """Lines and reasons of the bad records; the record `good` must have survived."""
    records = list(read_corpus(source))
    assert [r.id for r in records if isinstance(r, SourceRecord)] == ["good"]
    return [(r.line, r.reason) for r in records if isinstance(r, BadRecord)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": "a",}', "not JSON: Expecting property name enclosed in double quotes at character 14"),
        (b"plain words", "not JSON: Expecting value at character 1"),
        (b'["a"]', "not a JSON object but a list"),
        (b"12", "not a JSON object but a number"),
        (b"null", "not a JSON object but null"),
        (b'{"title": "a"}', "there is no text: expected a field named text, contents or body"),
        (b'{"text": null}', "there is no text: expected a field named text, contents or body"),
        (b'{"text": NaN}', "there is no text: expected a field named text, contents or body"),
        (b'{"text": " \\n"}', "the text is empty"),
        (b'{"text": 5}', "the text is not a string but a number"),
        (b'{"body": ["a"]}', "the body is not a string but a list"),
        (b'{"text": "a\\u0000b"}', "the text contains a NUL character at character 2"),
        (b'{"text": "a\0b"}', "the line contains a NUL byte at byte 12"),
        (b'{"text": "a\\ud83d"}', "the text is not valid UTF-8 (half a character, U+D83D at character 2)"),
        (b'{"text": "caf\xe9"}', "the line is not UTF-8 (invalid byte 0xe9 at byte 14)"),
        (b'{"id": true, "text": "a"}', "the id is neither a string nor a whole number but true or false"),
        (b'{"id": 1.5, "text": "a"}', "the id is neither a string nor a whole number but a number"),
        (b'{"id": ["x"], "text": "a"}', "the id is neither a string nor a whole number but a list"),
        (b'{"id": "x\\ny", "text": "a"}', "the id contains a control character (U+000A)"),
        (b'{"id": "\\u0007x", "text": "a"}', "the id contains a control character (U+0007)"),
        (b'{"title": {}, "text": "a"}', "the title is not a string but an object"),
        (b'{"text": ' + b"9" * 5000 + b"}", "JSON that cannot be read: a number has too many digits"),
        (b'{"text": ' + b"[" * 100_000 + b"}", "JSON that cannot be read: it is nested too deeply"),
        (b'{"text": "a", "x": ' + b"[" * 40 + b"]" * 40 + b"}", "the metadata is nested more than 32 levels deep"),
    ],
)
def test_a_bad_line_is_named_and_the_others_are_read(tmp_path: Path, line: bytes, reason: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(GOOD + b"\n" + line + b"\n")
    assert faults_of(path) == [(2, reason)]


def test_a_bad_record_shows_the_beginning_of_its_line(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(b"\xffx" + b"y" * 1000)
    (bad,) = read_corpus(path)
    assert bad == BadRecord("c.jsonl", 1, "the line is not UTF-8 (invalid byte 0xff at byte 1)", "\\udcffx" + "y" * 198)


def test_a_line_above_the_limit_is_passed_over_without_being_held(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(b'{"text": "' + b"x" * MAX_RECORD_BYTES + b'"}\n' + GOOD)
    assert faults_of(path) == [(1, "the line is longer than 64 MB")]


@pytest.mark.parametrize(("length", "is_too_long"), [(9, False), (10, False), (11, True), (12, True), (3000, True)])
def test_the_limit_counts_a_line_without_its_end(tmp_path: Path, length: int, is_too_long: bool) -> None:
    path = tmp_path / "c"
    path.write_bytes(b"x" * length + b"\nlast")
    with open_bytes(path) as stream:
        lines = list(read_lines(stream, limit=10))
    assert [(line.number, line.is_too_long) for line in lines] == [(1, is_too_long), (2, False)]
    assert lines[1].data == b"last"


def test_bad_elements_of_a_json_list(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(b'[3, {"text": "caf\xe9"}, ' + GOOD + b"]")
    invalid = "the text is not valid UTF-8 (invalid byte 0xe9 at character 4)"
    assert faults_of(path) == [(1, "not a JSON object but a number"), (2, invalid)]


def test_bad_rows_of_a_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_bytes(b'id,text\n1,a,b\n2,"a"b\n3,\n4,caf\xe9\ngood,fine\n')
    assert faults_of(path) == [
        (2, "the row has 3 cells, but there are 2 columns"),
        (3, "not CSV: ',' expected after '\"'"),
        (4, "there is no text: expected a field named text, contents or body"),
        (5, "the text is not valid UTF-8 (invalid byte 0xe9 at character 4)"),
    ]


def test_bad_rows_of_a_parquet_file(tmp_path: Path) -> None:
    invalid = pa.array([b"fine", None, b"caf\xe9"]).view(pa.string())
    pq.write_table(pa.table({"id": ["good", "b", "c"], "text": invalid}), tmp_path / "c.parquet")
    assert faults_of(tmp_path / "c.parquet") == [
        (2, "there is no text: expected a field named text, contents or body"),
        (3, "the text is not valid UTF-8 (invalid byte 0xe9 at character 4)"),
    ]


def test_bad_files_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"caf\xe9")
    (tmp_path / "b.md").write_bytes(b" \n")
    (tmp_path / "c\n.txt").write_bytes(b"text")
    (tmp_path / "good.txt").write_bytes(b"text")
    with (tmp_path / "z.txt").open("wb") as file:
        file.truncate(MAX_RECORD_BYTES + 1)
    records = list(read_corpus(tmp_path))
    assert [(r.source, r.reason) if isinstance(r, BadRecord) else r.id for r in records] == [
        ("a.txt", "the file is not UTF-8 (invalid byte 0xe9 at byte 4)"),
        ("b.md", "the text is empty"),
        ("c\n.txt", "the id contains a control character (U+000A)"),
        "good.txt",
        ("z.txt", "the file is larger than 64 MB; split it or use JSON lines"),
    ]


def test_bad_items_and_paragraphs_of_a_question_set(tmp_path: Path) -> None:
    items = [
        {"question": "?", "context": [["A", ["fine"]], ["B", []], [None, ["no title"]], [["C"], ["x"]]]},
        {"question": "?", "context": [["A", "B", "C"]]},
        {"question": "?", "context": [["A", [1]]]},
        {"question": "?"},
    ]
    path = tmp_path / "hotpot.json"
    path.write_text(json.dumps(items), encoding="utf-8")
    records = list(read_corpus(path))
    assert [r.text for r in records if isinstance(r, SourceRecord)] == ["fine", "no title"]
    assert [(r.line, r.reason) for r in records if isinstance(r, BadRecord)] == [
        (1, "paragraph 2: the text is empty"),
        (1, "paragraph 4: the title is not a string but a list"),
        (2, "not a HotpotQA item: the context is not a list of [title, sentences]"),
        (3, "not a HotpotQA item: the sentences of a context are not a list of strings"),
        (4, "not a HotpotQA item: the context is not a list but null"),
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("c.jsonl", b"", "{path} is empty; name a file with at least one record."),
        ("c.jsonl", b"\n \n", "{path} holds no record; at least one is needed."),
        ("c.json", b" [ ]", "{path} holds no record; at least one is needed."),
        ("c.csv", b"text\n", "{path} holds no record; at least one is needed."),
        ("c.txt", b" \n", "{path} holds no record; at least one is needed."),
        ("c.txt", b"\x89PNG\r\n\x1a\n", "{path} is not a text file: it is a PNG image."),
        ("c", b"\x7fELF\2\1", "{path} is not a text file: it is a program."),
        ("c.jsonl", bytes(range(32)), "{path} is not a text file: it is binary."),
        ("c.jsonl", "text".encode("utf-16"), "{path} is not a text file: it is UTF-16; save it as UTF-8."),
        ("c.jsonl.gz", GOOD, "{path} cannot be read: it is not gzip, or damaged; copy it again, or let its name not"),
        ("c.json", b'{"text":\n"a"}', "{path} is neither a JSON list of records nor has it one record a line;"),
        ("c.json", b'"text"', "{path} is neither a JSON list of records nor has it one record a line;"),
        ("c.json", b"[] []", "{path} continues after the end of its JSON list; fix the file."),
        ("c.json", b"[", "{path} is not JSON: record 1 of its list cannot be read (the file ends before it);"),
        ("c.csv", b"a;b\n1;2\n", "{path} has no column named text or contents or body or context or paragraphs (its c"),
        ("c.parquet", b"PAR1 no parquet", "{path} cannot be read: it is damaged or not what its name says; write it"),
        ("c.odt", b"text", "{path} has an unknown format; known formats are .csv, .csv.gz, .docx, .eml, .epub, .htm,"),
        ("c.tar.gz", b"\x1f\x8b", "{path} has an unknown format; known formats are .csv, .csv.gz, .docx, .eml,"),
    ],
)
def test_a_source_that_cannot_be_used(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(SourceError) as caught:
        list(read_corpus(path))
    assert str(caught.value).startswith(message.format(path=path))


def test_a_missing_source_is_refused_before_iterating(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"There is no file or folder .*nothing\.jsonl; check the path\."):
        read_corpus(tmp_path / "nothing.jsonl")


def test_a_folder_without_usable_files_counts_the_others(tmp_path: Path) -> None:
    for name in ("a.png", "b.png", "c.jsonl", "LICENSE"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(
        SourceError, match=r"only others \(2 \.png, 1 \.jsonl, 1 no suffix\); name such a file itself\."
    ):
        list(read_corpus(tmp_path))


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="none at all; name another folder"):
        list(read_corpus(tmp_path))


def test_a_truncated_gzip_yields_what_came_before_and_then_says_so(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl.gz"
    whole = gzip.compress(b"".join(b'{"text": "%s"}\n' % os.urandom(200).hex().encode() for _ in range(2000)))
    path.write_bytes(whole[: len(whole) // 2])
    records: list[Any] = []
    with pytest.raises(
        SourceError, match=r"cannot be read after record \d+: it breaks off in the middle; copy or download it"
    ):
        read_all(path, records)
    assert len(records) > 500


def read_all(path: Path, into: list[Any]) -> None:
    for record in read_corpus(path):
        into.append(record)  # noqa: PERF402 - keeps what was read before the error


def test_a_broken_json_list_yields_what_came_before_and_then_says_so(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(b"[" + GOOD + b", {]")
    records: list[Any] = []
    with pytest.raises(SourceError, match=r"record 2 of its list cannot be read"):
        read_all(path, records)
    assert [r.id for r in records if isinstance(r, SourceRecord)] == ["good"]


def test_a_quote_that_is_never_closed_is_not_one_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_bytes(b'text\nfine\n"open\na\nb\n')
    with pytest.raises(SourceError, match="a quote in the row at line 3 that is never closed"):
        list(read_corpus(path))


@pytest.fixture
def powerless() -> Iterator[Path]:
    """A folder of our own, read as a user without rights (tests may run as root, who may read everything)."""
    user = os.geteuid()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "secret").mkdir()
        (folder / "secret" / "c.txt").write_bytes(b"x")
        (folder / "c.jsonl").write_bytes(GOOD)
        (folder / "good.txt").write_bytes(b"x")
        (folder / "hidden.txt").write_bytes(b"x")
        for closed in ("secret", "c.jsonl", "hidden.txt"):
            (folder / closed).chmod(0)
        text_reader(".txt")  # readers are imported when used, which that user may not do
        if user == 0:
            os.seteuid(65534)
        try:
            yield folder
        finally:
            os.seteuid(user)
            (folder / "secret").chmod(0o755)


@pytest.mark.parametrize("name", ["c.jsonl", "secret", "secret/c.txt"])
def test_a_source_that_may_not_be_read(powerless: Path, name: str) -> None:
    with pytest.raises(SourceError, match=r"cannot be read: permission denied; allow reading it"):
        read_corpus(powerless / name)


def test_files_of_a_folder_that_may_not_be_read(powerless: Path) -> None:
    records = list(read_corpus(powerless))
    assert [(r.source, r.reason) if isinstance(r, BadRecord) else r.id for r in records] == [
        "good.txt",
        ("hidden.txt", "the file cannot be read: permission denied"),
        ("secret", "the folder cannot be opened: permission denied"),
    ]
