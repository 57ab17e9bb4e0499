"""The HTTP side of the scripted model server: keep-alive, one thread per connection, crashes on order.

Decides nothing (scripted_server.py does).
"""

import contextlib
import json
import select
import socket
import struct
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from scripted_behaviour import Behaviour
from scripted_bodies import chat_body, embeddings_body

if TYPE_CHECKING:
    from scripted_server import ModelServer, Recorded


class Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    model_server: "ModelServer"

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self.connections: set[socket.socket] = set()

    def cut_connections(self) -> None:
        """Ends kept-alive connections, as the death of a process does."""
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is not news; anything else is."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Http

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        with contextlib.suppress(OSError, ValueError):
            super().finish()

    def log_message(self, *_args: Any) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        asked = self.server.model_server.requests if self.path == "/requests" else []
        self._send(200, json.dumps([asdict(one) for one in asked]))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        owner = self.server.model_server
        owner.enter()
        try:
            asked, chosen = owner.take(self.path, body)
            chosen = chosen.echoing(self.headers.get("Authorization", ""))
            with owner.turn():
                if self._is_gone():
                    return
                time.sleep(owner.wait_seconds(chosen))
            self._treat(asked, chosen)
        finally:
            owner.leave()

    def _is_gone(self) -> bool:
        """Whether the client has hung up while it waited for its turn; no server works for nobody."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        is_gone = bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)
        self.close_connection = self.close_connection or is_gone
        return is_gone

    def _treat(self, asked: "Recorded", chosen: Behaviour) -> None:
        error = json.dumps({"error": {"message": chosen.message, "type": "scripted", "code": chosen.code}})
        match chosen.kind:
            case "rate_limit":
                headers = {} if chosen.retry_after is None else {"Retry-After": chosen.retry_after}
                self._send(429, error, headers)
            case "error":
                headers = {} if chosen.retry_after is None else {"Retry-After": chosen.retry_after}
                self._send(chosen.status or 500, error, headers)
            case "html":
                page = "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
                self._send(chosen.status or 502, page, {"Content-Type": "text/html"})
            case "drop":
                self._reset()
            case _:
                self._reply(asked, chosen)

    def _reply(self, asked: "Recorded", chosen: Behaviour) -> None:
        if asked.path.endswith("/embeddings"):
            made = embeddings_body(asked.body, chosen.kind, self.server.model_server.encode)
        else:
            made = chat_body(asked, chosen)
        if chosen.kind.startswith("trickle"):
            self._trickle(b"HTTP/1.1 200 OK\r\nX-Slow: " if chosen.kind == "trickle_header" else b"")
            return
        text = json.dumps(made)
        if chosen.kind == "drop_mid":
            data = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2])
            self.wfile.flush()
            self._reset()
            return
        self._send(200, text)

    def _trickle(self, begun: bytes) -> None:
        """A byte now and then, until the client hangs up."""
        if not begun:
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.sendall(begun)
            for _ in range(400):
                self.connection.sendall(b" ")
                time.sleep(0.05)

    def _reset(self) -> None:
        """Closes the connection with a reset, as a crashed server does."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def _send(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        data = text.encode()
        self.send_response(status)
        for name, value in ({"Content-Type": "application/json"} | dict(headers or {})).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
