"""Texts of Word, PowerPoint, Excel and PDF files with headings, tables, notes, slides, rows and pages.

PDF by pdfium; of Word, python-docx reads the package and its styles, and the body is walked here: in one pass,
whatever it holds.
"""

import csv
import datetime
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, BinaryIO

from polyhop.schemas.records import Document
from polyhop.warehouse.documents.building import (
    Reading,
    TextBuilder,
    clean_line,
    clean_text,
    open_container,
    parse_xml,
    table_groups,
    table_lines,
)
from polyhop.warehouse.files.records import MAX_RECORD_BYTES, FaultError, damage
from polyhop.warehouse.files.web_pages import decode

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_NOTES = ("footnotes", "endnotes")
_MOST_LEVELS = 9  # Word has nine levels of headings; the tenth is text (ECMA-376, outlineLvl)
_STYLE_DEPTH = 10  # how often a style may be based on another; Word allows 11


def read_word(stream: BinaryIO, reading: Reading) -> Document:
    """The text of a Word file: paragraphs, tables row by row, then notes; without text deleted as a tracked change."""
    import docx

    open_container(stream, reading.max_unpacked_mb).close()
    file = docx.Document(stream)
    builder, body = TextBuilder(), file.element.body
    if body is None:
        raise FaultError("it is damaged (it has no body)")
    title = _add_body(builder, body, _levels(file))
    for related in file.part.rels.values():
        if not related.is_external and related.reltype.rsplit("/", 1)[-1] in _NOTES:
            for note in parse_xml(related.target_part.blob):
                if isinstance(note.tag, str) and note.get(f"{_W}type") is None:  # no line above notes
                    builder.add(_words(note)[0])
    if not builder.length:
        raise FaultError("it has no text: nothing but pictures, or nothing at all")
    stated = file.core_properties
    return builder.document(stated.title or title, {"author": stated.author})


def _add_body(builder: TextBuilder, body: Any, levels: Mapping[str, int]) -> str:
    """Adds the elements of a body in their order; returns the first paragraph in the style Title."""
    title, page = "", 0
    if next(body.iter(f"{_W}lastRenderedPageBreak"), None) is not None:  # where pages began when Word drew it last
        page = 1
        builder.locate(page=page)

    def turn(pages: int) -> None:
        nonlocal page
        if pages and page:
            page += pages
            builder.locate(page=page)

    for element in _below(body, {f"{_W}p", f"{_W}tbl"}):
        if element.tag == f"{_W}tbl":
            rows = [[_words(cell) for cell in _below(row, {f"{_W}tc"})] for row in _below(element, {f"{_W}tr"})]
            builder.add("\n".join(table_lines([text for text, _, _ in cells] for cells in rows)))
            turn(sum(max((before + after for _, before, after in cells), default=0) for cells in rows))
            continue
        words, before, after = _words(element)
        turn(before)
        style, outline = element.find(f"{_W}pPr/{_W}pStyle"), element.find(f"{_W}pPr/{_W}outlineLvl")
        # the level of a heading, 0 for the title of the file; None for text
        level = None if style is None else levels.get(style.get(f"{_W}val"))
        if outline is not None:
            level = _outline_level(outline)
        if level is None:
            builder.add(words)
        elif words.strip():
            title = title or (words if level == 0 else "")
            builder.heading(level, words)
        turn(after)
    return title


def _words(element: Any) -> tuple[str, int, int]:
    """The text of an element, and how many pages begin in it: before its first words, and after them."""
    pieces: list[str] = []
    before = after = 0
    for part in _below(element, _WORDS):
        if part.tag == f"{_W}t":
            pieces.append(part.text or "")
        elif part.tag != f"{_W}lastRenderedPageBreak":
            pieces.append(_MARKS[part.tag])
        elif any(not piece.isspace() for piece in pieces):
            after += 1
        else:
            before += 1
    return "".join(pieces), before, after


_MARKS = {f"{_W}tab": "\t", f"{_W}br": "\n", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "-", f"{_W}p": "\n"}
_WORDS = frozenset((*_MARKS, f"{_W}t", f"{_W}lastRenderedPageBreak"))


