"""Garbage collection that a block disables or throttles."""

import contextlib
import gc
import time
import weakref

import pytest

from polyhop.warehouse import machine


class Cycle:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.own = self


def old_cycle() -> "weakref.ref[Cycle]":
    """A cycle that only a full collection frees."""
    cycle = Cycle()
    gc.collect(0)
    gc.collect(1)
    return weakref.ref(cycle)


def test_gc_is_disabled_within_the_outermost_block_only() -> None:
    with machine.gc_paused():
        with machine.gc_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_gc_is_enabled_again_after_an_error() -> None:
    with contextlib.suppress(KeyboardInterrupt), machine.gc_paused():
        raise KeyboardInterrupt
    assert gc.isenabled()


def test_a_full_collection_runs_once_the_interval_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with machine.gc_throttled() as collect:
        cycle = old_cycle()
        now += machine.GC_SECONDS - 1
        collect()
        assert cycle() is not None
        now += 1
        collect()
        assert cycle() is None
        later = old_cycle()
        collect()
        assert later() is not None


def test_thresholds_are_restored_after_an_error() -> None:
    before = gc.get_threshold()
    with contextlib.suppress(KeyError), machine.gc_throttled():
        raise KeyError
    assert gc.get_threshold() == before
