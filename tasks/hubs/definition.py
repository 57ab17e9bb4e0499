"""Which nodes are hubs by types and edges (pure). Knows no table. Source: algorithms.md 4.3."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.hub_settings import HubMode
from polyhop.schemas.hubs import HubGraph

TYPES, EDGES, SPLIT = 1, 2, 4  # flags: a node may be a hub by several rules
DEFINITIONS = {TYPES: "types", EDGES: "edges", TYPES | EDGES: "types and edges", SPLIT: "split"}
"""Why a node is a hub, by the rules that it meets."""


def splits(entry: str) -> list[tuple[str, str]]:
    """The (predicate, label) that an entry of hubs.types may mean: both may contain `=` themselves."""
    return [(entry[:at], entry[at + 1 :]) for at, sign in enumerate(entry) if sign == "="]


def nodes_beside(graph: HubGraph, predicate: int, labelled: Sequence[int]) -> NDArray[np.int64]:
    """Nodes with a triple of this predicate to or from one of these nodes, ascending."""
    of_predicate = graph.predicates == predicate
    out = graph.subjects[of_predicate & np.isin(graph.objects, labelled)]
    entered = graph.objects[of_predicate & np.isin(graph.subjects, labelled)]
    return np.union1d(out, entered).astype(np.int64)


def hub_rules(graph: HubGraph, typed: Sequence[int], mode: HubMode, min_edges: int) -> NDArray[np.uint8]:
    """The rules by which each node is a hub, as a sum of TYPES and EDGES; 0: it is none.

    Args:
        graph: The graph; its triples are distinct.
        typed: Nodes of a hub type.
        mode: Which rules count; "auto" is not among them.
        min_edges: Triples that enter or leave a node from which on it is a hub; a self-loop does both.

    Returns:
        Shape (n,).
    """
    edges = np.diff(graph.out_starts) + np.diff(graph.in_starts) >= min_edges
    by_type = np.zeros(graph.node_count, dtype=np.bool_)
    by_type[np.asarray(typed, dtype=np.int64)] = True
    is_hub = {"types": by_type, "edges": edges, "both": by_type & edges, "either": by_type | edges}[mode]
    counted = {"types": TYPES, "edges": EDGES, "both": TYPES | EDGES, "either": TYPES | EDGES}[mode]
    rules = (by_type * np.uint8(TYPES) + edges * np.uint8(EDGES)).astype(np.uint8) & np.uint8(counted)
    rules[~is_hub | graph.is_literal] = 0
    return rules
