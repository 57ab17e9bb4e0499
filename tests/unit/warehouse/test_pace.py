"""How fast a model replies, in lines for whoever waits, on a clock of its own."""

from datetime import datetime, timedelta

import pytest

from polyhop.schemas.chat import Usage
from polyhop.warehouse.models.limits import FIRST_LINE_SECONDS, SECONDS_BETWEEN_LINES, Pace


class Time:
    """Passes only on order."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def clock(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2026, 11, 22, 14, 0) + timedelta(seconds=self.seconds)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def pace(time: Time, lines: list[str]) -> Pace:
    return Pace(lines.append, clock=time.clock, now=time.now)


def reply(pace: Pace, time: Time, seconds: float = 20.0, tokens: int = 400) -> None:
    pace.started()
    time.seconds += seconds
    pace.ended(Usage(1, 100, tokens, 0.0, seconds), "", has_text=True)
    pace.settled(1)


def test_a_slow_server_is_described_with_the_end_of_the_run(pace: Pace, time: Time, lines: list[str]) -> None:
    pace.expect(33)
    for _ in range(3):
        reply(pace, time)
    pace.speak("openai/x", left=5)
    forecast = "30 requests are left, the run would end in about 10 min, 22 Nov 14:11"
    assert lines == [f"openai/x: 20.0 s per reply, 20 tokens/s, 0 in flight; {forecast}"]


def test_before_the_first_reply_the_line_says_how_long_there_was_none(pace: Pace, time: Time, lines: list[str]) -> None:
    pace.started()
    pace.speak("openai/x", left=5)
    assert lines == []
    time.seconds += FIRST_LINE_SECONDS
    pace.speak("openai/x", left=5)
    forecast = "5 requests are left, one at a time they would take more than 75 s"
    assert lines == [f"openai/x: no reply after 15 s, 1 in flight; {forecast}"]


def test_replies_that_came_too_late_are_counted_in_the_line(pace: Pace, time: Time, lines: list[str]) -> None:
    pace.started()
    time.seconds += 120
    pace.ended(Usage(1, 100, 4096, 0.0, 120.0), "ModelTimeoutError", has_text=False)
    pace.speak("m", left=1)
    assert "no reply after 120 s, 0 in flight, calls that took longer than models.timeout_seconds: 1;" in lines[0]


def test_lines_come_once_a_minute_however_often_somebody_looks(pace: Pace, time: Time, lines: list[str]) -> None:
    pace.started()
    for _ in range(200):
        time.seconds += 1
        pace.speak("m", left=1)
    assert len(lines) == 1 + int((200 - FIRST_LINE_SECONDS) / SECONDS_BETWEEN_LINES)


def test_a_quick_run_says_nothing(pace: Pace, time: Time, lines: list[str]) -> None:
    for _ in range(10):
        reply(pace, time, seconds=1)
        pace.speak("m", left=1)
    assert lines == []


def test_what_a_cache_answers_shortens_the_forecast(pace: Pace, time: Time, lines: list[str]) -> None:
    pace.expect(100)
    pace.cached(90)
    reply(pace, time)
    pace.speak("m", left=1)
    assert "9 requests are left, the run would end in about 3 min" in lines[0]
