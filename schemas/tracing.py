"""Spans of OpenTelemetry around stages and questions, for programs that set up an SDK; nothing for all others.

Exports nothing. The API package is touched only if something else has loaded it: without an SDK a span costs a look
into `sys.modules`, and `polyhop --help` imports nothing.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

Attribute = str | int | float | bool


@contextmanager
def span(name: str, attributes: Mapping[str, Attribute]) -> Iterator[None]:
    """A span around a block; what the block raises is recorded in it.

    Args:
        name: `polyhop.index`, `polyhop.stage`, `polyhop.batch` or `polyhop.answer`.
        attributes: By name, `polyhop.…`.
    """
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        yield
        return
    with trace.get_tracer("polyhop").start_as_current_span(name, attributes=dict(attributes)):
        yield
