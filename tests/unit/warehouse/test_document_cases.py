"""Classes of public bug reports about document reading: a customer's file and one of ours for each."""

import io
import re
import shutil
import subprocess
import sys
import unicodedata
import zipfile
from collections.abc import Iterator
from pathlib import Path

import document_cases
import document_files as made
import pytest
from small_indexes import write_rows

from polyhop.commands.index import print_unread
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import SourceError, StoreUnavailableError
from polyhop.schemas.records import BadRecord, SourceRecord, Unread
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.documents.building import Reading, list_number, raised
from polyhop.warehouse.documents.converter import ConversionLimits, Converter
from polyhop.warehouse.documents.office import read_word
from polyhop.warehouse.documents.tables import spread, table_groups
from polyhop.warehouse.files.corpora import read_corpus
from polyhop.warehouse.files.encodings import decode, separator_of
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.web_pages import read_html, read_markdown
from polyhop.warehouse.tables.connection import connect

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def converter() -> Iterator[Converter]:
    with Converter(ConversionLimits(seconds=20, memory_mb=1024)) as opened:
        yield opened


def records_of(path: Path, folder: Path, converter: Converter, unread: Unread | None = None) -> list[SourceRecord]:
    """The records of a copy of a file; rows as a file of rows, and all else in a folder."""
    shutil.copyfile(path, folder / path.name)
    source = folder / path.name if path.suffix in {".jsonl", ".parquet"} else folder
    found = read_corpus(source, convert=converter.convert, unread=unread)
    return [record for record in found if isinstance(record, SourceRecord)]


@pytest.mark.parametrize("case", document_cases.CASES, ids=lambda case: str(case.file))
def test_a_document_is_read_as_a_person_reads_it(
    case: document_cases.DocumentCase, tmp_path: Path, converter: Converter
) -> None:
    text = "\n\n".join(record.text for record in records_of(case.path, tmp_path, converter))
    assert case.faults(text) == []


def test_every_file_of_the_folder_is_a_case_or_tested_below() -> None:
    files = {str(path.relative_to(document_cases.FOLDER)) for path in document_cases.FOLDER.rglob("*.*")}
    others = {file for file in files if file.startswith("37-") or file.endswith(("/twice.csv", "-tools/own.csv"))}
    assert files - others - {""} == {case.file for case in document_cases.CASES}


@pytest.mark.parametrize(
    ("file", "unread", "name"),
    [
        ("24-xlsx-values/budget.xlsx", {"formula without a value": 1}, "budget.xlsx/Sheet!B4"),
        ("24-xlsx-values/own.xlsx", {"formula without a value": 1}, "own.xlsx/Data!C4"),
        ("17-docx-altchunk/own.docx", {"part of a Word file in another format": 1}, "own.docx/chunk.rtf"),
    ],
)
def test_parts_that_are_not_read_are_counted_and_named(
    file: str, unread: dict[str, int], name: str, tmp_path: Path, converter: Converter
) -> None:
    found = Unread()
    records_of(document_cases.FOLDER / file, tmp_path, converter, found)
    assert (found, found.names) == (unread, [name])


@pytest.mark.parametrize(
    ("unread", "counted"),
    [
        ({"formula without a value": 1}, "1 part was not read: 1 formula without a value: "),
        ({".zip": 1, "attached .png": 1, "picture": 1}, "2 files and 1 part were not read: 1 .zip, "),
        ({"link out of the folder": 1}, "1 file was not read: 1 link out of the folder "),
    ],
)
def test_parts_that_are_not_read_are_not_called_files(
    unread: dict[str, int], counted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_unread(unread, ["a.xlsx"])
    assert capsys.readouterr().err.startswith(counted)


def test_pages_without_text_are_counted_and_named(tmp_path: Path, converter: Converter) -> None:
    path = made.pdf(tmp_path / "scan.pdf", [["A page of text."], []])
    unread = Unread()
    list(read_corpus(path, convert=converter.convert, unread=unread))
    assert (unread, unread.names) == ({"page without text": 1}, ["scan.pdf/page 2"])


@pytest.mark.parametrize("name", ["twice.csv", "own.csv"])
def test_two_columns_of_one_name_are_refused(name: str) -> None:
    with pytest.raises(SourceError, match="has several columns named text; rename all but one"):
        list(read_corpus(document_cases.FOLDER / "32-records-of-other-tools" / name))


@pytest.mark.parametrize(("file", "ids"), [("float_ids.parquet", ["1", "2"]), ("own.parquet", ["4"])])
def test_ids_that_are_whole_numbers_with_a_point_are_whole_numbers(file: str, ids: list[str]) -> None:
    found = list(read_corpus(document_cases.FOLDER / "32-records-of-other-tools" / file))
    assert [record.id for record in found if isinstance(record, SourceRecord)] == ids


@pytest.mark.parametrize(
    ("stated", "ids"),
    [("1.0 2.0 -3.0", "1 2 -3"), ("1.0 1.1 2.0", "1.0 1.1 2.0"), ("1.0 2.0 x", "1.0 2.0 x"), ("1 02", "1 02")],
)
def test_ids_of_a_csv_file_are_whole_numbers_if_all_are(tmp_path: Path, stated: str, ids: str) -> None:
    (tmp_path / "c.csv").write_text("id,text\n" + "".join(f"{one},text\n" for one in stated.split()) + ",text\n")
    found = list(read_corpus(tmp_path / "c.csv"))
    assert [record.id for record in found if isinstance(record, SourceRecord)] == [*ids.split(), ""]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("id,text\n1,\n", "the text is empty"),
        ("id,title,content\n1,a,\n", "the content is empty"),
        ("id,text\n1\n", "the text is empty"),
    ],
)
def test_an_empty_cell_is_an_empty_text(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / "c.csv").write_text(content)
    (bad,) = read_corpus(tmp_path / "c.csv")
    assert isinstance(bad, BadRecord)
    assert bad.reason == reason


