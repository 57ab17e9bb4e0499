"""Replies as rows: packed texts come back, and a damaged row is told from a sound one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.chat import Usage
from polyhop.warehouse.cache.replies import packed, reply_checksum, sound_reply, unpacked, usage_values

RUNGS = ("as_is", "repaired")
VALUES = ("key", "a/b", packed("reply"), "as_is", 1, 1, 10, 5, 0.25, 0.5)
"""As for `reply_checksum`."""


@given(st.text(st.characters()))
def test_any_text_comes_back(text: str) -> None:
    assert unpacked(packed(text)) == text


@given(st.text(min_size=1), st.data())
def test_a_text_that_is_cut_or_has_more_after_it_is_damaged(text: str, data: st.DataObject) -> None:
    stored = packed(text)
    cut = data.draw(st.integers(0, len(stored) - 1))
    assert unpacked(stored[:cut]) is None
    assert unpacked(stored + b"\0") is None


@pytest.mark.parametrize("stored", [None, "text", 3, b"", b"no zlib"])
def test_what_is_no_packed_text_is_damaged(stored: object) -> None:
    assert unpacked(stored) is None


def test_the_numbers_of_a_usage_are_in_the_order_of_the_columns() -> None:
    assert list(usage_values(Usage(1, 2, 3, 0.5, 0.25)).values()) == [1, 2, 3, 0.5, 0.25]


def test_a_sound_row_gives_its_reply_with_and_without_a_checksum() -> None:
    assert sound_reply((*VALUES, reply_checksum(VALUES)), RUNGS) == "reply"
    assert sound_reply((*VALUES, None), RUNGS) == "reply"


@pytest.mark.parametrize("place", range(len(VALUES)))
def test_a_change_of_any_value_is_seen(place: int) -> None:
    other = {"key": "kez", "a/b": "a/c", "as_is": "repaired"}.get(str(VALUES[place]), 7)
    row = (*VALUES[:place], packed("other") if place == 2 else other, *VALUES[place + 1 :])
    assert sound_reply((*row, reply_checksum(VALUES)), RUNGS) is None


@pytest.mark.parametrize(("place", "value"), [(1, 5), (3, "unknown"), (4, "1"), (5, None), (8, "much"), (2, b"x")])
def test_values_of_a_wrong_kind_are_seen_without_a_checksum(place: int, value: object) -> None:
    assert sound_reply((*VALUES[:place], value, *VALUES[place + 1 :], None), RUNGS) is None


def test_whole_numbers_of_sqlite_do_not_change_the_checksum() -> None:
    """A REAL of 0.0 and a Python int of 0 are one number."""
    assert reply_checksum((*VALUES[:8], 0, 2)) == reply_checksum((*VALUES[:8], 0.0, 2.0))
