"""The file `edits.jsonl` of an index: what people decided about its entities, one JSON object per line.

It lies beside the versions, because every later run applies it. Decides nothing about names (tasks/resolution does).
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from polyhop.schemas.entity_edits import KINDS, EntityEdit
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.ids import content_hash
from polyhop.warehouse.files.disk import locked_file, write_whole, writing
from polyhop.warehouse.files.layout import IndexFolder

_FIELDS = {"edit", "key", "other"}


def read_edits(folder: IndexFolder) -> tuple[EntityEdit, ...]:
    """The edits of an index in the order of the file; none if there is no file.

    Raises:
        ConfigurationError: If a line is no edit; it names file and line.
    """
    lines = _text(folder.edits).splitlines()
    return tuple(_edit(folder.edits, number, line) for number, line in enumerate(lines, 1) if line.strip())


def edits_hash(folder: IndexFolder) -> str:
    """Hash of what the edits say, "" for none: other edits are other entities.

    Raises:
        ConfigurationError: If a line is no edit.
    """
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

    Raises:
        ConfigurationError: If a line is no edit.
        StoreError: If the disk refuses.
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
