"""Texts of PDF files by pdfium, page by page, with the values of forms."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from ctypes import create_string_buffer
from itertools import pairwise
from typing import Any, BinaryIO

from polyhop.schemas.records import Document
from polyhop.warehouse.documents.building import Reading, TextBuilder, clean_line, clean_text
from polyhop.warehouse.files.records import FaultError, damage

_HYPHEN = re.compile(r"([^\W_]*)[\ufffe\x02]\r?\n?(\w*)")
"""A word with what pdfium writes for a hyphen at the end of a line; it goes on in the next one."""
_COMPOUND = re.compile(r"[^\W_]+(?:-[^\W_]+)+")
_HYPHENATED = frozenset(("half", "ill", "self", "well"))
"""Words that form compounds with a hyphen rather than words of their own; a break inside a word seldom leaves them."""
_NO_TITLE = re.compile(
    r"(?:untitled|microsoft (?:word|powerpoint|excel) ?-.*|.*\.(?:docx?|pptx?|xlsx?|pdf|tex|indd))", re.I
)
_DEEPEST_OUTLINE = 15  # levels; pypdfium2's own default
_WRONG_PASSWORD = 4  # FPDF_ERR_PASSWORD of pdfium's fpdfview.h
_ARABIC = re.compile("[\u0622\u0623\u0625\u0627]\u0644")
"""Alef before lam: the article, or a glyph of both letters that was turned round."""
_LONG_LINE = 0.8  # of the longest line of a page: the sentence goes on in the next one. Chosen.


def read_pdf(stream: BinaryIO, _reading: Reading) -> Document:
    """The text of a PDF file, in the order in which the file draws it; a sentence goes on over the end of a page."""
    import pypdfium2

    try:
        file = pypdfium2.PdfDocument(stream)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == _WRONG_PASSWORD or "password" in str(error).lower():
            raise FaultError("it is encrypted with a password; save it without one") from error
        raise FaultError(f"it is damaged ({damage(error)})") from error
    if file.get_formtype():
        file.init_forms()
    builder = TextBuilder()
    texts = list(_page_texts(file, builder.unread))
    compounds = {word.lower() for text, _ in texts for word in _COMPOUND.findall(text)}
    outline = _outline(file)
    for number, (text, fields) in enumerate(texts):
        headings = outline.get(number, ())
        alone = {_folded(heading) for _, heading in headings}
        _add_page(builder, number + 1, _without_breaks(text, compounds, alone), headings)
        builder.add("\n".join(fields))
        if not text.strip() and not fields:
            builder.unread.setdefault(f"page {number + 1}", "page without text")
    damaged = sum(kind == _DAMAGED for kind in builder.unread.values())
    if not builder.length:
        pages = f"{len(file)} page{'' if len(file) == 1 else 's'}"
        if damaged:
            raise FaultError(f"it is damaged (none of its {pages} can be read)")
        raise FaultError(f"it has no text: {pages} of pictures or drawings; recognise its text first (OCR)")
    stated = {name: clean_line(value) for name, value in file.get_metadata_dict(skip_empty=True).items()}
    title = stated.get("Title", "").strip("()")
    metadata = {"author": stated.get("Author"), "pages": len(file), "damaged_pages": damaged or None}
    return builder.document("" if _NO_TITLE.fullmatch(title) else title, metadata)


_DAMAGED = "damaged page"


def _outline(file: Any) -> Mapping[int, list[tuple[int, str]]]:
    """Page from 0 to levels from 1 and headings of the entries there."""
    outline: dict[int, list[tuple[int, str]]] = {}
    for entry in file.get_toc(max_depth=_DEEPEST_OUTLINE):
        destination, heading = entry.get_dest(), clean_line(entry.get_title() or "")
        page = destination.get_index() if destination is not None else None
        if page is not None and heading:
            outline.setdefault(page, []).append((entry.level + 1, heading))
    return outline


def _page_texts(file: Any, unread: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """The text of each page, and its fields that have a value."""
    import pypdfium2

    for number in range(len(file)):
        try:
            with closing(file[number]) as drawn:
                drawn.set_rotation(0)  # else pdfium orders lines by the page as it is turned
                with closing(drawn.get_textpage()) as text_page:
                    text = _turned_back(text_page, text_page.get_text_range())
                    fields = list(_form_values(file, drawn, text_page))
        except pypdfium2.PdfiumError:
            unread[f"page {number + 1}"] = _DAMAGED
            text, fields = "", []
        yield text, fields


def _turned_back(text_page: Any, text: str) -> str:
    """The text with the two letters of one Arabic glyph in their order; pdfium turns a line round letter by letter."""
    import pypdfium2.raw as pdfium

    letters = list(text)
    for match in _ARABIC.finditer(text):
        start = match.start()
        first, second = (pdfium.FPDFText_GetCharIndexFromTextIndex(text_page, at) for at in (start, start + 1))
        if min(first, second) >= 0 and text_page.get_charbox(first) == text_page.get_charbox(second):
            letters[start], letters[start + 1] = letters[start + 1], letters[start]
    return "".join(letters)


def _form_values(file: Any, page: Any, text_page: Any) -> Iterator[str]:
    """A line for each field of a form that has a value, named by the text to its left."""
    import pypdfium2.raw as pdfium

    if file.formenv is None:
        return

    def stated(read: Any, annotation: Any) -> str:
        size = read(file.formenv, annotation, None, 0)
        buffer = create_string_buffer(size)
        read(file.formenv, annotation, pdfium.cast(buffer, pdfium.POINTER(pdfium.FPDF_WCHAR)), size)
        return clean_line(buffer.raw.decode("utf-16-le", "replace").rstrip("\0"))

    for number in range(pdfium.FPDFPage_GetAnnotCount(page)):
        annotation = pdfium.FPDFPage_GetAnnot(page, number)
        value = stated(pdfium.FPDFAnnot_GetFormFieldValue, annotation)
        if value and value != "Off":
            box = pdfium.FS_RECTF()
            pdfium.FPDFAnnot_GetRect(annotation, box)
            label = clean_line(text_page.get_text_bounded(0, box.bottom, box.left, box.top)).rstrip(": ")
            names = (pdfium.FPDFAnnot_GetFormFieldAlternateName, pdfium.FPDFAnnot_GetFormFieldName)
            name = label or next(filter(None, (stated(read, annotation) for read in names)), "")
            yield f"{name}: {value}"
        pdfium.FPDFPage_CloseAnnot(annotation)


def _without_breaks(text: str, compounds: set[str], alone: set[str]) -> str:
    """The text without hyphens that only end a line, and with the lines of a paragraph as one; headings stay alone."""

    def joined(match: re.Match[str]) -> str:
        first, second = match.groups()
        is_compound = not second[:1].islower() or f"{first}-{second}".lower() in compounds
        return f"{first}-{second}" if is_compound or first.lower() in _HYPHENATED else f"{first}{second}"

    lines = clean_text(_HYPHEN.sub(joined, text)).split("\n")
    long = _LONG_LINE * max(map(len, lines))
    pieces = [lines[0]]
    for before, line in pairwise(lines):
        ends_open = before[-1:].isalpha() or before[-1:] == ","
        goes_on = ends_open and line and (line[:1].islower() or len(before) >= long)
        is_heading = not alone.isdisjoint((_folded(before), _folded(line)))
        pieces += [" " if goes_on and not is_heading else "\n", line]
    return "".join(pieces)


def _add_page(builder: TextBuilder, page: int, text: str, headings: Sequence[tuple[int, str]]) -> None:
    """Adds a page; the part below a heading begins at the line that says it, or else where the one before does."""
    lines = text.split("\n")
    line_of = {_folded(line): number for number, line in reversed(list(enumerate(lines)))}
    separator = "\n\n" if not builder.goes_on else " " if text[:1].islower() else "\n"
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
