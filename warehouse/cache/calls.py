"""The journal of calls to chat models: written before a call is sent, at its worst case, and corrected when it ends.

Asks no model. Invariant: a call that was sent is in the journal, however its process ended; what a killed process never
learnt is booked at its worst case and says so.
"""

import time
from dataclasses import dataclass
from typing import Any

from polyhop.schemas.chat import Usage
from polyhop.warehouse.cache.claims import Claims
from polyhop.warehouse.cache.database import SharedDatabase
from polyhop.warehouse.cache.reply_rows import packed, usage_of, usage_values


@dataclass(frozen=True, slots=True)
class ReplySource:
    """What a reply answers: its key, the model, and the parts of the key that people ask about."""

    key: str
    model: str
    task: str
    prompt_hash: str
    schema_version: int


class CallJournal:
    """The calls in the database of the reply cache; safe for threads and processes."""

    def __init__(self, database: SharedDatabase) -> None:
        self._database = database

    def begin(self, source: ReplySource, worst: Usage) -> int:
        """Writes a call that is about to be sent, at its worst case; returns its number."""
        return self._database.add("begin_call", _values(source, worst))

    def end(self, call_id: int, source: ReplySource, text: str, usage: Usage, error: str) -> None:
        """Writes what a call took, and its raw text beside the replies if one came.

        Args:
            call_id: From `begin`.
            source: What was asked.
            text: The raw reply, "" if none came.
            usage: What this one call took.
            error: Class of the error that it led to, "" if none.
        """
        values = {**_values(source, usage), "call_id": call_id, "error": error}
        raw = [("write_raw_reply", {**values, "text": packed(text)})] if text else []
        self._database.write(("end_call", values), *raw)

    def abandon_dead(self, claims: Claims) -> Usage:
        """Marks the calls that died with their process as of unknown outcome; returns them at their worst case.

        A call whose process lives holds the claim on its key (cached_chat.py), so a free claim means a dead process.
        """
        found = Usage()
        for call_id, key, prompt_tokens, completion_tokens, cost_usd in self._database.read("read_open_calls"):
            with claims.held(key, lambda: True) as is_free:
                if is_free and self._database.write(("abandon_call", {"call_id": call_id}))[0]:
                    found += usage_of((1, prompt_tokens, completion_tokens, cost_usd))
        return found

    def answered(self, model: str) -> dict[str, Usage]:
        """What the calls of a model took that brought a text, by task."""
        return {task: usage_of(usage) for task, *usage in self._database.read("sum_answered_calls", {"model": model})}


def _values(source: ReplySource, usage: Usage) -> dict[str, Any]:
    about = {"key": source.key, "task": source.task, "model": source.model, "now": time.time()}
    return about | usage_values(usage)
