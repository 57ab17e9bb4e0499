"""Replies of chat models by content hash in one SQLite file, shared by all indexes and processes.

Asks no model (models/cached_chat.py joins model and cache). Invariant: only valid replies are results; a failure is
kept beside them with its reason, and every text that was paid for is kept as it came. Clocks serve the journal and
eviction, no returned value. Source: algorithms.md 0.3 (5).
"""

import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyhop.schemas.chat import Rung, Usage
from polyhop.warehouse.cache.calls import CallJournal, ReplySource
from polyhop.warehouse.cache.database import REPAIR_COMMAND, SharedDatabase
from polyhop.warehouse.cache.reply_rows import packed, reply_checksum, sound_reply, unpacked, usage_of, usage_values

KEYS_PER_READ = 2_000  # chosen: bounds the replies in memory; keys are one JSON variable, so SQLite sets no limit
ROWS_PER_PAGE = 1_000  # chosen: bounds the replies in memory, and any number gives the same
SECONDS_PER_DAY = 86_400.0  # 24 * 3600, in units of time.time()
REPAIR_HINT = f"remove them with: {REPAIR_COMMAND}"
RUNGS = tuple(rung.value for rung in Rung)

_log = logging.getLogger(__name__)
_SQL_FILE = Path(__file__).parent / "sql" / "replies.sql"


@dataclass(frozen=True, slots=True)
class StoredReply:
    """A valid reply: JSON text, the help it needed, the calls it took until then, and what they cost."""

    text: str
    model: str
    rung: Rung
    attempts: int
    usage: Usage


@dataclass(frozen=True, slots=True)
class RawReply:
    """A text as it came, the class of the error that it led to ("" if none), and what it cost."""

    text: str
    error_class: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class StoredFailure:
    """Why a request has no reply yet; `revision` is that of the parser which could not read its raw replies."""

    attempts: int
    error_class: str
    error: str
    revision: int


@dataclass(frozen=True, slots=True)
class ReplyCounts:
    """Rows of the cache, and bytes of the database without its write-ahead log."""

    reply_count: int
    raw_reply_count: int
    failure_count: int
    byte_count: int


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """What is cached of a task by a model, and all that was ever spent on it.

    Attributes:
        unknown_calls: Calls whose process died, or that are in flight; `spent` holds them at their worst case.
    """

    model: str
    task: str
    reply_count: int
    failure_count: int
    spent: Usage
    failed_calls: int
    unknown_calls: int = 0


@dataclass(frozen=True, slots=True)
class Evicted:
    """Numbers of rows that were removed."""

    replies: int
    raw_replies: int
    failures: int


