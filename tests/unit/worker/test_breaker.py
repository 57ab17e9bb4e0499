"""The circuit breaker: pauses that double, a limit, a success that forgets; questions that no model answers."""

import pytest

from polyhop.worker.loop import LONGEST_PAUSE_SECONDS, CircuitBreaker, LeftQuestions


def test_a_new_breaker_lets_everything_through() -> None:
    assert not CircuitBreaker().is_open(0.0)


def test_an_outage_opens_it_until_its_pause_is_over() -> None:
    breaker = CircuitBreaker()
    assert breaker.trip(100.0) == 1.0
    assert breaker.is_open(100.999)
    assert not breaker.is_open(101.0)


def test_each_further_outage_doubles_the_pause_up_to_the_longest() -> None:
    breaker = CircuitBreaker()
    assert [breaker.trip(0.0) for _ in range(7)] == [1, 2, 4, 8, 16, LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS]


def test_ten_thousand_outages_do_not_overflow() -> None:
    breaker = CircuitBreaker(outages=10_000)
    assert breaker.trip(0.0) == LONGEST_PAUSE_SECONDS


def test_a_success_forgets_all_outages() -> None:
    breaker = CircuitBreaker()
    breaker.trip(0.0)
    breaker.trip(0.0)
    breaker.close()
    assert not breaker.is_open(0.0)
    assert breaker.trip(0.0) == 1.0


@pytest.mark.parametrize(("asked", "pause"), [(45.0, 45.0), (0.5, 1.0)])
def test_a_server_that_says_when_to_come_back_is_obeyed_if_it_wants_more_time(asked: float, pause: float) -> None:
    assert CircuitBreaker().trip(0.0, at_least=asked) == pause


def test_a_question_is_at_fault_each_third_time_that_it_is_left_alone() -> None:
    left = LeftQuestions()
    assert [left.is_at_fault("a") for _ in range(6)] == [False, False, True, False, False, True]
    assert not left.is_at_fault("b")


def test_an_answer_forgives_what_was_before() -> None:
    left = LeftQuestions({"a": 2, "b": 2})
    left.forget(["a", "never seen"])
    assert not left.is_at_fault("a")
    assert left.is_at_fault("b")


def test_no_more_than_ten_thousand_questions_are_remembered() -> None:
    left = LeftQuestions()
    for number in range(10_100):
        left.is_at_fault(str(number))
    assert len(left.strikes) == 10_000
    assert "0" not in left.strikes
