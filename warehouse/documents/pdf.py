"""Texts of PDF files by pdfium: page by page, with the headings of the outline."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from polyhop.schemas.records import Document
from polyhop.warehouse.documents.building import Reading, TextBuilder, clean_line, clean_text
from polyhop.warehouse.files.records import FaultError, damage

_HYPHEN = re.compile(r"(?:\ufffe|\x02|\u00ad)\r?\n?")
"""What pdfium writes for a hyphen at the end of a line; the word goes on in the next one."""
_NO_TITLE = re.compile(
    r"(?:untitled|microsoft (?:word|powerpoint|excel) ?-.*|.*\.(?:docx?|pptx?|xlsx?|pdf|tex|indd))", re.I
)
_DEEPEST_OUTLINE = 15  # levels; pypdfium2's own default
_WRONG_PASSWORD = 4
"""FPDF_ERR_PASSWORD of pdfium's fpdfview.h."""


def read_pdf(stream: BinaryIO, _reading: Reading) -> Document:
    """The text of a PDF file, in the order in which the file draws it; a sentence goes on over the end of a page."""
    import pypdfium2

    file = _opened(stream)
    outline = _outline(file)
    builder = TextBuilder()
    damaged = 0
    for number in range(len(file)):
        try:
            text = _page_text(file, number)
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


def _opened(stream: BinaryIO) -> Any:
    import pypdfium2

    try:
        return pypdfium2.PdfDocument(stream)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == _WRONG_PASSWORD or "password" in str(error).lower():
            raise FaultError("it is encrypted with a password; save it without one") from error
        raise FaultError(f"it is damaged ({damage(error)})") from error


def _page_text(file: Any, number: int) -> str:
    page = file[number]
    try:
        text_page = page.get_textpage()
        try:
            return clean_text(_HYPHEN.sub("", text_page.get_text_range()))
        finally:
            text_page.close()
    finally:
        page.close()


def _outline(file: Any) -> Mapping[int, Sequence[tuple[int, str]]]:
    """Page from 0 to (level from 1, heading) of each entry of the outline that leads there."""
    found: dict[int, list[tuple[int, str]]] = {}
    for entry in file.get_toc(max_depth=_DEEPEST_OUTLINE):
        destination = entry.get_dest()
        page = destination.get_index() if destination is not None else None
        heading = clean_line(entry.get_title() or "")
        if page is not None and heading:
            found.setdefault(page, []).append((entry.level + 1, heading))
    return found


def _add_page(builder: TextBuilder, page: int, text: str, headings: Sequence[tuple[int, str]]) -> None:
    """Adds a page; the part below a heading begins at the line that says it, or else where the one before does."""
    lines = text.split("\n")
    line_of = {_folded(line): number for number, line in reversed(list(enumerate(lines)))}
    separator = "\n" if builder.goes_on else "\n\n"
    builder.place(page=page)
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
