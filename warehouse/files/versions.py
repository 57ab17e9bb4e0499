"""Published versions: which there are, which is current, who writes and who holds them; runs.

A version is a folder that appears by one rename and never changes; the pointer is a file replaced by one rename.
Between the two renames a file names the version, which does not count yet. Holds are locks that the system releases
when their process ends, however it ends: a version in use is marked by a shared lock on its manifest. Who may write an
index is settled elsewhere.
"""

import fcntl
import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from typing import IO

from polyhop.schemas.errors import (
    ManifestMismatchError,
    StoreConflictError,
    UnknownIdError,
    UnknownIndexError,
    redacted_tree,
)
from polyhop.schemas.manifest import Manifest, RunRecord, StageTiming, Starter
from polyhop.schemas.settings import default_strategy
from polyhop.schemas.text import content_hash
from polyhop.warehouse.files.disk import (
    is_same_file,
    locked_file,
    make_folder,
    replacing,
    sync_file,
    sync_folder,
    write_whole,
    writing,
)
from polyhop.warehouse.files.layout import IndexFolder, Layout, VersionFolder, index_of
from polyhop.warehouse.machine import is_running, user_name

LEASE_SECONDS = 60
"""Seconds after which an unrenewed lease expires; chosen: writers renew it every 20 s, clocks differ by seconds."""

_POLL_SECONDS = 0.5  # chosen: short beside the runs that are waited for, which take seconds to hours


@dataclass(frozen=True, slots=True)
class Lease:
    """Writer's lease on an index: user, host and process; its start, and its end without a renewal (UTC)."""

    user: str
    host: str
    pid: int
    since: datetime
    until: datetime

    def __str__(self) -> str:
        return (
            f"process {self.pid} of {self.user}@{self.host} (since {_words(self.since)}; unless renewed until "
            f"{_words(self.until)})"
        )

    @property
    def is_held(self) -> bool:
        """Returns whether its process lives; for another host, whether the lease has not expired."""
        is_alive = is_running(self.host, self.pid)
        return datetime.now(UTC) < self.until if is_alive is None else is_alive


def read_lease(index: IndexFolder) -> Lease | None:
    """Reads the lease of the current writer of an index; None without one. Takes no lock."""
    lease = _lease_in(index.lease)
    return lease if lease is not None and lease.is_held else None


