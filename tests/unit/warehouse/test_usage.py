"""Token counts of servers: believed where they are possible, replaced by our own where they are not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.warehouse.models.budget import FRAME_TOKENS, TRUSTED_FACTOR, Counted, believed

OWN = Counted(100, 40)


@pytest.mark.parametrize(
    ("reported", "expected", "is_replaced"),
    [
        (Counted(100, 40), Counted(100, 40), False),
        (Counted(130, 55), Counted(130, 55), False),
        (Counted(0, 0), OWN, False),
        (Counted(-5, -60_000_000), OWN, True),
        (Counted(1, 40), OWN, True),
        (Counted(100, 9), OWN, True),
        (Counted(10**30, 40), OWN, True),
        (Counted(100, 5_000_000), OWN, True),
        (Counted(1_390, 40), Counted(1_390, 40), False),
    ],
)
def test_an_impossible_count_is_replaced_and_a_missing_one_is_filled_in(
    reported: Any, expected: Any, is_replaced: bool
) -> None:
    assert believed(reported, OWN, 500) == (expected, is_replaced)


def test_hidden_reasoning_may_take_up_to_the_longest_reply() -> None:
    assert believed(Counted(100, 500), Counted(100, 3), 500) == (Counted(100, 500), False)
    assert believed(Counted(100, 501), Counted(100, 3), 500) == (Counted(100, 3), True)


counts = st.builds(Counted, st.integers(), st.integers())
own_counts = st.builds(Counted, st.integers(0, 10**6), st.integers(0, 10**6))


@given(reported=counts, own=own_counts, longest=st.integers(1, 10**5))
def test_what_is_believed_is_never_negative_and_never_far_from_our_own_count(
    reported: Any, own: Any, longest: int
) -> None:
    result, _ = believed(reported, own, longest)
    assert own.prompt <= TRUSTED_FACTOR * result.prompt or result.prompt == own.prompt
    assert 0 <= result.prompt <= TRUSTED_FACTOR * own.prompt + FRAME_TOKENS
    assert own.completion <= TRUSTED_FACTOR * result.completion or result.completion == own.completion
    assert 0 <= result.completion <= max(TRUSTED_FACTOR * own.completion, longest)
