"""CSV and parquet files as rows of fields.

Knows no field's meaning, but refuses a file of which no column can hold what is looked for.
"""

import csv
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from polyhop.schemas.corpus import BadRecord
from polyhop.schemas.errors import SourceError
from polyhop.warehouse.files.lines import MAX_RECORD_BYTES, Line, open_bytes, read_lines, size_words
from polyhop.warehouse.files.records import EXCERPT_CHARACTERS, FaultError, Row, bad_record, damage, usable

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMN_CHARACTERS = 300  # chosen: of a file that is no table, all of it may be one name
_BATCH_ROWS = 256  # chosen: bounds memory where each row has a long text, and any number gives the same rows


class NoColumnError(SourceError):
    """No column of a table can hold what is looked for."""


def csv_rows(path: Path, needed: Collection[str]) -> Iterator[Row | BadRecord]:
    """The rows of a CSV file whose first row names the columns, taken in lower case; empty cells are left out.

    Args:
        path: The file; UTF-8, separated by commas, quoted by `"`.
        needed: Names of which at least one must be a column.

    Raises:
        SourceError: If none is.
    """
    csv.field_size_limit(MAX_RECORD_BYTES)
    with open_bytes(path) as stream:
        lines = _Lines(read_lines(stream))
        reader = csv.reader(lines, strict=True)
        header: list[str] = []
        while True:
            start = lines.begin_row()
            try:
                cells = next(reader, None)
                if cells is None:
                    return
                if header and cells:
                    yield Row(start, _fields(header, cells))
                elif cells:
                    header = [cell.strip().lower() for cell in cells]
                    require_column(header, path, needed)
            except csv.Error as error:
                yield bad_record(path.name, start, _csv_fault(error, lines, path, start), lines.excerpt)
            except FaultError as fault:
                yield bad_record(path.name, start, str(fault), lines.excerpt)


def _csv_fault(error: csv.Error, lines: "_Lines", path: Path, start: int) -> str:
    """What is wrong with a row.

    Raises:
        SourceError: If its quote is never closed: all rows after it are lost, so this is not one bad record.
    """
    if lines.at_end:
        raise SourceError(f"{path} has a quote in the row at line {start} that is never closed; fix it.") from error
    extent = f" (the row continues to line {lines.number})" if lines.number > start else ""
    return f"not CSV: {error}{extent}"


class _Lines:
    """Decoded lines for the csv module; a byte that is not UTF-8 becomes a lone surrogate, which records.py refuses."""

    def __init__(self, lines: Iterator[Line]) -> None:
        self._lines = lines
        self.number = 0
        self.at_end = False
        self.excerpt = ""

    def __iter__(self) -> "_Lines":
        return self

    def begin_row(self) -> int:
        """Forgets the row before; returns the number of the line that comes next."""
        self.excerpt = ""
        return self.number + 1

    def __next__(self) -> str:
        line = next(self._lines, None)
        if line is None:
            self.at_end = True
            raise StopIteration
        self.number = line.number
        text = line.data.decode("utf-8", "surrogateescape")
        self.excerpt = self.excerpt or text[:EXCERPT_CHARACTERS]
        if line.is_too_long:
            raise FaultError(f"the line is longer than {size_words(MAX_RECORD_BYTES)}")
        return text


def _fields(header: list[str], cells: list[str]) -> dict[str, object]:
    if len(cells) > len(header):
        raise FaultError(f"the row has {len(cells)} cells, but there are {len(header)} columns")
    return {name: cell for name, cell in zip(header, cells, strict=False) if cell}


def require_column(columns: Collection[str], path: Path, needed: Collection[str]) -> None:
    """Makes sure that a table can hold what is looked for.

    Raises:
        NoColumnError: If none of the needed names is a column.
    """
    if not set(columns) & set(needed):
        found = "".join(filter(str.isprintable, ", ".join(columns)))[:_COLUMN_CHARACTERS]
        raise NoColumnError(f"{path} has no column named {' or '.join(needed)} (its columns: {found}); rename one.")


def parquet_rows(path: Path, needed: Collection[str]) -> Iterator[Row | BadRecord]:
    """The rows of a parquet file, numbered from 1; nulls are left out.

    Args:
        path: The file.
        needed: Names of which at least one must be a column.

    Raises:
        SourceError: If none is.
    """
    from pyarrow import parquet as pq

    with pq.ParquetFile(path) as file:
        names = [name for name in file.schema_arrow.names if not name.startswith("__index_level_")]
        require_column(names, path, needed)
        number = 0
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=names):
            columns = [_values(column) for column in batch.columns]
            for cells in zip(*columns, strict=True):
                number += 1
                row = Row(
                    number, {n: cell for n, cell in zip(batch.schema.names, cells, strict=True) if cell is not None}
                )
                yield usable(row, path.name, _without_faults)


def _without_faults(row: Row, _source: str) -> Row:
    for name, cell in row.fields.items():
        if isinstance(cell, FaultError):
            raise FaultError(f"the column {name} holds what cannot be read: {cell}")
    return row


def _values(column: "pa.Array") -> list[object]:
    """The values of a column; strings that are not UTF-8 get lone surrogates, which records.py refuses.

    What Python has no value for (nanoseconds, years after 9999) is read as text, else as a FaultError.
    """
    import pyarrow as pa

    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        values = column.cast(pa.large_binary()).to_pylist()
        return [value and value.decode("utf-8", "surrogateescape") for value in values]
    except Exception:  # noqa: BLE001 - such as OverflowError, or UnknownTimeZoneError of another package
        return [_cell(cell) for cell in column]


def _cell(value: "pa.Scalar") -> object:
    import pyarrow as pa

    try:
        return value.as_py()
    except Exception as error:  # noqa: BLE001 - as above
        try:
            return value.cast(pa.string()).as_py()
        except pa.ArrowException:
            return FaultError(damage(error))
