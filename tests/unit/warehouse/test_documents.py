"""Document files to records: well-formed ones with their pages and headings, hostile ones to the quarantine."""

import csv
import re
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
from polyhop.warehouse.documents.converter import ConversionLimits, Converter, document_key
from polyhop.warehouse.files.corpora import read_corpus
from polyhop.warehouse.files.formats import DOCUMENTS
from polyhop.warehouse.files.records import FaultError

pytestmark = pytest.mark.slow

LIMITS = ConversionLimits(max_file_mb=4, max_unpacked_mb=16, seconds=20, memory_mb=1024)
PEOPLE = "Name | Born\nAda | 1815\nCharles | 1791\nName: Ada; Born: 1815.\nName: Charles; Born: 1791."
FIVES = [f"{row}-{row + 4}" for row in range(7, 37, 5)]
HEAD = "Project | Item | Month | Cost"
COSTS: list[list[Any]] = [HEAD.split(" | "), *(["Kestrel", f"valve {n}", "", n] for n in range(40))]
Make = Callable[[Path], object]
BODY = "word/document.xml"
SHEET = "xl/worksheets/sheet1.xml"
DEEP = b"<w:document xmlns:w='%s'>" % made.W.encode() + b"<w:p>" * 5_000
BOMB = f"{made.BOMB}<x>&i;</x>"
MANY = {f"word/{number}": b"" for number in range(20_001)}
OLD = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
DRM = '<e><CipherReference URI="OEBPS/a%20a.xhtml"/></e>'
CONTAINER = '<c><rootfile full-path="../../etc/passwd"/></c>'


@pytest.fixture(scope="module")
def converter() -> Iterator[Converter]:
    with Converter(LIMITS) as opened:
        yield opened


@pytest.fixture(scope="module")
def narrow() -> Iterator[Converter]:
    """Short passages, and little may be unpacked."""
    with Converter(replace(LIMITS, max_unpacked_mb=1, passage_characters=400)) as opened:
        yield opened


def record_of(path: Path, converter: Converter) -> SourceRecord:
    (record,) = read_corpus(path, convert=converter.convert)
    assert isinstance(record, SourceRecord), record
    return record


def parts_of(record: SourceRecord) -> list[tuple[Section, str]]:
    ends = [section.start for section in record.sections[1:]] + [len(record.text)]
    return [(s, record.text[s.start : end].strip()) for s, end in zip(record.sections, ends, strict=True)]


def test_a_pdf_keeps_its_pages_and_the_headings_of_its_outline(tmp_path: Path, converter: Converter) -> None:
    pages = [["Engines", "Ada wrote the first"], ["program in 1843.", "Mills", "They grind."], []]
    path = made.pdf(tmp_path / "p.pdf", pages, outline=[("Engines", 0), ("Mills", 1), ("Nothing", 2)], title="My Book")
    record = record_of(path, converter)
    assert (record.id, record.title) == ("p.pdf", "My Book")
    assert record.text == "Engines\nAda wrote the first program in 1843.\n\nMills\nThey grind."
    assert [(s.page, s.headings, text) for s, text in parts_of(record)] == [
        (1, ("Engines",), "Engines\nAda wrote the first"),
        (2, ("Engines",), "program in 1843."),
        (2, ("Mills",), "Mills\nThey grind."),
    ]
    assert record.metadata == {"pages": 3}
    for title in ("", "Microsoft Word - report.docx", "untitled"):  # titles that are none
        assert record_of(made.pdf(tmp_path / "My report.pdf", [["Text"]], title=title), converter).title == "My report"


def test_a_word_file_keeps_headings_tables_and_pages(tmp_path: Path, converter: Converter) -> None:
    record = record_of(made.word(tmp_path / "w.docx"), converter)
    assert (record.title, record.metadata) == ("Engines", {"author": "Ada Lovelace"})
    assert "DELETED" not in record.text
    assert record.text.endswith(f"one\n\n{PEOPLE}")
    assert [(s.page, s.headings, text[:10]) for s, text in parts_of(record)] == [
        (1, ("Engines",), "Engines\n\nA"),
        (1, ("Engines", "Analytical"), "Analytical"),
        (1, ("Engines", "Analytical", "Mill"), "Mill\n\nThe "),
        (2, ("Engines", "Analytical", "Mill"), "one\n\nName "),
    ]


