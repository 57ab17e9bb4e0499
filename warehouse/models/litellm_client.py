"""The package litellm, kept from the network and from retrying by itself, its errors in our words.

litellm takes seconds to import, hence the first call imports it.
"""

import json
import logging
import os
import re
import ssl
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from functools import cache
from importlib.util import find_spec
from inspect import iscoroutinefunction
from math import isfinite
from threading import Lock, local
from typing import Any, Generic, TypeVar

import httpcore
import httpx
from pydantic import BaseModel

from polyhop.schemas import errors
from polyhop.schemas.settings import ModelSettings

T = TypeVar("T")

_CALL = local()  # `deadline`: when the call of this thread must have its whole reply, by the monotonic clock.


def begin_deadline(request: httpx.Request) -> None:
    """The clock of a call starts; for httpx's hooks."""
    seconds = (request.extensions.get("timeout") or {}).get("read")
    _CALL.deadline = None if seconds is None else time.monotonic() + seconds


def drop_odd_usage(response: httpx.Response) -> None:
    """Takes token counts that are no whole numbers out of a reply; for httpx's hooks."""
    if b'"usage"' not in response.read():
        return
    try:
        document = response.json()
    except ValueError:
        return
    if not isinstance(document, dict) or "usage" not in document:
        return
    usage = document["usage"]
    counts = [n for name, n in usage.items() if name.endswith("_tokens")] if isinstance(usage, dict) else [None]
    if not all(isinstance(count, int | float) and isfinite(count) and count == int(count) for count in counts):
        del document["usage"]
        response._content = json.dumps(document).encode()  # noqa: SLF001 - httpx has no public way


def bounded(client: httpx.Client) -> httpx.Client:
    """The client, each of whose reads, writes and connections ends at the deadline of its call."""
    for transport in (client._transport, *client._mounts.values()):  # noqa: SLF001 - proxies of the environment, too
        pool = getattr(transport, "_pool", None)
        if pool is not None:
            pool._network_backend = _Backend(pool._network_backend)  # noqa: SLF001 - httpx hands none on
    return client


def _left(seconds: float | None, expired: Callable[[str], Exception]) -> float | None:
    deadline = getattr(_CALL, "deadline", None)
    if deadline is None:
        return seconds
    left = deadline - time.monotonic()
    if left <= 0:
        raise expired("the whole reply did not come in time")
    return float(left if seconds is None else min(seconds, left))


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Backend(httpcore.NetworkBackend):
    def __init__(self, backend: httpcore.NetworkBackend) -> None:
        self._backend = backend

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._backend.connect_tcp(host, port, left, local_address, socket_options))

    def sleep(self, seconds: float) -> None:
        self._backend.sleep(seconds)


_KEY_WORDS = re.compile(r"\b(missing|pass|set|no|provide|requires?)\b.{0,60}\b(api[ _]?key|credentials)", re.IGNORECASE)
"""The provider's package refuses to begin without a key, whatever class of error it takes for that."""
UNANSWERED = " did not answer: "
"""Between a server and the reason, in the sentences about calls that may be tried again."""
_PACKAGE_WORDS = re.compile(
    r"(?:\b[\w.]*(?:Error|Exception|Timeout)\b\s*(?::|-)\s*)|https?://\S*litellm\S*|\blitellm\b\.?|\bAPI\w+Error\b",
    re.IGNORECASE,
)
"""Names of classes that packages put before what a server says, and advice about the package."""
_TRACE = re.compile(r"Traceback \(most recent.*", re.DOTALL)


class Reach(Enum):
    """How far a call came."""

    UNREACHED = "no connection could be made: nothing was sent, nothing is billed"
    UNSENT = "it failed before any connection was tried"
    TIMED_OUT = "sent, but no reply came in time: the server may have worked for nothing"
    LOST = "sent, but the connection ended, or the reply could not be understood"
    ANSWERED = "the server answered that it will not reply"


def reach_of(error: BaseException) -> Reach:
    """How far the call came, by the chain of errors down to that of the HTTP client."""
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
    return Reach.UNSENT if _KEY_WORDS.search(" ".join(str(error).split())[:500]) else Reach.LOST