def _below(root: Any, wanted: Collection[str]) -> Iterator[Any]:
    """The wanted elements below an element, in order; of all but `_WORDS` not those that are in one of them.

    So text boxes and inner tables are words of their container. What older programs are to show instead of something
    (Fallback) is passed over: it says the same again.
    """
    is_whole = wanted is not _WORDS
    waiting = list(reversed(root))
    while waiting:
        element = waiting.pop()
        if not isinstance(element.tag, str) or element.tag == _FALLBACK:
            continue
        if element.tag in wanted:
            yield element
            if is_whole:
                continue
        waiting.extend(reversed(element))


def _levels(file: Any) -> Mapping[str, int]:
    """Id of each style of headings to its level; a style based on one of them is one, too."""
    styles = {style.style_id: style for style in file.styles if style.style_id}
    found = {}
    for style_id, style in styles.items():
        base = style
        for _ in range(_STYLE_DEPTH):
            level = _own_level(base)
            if level is not None:
                found[style_id] = level
            base = getattr(base, "base_style", None)
            if level is not None or base is None:
                break
    return found


def _own_level(style: Any) -> int | None:
    name = str(style.name or "").lower()
    if name == "title":
        return 0
    kind, _, number = name.rpartition(" ")
    if kind == "heading" and number.isdigit() and 1 <= int(number) <= _MOST_LEVELS:
        return int(number)
    outline = style.element.find(f"{_W}pPr/{_W}outlineLvl")
    return None if outline is None else _outline_level(outline)


def _outline_level(outline: Any) -> int | None:
    """Levels are counted from 0 in the file; the tenth is text."""
    stated = str(outline.get(f"{_W}val"))
    return int(stated) + 1 if stated.isdecimal() and int(stated) < _MOST_LEVELS else None


def read_slides(stream: BinaryIO, reading: Reading) -> Document:
    """The text of a PowerPoint file: of each slide its title, its other texts in their order, and its notes."""
    import pptx

    open_container(stream, reading.max_unpacked_mb).close()
    file = pptx.Presentation(stream)
    builder = TextBuilder()
    for number, slide in enumerate(file.slides, start=1):
        builder.locate(slide=number)
        # Adds a slide's title as a heading, then its other shapes, then its notes.
        title = slide.shapes.title
        if title is not None and title.has_text_frame:
            builder.heading(1, title.text_frame.text)
        title_id = title.shape_id if title is not None else None
        _add_shapes(builder, (shape for shape in slide.shapes if shape.shape_id != title_id))
        notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
        if notes is not None:
            builder.add(notes.text)
    if not builder.length:
        count = len(file.slides)
        raise FaultError(f"it has no text: {count} slide{'' if count == 1 else 's'} of pictures, or nothing at all")
    stated = file.core_properties
    metadata = {"author": stated.author, "slides": len(file.slides)}
    return builder.document("" if stated.title == "PowerPoint Presentation" else stated.title, metadata)


def _add_shapes(builder: TextBuilder, shapes: Iterable[Any]) -> None:
    """Adds texts and tables; groups are opened. XML of more than 256 levels is refused when it is parsed."""
    for shape in shapes:
        if hasattr(shape, "shapes"):
            _add_shapes(builder, shape.shapes)
        elif getattr(shape, "has_table", False):
            rows = ([cell.text for cell in row.cells] for row in shape.table.rows)
            builder.add("\n".join(table_lines(rows)))
        elif shape.has_text_frame:
            builder.add(shape.text_frame.text)


def read_sheets(stream: BinaryIO, reading: Reading) -> Document:
    """The text of an Excel file; rows without a value are passed over, whatever size a sheet claims to have.

    Rows are grouped into passages that begin with the names of the columns, each a section with its rows.
    """
    import openpyxl

    open_container(stream, reading.max_unpacked_mb).close()
    file = openpyxl.load_workbook(stream, read_only=True, data_only=True, keep_links=False)
    builder = TextBuilder()
    for sheet in file.worksheets:
        sheet.reset_dimensions()  # what a sheet claims would be filled up with empty cells
        values = sheet.iter_rows(values_only=True)
        rows = ([_cell(v) for v in row] if any(value is not None for value in row) else [] for row in values)
        _add(builder, sheet.title, rows, reading)
    if not builder.length:
        raise FaultError("it has no text: no cell has a value")
    stated = file.properties
    return builder.document(stated.title or "", {"author": stated.creator, "sheets": len(file.worksheets)})


