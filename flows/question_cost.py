"""What a question would ask of the model for reading at most, by strategy: an upper bound, before any is asked.

Knows no strategy: its parameters say what it asks (`Parameters.call_bounds`). Source: algorithms.md 4.10.
"""

from collections.abc import Iterable
from typing import Any

from polyhop.schemas.settings import Settings
from polyhop.warehouse.models.prices import price_of
from polyhop.worker.strategies.registry import spec_of


def question_costs(settings: Settings, strategies: Iterable[str]) -> dict[str, dict[str, Any]]:
    """{strategy: {calls, prompt_tokens, completion_tokens, cost_usd, tasks{task: calls}}} with default parameters.

    Strategies that ask no model are left out, and all of them without a model for reading (models.read). `cost_usd` is
    None if the model's price is unknown. Requests that have to be repeated are not counted.

    Raises:
        UnknownStrategyError: If there is no such strategy.
    """
    model = settings.models.chat_reader
    if not model:
        return {}
    price = price_of(model, settings.models)
    costs = {}
    for name in dict.fromkeys(strategies):
        bounds = spec_of(name).parameters().call_bounds()
        if not bounds:
            continue
        prompt = sum(bound.calls * bound.prompt_tokens for bound in bounds)
        reply = sum(bound.calls * bound.completion_tokens for bound in bounds)
        costs[name] = {
            "calls": sum(bound.calls for bound in bounds),
            "prompt_tokens": prompt,
            "completion_tokens": reply,
            "cost_usd": None if price is None else round((prompt * price[0] + reply * price[1]) / 1_000_000, 6),
            "tasks": {bound.task: bound.calls for bound in bounds},
        }
    return costs