def test_slides_keep_titles_tables_and_notes_and_sheets_their_rows(tmp_path: Path, converter: Converter) -> None:
    record = record_of(made.slides(tmp_path / "s.pptx"), converter)
    assert [(s.slide, s.headings, text) for s, text in parts_of(record)] == [
        (1, ("Engines",), "Engines\n\nThe difference engine\nThe analytical engine\n\nSpeak slowly."),
        (2, (), "Name | Born\nAda | 1815\nName: Ada; Born: 1815."),
    ]
    record = record_of(made.sheets(tmp_path / "x.xlsx"), converter)
    assert [(s.sheet, s.first_row, s.last_row, text) for s, text in parts_of(record)] == [
        ("People", 1, 3, PEOPLE),
        ("Far", 200_000, 200_000, "3.5"),  # empty rows are passed over
    ]


@pytest.mark.parametrize(
    ("name", "sheet", "last"), [("costs.xlsx", "sheet People, ", "37-41"), ("costs.csv", "", "37-42")]
)
def test_rows_stand_below_their_header(tmp_path: Path, narrow: Converter, name: str, sheet: str, last: str) -> None:
    if sheet:
        made.sheets(tmp_path / name, COSTS)
    else:
        with (tmp_path / name).open("w", encoding="windows-1252", newline="") as file:
            csv.writer(file).writerows([*COSTS, ["Total in £"]])
    record = record_of(tmp_path, narrow)
    passages = [p for p in split_record(record, max_characters=400) if "valve" in p.text]
    assert [p.text.count(HEAD) for p in passages] == [1] * 8
    assert all(p.text.startswith(HEAD) and 300 < len(p.text) <= 400 for p in passages[:7])
    lines = [line for p in passages for line in p.text.split("\n")]
    assert [line for line in lines if line.startswith("Kestrel")] == [
        f"Kestrel | valve {n} |  | {n}" for n in range(40)
    ]
    sentences = [f"Project: Kestrel; Item: valve {n}; Cost: {n}." for n in range(40)]
    assert [line for line in lines if line.startswith("Project:")] == sentences
    places = [location_of(record.sections, record.text, p.start, p.end) for p in passages]
    said = [place.words() for place in places if place is not None]
    assert said == [f"{sheet}rows {rows}" for rows in ("1-6", *FIVES, last)]


def test_a_csv_file_without_texts_that_is_named_alone_is_a_table(tmp_path: Path, converter: Converter) -> None:
    (tmp_path / "pumps.csv").write_text("Pump;Weight\nP-102;40 kg\n")
    (record,) = read_corpus(tmp_path / "pumps.csv", convert=converter.convert)
    assert isinstance(record, SourceRecord)
    assert (record.id, record.text) == ("pumps.csv", "Pump | Weight\nP-102 | 40 kg\nPump: P-102; Weight: 40 kg.")


def test_many_names_of_columns_stand_before_each_value(tmp_path: Path, converter: Converter) -> None:
    names = [f"column {letter} of a wide table" for letter in "abcdefghijklmnopqrstuvwxyz"]
    record = record_of(made.sheets(tmp_path / "wide.xlsx", [names, ["x"] * 26, ["", "y"]]), converter)
    assert "column z of a wide table: x.\ncolumn b of a wide table: y." in record.text


def test_an_epub_is_read_in_the_order_of_its_spine_with_its_chapters(tmp_path: Path, converter: Converter) -> None:
    record = record_of(made.epub(tmp_path / "b.epub"), converter)
    assert (record.title, record.metadata) == ("The Engine", {"author": "Ada"})
    assert [(s.chapter, s.headings, text) for s, text in parts_of(record)] == [
        ("Before", ("Preface",), "Preface\n\nBefore all."),
        ("Chapter 1", ("One",), "One\n\nIt begins & ends."),
    ]


