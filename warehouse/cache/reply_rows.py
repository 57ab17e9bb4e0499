"""A reply as the values of a row, and back: packed texts, checksums, and rows that are no longer as they were written.

Opens no file (replies.py does).
"""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from polyhop.schemas.chat import Usage

_USAGE = ("calls", "prompt_tokens", "completion_tokens", "cost_usd", "seconds")


UNKNOWN_COST = -1.0
"""Stands for the cost of calls at an unknown price: files of older versions allow no NULL in the column."""


def usage_values(usage: Usage) -> dict[str, float]:
    """The numbers of a usage that have a column, in the order of the columns."""
    values = {name: getattr(usage, name) for name in _USAGE}
    return values | ({"cost_usd": UNKNOWN_COST} if usage.cost_usd is None else {})


def usage_of(numbers: Iterable[Any]) -> Usage:
    """The usage whose `usage_values` these are."""
    usage = Usage(*numbers)
    return replace(usage, cost_usd=None) if usage.cost_usd == UNKNOWN_COST else usage


def packed(text: str) -> bytes:
    """A text, compressed; zlib's own checksum is in it."""
    return zlib.compress(text.encode("utf-8", "surrogatepass"))


def unpacked(data: object) -> str | None:
    """The text of `packed`; None if it is damaged."""
    if not isinstance(data, bytes):
        return None
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(data).decode("utf-8", "surrogatepass")
    except (zlib.error, UnicodeDecodeError):
        return None
    return text if unpacking.eof and not unpacking.unused_data else None  # not cut short, nothing after it


def reply_checksum(values: Sequence[object]) -> bytes:
    """Eight bytes that tell a damaged row.

    Args:
        values: key, model, packed reply, rung, attempts, then the numbers of the usage.
    """
    return blake2b(repr(_plain(values)).encode("utf-8", "surrogatepass"), digest_size=8).digest()


def sound_reply(row: Sequence[Any], rungs: Sequence[str]) -> str | None:
    """The reply's text, None if the row is not as it was written.

    Args:
        row: As for `reply_checksum`, and the checksum last; None in rows of older versions.
        rungs: Those that there are.
    """
    *values, checksum = row
    _, model, reply, rung, attempts, *usage = values
    if checksum is not None and checksum != reply_checksum(values):
        return None
    is_typed = isinstance(model, str) and rung in rungs and isinstance(attempts, int)
    return unpacked(reply) if is_typed and all(isinstance(number, int | float) for number in usage) else None


def _plain(values: Sequence[object]) -> list[object]:
    """The same whether a number came from Python or, as a REAL, from SQLite."""
    *others, cost, seconds = values
    return [*others, float(str(cost)), float(str(seconds))]
