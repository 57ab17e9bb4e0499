"""A page of a PDF file as a picture, on which a sentence has a box."""

import base64
import io
from collections.abc import Sequence
from contextlib import closing
from ctypes import c_int
from difflib import SequenceMatcher
from typing import Any, BinaryIO

from polyhop.warehouse.files.records import FaultError

_PIXELS = 1_600  # of the longer side; chosen: small print is readable, a picture has some 200 kB
_LARGEST_SCALE = 2.0  # pixels for a point of the page; chosen: twice what a screen shows
_FEWEST_LETTERS = 8  # that a page must share with a sentence, and a third of it; chosen: fewer are found anywhere
_FILL, _OUTLINE = (255, 213, 0, 90), (194, 65, 12, 255)  # of a box; chosen: as marks and seeds have on pages


def page_picture(stream: BinaryIO, pages: Sequence[int], sentence: str) -> str:
    """A picture of that of some pages, counted from 1, which holds most of a sentence: a PNG file in base64."""
    import pypdfium2

    file = pypdfium2.PdfDocument(stream)
    if file.get_formtype():
        file.init_forms()
    best, best_page, best_range = 0, pages[0], (0, 0)
    for number in pages:
        if not 1 <= number <= len(file):
            raise FaultError(f"it has no page {number}")
        with closing(file[number - 1]) as page, closing(page.get_textpage()) as text_page:
            text = text_page.get_text_range()
            start, end, letters = found_range(text, sentence)
            if letters > best:
                best, best_page = letters, number
                chars = [_char_index(text_page, at) for at in (start, end - 1)]
                best_range = min(chars), max(chars) + 1
    with closing(file[best_page - 1]) as page:
        scale = min(_LARGEST_SCALE, _PIXELS / max(page.get_size()))
        picture = page.render(scale=scale).to_pil().convert("RGBA")
        boxes = _boxes(page, picture.size, *best_range) if best else []
    return _png(picture, boxes)


def found_range(text: str, sentence: str) -> tuple[int, int, int]:
    """The longest part of a sentence in the text of a page: its start and end there, and its letters; 0 if too short.

    Only letters and digits count: reading joins the lines of a page and leaves out hyphens.
    """
    offsets = [number for number, letter in enumerate(text) if letter.isalnum()]
    page = "".join(text[number] for number in offsets)
    wanted = "".join(filter(str.isalnum, sentence))
    at, size = page.find(wanted), len(wanted)
    if at < 0:
        match = SequenceMatcher(None, wanted, page, autojunk=False).find_longest_match()
        at, size = match.b, match.size
    if size < max(_FEWEST_LETTERS, len(wanted) // 3):
        return 0, 0, 0
    return offsets[at], offsets[at + size - 1] + 1, size


def _char_index(text_page: Any, at: int) -> int:
    import pypdfium2.raw as pdfium

    return max(0, int(pdfium.FPDFText_GetCharIndexFromTextIndex(text_page, at)))


def _boxes(page: Any, size: tuple[int, int], start: int, end: int) -> list[tuple[int, int, int, int]]:
    """The rectangles of characters in a picture of their page: one for each line."""
    import pypdfium2.raw as pdfium

    def pixel(x: float, y: float) -> tuple[int, int]:
        across, down = c_int(), c_int()
        pdfium.FPDF_PageToDevice(page, 0, 0, *size, 0, x, y, across, down)
        return across.value, down.value

    boxes = []
    with closing(page.get_textpage()) as text_page:
        for number in range(text_page.count_rects(start, end - start)):
            left, bottom, right, top = text_page.get_rect(number)
            (a, b), (c, d) = pixel(left, top), pixel(right, bottom)  # a page may be turned
            boxes.append((min(a, c) - 3, min(b, d) - 3, max(a, c) + 3, max(b, d) + 3))
    return boxes


def _png(picture: Any, boxes: Sequence[tuple[int, int, int, int]]) -> str:
    from PIL import Image, ImageDraw

    marks = Image.new("RGBA", picture.size, (0, 0, 0, 0))
    drawn = ImageDraw.Draw(marks)
    for box in boxes:
        drawn.rectangle(box, fill=_FILL, outline=_OUTLINE, width=2)
    stream = io.BytesIO()
    Image.alpha_composite(picture, marks).convert("RGB").save(stream, "PNG")
    return base64.b64encode(stream.getvalue()).decode()