def test_headers_of_an_email_are_metadata_and_attachments_documents(tmp_path: Path, converter: Converter) -> None:
    made.mail(tmp_path / "m.eml")
    unread = Unread()
    found = list(read_corpus(tmp_path / "m.eml", convert=converter.convert, unread=unread))
    records = {record.id: record for record in found if isinstance(record, SourceRecord)}
    headers = {"from": "Ada <ada@example.org>", "to": "b@example.org", "date": "2024-01-01T10:00:00+00:00"}
    assert {record.id: (record.title, record.text) for record in records.values()} == {
        "m.eml": ("Café 中", "The engine weaves."),
        "m.eml/born.csv": ("born (Café 中)", "Name | Born\nAda | 1815\nName: Ada; Born: 1815."),
        "m.eml/Inner.eml": ("Inner (Café 中)", "From inside."),
        "m.eml/Inner.eml/note.txt": ("note (Inner (Café 中))", "Deep inside.\n"),
    }
    names = [".._plan.pdf", "born.csv", "Inner.eml", "logo.png"]
    assert records["m.eml"].metadata == {**headers, "attachments": names}
    note = records["m.eml/Inner.eml/note.txt"]
    attached = {"attached_to": "m.eml/Inner.eml", "attachment": "note.txt"}
    assert (note.metadata, note.source) == ({"from": "Charles <c@example.org>", **attached}, note.id)
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
def test_unread_attachments_are_counted(tmp_path: Path, narrow: Converter, files: Any, unread: dict[str, int]) -> None:
    (tmp_path / "m.eml").write_bytes(message("s", *files))
    found = Unread()
    records = list(read_corpus(tmp_path / "m.eml", convert=narrow.convert, unread=found))
    assert all(isinstance(record, SourceRecord) for record in records)
    assert found == unread
    assert all(name.startswith("m.eml/") for name in found.names)


@pytest.mark.parametrize(
    ("charset", "data", "text"),
    [("windows-1252", b"caf\xe9", "café"), ("x-unknown", "café".encode(), "café"), ("hex", b"c0ffee", "c0ffee")],
)
def test_an_email_in_an_odd_charset(tmp_path: Path, converter: Converter, charset: str, data: bytes, text: str) -> None:
    head = f'Subject: s\nContent-Type: text/plain; charset="{charset}"\nContent-Transfer-Encoding: 8bit\n\n'
    (tmp_path / "m.eml").write_bytes(head.encode("latin-1") + data)
    assert record_of(tmp_path / "m.eml", converter).text.endswith(text)


@pytest.mark.parametrize(
    ("stated", "subject"),
    [
        (b"=?iso-8859-1?Q?Meyer=92s_1998=962003_40_=80?=", "Meyer’s 1998–2003 40 €"),
        (b"=?us-ascii?Q?Meyer=92s?= mill", "Meyer’s mill"),
        (b"=?gb2312?B?6UY=?=", "镕"),
        (b"=?iso-8859-1?Q?Z=C3=BCri?=\n =?iso-8859-1?Q?ch?=", "Zürich"),
        (b"=?x-unknown?Q?Z=FCrich?=", "Zürich"),
        (b"Meyer\x92s caf\xe9", "Meyer’s café"),
    ],
)
def test_encodings_of_headers_are_those_of_texts(
    tmp_path: Path, converter: Converter, stated: bytes, subject: str
) -> None:
    (tmp_path / "m.eml").write_bytes(b"Subject: " + stated + b"\nFrom: " + stated + b" <a@example.org>\n\ntext")
    record = record_of(tmp_path / "m.eml", converter)
    assert (record.title, record.metadata["from"]) == (subject, f"{subject} <a@example.org>")


@pytest.mark.parametrize(
    ("component", "text"),
    [
        ("BEGIN:VTODO\nSUMMARY:Grease\nDUE:20260310\nEND:VTODO", "Grease; due: 2026-03-10"),
        (
            "BEGIN:VEVENT\nBEGIN:VALARM\nDESCRIPTION:Reminder\nEND:VALARM\nSUMMARY:Walk\nEND:VEVENT",
            "Walk",
        ),
        ("BEGIN:VEVENT\nSTATUS:CANCELLED\nSUMMARY:Walk\nEND:VEVENT", "Walk; status: cancelled"),
        (
            "BEGIN:VEVENT\nDTSTART;TZID=Europe/Zurich:20260405T140000\nDURATION:PT2H\nRRULE:FREQ=DAILY\nEND:VEVENT",
            "start: 2026-04-05 14:00 Europe/Zurich; duration: PT2H; repeats: FREQ=DAILY",
        ),
    ],
)
def test_events_and_tasks_of_a_calendar_are_lines(
    tmp_path: Path, converter: Converter, component: str, text: str
) -> None:
    head = "Subject: s\nContent-Type: text/calendar; charset=utf-8\n\n"
    (tmp_path / "m.eml").write_text(f"{head}BEGIN:VCALENDAR\n{component}\nEND:VCALENDAR\n")
    assert record_of(tmp_path / "m.eml", converter).text == text


