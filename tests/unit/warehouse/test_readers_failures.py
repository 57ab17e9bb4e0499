"""What can be wrong with a record is yielded as a BadRecord; what is wrong with a source is one sentence."""

import datetime
import gzip
import json
import os
import random
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import document_files as made
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from polyhop.schemas.errors import PolyhopError, SourceError
from polyhop.schemas.records import BadRecord, SourceRecord
from polyhop.warehouse.documents.converter import ConversionLimits, Converter
from polyhop.warehouse.files.corpora import read_corpus, read_graph_sources
from polyhop.warehouse.files.formats import DOCUMENTS, ROWS, TEXTS, text_reader
from polyhop.warehouse.files.graph_files import GRAPHS, read_graph
from polyhop.warehouse.files.questions import PREDICTION_FORMATS, QUESTION_FORMATS, read_predictions, read_questions
from polyhop.warehouse.files.records import MAX_RECORD_BYTES, open_bytes, read_lines
from polyhop.warehouse.files.rows import read_extractions

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
    (tmp_path / "a.txt").write_bytes("да\n".encode("windows-1251"))
    (tmp_path / "c\n.txt").write_bytes(b"text")
    (tmp_path / "good.txt").write_bytes(b"text")
    with (tmp_path / "z.txt").open("wb") as file:
        file.truncate(MAX_RECORD_BYTES + 1)
    records = list(read_corpus(tmp_path))
    assert [(r.source, r.reason) if isinstance(r, BadRecord) else r.id for r in records] == [
        ("a.txt", "the file is not UTF-8 (invalid byte 0xe4 at byte 1); save it as UTF-8"),
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


@pytest.fixture(scope="module")
def converter() -> Iterator[Converter]:
    with Converter(ConversionLimits(max_file_mb=4, max_unpacked_mb=16, seconds=20, memory_mb=1024)) as opened:
        yield opened


READERS: dict[str, tuple[Iterable[str], Callable[[Path, Converter], Iterable[object]]]] = {
    "corpus": ({**ROWS, **TEXTS, **DOCUMENTS}, lambda path, converter: read_corpus(path, convert=converter.convert)),
    "folder": ([*TEXTS, *DOCUMENTS], lambda path, converter: read_corpus(path.parent, convert=converter.convert)),
    "graph": (GRAPHS, lambda path, _: read_graph(path)),
    "texts of a graph": (ROWS, lambda path, _: read_graph_sources(path)),
    "extractions": ([".jsonl", ".jsonl.gz", ".json", ".json.gz", ".parquet"], lambda path, _: read_extractions(path)),
    "questions": (QUESTION_FORMATS, lambda path, _: [*read_questions(path)[0], *read_questions(path)[1]]),
    "predictions": (PREDICTION_FORMATS, lambda path, _: [*read_predictions(path)[0], *read_predictions(path)[1]]),
}
NUMBER, DEEP = "9" * 5_000, "[" * 100_000
ODD_ROWS = (
    json.dumps({"question": "Who?", "text": "t", "hops": NUMBER, "prediction": "p", "answer": "a"}),
    json.dumps({"question": "Who?", "text": "t", "possible_answers": DEEP, "prediction": "p"}),
    f'{{"id": {NUMBER}}}',
    DEEP,
)
ODD_TRIPLES = ("<a:\\UFFFFFFFF> <b:c> <d:e> .", "<a:b> <c:\\UFFFFFFFF> <d:e> .", '<a:b> <c:d> "\\uD800" .')
HOSTILE = (
    b"",
    b"\xff\xfe\x00",
    b"\0" * 5_000,
    random.Random(0).randbytes(5_000),
    *("\n".join(rows).encode() for rows in (ODD_ROWS, ODD_TRIPLES)),
    *(f"[{row}]".encode() for row in ODD_ROWS),
    b'text,question,prediction\n"\0",\xff,"',
    *(b"<meta charset=%s><p>caf\xe9\x81" % name for name in (b"idna", b"punycode", b"undefined", b"hex", b"utf-7")),
    b"<!DOCTYPE x [" + b"<" * 9_000,
    b"Subject: x\nContent-Type: multipart/mixed; boundary=a\n\n" + b"--a\nContent-Type: message/rfc822\n\n" * 500,
    b"Subject: =?x?q?=FF?=\nFrom: @[;<\nContent-Type: text/html; charset=undefined\n\n\xff",
    *(magic + bytes(range(256)) * 8 for magic in (b"PK\x03\x04", b"PK\x05\x06", b"%PDF-1.7\n", b"PAR1")),
    b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + bytes(range(256)),
)


def sound_files(folder: Path) -> Iterator[bytes]:
    """Well-formed content of each format with a signature, with values that Python has no words for."""
    for make in (made.word, made.slides, made.sheets, made.epub, made.mail):
        yield make(folder / "sound").read_bytes()
    yield made.pdf(folder / "sound", [["text"]], outline=[("text", 0)]).read_bytes()
    odd = {
        "late": pa.array([1 << 50], pa.timestamp("ms")),
        "fine": pa.array([(1 << 60) + 1], pa.timestamp("ns")),
        "elsewhere": pa.array([1], pa.timestamp("s", tz="Mars/Olympus")),
        "listed": pa.array([[1 << 50]], pa.list_(pa.timestamp("ms"))),
    }
    for name, column in odd.items():
        table = {"id": ["a"], "text": ["t"], "question": ["q"], "prediction": ["p"], "answer": ["a"], name: column}
        pq.write_table(pa.table(table), folder / "sound")
        yield (folder / "sound").read_bytes()


def damaged(content: bytes) -> Iterator[bytes]:
    """The content as it is, cut off, and with some bytes overwritten here and there."""
    yield content
    chance = random.Random(len(content))
    yield content[: len(content) * 2 // 3]
    for _ in range(3):
        at = chance.randrange(len(content))
        yield content[:at] + chance.randbytes(40) + content[at + 40 :]


@pytest.mark.parametrize(("name", "ending"), [(name, ending) for name in READERS for ending in READERS[name][0]])
def test_whatever_a_file_holds_is_read_refused_in_a_sentence_or_set_aside_by_record(
    tmp_path: Path, converter: Converter, name: str, ending: str
) -> None:
    (tmp_path / "read").mkdir()
    path = tmp_path / "read" / f"c{ending}"
    sound = (one for content in sound_files(tmp_path) for one in damaged(content)) if name == "corpus" else ()
    for content in (*HOSTILE, *sound, *sound_files(tmp_path)):
        is_packed = ending.endswith(".gz") and not content.startswith(b"\x1f\x8b")
        path.write_bytes(gzip.compress(content) if is_packed else content)
        said: list[str] = []
        try:
            said += [one.reason for one in READERS[name][1](path, converter) if isinstance(one, BadRecord)]
        except PolyhopError as error:
            said.append(str(error))
        assert all(words.isprintable() for words in said)


def test_values_of_parquet_that_python_does_not_have_are_read_as_text_or_set_aside(tmp_path: Path) -> None:
    fine = pa.array([datetime.datetime(2024, 1, 1), None]).cast(pa.timestamp("ns"))
    nanoseconds = pa.array([1_704_067_200_000_000_001, None], pa.timestamp("ns"))
    late = pa.array([None, [1 << 50]], pa.list_(pa.timestamp("ms")))
    pq.write_table(pa.table({"text": ["a", "b"], "day": fine, "at": nanoseconds, "l": late}), tmp_path / "c.parquet")
    good, bad = read_corpus(tmp_path / "c.parquet")
    assert isinstance(good, SourceRecord)
    assert good.metadata == {"day": "2024-01-01 00:00:00", "at": "2024-01-01 00:00:00.000000001"}
    assert isinstance(bad, BadRecord)
    assert (bad.line, bad.reason[:50]) == (2, "the column l holds what cannot be read: OverflowEr")


@pytest.mark.parametrize(
    ("name", "last"), [("d", "1 record"), ("deep", "the folder cannot be opened: file name too long")]
)
def test_a_folder_may_be_nested_deeper_than_pythons_stack(name: str, last: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.txt").write_text("first")
        descriptor = os.open(folder, os.O_RDONLY)
        for _ in range(1_200):
            os.mkdir(name, dir_fd=descriptor)
            below = os.open(name, os.O_RDONLY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        os.close(os.open("z.txt", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
        os.write(file := os.open("z.txt", os.O_WRONLY, dir_fd=descriptor), b"last")
        os.close(file)
        os.close(descriptor)
        try:
            first, end = read_corpus(Path(folder))
        finally:
            subprocess.run(["rm", "-rf", *Path(folder).glob("d*")], check=True)
    assert isinstance(first, SourceRecord)
    assert (end.reason if isinstance(end, BadRecord) else "1 record") == last
