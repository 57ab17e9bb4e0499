"""What can be wrong with a record is yielded as a BadRecord; what is wrong with a source is one sentence."""

import codecs
import datetime
import gzip
import json
import os
import random
import subprocess
import tempfile
import tracemalloc
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
from polyhop.warehouse.files.records import MAX_RECORD_BYTES, guarded, open_bytes, read_lines
from polyhop.warehouse.files.rows import read_extractions

GOOD = b'{"id": "good", "text": "fine"}'
NO_TEXT = "missing text: expected a field named text, contents, content, page_content or body"
NO_ID = "the id is neither a string nor a whole number but"
LONG = "word " * 1000
ROW = json.dumps({"id": "a", "text": LONG})
HOTPOT = [{"context": [["A", ["fine"]], ["B", []], [["C"], ["x"]]]}, {"context": [["A", "B", "C"]]}, {}]
HOTPOT += [{"context": [["A", [1]]]}, {"context": [[None, ["no title"]]]}]
HOTPOT_FAULTS = [
    (1, "paragraph 2: the text is empty"),
    (1, "paragraph 3: the title is not a string but a list"),
    (2, "not a HotpotQA item: the context is not a list of [title, sentences]"),
    (3, "not a HotpotQA item: the context is not a list but null"),
    (4, "not a HotpotQA item: the sentences of a context are not a list of strings"),
]
POPQA = [{"paragraphs": [{"title": "A"}, {"title": "B", "text": "fine"}]}, {"paragraphs": [5]}]
POPQA_FAULTS = [(1, f"paragraph 1: {NO_TEXT}"), (2, "not a PopQA item: a paragraph is not an object but a number")]
PACKED = gzip.compress(b"".join(b'{"text": "%s"}\n' % os.urandom(200).hex().encode() for _ in range(2000)))
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


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def faults_of(source: Path) -> list[tuple[int, str]]:
    """Lines and reasons of the bad records; the record `good` must have survived."""
    records = list(read_corpus(source))
    assert [r.id for r in records if isinstance(r, SourceRecord)] == ["good"]
    return [(r.line, r.reason) for r in records if isinstance(r, BadRecord)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": "a",}', "not JSON: Expecting property name enclosed in double quotes at character 14"),
        (b"null\0\1", "the line contains a NUL byte at byte 5"),
        (b"null", "not a JSON object but null"),
        (b'{"title": "a"}', NO_TEXT),
        (b'{"text": " \\n"}', "the text is empty"),
        (b'{"text": "a\\u0000b"}', "the text contains a NUL character at character 2"),
        (b'{"text": "a\\ud83d"}', "the text is not valid UTF-8 (half a character, U+D83D at character 2)"),
        (b'{"text": "caf\xe9"}', "the line is not UTF-8 (invalid byte 0xe9 at byte 14)"),
        (b'{"id": 1.5, "text": "a"}', f"{NO_ID} a number"),
        (b'{"id": "x\\ny", "text": "a"}', "the id contains a control character (U+000A)"),
        (b'{"title": {}, "text": "a"}', "the title is not a string but an object"),
        (b'{"text": ' + b"9" * 5000 + b"}", "JSON that cannot be read: a number has too many digits"),
        (b'{"text": ' + b"[" * 100_000 + b"}", "JSON that cannot be read: it is nested too deeply"),
        (b'{"text": "a", "x": ' + b"[" * 40 + b"]" * 40 + b"}", "the metadata is nested more than 32 levels deep"),
        (b'{"text": "' + b"x" * MAX_RECORD_BYTES + b'"}', "the line is longer than 64 MB"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bad_line_is_named_and_the_others_are_read(tmp_path: Path, line: bytes, reason: str) -> None:
    assert faults_of(write(tmp_path / "c.jsonl", GOOD + b"\n" + line + b"\n")) == [(2, reason)]


def test_a_bad_record_shows_the_beginning_of_its_line(tmp_path: Path) -> None:
    (bad,) = read_corpus(write(tmp_path / "c.jsonl", b"\xffx" + b"y" * 1000))
    assert bad == BadRecord("c.jsonl", 1, "the line is not UTF-8 (invalid byte 0xff at byte 1)", "\\udcffx" + "y" * 198)


@pytest.mark.parametrize(("length", "is_too_long"), [(10, False), (11, True), (3000, True)])
def test_the_limit_counts_a_line_without_its_end(tmp_path: Path, length: int, is_too_long: bool) -> None:
    with open_bytes(write(tmp_path / "c", b"x" * length + b"\nlast")) as stream:
        lines = list(read_lines(stream, limit=10))
    assert [(line.number, line.is_too_long) for line in lines] == [(1, is_too_long), (2, False)]
    assert lines[1].data == b"last"


@pytest.mark.parametrize(
    ("name", "begin", "again", "end"),
    [("c.jsonl", "", f"{ROW}\n", ""), ("c.json", f"[{ROW}", f",\n{ROW}", "]"), ("c.csv", "text\n", f"{LONG}\n", "")],
)
def test_memory_does_not_grow_with_the_file(tmp_path: Path, name: str, begin: str, again: str, end: str) -> None:
    path = write(tmp_path / name, f"{begin}{again * 3000}{end}".encode())
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_corpus(path)) >= 3000
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 5_000_000 < path.stat().st_size / 2


def test_bad_elements_of_a_list_and_bad_rows_of_tables(tmp_path: Path) -> None:
    not_utf8 = "the text is not valid UTF-8 (invalid byte 0xe9 at character 4)"
    json_list = write(tmp_path / "c.json", b'[3, {"text": "caf\xe9"}, ' + GOOD + b"]")
    assert faults_of(json_list) == [(1, "not a JSON object but a number"), (2, not_utf8)]
    faults = [
        "the row has 3 cells, but there are 2 columns",
        "not CSV: ',' expected after '\"'",
        "the text is empty",
        not_utf8,
    ]
    csv = write(tmp_path / "c.csv", b'id,text\n1,a,b\n2,"a"b\n3,\n4,caf\xe9\ngood,\xc3\xa9\n')
    assert faults_of(csv) == list(enumerate(faults, start=2))
    invalid = pa.array([b"fine", None, b"caf\xe9"]).view(pa.string())
    pq.write_table(pa.table({"id": ["good", "b", "c"], "text": invalid}), tmp_path / "c.parquet")
    assert faults_of(tmp_path / "c.parquet") == [(2, NO_TEXT), (3, not_utf8)]


def test_values_of_parquet_that_python_does_not_have_are_read_as_text_or_set_aside(tmp_path: Path) -> None:
    fine = pa.array([datetime.datetime(2024, 1, 1), None]).cast(pa.timestamp("ns"))
    nanoseconds = pa.array([1_704_067_200_000_000_001, None], pa.timestamp("ns"))
    late = pa.array([None, [1 << 50]], pa.list_(pa.timestamp("ms")))
    pq.write_table(pa.table({"text": ["a", "b"], "day": fine, "at": nanoseconds, "l": late}), tmp_path / "c.parquet")
    records: Any = read_corpus(tmp_path / "c.parquet")
    good, bad = records
    assert good.metadata == {"day": "2024-01-01 00:00:00", "at": "2024-01-01 00:00:00.000000001"}
    assert (bad.line, bad.reason.partition("Error")[0]) == (
        2,
        "the column l holds a value that cannot be read: Overflow",
    )


def said_of_a_folder(folder: Path) -> list[tuple[str, str] | str]:
    """Ids of what is read, sources and reasons of what is not."""
    return [(r.source, r.reason) if isinstance(r, BadRecord) else r.id for r in read_corpus(folder)]


def test_bad_files_of_a_folder(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "да\n".encode("windows-1251"))
    write(tmp_path / "b.csv", b"id,text\n1,a,b\ngood,fine\n")
    write(tmp_path / "c\n.txt", b"text")
    write(tmp_path / "good.txt", b"text")
    with (tmp_path / "z.txt").open("wb") as file:
        file.truncate(MAX_RECORD_BYTES + 1)
    assert said_of_a_folder(tmp_path) == [
        ("a.txt", "the file is not UTF-8 (invalid byte 0xe4 at byte 1); save it as UTF-8"),
        ("b.csv", "the row has 3 cells, but there are 2 columns"),
        "b.csv/good",
        ("c\n.txt", "the id contains a control character (U+000A)"),
        "good.txt",
        ("z.txt", "the file is larger than 64 MB; split it or use JSON lines"),
    ]


@pytest.mark.parametrize(
    ("items", "texts", "faults"),
    [(HOTPOT, ["fine", "no title"], HOTPOT_FAULTS), (POPQA, ["fine"], POPQA_FAULTS)],
    ids=["HotpotQA", "PopQA"],
)
def test_bad_items_of_a_question_set(tmp_path: Path, items: list[Any], texts: list[str], faults: list[Any]) -> None:
    content = json.dumps([{"question": "?", "possible_answers": "", **item} for item in items]).encode()
    records = list(read_corpus(write(tmp_path / "set.json", content)))
    assert [r.text for r in records if isinstance(r, SourceRecord)] == texts
    assert [(r.line, r.reason) for r in records if isinstance(r, BadRecord)] == faults


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("c.jsonl", b"", "is empty; name a file with at least one record."),
        *((n, t, "has no record; add at least one.") for n, t in (("c.json", b" [ ]"), ("c.csv", b"text\n"))),
        ("c.txt", b"\x89PNG\r\n\x1a\n", "is not a text file: it is a PNG image."),
        ("c.csv", b"PK\x03\x04rest", "is not a text file: it is a ZIP archive or office document; unpack it first."),
        ("c.jsonl", bytes(range(32)), "is not a text file: it is binary."),
        ("c.jsonl.gz", GOOD, "cannot be read: it is not gzip, or damaged; copy it again, or rename it"),
        ("c.json", b'{"text":\n"a"}', "is neither a JSON list of records nor has it one record a line;"),
        ("c.json", b"[] []", "continues after the end of its JSON list; fix the file."),
        ("c.json", b"[", "is not JSON: record 1 of its list cannot be read (the file ends before it);"),
        (
            "c.csv.gz",
            gzip.compress(b"a;b\n1;2\n", mtime=0),
            "has no column named text or contents or content or page_content or body or con",
        ),
        ("c.csv", b'text\nfine\n"open\na\nb\n', "has a quote in the row at line 3 that is never closed"),
        (
            "c.parquet",
            b"PAR1 no parquet",
            "cannot be read: it is damaged or has another format than its name; write it",
        ),
        ("c.odt", b"text", "has an unknown format; known formats are .csv, .csv.gz, .docx, .eml, .epub, .htm,"),
        ("g.jsonl", b"", "is empty"),
        ("g.csv", b"a,b\n", "has an unknown format; known formats are .jsonl, .jsonl.gz, .nt, .nt.gz, .ttl, .ttl.gz"),
        ("g.jsonl.gz", b"not packed", "cannot be read: it is not gzip, or damaged"),
        (
            "g.ttl",
            b"#\nx:a x:b x:c .",
            "is not Turtle: line 2 cannot be read (The prefix x: has not been declared); fix",
        ),
        ("g.ttl", b'<http://x/a> <http://x/p> """long\n\n', "is not Turtle: line "),
        (
            "g.ttl",
            b"#\n<http://x/a> <http://x/p> " + b"[ <http://x/p> " * 3000,
            "is not Turtle: line 2 cannot be read (",
        ),
        ("g.ttl", b"@prefix x: <http://x/> .", "has no statement; add at least one"),
        ("q.csv", b"query,answer\na,b\n", "has no column named question (its columns: query, answer); rename one."),
        ("q.md", b"Who?", "has an unknown format; known formats are .csv, .csv.gz, .json,"),
        ("q.txt", b"\n\n", "has no question; add at least one"),
    ],
)
def test_a_source_that_cannot_be_used(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    """A corpus, a graph and questions."""
    path, readers = write(tmp_path / name, content), dict[str, Any](c=read_corpus, g=read_graph, q=read_questions)
    with pytest.raises(SourceError) as caught:
        list(readers[name[0]](path))
    assert str(caught.value).startswith(f"{path} {message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("read", [read_graph, read_questions])
def test_a_folder_is_neither_a_graph_nor_questions(tmp_path: Path, read: Callable[[Path], object]) -> None:
    with pytest.raises(SourceError, match="is a folder; name a file in it"):
        read(tmp_path)


def test_a_missing_source_is_refused_before_iterating_and_a_folder_counts_its_unusable_files(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"There is no file or folder .*nothing\.jsonl; check the path\."):
        read_corpus(tmp_path / "nothing.jsonl")
    with pytest.raises(SourceError, match="none at all; name another folder"):
        list(read_corpus(tmp_path))
    for name in ("a.png", "b.png", "c.jsonl", "LICENSE"):
        write(tmp_path / name, b"x")
    with pytest.raises(SourceError, match=r"only others \(2 \.png, 1 \.jsonl, 1 no suffix\); name such a file"):
        list(read_corpus(tmp_path))


@pytest.mark.parametrize(
    ("name", "content", "least", "message"),
    [
        ("c.jsonl.gz", PACKED[: len(PACKED) // 2], 500, r"after record \d+: it breaks off in the middle; copy or"),
        ("c.json", b"[" + GOOD + b", {]", 1, "record 2 of its list cannot be read"),
    ],
    ids=["half of a packed file", "a list"],
)
def test_a_broken_file_yields_its_beginning(
    tmp_path: Path, name: str, content: bytes, least: int, message: str
) -> None:
    records: list[object] = []
    with pytest.raises(SourceError, match=message):
        records.extend(read_corpus(write(tmp_path / name, content)))
    assert len(records) >= least
    assert all(isinstance(record, SourceRecord) for record in records)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (EOFError(), "cannot be read after record 2: it breaks off in the middle"),
        (PermissionError(13, "no"), "permission denied; allow reading it"),
        (OSError(5, "no"), "Input/output error; check the disk"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "damaged or has another format than its name"),
    ],
)
def test_whatever_a_parser_raises_is_one_sentence(error: Exception, words: str) -> None:
    def broken() -> Iterator[int]:
        yield from (0, 1)
        raise error

    found: list[int] = []
    with pytest.raises(SourceError, match=words):
        found.extend(guarded(Path("a.jsonl"), broken(), "record"))
    assert found == [0, 1]


def test_what_may_not_be_read_is_said_of_a_source_and_of_the_files_of_a_folder() -> None:
    """As a user without rights: tests may run as root, who may read everything."""
    with tempfile.TemporaryDirectory() as name:
        folder, user = Path(name), os.geteuid()
        folder.chmod(0o755)
        (folder / "secret").mkdir()
        for file in ("secret/c.txt", "c.jsonl", "good.txt", "hidden.txt"):
            write(folder / file, GOOD)
        for closed in ("secret", "c.jsonl", "hidden.txt"):
            (folder / closed).chmod(0)
        text_reader(".txt")  # readers and codecs are imported when used, which that user may not do
        codecs.lookup("utf-8-sig")
        os.seteuid(user or 65534)
        try:
            for closed in ("c.jsonl", "secret", "secret/c.txt"):
                with pytest.raises(SourceError, match=r"cannot be read: permission denied; allow reading it"):
                    read_corpus(folder / closed)
            said = said_of_a_folder(folder)
        finally:
            os.seteuid(user)
            (folder / "secret").chmod(0o755)
    hidden = ("hidden.txt", "the file cannot be read: permission denied")
    assert said == ["good.txt", hidden, ("secret", "the folder cannot be opened: permission denied")]


@pytest.fixture(scope="module")
def converter() -> Iterator[Converter]:
    with Converter(ConversionLimits(max_file_mb=4, max_unpacked_mb=16, seconds=20, memory_mb=1024)) as opened:
        yield opened


@pytest.fixture(scope="module")
def sound_files(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Well-formed content of each format with a signature, with values that Python has no words for."""
    path = tmp_path_factory.mktemp("sound") / "sound"
    makers = (made.word, made.slides, made.sheets, made.epub, made.mail)
    files = [make(path).read_bytes() for make in makers]
    files.append(made.pdf(path, [["text"]], outline=[("text", 0)]).read_bytes())
    odd = {
        "late": pa.array([1 << 50], pa.timestamp("ms")),
        "fine": pa.array([(1 << 60) + 1], pa.timestamp("ns")),
        "elsewhere": pa.array([1], pa.timestamp("s", tz="Mars/Olympus")),
        "listed": pa.array([[1 << 50]], pa.list_(pa.timestamp("ms"))),
    }
    for name, column in odd.items():
        table = {"id": ["a"], "text": ["t"], "question": ["q"], "prediction": ["p"], "answer": ["a"], name: column}
        pq.write_table(pa.table(table), path)
        files.append(path.read_bytes())
    return files


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
    tmp_path: Path, converter: Converter, sound_files: list[bytes], name: str, ending: str
) -> None:
    path = tmp_path / f"c{ending}"
    sound = [] if name == "folder" or ending.endswith(".gz") else sound_files  # read alone and unpacked already
    if name == "corpus" and ending in (*DOCUMENTS, ".parquet"):
        sound = [one for content in sound_files for one in damaged(content)]
    for content in (*HOSTILE, *sound):
        is_packed = ending.endswith(".gz") and not content.startswith(b"\x1f\x8b")
        path.write_bytes(gzip.compress(content, 1, mtime=0) if is_packed else content)
        said: list[str] = []
        try:
            said += [one.reason for one in READERS[name][1](path, converter) if isinstance(one, BadRecord)]
        except PolyhopError as error:
            said.append(str(error))
        assert all(words.isprintable() for words in said)


@pytest.mark.rare
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