def encrypted_zip(path: Path) -> None:
    """Marks all members as encrypted."""
    path.write_bytes(re.sub(rb"(PK\x01\x02.{4}).", b"\\1\x01", made.word(path).read_bytes(), flags=re.DOTALL))


def sheet_xml(row: int, cell: str) -> bytes:
    """A sheet that claims all cells that one can have, and holds one."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    rows = f'<row r="{row}"><c {cell} t="inlineStr"><is><t>far</t></is></c></row>'
    text = f'<worksheet xmlns="{main}"><dimension ref="A1:XFD1048576"/><sheetData>{rows}</sheetData></worksheet>'
    return text.encode()


def data(content: bytes) -> Make:
    return lambda path: path.write_bytes(content)


def word(member: str, content: bytes) -> Make:
    return lambda path: made.with_member(made.word(path), member, content)


def epub(member: str, content: str) -> Make:
    return lambda path: made.epub(path, more={member: content})


def mail(headers: bytes) -> Make:
    return data(b"Subject: x\nContent-Type: " + headers + b"\n\nabc")


def word_that_understates(path: Path) -> None:
    made.claiming(made.with_member(made.word(path), BODY, bytes(8 << 20)), BODY, 9)


HOSTILE: dict[str, tuple[str, Make, str]] = {
    "encrypted PDF": (".pdf", lambda p: made.pdf(p, [["x"]], is_encrypted=True), "it is encrypted with a password"),
    "PDF of pictures": (".pdf", lambda p: made.pdf(p, [[], []]), "it has no text: 2 pages of pictures or drawings"),
    "truncated PDF": (".pdf", data(b"%PDF-1.4\n1 0 obj\n<<"), "it is damaged (PdfiumError: "),
    "PDF of nothing": (".pdf", data(b"text"), "it is not a .pdf file: its content is something else"),
    "large file": (".pdf", data(b"%PDF-" + bytes(4 << 20)), "the file is larger than 4 MB; split it"),
    "empty file": (".pdf", data(b""), "the file is empty"),
    "encrypted Word": (".docx", data(OLD + "EncryptedPackage".encode("utf-16-le")), "it is encrypted with a password"),
    "old Word": (".docx", data(OLD), "it is in the format of Office 97 to 2003"),
    "truncated Word": (".docx", lambda p: p.write_bytes(made.word(p).read_bytes()[:900]), "it is damaged (BadZipFile"),
    "Word of one bad member": (".docx", word(BODY, b"<w:document"), "it is damaged (XMLSyntaxError: "),
    "deep Word": (".docx", word(BODY, DEEP), "it is damaged ("),
    "zip bomb": (".docx", word("word/media/zeros", bytes(17 << 20)), "it would unpack to 18 MB, more than 16"),
    "zip bomb of many": (".docx", lambda p: made.zipped(p, MANY), "it holds 20,001 files, more than 20,000"),
    "zip that understates": (".docx", word_that_understates, "it is damaged ("),
    "encrypted zip": (".docx", encrypted_zip, "it is encrypted with a password"),
    "entity bomb in Word": (".docx", word(BODY, BOMB.encode()), f"{BODY} in it declares a document type, which Office"),
    "entity bomb in UTF-16": (".docx", word(BODY, BOMB.encode("utf-16")), f"{BODY} in it declares a document type"),
    "PowerPoint without text": (".pptx", lambda p: made.slides(p, has_text=False), "it has no text: 1 slide of pictur"),
    "EPUB without a spine": (".epub", lambda p: made.epub(p, spine=""), "it is damaged (it has no spine: "),
    "EPUB that leads out": (".epub", epub("META-INF/container.xml", CONTAINER), "it is damaged (../../etc/passwd is m"),
    "EPUB of a shop": (".epub", epub("META-INF/encryption.xml", DRM), "it is encrypted (digital rights management)"),
    "no e-mail": (".eml", data(b"\x00\xff" * 50), "it is not an e-mail message: "),
    "e-mail without text": (".eml", mail(b"image/png"), "it has no text: nothing but attachments, or nothing at all"),
    "encrypted e-mail": (".eml", mail(b"application/pkcs7-mime"), "it is encrypted; save it in clear text"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_goes_to_the_quarantine_with_the_reason(name: str, tmp_path: Path, converter: Converter) -> None:
    ending, make, reason = HOSTILE[name]
    make(tmp_path / f"a{ending}")
    made.mail(tmp_path / "next.eml")
    found: Any = read_corpus(tmp_path, convert=converter.convert)
    bad, following, *_ = found
    assert bad.reason.startswith(reason)
    assert bad.reason.isprintable()
    assert following.title == "Café 中"  # by the process, or the one that follows it


def test_a_file_that_would_never_end_is_stopped_and_the_message_it_is_attached_to_is_read(tmp_path: Path) -> None:
    endless = made.with_member(made.sheets(tmp_path / "a.xlsx"), SHEET, sheet_xml(99_999_999_999_999, ""))
    files = ("endless.xlsx", endless.read_bytes()), ("good.txt", b"good")
    (tmp_path / "m.eml").write_bytes(message("s", *files))
    with Converter(ConversionLimits(seconds=3)) as converter:
        read, *rest = read_corpus(tmp_path / "m.eml", convert=converter.convert)
    assert isinstance(read, SourceRecord)
    reasons = [record.reason for record in rest if isinstance(record, BadRecord)]
    assert reasons == ["reading it takes longer than 3 s"] * 2


def test_archives_and_names_in_a_document_are_not_followed(tmp_path: Path, converter: Converter) -> None:
    (tmp_path / "in").mkdir()
    path = made.with_member(made.word(tmp_path / "in" / "a.docx"), "word/embeddings/x.zip", made.nested_bomb(64))
    for name in ("../../out.txt", "/tmp/polyhop-out.txt"):
        made.with_member(path, name, b"x")
    assert record_of(path, converter).title == "Engines"
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["a.docx", "in"]
    assert not Path("/tmp/polyhop-out.txt").exists()


def test_content_counts_for_more_than_ending_and_claims(tmp_path: Path, converter: Converter) -> None:
    made.sheets(tmp_path / "x.xlsx").rename(tmp_path / "x.DOCX")
    assert record_of(tmp_path / "x.DOCX", converter).sections[0].sheet == "People"
    path = made.with_member(made.sheets(tmp_path / "a.xlsx"), SHEET, sheet_xml(1_048_576, 'r="XFD1048576"'))
    assert record_of(path, converter).text.startswith("far")


def test_a_crash_of_the_process_costs_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Converter(LIMITS) as converter:
        made.mail(tmp_path / "m.eml")
        converter.convert(tmp_path / "m.eml")
        process: Any = converter._process
        process.kill()
        process.wait()
        assert converter.convert(tmp_path / "m.eml").title == "Café 中"
        monkeypatch.setattr("polyhop.warehouse.documents.converter._MODULE", "this")  # prints, and ends
        converter._end()
        with pytest.raises(FaultError, match=r"crashed|JSON"):
            converter.convert(tmp_path / "m.eml")


def test_a_file_is_read_once_for_each_content_and_a_damaged_cache_only_costs_reading_again(tmp_path: Path) -> None:
    path = made.epub(tmp_path / "a.epub")
    cache = tmp_path / "caches" / "documents.sqlite"
    cache.parent.mkdir()
    cache.write_bytes(b"no database" * 500)
    with Converter(LIMITS, cache) as converter:
        first = converter.convert(path)
        assert first.title == "The Engine"
    path.rename(tmp_path / "b.epub")
    with Converter(LIMITS, cache) as converter:
        assert converter.convert(tmp_path / "b.epub") == first
        assert converter._process is None
        made.epub(tmp_path / "b.epub", spine='<itemref idref="b"/>')
        assert converter.convert(tmp_path / "b.epub").text == "One\n\nIt begins & ends."
        assert converter._process is not None


def test_only_what_may_hold_rows_is_read_again_for_passages_of_another_length() -> None:
    key_counts = {".xlsx": 2, ".csv": 2, ".eml": 2, ".docx": 1, ".pdf": 1}
    for ending, count in key_counts.items():
        assert len({document_key(DOCUMENTS[ending], "checksum", characters) for characters in (400, 1000)}) == count


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
