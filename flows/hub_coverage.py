"""What the hubs of a version cover, as an index run shows it on the dashboard.

Counts nothing (tasks/hubs does).
"""

from typing import Any

from polyhop.flows.reports import IndexReport
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.tables.query import query_rows

_ROWS = "FROM hub_coverage ORDER BY what, covered + uncovered DESC, part LIMIT 500"
"""At most as many rows as a page shows at once: a graph may have thousands of predicates."""


def hub_coverage(settings: Settings, report: IndexReport) -> list[dict[str, Any]]:
    """Rows of the table `hub_coverage` of the version that a run reports, the largest parts first.

    Returns:
        None of a version without hubs.
    """
    if "hubs" not in report.counts:
        return []
    rows: list[dict[str, Any]] = query_rows(Layout(settings.root), report.index, _ROWS, report.version).to_pylist()
    return rows
