"""The limiter of model calls, on a clock of its own."""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from time import sleep as really_sleep

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.errors import ModelRateLimitError, ModelTimeoutError, ModelUnavailableError
from polyhop.warehouse.models.calls import RateLimiter


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


def _limiter(requests: int = 0, concurrency: int = 8) -> tuple[RateLimiter, Clock]:
    clock = Clock()
    return RateLimiter(requests, concurrency, clock=clock, sleep=clock.sleep), clock


LATE = ModelTimeoutError("late")


def _rate_limit(seconds: float | None = None) -> ModelRateLimitError:
    return ModelRateLimitError("slower", seconds)


def _starts(limiter: RateLimiter, clock: Clock, calls: int) -> list[float]:
    starts = []
    for _ in range(calls):
        with limiter.call():
            starts.append(clock.now - 1000)
    return starts


def test_without_limits_nothing_waits() -> None:
    limiter, clock = _limiter()
    assert _starts(limiter, clock, 5) == [0.0] * 5


def test_requests_are_spread_over_the_minute() -> None:
    limiter, clock = _limiter(requests=60)
    assert _starts(limiter, clock, 4) == pytest.approx([0, 1, 2, 3])


@given(st.integers(1, 600), st.lists(st.floats(0, 30), min_size=1, max_size=80))
def test_no_minute_holds_more_than_the_limit_and_one(per_minute: int, idle: list[float]) -> None:
    limiter, clock = _limiter(requests=per_minute)
    starts = []
    for seconds in idle:
        clock.now += seconds
        with limiter.call():
            starts.append(clock.now)
    for first in starts:
        assert sum(first <= start < first + 60 - 1e-6 for start in starts) <= per_minute + 1


def test_a_429_pauses_everybody_as_long_as_it_asks() -> None:
    limiter, clock = _limiter()
    limiter.failed(clock.now, _rate_limit(7))
    assert _starts(limiter, clock, 2) == pytest.approx([7, 7])


def test_a_pause_of_a_day_is_cut_to_five_minutes() -> None:
    limiter, clock = _limiter()
    limiter.failed(clock.now, _rate_limit(86_400))
    assert _starts(limiter, clock, 1) == pytest.approx([300])


@pytest.mark.real_time
def test_after_a_429_half_as_many_calls_are_in_flight_on_real_threads() -> None:
    limiter = RateLimiter(concurrency=4)
    for _ in range(4):
        limiter.succeeded()
    limiter.failed(time.monotonic(), _rate_limit())
    lock, in_flight, most = Lock(), 0, 0

    def call(_: int) -> None:
        nonlocal in_flight, most
        with limiter.call():
            with lock:
                in_flight += 1
                most = max(most, in_flight)
            really_sleep(0.01)
            with lock:
                in_flight -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(call, range(12)))
    assert most == 2


def test_a_call_that_raises_is_no_longer_in_flight() -> None:
    limiter, clock = _limiter(concurrency=1)
    with pytest.raises(KeyError), limiter.call():
        raise KeyError
    assert _starts(limiter, clock, 1) == [0.0]


def test_the_first_call_goes_alone_and_more_follow_while_replies_come_in_time() -> None:
    limiter = RateLimiter(concurrency=8, timeout_seconds=100)
    sizes = [limiter.size]
    for _ in range(10):
        limiter.succeeded(seconds=5)
        sizes.append(limiter.size)
    assert sizes == [1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8]


@pytest.mark.parametrize("error", [LATE, _rate_limit()])
def test_a_timeout_or_a_429_halves_the_calls_in_flight_once_and_replies_bring_them_back_one_per_round(
    error: ModelUnavailableError,
) -> None:
    limiter, clock = _limiter(concurrency=8)
    for _ in range(8):
        limiter.succeeded()
    started = clock.now
    clock.now += 1
    for _ in range(8):
        limiter.failed(started, error)
    assert limiter.size == 4
    for _ in range(4):
        limiter.succeeded()
    assert 4.8 < limiter.size < 5
    for _ in range(40):
        limiter.succeeded()
    assert limiter.size == 8


def test_other_failures_halve_nothing() -> None:
    limiter, clock = _limiter(concurrency=8)
    limiter.succeeded()
    limiter.failed(clock.now, ModelUnavailableError("down"))
    assert limiter.size == 2


def test_the_calls_in_flight_never_become_none() -> None:
    limiter, clock = _limiter(concurrency=8)
    for _ in range(20):
        clock.now += 1
        limiter.failed(clock.now, LATE)
    assert limiter.size == 1
    assert _starts(limiter, clock, 1) == [20.0]


def _asked_of_one_slot(seconds: list[float], timeout: float, most: int) -> tuple[int, int]:
    """(timeouts, most calls in flight) of a server that works on one call at a time, for replies that take so long."""
    limiter = RateLimiter(concurrency=most, timeout_seconds=timeout)
    now, free_at, timeouts, widest = 0.0, 0.0, 0, 0
    in_flight: list[tuple[float, float, int]] = []  # begun, ends, calls in flight when it began
    waiting = list(seconds)
    while waiting or in_flight:
        while waiting and len(in_flight) < int(limiter.size):
            free_at = max(free_at, now) + waiting.pop(0)
            in_flight.append((now, free_at, len(in_flight) + 1))
        widest = max(widest, len(in_flight))
        begun, ends, beside = in_flight.pop(0)
        now = max(now, ends)
        if ends - begun > timeout:
            timeouts += 1
            limiter.failed(time.monotonic(), LATE)
        else:
            limiter.succeeded(seconds=ends - begun, in_flight=beside)
    return timeouts, widest


@given(seconds=st.lists(st.floats(8, 10), min_size=1, max_size=60), timeout=st.floats(12, 200), most=st.integers(1, 32))
def test_a_server_with_one_slot_is_never_asked_so_much_at_once_that_a_reply_comes_late(
    seconds: list[float], timeout: float, most: int
) -> None:
    timeouts, widest = _asked_of_one_slot(seconds, timeout, most)
    assert timeouts == 0
    assert widest <= max(1, int(timeout / 8))
