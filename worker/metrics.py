"""Prometheus metrics and /healthz of a worker, on loopback unless configured otherwise."""

import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, Counter, Histogram, make_wsgi_app

from polyhop.schemas.errors import StoreError

LOOPBACK = "127.0.0.1"


class WorkerMetrics:
    """Counters of one worker, in a registry of their own: questions by outcome, seconds of batches by strategy."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.questions = Counter("polyhop_questions", "Questions by outcome", ["outcome"], registry=self.registry)
        self.seconds = Histogram(
            "polyhop_batch_seconds", "Seconds per batch of one strategy", ["strategy"], registry=self.registry
        )
        self.outages = Counter("polyhop_model_outages", "Times the circuit breaker opened", registry=self.registry)
        self.heartbeats_failed = Counter(
            "polyhop_heartbeats_failed", "Heartbeats that did not reach the queue", registry=self.registry
        )


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Requests are not news."""


def serve_metrics(metrics: WorkerMetrics, port: int, address: str = LOOPBACK) -> Callable[[], None]:
    """Serves /metrics and /healthz in a thread; returns what stops it."""
    prometheus = make_wsgi_app(metrics.registry)

    def application(environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environment.get("PATH_INFO") == "/healthz":
            start("200 OK", [("Content-Type", "text/plain")])
            return [b"ok\n"]
        page: Iterable[bytes] = prometheus(environment, start)
        return page

    try:
        server = make_server(address, port, application, _Server, _Silent)
    except OSError as error:
        raise StoreError(f"Cannot serve metrics on {address}:{port}: {error.strerror}; choose another port.") from error
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()

    def stop() -> None:
        server.shutdown()
        server.server_close()

    return stop
