"""Document files made by code, well-formed and hostile: each function writes one and returns its path."""

import io
import zipfile
from collections.abc import Mapping, Sequence
from email.message import EmailMessage
from itertools import pairwise
from pathlib import Path

import docx
import openpyxl
import pptx
from docx.oxml import parse_xml

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_ENTITIES = "".join(f'<!ENTITY {name} "{f"&{of};" * 10}">' for name, of in pairwise("ihgfedcba"))
BOMB = f'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">{_ENTITIES}]>'
"""Entities that grow to a gigabyte."""


def pdf(
    path: Path,
    pages: Sequence[Sequence[str]],
    *,
    outline: Sequence[tuple[str, int]] = (),
    title: str = "",
    is_encrypted: bool = False,
) -> Path:
    """A PDF with a line per string; `outline` has headings and pages from 0; an encrypted one asks for a password."""
    objects: list[bytes] = [b"", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for lines in pages:
        drawn = "".join(f"({line}) Tj 0 -20 Td " for line in lines)
        content = f"BT /F1 12 Tf 50 750 Td {drawn} ET".encode("latin-1") if lines else b"0 0 100 100 re f"
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % len(objects)
        )
        kids.append(len(objects))
    references = b" ".join(b"%d 0 R" % kid for kid in kids)
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (references, len(kids))
    catalog = b"<< /Type /Catalog /Pages 2 0 R"
    if outline:
        root = len(objects) + 1
        objects.append(b"<< /Type /Outlines /First %d 0 R /Last %d 0 R >>" % (root + 1, root + len(outline)))
        for number, (heading, page) in enumerate(outline, start=1):
            after = b"/Next %d 0 R" % (root + number + 1) if number < len(outline) else b""
            objects.append(
                b"<< /Title (%s) /Parent %d 0 R /Dest [%d 0 R /Fit] %s >>" % (heading.encode(), root, kids[page], after)
            )
        catalog += b" /Outlines %d 0 R" % root
    objects[0] = catalog + b" >>"
    trailer = b"/Root 1 0 R"
    if title:
        objects.append(b"<< /Title (%s) >>" % title.encode())
        trailer += b" /Info %d 0 R" % len(objects)
    if is_encrypted:  # the keys of no password at all
        objects.append(b"<< /Filter /Standard /V 1 /R 2 /P -4 /O <%s> /U <%s> >>" % (b"11" * 32, b"22" * 32))
        trailer += b" /Encrypt %d 0 R /ID [<%s> <%s>]" % (len(objects), b"33" * 16, b"33" * 16)
    data, table = b"%PDF-1.4\n", b""
    for number, content in enumerate(objects, start=1):
        table += b"%010d 00000 n \n" % len(data)
        data += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    count = len(objects) + 1
    ending = b"trailer\n<< /Size %d %s >>\nstartxref\n%d\n%%%%EOF\n" % (count, trailer, len(data))
    path.write_bytes(data + b"xref\n0 %d\n0000000000 65535 f \n%s%s" % (count, table, ending))
    return path


def word(path: Path) -> Path:
    """A Word file: title, two levels of headings, a list, a table, deleted text, a text box and a page break."""
    file = docx.Document()
    file.core_properties.author = "Ada Lovelace"
    file.add_heading("Engines", 0)
    file.add_paragraph("All about engines.")
    file.add_heading("Analytical", 1)
    file.add_paragraph("Ada wrote the first program. " * 10)
    file.add_heading("Mill", 2)
    paragraph = file.add_paragraph("The mill computes. " * 12)
    paragraph._p.append(
        parse_xml(f'<w:del xmlns:w="{W}" w:id="1" w:author="x"><w:r><w:delText>DELETED</w:delText></w:r></w:del>')
    )
    paragraph._p.append(parse_xml(f'<w:r xmlns:w="{W}"><w:lastRenderedPageBreak/><w:t>On page two.</w:t></w:r>'))
    file.add_paragraph("one", style="List Bullet")
    table = file.add_table(3, 2)
    for row, cells in zip(table.rows, (("Name", "Born"), ("Ada", "1815"), ("Charles", "1791")), strict=True):
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = text
    file.save(str(path))
    return path


