"""What spreading activation takes and gives, whichever engine computes it.

Holds no formula (worker/ranking does). Entities are numbers: ascending number is ascending key, so ties agree
everywhere. Source: algorithms.md 1.1, 1.5.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

SeedScore = Literal["question", "entity", "neo4j"]
Multiplicity = Literal["set", "per_edge"]
Gate = Literal["cosine", "none"]
Dedupe = Literal["after_limit", "before_limit"]
Match = Literal["exact", "alias", "vector"]


@dataclass(frozen=True, slots=True)
class SpreadRule:
    """How activation spreads; the defaults are the paper's. Source: algorithms.md 1.5.

    Attributes:
        steps: T, at least 0.
        decay: alpha, above 0, at most 1.
        threshold: tau, at least 0: sources and increments must be above it.
        gate: Whether an increment is scaled by the similarity of entity and question.
        edge_multiplicity: Whether a neighbour counts once, or once per relation.
        uniform_requires_embedding: Whether, without a gate, entities without a vector still receive nothing.
    """

    steps: int = 3
    decay: float = 0.7
    threshold: float = 0.01
    gate: Gate = "cosine"
    edge_multiplicity: Multiplicity = "set"
    uniform_requires_embedding: bool = True


@dataclass(frozen=True, slots=True)
class ChainRule:
    """Which chains are kept; the defaults are the paper's. Source: algorithms.md 1.5 step 5.

    Attributes:
        limit: K_c, at least 1.
        max_length: L_max, relations in a chain, at least 1.
        dedupe: Whether duplicates go after the cut at `limit` or before it.
        max_paths: Chains looked at, at most.
    """

    limit: int = 30
    max_length: int = 4
    dedupe: Dedupe = "after_limit"
    max_paths: int = 200_000


@dataclass(frozen=True, slots=True)
class SeedRule:
    """How names become seeds; the defaults are the paper's. Source: algorithms.md 1.5 step 2."""

    vector_budget: int = 5
    score: SeedScore = "question"


@dataclass(frozen=True, slots=True)
class SeedName:
    """A name of a question, looked up.

    Attributes:
        name: As in the question, normalised.
        match: How `entities` were found; "vector" if there are none, so that `vector` is searched by.
        entities: Entities of that name, ascending.
        vector: Shape (d,): of its search hint; needed for "vector" only.
    """

    name: str
    match: Match
    entities: tuple[int, ...] = ()
    vector: NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True)
class SpreadQuestion:
    """A question as an engine gets it: its vector (shape (d,)) and its distinct names."""

    vector: NDArray[np.float32]
    names: tuple[SeedName, ...]


@dataclass(frozen=True, slots=True)
class Seed:
    """Where activation starts: `score` as found, `activation` its share of the largest score."""

    entity: int
    score: float
    activation: float
    match: Match


@dataclass(frozen=True, slots=True)
class Hop:
    """Labels of the relations between two neighbours of a chain, in its direction and against it, ascending."""

    forward: tuple[str, ...]
    backward: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """A simple path of activated entities that starts at a seed; its score is their mean activation."""

    entities: tuple[int, ...]
    score: float
    hops: tuple[Hop, ...] = ()


@dataclass(frozen=True, slots=True)
class Activation:
    """What spreading left.

    Attributes:
        seeds: By descending activation, then number; empty if nothing was found to start from.
        entities: Shape (m,): all entities with activation above 0, ascending.
        values: Shape (m,), float64: their activation, not bounded by 1.
        chains: In descending order of score, without duplicates.
        is_cut: Whether the search for chains stopped at its limit, so that better ones may exist.
        seconds: By part: "seed", "traversal".
    """

    seeds: tuple[Seed, ...]
    entities: NDArray[np.intp]
    values: NDArray[np.float64]
    chains: Sequence[Chain] = ()
    is_cut: bool = False
    seconds: Mapping[str, float] = field(default_factory=dict)
