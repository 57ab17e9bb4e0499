"""A run's share of the language models: one budget from 0, lines about their pace, and what they took in the end.

Opens no model (warehouse/open_models.py does).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from polyhop.flows.reports import ModelUse
from polyhop.warehouse.open_models import chats_usage, close_chats


@contextmanager
def model_run(note: Callable[[str], None] | None = None) -> Iterator[None]:
    """Models opened inside the block share one budget, which begins at 0.

    Args:
        note: Gets lines about the models: how fast they reply, when the run would end.
    """
    close_chats(note)
    try:
        yield
    except BaseException:
        if note is not None:  # there is no report that would say so
            for sentence in model_use().sentences():
                note(f"The run ended early; {sentence}.")
        raise
    finally:
        close_chats()


def model_use() -> ModelUse:
    """What models have taken in this run so far."""
    use = chats_usage()
    spent, unknown = use.spent, use.unknown
    return ModelUse(
        spent.calls,
        use.cached,
        spent.prompt_tokens,
        spent.completion_tokens,
        cost_usd=_rounded(spent.cost_usd),
        replaced_counts=use.replaced,
        unknown_calls=unknown.calls,
        unknown_tokens=unknown.prompt_tokens + unknown.completion_tokens,
        unknown_cost_usd=_rounded(unknown.cost_usd),
    )


def _rounded(cost_usd: float | None) -> float | None:
    return None if cost_usd is None else round(cost_usd, 6)