def test_the_date_of_a_mail_is_a_timestamp(tmp_path: Path, converter: Converter) -> None:
    (record,) = records_of(document_cases.FOLDER / "36-mail-calendar/own.eml", tmp_path, converter)
    assert record.metadata["date"] == "2026-03-03T11:30:00+01:00"


def test_a_type_of_a_missing_part_is_no_damage(tmp_path: Path, converter: Converter) -> None:
    path = made.sheets(tmp_path / "a.xlsx", [["Lock", "Keeper"], ["Brig", "Anni Zen"]])
    with zipfile.ZipFile(path) as archive:
        types = archive.read("[Content_Types].xml")
        parts = archive.namelist()
    assert "xl/sharedStrings.xml" not in parts
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
    stated = f'<Override PartName="/xl/sharedStrings.xml" ContentType="{kind}"/></Types>'
    made.with_member(path, "[Content_Types].xml", types.replace(b"</Types>", stated.encode()))
    (record,) = read_corpus(path, convert=converter.convert)
    assert isinstance(record, SourceRecord)
    assert record.text.startswith("Lock | Keeper")


def test_lines_of_a_flowed_mail_are_one_paragraph(tmp_path: Path, converter: Converter) -> None:
    head = "Subject: s\r\nContent-Type: text/plain; format=flowed; delsp=yes\r\n\r\n"
    (tmp_path / "m.eml").write_text(f"{head}Donau \r\neschingen lies  \r\nhere.\r\n\r\n-- \r\nAda", newline="")
    (record,) = read_corpus(tmp_path / "m.eml", convert=converter.convert)
    assert isinstance(record, SourceRecord)
    assert record.text == "Donaueschingen lies here.\n\n--\nAda"


def test_a_name_that_programs_write_is_no_author(tmp_path: Path, converter: Converter) -> None:
    import docx

    file = docx.Document()
    file.add_paragraph("Text.")
    file.save(str(tmp_path / "a.docx"))
    (record,) = read_corpus(tmp_path / "a.docx", convert=converter.convert)
    assert isinstance(record, SourceRecord)
    assert (record.title, record.metadata) == ("a", {})


@pytest.mark.parametrize(
    ("before", "text", "is_mark", "expected"),
    [
        ("x", "2", False, "^2"),
        ("= 10", "-6", False, "^-6"),
        ("1998", "12", False, " [12]"),
        ("Zürich", "3", False, " [3]"),
        ("m", "2", True, " [2]"),
        ("end. ", "[4]", False, "[4]"),
        ("1", "st", False, "st"),
        ("XIX", "e", False, "e"),
        ("10", "0.5", False, "^0.5"),
        ("10", "a+b", False, "^(a+b)"),
        ("10", "(a+b)", False, "^(a+b)"),
        ("10", "1/2", False, "^(1/2)"),
        ("SO4", "2-", False, "^(2-)"),
        ("x", "n", False, "^n"),
        ("x", "2n", False, "^(2n)"),
        ("1998", "3,4", False, " [3,4]"),
        ("1998", "a", False, " [a]"),
        ("m", "e", True, " [e]"),
        ("Bern", "self-made", False, "self-made"),
    ],
)
def test_a_superscript_is_an_exponent_or_a_mark(before: str, text: str, is_mark: bool, expected: str) -> None:
    assert raised(before, text, is_mark=is_mark) == expected


