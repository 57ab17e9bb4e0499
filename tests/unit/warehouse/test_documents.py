"""Document files to records: well-formed ones with their pages and headings, hostile ones to the quarantine."""

import csv
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from email.message import EmailMessage
from functools import reduce
from pathlib import Path
from typing import Any

import document_files as made
import pytest

from polyhop.schemas.records import BadRecord, Document, Section, SourceRecord, Unread, location_of
from polyhop.tasks.passages.records import split_record
from polyhop.warehouse.cache.database import DocumentCache
from polyhop.warehouse.documents.converter import ConversionLimits, Converter
from polyhop.warehouse.files import formats
from polyhop.warehouse.files.corpora import read_corpus
from polyhop.warehouse.files.records import FaultError

pytestmark = pytest.mark.slow

LIMITS = ConversionLimits(max_file_mb=4, max_unpacked_mb=16, seconds=20, memory_mb=1024)


@pytest.fixture(scope="module")
def converter() -> Iterator[Converter]:
    with Converter(LIMITS) as opened:
        yield opened


def record_of(path: Path, converter: Converter) -> SourceRecord:
    (record,) = read_corpus(path, convert=converter.convert)
    assert isinstance(record, SourceRecord), record
    return record


def fault_of(path: Path, converter: Converter) -> str:
    (bad,) = read_corpus(path, convert=converter.convert)
    assert isinstance(bad, BadRecord)
    assert bad.reason.isprintable()
    return bad.reason


def parts_of(record: SourceRecord) -> list[tuple[Section, str]]:
    ends = [section.start for section in record.sections[1:]] + [len(record.text)]
    return [(s, record.text[s.start : end].strip()) for s, end in zip(record.sections, ends, strict=True)]


def test_a_pdf_keeps_its_pages_and_the_headings_of_its_outline(tmp_path: Path, converter: Converter) -> None:
    pages = [["Engines", "Ada wrote the first"], ["program in 1843.", "Mills", "They grind."], []]
    path = made.pdf(tmp_path / "p.pdf", pages, outline=[("Engines", 0), ("Mills", 1), ("Nothing", 2)], title="My Book")
    record = record_of(path, converter)
    assert (record.id, record.title) == ("p.pdf", "My Book")
    assert record.text == "Engines\nAda wrote the first\nprogram in 1843.\n\nMills\nThey grind."
    assert [(s.page, s.headings, text) for s, text in parts_of(record)] == [
        (1, ("Engines",), "Engines\nAda wrote the first"),
        (2, ("Engines",), "program in 1843."),
        (2, ("Mills",), "Mills\nThey grind."),
    ]
    assert record.metadata == {"pages": 3}


def test_a_pdf_without_a_title_of_its_own_is_called_like_its_file(tmp_path: Path, converter: Converter) -> None:
    for title in ("", "Microsoft Word - report.docx", "untitled"):
        assert record_of(made.pdf(tmp_path / "My report.pdf", [["Text"]], title=title), converter).title == "My report"


def test_a_word_file_keeps_headings_tables_and_pages(tmp_path: Path, converter: Converter) -> None:
    record = record_of(made.word(tmp_path / "w.docx"), converter)
    assert record.title == "Engines"
    assert record.metadata == {"author": "Ada Lovelace"}
    assert "DELETED" not in record.text
    assert record.text.endswith("one\n\nName | Born\nName: Ada; Born: 1815\nName: Charles; Born: 1791")
    assert [(s.page, s.headings, text[:10]) for s, text in parts_of(record)] == [
        (1, ("Engines",), "Engines\n\nA"),
        (1, ("Engines", "Analytical"), "Analytical"),
        (1, ("Engines", "Analytical", "Mill"), "Mill\n\nThe "),
        (2, ("Engines", "Analytical", "Mill"), "one\n\nName "),
    ]


def test_a_powerpoint_file_keeps_slides_titles_tables_and_notes(tmp_path: Path, converter: Converter) -> None:
    record = record_of(made.slides(tmp_path / "s.pptx"), converter)
    assert [(s.slide, s.headings, text) for s, text in parts_of(record)] == [
        (1, ("Engines",), "Engines\n\nThe difference engine\nThe analytical engine\n\nSpeak slowly."),
        (2, (), "Name | Born\nName: Ada; Born: 1815"),
    ]


