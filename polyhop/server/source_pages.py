"""Sources of answers: a document with a sentence marked, its page as a picture, its rows as a table, its file."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from fastapi.responses import FileResponse, Response

from polyhop.api import Index
from polyhop.originals import MISSING, Original, find_original
from polyhop.pages.answer_page import marked
from polyhop.schemas.errors import UnknownIdError
from polyhop.server.pages import Pages
from polyhop.server.service import Service
from polyhop.warehouse.documents.converter import ConversionLimits, Converter
from polyhop.warehouse.files.records import FaultError
from polyhop.warehouse.statements import statement

MOST_PAGES = 20  # of a passage that are searched for a sentence; chosen: passages have two, sheets of rows none
PICTURE_SECONDS = 20.0  # for a page to be drawn; chosen: plans with many lines take some


@dataclass(frozen=True, slots=True)
class MarkedPassage:
    """A passage with a marked part: its document, the record and file of it, its text, and its pages in the file."""

    document: str
    record: str
    source: str
    text: str
    start: int
    end: int
    pages: tuple[int, ...]
    is_table: bool

    @property
    def sentence(self) -> str:
        """The marked part."""
        return self.text[self.start : self.end]

    @property
    def pieces(self) -> list[tuple[str, bool, bool]]:
        """The text in pieces, each with whether it is marked."""
        return marked(self.text, [(self.start, self.end)])


def marked_passage(opened: Index, passage: str, start: int, end: int) -> MarkedPassage:
    """A passage of an open version, of which the characters from `start` up to `end` are marked.

    Raises:
        UnknownIdError: If the version has no such passage.
    """
    reader = opened.session.published
    if passage not in reader.number_of_passage:
        raise UnknownIdError(f"Index '{opened.name}' has no passage '{passage[:200]}' in version {opened.version}.")
    number = reader.number_of_passage[passage]
    ((_, _, text),), (origin,) = reader.passages([number]), reader.origins([number])
    where = reader.locations([passage]).get(passage)
    first, last = (where.first_page, where.last_page) if where is not None else (None, None)
    pages = tuple(range(first, min(last or first, first + MOST_PAGES - 1) + 1)) if first is not None else ()
    is_table = where is not None and where.first_row is not None
    start = max(0, min(start, len(text)))
    marks = start, max(start, min(end, len(text)))
    return MarkedPassage(origin.document_id, origin.record_id, origin.source, text, *marks, pages, is_table)


def record_of_document(opened: Index, document: str) -> dict[str, Any]:
    """The first record of a document: {record_id, source, version}."""
    rows = opened.session.published.documents(statement("pages", "record_of_document"), {"id": document})
    if not rows:
        where = f"Index '{opened.name}' has no document '{document[:200]}' in version {opened.version}"
        raise UnknownIdError(f"{where}; another version may have it.")
    return {**rows[0], "version": opened.version}


def pages_around(count: object, shown: Sequence[int]) -> list[int]:
    """Numbers of the shown pages of a PDF of `count` pages, of the page before and of the page after."""
    if not isinstance(count, int):
        return []
    return list(range(max(1, min(shown) - 1), min(count, max(shown) + 1) + 1))


def table_rows(text: str, start: int, end: int) -> list[tuple[list[str], bool]]:
    """The rows of a table's passage, the first with the names of columns, each with whether the mark is in it.

    The mark may be in a row, or in the sentence that says the row. Empty if the text is no table.
    """
    rows: list[tuple[list[str], bool]] = []
    number_of: dict[str, int] = {}
    at = 0
    for line in text.split("\n"):
        is_marked = start < at + len(line) and end > at
        at += len(line) + 1
        if line.rstrip(".") in number_of:
            number = number_of[line.rstrip(".")]
            rows[number] = rows[number][0], rows[number][1] or is_marked
        elif " | " in line:
            cells = line.split(" | ")
            names = [*(rows[0][0] if rows else []), *[""] * len(cells)]
            said = (
                f"{name.rstrip(':')}: {cell}" if name else cell
                for name, cell in zip(names, cells, strict=False)
                if cell
            )
            number_of["; ".join(said).rstrip(".")] = len(rows)
            rows.append((cells, is_marked))
    return rows if len(rows) > 1 else []


async def original_file(service: Service, index: str, row: dict[str, Any]) -> Original:
    """The original file of a record, by {record_id, source, version}."""
    given = row["version"], row["record_id"], row["source"]
    return await service.run(lambda: find_original(service.settings, index, *given))


def make_router(pages: Pages) -> APIRouter:
    """The routes of files and pictures: of documents of the index alone, and only of what was indexed."""
    router, service = APIRouter(), pages.service

    @router.get("/indexes/{index}/original")
    async def original(index: str, document: str, version: int | None = None) -> Response:
        row = await service.use(index, lambda opened: record_of_document(opened, document), version)
        found = await original_file(service, index, row)
        if found.path is None:
            raise UnknownIdError(found.reason)
        return FileResponse(found.path, media_type="application/octet-stream", filename=found.path.name)

    @router.get("/indexes/{index}/picture")
    async def picture(index: str, passage: str, start: int = 0, end: int = 0, version: int | None = None) -> Response:
        """The page of a PDF with the marked part of a passage."""

        def look(opened: Index) -> tuple[MarkedPassage, int]:
            return marked_passage(opened, passage, start, end), opened.version

        shown, number = await service.use(index, look, version)
        row = {"record_id": shown.record, "source": shown.source, "version": number}
        return await drawn(index, row, shown.pages, shown.sentence)

    @router.get("/indexes/{index}/pdf-pages/{number}")
    async def pdf_page(index: str, number: int, document: str, version: int | None = None) -> Response:
        """A page of a document's PDF."""
        row = await service.use(index, lambda opened: record_of_document(opened, document), version)
        return await drawn(index, row, (number,), "")

    async def drawn(index: str, row: dict[str, Any], numbers: Sequence[int], sentence: str) -> Response:
        found = await original_file(service, index, row)
        if found.path is None or found.path.suffix.lower() != ".pdf" or not numbers:
            raise UnknownIdError(found.reason or MISSING)
        png = await service.run(lambda: _drawn(found, row["source"], numbers, sentence))
        return Response(png, media_type="image/png")

    return router


def _drawn(original: Original, source: str, numbers: Sequence[int], sentence: str) -> bytes:
    with Converter(ConversionLimits(seconds=PICTURE_SECONDS)) as converter:
        try:
            return converter.picture(original.path, numbers, sentence) if original.path else b""
        except FaultError as fault:
            raise UnknownIdError(f"The page of '{source}' cannot be drawn: {fault}.") from fault
