"""What folders and files take on the disk, and what killed runs left in the folder of an index.

Removes only what nobody can need: see `old_leftovers`.
"""

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from polyhop.schemas.maintenance import Size
from polyhop.warehouse.files.layout import IndexFolder

_SECONDS_PER_DAY = 86_400.0  # 24 * 3600, in units of time.time()
_TEMPORARY_DAYS = 1.0
"""Chosen: a file that is written under another name takes its own within seconds."""


def size_of(*paths: Path) -> Size:
    """Files and bytes of files and of folders with all that is in them; a file with several names counts once."""
    seen: dict[tuple[int, int], int] = {}
    for path in paths:
        for file in [path, *path.rglob("*")] if path.is_dir() else [path]:
            try:
                state = file.lstat()
            except FileNotFoundError:
                continue  # removed meanwhile
            if not file.is_dir():
                seen[state.st_dev, state.st_ino] = state.st_size
    return Size(len(seen), sum(seen.values()))


def age_days(path: Path) -> float:
    """Days since a file, or the newest file in a folder, was written; 0 if it is gone."""
    try:
        newest = max([path.stat().st_mtime, *(file.stat().st_mtime for file in path.rglob("*"))])
    except FileNotFoundError:
        return 0.0
    return max(0.0, (time.time() - newest) / _SECONDS_PER_DAY)


def old_leftovers(index: IndexFolder, staging_days: float) -> list[Path]:
    """Parts of an interrupted run that nobody has continued for so long, and files that were never renamed.

    Only for who holds the writer's lease.
    """
    temporary = [*index.path.glob(".*.tmp"), *index.vectors.glob(".*.tmp")]
    left = [path for path in temporary if age_days(path) >= _TEMPORARY_DAYS]
    return [*([index.staging] if index.staging.exists() and age_days(index.staging) >= staging_days else []), *left]


def remove_paths(paths: Sequence[Path]) -> None:
    """Removes files, and folders with all that is in them."""
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