def test_an_excel_file_keeps_the_names_of_its_sheets_and_passes_over_empty_rows(
    tmp_path: Path, converter: Converter
) -> None:
    record = record_of(made.sheets(tmp_path / "x.xlsx"), converter)
    assert [(s.sheet, s.first_row, s.last_row, text) for s, text in parts_of(record)] == [
        ("People", 1, 3, "Name | Born\nAda | 1815\nCharles | 1791"),
        ("Far", 200_000, 200_000, "3.5"),
    ]


HEAD = "Project | Item | Month | Cost"
COSTS: list[list[Any]] = [HEAD.split(" | "), *(["Kestrel", f"valve {n}", "", n] for n in range(40))]


@pytest.mark.parametrize(
    ("name", "sheet", "last"), [("costs.xlsx", "sheet People, ", "29-41"), ("costs.csv", "", "29-42")]
)
def test_rows_of_a_sheet_are_grouped_into_passages_below_its_header(
    tmp_path: Path, name: str, sheet: str, last: str
) -> None:
    if sheet:
        made.sheets(tmp_path / name, COSTS)
    else:
        with (tmp_path / name).open("w", encoding="windows-1252", newline="") as file:
            csv.writer(file).writerows([*COSTS, ["Total in £"]])
    with Converter(replace(LIMITS, passage_characters=400)) as converter:
        record = next(iter(read_corpus(tmp_path, convert=converter.convert)))
    assert isinstance(record, SourceRecord)
    passages = [p for p in split_record(record, max_characters=400) if "valve" in p.text]
    assert [p.text.count(HEAD) for p in passages] == [1, 1, 1]
    assert all(p.text.startswith(HEAD) and 300 < len(p.text) <= 400 for p in passages[:2])
    rows = [line for p in passages for line in p.text.split("\n") if line.startswith("Kestrel")]
    assert rows == [f"Kestrel | valve {n} |  | {n}" for n in range(40)]
    places = [location_of(record.sections, record.text, p.start, p.end) for p in passages]
    said = [place.words() for place in places if place is not None]
    assert said == [f"{sheet}rows {rows}" for rows in ("1-15", "16-28", last)]


def test_a_cached_sheet_is_read_again_for_passages_of_another_length(tmp_path: Path) -> None:
    made.sheets(tmp_path / "costs.xlsx", COSTS)
    sections = []
    for characters in (400, 1000):
        with Converter(replace(LIMITS, passage_characters=characters), tmp_path / "caches.sqlite") as converter:
            sections.append(len(converter.convert(tmp_path / "costs.xlsx").sections))
    assert sections[0] > sections[1]


def test_names_of_columns_that_would_fill_a_passage_stand_before_each_value(
    tmp_path: Path, converter: Converter
) -> None:
    names = [f"column {letter} of a wide table" for letter in "abcdefghijklmnopqrstuvwxyz"]
    record = record_of(made.sheets(tmp_path / "wide.xlsx", [names, ["x"] * 26, ["", "y"]]), converter)
    assert "column z of a wide table: x\ncolumn b of a wide table: y" in record.text


def test_an_epub_is_read_in_the_order_of_its_spine_with_its_chapters(tmp_path: Path, converter: Converter) -> None:
    record = record_of(made.epub(tmp_path / "b.epub"), converter)
    assert (record.title, record.metadata) == ("The Engine", {"author": "Ada"})
    assert [(s.chapter, s.headings, text) for s, text in parts_of(record)] == [
        ("Before", ("Preface",), "Preface\n\nBefore all."),
        ("Chapter 1", ("One",), "One\n\nIt begins & ends."),
    ]


def test_headers_of_an_email_are_metadata_and_what_is_attached_are_documents(tmp_path: Path) -> None:
    made.mail(tmp_path / "m.eml")
    unread = Unread()
    with Converter(LIMITS, tmp_path / "documents.sqlite") as converter:
        found = list(read_corpus(tmp_path / "m.eml", convert=converter.convert, unread=unread))
    records = {record.id: record for record in found if isinstance(record, SourceRecord)}
    headers = {"from": "Ada <ada@example.org>", "to": "b@example.org", "date": "Mon, 01 Jan 2024 10:00:00 +0000"}
    assert {record.id: (record.title, record.text) for record in records.values()} == {
        "m.eml": ("Café 中", "The engine weaves."),
        "m.eml/born.csv": ("born (Café 中)", "Name | Born\nAda | 1815"),
        "m.eml/Inner.eml": ("Inner (Café 中)", "From inside."),
        "m.eml/Inner.eml/note.txt": ("note (Inner (Café 中))", "Deep inside.\n"),
    }
    names = [".._plan.pdf", "born.csv", "Inner.eml", "logo.png"]
    assert records["m.eml"].metadata == {**headers, "attachments": names}
    note = records["m.eml/Inner.eml/note.txt"]
    attached = {"attached_to": "m.eml/Inner.eml", "attachment": "note.txt"}
    assert note.metadata == {"from": "Charles <c@example.org>", **attached}
    assert note.source == note.id
    (bad,) = (record for record in found if isinstance(record, BadRecord))
    assert (bad.source, bad.line, bad.reason[:28]) == ("m.eml/.._plan.pdf", 0, "it is damaged (PdfiumError: ")
    assert (unread, unread.names) == ({"attached .png": 1}, ["m.eml/logo.png"])