def slides(path: Path, *, has_text: bool = True) -> Path:
    """A PowerPoint file: a slide with title, text and notes, one with a table, and an empty one."""
    file = pptx.Presentation()
    if has_text:
        first = file.slides.add_slide(file.slide_layouts[1])
        first.shapes.title.text = "Engines"
        first.placeholders[1].text = "The difference engine\nThe analytical engine"
        first.notes_slide.notes_text_frame.text = "Speak slowly."
        second = file.slides.add_slide(file.slide_layouts[6])
        table = second.shapes.add_table(2, 2, 0, 0, 100, 100).table
        for row, cells in enumerate((("Name", "Born"), ("Ada", "1815"))):
            for column, text in enumerate(cells):
                table.cell(row, column).text = text
    file.slides.add_slide(file.slide_layouts[6])
    file.save(str(path))
    return path


def sheets(path: Path, rows: Sequence[Sequence[object]] = (("Name", "Born"), ("Ada", 1815), ("Charles", 1791))) -> Path:
    """An Excel file with the sheet People, an empty one, and one whose only value stands far away."""
    file = openpyxl.Workbook()
    sheet = file.active
    sheet.title = "People"
    for row in rows:
        sheet.append(list(row))
    file.create_sheet("Empty")
    file.create_sheet("Far")["C200000"] = 3.5
    file.save(path)
    return path


SPINE = '<itemref idref="a"/><itemref idref="b"/>'
CHAPTER = (
    '<?xml version="1.0"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title></head>'
    "<body><h1>{heading}</h1><p>{text}</p></body></html>"
)


def epub(path: Path, *, spine: str = SPINE, more: Mapping[str, str] | None = None) -> Path:
    """A book of two chapters, the second of which its table of contents names; `more` adds or replaces members."""
    members = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>',
        "OEBPS/book.opf": '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        "<metadata><dc:title>The Engine</dc:title><dc:creator>Ada</dc:creator></metadata><manifest>"
        '<item id="a" href="a%20a.xhtml" media-type="application/xhtml+xml"/>'
        '<item id="b" href="text/b.xhtml" media-type="application/xhtml+xml"/>'
        '<item id="n" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/></manifest>'
        f"<spine>{spine}</spine></package>",
        "OEBPS/a a.xhtml": CHAPTER.format(heading="Preface", text="Before all."),
        "OEBPS/text/b.xhtml": CHAPTER.format(heading="One", text="It begins &amp; ends."),
        "OEBPS/nav.xhtml": '<html xmlns="http://www.w3.org/1999/xhtml"><body><nav><ol><li><a href="a%20a.xhtml">Before'
        '</a></li><li><a href="text/b.xhtml#x">Chapter <b>1</b></a></li></ol></nav></body></html>',
        **(more or {}),
    }
    return zipped(path, {name: text.encode() for name, text in members.items() if text})


def zipped(path: Path, members: Mapping[str, bytes]) -> Path:
    """A zip file of these members."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def with_member(path: Path, name: str, data: bytes) -> Path:
    """The same zip file with a member added or replaced."""
    with zipfile.ZipFile(path) as archive:
        members = {one: archive.read(one) for one in archive.namelist()}
    return zipped(path, {**members, name: data})


def claiming(path: Path, member: str, size: int) -> Path:
    """The same zip file, whose list of contents claims that a member unpacks to `size` bytes."""
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02", 0, data.rindex(member.encode()))
    data[at + 24 : at + 28] = size.to_bytes(4, "little")
    path.write_bytes(bytes(data))
    return path


def nested_bomb(megabytes: int) -> bytes:
    """A small zip file that holds a zip file that holds zeros."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(megabytes << 20))
    outer = io.BytesIO()
    with zipfile.ZipFile(outer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner.zip", inner.getvalue())
    return outer.getvalue()


def mail(path: Path) -> Path:
    """A message in two alternatives, with a damaged PDF, a table, a forwarded message with a note, and a picture."""
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "Ada <ada@example.org>", "b@example.org", "Café 中"
    message["Date"] = "Mon, 01 Jan 2024 10:00:00 +0000"
    message.set_content("The engine weaves.\n")
    message.add_alternative("<p>The <b>HTML</b> engine</p>", subtype="html")
    message.add_attachment(b"%PDF-1.4", maintype="application", subtype="pdf", filename="../plan\u202e.pdf")
    message.add_attachment(b"Name,Born\nAda,1815\n", maintype="application", subtype="x", filename="born.csv")
    forwarded = EmailMessage()
    forwarded["From"], forwarded["Subject"] = "Charles <c@example.org>", "Inner"
    forwarded.set_content("From inside.\n")
    forwarded.add_attachment("Deep inside.", filename="note.txt")
    message.add_attachment(forwarded)
    message.add_attachment(b"\x89PNG", maintype="image", subtype="png", filename="logo.png")
    path.write_bytes(message.as_bytes())
    return path
