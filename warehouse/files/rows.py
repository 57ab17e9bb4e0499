"""JSON, CSV and Parquet files as rows of fields, and as existing extractions.

A line that is not an object becomes a BadRecord.
"""

import codecs
import csv
import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from polyhop.schemas.errors import PolyhopError, SourceError
from polyhop.schemas.records import BadRecord
from polyhop.warehouse.files import records
from polyhop.warehouse.files.encodings import encoding_of, separator_of

if TYPE_CHECKING:
    import pyarrow as pa


_CHUNK = 256 * 1024  # bytes read at once; chosen: any number gives the same rows
_SPACE = " \t\r\n"
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)


def json_lines(path: Path, _needed: Collection[str] = ()) -> Iterator[records.Row | BadRecord]:
    """The objects of a file with one JSON object a line; empty lines are skipped."""
    with records.open_bytes(path) as stream:
        for line in records.read_lines(stream):
            if line.is_too_long or line.data.strip():
                text = line.data[: 4 * records.EXCERPT_CHARACTERS].decode("utf-8", "surrogateescape")
                try:
                    yield records.Row(line.number, _object(line), text[: records.EXCERPT_CHARACTERS])
                except records.FaultError as fault:
                    yield records.bad_record(path.name, line.number, str(fault), text)


def json_document(path: Path, _needed: Collection[str] = ()) -> Iterator[records.Row | BadRecord]:
    """The objects of a .json file: a list of them, or one a line whatever the file's name says."""
    first = ""
    with records.open_bytes(path) as stream:
        while not first and (data := stream.read(_CHUNK)):
            first = data.decode("utf-8", "replace").removeprefix("\ufeff").lstrip(_SPACE)[:1]
    if first == "[":
        with records.open_bytes(path) as stream:
            for number, value in enumerate(_elements(_ListBuffer(stream, path)), start=1):
                if isinstance(value, Mapping):
                    yield records.Row(number, value)
                else:
                    yield records.bad_record(
                        path.name, number, f"not a JSON object but {records.kind_of(value)}", records.excerpt_of(value)
                    )
    elif first == "{" and isinstance(next(json_lines(path), None), records.Row):  # its first line is a complete object
        yield from json_lines(path)
    elif first:
        message = f"{path} is neither a JSON list of records nor has it one record a line; make it one of them."
        raise SourceError(message)


def _object(line: records.Line) -> dict[str, object]:
    if line.is_too_long:
        raise records.FaultError(f"the line is longer than {records.size_words(records.MAX_RECORD_BYTES)}")
    if b"\0" in line.data:
        raise records.FaultError(f"the line contains a NUL byte at byte {line.data.index(0) + 1}")
    try:
        value = _DECODER.decode(line.data.decode("utf-8").rstrip())
    except UnicodeDecodeError as error:
        raise records.FaultError(f"the line is {records.encoding_fault(error)}") from error
    except json.JSONDecodeError as error:
        raise records.FaultError(f"not JSON: {error.msg} at character {error.pos + 1}") from error
    except (ValueError, RecursionError) as error:
        raise records.FaultError(f"JSON that cannot be read: {_limit(error)}") from error
    if not isinstance(value, dict):
        raise records.FaultError(f"not a JSON object but {records.kind_of(value)}")
    return value


def _limit(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else "a number has too many digits"


def _elements(buffer: "_ListBuffer") -> Iterator[object]:
    """The elements of a JSON list whose bracket comes next."""
    buffer.skip()
    number, separator = 0, "]" if buffer.next_is("]") else ","
    while separator == ",":
        number += 1
        yield buffer.element(number)
        separator = buffer.skip()
    if separator != "]":
        raise buffer.fault(number, "a comma or the end of the list is missing after it")
    if buffer.skip():
        raise SourceError(f"{buffer.path} continues after the end of its JSON list; fix the file.")


class _ListBuffer:
    """The unread part of a JSON list: grows until one element is whole, then forgets it."""

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
        self.path = path
        self._text = ""
        self.position = 0

    def skip(self) -> str:
        """Passes over whitespace and one character, which it returns; "" at the end of the file."""
        while True:
            while self.position < len(self._text):
                character = self._text[self.position]
                self.position += 1
                if character not in _SPACE:
                    return character
            if not self._grow():
                return ""

    def next_is(self, wanted: str) -> bool:
        """Returns whether `skip` would return `wanted` next; if not, it stays unread."""
        found = self.skip()
        if found and found != wanted:
            self.position -= 1
        return found == wanted

    def element(self, number: int) -> object:
        """The next element of the list."""
        if self.next_is(""):
            raise self.fault(number, "the file ends before it")
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self.position)
            except json.JSONDecodeError as error:
                if len(self._text) - self.position > records.MAX_RECORD_BYTES or not self._grow():
                    raise self.fault(number, error.msg) from error
            except (ValueError, RecursionError) as error:
                raise self.fault(number, _limit(error)) from error
            else:
                # a number at the end of the buffer may continue after it
                if end < len(self._text) or not self._grow():
                    self.position = end
                    return value

    def fault(self, number: int, reason: str) -> SourceError:
        """The error for an element that cannot be read."""
        return SourceError(f"{self.path} is not JSON: record {number} of its list cannot be read ({reason}); fix it.")

    def _grow(self) -> bool:
        """Reads as much again as is held, so that a long element costs linear time; False at the end of the file."""
        data = self._stream.read(max(_CHUNK, len(self._text) - self.position))
        more = self._decoder.decode(data, not data)
        if more:
            self._text = self._text[self.position :] + more
            self.position = 0
        return bool(data or more)


