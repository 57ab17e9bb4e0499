"""What a vendor's error says of the call that failed: how far it came, why, if a key is missing, how long to wait.

Translates nothing into our errors (litellm_client.py does).
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from math import isfinite

from polyhop.schemas.redaction import redact

_KEY_WORDS = re.compile(r"\b(missing|pass|set|no|provide|requires?)\b.{0,60}\b(api[ _]?key|credentials)", re.IGNORECASE)


UNANSWERED = " did not answer: "
"""Between a server and the reason, in the sentences about calls that may be tried again."""
_PACKAGE_WORDS = re.compile(
    r"(?:\b[\w.]*(?:Error|Exception|Timeout)\b\s*(?::|-)\s*)|https?://\S*litellm\S*|\blitellm\b\.?|\bAPI\w+Error\b",
    re.IGNORECASE,
)
"""Names of classes that packages put before what a server says, and advice about the package."""
_TRACE = re.compile(r"Traceback \(most recent.*", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
LONGEST_REASON = 300  # characters; chosen: two lines of a terminal


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


def said_by(error: BaseException) -> str:
    """Why a call failed, on one line: the server's own words, or what became of the connection.

    Without secrets before it is cut, for half a secret would not be found.
    """
    said = _server_words(error) or _connection_words(error) or str(error)
    words = " ".join(_PACKAGE_WORDS.sub("", _TRACE.sub("", said)).split()).rstrip(".")
    return f"{redact(words)[:LONGEST_REASON] or 'the reply could not be understood'}."


def _server_words(error: BaseException) -> str:
    """What the server wrote in its answer, "" if nothing came."""
    for cause in _causes(error):
        body = getattr(cause, "body", None)
        if isinstance(body, dict):
            body = body.get("message") or (body.get("error") if isinstance(body.get("error"), str) else None)
        if isinstance(body, str) and body.strip():
            return _TAG.sub(" ", body)
    return ""


def _connection_words(error: BaseException) -> str:
    """What the system or the HTTP client says of the connection, "" if it is not to blame."""
    import httpx

    of_system = [cause for cause in _causes(error) if isinstance(cause, OSError) and cause.strerror]
    if of_system:
        return str(of_system[-1].strerror).lower()
    of_client = [cause for cause in _causes(error) if isinstance(cause, httpx.TransportError)]
    return str(of_client[-1]).lower() if of_client else ""


def in_attempts(said: str, attempts: int) -> str:
    """The sentence of a failed call, with how often the server was asked."""
    return said if attempts < 2 else said.replace(UNANSWERED, f" did not answer in {attempts} attempts: ", 1)


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
