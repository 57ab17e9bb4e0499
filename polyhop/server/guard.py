"""Access control: the Host header, the token, same-site requests, and limits on their number, size and time.

A page elsewhere whose name was made to lead here is refused by the Host header (DNS rebinding), requests that browsers
send for other sites change and read nothing, and no script stands inside a page.
"""

import asyncio
import hmac
import logging
import resource
import secrets
from collections.abc import Collection
from hashlib import sha256
from ipaddress import ip_address
from socket import gethostname

from fastapi.responses import Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from polyhop.server.access import CURRENT, EVERYTHING, Access, RefusedError, Tokens, require_access
from polyhop.server.problems import problem

MAX_REQUESTS = 512  # at once; more are answered 503; chosen: above 200 callers with their pages' own requests
MAX_CONNECTIONS = 4_096  # at once, and at most half of the files that may be open; chosen
HEADER_SECONDS = 10.0  # for the whole header of a connection's next request
MAX_OPEN_BYTES = 64 << 10  # of a request's body before the token is known; chosen: a login form has 100
MAX_BODY_BYTES = 64 << 20  # of a request; chosen: a million questions of 60 characters
BODY_SECONDS = 60.0  # between two parts of a request's body; chosen: a slow network sends some, a stalled client none
_log = logging.getLogger(__name__)
COOKIE = "polyhop_session"
LOGIN = "/login"
_OPEN_PATHS = (LOGIN, "/static/", "/healthz")
SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "style-src-attr 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
CSRF_SECRET = secrets.token_bytes(32)  # of this process: forms of an earlier one are asked again


class RequestGuard:
    """Lets through what may be asked: the right host, the token, the same site, bodies of a bounded size and time.

    Args:
        app: What is guarded.
        hosts: Names that a Host header may have; with a token any, since only those who know it come further.
        tokens: Asked of each request, as `Authorization: Bearer` or the cookie of the login form, if there are any.
    """

    def __init__(self, app: ASGIApp, *, hosts: Collection[str], tokens: Tokens) -> None:
        self._app, self._hosts, self._tokens = app, {name.lower() for name in hosts}, tokens
        self._running = 0  # requests that passed the check; those that need no token do not count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or answers why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun, refused, access = False, list[RefusedError](), EVERYTHING

        async def send_guarded(message: Message) -> None:
            nonlocal has_begun
            if refused and not has_begun:
                return  # the framework's own words for the body that it could not read
            if message["type"] == "http.response.start":
                has_begun = True
                if access.name:
                    _log.info("%s: %s %s %d", access.name, scope["method"], scope["path"], message["status"])
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            access = self._check(scope)
            CURRENT.set(access)  # of this request's task
            require_access(access, scope["method"], scope["path"], scope["query_string"].decode("latin-1"))
            if scope["path"].startswith(_OPEN_PATHS):
                await self._app(scope, _bounded(receive, refused, MAX_OPEN_BYTES), send_guarded)
            else:
                await self._count(scope, _bounded(receive, refused, MAX_BODY_BYTES), send_guarded, refused)
        except RefusedError as error:
            refused = [error]
        if refused and not has_begun:
            answer = _refusal(scope, refused.pop())
            await answer(scope, receive, send_guarded)

    async def _count(self, scope: Scope, receive: Receive, send: Send, refused: list[RefusedError]) -> None:
        """Passes a request on; it counts from when its body is complete."""
        headers, is_counted = Headers(scope=scope), False

        def count() -> None:
            nonlocal is_counted
            if self._running >= MAX_REQUESTS:
                sentence = f"The server already answers {MAX_REQUESTS} requests; ask again later."
                refused.append(RefusedError(503, sentence))
                raise refused[-1]
            self._running, is_counted = self._running + 1, True

        async def receive_counted() -> Message:
            message = await receive()
            if not is_counted and not message.get("more_body", False):
                count()
            return message

        if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
            count()
        try:
            await self._app(scope, receive_counted, send)
        finally:
            self._running -= is_counted

    def _check(self, scope: Scope) -> Access:
        headers, path = Headers(scope=scope), scope["path"]
        host = _without_port(headers.get("host", ""))
        are_needed = self._tokens.are_needed()
        if host not in self._hosts and not are_needed:
            raise RefusedError(421, f"This server is not '{host}'; ask it by its address, http://127.0.0.1:PORT.")
        is_link = scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
        if not is_link and is_from_elsewhere(headers):
            raise RefusedError(
                403, "Cross-site requests are refused; send the request from Polyhop's own pages or from a program."
            )
        access = self._access(headers) if are_needed and not path.startswith(_OPEN_PATHS) else EVERYTHING
        if access is None:
            raise RefusedError(
                401, "A token is required; send it in the header Authorization, after the word Bearer, or log in."
            )
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            raise RefusedError(413, f"The request is {length} bytes long; the limit is {MAX_BODY_BYTES:,}.")
        return access

    def _access(self, headers: Headers) -> Access | None:
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        given = credentials.strip() if scheme.lower() == "bearer" else ""
        return self._tokens.access(given, cookie_parser(headers.get("cookie", "")).get(COOKIE, ""))


