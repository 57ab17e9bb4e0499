"""Texts of PowerPoint files (.pptx), slide by slide, with titles, tables and notes."""

from collections.abc import Iterable
from typing import Any, BinaryIO

from polyhop.schemas.sections import Document
from polyhop.warehouse.documents.building import Reading, TextBuilder
from polyhop.warehouse.documents.containers import open_container
from polyhop.warehouse.documents.tables import table_lines
from polyhop.warehouse.files.records import FaultError


def read_slides(stream: BinaryIO, reading: Reading) -> Document:
    """The text of a PowerPoint file: of each slide its title, its other texts in their order, and its notes.

    Raises:
        FaultError: If it is damaged, too large or has no text.
    """
    import pptx

    open_container(stream, reading.max_unpacked_mb).close()
    file = pptx.Presentation(stream)
    builder = TextBuilder()
    for number, slide in enumerate(file.slides, start=1):
        builder.place(slide=number)
        _add_slide(builder, slide)
    if not builder.length:
        count = len(file.slides)
        raise FaultError(f"it has no text: {count} slide{'' if count == 1 else 's'} of pictures, or nothing at all")
    stated = file.core_properties
    metadata = {"author": stated.author, "slides": len(file.slides)}
    return builder.document("" if stated.title == "PowerPoint Presentation" else stated.title, metadata)


def _add_slide(builder: TextBuilder, slide: Any) -> None:
    """Adds a slide's title as a heading, then its other shapes, then its notes."""
    title = slide.shapes.title
    if title is not None and title.has_text_frame:
        builder.heading(1, title.text_frame.text)
    title_id = title.shape_id if title is not None else None
    _add_shapes(builder, (shape for shape in slide.shapes if shape.shape_id != title_id))
    notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    if notes is not None:
        builder.add(notes.text)


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
