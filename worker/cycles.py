"""Python's search for reference cycles by the clock: a worker keeps many objects for its next questions, few in cycles.

Python searches all of them whenever their number has grown by a quarter, which took a tenth of a worker's time
(benchmarks/README.md). Frees nothing itself; what is in no cycle goes by reference counts, as ever.
"""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SECONDS_BETWEEN = 60.0
"""Chosen: a search takes some .15 s, and cycles (errors, closed versions) are few and small."""
_YOUNG = 20_000
"""New objects after which the young ones are searched, which is cheap; Python's own 700 is for small programs."""
_NEVER = 1 << 30  # a threshold that no process reaches: Python searches old objects only when asked


@contextmanager
def searched_by_the_clock() -> Iterator[Callable[[], None]]:
    """Within the block all objects are searched when what it gives is called, at most once in SECONDS_BETWEEN.

    Young objects are searched by Python, as ever. Afterwards all is as it was before. For the whole process, so blocks
    of several threads must not overlap.
    """
    before = gc.get_threshold()
    last = time.monotonic()

    def search() -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN:
            gc.collect()
            last = time.monotonic()

    gc.set_threshold(_YOUNG, before[1], _NEVER)
    try:
        yield search
    finally:
        gc.set_threshold(*before)
