"""The budget of a run: calls fit beside those in flight, and the limit holds."""

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.chat import Usage
from polyhop.schemas.errors import BudgetExceededError, ConfigurationError
from polyhop.warehouse.models.budget import Budget, believed

PRICE = (1.0, 10.0)


def used(prompt: int, completion: int, cost: float = 0.0) -> Usage:
    return Usage(1, prompt, completion, cost, 0.1)


def test_a_price_is_per_million_tokens() -> None:
    assert Budget(None, None, PRICE).cost(500_000, 20_000) == pytest.approx(0.7)
    assert Budget(None, None).cost(1000, 1000) is None
    assert Budget(None, None).cost(0, 0) == 0


def test_without_limits_everything_fits() -> None:
    budget = Budget(None, None)
    budget.settle(budget.reserve(10**12, 10**12), used(10**12, 10**12))
    assert budget.reserve(10**12, 10**12)


def test_a_limit_in_dollars_needs_a_price() -> None:
    with pytest.raises(ConfigurationError, match=r"set models\.price"):
        Budget(1.0, None)
    with pytest.raises(ConfigurationError, match="price of the model is unknown"):
        Budget(1.0, None, PRICE).priced(None)


def test_a_call_that_just_fits_is_let_through_and_the_next_is_not() -> None:
    budget = Budget(None, 100)
    budget.settle(budget.reserve(60, 40), used(60, 30))
    budget.settle(budget.reserve(5, 5), used(5, 5))
    with pytest.raises(
        BudgetExceededError, match=r"100 of 100 tokens and .* are spent, and the next call may take 1 tokens"
    ):
        budget.reserve(1, 0)


def test_dollars_are_counted_by_the_price_or_as_the_gateway_says() -> None:
    budget = Budget(0.01, None, PRICE)
    budget.settle(budget.reserve(1000, 200), used(1000, 100))
    budget.settle(budget.reserve(1000, 200), used(1000, 100, cost=0.004))
    with pytest.raises(BudgetExceededError, match=r"0\.0060 of 0\.0100 USD are spent.*raise .*max_cost_usd"):
        budget.reserve(1000, 400)
    assert budget.reserve(1000, 299)


def test_a_limit_of_0_lets_only_free_calls_through() -> None:
    assert Budget(0.0, None, (0, 0)).reserve(1000, 1000)
    with pytest.raises(BudgetExceededError):
        Budget(0.0, None, PRICE).reserve(1, 0)


def test_models_of_different_prices_share_the_account() -> None:
    cheap = Budget(0.01, None, (0, 0))
    dear = cheap.priced(PRICE)
    dear.settle(dear.reserve(9000, 0), used(9000, 0))
    assert cheap.reserve(10**9, 0)
    with pytest.raises(BudgetExceededError):
        dear.reserve(2000, 0)


def test_near_the_limit_a_call_waits_for_those_in_flight() -> None:
    budget, let_through = Budget(None, 100), []
    first = budget.reserve(0, 80)

    def second() -> None:
        let_through.append(budget.reserve(0, 80))

    thread = threading.Thread(target=second)
    thread.start()
    time.sleep(0.05)
    assert let_through == []
    budget.settle(first, used(0, 20))
    thread.join(timeout=60)
    assert [reservation.tokens for reservation in let_through] == [80]


def test_a_call_that_was_not_made_costs_nothing() -> None:
    budget = Budget(None, 100)
    budget.settle(budget.reserve(0, 100), Usage())
    assert budget.reserve(0, 100)


@given(
    calls=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.floats(0, 1)), max_size=30),
    limit=st.integers(0, 300),
)
def test_calls_that_keep_to_what_was_set_aside_never_exceed_the_limit(calls: list[tuple[int, ...]], limit: int) -> None:
    budget, spent = Budget(None, limit), 0
    for prompt, completion, share in calls:
        try:
            reservation = budget.reserve(prompt, completion)
        except BudgetExceededError:
            assert spent + prompt + completion > limit
            continue
        taken = int(completion * share)
        budget.settle(reservation, used(prompt, taken))
        spent += prompt + taken
    assert spent <= limit


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
        taken, _ = believed((reported_prompt, reported_completion), own, longest)
        budget.settle(reservation, used(*taken), own=used(*own))
        spent += sum(own)
    assert spent <= limit


def test_the_sentence_names_the_limits_that_there_are() -> None:
    with pytest.raises(
        BudgetExceededError, match=r"used up: 0 of 5 tokens and 0\.0000 USD are spent, .* max_cost_usd\.$"
    ):
        Budget(None, 5).reserve(6, 0)
    with pytest.raises(
        BudgetExceededError, match=r"used up: 0 tokens and 0\.0000 of 0\.5000 USD are spent, .* take 10000"
    ):
        Budget(0.5, None, PRICE).reserve(0, 100_000)