class ReplyCache:
    """One SQLite file in write-ahead mode; safe for many threads and processes, not to be carried across a fork.

    Attributes:
        calls: The journal of calls, those in flight included.

    Raises:
        StoreError: If the file cannot be created, or is not such a cache.
        StoreUnavailableError: If other processes kept it locked for 60 s.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._database = SharedDatabase(path, _SQL_FILE, what="the cache of model replies")
        self.calls = CallJournal(self._database)

    def replies(self, keys: Sequence[str]) -> dict[str, StoredReply]:
        """The valid replies among `keys`; keys without one are left out, and so are damaged rows, with a warning."""
        rows = {row[0]: _stored(row) for row in self._rows("read_replies", keys)}
        return self._sound(rows)

    def failures(self, keys: Sequence[str]) -> dict[str, StoredFailure]:
        """Why some of `keys` have no reply."""
        return {key: StoredFailure(*fields) for key, *fields in self._rows("read_failures", keys)}

    def raw_replies(self, keys: Sequence[str]) -> dict[str, list[RawReply]]:
        """The texts that were paid for, latest first; keys without any are left out."""
        found: dict[str, list[RawReply]] = {}
        for key, data, error_class, *usage in self._rows("read_raw_replies", keys):
            text = unpacked(data)
            if text is None:
                self._warn(1)
            else:
                found.setdefault(key, []).append(RawReply(text, error_class, usage_of(usage)))
        return found

    def put_call(self, source: ReplySource, text: str, usage: Usage, error: str) -> None:
        """Writes a call that has ended into the journal, and its raw text beside the replies if one came.

        Args:
            source: What was asked.
            text: The raw reply, "" if none came.
            usage: What this one call took.
            error: Class of the error that it led to, "" if none.
        """
        self.calls.end(self.calls.begin(source, usage), source, text, usage, error)

    def put_reply(
        self, source: ReplySource, text: str, rung: Rung, attempts: int, usage: Usage, longest_reply: int = 0
    ) -> None:
        """Stores a valid reply; the request has then not failed.

        Args:
            source: What was asked.
            text: The reply as JSON.
            rung: How much help it needed.
            attempts: Calls made for it until now.
            usage: What they took.
            longest_reply: Most tokens that it might have; remembered if the reply was cut.
        """
        row = reply_row(source, StoredReply(text, source.model, rung, attempts, usage))
        key = {"key": source.key}
        cut = ("write_shortened", {**key, "max_tokens": longest_reply})
        is_cut = rung is Rung.SHORTENED and longest_reply
        self._database.write(
            ("write_reply", row), ("forget_failure", key), cut if is_cut else ("forget_shortened", key)
        )

    def limits_of_shortened(self, keys: Sequence[str]) -> dict[str, int]:
        """Of those of `keys` whose reply was cut under a known limit: that limit, in tokens."""
        return dict(self._rows("read_shortened", keys))

    def put_failure(self, source: ReplySource, failure: StoredFailure) -> None:
        """Stores why a request has no valid reply."""
        self._database.write(
            (
                "write_failure",
                {
                    "key": source.key,
                    "model": source.model,
                    "task": source.task,
                    "attempts": failure.attempts,
                    "error_class": failure.error_class,
                    "error": failure.error.encode("utf-8", "backslashreplace").decode(),
                    "revision": failure.revision,
                    "now": time.time(),
                },
            )
        )

    def add_replies(self, rows: Iterator[list[dict[str, Any]]]) -> int:
        """Adds replies from elsewhere (`reply_row`), all or none; known keys keep theirs. Returns how many were new."""
        self._database.require_writable()
        added = 0
        with self._database.transaction() as change:
            for batch in rows:
                added += change("add_reply", batch)
            change("forget_answered_failures", [{}])
        return added

    def call_count(self, key: str) -> int:
        """Calls ever made for a key, by any process."""
        return int(self._database.read("count_calls", {"key": key})[0][0])

    def output_lengths(self, task: str, model: str, limit: int = 1000) -> list[int]:
        """Completion tokens of the latest calls of a task that brought a text, latest first."""
        values = {"task": task, "model": model, "limit": limit}
        return [count for (count,) in self._database.read("read_output_lengths", values)]

    def stats(self) -> ReplyCounts:
        """How much is cached, and how large the file is."""
        return ReplyCounts(*self._database.read("measure")[0])

    def count_older(self, days: float) -> int:
        """Valid replies that were stored so many days ago."""
        before = time.time() - days * SECONDS_PER_DAY
        return int(self._database.read("count_old_replies", {"before": before})[0][0])

    def by_task(self) -> list[TaskCounts]:
        """What is cached and what was spent, by model and task."""
        stored = {(model, task): counts for model, task, *counts in self._database.read("count_by_task")}
        spent = {(model, task): numbers for model, task, *numbers in self._database.read("sum_calls")}
        counts = []
        for model, task in sorted(stored.keys() | spent.keys()):
            reply_count, failure_count = stored.get((model, task), (0, 0))
            *usage, failed_calls, unknown_calls = spent.get((model, task), (0,) * 7)
            counts.append(
                TaskCounts(model, task, reply_count, failure_count, usage_of(usage), failed_calls, unknown_calls)
            )
        return counts

    def pages(self) -> Iterator[list[tuple[ReplySource, StoredReply]]]:
        """All valid replies by key, page by page; what others add meanwhile may or may not be among them."""
        after = ""
        while rows := self._database.read("read_page", {"after": after, "limit": ROWS_PER_PAGE}):
            sources, stored = {}, {}
            for key, model, task, prompt_hash, schema_version, *fields in rows:
                sources[key] = ReplySource(key, model, task, prompt_hash, schema_version)
                stored[key] = _stored([key, model, *fields])
            yield [(sources[key], reply) for key, reply in self._sound(stored).items()]
            after = rows[-1][0]

    def evict(
        self, *, older_than_days: float | None = None, model: str | None = None, only_failures: bool = False
    ) -> Evicted:
        """Removes what fits all conditions, and raw texts that belong to nothing any more; the journal stays.

        Args:
            older_than_days: Stored so long ago; None: at any time.
            model: By this model; None: any.
            only_failures: Keep the replies.
        """
        self._database.require_writable()
        before = None if older_than_days is None else time.time() - older_than_days * SECONDS_PER_DAY
        which = {"model": model, "before": before}
        steps: list[tuple[str, dict[str, Any]]] = [(name, which) for name in ("evict_failures", "evict_raw_replies")]
        if not only_failures:
            steps[:0] = [("evict_replies", which), ("evict_shortened", {})]
        counts = dict(zip([name for name, _ in steps], self._database.write(*steps), strict=True))
        if any(counts.values()):
            self._database.compact()
        return Evicted(counts.get("evict_replies", 0), counts["evict_raw_replies"], counts["evict_failures"])

    def close(self) -> None:
        """Closes the file."""
        self._database.close()

    def _sound(self, stored: Mapping[str, StoredReply | None]) -> dict[str, StoredReply]:
        sound = {key: reply for key, reply in stored.items() if reply is not None}
        self._warn(len(stored) - len(sound))
        return sound

    def _warn(self, count: int) -> None:
        if count:
            _log.warning("polyhop: %d rows of %s are damaged and count as missing; %s", count, self.path, REPAIR_HINT)

    def _rows(self, statement: str, keys: Sequence[str]) -> Iterator[Any]:
        for start in range(0, len(keys), KEYS_PER_READ):
            yield from self._database.read(statement, {"keys": json.dumps(list(keys[start : start + KEYS_PER_READ]))})


def reply_row(source: ReplySource, reply: StoredReply) -> dict[str, Any]:
    """A reply as values of a statement."""
    text, usage = packed(reply.text), usage_values(reply.usage)
    values = [source.key, source.model, text, reply.rung.value, reply.attempts, *usage.values()]
    return {
        "key": source.key,
        "model": source.model,
        "task": source.task,
        "prompt_hash": source.prompt_hash,
        "schema_version": source.schema_version,
        "reply": text,
        "rung": reply.rung.value,
        "attempts": reply.attempts,
        "now": time.time(),
        "checksum": reply_checksum(values),
        **usage,
    }


def _stored(row: Sequence[Any]) -> StoredReply | None:
    """The reply of a row, None if the row is damaged."""
    text = sound_reply(row, RUNGS)
    if text is None:
        return None
    _, model, _, rung, attempts, *usage, _ = row
    return StoredReply(text, model, Rung(rung), attempts, usage_of(usage))
