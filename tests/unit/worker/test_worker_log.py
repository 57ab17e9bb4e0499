"""What a worker says of itself in the log."""

import logging

import pytest

from polyhop.schemas.errors import StoreUnavailableError
from polyhop.schemas.queue import FailedQuestion
from polyhop.worker.loop import WorkerLog


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> WorkerLog:
    caplog.set_level(logging.DEBUG, logger="polyhop.worker.loop")
    return WorkerLog("host-1")


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def test_an_outage_of_the_queue_is_said_once_and_so_is_its_end(
    log: WorkerLog, caplog: pytest.LogCaptureFixture
) -> None:
    away = StoreUnavailableError("the queue is busy")
    assert all(log.is_passing(away, "questions are claimed") for _ in range(5))
    log.claimed([])
    log.claimed([])
    assert said(caplog) == [
        ("WARNING", "the queue is unavailable while questions are claimed"),
        ("INFO", "the queue is available again"),
    ]
    assert caplog.records[0].__dict__["fields"] == {"worker": "host-1", "error": "the queue is busy"}


def test_failed_questions_are_named_and_their_texts_are_not(log: WorkerLog, caplog: pytest.LogCaptureFixture) -> None:
    failed = [FailedQuestion("lease-1", "the index is gone", "UnknownIndexError", retryable=False)]
    log.lost(2, failed, {"lease-1": "3/q17"})
    assert [record.__dict__["fields"] for record in caplog.records] == [
        {"worker": "host-1", "questions": 2},
        {"worker": "host-1", "question": "3/q17", "error": "the index is gone"},
    ]
