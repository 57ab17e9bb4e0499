"""What model calls may take: the budget of a run, prices, token counts, and the limiter on a clock of its own."""

import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from queue_parts import Clock

from polyhop.schemas import errors
from polyhop.schemas.chat import Usage
from polyhop.schemas.errors import BudgetExceededError, ConfigurationError
from polyhop.schemas.settings import ModelSettings
from polyhop.warehouse.models import budget as counts
from polyhop.warehouse.models.budget import Budget, count_tokens, plausible_counts, price_of
from polyhop.warehouse.models.calls import RateLimiter, Stop, run_all

PRICE = (1.0, 10.0)
LATE, SLOWER = errors.ModelTimeoutError("late"), errors.ModelRateLimitError("slower", None)


def used(prompt: int, completion: int, cost: float = 0.0) -> Usage:
    return Usage(1, prompt, completion, cost, 0.1)


def test_a_limit_in_dollars_needs_a_price_per_million_tokens() -> None:
    assert Budget(None, None, PRICE).cost(500_000, 20_000) == pytest.approx(0.7)
    assert (Budget(None, None).cost(1000, 1000), Budget(None, None).cost(0, 0)) == (None, 0)
    with pytest.raises(ConfigurationError, match=r"set models\.price"):
        Budget(1.0, None)
    with pytest.raises(ConfigurationError, match="price of the model is unknown"):
        Budget(1.0, None, PRICE).priced(None)


def test_a_call_that_just_fits_is_let_through_and_the_next_is_not() -> None:
    budget = Budget(None, 100)
    budget.settle(budget.reserve(0, 100), Usage())  # was not made, and costs nothing
    budget.settle(budget.reserve(60, 40), used(60, 30))
    budget.settle(budget.reserve(5, 5), used(5, 5))
    with pytest.raises(
        BudgetExceededError, match=r"100 of 100 tokens .* spent .*, and the next call may take 1 tokens"
    ):
        budget.reserve(1, 0)


def test_the_error_that_stopped_a_round_is_raised_whichever_call_ends_first() -> None:
    def work(_item: int, stop: Stop) -> None:
        stop.because(BudgetExceededError("spent"))
        raise ConfigurationError("stopped")

    with pytest.raises(BudgetExceededError, match="spent"):
        run_all([1, 2], work, 2, lambda _item, _result: None, "test")


def test_dollars_are_counted_by_the_price_or_as_the_gateway_says() -> None:
    budget = Budget(0.01, None, PRICE)
    budget.settle(budget.reserve(1000, 200), used(1000, 100))
    budget.settle(budget.reserve(1000, 200), used(1000, 100, cost=0.004))
    with pytest.raises(BudgetExceededError, match=r"spent \(0\.0060 USD of 0\.01 USD\).*raise .*max_cost_usd"):
        budget.reserve(1000, 400)
    assert budget.priced((0, 0)).reserve(10**9, 0)  # models of different prices share the account
    assert budget.reserve(1000, 299)


def test_an_unknown_price_is_named_and_is_no_amount() -> None:
    budget = Budget(None, 100)
    budget.settle(budget.reserve(50, 40), Usage(1, 50, 40, None))
    sentence = r"90 of 100 tokens are spent \(cost unknown\), and the next call may take 20 tokens \(cost unknown\)"
    with pytest.raises(BudgetExceededError, match=sentence):
        budget.reserve(10, 10)


def test_near_the_limit_a_call_waits_for_those_in_flight() -> None:
    budget, let_through = Budget(None, 100), list[Any]()
    first = budget.reserve(0, 80)
    thread = threading.Thread(target=lambda: let_through.append(budget.reserve(0, 80)))
    thread.start()
    time.sleep(0.05)
    assert let_through == []
    budget.settle(first, used(0, 20))
    thread.join(timeout=60)
    assert [reservation.tokens for reservation in let_through] == [80]


