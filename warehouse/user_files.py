"""Files that people write or decide in: settings, entity edits, and pairs of names to link or keep apart.

It lies beside the versions, because every later run applies it.
"""

import csv
import json
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from polyhop.schemas.errors import ConfigurationError, remember_secrets
from polyhop.schemas.records import KINDS, EntityEdit, NamePair
from polyhop.schemas.settings import Settings, environment_settings, flatten, parse_settings
from polyhop.schemas.text import content_hash
from polyhop.warehouse.files.disk import locked_file, write_whole, writing
from polyhop.warehouse.files.layout import IndexFolder

CONFIG_VARIABLE = "POLYHOP_CONFIG"
DEFAULT_FILE = "polyhop.toml"


def load_settings(flags: Mapping[str, object] | None = None) -> Settings:
    """Settings from ./polyhop.toml (or the file that POLYHOP_CONFIG names), POLYHOP_… variables and flags."""
    sources: dict[str, Mapping[str, object]] = {}
    path = Path(os.environ.get(CONFIG_VARIABLE, DEFAULT_FILE))
    if path.exists():
        sources[str(path)] = _read_toml(path)
    elif CONFIG_VARIABLE in os.environ:
        raise ConfigurationError(f"{CONFIG_VARIABLE} names {path}, which does not exist.")
    sources["the environment (POLYHOP_…)"] = environment_settings(os.environ)
    sources["the command line"] = flags or {}
    values = [value for source in sources.values() for value in source.values()]
    remember_secrets(value for value in values if isinstance(value, str) and "://" in value)
    return parse_settings(sources)


def _read_toml(path: Path) -> dict[str, object]:
    try:
        return flatten(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"Cannot read settings from {path}: {error}.") from error


_FIELDS = {"edit", "key", "other"}


def read_edits(folder: IndexFolder) -> tuple[EntityEdit, ...]:
    """The edits of an index in the order of the file; none if there is no file."""
    lines = _text(folder.edits).splitlines()
    return tuple(_edit(folder.edits, number, line) for number, line in enumerate(lines, 1) if line.strip())


def edits_hash(folder: IndexFolder) -> str:
    """Hash of what the edits say, "" for none: other edits are other entities."""
    edits = read_edits(folder)
    parts = [part for edit in edits for part in (edit.kind, edit.key, edit.other, edit.place)]
    return content_hash(*parts) if edits else ""


def change_edits(
    folder: IndexFolder, change: Callable[[tuple[EntityEdit, ...]], Iterable[EntityEdit]]
) -> tuple[EntityEdit, ...]:
    """Writes what `change` makes of the edits of an index in place of them, in one atomic rename.

    Of two processes that change them the second gets what the first wrote.

    Returns:
        The edits before.
    """
    with writing("the edits", folder.edits), locked_file(folder.edits):
        before = read_edits(folder)
        rows = [{"edit": edit.kind, "key": edit.key, "other": edit.other} for edit in change(before)]
        text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
        write_whole(folder.edits, text.encode())
    return before


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(f"Cannot read the edits of entities in {path}: {reason}.") from error


def _edit(path: Path, number: int, line: str) -> EntityEdit:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} line {number}: not JSON. Correct the line or remove it.") from error
    if not isinstance(row, dict) or row.keys() != _FIELDS or not all(isinstance(value, str) for value in row.values()):
        raise ConfigurationError(f'{path} line {number}: an edit has the texts "edit", "key" and "other", no others.')
    if row["edit"] not in KINDS or not row["key"] or bool(row["other"]) == (row["edit"] == "delete"):
        raise ConfigurationError(
            f"{path} line {number}: an edit is one of {', '.join(KINDS)}, with a key and, but for delete, another text."
        )
    return EntityEdit(row["edit"], row["key"], row["other"], f"{path.name} line {number}")


_HEADERS = (["a", "b"], ["a", "b", "type"])


def read_links(file: str) -> tuple[NamePair, ...]:
    """The pairs of a file, in its order; none for ""."""
    if not file:
        return ()
    reader = csv.reader(_link_text(file).splitlines(keepends=True), strict=True)
    try:
        header = [cell.strip().lower() for cell in next(reader, [])]
        if header not in _HEADERS:
            raise ConfigurationError(f"{file} line 1: the header must be a,b or a,b,type, not '{','.join(header)}'.")
        return tuple(_pair(file, reader.line_num, len(header), row) for row in reader if any(map(str.strip, row)))
    except csv.Error as error:
        raise ConfigurationError(f"{file} line {reader.line_num}: {error}.") from error


def links_hash(file: str) -> str:
    """sha256 of a file of pairs, "" for no file: other pairs are other entities."""
    return content_hash(_link_text(file)) if file else ""


def _link_text(file: str) -> str:
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
