"""Text files, alone or in folders: each is one record, named by its path below the folder.

Decodes nothing (markup.py does). Hidden files and folders are passed over, links to folders are not followed.
"""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from schemas.corpus import BadRecord, SourceRecord
from schemas.errors import SourceError
from warehouse.files.lines import MAX_RECORD_BYTES, size_words
from warehouse.files.markup import TEXT_FORMATS
from warehouse.files.records import FaultError, Row, bad_record, to_record


def read_text_file(path: Path) -> Iterator[SourceRecord | BadRecord]:
    """The one record of a text file that was named itself; nothing if the file is blank."""
    record = _record(path, path.name)
    if isinstance(record, SourceRecord) or path.read_bytes().strip(b" \t\r\n\xef\xbb\xbf"):
        yield record


def read_folder(folder: Path) -> Iterator[SourceRecord | BadRecord]:
    """A record for each text file below a folder, in the order of the paths' parts.

    Raises:
        SourceError: If there is none; it counts the files of other kinds.
    """
    others: Counter[str] = Counter()
    is_empty = True
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        if path.is_dir():
            yield bad_record(name, 0, "the folder cannot be opened: permission denied")
        elif path.suffix.lower() in TEXT_FORMATS:
            is_empty = False
            yield _record(path, name)
        else:
            others[path.suffix.lower() or "no suffix"] += 1
    if is_empty:
        raise SourceError(_nothing_usable(folder, others))


def _nothing_usable(folder: Path, others: Counter[str]) -> str:
    kinds = ", ".join(f"{count} {suffix}" for suffix, count in sorted(others.items()))
    found = f"only others ({kinds}); name such a file itself" if others else "none at all; name another folder"
    return f"{folder} has no file that ends in {', '.join(TEXT_FORMATS)}, {found}."


def _files(folder: Path) -> Iterator[Path]:
    """Files below a folder, sorted; a folder that may not be opened is yielded itself."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except PermissionError:
        yield folder
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _files(Path(entry.path))
        elif entry.is_file():
            yield Path(entry.path)


def _record(path: Path, name: str) -> SourceRecord | BadRecord:
    try:
        size_bytes = path.stat().st_size
        if size_bytes > MAX_RECORD_BYTES:
            raise FaultError(f"the file is larger than {size_words(MAX_RECORD_BYTES)}; split it or use JSON lines")
        title, text = TEXT_FORMATS[path.suffix.lower()](path.read_bytes(), path.stem)
    except FaultError as fault:
        return bad_record(name, 0, str(fault))
    except PermissionError:
        return bad_record(name, 0, "the file cannot be read: permission denied")
    return to_record(Row(0, {"title": title, "text": text}, text[:800]), name, record_id=name)
