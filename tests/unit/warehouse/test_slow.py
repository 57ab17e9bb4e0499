"""Statements that take long are logged with their beginning, and how long they took."""

import logging
from typing import Any

import pytest

from polyhop.warehouse import statements as slow
from polyhop.warehouse.statements import slow_noted

LOG = logging.getLogger("polyhop.test")


def fields(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [vars(record)["fields"] for record in caplog.records]


@pytest.fixture(autouse=True)
def ticks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the clock says, one after the other."""
    said: list[float] = []
    monkeypatch.setattr(slow, "perf_counter", lambda: said.pop(0))
    return said


def test_a_slow_statement_is_logged_on_one_line_and_cut(caplog: pytest.LogCaptureFixture, ticks: list[float]) -> None:
    caplog.set_level(logging.INFO, "polyhop.test")
    ticks += [10.0, 11.25]
    with slow_noted(LOG, "duckdb", "SELECT\n   id\nFROM passages " + "x" * 200):
        pass
    assert fields(caplog) == [{"store": "duckdb", "statement": "SELECT id FROM passages " + "x" * 56, "seconds": 1.25}]


def test_a_quick_one_is_not(caplog: pytest.LogCaptureFixture, ticks: list[float]) -> None:
    caplog.set_level(logging.DEBUG, "polyhop.test")
    ticks += [10.0, 11.0]
    with slow_noted(LOG, "queue", "claim"):
        pass
    assert not caplog.records


def test_one_that_fails_late_is_logged_and_its_error_goes_on(
    caplog: pytest.LogCaptureFixture, ticks: list[float]
) -> None:
    caplog.set_level(logging.INFO, "polyhop.test")
    ticks += [0.0, 30.0]
    with pytest.raises(TimeoutError), slow_noted(LOG, "neo4j", "MATCH (n) RETURN n"):
        raise TimeoutError
    assert fields(caplog) == [{"store": "neo4j", "statement": "MATCH (n) RETURN n", "seconds": 30.0}]