def test_a_report_below_our_own_count_lifts_no_limit() -> None:
    budget = Budget(None, 100)
    budget.settle(budget.reserve(60, 20), used(15, 5), own=used(60, 20))
    with pytest.raises(BudgetExceededError, match="80 of 100 tokens"):
        budget.reserve(21, 0)


@given(
    calls=st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 50), st.floats(0, 1), st.integers(), st.integers()), max_size=30
    ),
    limit=st.integers(0, 300),
)
def test_whatever_a_server_reports_the_limits_hold_by_our_own_count(calls: list[tuple[int, ...]], limit: int) -> None:
    budget, spent = Budget(limit / 1e6, limit, (1, 1)), 0
    for prompt, longest, share, reported_prompt, reported_completion in calls:
        try:
            reservation = budget.reserve(prompt, longest)
        except BudgetExceededError:
            continue
        own = prompt, int(longest * share)
        taken, _ = plausible_counts((reported_prompt, reported_completion), own, longest)
        budget.settle(reservation, used(*taken), own=used(*own))
        spent += sum(own)
    assert spent <= limit


@pytest.mark.parametrize(
    ("limits", "call", "sentence"),
    [
        ((None, 5), (6, 0), r"used up: 0 of 5 tokens are spent \(0\.00 USD\), .* max_cost_usd\.$"),
        ((0.5, None), (0, 100_000), r"used up: 0 tokens are spent \(0\.00 USD of 0\.50 USD\), .* take 10000"),
        ((0.0, None), (1, 0), "used up"),
    ],
)
def test_limits_are_named(limits: tuple[float | None, int | None], call: tuple[int, int], sentence: str) -> None:
    assert Budget(*limits, (0, 0)).reserve(0, 5)
    with pytest.raises(BudgetExceededError, match=sentence):
        Budget(*limits, PRICE).reserve(*call)


def test_a_price_is_set_or_listed() -> None:
    for model in ("openai/gpt-4o-mini", "gpt-4o-mini"):
        assert price_of(model, ModelSettings()) == pytest.approx((0.15, 0.6))
        assert price_of(model, ModelSettings(price=(0, 0))) == (0, 0)
    assert price_of("openai/my-own-model", ModelSettings()) is None


def test_tokens_are_those_of_the_models_own_tokenizer() -> None:
    # Counted with OpenAI's tokenizer page: "Hello world" is two tokens in either encoding.
    assert count_tokens("Hello world", "openai/gpt-4o-mini") == count_tokens("Hello world", "gpt-3.5-turbo") == 2
    assert count_tokens("", "openai/gpt-4o-mini") == 0
    assert count_tokens("北京大学是中国的", "openai/gpt-4o") < count_tokens("北京大学是中国的", "openai/gpt-4")
    assert count_tokens("<|endoftext|>", "openai/gpt-4o-mini") > 1  # a text, and no special token
    assert counts.count_prompt_tokens("Hello world", "openai/gpt-4o-mini") == 9