_COLUMN_CHARACTERS = 300  # chosen: of a file that is no table, all of it may be one name
_BATCH_ROWS = 256  # chosen: bounds memory where each row has a long text, and any number gives the same rows


class NoColumnError(SourceError):
    """No column of a table can hold what is looked for."""


def csv_rows(path: Path, needed: Collection[str]) -> Iterator[records.Row | BadRecord]:
    """The rows of a CSV file with names in its first row, in lower case; of empty cells at most the needed one.

    Its first lines show its separator, and whether it is in UTF-8 or in windows-1252. Ids that are all whole numbers
    with a point are whole numbers, as pandas writes them if one is missing.
    """
    csv.field_size_limit(records.MAX_RECORD_BYTES)
    encoding, separator, skipped = _dialect(path)
    whole = _whole_ids(path, encoding, separator, skipped)
    with records.open_bytes(path) as stream:
        lines = _Lines(records.read_lines(stream), encoding)
        for _ in range(skipped):
            next(lines)
        reader = csv.reader(lines, delimiter=separator, strict=True)
        header: list[str] = []
        while True:
            start = lines.begin_row()
            try:
                cells = next(reader, None)
                if cells is None:
                    return
                if header and cells:
                    if len(cells) > len(header):
                        raise records.FaultError(f"the row has {len(cells)} cells, but there are {len(header)} columns")
                    yield records.Row(start, _fields(header, cells, needed, whole))
                elif cells:
                    header = [cell.strip().lower() for cell in cells]
                    require_column(header, path, needed)
            except csv.Error as error:
                if lines.at_end:
                    message = f"{path} has a quote in the row at line {start} that is never closed; fix it."
                    raise SourceError(message) from error
                extent = f" (the row continues to line {lines.number})" if lines.number > start else ""
                yield records.bad_record(path.name, start, f"not CSV: {error}{extent}", lines.excerpt)
            except records.FaultError as fault:
                yield records.bad_record(path.name, start, str(fault), lines.excerpt)


def _fields(header: Sequence[str], cells: Sequence[str], needed: Collection[str], whole: str) -> dict[str, str]:
    fields = {name: cell for name, cell in zip(header, cells, strict=False) if cell}
    if needed and fields.keys().isdisjoint(needed):  # it is empty, not missing
        fields[next(name for name in header if name in needed)] = ""
    if whole in fields:
        fields[whole] = fields[whole].partition(".")[0]
    return fields


def _whole_ids(path: Path, encoding: str, separator: str, skipped: int) -> str:
    """The column of ids if all of them are whole numbers with a point, else ""; most often the first id decides."""
    with records.open_bytes(path) as stream, suppress(csv.Error, records.FaultError):
        rows = csv.reader(islice(_Lines(records.read_lines(stream), encoding), skipped, None), delimiter=separator)
        header = [cell.strip().lower() for cell in next(filter(None, rows), ())]
        name = next((name for name in records.ID_FIELDS if name in header), "")
        column = header.index(name) if name else 0
        ids = (row[column] for row in rows if len(row) > column and row[column])
        if name and all(map(_WHOLE.fullmatch, ids)):
            return name
    return ""


_WHOLE = re.compile(r"-?\d+\.0")


def _dialect(path: Path) -> tuple[str, str, int]:
    """Encoding and separator of a CSV file, and the number of lines before its first row."""
    with records.open_bytes(path) as stream:
        sample = stream.read(_CHUNK)
    sample = sample[: sample.rfind(b"\n") + 1] or sample
    text = sample.decode("utf-8", "ignore").removeprefix("\ufeff")
    encoding = "utf-8"
    if text.isascii() and not sample.isascii():  # else it is UTF-8, even if some records are damaged
        with suppress(records.FaultError):
            encoding = encoding_of(sample)
    return encoding, *separator_of(text)


class _Lines:
    """Decoded lines for the csv module; an invalid byte becomes a lone surrogate, which records.py refuses."""

    def __init__(self, lines: Iterator[records.Line], encoding: str) -> None:
        self._lines = lines
        self._encoding = encoding
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
        text = line.data.decode(self._encoding, "surrogateescape")
        self.excerpt = self.excerpt or text[: records.EXCERPT_CHARACTERS]
        if line.is_too_long:
            raise records.FaultError(f"the line is longer than {records.size_words(records.MAX_RECORD_BYTES)}")
        return text


