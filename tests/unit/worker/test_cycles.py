"""The search for reference cycles by the clock: when it runs, and that the process is left as it was."""

import contextlib
import gc
import time
import weakref

import pytest

from polyhop.worker import session as cycles
from polyhop.worker.session import searched_by_the_clock


class Ring:
    """An object in a cycle with itself."""

    def __init__(self) -> None:
        self.own = self


def survivor_of_a_young_search() -> "weakref.ref[Ring]":
    ring = Ring()
    gc.collect(0)
    gc.collect(1)
    return weakref.ref(ring)


def test_cycles_are_found_when_it_is_time_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with searched_by_the_clock() as search:
        ring = survivor_of_a_young_search()
        now += cycles.SECONDS_BETWEEN - 1
        search()
        assert ring() is not None
        now += 1
        search()
        assert ring() is None
        later = survivor_of_a_young_search()
        search()
        assert later() is not None


def test_python_searches_as_before_when_the_block_is_left() -> None:
    before = gc.get_threshold()
    with contextlib.suppress(KeyError), searched_by_the_clock():
        assert gc.get_threshold() != before
        raise KeyError
    assert gc.get_threshold() == before
