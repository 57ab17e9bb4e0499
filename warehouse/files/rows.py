"""JSON files as rows of fields: JSON lines, and lists that are read element by element.

Knows no field's meaning; CSV and parquet are read by tabular.py. A line that is not an object becomes a BadRecord.
"""

import codecs
import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from polyhop.schemas.corpus import BadRecord
from polyhop.schemas.errors import SourceError
from polyhop.warehouse.files.lines import MAX_RECORD_BYTES, Line, encoding_fault, open_bytes, read_lines, size_words
from polyhop.warehouse.files.records import EXCERPT_CHARACTERS, FaultError, Row, bad_record, excerpt_of, kind_of

_CHUNK = 256 * 1024  # bytes read at once; chosen: any number gives the same rows
_SPACE = " \t\r\n"
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)


def json_lines(path: Path, _needed: Collection[str] = ()) -> Iterator[Row | BadRecord]:
    """The objects of a file with one JSON object a line; empty lines are skipped."""
    with open_bytes(path) as stream:
        for line in read_lines(stream):
            if line.is_too_long or line.data.strip():
                yield _row(line, path.name)


def json_document(path: Path, _needed: Collection[str] = ()) -> Iterator[Row | BadRecord]:
    """The objects of a .json file: a list of them, or one a line whatever the file's name says.

    Raises:
        SourceError: If it is neither, or the list breaks off.
    """
    first = _first_character(path)
    if first == "[":
        with open_bytes(path) as stream:
            yield from _list_rows(stream, path)
    elif first == "{" and _is_json_lines(path):
        yield from json_lines(path)
    elif first:
        raise SourceError(
            f"{path} is neither a JSON list of records nor has it one record a line; make it one of them."
        )


def _row(line: Line, source: str) -> Row | BadRecord:
    text = line.data.decode("utf-8", "surrogateescape")
    try:
        return Row(line.number, _object(line), text[:EXCERPT_CHARACTERS])
    except FaultError as fault:
        return bad_record(source, line.number, str(fault), text)


def _object(line: Line) -> dict[str, object]:
    if line.is_too_long:
        raise FaultError(f"the line is longer than {size_words(MAX_RECORD_BYTES)}")
    if b"\0" in line.data:
        raise FaultError(f"the line contains a NUL byte at byte {line.data.index(0) + 1}")
    try:
        value = _DECODER.decode(line.data.decode("utf-8").rstrip())
    except UnicodeDecodeError as error:
        raise FaultError(f"the line is {encoding_fault(error)}") from error
    except json.JSONDecodeError as error:
        raise FaultError(f"not JSON: {error.msg} at character {error.pos + 1}") from error
    except (ValueError, RecursionError) as error:
        raise FaultError(f"JSON that cannot be read: {_limit(error)}") from error
    if not isinstance(value, dict):
        raise FaultError(f"not a JSON object but {kind_of(value)}")
    return value


def _limit(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else "a number has too many digits"


def _first_character(path: Path) -> str:
    with open_bytes(path) as stream:
        while data := stream.read(_CHUNK):
            text = data.decode("utf-8", "replace").removeprefix("\ufeff").lstrip(_SPACE)
            if text:
                return text[0]
    return ""


def _is_json_lines(path: Path) -> bool:
    """Whether the first line that is not empty is an object of its own."""
    return isinstance(next(json_lines(path), None), Row)


def _list_rows(stream: BinaryIO, path: Path) -> Iterator[Row | BadRecord]:
    for number, value in enumerate(_elements(_ListBuffer(stream, path)), start=1):
        if isinstance(value, Mapping):
            yield Row(number, value)
        else:
            yield bad_record(path.name, number, f"not a JSON object but {kind_of(value)}", excerpt_of(value))


def _elements(buffer: "_ListBuffer") -> Iterator[object]:
    """The elements of a JSON list whose bracket comes next."""
    buffer.skip()
    if buffer.next_is("]"):
        buffer.end()
        return
    number = 1
    while True:
        yield buffer.element(number)
        separator = buffer.skip()
        if separator == "]":
            buffer.end()
            return
        if separator != ",":
            raise buffer.fault(number, "a comma or the end of the list is missing after it")
        number += 1


class _ListBuffer:
    """The unread part of a JSON list: grows until one element is whole, then forgets it."""

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
        self._path = path
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
        """Whether `wanted` is what `skip` returns next; if not, it stays unread."""
        found = self.skip()
        if found and found != wanted:
            self.position -= 1
        return found == wanted

    def element(self, number: int) -> object:
        """The next element of the list.

        Raises:
            SourceError: If it is not JSON: where the next one begins cannot be known.
        """
        if self.next_is(""):
            raise self.fault(number, "the file ends before it")
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self.position)
            except json.JSONDecodeError as error:
                if len(self._text) - self.position > MAX_RECORD_BYTES or not self._grow():
                    raise self.fault(number, error.msg) from error
            except (ValueError, RecursionError) as error:
                raise self.fault(number, _limit(error)) from error
            else:
                # a number at the end of the buffer may continue after it
                if end < len(self._text) or not self._grow():
                    self.position = end
                    return value

    def end(self) -> None:
        """Makes sure that nothing follows the list.

        Raises:
            SourceError: If something does.
        """
        if self.skip():
            raise SourceError(f"{self._path} continues after the end of its JSON list; fix the file.")

    def fault(self, number: int, reason: str) -> SourceError:
        """The error for an element that cannot be read."""
        return SourceError(f"{self._path} is not JSON: record {number} of its list cannot be read ({reason}); fix it.")

    def _grow(self) -> bool:
        """Reads as much again as is held, so that a long element costs linear time; False at the end of the file."""
        data = self._stream.read(max(_CHUNK, len(self._text) - self.position))
        more = self._decoder.decode(data, not data)
        if more:
            self._text = self._text[self.position :] + more
            self.position = 0
        return bool(data or more)