def require_column(columns: Collection[str], path: Path, needed: Collection[str]) -> None:
    """Makes sure that a table can hold what is looked for."""
    if not set(columns) & set(needed):
        found = "".join(filter(str.isprintable, ", ".join(columns)))[:_COLUMN_CHARACTERS]
        raise NoColumnError(f"{path} has no column named {' or '.join(needed)} (its columns: {found}); rename one.")
    repeated = next((name for name, count in Counter(filter(None, columns)).items() if count > 1), "")
    if repeated:
        raise SourceError(f"{path} has several columns named {repeated[:_COLUMN_CHARACTERS]}; rename all but one.")


def parquet_rows(path: Path, needed: Collection[str]) -> Iterator[records.Row | BadRecord]:
    """The rows of a parquet file, numbered from 1; nulls are left out."""
    from pyarrow import parquet as pq

    with pq.ParquetFile(path) as file:
        names = [name for name in file.schema_arrow.names if not name.startswith("__index_level_")]
        require_column(names, path, needed)
        number = 0
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=names):
            columns = [_values(column) for column in batch.columns]
            for cells in zip(*columns, strict=True):
                number += 1
                named = zip(batch.schema.names, cells, strict=True)
                row = records.Row(number, {name: cell for name, cell in named if cell is not None})
                unread = next((name for name, cell in row.fields.items() if isinstance(cell, records.FaultError)), None)
                if unread is None:
                    yield row
                else:
                    reason = f"the column {unread} holds a value that cannot be read: {row.fields[unread]}"
                    yield records.bad_row(path.name, row, reason)


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
            return records.FaultError(records.damage(error))


# Existing extractions: openie.jsonl, HippoRAG's OpenIE results, our own export. A row is whatever JSON object stands
# there; tasks/extraction/stated.py judges it.

_ID_FIELDS = ("id", "passage_id", "idx")


@dataclass(frozen=True, slots=True)
class ExtractionRow:
    """One row of such a file."""

    line: int
    id: str  # The record or passage meant, "" if the row names none by a string.
    text: str  # The passage itself, if the row holds it (with or without its title in front), else "".
    fields: dict[str, Any]
    fault: str = ""  # Why the row cannot be used, "" if it can.


def read_extractions(path: Path) -> Iterator[ExtractionRow]:
    """The rows of a file, one at a time; faulty ones say why.

    Args:
        path: .jsonl or .json (each also .gz) or .parquet. A .json file holds HippoRAG's {"docs": […]} or a list.
    """
    name = path.name.lower().removesuffix(".gz")
    try:
        if name.endswith(".parquet"):
            import pyarrow as pa
            import pyarrow.parquet as pq

            try:
                with pq.ParquetFile(path) as file:
                    values = chain.from_iterable(batch.to_pylist() for batch in file.iter_batches(_BATCH_ROWS))
                    for number, value in enumerate(values, start=1):
                        yield _extraction(number, value)
            except pa.ArrowException as error:
                raise SourceError(f"The extractions {path} are not a parquet file: {error}.") from error
        elif name.endswith(".json"):
            yield from _from_document(path)
        else:
            for row in json_lines(path):
                if isinstance(row, BadRecord):
                    yield ExtractionRow(row.line, "", "", {}, row.reason)
                else:
                    yield _extraction(row.line, dict(row.fields))
    except PolyhopError:
        raise
    except OSError as error:
        raise SourceError(f"Cannot read the extractions {path}: {error}; check the path.") from error
    except Exception as error:  # what unpacks and parses a file from outside may fail in any way
        raise SourceError(
            f"Cannot read the extractions {path}: {records.damage(error)}; write the file again."
        ) from error


def _from_document(path: Path) -> Iterator[ExtractionRow]:
    with records.open_bytes(path) as stream:
        try:
            document = json.loads(stream.read())
        except (ValueError, RecursionError) as error:
            raise SourceError(f"The extractions {path} are not JSON: {error}.") from error
    rows = document.get("docs") if isinstance(document, dict) else document
    if not isinstance(rows, list):
        raise SourceError(f"The extractions {path} hold no list of rows; expected a list or an object with 'docs'.")
    for number, value in enumerate(rows, start=1):
        yield _extraction(number, value)


def _extraction(number: int, value: object) -> ExtractionRow:
    if not isinstance(value, dict):
        return ExtractionRow(number, "", "", {}, "not an object")
    text = value.get("passage")
    text = text if isinstance(text, str) else ""
    named = next((value[name] for name in _ID_FIELDS if value.get(name) is not None), None)
    # a running number next to a text is a line of HippoRAG's file, not an id of ours
    is_number = isinstance(named, int) and not isinstance(named, bool) and not text
    id_ = str(named) if isinstance(named, str) or is_number else ""
    fault = "" if id_ or text else "neither an id nor a passage"
    return ExtractionRow(number, id_, text, value, fault)
