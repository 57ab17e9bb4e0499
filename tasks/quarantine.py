"""The quarantine of a source: its rows, and how many of them are too many.

Reads no file (the stages that read sources do).
"""

import math
from collections.abc import Iterable, Sequence

import pyarrow as pa

from polyhop.schemas.corpus import BadRecord, Source, some_of
from polyhop.schemas.errors import QuarantineExceededError
from polyhop.schemas.printable import plural, printable_line
from polyhop.schemas.tables import QUARANTINE
from polyhop.warehouse.build import Build


def quarantine_table(bad: Iterable[BadRecord]) -> pa.Table:
    """A table with the columns of polyhop.schemas.tables.QUARANTINE."""
    rows = [{"source": b.source, "line": b.line, "reason": b.reason, "excerpt": b.excerpt} for b in bad]
    return pa.Table.from_pylist(rows, schema=QUARANTINE.arrow)


FEWEST_FILES = 20
"""Fewer unusable files than this never refuse a folder, however small, of which anything can be used. Chosen: with the
share of .05 it counts from 400 files on, and whoever has fewer reads the list of what was left out."""


def check_share(
    build: Build,
    good: int,
    bad: int,
    refused: Sequence[tuple[object, ...]],
    lacking: int = 0,
    files: int = 0,
    *,
    source: Source | None = None,
) -> None:
    """Refuses a source with too many unusable records.

    Args:
        build: The build.
        good: Usable records.
        bad: Others.
        refused: File, line (None: not known) and reason of the first ten of these.
        lacking: How many of the others lack a package that is not installed: they do not count, as files of unknown
            formats do not, unless nothing else is there.
        files: How many of the others are whole files: fewer than `FEWEST_FILES` do not count either.
        source: What they are of; None: the build's source.

    Raises:
        QuarantineExceededError: Above `corpus.max_quarantine_share`; it names the first ten bad records.
    """
    share = build.settings.corpus.max_quarantine_share
    counted = bad - (lacking + (files if files < FEWEST_FILES else 0) if good else 0)
    if counted <= share * (good + counted):
        return
    advice = "Fix them."
    if good:
        needed = math.ceil(100 * counted / (good + counted)) / 100
        advice = f"Fix them, or go on without them: --set corpus.max_quarantine_share={needed:g}"
    lines = "\n  ".join(some_of([refused_words(*row) for row in refused], bad))
    raise QuarantineExceededError(
        f"{bad} of {plural(good + bad, 'record')} in {source or build.source or build.index} are unusable, more than "
        f"the allowed share of {share:g}. {advice}\n  {lines}"
    )


def refused_words(source: object, line: object, reason: object) -> str:
    """A record of no use in a line: where it is, and why."""
    place = f"{source} line {line}" if line else str(source)  # a whole file, or a line that is not known
    return printable_line(f"{place}: {reason}")
