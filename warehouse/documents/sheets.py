"""Texts of Excel files (.xlsx), sheet by sheet in groups of rows; of formulas the values that Excel saved.

So are CSV files that are tables rather than records.
"""

import csv
import datetime
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO

from polyhop.schemas.sections import Document
from polyhop.warehouse.documents.building import Reading, TextBuilder
from polyhop.warehouse.documents.containers import open_container
from polyhop.warehouse.documents.tables import table_groups
from polyhop.warehouse.files.lines import MAX_RECORD_BYTES
from polyhop.warehouse.files.records import FaultError
from polyhop.warehouse.files.web_pages import decode


def read_sheets(stream: BinaryIO, reading: Reading) -> Document:
    """The text of an Excel file; rows without a value are passed over, whatever size a sheet claims to have.

    Rows are grouped into passages that begin with the names of the columns, each a section with its rows.

    Raises:
        FaultError: If it is damaged, too large or has no text.
    """
    import openpyxl

    open_container(stream, reading.max_unpacked_mb).close()
    file = openpyxl.load_workbook(stream, read_only=True, data_only=True, keep_links=False)
    builder = TextBuilder()
    for sheet in file.worksheets:
        sheet.reset_dimensions()  # what a sheet claims would be filled up with empty cells
        _add(builder, sheet.title, _rows(sheet), reading)
    if not builder.length:
        raise FaultError("it has no text: no cell has a value")
    stated = file.properties
    return builder.document(stated.title or "", {"author": stated.creator, "sheets": len(file.worksheets)})


def read_csv(stream: BinaryIO, reading: Reading) -> Document:
    """The text of a CSV file as that of a sheet.

    Raises:
        FaultError: If it is not CSV, is in no known encoding, or has no text.
    """
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
        builder.place(sheet=sheet, rows=numbers)
        builder.add(text)


def _rows(sheet: Any) -> Iterator[list[str]]:
    for row in sheet.iter_rows(values_only=True):
        yield [_cell(value) for value in row] if any(value is not None for value in row) else []


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
