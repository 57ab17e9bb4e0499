"""The quarantine of a source: its rows, and how many of them are too many.

Reads no file (the stages that read sources do).
"""

from collections.abc import Iterable

import pyarrow as pa

from polyhop.schemas.corpus import BadRecord, Source
from polyhop.schemas.errors import QuarantineExceededError
from polyhop.schemas.printable import plural
from polyhop.schemas.tables import QUARANTINE
from polyhop.warehouse.build import Build


def quarantine_table(bad: Iterable[BadRecord]) -> pa.Table:
    """A table with the columns of polyhop.schemas.tables.QUARANTINE."""
    rows = [{"source": b.source, "line": b.line, "reason": b.reason, "excerpt": b.excerpt} for b in bad]
    return pa.Table.from_pylist(rows, schema=QUARANTINE.arrow)


def check_share(
    build: Build,
    good: int,
    bad: int,
    first: tuple[object, ...] | None,
    *,
    source: Source | None = None,
    lacking: int = 0,
) -> None:
    """Refuses a source with too many unusable records.

    Args:
        build: The build.
        good: Usable records.
        bad: Others.
        first: File, line (None: not known) and reason of the first of these.
        source: What they are of; None: the build's source.
        lacking: How many of the others lack a package that is not installed: they do not count, as files of unknown
            formats do not, unless nothing else is there.

    Raises:
        QuarantineExceededError: Above `corpus.max_quarantine_share`; it names the first bad record.
    """
    share = build.settings.corpus.max_quarantine_share
    bad -= lacking if good else 0
    if first is not None and bad > share * (good + bad):
        where = source or build.source or build.index
        place = f"{first[0]} line {first[1]}" if first[1] else first[0]  # a whole file, or a line that is not known
        raise QuarantineExceededError(
            f"{bad} of {plural(good + bad, 'record')} in {where} are unusable, more than the allowed share "
            f"of {share:g}; the first is {place}: {first[2]}. Fix them, or raise "
            "corpus.max_quarantine_share."
        )