def math(xml: str) -> str:
    """A formula in which `{x}` is a run of x."""
    runs = re.sub(r'\{([^{}"]*)\}', r"<m:r><m:t>\1</m:t></m:r>", xml)
    return f"<m:oMath>{runs}</m:oMath>"


_MATRIX = "<m:m>{}</m:m>".format("<m:mr><m:e>{a}</m:e><m:e>{b}</m:e></m:mr>" * 2)
_BRACES = '<m:dPr><m:begChr m:val="{"/><m:sepChr m:val=","/><m:endChr m:val="}"/></m:dPr>'
_RAISED = '<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:t>%s</w:t></w:r>'


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        (math("{P}<m:d><m:e>{A}</m:e><m:e>{B}</m:e></m:d>"), "P(A|B)"),
        (math(f"<m:d>{_BRACES}<m:e>{{a}}</m:e><m:e>{{b}}</m:e></m:d>"), "{a,b}"),
        (math(_MATRIX), "[a, b; a, b]"),
        (math("<m:sPre><m:sub>{6}</m:sub><m:sup>{14}</m:sup><m:e>{C}</m:e></m:sPre>"), "_6^14 C"),
        (math("<m:func><m:fName>{sin}</m:fName><m:e>{t}</m:e></m:func>"), "sin t"),
        (math('<m:acc><m:accPr><m:chr m:val="\u20d7"/></m:accPr><m:e>{v}</m:e></m:acc>'), "v\u20d7"),
        (math("<m:bar><m:e>{x}</m:e></m:bar>"), "x\u0305"),
        (math("<m:f><m:num>{(a)+(b)}</m:num><m:den>{2}</m:den></m:f>{x}"), "((a)+(b))/2 x"),
        (math("<m:limLow><m:e>{lim}</m:e><m:lim>{n→∞}</m:lim></m:limLow>{a}"), "lim_(n→∞)a"),
        (math("<m:eqArr><m:e>{x=1}</m:e><m:e>{y=2}</m:e></m:eqArr>"), "x=1; y=2"),
        ('<w:r><w:t>angle </w:t><w:sym w:font="Symbol" w:char="F061"/></w:r>', "angle α"),
        ("<w:r><w:t>in 1998</w:t></w:r>" + _RAISED % 3 + _RAISED % "," + _RAISED % 4, "in 1998 [3,4]"),
    ],
)
def test_formulas_of_word_keep_their_characters_apart(xml: str, expected: str) -> None:
    import docx
    from docx.oxml import parse_xml

    spaces = f'xmlns:w="{made.W}" xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
    file, stream = docx.Document(), io.BytesIO()
    file.add_paragraph()._p.getparent().insert(0, parse_xml(f"<w:p {spaces}>{xml}</w:p>"))
    file.save(stream)
    assert read_word(stream, Reading()).text == unicodedata.normalize("NFC", expected)


@pytest.mark.parametrize(
    ("number", "kind", "expected"),
    [(28, "a", "bb"), (4, "I", "IV"), (1999, "i", "mcmxcix"), (0, "a", "0"), (7, "1", "7")],
)
def test_numbers_of_list_items(number: int, kind: str, expected: str) -> None:
    assert list_number(number, kind) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b\n1,2\n", (",", 0)),
        ("a;b\n1,5;2,5\n", (";", 0)),
        ('a\tb\n"x, y, z"\t2\n', ("\t", 0)),
        ("sep=|\na|b\n", ("|", 1)),
        ("a text, of one column\nand another\n", (",", 0)),
    ],
)
def test_the_separator_of_a_csv_file(text: str, expected: tuple[str, int]) -> None:
    assert separator_of(text) == expected


