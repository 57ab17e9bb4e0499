"""The queue's check of `polyhop doctor`: version of its tables, the database's own check, rows that cannot be read.

Changes nothing (warehouse/queue/health.py looks, this says what to do).
"""

from polyhop.schemas.errors import StoreError
from polyhop.schemas.printable import plural
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.queue.dialects import sqlite_url
from polyhop.warehouse.queue.health import QueueHealth, examine_queue

_NAMED = 5
"""Damaged rows that are named; `polyhop results` and `polyhop jobs` show all."""


def check_queue(settings: Settings) -> str:
    """Says how the question queue is.

    Raises:
        StoreError: If it cannot be used, is damaged, or holds rows that cannot be read.
    """
    path = Layout(settings.root).queue
    if not settings.queue.url and not path.exists():
        return "none yet; polyhop submit makes it"
    found = examine_queue(settings.queue.url or sqlite_url(path))
    if found.faults:
        raise StoreError(
            f"the question queue is damaged ({'; '.join(found.faults)}); stop its workers, then restore it from a "
            "backup, or move it away and submit again"
        )
    if found.damaged:
        raise StoreError(_damage(found))
    if found.version > found.newest:
        raise StoreError(f"its tables have version {found.version}, this Polyhop knows {found.newest}; upgrade Polyhop")
    if found.version < found.newest:
        return f"tables of version {found.version}; version {found.newest} when it is next opened"
    held = f"{plural(found.jobs, 'job')}, {plural(found.questions, 'question')}"
    return f"tables of version {found.version}, {held}, every row readable"


def _damage(found: QueueHealth) -> str:
    rows = [row.sentence() for row in found.damaged[:_NAMED]]
    more = len(found.damaged) - len(rows)
    counted = f"{plural(len(found.damaged), 'row')} cannot be read"
    return " ".join([f"{counted}.", *rows, *([f"And {more} more."] if more else [])])
