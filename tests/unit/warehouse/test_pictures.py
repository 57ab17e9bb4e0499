"""A sentence found on a page of a PDF file, and its picture."""

import io
from pathlib import Path

import pytest
from document_files import pdf
from PIL import Image

from polyhop.warehouse.documents.converter import ConversionLimits, Converter
from polyhop.warehouse.documents.pictures import found_range
from polyhop.warehouse.files.records import FaultError

PAGE = "The light-\r\nhouse of Bell-\r\nmere was built by Ines Calder. It is high."


def found(text: str, sentence: str) -> str:
    start, end, _ = found_range(text, sentence)
    return text[start:end]


def test_a_sentence_is_found_over_lines_and_hyphens() -> None:
    sentence = "The lighthouse of Bellmere was built by Ines Calder."
    assert found(PAGE, sentence) == "The light-\r\nhouse of Bell-\r\nmere was built by Ines Calder"


def test_of_a_sentence_over_two_pages_the_part_on_this_one_is_found() -> None:
    assert found(PAGE, "It is known that it was built by Ines Calder.") == "was built by Ines Calder"


@pytest.mark.parametrize("sentence", ["", "Nothing of it.", "It is a very long sentence about other things entirely."])
def test_a_sentence_of_another_page_is_not_found(sentence: str) -> None:
    assert found_range(PAGE, sentence) == (0, 0, 0)


def boxes(png: bytes) -> list[int]:
    """Rows of the picture that have the outline's colour, at left."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    pixels = [[picture.getpixel((x, y)) for x in range(0, picture.width, 4)] for y in range(picture.height)]
    return [y for y, row in enumerate(pixels) if sum(pixel == (194, 65, 12) for pixel in row) > 5]


def test_the_page_with_the_sentence_is_drawn_with_a_box_for_each_line(tmp_path: Path) -> None:
    lines = ["Ines Calder was born in", "Oldport by the sea."]
    path = pdf(tmp_path / "a.pdf", [["Another page."], ["First line.", *lines]])
    with Converter() as converter:
        marked = boxes(converter.picture(path, [1, 2], "Ines Calder was born in Oldport by the sea."))
        unmarked = boxes(converter.picture(path, [1], "Not on this page at all."))
    tops = [y for y in marked if y - 1 not in marked]
    assert (len(tops), unmarked) == (4, [])  # an upper and a lower edge each
    assert 110 < tops[0] < 150  # of the second line: 68 points below the upper end of the page, doubled


@pytest.mark.parametrize(
    ("content", "pages", "reason"),
    [(b"%PDF-1.4 nothing", [1], "it is damaged"), (None, [7], "it has no page 7")],
)
def test_a_page_that_cannot_be_drawn_has_a_reason(
    tmp_path: Path, content: bytes | None, pages: list[int], reason: str
) -> None:
    path = pdf(tmp_path / "a.pdf", [["A page."]])
    if content is not None:
        path.write_bytes(content)
    with Converter() as converter, pytest.raises(FaultError, match=reason):
        converter.picture(path, pages, "A page.")


def test_drawing_is_limited_in_time(tmp_path: Path) -> None:
    path = pdf(tmp_path / "a.pdf", [["A page."]])
    with Converter(ConversionLimits(seconds=0.01)) as converter, pytest.raises(FaultError, match="takes longer than"):
        converter.picture(path, [1], "A page.")
