"""Stored evaluations: folders under <root>/evaluations/ that appear by one rename and never change; tunings likewise.

Their files that are read are run.json and timings.json, and tuning.json of a tuning.
"""

import errno
import json
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from polyhop.schemas.errors import ContractError, UnknownIdError
from polyhop.warehouse.files.disk import make_folder, sync_file, sync_folder, writing

RUN = "run.json"
TIMINGS = "timings.json"
QUESTIONS = "questions.jsonl"
REPORT = "report.html"
SUMMARY = "summary.md"
TUNING = "tuning.json"
_ABANDONED_SECONDS = 86_400  # a day; chosen: storing takes seconds, and a file that is left behind longer does no harm
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)
_RUN_KEYS = frozenset({"index", "version", "questions", "strategies", "parameters", "settings_hash", "results"})
_TIMING_KEYS = frozenset({"started", "strategies"})
_ROW_KEYS = frozenset({"id", "question", "strategy", "answer"})


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A stored evaluation: its number, folder and two documents."""

    number: int
    path: Path
    run: dict[str, Any]
    timings: dict[str, Any]

    def question_rows(self) -> list[dict[str, Any]]:
        """One row per question and strategy."""
        path = self.path / QUESTIONS
        try:
            with path.open(encoding="utf-8", newline="\n") as file:
                return [_with_guess(_checked(json.loads(line), _ROW_KEYS, path)) for line in file]
        except (OSError, ValueError) as error:
            raise _unreadable(path, error) from error


def check_folder(folder: Path) -> None:
    """Makes the folder of all evaluations if need be, and finds out that one can be stored in it."""
    with writing("the evaluation", folder):
        probe = folder / f".{uuid4().hex}.tmp"
        make_folder(probe)
        probe.rmdir()


def store_run(folder: Path, files: Mapping[str, bytes], document: str = RUN) -> tuple[int, Path]:
    """Stores the files of one evaluation, or tuning, under the next free number; returns it and its folder.

    Nothing half-written is ever seen: the files are written next to it and renamed at once.
    """
    temporary = folder / f".{uuid4().hex}.tmp"
    with writing("the evaluation", folder):
        make_folder(temporary)
        # What processes that were killed while they stored an evaluation have left behind.
        for path in folder.glob(".*.tmp"):
            with suppress(FileNotFoundError):  # another process has just given it its number
                if path.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                    shutil.rmtree(path, ignore_errors=True)
        try:
            for name, content in files.items():
                (temporary / name).write_bytes(content)
                sync_file(temporary / name)
            number = max(run_numbers(folder, document), default=0) + 1
            while True:
                try:
                    temporary.rename(_folder(folder, number))
                    break
                except OSError as error:
                    if error.errno not in _TAKEN:
                        raise
                    number += 1  # another process was faster
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        sync_folder(folder)
    return number, _folder(folder, number)


def run_numbers(folder: Path, document: str = RUN) -> list[int]:
    """Numbers of all stored evaluations, or of tunings by their document, ascending."""
    if not folder.is_dir():
        return []
    numbered = (path for path in folder.iterdir() if path.name.isascii() and path.name.isdecimal())
    return sorted(int(path.name) for path in numbered if (path / document).is_file())


def read_run(folder: Path, number: int) -> StoredRun:
    """One stored evaluation."""
    path = _folder(folder, number)
    if not (path / RUN).is_file():
        known = ", ".join(map(str, run_numbers(folder))) or "none yet"
        raise UnknownIdError(f"There is no stored evaluation {number} in {folder}; stored: {known}.")
    return StoredRun(number, path, _document(path / RUN, _RUN_KEYS), _document(path / TIMINGS, _TIMING_KEYS))


def _document(path: Path, keys: frozenset[str]) -> dict[str, Any]:
    try:
        return _checked(json.loads(path.read_bytes()), keys, path)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error


def _checked(document: object, keys: frozenset[str], path: Path) -> dict[str, Any]:
    """The document if it is an object that has these keys."""
    if not isinstance(document, dict):
        raise _unreadable(path, "it is not a JSON object")
    missing = sorted(keys - document.keys())
    if missing:
        raise _unreadable(path, f"it has no '{missing[0]}'")
    return document


def _with_guess(row: dict[str, Any]) -> dict[str, Any]:
    """The row in today's form: evaluations before 0.2 have the best guess as `answer`, and `is_shown`."""
    if "guess" in row:
        return row
    is_shown = row.get("is_shown", True)
    return row | {"guess": row["answer"], "answer": row["answer"] if is_shown else "", "sentences": []}


def _unreadable(path: Path, reason: object) -> ContractError:
    why = reason.strerror if isinstance(reason, OSError) else reason
    return ContractError(f"{path} cannot be read: {why}; restore that evaluation, or remove its folder.")


def _folder(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}"
