"""The parameters of a search for proposition paths.

Checks no ranges (the strategy does). Source: algorithms.md 3.4, 3.6.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

PathPreset = Literal["proprag", "hipporag2"]
EdgeWeights = Literal["counts", "ones"]
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "proprag": {},
    "hipporag2": {
        "stage1_only": True,
        "stage1_restart": 0.5,
        "stage1_passage_weight": 0.05,
        "stage1_entity_weight": "mean_per_passage",
        "seed_propositions": 5,
        "seed_entities": 5,
    },
}
"""Parameters other than the defaults; `hipporag2` is one walk as in HippoRAG 2's published code.

Source: algorithms.md 3.6.
"""


@dataclass(frozen=True, slots=True)
class PathRule:
    """Every parameter and ablation of a search for proposition paths; the defaults are the paper's.

    Attributes:
        beam_width: B, paths that go on after a depth, at least 1.
        max_length: L_max, propositions in a path, at least 1.
        rescored: M, candidates per depth that are scored by the vector of their joined text, at least 1.
        jump_points: Most similar propositions that continue any path, whether connected or not.
        exact: Whether candidates are scored by the vector of their joined text; if not, by their mean vector only.
        exact_when_few: Whether that holds for at most `beam_width` candidates too (the published code: no).
        allow_unconnected: Whether every proposition of the subgraph continues any path.
        synonym_threshold: Least cosine of two names at which a path goes from one to the other; at least the index's.
        seed_propositions: N_prop, most similar propositions whose entities the first walk may start from.
        seed_entities: N_entity, entities that the first walk starts from.
        stage1_restart: Probability that the first walk returns to its seeds, above 0.
        stage1_passage_weight: Share of each passage's normalised similarity in the first walk's seeds.
        stage1_entity_weight: Seeds of the first walk: 1 each, or the mean similarity of the propositions that name the
            entity divided by the number of passages that contain it.
        stage1_only: Whether all passages are ranked by the first walk.
        subgraph_passages: K, passages of the subgraph.
        explore_propositions: P_initial, most similar propositions that give seeds; None for `beam_width`.
        explore_entities: B_initial, entities taken from them.
        exploit_paths: P_beam, paths that give seeds.
        exploit_entities: B_beam, entities taken from them.
        seeds: Which of the two sets of entities the second walk starts from.
        entity_weight: Weight of an entity: the sum of the scores of what names it, or the largest.
        passage_weight: lambda, share of each passage's normalised similarity in the second walk's seeds.
        stage2_restart: Probability that the second walk returns to its seeds, above 0.
        entity_edge_factor: Factor of edges between entities relative to those between entity and passage.
        edge_weights: An edge between entities before that factor: shared propositions and synonymy added, or 1.
    Source: algorithms.md 3.4, 3.6.
    """

    beam_width: int = 4
    max_length: int = 3
    rescored: int = 40
    jump_points: int = 3
    exact: bool = True
    exact_when_few: bool = True
    allow_unconnected: bool = False
    synonym_threshold: float = 0.8
    seed_propositions: int = 20
    seed_entities: int = 40
    stage1_restart: float = 0.25
    stage1_passage_weight: float = 0.0
    stage1_entity_weight: Literal["uniform", "mean_per_passage"] = "uniform"
    stage1_only: bool = False
    subgraph_passages: int = 50
    explore_propositions: int | None = None
    explore_entities: int = 5
    exploit_paths: int = 5
    exploit_entities: int = 5
    seeds: Literal["both", "explore_only", "exploit_only"] = "both"
    entity_weight: Literal["sum", "max"] = "sum"
    passage_weight: float = 0.05
    stage2_restart: float = 0.55
    entity_edge_factor: float = 2.0
    edge_weights: EdgeWeights = "counts"
