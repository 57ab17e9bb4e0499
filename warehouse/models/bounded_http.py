"""The HTTP client of model calls: a time limit that bounds a reply as a whole, and replies without nonsense in `usage`.

httpx bounds each read alone, so a server that sends a byte now and then would be waited for without end.
"""

import json
import ssl
import time
from collections.abc import Callable, Iterable
from math import isfinite
from threading import local
from typing import Any

import httpcore
import httpx

_CALL = local()
"""`deadline`: when the call of this thread must have its whole reply, by the monotonic clock."""


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
    if not _is_counted(document["usage"]):
        del document["usage"]
        response._content = json.dumps(document).encode()  # noqa: SLF001 - httpx has no public way


def _is_counted(usage: object) -> bool:
    """Whether all token counts are whole numbers."""
    if not isinstance(usage, dict):
        return False
    counts = [value for name, value in usage.items() if name.endswith("_tokens")]
    return all(isinstance(count, int | float) and isfinite(count) and count == int(count) for count in counts)


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
