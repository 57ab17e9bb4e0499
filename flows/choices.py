"""Types of flows' parameters that the dashboard's forms show as lists to choose from.

A form only: whoever takes the value checks it.
"""

from typing import Annotated, Any

from pydantic import GetJsonSchemaHandler
from pydantic_core import CoreSchema

from polyhop.worker.strategies.registry import STRATEGIES


class _Strategies:
    """Adds the names of all strategies, those of installed packages among them, to a form when it is made."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "enum": list(STRATEGIES)}


StrategyName = Annotated[str, _Strategies()]
