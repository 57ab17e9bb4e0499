"""Texts of Excel files (.xlsx), sheet by sheet, a line for each row; of formulas the values that Excel saved."""

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from polyhop.schemas.sections import Document
from polyhop.warehouse.documents.building import TextBuilder
from polyhop.warehouse.documents.containers import open_container
from polyhop.warehouse.documents.tables import table_lines
from polyhop.warehouse.files.records import FaultError


def read_sheets(path: Path, max_unpacked_mb: int) -> Document:
    """The text of an Excel file; rows without a value are passed over, whatever size a sheet claims to have.

    Raises:
        FaultError: If it is damaged, too large or has no text.
    """
    import openpyxl

    open_container(path, max_unpacked_mb).close()
    with path.open("rb") as stream:  # of a path it would look at the ending
        file = openpyxl.load_workbook(stream, read_only=True, data_only=True, keep_links=False)
        return _document(file)


def _document(file: Any) -> Document:
    builder = TextBuilder()
    for sheet in file.worksheets:
        sheet.reset_dimensions()  # what a sheet claims would be filled up with empty cells
        builder.place(sheet=sheet.title)
        separator = "\n\n"
        for line in table_lines(_rows(sheet)):
            builder.add(line, separator)
            separator = "\n"
    if not builder.length:
        raise FaultError("it has no text: no cell has a value")
    stated = file.properties
    return builder.document(stated.title or "", {"author": stated.creator, "sheets": len(file.worksheets)})


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