@pytest.mark.parametrize(
    ("data", "label", "text"),
    [
        ("Zürich, Köln, caf".encode() + b"\xe9.", "", "Zürich, Köln, café."),
        ("Zürich, Köln, caf".encode() + b"\xe9.", "iso-8859-1", "Zürich, Köln, café."),
        (b"caf\xe9.", "utf-8", "café."),
        ("Zürich 中".encode()[:-1], "", "Zürich \ufffd"),
        (b"Z\xc3", "utf-8", "Z\ufffd"),
        ("Zürich".encode("utf-16")[:-1], "", "Züric\ufffd"),
    ],
)
def test_a_damaged_character_costs_no_other_one(data: bytes, label: str, text: str) -> None:
    assert decode(data, label) == text


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c.csv", "id,text\n1,Zürich Ċ ਊ\n2,Bern\n"),
        ("c.jsonl", '{"id": 1, "text": "Zürich Ċ ਊ"}\n{"id": 2, "text": "Bern"}\n'),
        ("c.json", '[{"id": 1, "text": "Zürich Ċ ਊ"}, {"id": 2, "text": "Bern"}]'),
    ],
)
def test_records_may_be_in_utf16(tmp_path: Path, name: str, content: str, encoding: str) -> None:
    (tmp_path / name).write_bytes(f"\ufeff{content}".encode(encoding))
    found = list(read_corpus(tmp_path / name))
    assert [(record.id, record.text) for record in found if isinstance(record, SourceRecord)] == [
        ("1", "Zürich Ċ ਊ"),
        ("2", "Bern"),
    ]


def test_spans_repeat_no_more_than_a_share_of_the_table() -> None:
    rows = list(spread([[("x" * 1_000, 1_000, 1_000)], *[[("a", 1, 1)]] * 5_000]))
    assert sum(len(cell) + 1 for row in rows for cell in row) < 150_000


_INNER = "<table>\n<tr><td>Head</td> <td>32 m</td> </tr>\n<tr><td>Flow</td><td>5</td></tr></table>"


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (
            f"<tr><th>Pump</th><th>Data</th></tr><tr><td>P-101</td><td>{_INNER} new</td></tr><tr><td>P-102</td></tr>",
            "Pump | Data\nP-101 | Head 32 m; Flow 5 new\nP-102\nPump: P-101; Data: Head 32 m; Flow 5 new.",
        ),
        (f"<tr><td>{_INNER}</td><td>P-101 is old.</td></tr>", "Head | 32 m\nFlow | 5\n\nP-101 is old."),
        ("<tr><th>Maker<td>Sulzer</tr><tr><th>Weight:<td>12</tr>", "Maker: Sulzer\nWeight: 12"),
        (
            "<tr><th colspan=2>P-101</th></tr><tr><th>Maker</th><td>Sulzer</td></tr>",
            "P-101\nMaker: Sulzer",
        ),
        ("<tr><th>Bern</th><td>1</td><td>2</td></tr>", "Bern: 1; 2"),
    ],
)
def test_rows_of_a_page_are_those_that_it_shows(page: str, expected: str) -> None:
    assert read_html(f"<table>{page}</table>".encode(), "p").text == expected


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (
            "<ol start=3><li><p>Warranty</p></li><li><p>Court</p><p>of Chur</p></li></ol>",
            "3. Warranty|4. Court|of Chur",
        ),
        ("<ol reversed><li>Gold</li><li><p>Silver</p></li><li>Tin</li></ol>", "3. Gold|2. Silver|1. Tin"),
        ("<ol reversed start=9 type=A><li>Gold</li><li>Silver</li></ol>", "I. Gold|H. Silver"),
        ("<ol><li><ol type=a><li>Open</li></ol></li><li>Close</li></ol>", "1. a. Open|2. Close"),
        ("<ul><li><p>Dot</p></li></ul>", "Dot"),
    ],
)
def test_items_of_lists_keep_their_numbers(page: str, expected: str) -> None:
    text = read_html(page.encode(), "p").text
    assert [line for line in text.split("\n") if line] == expected.split("|")


def test_items_of_a_loose_list_in_markdown_keep_their_numbers() -> None:
    assert read_markdown(b"3. Warranty\n\n4. Court", "m").text == "3. Warranty\n\n4. Court"


@pytest.mark.parametrize(
    "text", ["class Box<T extends Pump> of it", "a <Pump/> of it", "a <T extends='Pump'> of <b2 c>"]
)
def test_tags_that_html_does_not_have_are_text(text: str) -> None:
    assert read_markdown(text.encode(), "m").text == text


@pytest.mark.parametrize("character", "\u00ad\u200b\u200e\u200f\u2060\ufeff")
def test_characters_that_show_as_nothing_are_left_out(tmp_path: Path, character: str) -> None:
    (tmp_path / "a.txt").write_text(f"Kraft{character}werk", encoding="utf-8")
    (tmp_path / "a.html").write_text(f"<p>Kraft{character}werk", encoding="utf-8")
    assert {record.text for record in read_corpus(tmp_path) if isinstance(record, SourceRecord)} == {"Kraftwerk"}