class ServerProtocol(H11Protocol):
    """HTTP/1.1 on one connection, which is closed unless the whole header of its next request comes in time.

    Beyond the limit of connections the one that has waited longest for a header is closed, so that clients that send
    nothing keep no other client out.
    """

    waiting_since: float | None = None  # on the clock of the loop; None while a request is answered
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Starts the wait for the first header, and makes room for this connection."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > most_connections():
            idle = (one for one in self.connections if isinstance(one, ServerProtocol) and one.waiting_since)
            min(idle, key=lambda one: one.waiting_since or 0.0).give_way()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the wait."""
        super().connection_lost(exc)
        self._stop_waiting()

    def data_received(self, data: bytes) -> None:
        """Takes a part of a request; the wait ends with its header."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._wait()
        else:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Lets the connection make room for others until its next request; uvicorn closes it after 5 s."""
        super().on_response_complete()
        if self.cycle.response_complete:
            self.waiting_since = self.loop.time()

    def give_way(self) -> None:
        """Closes the connection."""
        self._stop_waiting()
        self.transport.abort()

    def _wait(self) -> None:
        if self._deadline is None:
            self.waiting_since = self.waiting_since or self.loop.time()
            self._deadline = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        self.waiting_since = None
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def most_connections() -> int:
    """Connections that may be open at once."""
    return min(MAX_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


def allow_files() -> None:
    """Raises the number of files that this process may open to what the system allows it, as far as it is of use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard > soft:
        wanted = 2 * MAX_CONNECTIONS if hard == resource.RLIM_INFINITY else min(2 * MAX_CONNECTIONS, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


def is_from_elsewhere(headers: Headers) -> bool:
    """Returns True if a page of another site sent a request or led to it."""
    site, origin = headers.get("sec-fetch-site", "none"), headers.get("origin")
    is_foreign = origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower()
    return site in {"cross-site", "same-site"} or is_foreign


def own_hosts(host: str) -> set[str]:
    """Names by which this server may be asked when it listens on a host."""
    named = {"127.0.0.1", "localhost", "::1", host.lower()}
    return named if is_loopback(host) else {*named, gethostname().lower()}


def is_loopback(host: str) -> bool:
    """Returns whether an address is reachable from this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if host.count(":") == 1 else host.lower()


def _bounded(receive: Receive, refused: list[RefusedError], most_bytes: int) -> Receive:
    """The same request, ended by an error where its body is too long or its next part does not come.

    The error is also kept in `refused`, since frameworks turn what goes wrong with a body into their own error.
    """
    taken, is_whole = 0, False

    async def receive_bounded() -> Message:
        nonlocal taken, is_whole
        if is_whole:
            return await receive()  # waits until the client goes
        try:
            message = await asyncio.wait_for(receive(), BODY_SECONDS)
        except TimeoutError:
            refused.append(RefusedError(408, f"The rest of the request did not arrive within {BODY_SECONDS:g} s."))
            raise refused[-1] from None
        if message["type"] == "http.request":
            taken += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)
            if taken > most_bytes:
                refused.append(RefusedError(413, f"The request is longer than {most_bytes:,} bytes."))
                raise refused[-1]
        elif message["type"] == "http.disconnect":
            refused.append(RefusedError(400, "The client disconnected before its request was complete."))
            raise refused[-1]
        return message

    return receive_bounded


def _refusal(scope: Scope, refused: RefusedError) -> Response:
    """A page's reader is led to the login form; a program gets a problem document."""
    if refused.status == 401 and "text/html" in Headers(scope=scope).get("accept", ""):
        return Response(status_code=303, headers={"location": LOGIN})
    again = {"www-authenticate": "Bearer"} if refused.status == 401 else None
    return problem(scope["path"], refused.status, str(refused), type(refused).__name__, again)


def csrf_token() -> str:
    """Token of forms that change something, unknown to other sites."""
    return hmac.new(CSRF_SECRET, b"forms", sha256).hexdigest()
