"""Writing rows as JSON lines: the whole file or none.

Knows no field.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from polyhop.warehouse.files.disk import named_file


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
    with named_file(path, what) as place:
        return _write(place, rows)


def _write(path: Path, rows: Iterable[Mapping[str, object]]) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
    return count
