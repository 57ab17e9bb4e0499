"""Writing rows as JSON lines: the whole file or none.

Knows no field.
"""

import errno
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from polyhop.warehouse.files.disk import writing


def write_json_lines(path: Path, rows: Iterable[Mapping[str, object]], what: str) -> int:
    """Writes rows one a line, as they come; a reader sees the whole file or the one before it.

    Args:
        path: The file; its folder must exist. A pipe, a device or a symbolic link is written in place.
        rows: Values that JSON can hold.
        what: What the rows are, for the error: `the scores`.

    Returns:
        How many rows there were.

    Raises:
        StoreError: If the disk refuses.
    """
    with writing(what, path):
        if path.is_symlink() or (path.exists() and not path.is_file()):
            return _write(path, rows)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            count = _write(temporary, rows)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    return count


def check_place(path: Path, what: str) -> None:
    """Finds out before long work that a file cannot be written afterwards.

    Raises:
        StoreError: If its folder does not exist or may not be written, or the file is a folder.
    """
    with writing(what, path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not path.exists():
            path.parent.stat()
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _write(path: Path, rows: Iterable[Mapping[str, object]]) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
    return count