def said_by(error: BaseException) -> str:
    """Why a call failed, on one line: the server's own words, or what became of the connection.

    Without secrets before it is cut, for half a secret would not be found.
    """
    causes = list(_causes(error))
    bodies = [getattr(cause, "body", None) for cause in causes]
    written = [body.get("message") or body.get("error") if isinstance(body, dict) else body for body in bodies]
    of_server = [re.sub(r"<[^>]*>", " ", words) for words in written if isinstance(words, str) and words.strip()]
    of_system = [str(cause.strerror).lower() for cause in causes if isinstance(cause, OSError) and cause.strerror]
    of_client = [str(cause).lower() for cause in causes if isinstance(cause, httpx.TransportError)]
    said = [*of_server[:1], *of_system[-1:], *of_client[-1:], ""][0] or str(error)
    words = " ".join(_PACKAGE_WORDS.sub("", _TRACE.sub("", said)).split()).rstrip(".")
    return f"{errors.redact(words)[:300] or 'the reply could not be understood'}."  # two lines of a terminal


def in_attempts(said: str, attempts: int) -> str:
    """The sentence of a failed call, with how often the server was asked."""
    return said if attempts < 2 else said.replace(UNANSWERED, f" did not answer in {attempts} attempts: ", 1)


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
    own, sent = getattr(error, "litellm_response_headers", None), getattr(error, "response", None)
    value = (own or {}).get("retry-after") or (getattr(sent, "headers", None) or {}).get("retry-after")
    return None if value is None else parse_retry_after(value, datetime.now(UTC))