def test_the_estimate_without_a_tokenizer_is_within_15_percent(demo_folder: Path) -> None:
    lines = (demo_folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    corpus = " ".join(json.loads(line)["text"] for line in lines)
    for text in (corpus[:1500], corpus):
        counted = count_tokens(text, "openai/gpt-4o-mini")
        assert abs(counts.estimated_tokens(text) - counted) <= 0.15 * counted


def _limiter(requests: int = 0, concurrency: int = 8) -> tuple[RateLimiter, Clock]:
    """A limiter, and its time, which passes only while somebody sleeps."""
    clock = Clock()
    return RateLimiter(requests, concurrency, clock=clock, sleep=clock.advance), clock


def _starts(limiter: RateLimiter, clock: Clock, idle: Sequence[float]) -> list[float]:
    """When calls start, before each of which so many seconds pass."""
    starts = []
    for seconds in idle:
        clock.advance(seconds)
        with limiter.call():
            starts.append(clock.now - 1_000_000)
    return starts


@given(st.integers(1, 600), st.lists(st.floats(0, 30), min_size=1, max_size=80))
def test_no_minute_holds_more_than_the_limit_and_one(per_minute: int, idle: list[float]) -> None:
    starts = _starts(*_limiter(requests=per_minute), idle)
    for first in starts:
        assert sum(first <= start < first + 60 - 1e-6 for start in starts) <= per_minute + 1


@pytest.mark.parametrize(
    ("requests", "pause", "starts"),
    [(0, None, [0, 0, 0, 0]), (60, None, [0, 1, 2, 3]), (0, 7, [7, 7]), (0, 86_400, [300])],
    ids=["no limit", "spread over the minute", "a 429 pauses everybody", "a day is cut to five minutes"],
)
def test_calls_start_when_the_limits_let_them(requests: int, pause: float | None, starts: list[float]) -> None:
    limiter, clock = _limiter(requests)
    if pause is not None:
        limiter.failed(clock.now, errors.ModelRateLimitError("slower", pause))
    assert _starts(limiter, clock, [0] * len(starts)) == pytest.approx(starts)


def test_the_first_call_goes_alone_and_more_follow_while_replies_come_in_time() -> None:
    limiter = RateLimiter(concurrency=8, timeout_seconds=100)
    sizes = []
    for _ in range(10):
        sizes.append(limiter.size)
        limiter.succeeded(seconds=5)
    assert sizes == [1, 2, 3, 4, 5, 6, 7, 8, 8, 8]


@pytest.mark.parametrize("error", [LATE, SLOWER])
def test_a_timeout_or_a_429_halves_the_calls_in_flight_until_replies_come(error: errors.ModelUnavailableError) -> None:
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


def test_the_calls_in_flight_never_become_none() -> None:
    limiter, clock = _limiter(concurrency=8)
    limiter.succeeded()
    limiter.failed(clock.now, errors.ModelUnavailableError("down"))
    assert limiter.size == 2  # halved by a timeout or a 429 only
    for _ in range(20):
        clock.now += 1
        limiter.failed(clock.now, LATE)
    assert limiter.size == 1
    with pytest.raises(KeyError), limiter.call():
        raise KeyError
    assert _starts(limiter, clock, [0]) == [20.0]


@given(seconds=st.lists(st.floats(8, 10), min_size=1, max_size=60), timeout=st.floats(12, 200), most=st.integers(1, 32))
def test_one_slot_is_never_asked_too_much_at_once(seconds: list[float], timeout: float, most: int) -> None:
    """A server that works on one call at a time, for replies that take so long."""
    limiter = RateLimiter(concurrency=most, timeout_seconds=timeout)
    now, free_at = 0.0, 0.0
    in_flight: list[tuple[float, float, int]] = []  # begun, ends, calls in flight when it began
    waiting = list(seconds)
    while waiting or in_flight:
        while waiting and len(in_flight) < int(limiter.size):
            free_at = max(free_at, now) + waiting.pop(0)
            in_flight.append((now, free_at, len(in_flight) + 1))
        assert len(in_flight) <= max(1, int(timeout / 8))
        begun, ends, beside = in_flight.pop(0)
        now = max(now, ends)
        assert ends - begun <= timeout
        limiter.succeeded(seconds=ends - begun, in_flight=beside)


@pytest.mark.parametrize(
    ("reported", "is_replaced"),
    [
        ((130, 55), False),
        ((-5, -60_000_000), True),
        ((1, 40), True),
        ((100, 9), True),
        ((10**30, 40), True),
        ((1_390, 40), False),
        ((100, 500), False),  # hidden reasoning may take up to the longest reply
        ((100, 501), True),
    ],
)
def test_an_impossible_count_is_replaced_and_a_missing_one_filled(reported: tuple[int, int], is_replaced: bool) -> None:
    own = (100, 40)
    assert plausible_counts(reported, own, 500) == (own if is_replaced else reported, is_replaced)
    assert plausible_counts((0, 0), own, 500) == (own, False)
