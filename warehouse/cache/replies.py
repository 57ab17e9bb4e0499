"""Replies of chat models by content hash, the journal of calls, the lock per key, export and import.

Invariant: only valid replies are results; a failure is kept beside them with its reason, and every text that was paid
for is kept as it came. Clocks serve the journal and eviction, no returned value. Source: algorithms.md 0.3 (5).
"""

import fcntl
import json
import math
import os
import re
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from polyhop.schemas.chat import Repair, Usage
from polyhop.schemas.errors import SourceError
from polyhop.schemas.text import content_hash
from polyhop.warehouse.cache.database import Change, SharedDatabase
from polyhop.warehouse.files.disk import PARQUET, is_writable, named_file, writing

UNKNOWN_COST = -1.0  # Stands for the cost of calls at an unknown price: the columns allow no NULL.


def usage_of(numbers: Iterable[Any]) -> Usage:
    """A usage by the numbers of its columns."""
    usage = Usage(*numbers)
    return replace(usage, cost_usd=None) if usage.cost_usd == UNKNOWN_COST else usage


def packed(text: str) -> bytes:
    """A text, compressed."""
    return zlib.compress(text.encode("utf-8", "surrogatepass"))


def unpacked(data: bytes) -> str:
    """The text of `packed`."""
    return zlib.decompress(data).decode("utf-8", "surrogatepass")


class Claims:
    """Claims on keys by this process; get one with `claims_of`, since closing a lock file twice would drop locks."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._held: set[int] = set()
        self._descriptor: int | None = None

    @contextmanager
    def held(self, key: str, is_stopped: Callable[[], bool]) -> Iterator[bool]:
        """Waits until no other process asks for `key`, then holds it for the block.

        Yields:
            True; or False, without holding it, if `is_stopped` said so first.
        """
        offset = int(key[:15], 16)  # 60 bits, because a lock's offset is a signed number of 64 (fcntl)
        while not (is_held := self._try(offset)) and not is_stopped():
            time.sleep(
                0.05
            )  # chosen: short compared with a reply of a second or more, and trying a lock takes microseconds
        try:
            yield is_held
        finally:
            if is_held:
                with self._lock:
                    self._held.remove(offset)
                    if self._descriptor is not None:
                        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, offset)
                    self._close_if_unused()

    def _try(self, offset: int) -> bool:
        with self._lock:
            if offset in self._held:
                return False
            if not is_writable(self._path):  # nothing is kept there, so waiting is pointless
                self._held.add(offset)
                return True
            if self._descriptor is None:
                with writing("the claims on model replies", self._path):
                    self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset)
            except (BlockingIOError, PermissionError):
                self._close_if_unused()
                return False
            self._held.add(offset)
            return True

    def _close_if_unused(self) -> None:
        """Closing drops every lock of this process on the file, so only the last claim may."""
        if self._descriptor is not None and not self._held:
            os.close(self._descriptor)
            self._descriptor = None


def claims_of(path: Path) -> Claims:
    """The claims of this process on the keys of the cache at `path`."""
    return _claims(path.resolve().with_name(path.name + ".claims"))


@cache
def _claims(path: Path) -> Claims:
    return Claims(path)


@dataclass(frozen=True, slots=True)
class ReplySource:
    """Origin of a reply: its key, the model, and parts of the key that are queried."""

    key: str
    model: str
    task: str
    prompt_hash: str
    schema_version: int


KEYS_PER_READ = 2_000  # chosen: bounds the replies in memory; keys are one JSON variable, so SQLite sets no limit
ROWS_PER_PAGE = 1_000  # chosen: bounds the replies in memory, and any number gives the same
SECONDS_PER_DAY = 86_400.0  # 24 * 3600, in units of time.time()
_SQL_FILE = Path(__file__).parent / "sql" / "replies.sql"


@dataclass(frozen=True, slots=True)
class StoredReply:
    """A valid reply: JSON text, the help it needed, the calls it took until then, and what they cost."""

    text: str
    model: str
    repair: Repair
    attempts: int
    usage: Usage


@dataclass(frozen=True, slots=True)
class RawReply:
    """A text as it came, the class of the error that it led to ("" if none), and what it cost."""

    text: str
    error_class: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class ReplyCounts:
    """Rows of the cache, and bytes of the database without its write-ahead log."""

    reply_count: int
    raw_reply_count: int
    failure_count: int
    byte_count: int


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """Cached replies of a task by a model, and its total cost."""

    model: str
    task: str
    reply_count: int
    failure_count: int
    spent: Usage
    failed_calls: int
    unknown_calls: int = 0  # Calls whose process died, or that are in flight; `spent` holds them at their worst case.


@dataclass(frozen=True, slots=True)
class BatchPart:
    """Requests that are submitted together: the provider's id of their batch ("": not noted yet), the worst case."""

    key: str
    index: str
    batch_id: str
    worst: Usage


