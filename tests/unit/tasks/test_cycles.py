"""The search for reference cycles: paused inside a block, and as before after it, however the block ends."""

import gc

import pytest

from polyhop.tasks.stage import no_search_for_cycles


def test_the_search_is_paused_inside_a_block_only() -> None:
    assert gc.isenabled()
    with no_search_for_cycles():
        assert not gc.isenabled()
        with no_search_for_cycles():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_search_goes_on_after_an_error() -> None:
    with pytest.raises(KeyboardInterrupt), no_search_for_cycles():
        raise KeyboardInterrupt
    assert gc.isenabled()
