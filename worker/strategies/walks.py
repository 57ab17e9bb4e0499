"""How a SPRIG walk goes: its parameters, and a walk made ready on a graph.

Knows neither names nor rankers (sprig.py). Source: algorithms.md 2.4-2.6.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from polyhop.schemas.graph import BipartiteGraph
from polyhop.worker.ranking.pagerank import BipartiteTransition, WalkSeeds, bipartite_transition, joined
from polyhop.worker.ranking.push import ppr_push
from polyhop.worker.ranking.touched_walk import TouchedWalk
from polyhop.worker.strategies.base import Parameters


class WalkParameters(Parameters):
    """How a walk goes, and how question entities weigh."""

    grid: ClassVar[Mapping[str, str]] = {"restart": ".1,.15,.2", "max_iter": "5,10,20", "hub_penalty": "0,.5,1"}
    """SPRIG, tables A.1 and A.2 and figure A.4."""

    entity_penalty: float = Field(
        0.5, ge=0, le=10, description="q: a question entity starts with df ** -q, default 0.5; 0 makes all equal."
    )
    hub_penalty: float = Field(
        0.5, ge=0, le=10, description="p: steps to an entity are scaled by df ** -p, default 0.5; 0 switches it off."
    )
    ppr: Literal["power", "push"] = Field(
        "power", description="How PageRank is computed: power (a fixed number of steps, default) or push."
    )
    restart: float = Field(0.15, gt=0, lt=1, description="Probability of returning to the seeds, default 0.15.")
    max_iter: int = Field(5, ge=0, le=10_000, description="Steps of power, default 5; odd numbers favour entity seeds.")
    eps: float = Field(1e-4, gt=0, le=1, description="Threshold of push, default 0.0001; smaller is more exact.")


Walk = Callable[[WalkSeeds], NDArray[np.float64]]
"""Seeds to the passages' mass, shape (n_passages,)."""


def make_walk(graph: BipartiteGraph, kept: NDArray[np.bool_] | None, parameters: WalkParameters) -> Walk:
    """A walk on the edges that are kept (None: all), by power steps or by push."""
    parts = bipartite_transition(graph, hub_penalty=parameters.hub_penalty, kept=kept)
    return _WALKS[parameters.ppr](parts, parameters)


def _power_walk(parts: BipartiteTransition, parameters: WalkParameters) -> Walk:
    return TouchedWalk(parts, parameters.restart, parameters.max_iter, return_dangling=True).passages


def _push_walk(parts: BipartiteTransition, parameters: WalkParameters) -> Walk:
    nodes = joined(parts)
    restart, eps = parameters.restart, parameters.eps
    entity_count, passage_count = parts.to_entities.shape

    def walk(seeds: WalkSeeds) -> NDArray[np.float64]:
        start = np.zeros(entity_count + passage_count)
        start[seeds.entities] = seeds.entity_weights
        start[entity_count + seeds.passages] = seeds.passage_weights
        return ppr_push(nodes, start, restart, eps).scores[entity_count:]

    return walk


_WALKS: dict[str, Callable[[BipartiteTransition, WalkParameters], Walk]] = {"power": _power_walk, "push": _push_walk}