@dataclass(frozen=True, slots=True)
class WantedRequest:
    """A request for a batch: what it may take at most, and its body as JSON; once it is in one, its call's number."""

    source: ReplySource
    worst: Usage
    body: str = ""
    call_id: int = 0


@dataclass(frozen=True, slots=True)
class Evicted:
    """Numbers of rows that were removed."""

    replies: int
    raw_replies: int
    failures: int


class ReplyCache:
    """One SQLite file (see SharedDatabase); safe for many threads and processes, not to be carried across a fork."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._database = SharedDatabase(path, _SQL_FILE, what="the cache of model replies")

    def replies(self, keys: Sequence[str]) -> dict[str, StoredReply]:
        """The valid replies among `keys`; keys without one that can be read are left out."""
        stored = {row[0]: _stored(row) for row in self._rows("read_replies", keys)}
        return {key: reply for key, reply in stored.items() if reply is not None}

    def failures(self, keys: Sequence[str]) -> dict[str, tuple[int, str, str]]:
        """Attempts, class of the error and its sentence of those of `keys` that have no valid reply."""
        return {key: (attempts, name, said) for key, attempts, name, said in self._rows("read_failures", keys)}

    def raw_replies(self, keys: Sequence[str]) -> dict[str, list[RawReply]]:
        """The texts that were paid for, latest first; keys without any are left out."""
        found: dict[str, list[RawReply]] = {}
        for key, data, error_class, *usage in self._rows("read_raw_replies", keys):
            with suppress(*_UNREADABLE):
                found.setdefault(key, []).append(RawReply(unpacked(data), error_class, usage_of(usage)))
        return found

    def begin_call(self, source: ReplySource, worst: Usage) -> int:
        """Writes a call that is about to be sent into the journal, at its worst case; returns its number."""
        return self._database.add("begin_call", _call_row(source, worst))

    def end_call(self, call_id: int, source: ReplySource, text: str, usage: Usage, error: str) -> None:
        """Writes what a call took, the class of its error ("": none), and its raw text beside the replies."""
        values = {**_call_row(source, usage), "call_id": call_id, "error": error}
        raw = [("write_raw_reply", {**values, "text": packed(text)})] if text else []
        self._database.write(("end_call", values), *raw)

    def put_call(self, source: ReplySource, text: str, usage: Usage, error: str) -> None:
        """Writes a call that has ended."""
        self.end_call(self.begin_call(source, usage), source, text, usage, error)

    def abandon_dead_calls(self) -> Usage:
        """Marks the calls that died with their process as of unknown outcome; returns them at their worst case.

        A call whose process lives holds the claim on its key (chat.py), so a free claim means a dead process.
        """
        found = Usage()
        for call_id, key, prompt_tokens, completion_tokens, cost_usd in self._database.read("read_open_calls"):
            with claims_of(self.path).held(key, lambda: True) as is_free:
                if is_free and self._database.write(("abandon_call", {"call_id": call_id}))[0]:
                    found += usage_of((1, prompt_tokens, completion_tokens, cost_usd))
        return found

    def forget_wanted(self, index: str) -> None:
        """Forgets what an earlier run of an index wanted and never submitted."""
        self._database.write(("forget_wanted", {"index_name": index}))

    def want(self, index: str, requests: Iterable[WantedRequest]) -> None:
        """Notes requests that wait for a part of an index; those in a part stay there."""
        self._database.require_writable()
        rows = [{**_call_row(one.source, one.worst), "index_name": index, **_body_row(one.body)} for one in requests]
        self._database.transact(lambda change: change("want_request", rows))

    def wanted(self, keys: Sequence[str]) -> dict[str, bool]:
        """Those of `keys` that were put into a part, and whether they came back from it."""
        return {key: bool(came_back) for key, came_back in self._rows("read_wanted", keys)}

    def unsubmitted(self, index: str, model: str) -> list[tuple[str, int, Usage]]:
        """Keys of requests that are in no part yet, in their order, with the bytes of their bodies and worst cases."""
        rows = self._database.read("read_unsubmitted", {"index_name": index, "model": model})
        return [(key, size, usage_of((1, *numbers))) for key, size, *numbers in rows]

    def freeze_part(self, index: str, keys: Sequence[str]) -> None:
        """Makes a part of requests and writes their calls into the journal, all or nothing, before it is submitted."""
        first = str(self._database.read("number_calls")[0][0])  # the same requests may be wanted again some day
        part = content_hash("part", str(self.path.resolve()), index, first, *keys)
        values = {"part": part, "index_name": index, "now": time.time()}

        def freeze(change: Change) -> None:
            change("put_in_part", [{"part": part, "key": key} for key in keys])
            for name in ("begin_part_calls", "note_part_calls", "freeze_part"):
                change(name, [values])

        self._database.transact(freeze)

    def parts(self, model: str) -> list[BatchPart]:
        """Parts of a model that are frozen or submitted."""
        rows = self._database.read("read_parts", {"model": model})
        return [BatchPart(row[0], row[1], row[2], usage_of(row[3:])) for row in rows]

    def part_requests(self, part: str) -> dict[str, WantedRequest]:
        """The requests of a part that did not come back yet, by key."""
        rows = self._database.read("read_part_requests", {"part": part})
        return {row[0]: WantedRequest(ReplySource(*row[:5]), usage_of((1, *row[6:])), "", row[5]) for row in rows}

    def part_bodies(self, part: str) -> list[tuple[str, str]]:
        """Key and body of each request of a part."""
        return [(key, unpacked(body)) for key, body in self._database.read("read_part_bodies", {"part": part})]

    def note_submission(self, part: str, batch_id: str) -> None:
        """Notes which batch of the provider a part became."""
        self._database.write(("note_submission", {"part": part, "batch_id": batch_id}))

    def take_in(
        self, came: Iterable[tuple[WantedRequest, str, Usage, str]], ended: str = "", *, is_refused: bool = False
    ) -> None:
        """Ends calls of parts: what each took, its raw text, class of its error ("": none); and a part, all or none.

        Of a part that was refused as a whole the requests go, too, so that they are wanted again.
        """

        def add(change: Change) -> None:
            for request, text, usage, error in came:
                values = {**_call_row(request.source, usage), "call_id": request.call_id, "error": error}
                change("end_call", [values])
                if text:
                    change("write_raw_reply", [{**values, "text": packed(text)}])
                change("forget_failure", [values])
                change("request_came_back", [values])
            if is_refused:
                change("forget_part_requests", [{"part": ended}])
            change("forget_part", [{"part": ended}])

        self._database.transact(add)

    def note_unread(self, key: str, error: str) -> None:
        """Notes of a text that came without an error why it is no valid reply."""
        values = {"key": key, "error": error}
        self._database.write(("note_unread_call", values), ("note_unread_reply", values))

    def answered_calls(self, model: str) -> dict[str, Usage]:
        """Cost of a model's calls that returned a text, by task."""
        return {task: usage_of(usage) for task, *usage in self._database.read("sum_answered_calls", {"model": model})}

    def put_reply(self, source: ReplySource, text: str, repair: Repair, attempts: int, usage: Usage) -> None:
        """Stores a valid reply as JSON; `attempts` calls were made for it until now, which took `usage`."""
        row = _reply_row(_document(source, StoredReply(text, source.model, repair, attempts, usage)))
        of_key = {"key": source.key}
        self._database.write(("write_reply", row), ("forget_failure", of_key), ("forget_request", of_key))

    def put_failure(self, source: ReplySource, attempts: int, error_class: str, error: str) -> None:
        """Stores why a request has no valid reply."""
        about = {"key": source.key, "model": source.model, "task": source.task, "attempts": attempts}
        said = {"error_class": error_class, "error": error.encode("utf-8", "backslashreplace").decode()}
        self._database.write(("write_failure", {**about, **said, "now": time.time()}))

    def add_replies(self, rows: Callable[[], Iterator[list[dict[str, Any]]]]) -> int:
        """Adds exported replies, all or none; known keys keep theirs. Returns how many were new."""
        self._database.require_writable()

        def add(change: Change) -> int:
            added = sum(change("add_reply", [_reply_row(row) for row in batch]) for batch in rows())
            change("forget_answered_failures", [{}])
            return added

        return self._database.transact(add)

    def call_count(self, key: str) -> int:
        """Calls ever made for a key, by any process."""
        return int(self._database.read("count_calls", {"key": key})[0][0])

    def stats(self) -> ReplyCounts:
        """Number of cached replies, and the size of the file."""
        return ReplyCounts(*self._database.read("measure")[0])

    def by_task(self) -> list[TaskCounts]:
        """Cached replies and costs, by model and task."""
        stored = {(model, task): counts for model, task, *counts in self._database.read("count_by_task")}
        spent = {(model, task): numbers for model, task, *numbers in self._database.read("sum_calls")}
        found = []
        for key in sorted(stored.keys() | spent.keys()):
            *usage, failed_calls, unknown_calls = spent.get(key, (0,) * 7)
            cached = stored.get(key, (0, 0))
            found.append(TaskCounts(*key, cached[0], cached[1], usage_of(usage), failed_calls, unknown_calls))
        return found

    def pages(self) -> Iterator[list[tuple[ReplySource, StoredReply]]]:
        """All valid replies by key, page by page; what others add meanwhile may or may not be among them."""
        after = ""
        while rows := self._database.read("read_page", {"after": after, "limit": ROWS_PER_PAGE}):
            pairs = [(ReplySource(*row[:5]), _stored([*row[:2], *row[5:]])) for row in rows]
            yield [(source, reply) for source, reply in pairs if reply is not None]
            after = rows[-1][0]

    def evict(
        self, *, older_than_days: float | None = None, model: str | None = None, only_failures: bool = False
    ) -> Evicted:
        """Removes what fits all conditions (None: any), and raw texts that belong to none; the journal stays."""
        self._database.require_writable()
        before = None if older_than_days is None else time.time() - older_than_days * SECONDS_PER_DAY
        which = {"model": model, "before": before}
        names = (*(() if only_failures else ("evict_replies",)), "evict_failures", "evict_raw_replies")
        *replies, failures, raw_replies = self._database.write(*((name, which) for name in names))
        if any((*replies, failures, raw_replies)):
            self._database.compact()
        return Evicted(sum(replies), raw_replies, failures)

    def close(self) -> None:
        """Closes the file."""
        self._database.close()

    def _rows(self, statement: str, keys: Sequence[str]) -> Iterator[Any]:
        for start in range(0, len(keys), KEYS_PER_READ):
            yield from self._database.read(statement, {"keys": json.dumps(list(keys[start : start + KEYS_PER_READ]))})