@pytest.mark.parametrize("text", ["می\u200cخواهم", "👩\u200d🔬", "ക്\u200dഷ"])
def test_joiners_stay_which_scripts_and_emojis_are_written_with(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    assert [record.text for record in read_corpus(tmp_path) if isinstance(record, SourceRecord)] == [text]


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<tr><td colspan=1000>Fleet</td></tr><tr><td>Möve</td><td>9</td></tr>", "Fleet | Fleet\nMöve | 9"),
        ("<tr><td>Möve</td><td colspan=5>9</td></tr>", "Möve | 9"),
        (
            "<tr><td rowspan=0>Horn</td><td>1</td></tr><tr><td>2</td></tr><tr><td>3</td></tr>",
            "Horn | 1\nHorn | 2\nHorn | 3",
        ),
        ("<tr><td colspan=4000>Fleet of the lake</td><td>1</td></tr>" * 99 + "<tr><td>last</td></tr>", "last"),
    ],
)
def test_spans_end_where_the_table_ends(page: str, expected: str) -> None:
    text = read_html(f"<table>{page}</table>".encode(), "p").text
    assert text.endswith(expected)
    assert len(text) < 200_000


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([["Ada", "1815"], ["Charles", "1791"]], "Ada | 1815\nCharles | 1791"),  # no names
        ([["Name", "Born"], ["Ada", ""], ["", "1791"]], "Name | Born\nAda\n | 1791"),
        ([["Total", "", "5"], ["x", "y", "z"]], "Total |  | 5\nx | y | z"),
        ([["2021", "2022"], ["1", "2"], ["", "4"]], "2021 | 2022\n1 | 2\n | 4"),
        ([["1", "2", "3"], ["", "", "6"], ["", "8", ""]], "1 | 2 | 3\n |  | 6\n | 8"),
        ([["Pump", "", "Weight"], ["P-101", "", "12"]], "Pump |  | Weight\nP-101 |  | 12\nPump: P-101; Weight: 12."),
    ],
)
def test_rows_keep_their_columns(rows: list[list[str]], expected: str) -> None:
    assert [text for text, _ in table_groups(rows)] == [expected]


def indexed(source: Path, folder: Path, name: str = "mine", **settings: object) -> Settings:
    chosen = Settings.model_validate({"root": folder / "root", **settings})
    run_index(chosen, IndexRequest(index=name, source=source), DirectRunner())
    return chosen


@pytest.mark.parametrize("prefix", ["", "own_"])
def test_two_files_of_one_title_are_two_documents(tmp_path: Path, prefix: str) -> None:
    folder = tmp_path / "corpus"
    for name in ("a", "b"):
        shutil.copytree(document_cases.FOLDER / "37-one-title-two-files" / f"{prefix}{name}", folder / name)
    settings = indexed(folder, tmp_path)
    tables = Layout(settings.root).index("mine").version(1).tables
    with connect(tables, read_only=True) as connection:
        found = connection.execute("SELECT source FROM documents ORDER BY source").fetchall()
    assert [source[:2] for (source,) in found] == ["a/", "b/"]


def test_the_published_tables_are_not_writable(tmp_path: Path) -> None:
    settings = indexed(write_rows(tmp_path / "c.jsonl", [{"id": "1", "text": "Ada wrote."}]), tmp_path)
    tables = Layout(settings.root).index("mine").version(1).tables
    assert tables.stat().st_mode & 0o777 == 0o444


_HOLD = "import duckdb, sys; held = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"


def test_tables_that_another_process_holds_are_named_in_a_sentence(tmp_path: Path) -> None:
    settings = indexed(write_rows(tmp_path / "c.jsonl", [{"id": "1", "text": "Ada wrote."}]), tmp_path)
    tables = Layout(settings.root).index("mine").version(1).tables
    tables.chmod(0o644)
    command = [sys.executable, "-c", _HOLD, str(tables)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(StoreUnavailableError) as caught, connect(tables, read_only=True):
            pass
        holder.communicate(b"")
    assert str(caught.value).startswith(f"Another process holds {tables} open for writing; close it there")


def test_a_first_run_without_a_usable_record_says_why(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "c.jsonl", [{"id": "1", "title": "no text"}])
    with pytest.raises(SourceError, match=r"c\.jsonl line 1: missing text"):
        indexed(source, tmp_path, corpus={"max_quarantine_share": 1})


def test_bad_records_of_damaged_utf8_are_not_taken_for_windows_1252(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_bytes("id,text\n1,Zürich\n2,caf".encode() + b"\xe9\n")
    good, bad = read_corpus(tmp_path / "c.csv")
    assert isinstance(good, SourceRecord)
    assert isinstance(bad, BadRecord)
    assert (good.text, bad.line) == ("Zürich", 3)
