"""Files of name pairs that people link or keep apart: CSV with the header a,b or a,b,type.

Decides nothing about names (tasks/resolution does).
"""

import csv
from pathlib import Path

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.ids import content_hash
from polyhop.schemas.resolution import NamePair

_HEADERS = (["a", "b"], ["a", "b", "type"])


def read_links(file: str) -> tuple[NamePair, ...]:
    """The pairs of a file, in its order; none for "".

    Raises:
        ConfigurationError: If the file cannot be read or a row is not a pair; it names file and line.
    """
    if not file:
        return ()
    reader = csv.reader(_text(file).splitlines(keepends=True), strict=True)
    try:
        header = [cell.strip().lower() for cell in next(reader, [])]
        if header not in _HEADERS:
            raise ConfigurationError(f"{file} line 1: the header must be a,b or a,b,type, not '{','.join(header)}'.")
        return tuple(_pair(file, reader.line_num, len(header), row) for row in reader if any(map(str.strip, row)))
    except csv.Error as error:
        raise ConfigurationError(f"{file} line {reader.line_num}: {error}.") from error


def links_hash(file: str) -> str:
    """sha256 of a file of pairs, "" for no file: other pairs are other entities.

    Raises:
        ConfigurationError: If the file cannot be read.
    """
    return content_hash(_text(file)) if file else ""


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(f"Cannot read the name pairs in {file}: {reason}.") from error


def _pair(file: str, line: int, width: int, row: list[str]) -> NamePair:
    cells = [cell.strip() for cell in row]
    if len(cells) != width:
        raise ConfigurationError(f"{file} line {line}: {len(cells)} columns instead of {width}.")
    for name in cells[:2]:
        if not any(character.isalnum() for character in name):
            raise ConfigurationError(
                f"{file} line {line}: '{name}' is not a name; write two names with letters or digits."
            )
    return NamePair(cells[0], cells[1], cells[2].upper() if width == 3 else "", f"{Path(file).name} line {line}")