def _call_row(source: ReplySource, usage: Usage) -> dict[str, Any]:
    cost = UNKNOWN_COST if usage.cost_usd is None else usage.cost_usd
    return {**asdict(source), **asdict(usage), "cost_usd": cost, "now": time.time()}


def _body_row(body: str) -> dict[str, Any]:
    return {"body": packed(body), "bytes": len(body.encode())}


def _reply_row(reply: Mapping[str, Any]) -> dict[str, Any]:
    """A reply, as it is exported, as values of a statement."""
    cost = UNKNOWN_COST if reply["cost_usd"] is None else reply["cost_usd"]
    return {**reply, "reply": packed(reply["reply"]), "cost_usd": cost, "now": time.time()}


_UNREADABLE = (zlib.error, ValueError, TypeError)


def _stored(row: Sequence[Any]) -> StoredReply | None:
    """The reply of a row; None if it cannot be read, so that its raw text is, or it is asked again."""
    _, model, reply, repair, attempts, *usage = row
    try:
        return StoredReply(unpacked(reply), model, Repair(repair), attempts, usage_of(usage))
    except _UNREADABLE:
        return None


SCHEMA = pa.schema(
    pa.field(name, kind, nullable=name == "cost_usd")
    for kind, names in (
        (pa.string(), ("key", "model", "task", "prompt_hash")),
        (pa.int64(), ("schema_version",)),
        (pa.string(), ("reply", "rung")),
        (pa.int64(), ("attempts", "calls", "prompt_tokens", "completion_tokens")),
        (pa.float64(), ("cost_usd", "seconds")),
    )
    for name in names
)
_NUMBERS = tuple(field.name for field in SCHEMA if not pa.types.is_string(field.type))