def message(subject: str, *files: tuple[str, bytes]) -> bytes:
    written_here = EmailMessage()
    written_here["Subject"] = subject
    written_here.set_content("text")
    for name, data in files:
        written_here.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    return written_here.as_bytes()


@pytest.mark.parametrize(
    ("files", "unread"),
    [
        ([("a.zip", b"PK"), ("b", b"x")], {"attached .zip": 1, "attached file without suffix": 1}),
        ([("big.txt", b"x" * (2 << 20))], {"attached file beyond the largest unpacked size": 1}),
        (
            [("1.eml", reduce(lambda inner, n: message("s", (f"{n}.eml", inner)), range(2, 9), message("end")))],
            {"attached file nested too deeply": 1},
        ),
    ],
)
def test_attached_files_that_are_not_read_are_counted_and_named(
    tmp_path: Path, files: list[tuple[str, bytes]], unread: dict[str, int]
) -> None:
    (tmp_path / "m.eml").write_bytes(message("s", *files))
    found = Unread()
    with Converter(replace(LIMITS, max_unpacked_mb=1)) as converter:
        records = list(read_corpus(tmp_path / "m.eml", convert=converter.convert, unread=found))
    assert all(isinstance(record, SourceRecord) for record in records)
    assert found == unread
    assert all(name.startswith("m.eml/") for name in found.names)


def test_a_message_outlives_what_its_attached_file_does_to_the_process(tmp_path: Path) -> None:
    row = '<row r="99999999999999"><c t="inlineStr"><is><t>far</t></is></c></row>'
    endless = made.with_member(made.sheets(tmp_path / "a.xlsx"), SHEET, sheet_xml(row)).read_bytes()
    (tmp_path / "m.eml").write_bytes(message("s", ("endless.xlsx", endless), ("good.txt", b"good")))
    with Converter(ConversionLimits(seconds=3)) as converter:
        first, *bad = read_corpus(tmp_path / "m.eml", convert=converter.convert)
    assert isinstance(first, SourceRecord)
    assert [record.reason for record in bad if isinstance(record, BadRecord)] == [
        "reading it takes longer than 3 s"
    ] * 2


@pytest.mark.parametrize(
    ("charset", "data", "text"),
    [
        ("windows-1252", b"caf\xe9", "café"),
        ("x-nobody-knows", "café".encode(), "café"),
        ("utf-8", b"caf\xe9", "café"),
        ("hex", b"c0ffee", "c0ffee"),
        ("utf-8\x00\xff", b"plain", "plain"),
    ],
)
def test_an_email_in_an_odd_charset_is_read(
    tmp_path: Path, converter: Converter, charset: str, data: bytes, text: str
) -> None:
    head = f'Subject: s\nContent-Type: text/plain; charset="{charset}"\nContent-Transfer-Encoding: 8bit\n\n'
    (tmp_path / "m.eml").write_bytes(head.encode("latin-1") + data)
    assert record_of(tmp_path / "m.eml", converter).text.endswith(text)


def encrypted_office(path: Path) -> Path:
    path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600) + "EncryptedPackage".encode("utf-16-le"))
    return path


def old_office(path: Path) -> Path:
    path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    return path


