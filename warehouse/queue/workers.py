"""The list of worker processes: who lives, which versions they hold, who waits for a model.

Decides nothing: leases, not this list, say who may answer. Each function is a piece of one transaction.
"""

from collections.abc import Mapping, Sequence

from polyhop.schemas.queue import WorkerRow, storable, to_json
from polyhop.schemas.stored import StoredRow
from polyhop.warehouse.queue.transactions import Transaction

FORGET_SECONDS = 86_400.0  # a day; chosen: readers of the list ask for the last minute


def report_worker(
    tx: Transaction,
    worker_id: str,
    host: str,
    process_id: int,
    queues: Sequence[str],
    versions: Mapping[str, int],
    outage: str | None = None,
) -> None:
    """Notes a worker with its queues, the versions it holds and the outage it waits through.

    Forgets workers silent for a day.
    """
    tx.run("workers.forget", before=tx.now - FORGET_SECONDS)
    tx.run(
        "workers.report",
        worker_id=worker_id,
        host=host,
        process_id=process_id,
        queues_json=to_json(list(queues)),
        versions_json=to_json(dict(versions)),
        outage=None if outage is None else storable(outage),
        outage_since=None if outage is None else tx.now,
        now=tx.now,
    )


def list_workers(tx: Transaction, seen_within_seconds: float) -> list[WorkerRow]:
    """Workers that gave a sign of life lately, the oldest first; a list that cannot be read is empty."""
    return [
        WorkerRow(
            worker_id=row["worker_id"],
            host=row["host"],
            process_id=row["process_id"],
            queues=StoredRow().strings("queues", row["queues_json"]),
            versions=StoredRow().mapping("versions", row["versions_json"]),
            started_at=row["started_at"],
            seen_at=row["seen_at"],
            outage=row["outage"],
            outage_since=row["outage_since"],
        )
        for row in tx.rows("workers.alive", since=tx.now - seen_within_seconds)
    ]
