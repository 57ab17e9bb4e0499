"""What is tried again is said once per pause: attempt, pause and the error's class, without what the error holds."""

import logging
from typing import Any

import pytest
from tenacity import Retrying, stop_after_attempt, wait_fixed

from polyhop.warehouse.statements import noted


def test_every_pause_is_a_record_without_the_error_s_details(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("polyhop.tests.retries")
    slept: list[float] = []
    retrying = Retrying(
        stop=stop_after_attempt(3),
        wait=wait_fixed(0.12345),
        sleep=slept.append,
        before_sleep=noted(log, "a call of the model x"),
        reraise=True,
    )

    def fail() -> None:
        raise ValueError("sk-secret")

    with caplog.at_level(logging.INFO, log.name), pytest.raises(ValueError, match="sk-secret"):
        retrying(fail)
    records: list[Any] = caplog.records
    assert [record.fields for record in records] == [
        {"attempt": number, "pause": 0.123, "error": "ValueError"} for number in (1, 2)
    ]
    assert {record.getMessage() for record in records} == {"a call of the model x is tried again"}
    assert "sk-secret" not in caplog.text
    assert len(slept) == 2