def truncated(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return path


def with_flag(path: Path) -> Path:
    """Marks all members as encrypted."""
    data = bytearray(path.read_bytes())
    at = data.find(b"PK\x01\x02")
    while at >= 0:
        data[at + 8] |= 1
        at = data.find(b"PK\x01\x02", at + 4)
    path.write_bytes(bytes(data))
    return path


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def sheet_xml(rows: str) -> bytes:
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    return (
        f'<worksheet xmlns="{main}"><dimension ref="A1:XFD1048576"/><sheetData>{rows}</sheetData></worksheet>'.encode()
    )


BODY = "word/document.xml"
SHEET = "xl/worksheets/sheet1.xml"
DEEP = b"<w:document xmlns:w='%s'>" % made.W.encode() + b"<w:p>" * 5_000
HOSTILE: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "encrypted PDF": ("a.pdf", lambda p: made.pdf(p, [["x"]], is_encrypted=True), "it is encrypted with a password"),
    "PDF of pictures": ("a.pdf", lambda p: made.pdf(p, [[], []]), "it has no text: 2 pages of pictures or drawings"),
    "truncated PDF": ("a.pdf", lambda p: written(p, b"%PDF-1.4\n1 0 obj\n<<"), "it is damaged (PdfiumError: "),
    "PDF of nothing": ("a.pdf", lambda p: written(p, b"text"), "it is not a .pdf file: its content is something else"),
    "encrypted Word": ("a.docx", encrypted_office, "it is encrypted with a password; save it without one"),
    "old Word": ("a.docx", old_office, "it is in the format of Office 97 to 2003"),
    "truncated Word": ("a.docx", lambda p: truncated(made.word(p)), "it is damaged (BadZipFile: "),
    "Word without a document": ("a.docx", lambda p: made.zipped(p, {"word/x": b""}), "it is damaged (KeyError: "),
    "Word of one bad member": (
        "a.docx",
        lambda p: made.with_member(made.word(p), "word/document.xml", b"<w:document"),
        "it is damaged (XMLSyntaxError: ",
    ),
    "deep Word": ("a.docx", lambda p: made.with_member(made.word(p), "word/document.xml", DEEP), "it is damaged ("),
    "zip bomb": (
        "a.docx",
        lambda p: made.with_member(made.word(p), "word/media/zeros", bytes(17 << 20)),
        "it would unpack to 18 MB, more than 16",
    ),
    "zip bomb of many": (
        "a.docx",
        lambda p: made.zipped(p, {f"word/{number}": b"" for number in range(20_001)}),
        "it holds 20,001 files, more than 20,000",
    ),
    "zip that understates": (
        "a.docx",
        lambda p: made.claiming(made.with_member(made.word(p), BODY, bytes(8 << 20)), BODY, 9),
        "it is damaged (",
    ),
    "encrypted zip": ("a.docx", lambda p: with_flag(made.word(p)), "it is encrypted with a password"),
    "entity bomb in Word": (
        "a.docx",
        lambda p: made.with_member(made.word(p), "word/document.xml", f"{made.BOMB}<x>&i;</x>".encode()),
        "word/document.xml in it declares a document type, which Office files never do",
    ),
    "entity bomb in UTF-16": (
        "a.docx",
        lambda p: made.with_member(made.word(p), "word/document.xml", f"{made.BOMB}<x>&i;</x>".encode("utf-16")),
        "word/document.xml in it declares a document type",
    ),
    "PowerPoint without text": (
        "a.pptx",
        lambda p: made.slides(p, has_text=False),
        "it has no text: 1 slide of pictures, or nothing at all",
    ),
    "entity bomb in Excel": (
        "a.xlsx",
        lambda p: made.with_member(made.sheets(p), SHEET, f"{made.BOMB}<x>&i;</x>".encode()),
        f"{SHEET} in it declares a document type",
    ),
    "EPUB without a spine": ("a.epub", lambda p: made.epub(p, spine=""), "it is damaged (it has no spine: "),
    "EPUB of missing chapters": (
        "a.epub",
        lambda p: made.epub(p, more={"OEBPS/a a.xhtml": ""}),
        "it is damaged (OEBPS/a a.xhtml is missing in it)",
    ),
    "EPUB that leads out": (
        "a.epub",
        lambda p: made.epub(p, more={"META-INF/container.xml": '<c><rootfile full-path="../../etc/passwd"/></c>'}),
        "it is damaged (../../etc/passwd is missing in it)",
    ),
    "entity bomb in EPUB": (
        "a.epub",
        lambda p: made.epub(p, more={"OEBPS/book.opf": f"{made.BOMB}<package><title>&i;</title></package>"}),
        "it is damaged (",
    ),
    "EPUB of a shop": (
        "a.epub",
        lambda p: made.epub(p, more={"META-INF/encryption.xml": '<e><CipherReference URI="OEBPS/a%20a.xhtml"/></e>'}),
        "it is encrypted (digital rights management)",
    ),
    "no e-mail": ("a.eml", lambda p: written(p, b"\x00\xff" * 50), "it is not an e-mail message: "),
    "e-mail without text": (
        "a.eml",
        lambda p: written(p, b"Subject: x\nContent-Type: image/png\n\nabc"),
        "it has no text: nothing but attachments, or nothing at all",
    ),
    "encrypted e-mail": (
        "a.eml",
        lambda p: written(p, b"Subject: x\nContent-Type: application/pkcs7-mime\n\nabc"),
        "it is encrypted; save it in clear text",
    ),
    "large file": ("a.pdf", lambda p: written(p, b"%PDF-" + bytes(4 << 20)), "the file is larger than 4 MB; split it"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_goes_to_the_quarantine_with_the_reason(name: str, tmp_path: Path, converter: Converter) -> None:
    file, make, reason = HOSTILE[name]
    make(tmp_path / file)
    assert fault_of(tmp_path / file, converter).startswith(reason)
    # the process, or the one that follows it, reads the next file
    assert converter.convert(made.mail(tmp_path / "next.eml")).title == "Café 中"


def test_a_sheet_that_claims_all_of_its_cells_is_read_for_what_it_has(tmp_path: Path, converter: Converter) -> None:
    row = '<row r="1048576"><c r="XFD1048576" t="inlineStr"><is><t>far</t></is></c></row>'
    path = made.with_member(made.sheets(tmp_path / "a.xlsx"), SHEET, sheet_xml(row))
    assert record_of(path, converter).text.startswith("far")


def test_a_sheet_of_a_row_that_no_sheet_can_have_ends_by_its_time(tmp_path: Path) -> None:
    row = '<row r="99999999999999"><c t="inlineStr"><is><t>far</t></is></c></row>'
    path = made.with_member(made.sheets(tmp_path / "a.xlsx"), SHEET, sheet_xml(row))
    with Converter(ConversionLimits(seconds=3)) as converter:
        begin = time.monotonic()
        with pytest.raises(FaultError, match=r"reading it takes longer than 3 s"):
            converter.convert(path)
        assert time.monotonic() - begin < 30
        assert converter.convert(made.mail(tmp_path / "m.eml")).title == "Café 中"


def test_a_file_that_takes_too_much_memory_is_named_and_the_next_is_read(tmp_path: Path) -> None:
    text = f"<w:document xmlns:w='{made.W}'><w:body>{'<w:p/>' * 3_000_000}</w:body></w:document>"
    path = made.with_member(made.word(tmp_path / "a.docx"), "word/document.xml", text.encode())
    with Converter(ConversionLimits(memory_mb=256, seconds=60)) as converter:
        with pytest.raises(FaultError, match=r"more than 256 MB of memory"):
            converter.convert(path)
        assert converter.convert(made.mail(tmp_path / "m.eml")).title == "Café 中"


def test_a_zip_file_within_a_document_is_not_unpacked(tmp_path: Path, converter: Converter) -> None:
    path = made.with_member(made.word(tmp_path / "a.docx"), "word/embeddings/x.zip", made.nested_bomb(64))
    assert record_of(path, converter).title == "Engines"


def test_names_that_lead_out_of_the_file_write_nothing(tmp_path: Path, converter: Converter) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    path = made.with_member(made.word(folder / "a.docx"), "../../out.txt", b"x")
    made.with_member(path, "/tmp/polyhop-out.txt", b"x")
    assert record_of(path, converter).title == "Engines"
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["a.docx", "in"]
    assert not Path("/tmp/polyhop-out.txt").exists()


def test_the_content_of_a_file_counts_for_more_than_its_ending(tmp_path: Path, converter: Converter) -> None:
    made.sheets(tmp_path / "x.xlsx").rename(tmp_path / "x.docx")
    assert record_of(tmp_path / "x.docx", converter).sections[0].sheet == "People"


def test_a_crash_of_the_process_costs_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Converter(LIMITS) as converter:
        made.mail(tmp_path / "m.eml")
        converter.convert(tmp_path / "m.eml")
        process = converter._process
        assert process is not None
        process.kill()
        process.wait()
        assert converter.convert(tmp_path / "m.eml").title == "Café 中"
        monkeypatch.setattr("polyhop.warehouse.documents.converter._MODULE", "this")  # prints, and ends
        converter._end()
        with pytest.raises(FaultError, match=r"crashed|JSON"):
            converter.convert(tmp_path / "m.eml")


def test_a_folder_reads_documents_beside_texts_and_counts_what_it_does_not_read(
    tmp_path: Path, converter: Converter
) -> None:
    made.word(tmp_path / "a.DOCX")
    made.pdf(tmp_path / "b.pdf", [[]])
    for name in ("c.txt", "d.py", "e.py", "f.png"):
        (tmp_path / name).write_text("text", encoding="utf-8")
    unread = Unread()
    records = list(read_corpus(tmp_path, convert=converter.convert, unread=unread))
    assert [(r.source, isinstance(r, SourceRecord)) for r in records] == [
        ("a.DOCX", True),
        ("b.pdf", False),
        ("c.txt", True),
    ]
    assert unread == {".py": 2, ".png": 1}


def test_without_the_package_a_file_is_quarantined_with_what_to_install(
    tmp_path: Path, converter: Converter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "find_spec", lambda _: None)
    made.pdf(tmp_path / "b.pdf", [["text"]])
    made.epub(tmp_path / "c.epub")  # needs no package
    unread = Unread()
    bad, good = read_corpus(tmp_path, convert=converter.convert, unread=unread)
    assert isinstance(good, SourceRecord)
    assert isinstance(bad, BadRecord)
    assert bad.reason == "reading it needs pypdfium2; install it with: pip install 'polyhop[office]'"
    assert unread == {".pdf without the extra office": 1}


def test_a_file_is_read_once_for_each_content(tmp_path: Path) -> None:
    path = made.word(tmp_path / "a.docx")
    cache = tmp_path / "caches" / "documents.sqlite"
    with Converter(LIMITS, cache) as converter:
        first = converter.convert(path)
    path.rename(tmp_path / "b.docx")
    with Converter(LIMITS, cache) as converter:
        assert converter.convert(tmp_path / "b.docx") == first
        assert converter._process is None
        made.sheets(tmp_path / "b.docx")
        assert converter.convert(tmp_path / "b.docx").title == "b"
        assert converter._process is not None


def test_a_damaged_cache_only_costs_reading_again(tmp_path: Path) -> None:
    path = made.mail(tmp_path / "m.eml")
    cache = tmp_path / "documents.sqlite"
    cache.write_bytes(b"no database" * 500)
    with Converter(LIMITS, cache) as converter:
        assert converter.convert(path).title == "Café 中"


def test_the_cache_forgets_the_oldest_and_refuses_damaged_rows(tmp_path: Path) -> None:
    documents = {key: Document(key, "text", (Section(0, ("A",), page=2),), {"n": 1}) for key in ("a", "b", "c")}
    cache = DocumentCache(tmp_path / "d.sqlite", most_rows=2)
    for key, document in documents.items():
        cache.put(key, document)
    assert [cache.get(key) for key in documents] == [None, documents["b"], documents["c"]]
    assert cache._database is not None
    cache._database._connection().execute("UPDATE document_texts SET content = x'00' WHERE key = 'b'")
    assert [cache.get(key) for key in ("b", "c")] == [None, documents["c"]]
    cache.close()


def test_the_reading_process_ends_with_its_parent(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-P", "-m", "polyhop.warehouse.documents.converter"],
        input=b"",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (process.returncode, process.stdout) == (0, b"")


def test_the_bomb_would_be_one(tmp_path: Path) -> None:
    """The hostile files are what they are said to be."""
    assert made.BOMB.count("<!ENTITY") == 9
    bomb = made.nested_bomb(64)
    assert len(bomb) < 1 << 20
    path = written(tmp_path / "z.zip", bomb)
    with zipfile.ZipFile(path) as outer, outer.open("inner.zip") as inner, zipfile.ZipFile(inner) as archive:
        assert archive.getinfo("zeros").file_size == 64 << 20


def test_an_empty_file_of_a_folder_is_quarantined(tmp_path: Path, converter: Converter) -> None:
    (tmp_path / "a.pdf").touch()
    made.mail(tmp_path / "b.eml")
    bad, good, *_ = read_corpus(tmp_path, convert=converter.convert)
    assert (bad.source, bad.reason if isinstance(bad, BadRecord) else "") == ("a.pdf", "the file is empty")
    assert isinstance(good, SourceRecord)