def parse_retry_after(value: str, now: datetime) -> float | None:
    """Seconds to wait by a Retry-After header, at least 0; None if it makes no sense."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            date = parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now.timestamp()
    return max(0.0, seconds) if isfinite(seconds) else None


_IMPORTING = Lock()


class CallFailedError(Exception):
    """A call that brought no reply.

    Attributes:
        error: Why, in our words: a ModelError, or a ModelKeyError.
        may_be_billed: The server may have written a whole reply that never arrived.
    """

    def __init__(self, error: errors.PolyhopError, *, may_be_billed: bool) -> None:
        self.error = error
        self.may_be_billed = may_be_billed
        super().__init__(str(error))


def require_litellm() -> None:
    """Imports nothing."""
    if find_spec("litellm") is None:
        raise errors.ConfigurationError(
            f"Models of providers and of servers need the package litellm; {errors.install_words('models')}."
        )


def import_litellm() -> Any:
    """The package litellm without its price list from the network, its hints on the screen and its usage statistics."""
    with _IMPORTING:
        return _quiet_litellm()


def close_connections() -> None:
    """Closes the connections that litellm keeps open between calls; a later call opens new ones."""
    if "litellm" not in sys.modules:
        return
    litellm = import_litellm()
    with _IMPORTING:
        clients = litellm.in_memory_llm_clients_cache
        for client in list(clients.cache_dict.values()):
            close = getattr(client, "close", None)
            if callable(close) and not iscoroutinefunction(close):
                close()
        clients.flush_cache()
        if litellm.client_session is not None:
            litellm.client_session.close()
            litellm.client_session = None


def open_connections(litellm: Any) -> None:
    """One pool of connections for all threads: left alone, each of the first calls would open and lose its own.

    The time limit of a call bounds its reply as a whole, and token counts that are no numbers are left out of it.
    """
    with _IMPORTING:
        if litellm.client_session is None:
            # httpx keeps 20, fewer than `models.concurrency` may be
            limits = httpx.Limits(max_keepalive_connections=64)
            hooks: dict[str, list[Callable[..., Any]]] = {"request": [begin_deadline], "response": [drop_odd_usage]}
            litellm.client_session = bounded(httpx.Client(limits=limits, event_hooks=hooks))
        for module, owner in ((litellm.batches, "openai_batches_instance"), (litellm.files, "openai_files_instance")):
            getattr(module.main, owner).get_openai_client = _pooled_client


def _pooled_client(
    api_key: str | None,
    api_base: str | None,
    timeout: float,
    max_retries: int | None,
    organization: str | None,
    client: Any = None,
    _is_async: bool = False,  # noqa: FBT001, FBT002 - as above
) -> Any:
    """A client of files and batches on the pool; left alone, litellm opens connections per call and closes none."""
    import openai

    own = {"http_client": import_litellm().client_session, "max_retries": max_retries or 0, "timeout": timeout}
    return client or openai.OpenAI(api_key=api_key, base_url=api_base, organization=organization, **own)


@cache
def _quiet_litellm() -> Any:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import litellm

        litellm.suppress_debug_info = True
        litellm.telemetry = False
        litellm.DEFAULT_MAX_RETRIES = 0  # of embeddings, where max_retries=0 counts as unset
        for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        # its first reply builds pydantic models that warn; this one is made on the spot
        messages = [{"role": "user", "content": "-"}]
        litellm.completion(model="openai/none", messages=messages, mock_response="-", api_key="none")
    return litellm


def address_of(model: str, api_base: str) -> dict[str, str]:
    """Where to call; a server of one's own often wants no key, but the protocol's client does."""
    if not api_base:
        return {}
    return {"api_base": api_base} | ({} if os.environ.get(_key_variable(model)) else {"api_key": "none"})


def _key_variable(model: str) -> str:
    return f"{model.partition('/')[0].upper().replace('-', '_')}_API_KEY"


def named(model: str, api_base: str) -> str:
    """A model and its server, for sentences."""
    return f"{api_base} ({model})" if api_base else model


def translated(error: Exception, model: str, where: str) -> tuple[errors.PolyhopError, bool]:
    """Our error for a vendor's, and whether the call may be billed."""
    litellm = import_litellm()
    said = said_by(error)
    if isinstance(error, litellm.ContextWindowExceededError):
        return errors.ContextTooLongError(f"The request is longer than {where} can read: {said}"), False
    if isinstance(error, litellm.ContentPolicyViolationError):
        return errors.ReplyRefusedError(f"{where} declined to answer: {said}"), False
    reach, status = reach_of(error), status_of(error)
    if reach is Reach.UNREACHED:
        return errors.ModelUnreachableError(f"{where}{UNANSWERED}{said}"), False
    if reach is Reach.UNSENT or status == 401:
        missing: list[str] = sorted(litellm.validate_environment(model)["missing_keys"]) or [_key_variable(model)]
        names = (" or " if all(name.endswith("_API_KEY") for name in missing) else " and ").join(missing)
        unset = f"No key for {model}: set {names}."
        return errors.ModelKeyError(unset if reach is Reach.UNSENT else f"{where} refuses the key: {said}"), False
    if reach is Reach.TIMED_OUT or status in {408, 504}:
        late = errors.ModelTimeoutError(f"{where}{UNANSWERED}no reply within models.timeout_seconds.")
        return late, reach is Reach.TIMED_OUT
    retry_after = retry_after_seconds(error)
    if status == 429 or (status == 503 and retry_after is not None):
        return errors.ModelRateLimitError(f"{where} rate-limits its callers: {said}", retry_after), False
    if status is not None and 400 <= status < 500 and status not in {409, 425}:
        return errors.ModelRejectedError(f"{where} does not accept the request ({status}): {said}"), False
    answered = f"HTTP {status}, " if reach is Reach.ANSWERED and status is not None else ""
    return errors.ModelUnavailableError(f"{where}{UNANSWERED}{answered}{said}"), reach is Reach.LOST


PLAIN = 2  # the last of the three forms below: JSON schema (0), JSON object (1), words of the prompt alone


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What a model sent: the value, its text for the journal, and the tokens that it reports (0: none)."""

    value: T
    text: str
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model said: its text, why it declined ("": it did not), and whether its length ended it."""

    text: str
    refusal: str
    is_cut: bool