@dataclass(frozen=True, slots=True)
class Imported:
    """Replies of a file that were new to the cache, and replies that it knew."""

    added: int
    known: int


def export_replies(cache: ReplyCache, path: Path) -> int:
    """Writes all valid replies, sorted by key, as a whole file or none; returns how many."""
    count = 0
    with (
        named_file(path, "the replies", PARQUET) as target,
        pq.ParquetWriter(target, SCHEMA, compression="zstd") as writer,
    ):
        for page in cache.pages():
            writer.write_table(pa.Table.from_pylist([_document(*pair) for pair in page], schema=SCHEMA))
            count += len(page)
    return count


def import_replies(cache: ReplyCache, path: Path) -> Imported:
    """Adds the replies of a file that the cache does not know, all or none.

    Raises:
        SourceError: If the file is missing, is not an export of replies, or has a row that cannot be one.
    """
    if not path.is_file():
        raise SourceError(f"There is no file {path}.")
    try:
        with pq.ParquetFile(path) as file:
            found = file.schema_arrow
            wrong = [
                own.name for own in SCHEMA if own.name not in found.names or found.field(own.name).type != own.type
            ]
            if wrong:
                raise SourceError(
                    f"{path} is not an export of replies: column {', '.join(wrong)} is missing or of another type; "
                    "nothing was imported. Write one with: polyhop cache export FILE.parquet"
                )
            count = sum(len(rows) for rows in _checked_batches(file, path))
            added = cache.add_replies(lambda: _checked_batches(file, path))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise SourceError(f"{path} is not a readable parquet file ({reason}); nothing was imported.") from error
    return Imported(added=added, known=count - added)


