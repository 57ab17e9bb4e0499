"""What a vendor's error says about the call that failed: how far it came, whether a key is missing, how long to wait.

Translates nothing into our errors (litellm_client.py does).
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from math import isfinite

_KEY_WORDS = re.compile(r"\b(missing|pass|set|no|provide|requires?)\b.{0,60}\b(api[ _]?key|credentials)", re.IGNORECASE)


class Reach(Enum):
    """How far a call came."""

    UNREACHED = "no connection could be made: nothing was sent, nothing is billed"
    UNSENT = "it failed before any connection was tried"
    TIMED_OUT = "sent, but no reply came in time: the server may have worked for nothing"
    LOST = "sent, but the connection ended, or the reply could not be understood"
    ANSWERED = "the server answered that it will not reply"


def reach_of(error: BaseException) -> Reach:
    """How far the call came, by the chain of errors down to that of the HTTP client."""
    import httpx
    import openai

    for cause in _causes(error):
        if isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout | httpx.UnsupportedProtocol):
            return Reach.UNREACHED
        if isinstance(cause, httpx.TimeoutException | openai.APITimeoutError):
            return Reach.TIMED_OUT
        if isinstance(cause, httpx.HTTPStatusError):
            return Reach.ANSWERED
        if isinstance(cause, httpx.TransportError):
            return Reach.LOST
    return Reach.UNSENT if is_key_missing(error) else Reach.LOST


def is_key_missing(error: BaseException) -> bool:
    """Whether the provider's package refused to begin without a key, whatever class of error it took for that."""
    return _KEY_WORDS.search(" ".join(str(error).split())[:500]) is not None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what led to it, each once, the HTTP client's own errors last."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def status_of(error: BaseException) -> int | None:
    """The HTTP status that the error carries, None without one; packages invent one where no server answered."""
    status = getattr(error, "status_code", None)
    return int(status) if status is not None else None


def retry_after_seconds(error: BaseException) -> float | None:
    """Seconds of the Retry-After header, which holds seconds or a date; None without one that makes sense."""
    value = None
    for headers in (
        getattr(error, "litellm_response_headers", None),
        getattr(getattr(error, "response", None), "headers", None),
    ):
        value = value or (headers or {}).get("retry-after")
    return None if value is None else parse_retry_after(value, datetime.now(UTC))


def parse_retry_after(value: str, now: datetime) -> float | None:
    """Seconds to wait by a Retry-After header, at least 0; None if it makes no sense.

    Args:
        value: Seconds, or an HTTP date.
        now: Present time, with its zone.
    """
    try:
        seconds = float(value)
    except ValueError:
        try:
            date = parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now.timestamp()
    return max(0.0, seconds) if isfinite(seconds) else None