class Completions:
    """Calls one model; remembers which form of structured output its server accepts. Safe for threads.

    The forms, from the strictest: JSON schema, any JSON object, plain text.
    """

    def __init__(self, model: str, settings: ModelSettings) -> None:
        self._model = model
        self._timeout_seconds = settings.timeout_seconds
        self._address = address_of(model, settings.api_base)
        self._where = named(model, settings.api_base)
        self._form = 0
        self._is_form_proven = False
        self._has_temperature = True

    def call(
        self, messages: Sequence[Mapping[str, str]], name: str, reply: type[BaseModel], max_output_tokens: int
    ) -> Answer[Completion]:
        """What the model says to messages.

        Raises:
            CallFailedError: With a ModelError; a form that the server refuses is retryable, with the next form. With a
                ModelKeyError if the key is missing or refused.
        """
        litellm = import_litellm()
        import openai

        open_connections(litellm)
        form = self._form
        parameters: dict[str, Any] = {"temperature": 0} if self._has_temperature else {}
        if form < PLAIN:
            wanted = {"name": name.replace(".", "_"), "schema": reply_schema(reply), "strict": True}
            strictest = {"type": "json_schema", "json_schema": wanted}
            parameters["response_format"] = strictest if form == 0 else {"type": "json_object"}
        parameters |= {"max_tokens": max_output_tokens, "timeout": self._timeout_seconds, **self._address}
        try:
            sent = [dict(message) for message in messages]
            answer = litellm.completion(model=self._model, messages=sent, num_retries=0, max_retries=0, **parameters)
        except openai.OpenAIError as error:
            ours, may_be_billed = translated(error, self._model, self._where)
            is_unsupported = isinstance(error, litellm.UnsupportedParamsError) and "temperature" in str(error)
            is_unknown = isinstance(error, litellm.exceptions.LiteLLMUnknownProvider)
            is_wrong = status_of(error) in {400, 422} and isinstance(ours, errors.ModelRejectedError) and not is_unknown
            if is_unsupported and self._has_temperature:
                self._has_temperature = False
            elif is_wrong and not self._is_form_proven and form < PLAIN:
                # the server found the request itself wrong: perhaps the form, unless that has worked before
                self._form = max(self._form, form + 1)  # another call may have gone further meanwhile
            else:
                if is_wrong and not self._is_form_proven:
                    self._form = 0
                raise CallFailedError(ours, may_be_billed=may_be_billed) from error
            # The server refuses a parameter; the next call goes without it.
            rejected = errors.ModelRejectedError(f"The server refuses a form of structured output: {said_by(error)}")
            rejected.retryable = True
            raise CallFailedError(rejected, may_be_billed=False) from error
        self._is_form_proven = True
        return _completion(answer)


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


def _completion(answer: Any) -> Answer[Completion]:
    choice = answer.choices[0] if answer.choices else None
    message = getattr(choice, "message", None)
    refusal = (getattr(message, "provider_specific_fields", None) or {}).get("refusal")
    usage = [getattr(getattr(answer, "usage", None), name, 0) for name in _COUNTS]
    return _answer(getattr(message, "content", None), refusal, getattr(choice, "finish_reason", None), usage)


_COUNTS = ("prompt_tokens", "completion_tokens")


def _answer(content: Any, refusal: Any, reason: Any, usage: Sequence[Any]) -> Answer[Completion]:
    stopped = "its content filter stopped it" if reason == "content_filter" else ""
    text = errors.without_values(content or "")
    # Reported tokens, 0 for what is no number; most servers' nonsense was left out before.
    counts = [int(value) if isinstance(value, int | float) and isfinite(value) else 0 for value in usage]
    said = Completion(text, errors.redact(str(refusal or stopped)), reason == "length")
    return Answer(said, text, counts[0], counts[1])


BATCH_PROVIDERS = ("openai", "azure", "hosted_vllm", "litellm_proxy")
"""Providers, as litellm names them, that take batches in OpenAI's form, list them, and keep their metadata."""
_OVER = ("completed", "expired", "cancelled")
_PER_PAGE = 100  # batches of a listing, OpenAI's most
LEAST_FILE_SECONDS = 600.0  # chosen: a file of a part may have 100 MB


@dataclass(frozen=True, slots=True)
class BatchState:
    """A batch as its provider shows it: whether it has ended, why it was refused as a whole ("": it was not)."""

    batch_id: str
    is_over: bool
    is_complete: bool  # No request was left unanswered at its end.
    refusal: str
    files: tuple[str, ...]


