"""What a run changed, as a page of the dashboard: how counts differ, and the first records of the table `changes`."""

from polyhop.flows.reports import IndexReport
from polyhop.schemas.markdown import escaped, table_lines
from polyhop.schemas.printable import plural, printable
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.tables.query import query_rows

SHOWN_CHANGES = 50
"""At most as many records as a page shows at once."""
_LONGEST_ID = 200
"""Characters of an id; chosen: longer ones are addresses whose ends say little."""

_QUERY = "SELECT record_id, kind, from_id, source FROM changes ORDER BY record_id"


def changed_records(report: IndexReport) -> str:
    """How many records changed, by kind, in words."""
    return ", ".join(f"{count:,} {kind}" for kind, count in report.changes.items() if count) or "no record changed"


def change_lines(settings: Settings, before: dict[str, int], report: IndexReport) -> list[str]:
    """The page in Markdown; ids and sources are data and escaped.

    Args:
        settings: Say where the root is.
        before: Counts of the version before, empty if there is none.
        report: Of the run, which published a version.
    """
    lines = [f"# Version {report.version} of {escaped(report.index)}: {changed_records(report)}", ""]
    lines += [*table_lines([["what", "before", "now", "difference"], *_counts(before, report)], 1), ""]
    total = sum(report.changes.values())
    if not total:
        return lines
    query = f"{_QUERY} LIMIT {SHOWN_CHANGES}"
    shown = query_rows(Layout(settings.root), report.index, query, report.version).to_pylist()
    rows = [[_cell(row[name]) for name in ("record_id", "kind", "from_id", "source")] for row in shown]
    lines += [*table_lines([["record", "kind", "id before", "source"], *rows], 4), ""]
    if total > len(shown):
        lines += [f"{plural(total - len(shown), 'more record')} changed.", ""]
    return [*lines, "All of them:", "", "```", f'polyhop sql "{_QUERY}" --index {report.index}', "```"]


def _counts(before: dict[str, int], report: IndexReport) -> list[list[str]]:
    """What the new version holds more or less of than the one before."""
    pairs = {name: (before.get(name, 0), report.counts.get(name, 0)) for name in {**report.counts, **before}}
    return [[name.replace("_", " "), f"{old:,}", f"{new:,}", f"{new - old:+,}"] for name, (old, new) in pairs.items()]


def _cell(value: str | None) -> str:
    text = value or ""
    return escaped(printable(text if len(text) <= _LONGEST_ID else f"{text[:_LONGEST_ID]}…"))
