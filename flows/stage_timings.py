"""What the stages of an index run took, together with what is known of results that it takes over.

Knows no stage.
"""

from collections.abc import Mapping

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

    def taken_over(self, stage: str) -> StageTiming | None:
        """Notes a stage whose result is the current version's; returns what it took there, None if nobody knows."""
        self._known.pop(stage, None)
        if stage in self._before:
            self._known[stage] = self._before[stage]
        return self._known.get(stage)

    def write(self, folder: VersionFolder) -> None:
        """Writes them into the version that is being built.

        Raises:
            StoreError: If the disk refuses.
        """
        write_timings(folder, self._known)
