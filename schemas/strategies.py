"""The strategy that is taken where none is named. All strategies: worker/strategies/registry.py."""

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polyhop.schemas.corpus import SourceKind
    from polyhop.schemas.settings import Settings

DEFAULT_STRATEGY = "bridge"
DEFAULT_GRAPH_STRATEGY = "hub-facets"
GRAPH_STRATEGIES = (DEFAULT_GRAPH_STRATEGY, "hublink")
"""What an index of a graph is built for besides those of every index, unless the settings name strategies."""
CLOSED_BOOK = "closed-book"
"""The row of an evaluation that is not a strategy: a model answers without passages."""

_GRAPH_SOURCE = "ingest-graph"
_FACETS = frozenset({"hubs", "vectors:hubvalue", "vectors:hubname"})


def strategies_for(settings: "Settings", source: "SourceKind") -> tuple[str, ...]:
    """The strategies that an index is built for: those of the settings; for a graph, unless they are set, two more."""
    more = GRAPH_STRATEGIES if source == "graph" and "strategies" not in settings.model_fields_set else ()
    return (*settings.strategies, *more)


def default_strategy(stages: Collection[str], artefacts: Collection[str]) -> str:
    """The strategy that answers where nobody names one: that for graphs, if the version is one and has hubs.

    Args:
        stages: Names of the stages that made a version, as its manifest has them.
        artefacts: Names of those that it was built with.
    """
    return DEFAULT_GRAPH_STRATEGY if _GRAPH_SOURCE in stages and _FACETS.issubset(artefacts) else DEFAULT_STRATEGY
