"""Shared code for calls to all model providers: answers with token counts, errors as sentences, a deadline."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from functools import cache
from math import inf, isfinite
from threading import Thread
from typing import Any, Generic, TypeVar

import httpx
from pydantic import BaseModel

from polyhop.schemas import errors

T = TypeVar("T")

UNANSWERED = " did not answer: "
"""Between a server and the reason, in the sentences about calls that may be tried again."""
MOST_TOKENS = 2**63  # the journal of calls stores a count in a signed integer of 64 bits
_PACKAGE_WORDS = re.compile(
    r"(?:\b[\w.]*(?:Error|Exception|Timeout)\b\s*(?::|-)\s*)|https?://\S*litellm\S*|\blitellm\b\.?|\bAPI\w+Error\b",
    re.IGNORECASE,
)
"""Names of classes that packages put before a server's message, and advice about the package."""
_TRACE = re.compile(r"Traceback \(most recent.*", re.DOTALL)


class Reach(Enum):
    """Progress of a call before it failed."""

    UNREACHED = "no connection could be made: nothing was sent, nothing is billed"
    UNSENT = "it failed before any connection was tried"
    TIMED_OUT = "sent, but no reply came in time: the server may have worked for nothing"
    LOST = "sent, but the connection ended, or the reply could not be understood"
    ANSWERED = "the server answered that it will not reply"


class Refusal(Enum):
    """Reason of a refusal that the HTTP status does not tell."""

    OTHER = "see the status"
    TOO_LONG = "the request is longer than the model's context"
    CONTENT = "a content filter refused the request"
    UNKNOWN_PROVIDER = "no provider has this name"


@dataclass(frozen=True, slots=True)
class Failure:
    """A call without a reply.

    Attributes:
        reach: How far the call came.
        message: The server's message, or the state of the connection: one line without secrets.
        status: The HTTP status, None if no server answered.
        retry_after_seconds: As the server asks for.
        refusal: Why the server refuses the request.
        parameter: The parameter that the server refuses, "" if it names none.
        missing_keys: Variables that would hold the key, if the call was not sent for lack of it.
    """

    reach: Reach
    message: str
    status: int | None = None
    retry_after_seconds: float | None = None
    refusal: Refusal = Refusal.OTHER
    parameter: str = ""
    missing_keys: Sequence[str] = ()


class CallFailedError(Exception):
    """A call that brought no reply.

    Attributes:
        error: Why, in our words: a ModelError, or a ModelKeyError.
        may_be_billed: The server may have written a whole reply that never arrived.
        failure: As the client saw it, None if the reply had another form.
    """

    def __init__(self, error: errors.PolyhopError, *, may_be_billed: bool, failure: Failure | None = None) -> None:
        self.error = error
        self.may_be_billed = may_be_billed
        self.failure = failure
        super().__init__(str(error))


def failed_call(failure: Failure, model: str, where: str) -> CallFailedError:
    """The error of a failed call; `where` names the model and its server."""
    ours, may_be_billed = _translated(failure, model, where)
    return CallFailedError(ours, may_be_billed=may_be_billed, failure=failure)


def _translated(failure: Failure, model: str, where: str) -> tuple[errors.PolyhopError, bool]:
    reach, status, message = failure.reach, failure.status, failure.message
    if failure.refusal is Refusal.TOO_LONG:
        return errors.ContextTooLongError(f"The request is longer than {where} can read: {message}"), False
    if failure.refusal is Refusal.CONTENT:
        return errors.ReplyRefusedError(f"{where} declined to answer: {message}"), False
    if reach is Reach.UNREACHED:
        return errors.ModelUnreachableError(f"{where}{UNANSWERED}{message}"), False
    if reach is Reach.UNSENT or status == 401:
        keys = failure.missing_keys
        names = (" or " if all(name.endswith("_API_KEY") for name in keys) else " and ").join(keys)
        unset = f"No key for {model}: set {names}."
        return errors.ModelKeyError(unset if reach is Reach.UNSENT else f"{where} refuses the key: {message}"), False
    if reach is Reach.TIMED_OUT or status in {408, 504}:
        late = errors.ModelTimeoutError(f"{where}{UNANSWERED}no reply within models.timeout_seconds.")
        return late, reach is Reach.TIMED_OUT
    if status == 429 or (status == 503 and failure.retry_after_seconds is not None):
        limit = errors.ModelRateLimitError(f"{where} rate-limits its callers: {message}", failure.retry_after_seconds)
        return limit, False
    if status is not None and 400 <= status < 500 and status not in {409, 425}:
        return errors.ModelRejectedError(f"{where} does not accept the request ({status}): {message}"), False
    answered = f"HTTP {status}, " if reach is Reach.ANSWERED and status is not None else ""
    return errors.ModelUnavailableError(f"{where}{UNANSWERED}{answered}{message}"), reach is Reach.LOST


def named(model: str, api_base: str) -> str:
    """A model and its server, for sentences."""
    return f"{api_base} ({model})" if api_base else model


def in_attempts(message: str, attempts: int) -> str:
    """The sentence of a failed call, with how often the server was asked."""
    return message if attempts < 2 else message.replace(UNANSWERED, f" did not answer in {attempts} attempts: ", 1)


def one_line(message: str) -> str:
    """A message of a server or a package as a sentence of one line.

    Secrets are masked before it is cut, for half a secret would not be recognised.
    """
    words = " ".join(_PACKAGE_WORDS.sub("", _TRACE.sub("", message)).split()).rstrip(".")
    return f"{errors.redact(words)[:300] or 'the reply could not be understood'}."  # two lines of a terminal