class BatchEndpoint:
    """The files and batches of a model's provider. Every method raises CallFailedError."""

    def __init__(self, model: str, settings: ModelSettings) -> None:
        self._model, self._where = model, named(model, settings.api_base)
        self._name, provider, *_ = import_litellm().get_llm_provider(model)
        if provider not in BATCH_PROVIDERS:
            raise errors.ConfigurationError(
                f"Batches of {provider} cannot be found again by a key, so that a killed run might pay twice; "
                f"models.mode=batch works with {', '.join(BATCH_PROVIDERS)}. Set models.mode=single."
            )
        self._provider = provider
        seconds = max(settings.timeout_seconds, LEAST_FILE_SECONDS)
        self._options = {"custom_llm_provider": provider, "timeout": seconds, "max_retries": 0}
        self._options |= address_of(model, settings.api_base)
        self._parameters: dict[tuple[str, int], dict[str, Any]] = {}

    def body(self, text: str, name: str, reply: type[BaseModel], longest: int) -> dict[str, Any]:
        """What a single call of `Completions` would send first, as a line of a batch holds it."""
        if (name, longest) not in self._parameters:
            litellm = import_litellm()
            form = {"name": name.replace(".", "_"), "schema": reply_schema(reply), "strict": True}
            asked = {"max_tokens": longest, "response_format": {"type": "json_schema", "json_schema": form}}
            about = {"model": self._name, "custom_llm_provider": self._provider}
            try:
                made = litellm.get_optional_params(**about, temperature=0, **asked)
            except litellm.UnsupportedParamsError:
                made = litellm.get_optional_params(**about, **asked)
            kept = {key: value for key, value in made.items() if key not in {"stream", "extra_body"}}
            self._parameters[name, longest] = {**kept, **(made.get("extra_body") or {})}
        messages = [{"role": "user", "content": text}]
        return {"model": self._name, "messages": messages, **self._parameters[name, longest]}

    def create(self, part: str, lines: bytes) -> BatchState:
        """Uploads requests and submits them as a batch that can be found by the key of its part."""
        file = self._call("create_file", file=("requests.jsonl", lines), purpose="batch")
        window: dict[str, Any] = {"completion_window": "24h", "endpoint": "/v1/chat/completions"}
        return _batch_state(
            self._call("create_batch", input_file_id=file.id, metadata={"polyhop_part": part}, **window)
        )

    def find(self, part: str) -> BatchState | None:
        """The batch of a part ("": none), which a run that was killed has submitted; one that was refused is none."""
        page = self._call("list_batches", limit=_PER_PAGE)
        for batch in self._guarded(lambda: list(page if part else page.data)):  # further pages come by themselves
            if (batch.metadata or {}).get("polyhop_part") == part and batch.status != "failed":
                return _batch_state(batch)
        return None

    def look(self, batch_id: str) -> BatchState:
        """A batch as it is now."""
        return _batch_state(self._call("retrieve_batch", batch_id=batch_id))

    def lines(self, file_id: str) -> list[bytes]:
        """The lines of a file of replies or errors."""
        return bytes(self._call("file_content", file_id=file_id).content).splitlines()

    def _call(self, name: str, **arguments: Any) -> Any:
        litellm = import_litellm()
        open_connections(litellm)
        return self._guarded(lambda: getattr(litellm, name)(**arguments, **self._options))

    def _guarded(self, call: Callable[[], Any]) -> Any:
        import openai

        try:
            return call()
        except openai.OpenAIError as error:
            ours, may_be_billed = translated(error, self._model, self._where)
            raise CallFailedError(ours, may_be_billed=may_be_billed) from error


def _batch_state(batch: Any) -> BatchState:
    said = [str(error.message) for error in getattr(batch.errors, "data", None) or []]
    refusal = errors.redact("; ".join(said)[:300] or "no reason is given") if batch.status == "failed" else ""
    files = tuple(file for file in (batch.output_file_id, batch.error_file_id) if file)
    return BatchState(batch.id, batch.status in _OVER, batch.status == "completed", refusal, files)


def batch_reply(line: bytes) -> tuple[str, Answer[Completion] | None, str]:
    """Custom id of a line of a batch's files ("": it cannot be read), its answer, and the class of its error."""
    try:
        document = json.loads(line)
        key, response = str(document["custom_id"]), document["response"]
        if response is None or response["status_code"] != 200:
            is_expired = (document.get("error") or {}).get("code") == "batch_expired"
            return key, None, "Expired" if is_expired else errors.ModelUnavailableError.__name__
        body = response["body"]
        choice, usage = body["choices"][0], body.get("usage") or {}
        message = choice["message"]
        counts = [usage.get(name) for name in _COUNTS]
        answer = _answer(message.get("content"), message.get("refusal"), choice.get("finish_reason"), counts)
    except (ValueError, LookupError, TypeError, AttributeError):
        return "", None, ""
    refused, cut = errors.ReplyRefusedError.__name__, errors.MalformedReplyError.__name__
    return key, answer, refused if answer.value.refusal else cut if answer.value.is_cut else ""
