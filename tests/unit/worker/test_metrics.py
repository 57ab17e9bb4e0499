"""/metrics and /healthz over real HTTP."""

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from polyhop.schemas.errors import StoreError
from polyhop.worker.loop import WorkerMetrics, serve_metrics


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        found: int = probe.getsockname()[1]
        return found


@pytest.fixture
def metrics(port: int) -> Iterator[WorkerMetrics]:
    counted = WorkerMetrics()
    stop = serve_metrics(counted, port)
    yield counted
    stop()


def page(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        text: str = answer.read().decode()
        return text


def test_healthz_says_ok(metrics: WorkerMetrics, port: int) -> None:
    assert page(port, "/healthz") == "ok\n"


def test_metrics_count_questions_by_outcome(metrics: WorkerMetrics, port: int) -> None:
    for outcome, count in (("finished", 3), ("failed", 2), ("released", 1), ("finished", 1)):
        metrics.questions.labels(outcome).inc(count)
    metrics.seconds.labels("bridge").observe(0.25)
    metrics.outages.inc()
    metrics.heartbeats_failed.inc()
    text = page(port, "/metrics")
    assert 'polyhop_questions_total{outcome="finished"} 4.0' in text
    assert 'polyhop_questions_total{outcome="failed"} 2.0' in text
    assert 'polyhop_questions_total{outcome="released"} 1.0' in text
    assert 'polyhop_batch_seconds_sum{strategy="bridge"} 0.25' in text
    assert "polyhop_model_outages_total 1.0" in text
    assert "polyhop_heartbeats_failed_total 1.0" in text


def test_only_this_machine_is_served_unless_told_otherwise(metrics: WorkerMetrics, port: int) -> None:
    """127.0.0.2 is this machine too, but not the address that was bound."""
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", port), timeout=5).close()


def test_a_taken_port_is_named(metrics: WorkerMetrics, port: int) -> None:
    with pytest.raises(StoreError, match=f"127.0.0.1:{port}"):
        serve_metrics(WorkerMetrics(), port)


def test_nothing_is_served_after_the_end(port: int) -> None:
    serve_metrics(WorkerMetrics(), port)()
    with pytest.raises(urllib.error.URLError):
        page(port, "/healthz")
