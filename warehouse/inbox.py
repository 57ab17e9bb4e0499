"""The inbox of an index: records that were added by a call and wait for the run that indexes them, one file a call.

A file appears by one rename, and is removed once a version holds its records: until then a run that ends early, however
it ends, leaves it to the next one. Who adds holds a lock as long as it writes, who runs another one as long as the run.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from polyhop.schemas.errors import DamagedStoreError
from polyhop.schemas.records import SourceRecord, Tombstone
from polyhop.warehouse.build import RECORDS, KeptSource, read_kept
from polyhop.warehouse.files.disk import locked_file, make_folder, remove_paths, replacing, sync_folder, writing
from polyhop.warehouse.files.layout import IndexFolder

INBOX = "inbox"
"""Name of the source; also what records of no file name as their file."""


def keep_records(folder: IndexFolder, rows: Sequence[Mapping[str, object]]) -> None:
    """Keeps the records of one call, rows with the columns of RECORDS: once it returns, no kill loses them.

    A row without text, which no record is, deletes the record of its id.
    """
    inbox = folder.inbox
    with writing(f"the inbox of index '{folder.name}'", inbox):
        make_folder(inbox)
        with locked_file(inbox / ".adding"):
            remove_paths([*inbox.glob(".*.tmp")])  # of calls that were killed: all others wait for the lock
            # ascending whatever a clock does, and no number is used twice: a run removes files by the names it read
            number = max([time.time_ns(), *(int(path.stem) + 1 for path in waiting_files(folder)[-1:])])
            with replacing(inbox / f"{number:020}.parquet") as unfinished:
                pq.write_table(pa.Table.from_pylist(list(rows), RECORDS.arrow), unfinished, compression="zstd")
            sync_folder(inbox)


def waiting_files(folder: IndexFolder) -> list[Path]:
    """The files of the calls whose records no version holds for certain, in the order of the calls."""
    return sorted(folder.inbox.glob("[0-9]*.parquet"))


@contextmanager
def taken_files(folder: IndexFolder) -> Iterator[list[Path]]:
    """Yields the waiting files to a run and removes them if the block succeeds. Waits for another run of the inbox.

    A call that comes during the block leaves its file to the next run, even if this one has read it: again is the same.
    """
    with writing(f"the inbox of index '{folder.name}'", folder.inbox):
        make_folder(folder.inbox)
    with locked_file(folder.inbox / ".running"):
        files = waiting_files(folder)
        yield files
        for path in files:  # the oldest first: of two records of one id the later one stays to the end
            path.unlink(missing_ok=True)


def deletion(id_: str) -> dict[str, object]:
    """The row of `keep_records` that deletes a record."""
    return {**dict.fromkeys(RECORDS.arrow.names, ""), "record_id": id_, "metadata_json": "{}", "origin": INBOX}


def waiting_ids(folder: IndexFolder) -> dict[str, bool]:
    """Ids of the records that wait, each with whether it is added (True) or deleted."""
    found: dict[str, bool] = {}
    for path in waiting_files(folder):
        rows = pq.read_table(path, columns=["record_id", "text"]).to_pylist()
        found.update((row["record_id"], bool(row["text"])) for row in rows)
    return found


def read_waiting(folder: IndexFolder) -> Iterator[SourceRecord | Tombstone]:
    """The records that wait, and deletions; of those with the same id only the last that was added."""
    files = waiting_files(folder)
    last: dict[str, Path] = {}
    for path in files:
        try:
            ids = pq.read_table(path, columns=["record_id"]).column("record_id").to_pylist()
        except (OSError, pa.ArrowInvalid) as error:
            raise DamagedStoreError(path, folder.name, command=f"rm {path}, then add its records again") from error
        last.update(dict.fromkeys(ids, path))
    for path in files:
        for record in read_kept(KeptSource(INBOX, path, path)):
            if last[record.id] == path:
                yield record if record.text else Tombstone(record.id, INBOX, record.line)
