"""The maintenance flow's artifact: one key, sizes before and after."""

from typing import Any

import pytest

from polyhop.flows import prefect_maintain
from polyhop.schemas.maintenance import MaintenanceReport, PartSize, Size


def test_the_artifact_has_a_row_per_part_and_says_what_went(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(prefect_maintain, "create_table_artifact", lambda rows, **named: made.append((rows, named)))
    report = MaintenanceReport(dry_run=False, removed_versions={"a": [1, 2]}, removed={"cached vectors": 3})
    report.parts = [PartSize("queue", Size(2, 2_000_000), Size(1, 500_000))]
    prefect_maintain._publish_sizes(report)
    row = {"part": "queue", "files before": 2, "files after": 1, "MB before": 2.0, "MB after": 0.5}
    assert made == [([row], {"key": "maintenance", "description": "Removed 2 versions, 3 cached vectors"})]