def _lease_in(path: Path) -> Lease | None:
    try:
        return _parsed(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None


@contextmanager
def writer_lease(
    path: Path, index: str, *, wait_seconds: float = 0.0, on_wait: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Holds the right to write an index for the block.

    Waits for another writer to end, infinite seconds: as long as it takes; `on_wait` gets one sentence then.

    Raises:
        StoreConflictError: If another process holds it, and still does after the wait; the message says who.
        StoreError: If the folder cannot be written.
    """
    with writing(f"index '{index}'", path.parent):
        make_folder(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)  # not for appending: Linux would ignore offsets
    try:
        end, is_said = time.monotonic() + wait_seconds, False
        while not _is_taken(descriptor):
            holder = f"Index '{index}' is being written by {_lease_in(path) or 'another process'}"
            if time.monotonic() >= end:
                advice = "wait until it has finished, or let the command wait (--wait)"
                raise StoreConflictError(f"{holder}; {advice}.")
            if on_wait is not None and not is_said:
                on_wait(f"{holder}; waiting for it…")
                is_said = True
            time.sleep(_POLL_SECONDS)
        # Writes this process's lease, renews it while the block runs, and removes it.
        since, is_over = datetime.now(UTC), Event()

        def renew() -> None:
            while not is_over.wait(LEASE_SECONDS / 3):
                _write(descriptor, since)

        _write(descriptor, since)
        thread = Thread(target=renew, name="writer's lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _is_taken(descriptor: int) -> bool:
    """Takes the lock unless another process holds it, or a writer on another host, whose lock is not seen here."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    left = _parsed(os.pread(descriptor, 4_096, 0).decode("utf-8", "replace"))
    if left is None or left.host == socket.gethostname() or not left.is_held:
        return True  # a writer of this host would hold the lock if it lived
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


def _write(descriptor: int, since: datetime) -> None:
    until = datetime.now(UTC) + timedelta(seconds=LEASE_SECONDS)
    document = {
        "user": user_name(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "since": since.isoformat(timespec="seconds"),
        "until": until.isoformat(timespec="seconds"),
    }
    content = json.dumps(document).encode()
    try:
        os.pwrite(descriptor, content, 0)  # always of one length, so that a reader never sees two mixed
        os.ftruncate(descriptor, len(content))
    except OSError:
        pass  # a full disk: the lock counts on this host, and the run will say what the disk refuses


def _parsed(content: str) -> Lease | None:
    try:
        held = json.loads(content)
        since, until = (datetime.fromisoformat(held[name]) for name in ("since", "until"))
        return Lease(str(held["user"]), str(held["host"]), int(held["pid"]), since, until)
    except (ValueError, KeyError, TypeError):
        return None


def _words(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


CHECKSUM = "checksum"  # the field of a JSON document that holds its `document_checksum`


@contextmanager
def try_exclusive(path: Path) -> Iterator[bool]:
    """Takes an exclusive lock on `path` for the block if no shared lock is held; yields whether it did."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def published_versions(index: IndexFolder) -> list[int]:
    """Numbers of all published versions, ascending."""
    if not index.versions.is_dir():
        return []
    folders = [folder for folder in index.versions.iterdir() if (folder / "manifest.json").is_file()]
    numbers = sorted(int(folder.name) for folder in folders if folder.name.isdigit())
    # Without a version whose folder is there, or about to be, while the pointer has not moved to it.
    with suppress(FileNotFoundError, ValueError, ManifestMismatchError):  # a damaged pointer: unknown
        hidden = int(index.publishing.read_text(encoding="ascii"))
        if current_version(index) != hidden:
            return [number for number in numbers if number != hidden]
    return numbers


def current_version(index: IndexFolder) -> int | None:
    """Number of the current version, or None if nothing was published yet."""
    try:
        return int(index.current.read_text(encoding="ascii").strip())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ManifestMismatchError(
            f"{index.current} does not hold a version number; "
            f"set it with: polyhop versions --index {index.name} --use N"
        ) from error


def pinned_version(index: IndexFolder) -> int | None:
    """Number of the current version if it is pinned: runs do not replace it. None: each new version becomes current."""
    if not index.pinned.exists():
        return None
    try:
        number = current_version(index)
    except ManifestMismatchError:
        return None
    # a damaged pointer pins nothing: only a new version gives the index one again
    return number if number in published_versions(index) else None


def latest_version(index: IndexFolder) -> int | None:
    """Number of the version that the next run derives from: the newest if one is pinned, else the current one."""
    return current_version(index) if pinned_version(index) is None else published_versions(index)[-1]


def default_strategy_of(layout: Layout, name: str) -> str:
    """The default strategy of the current version of an index."""
    manifest = read_manifest(require_version(layout, name)[1])
    return default_strategy(manifest.stages, manifest.artefacts)


def strategies_of(layout: Layout, name: str) -> tuple[str, ...]:
    """The strategies that the current version of an index was built for, by its settings or when they were added."""
    manifest = read_manifest(require_version(layout, name)[1])
    named = manifest.settings.get("strategies")
    known = tuple(map(str, named)) if isinstance(named, list) else ()
    return known or (default_strategy(manifest.stages, manifest.artefacts),)


def readable_manifest(index: IndexFolder) -> Manifest | None:
    """The latest version's manifest; None if there is no version, or none that this Polyhop can read."""
    try:
        number = latest_version(index)
        return None if number is None else read_manifest(index.version(number))
    except ManifestMismatchError:
        return None


def require_version(layout: Layout, name: str, version: int | None = None) -> tuple[int, VersionFolder]:
    """The current (or the named) version of an index.

    Raises:
        UnknownIndexError: If nothing was published under that name.
        UnknownIdError: If that version does not exist (any more).
    """
    index = layout.index(name)
    number = current_version(index) if version is None else version
    if number is None:
        raise UnknownIndexError(name, layout.index_names(), str(layout.root))
    known = published_versions(index)
    if number in known:
        return number, index.version(number)
    if version is None:
        if current_version(index) != number:  # another was published, and this one pruned, since the pointer was read
            return require_version(layout, name)
        raise ManifestMismatchError(
            f"{index.current} names version {number}, which does not exist; index '{name}' has "
            f"{', '.join(map(str, known)) or 'none'}. Choose one with: polyhop versions --index {name} --use N"
        )
    raise UnknownIdError(f"Index '{name}' has no version {number}; it has {', '.join(map(str, known)) or 'none'}.")


class HeldVersion:
    """A published version protected from pruning until this is closed, or its process ends."""

    def __init__(self, number: int, folder: VersionFolder, lock: IO[bytes]) -> None:
        self.number = number
        self.folder = folder
        self._lock = lock

    def __enter__(self) -> "HeldVersion":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets the version be pruned."""
        self._lock.close()


def hold_version(layout: Layout, name: str, version: int | None = None) -> HeldVersion:
    """The current (or the named) version of an index, held by a shared lock on its manifest.

    A version that is pruned between the look and the lock is looked for again.
    """
    while True:
        number, folder = require_version(layout, name, version)
        try:
            file = folder.manifest.open("rb")
        except FileNotFoundError:
            continue
        fcntl.flock(file, fcntl.LOCK_SH)
        if is_same_file(file, folder.manifest):  # a lock on a file that was removed meanwhile holds nothing
            return HeldVersion(number, folder, file)
        file.close()


def read_manifest(folder: VersionFolder) -> Manifest:
    """The manifest of a version.

    Raises:
        ManifestMismatchError: If it cannot be understood, or is not what was written.
    """
    try:
        document = json.loads(folder.manifest.read_bytes())
        if document.pop(CHECKSUM, None) != document_checksum(document):
            raise ValueError("its checksum is wrong")
        return Manifest.model_validate(document)
    except (
        OSError,
        ValueError,
        AttributeError,
        TypeError,
        RecursionError,
    ) as error:  # a ValidationError is a ValueError
        raise ManifestMismatchError(
            f"{folder.manifest} is damaged, or is not a manifest that this version of Polyhop reads; build the index "
            f"again with: polyhop index SOURCE --index {index_of(folder.path)} (cached vectors and "
            "replies are reused)"
        ) from error


_READ_ONLY = 0o444  # permission bits: everybody reads


def publish_folder(index: IndexFolder, built: Path, manifest: Manifest) -> None:
    """Makes a built folder the next version and moves the pointer; with a pinned version the pointer stays."""
    document = manifest.model_dump(mode="json")
    document[CHECKSUM] = document_checksum(document)
    write_whole(built / "manifest.json", (json.dumps(document, indent=2) + "\n").encode())
    install_folder(index, built, manifest.version)


def install_folder(index: IndexFolder, built: Path, number: int) -> None:
    """Makes a folder with its manifest a version, by two renames; a kill in between publishes nothing."""
    target = index.version(number)
    for file in sorted(built.rglob("*")):
        if file.is_file():
            sync_file(file)
    staged_tables = built / target.tables.name
    if staged_tables.exists():
        staged_tables.chmod(_READ_ONLY)  # other programs of DuckDB open files for writing by default
    make_folder(index.versions)
    write_whole(index.publishing, f"{number}\n".encode("ascii"))
    sync_folder(index.path)
    if target.path.exists():  # left by a crash between this rename and the pointer's: it was never read
        shutil.rmtree(target.path)
    built.replace(target.path)
    sync_folder(index.versions)
    if pinned_version(index) is None:
        point_to(index, number)
    index.publishing.unlink()


def point_to(index: IndexFolder, version: int, *, is_pinned: bool = False) -> None:
    """Makes a published version the current one, and pins it or unpins what was pinned."""
    if is_pinned:  # before the pointer moves: a kill in between must not leave a rollback that the next run undoes
        write_whole(index.pinned, f"{version}\n".encode("ascii"))
    write_whole(index.current, f"{version}\n".encode("ascii"))
    if not is_pinned:
        index.pinned.unlink(missing_ok=True)
    sync_folder(index.path)


def prune_versions(index: IndexFolder, keep: int) -> list[int]:
    """Removes all but the newest `keep` versions, the current one and those in use; returns what it removed."""
    return [number for number in surplus_versions(index, keep) if _remove(index, number)]


def surplus_versions(index: IndexFolder, keep: int) -> list[int]:
    """All versions but the newest `keep` and the current one, ascending."""
    current = current_version(index)
    return [number for number in published_versions(index)[:-keep] if number != current]


def remove_version(index: IndexFolder, number: int) -> bool:
    """Removes a version unless it is current or in use; returns whether it did."""
    return number != current_version(index) and _remove(index, number)


def _remove(index: IndexFolder, number: int) -> bool:
    folder = index.version(number)
    with try_exclusive(folder.manifest) as is_free:
        if is_free:
            folder.manifest.unlink()  # first: without it the folder is not a version, even if a kill leaves the rest
            shutil.rmtree(folder.path)
        return is_free


def remove_leftovers(index: IndexFolder) -> list[int]:
    """Removes what a killed process left of versions; returns their numbers. Only for who holds the writer's lease.

    That is: folders without a manifest, a version that was never current, and pointers that were not renamed.
    """
    for pointer in (index.current, index.publishing, index.pinned):
        for temporary in index.path.glob(f".{pointer.name}.*.tmp"):
            temporary.unlink()
    if not index.versions.is_dir():
        return []
    try:
        current = current_version(index)
    except ManifestMismatchError:
        return []  # without a pointer it is unknown which folder must stay
    known = published_versions(index)
    numbers = sorted(int(folder.name) for folder in index.versions.iterdir() if folder.name.isdigit())
    left = [number for number in numbers if number not in known and number != current]
    for number in left:
        shutil.rmtree(index.version(number).path)
    index.publishing.unlink(missing_ok=True)
    return left


def document_checksum(document: object) -> str:
    """sha256 of what a JSON document says, however it is laid out."""
    return content_hash("manifest", json.dumps(document, sort_keys=True))


# The run history of an index (`runs.jsonl`), which also says what the stages of a version took. It lies beside the
# versions: they never change, and hold no clock. Readers skip a line that a kill cut short.

KEPT_RUNS = 10_000  # chosen: a hundred days of a run every quarter of an hour, in some 10 MB
_SPARE_RUNS = 1_000  # runs beyond `KEPT_RUNS` before the file is written again, so that this is seldom
_TAIL_BYTES = 65_536
"""Longer than the longest line: the number of the last run is looked for in so much of the file's end."""
_FLOW_RUN = "PREFECT__FLOW_RUN_ID"  # Prefect sets it in the processes that it starts for flow runs


def starter(flow_run_id: str = "", flow_run_url: str = "") -> Starter:
    """Starter of this process; without an id, the flow run that Prefect started it for."""
    return Starter(
        user=user_name(),
        host=socket.gethostname(),
        process=os.getpid(),
        flow_run_id=flow_run_id or os.environ.get(_FLOW_RUN, ""),
        flow_run_url=flow_run_url,
    )


def begin_run(folder: IndexFolder, record: Callable[[int], RunRecord], *, kept: int = KEPT_RUNS) -> RunRecord:
    """Writes that a run has begun, as `record` makes it of its number; only the last `kept` runs are remembered."""
    with _appending(folder) as file:
        for left in folder.path.glob(f".{folder.runs.name}.*.tmp"):  # by a kill: only who holds the lock writes one
            left.unlink()
        begun = record(_last_run(file) + 1)
        _append(file, begun)
        if begun.run > kept:
            file.seek(0)
            first = next((run for run in map(_record, file) if run is not None), None)
            if first is not None and _last_run(file) - first.run >= kept + min(_SPARE_RUNS, kept):
                newest = [run for run in _merged(_records(folder)) if run.run > begun.run - kept]
                with replacing(folder.runs) as temporary:
                    temporary.write_bytes(b"".join(map(_line, newest)))
                sync_folder(folder.path)
    return begun


def end_run(folder: IndexFolder, record: RunRecord) -> None:
    """Writes how a run ended."""
    with _appending(folder) as file:
        _append(file, record)


def read_runs(folder: IndexFolder) -> list[RunRecord]:
    """All runs that can be read, ascending.

    One without an end was killed if its process has ended, or if a later one has run: an index has one writer.
    """
    runs = _merged(_records(folder))
    last_worked = max((run.run for run in runs if run.stages), default=0)
    return [
        run.model_copy(update={"outcome": "killed"})
        if run.outcome == "running"
        and (run.run < last_worked or is_running(run.started_by.host, run.started_by.process) is False)
        else run
        for run in runs
    ]


def stage_timings(folder: IndexFolder, version: int) -> dict[str, StageTiming]:
    """Timings of the stages that built a version: of the last run up to it that computed each.

    A stage whose run is not in the history is not among them.
    """
    runs = [run for run in read_runs(folder) if 0 < run.published <= version]
    computed = {stage: use for run in runs for stage, use in run.stages.items() if not use.is_taken_over}
    return {stage: StageTiming.model_validate(use.model_dump()) for stage, use in computed.items()}


@contextmanager
def _appending(folder: IndexFolder) -> Iterator[IO[bytes]]:
    """The file, locked: no other process adds to it or replaces it."""
    with writing("the run history", folder.runs):
        make_folder(folder.path)
        with locked_file(folder.runs) as file:
            yield file


def _append(file: IO[bytes], record: RunRecord) -> None:
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - _TAIL_BYTES))
    tail = file.read()
    if tail and not tail.endswith(b"\n"):  # a kill cut the last line short
        file.truncate(end - len(tail) + tail.rfind(b"\n") + 1)
    file.write(_line(record))
    file.flush()
    os.fsync(file.fileno())


def _line(record: RunRecord) -> bytes:
    """The line of a run, without secrets: sources and addresses of servers may hold them."""
    document = redacted_tree(record.model_dump(mode="json"))
    return (json.dumps(document, separators=(",", ":")) + "\n").encode()


def _record(line: bytes) -> RunRecord | None:
    """The run of a line, None if the line cannot be read."""
    try:
        return RunRecord.model_validate_json(line)
    except ValueError:  # a ValidationError is one
        return None


def _records(folder: IndexFolder) -> list[RunRecord]:
    try:
        lines = folder.runs.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    return [record for record in map(_record, lines) if record is not None]


def _merged(records: list[RunRecord]) -> list[RunRecord]:
    """One record per run: its last."""
    return [run for _, run in sorted({record.run: record for record in records}.items())]


def _last_run(file: IO[bytes]) -> int:
    """The greatest number at the end of the file; lines of two runs at once may be in either order."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
    return max((run.run for run in map(_record, file.read().split(b"\n")) if run is not None), default=0)