def server_words(body: Any) -> str:
    """The message in the body of an error: a document of OpenAI's form or of a similar one, or a page."""
    inner = body.get("error") or body if isinstance(body, dict) else body
    message = inner.get("message") or inner.get("error") if isinstance(inner, dict) else inner
    return re.sub(r"<[^>]*>", " ", message).strip() if isinstance(message, str) else ""


def connection_words(error: BaseException) -> str:
    """Cause of a failed connection, by the chain of errors down to the operating system's; "" if unknown."""
    causes = list(causes_of(error))
    of_system = [str(cause.strerror).lower() for cause in causes if isinstance(cause, OSError) and cause.strerror]
    of_client = [str(cause).lower() for cause in causes if isinstance(cause, httpx.TransportError)]
    return [*of_system[-1:], *of_client[-1:], ""][0]


def connection_reach(error: BaseException) -> Reach | None:
    """Progress of a call, by the errors of httpx in its chain; None without one."""
    for cause in causes_of(error):
        if isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout | httpx.UnsupportedProtocol):
            return Reach.UNREACHED
        if isinstance(cause, httpx.TimeoutException):
            return Reach.TIMED_OUT
        if isinstance(cause, httpx.HTTPStatusError):
            return Reach.ANSWERED
        if isinstance(cause, httpx.TransportError):
            return Reach.LOST
    return None


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """The error and what led to it, each once, the HTTP client's own errors last."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def parse_retry_after(value: str, now: datetime) -> float | None:
    """Seconds to wait by a Retry-After header, at least 0; None if it makes no sense."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            date = parsedate_to_datetime(value)
            seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now.timestamp()
        except (ValueError, OverflowError):  # a year or a zone that no date can have
            return None
    return max(0.0, seconds) if isfinite(seconds) else None


def retry_after_of(headers: Mapping[str, str] | None) -> float | None:
    """Seconds of the Retry-After header, which holds seconds or a date; None without one that makes sense."""
    value = (headers or {}).get("retry-after")
    return None if value is None else parse_retry_after(value, datetime.now(UTC))


def within(seconds: float, call: Callable[[], T]) -> T:
    """Returns the result of a call, which the calling thread waits for at most so long.

    A time limit of an HTTP client holds for each read; a server that sends a byte now and then never exceeds it. A late
    call ends on its own, on a daemon thread whose result nothing uses.

    Raises:
        TimeoutError: If the call takes longer.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - it is raised in the calling thread
            future.set_exception(error)

    Thread(target=run, name="polyhop-call", daemon=True).start()
    return future.result(seconds)


@dataclass(frozen=True, slots=True)
class EndpointReply(Generic[T]):
    """A model's answer: the value, its text for the journal, and the reported tokens (0: none)."""

    value: T
    text: str
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's reply: its text, why it declined ("": it did not), and whether its length ended it."""

    text: str
    refusal: str
    is_cut: bool


def token_count(reported: object) -> int:
    """A token count of a provider; 0 unless it is a whole number that 64 bits hold: then our own estimate counts."""
    if isinstance(reported, bool) or not isinstance(reported, int | float) or not 0 <= reported < MOST_TOKENS:
        return 0
    return int(reported) if reported == int(reported) else 0


def whole_number(digits: str) -> int | float:
    """Parses a whole number of JSON; infinity if it has more digits than any count (Python refuses 4,301 and more)."""
    return int(digits) if len(digits) <= _MOST_DIGITS else inf


_MOST_DIGITS = 40  # chosen: twice those of 64 bits


def completion_of(document: Any) -> EndpointReply[Completion]:
    """The first choice of a chat completion in OpenAI's form.

    Fields of another type than the protocol's count as absent; without any choice the reply is empty.

    Raises:
        MalformedReplyError: If the document is no chat completion.
    """
    choices = document.get("choices") if isinstance(document, dict) else None
    if not isinstance(choices, list):
        raise errors.MalformedReplyError("The reply is not a chat completion.")
    choice = _mapping(choices[0] if choices else None)
    message, usage = _mapping(choice.get("message")), _mapping(document.get("usage"))
    content, refusal, reason = message.get("content"), message.get("refusal"), choice.get("finish_reason")
    refused = refusal if isinstance(refusal, str) else ""
    stopped = "its content filter stopped it" if reason == "content_filter" else ""
    text = errors.without_values(content) if isinstance(content, str) else ""
    completion = Completion(text, errors.redact(refused or stopped), reason == "length")
    return EndpointReply(
        completion, text, token_count(usage.get("prompt_tokens")), token_count(usage.get("completion_tokens"))
    )


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


@cache
def reply_schema(reply: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a form as strict structured output wants it: every field required, no others, no defaults."""
    strict: dict[str, Any] = _strict(reply.model_json_schema(by_alias=True))
    return strict


def _strict(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _strict(part) for key, part in schema.items() if key != "default"}
    if isinstance(schema.get("properties"), dict):
        made["properties"] = {name: _strict(part) for name, part in schema["properties"].items()}
        made |= {"required": list(schema["properties"]), "additionalProperties": False}
    return made


def response_format(name: str, reply: type[BaseModel]) -> dict[str, Any]:
    """The strictest form of structured output: a reply that follows the form's JSON schema."""
    schema = {"name": name.replace(".", "_"), "schema": reply_schema(reply), "strict": True}
    return {"type": "json_schema", "json_schema": schema}