def _document(source: ReplySource, reply: StoredReply) -> dict[str, Any]:
    """A reply as a row of the exported table."""
    own = {"reply": reply.text, "rung": reply.repair.value, "attempts": reply.attempts}
    return {**asdict(source), **own, **asdict(reply.usage)}


def _checked_batches(file: pq.ParquetFile, path: Path) -> Iterator[list[dict[str, Any]]]:
    number = 0
    for batch in file.iter_batches(batch_size=ROWS_PER_PAGE, columns=SCHEMA.names):
        rows = batch.to_pylist()
        for row in rows:
            number += 1
            fault = _fault(row)
            if fault:
                raise SourceError(f"Row {number} of {path} is not a reply: {fault}; nothing was imported.")
        yield rows


def _fault(row: dict[str, Any]) -> str | None:
    """Returns the fault of a row; None if it is valid."""
    empty = [name for name, value in row.items() if value == "" or (value is None and name != "cost_usd")]
    if empty:
        return f"{empty[0]} is empty"
    if not re.fullmatch(r"[0-9a-f]{64}", row["key"]):
        return "key is not 64 hexadecimal digits"
    repair = row["rung"]
    if repair not in set(Repair):
        return f"'{repair[:40]}' is not a kind of repair"
    numbers = {name: row[name] for name in _NUMBERS if row[name] is not None}
    wrong = [name for name, number in numbers.items() if not math.isfinite(number) or number < 0]
    if wrong:
        return f"{wrong[0]} is {row[wrong[0]]}"
    try:
        return None if isinstance(json.loads(row["reply"]), dict) else "reply is not a JSON object"
    except (ValueError, RecursionError):
        return "reply is not JSON"
