"""Log records of statements that take long. Measures and logs only; who waits for what is the caller's business."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

SLOW_SECONDS = 1.0
"""Chosen, not tuned: a hundred times what a statement of a question takes, so that a sound installation logs none."""
_SHOWN_CHARACTERS = 80  # enough to recognise a statement; its values are parameters, which are never logged


@contextmanager
def slow_noted(log: logging.Logger, store: str, statement: str) -> Iterator[None]:
    """Logs `a slow statement` at info if the block takes longer than `SLOW_SECONDS`, and how it ended does not matter.

    Args:
        log: Of the module that asks.
        store: Who is asked: "duckdb", "neo4j" or "queue".
        statement: Its name, or its text, of which the beginning is logged on one line.
    """
    begun = perf_counter()
    try:
        yield
    finally:
        seconds = perf_counter() - begun
        if seconds > SLOW_SECONDS:
            shown = " ".join(statement.split())[:_SHOWN_CHARACTERS]
            log.info(
                "a slow statement", extra={"fields": {"store": store, "statement": shown, "seconds": round(seconds, 3)}}
            )