def read_csv(stream: BinaryIO, reading: Reading) -> Document:
    """The text of a CSV file as that of a sheet."""
    csv.field_size_limit(MAX_RECORD_BYTES)
    builder = TextBuilder()
    try:
        _add(builder, "", csv.reader(decode(stream.read()).splitlines(keepends=True), strict=True), reading)
    except csv.Error as error:
        raise FaultError(f"not CSV: {error}") from error
    if not builder.length:
        raise FaultError("it has no text: no cell has a value")
    return builder.document("")


def _add(builder: TextBuilder, sheet: str, rows: Iterable[Sequence[str]], reading: Reading) -> None:
    for text, numbers in table_groups(rows, reading.passage_characters):
        builder.locate(sheet=sheet, rows=numbers)
        builder.add(text)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.15g}"  # what Excel itself computes with
    if isinstance(value, datetime.datetime):
        is_date = value.time() == datetime.time()
        return value.date().isoformat() if is_date else value.isoformat(sep=" ", timespec="seconds")
    return str(value)


_HYPHEN = re.compile(r"(?:\ufffe|\x02|\u00ad)\r?\n?")
"""What pdfium writes for a hyphen at the end of a line; the word goes on in the next one."""
_NO_TITLE = re.compile(
    r"(?:untitled|microsoft (?:word|powerpoint|excel) ?-.*|.*\.(?:docx?|pptx?|xlsx?|pdf|tex|indd))", re.I
)
_DEEPEST_OUTLINE = 15  # levels; pypdfium2's own default
_WRONG_PASSWORD = 4  # FPDF_ERR_PASSWORD of pdfium's fpdfview.h


def read_pdf(stream: BinaryIO, _reading: Reading) -> Document:
    """The text of a PDF file, in the order in which the file draws it; a sentence goes on over the end of a page."""
    import pypdfium2

    try:
        file = pypdfium2.PdfDocument(stream)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == _WRONG_PASSWORD or "password" in str(error).lower():
            raise FaultError("it is encrypted with a password; save it without one") from error
        raise FaultError(f"it is damaged ({damage(error)})") from error
    outline: dict[int, list[tuple[int, str]]] = {}  # page from 0 to levels from 1 and headings of the entries there
    for entry in file.get_toc(max_depth=_DEEPEST_OUTLINE):
        destination, heading = entry.get_dest(), clean_line(entry.get_title() or "")
        page = destination.get_index() if destination is not None else None
        if page is not None and heading:
            outline.setdefault(page, []).append((entry.level + 1, heading))
    builder = TextBuilder()
    damaged = 0
    for number in range(len(file)):
        try:
            with closing(file[number]) as drawn, closing(drawn.get_textpage()) as text_page:
                text = clean_text(_HYPHEN.sub("", text_page.get_text_range()))
        except pypdfium2.PdfiumError:
            damaged += 1
            continue
        _add_page(builder, number + 1, text, outline.get(number, ()))
    if not builder.length:
        pages = f"{len(file)} page{'' if len(file) == 1 else 's'}"
        if damaged:
            raise FaultError(f"it is damaged (none of its {pages} can be read)")
        raise FaultError(f"it has no text: {pages} of pictures or drawings; recognise its text first (OCR)")
    stated = {name: clean_line(value) for name, value in file.get_metadata_dict(skip_empty=True).items()}
    title = stated.get("Title", "")
    metadata = {"author": stated.get("Author"), "pages": len(file), "damaged_pages": damaged or None}
    return builder.document("" if _NO_TITLE.fullmatch(title) else title, metadata)


def _add_page(builder: TextBuilder, page: int, text: str, headings: Sequence[tuple[int, str]]) -> None:
    """Adds a page; the part below a heading begins at the line that says it, or else where the one before does."""
    lines = text.split("\n")
    line_of = {_folded(line): number for number, line in reversed(list(enumerate(lines)))}
    separator = "\n" if builder.goes_on else "\n\n"
    builder.locate(page=page)
    reached = 0
    for level, heading in headings:
        line = line_of.get(_folded(heading), reached)
        if line > reached:
            builder.add("\n".join(lines[reached:line]), separator)
            separator, reached = "\n\n", line
        builder.below(level, heading)
    builder.add("\n".join(lines[reached:]), separator)


def _folded(line: str) -> str:
    return " ".join(line.split()).casefold()
