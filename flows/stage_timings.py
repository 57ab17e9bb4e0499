"""What the stages of an index run took, together with what is known of results that it takes over.

Knows no stage.
"""

import time
from collections.abc import Mapping

from polyhop.flows.reports import IndexReport
from polyhop.schemas.timings import StageTiming
from polyhop.warehouse.files.layout import VersionFolder
from polyhop.warehouse.files.timings import write_timings


class StageTimings:
    """By stage: this run's own, and for results taken over those of the run that computed them.

    Args:
        before: Timings of the current version.
    """

    def __init__(self, before: Mapping[str, StageTiming]) -> None:
        self._before = before
        self._known: dict[str, StageTiming] = {}

    def computed(self, stage: str, seconds: float, units: int = 0, computed: int = 0) -> None:
        """Notes a stage that ran: units in its batches, and how many of them no cache could answer."""
        self._known[stage] = StageTiming(seconds=round(seconds, 6), units=units, computed=computed)

    def taken_over(self, stage: str) -> None:
        """Notes a stage whose result is the current version's."""
        self._known.pop(stage, None)
        if stage in self._before:
            self._known[stage] = self._before[stage]

    def write(self, folder: VersionFolder) -> None:
        """Writes them into the version that is being built.

        Raises:
            StoreError: If the disk refuses.
        """
        write_timings(folder, self._known)


class Clock:
    """Adds the block's seconds to a report."""

    def __init__(self, report: IndexReport, stage: str) -> None:
        self._report, self._stage, self._start = report, stage, 0.0

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._report.seconds[self._stage] = time.perf_counter() - self._start
