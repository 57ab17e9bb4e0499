"""From a micro-batch of questions to ranked passages over proposition paths: what a strategy `proprag` calls.

Walks (proposition_walks.py) and searches paths (beam.py) in this order; its own part is what entities get from paths.
Source: algorithms.md 3.5 to 3.8.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.propositions import PropositionGraph
from polyhop.worker.ranking.beam import Encode, FoundPaths, PathSearch, PropositionPath, TextsOf, search_paths
from polyhop.worker.ranking.order import DECIMALS, best
from polyhop.worker.ranking.path_rule import PathRule
from polyhop.worker.ranking.proposition_walks import (
    Focus,
    Similarities,
    Subgraph,
    WeightedGraph,
    focus,
    subgraph,
    walk_subgraph,
)

PathFallback = Literal["", "dense", "stage1"]


@dataclass(frozen=True, slots=True)
class PropositionIndex:
    """What is searched, once per version.

    Attributes:
        graph: Propositions with entities and passages.
        walk: Its edges, by `weighted_graph` with the rule's `entity_edge_factor` and `edge_weights`.
        vectors: Shape (n_propositions, d): vectors in number order; read only for propositions of a subgraph.
        texts_of: Texts of propositions by number.
    """

    graph: PropositionGraph
    walk: WeightedGraph
    vectors: NDArray[np.floating]
    texts_of: TextsOf


@dataclass(frozen=True, slots=True)
class PathSeed:
    """An entity that the second walk starts from.

    Attributes:
        entity: Its number.
        explore: Its share of the largest weight among entities of the most similar propositions, 0 if not chosen.
        exploit: Its share of the largest weight among entities of the best paths, 0 if not chosen.
    """

    entity: int
    explore: float
    exploit: float

    @property
    def weight(self) -> float:
        """Its weight: the larger of the two."""
        return max(self.explore, self.exploit)


@dataclass(frozen=True, slots=True)
class PropositionRanking:
    """Ranked passages, and what led to them.

    Attributes:
        passages: Shape (n,): passage numbers.
        scores: Shape (n,): for display; passages outside the subgraph are ranked apart and stay after those inside.
        fallback: "dense" if there was nothing to start the first walk from, so that similarity ranks; "stage1" if there
            was nothing to search or to start the second walk from, so that the first walk ranks.
        focus: The first walk, None with the fallback "dense".
        found: Paths, None if none were searched.
        seeds: Of the second walk, in descending order of weight.
    """

    passages: NDArray[np.intp]
    scores: NDArray[np.float64]
    fallback: PathFallback = ""
    focus: Focus | None = None
    found: FoundPaths | None = None
    seeds: tuple[PathSeed, ...] = ()


def rank_passages(
    index: PropositionIndex, questions: Sequence[Similarities], rule: PathRule, limit: int, encode: Encode
) -> list[PropositionRanking]:
    """Ranks passages for each question of a micro-batch.

    Args:
        index: What is searched.
        questions: How similar each question is to propositions and passages.
        rule: The parameters.
        limit: Passages to return at most.
        encode: Called at most once per depth of the search; see `search_paths`.

    Returns:
        One ranking per question, in order; it does not depend on the other questions.
    Source: algorithms.md 3.5 to 3.8.
    """
    graph, walk = index.graph, index.walk
    count = max(limit, 0 if rule.stage1_only else rule.subgraph_passages)
    found = [focus(graph, walk, question, rule, count) for question in questions]
    parts = [
        None
        if first is None or rule.stage1_only
        else subgraph(graph, walk, first.order[: rule.subgraph_passages], ~np.isnan(question.propositions))
        for question, first in zip(questions, found, strict=True)
    ]
    searches = {
        number: PathSearch(part.propositions, index.vectors[part.propositions], questions[number].vector)
        for number, part in enumerate(parts)
        if part is not None and len(part.propositions)
    }
    paths = dict(zip(searches, search_paths(graph, [*searches.values()], rule, index.texts_of, encode), strict=True))
    return [
        _ranking(graph, question, (first, part, paths.get(number)), rule, limit)
        for number, (question, first, part) in enumerate(zip(questions, found, parts, strict=True))
    ]


def path_seeds(graph: PropositionGraph, found: FoundPaths, rule: PathRule) -> tuple[PathSeed, ...]:
    """Entities to start the second walk from, in descending order of weight, then ascending.

    Args:
        graph: Propositions with entities.
        found: Paths of a question.
        rule: The parameters.

    Source: algorithms.md 3.7.
    """
    explored = entity_weights(graph, found.initial, rule.explore_entities, rule.entity_weight)
    exploited = entity_weights(graph, found.paths[: rule.exploit_paths], rule.exploit_entities, rule.entity_weight)
    explore = explored if rule.seeds != "exploit_only" else {}
    exploit = exploited if rule.seeds != "explore_only" else {}
    seeds = (
        PathSeed(entity, explore.get(entity, 0.0), exploit.get(entity, 0.0))
        for entity in sorted(explore.keys() | exploit.keys())
    )
    return tuple(sorted(seeds, key=lambda seed: -round(seed.weight, DECIMALS)))


def entity_weights(
    graph: PropositionGraph, paths: Iterable[PropositionPath], count: int, weight: Literal["sum", "max"]
) -> dict[int, float]:
    """Weights of the `count` entities with the largest totals, as shares of the largest weight.

    Args:
        graph: Propositions with entities.
        paths: Paths with their scores.
        count: Entities to keep at most.
        weight: Whether an entity weighs as much as its total, or as its largest entry.

    Returns:
        Weights above 0 by entity; empty if there is none.
    Source: algorithms.md 3.7.
    """
    entries = path_entries(graph, paths)
    totals = {entity: fsum(scores) for entity, scores in entries.items()}
    chosen = sorted(totals, key=lambda entity: (-round(totals[entity], DECIMALS), entity))[: max(0, count)]
    weights = {entity: totals[entity] if weight == "sum" else max(entries[entity]) for entity in chosen}
    largest = max(weights.values(), default=0.0)
    return {entity: share / largest for entity, share in weights.items() if share > 0}


def path_entries(graph: PropositionGraph, paths: Iterable[PropositionPath]) -> dict[int, list[float]]:
    """Scores by entity: a path's once per proposition that names it, once more where the path reaches it by synonymy.

    Source: algorithms.md 3.7.
    """
    entries: dict[int, list[float]] = {}
    indptr, entities = graph.entities.indptr, graph.entities.indices
    for path in paths:
        for number in path.propositions:
            for entity in entities[indptr[number] : indptr[number + 1]].tolist():
                entries.setdefault(entity, []).append(path.score)
        for connection in path.connections:
            if connection.kind == "synonym" and connection.target is not None:
                entries.setdefault(connection.target, []).append(path.score)
    return entries


def _ranking(
    graph: PropositionGraph,
    question: Similarities,
    found: tuple[Focus | None, Subgraph | None, FoundPaths | None],
    rule: PathRule,
    limit: int,
) -> PropositionRanking:
    """The ranking of one question, by the second walk where there is one, else by what came before it."""
    first, part, paths = found
    if first is None:
        order = best(question.passages, limit)
        return PropositionRanking(order, question.passages[order], "dense")
    order = first.order[:limit]
    if part is None:
        return PropositionRanking(order, first.scores[order], focus=first)
    seeds = path_seeds(graph, paths, rule) if paths is not None else ()
    weights = {seed.entity: seed.weight for seed in seeds}
    walked = walk_subgraph(part, weights, question.passages, rule) if paths is not None else None
    if walked is None:
        return PropositionRanking(order, first.scores[order], "stage1", first, paths, seeds)
    scores, least = walked
    inside = np.lexsort((part.passages, -np.round(scores, DECIMALS)))
    outside = first.order[len(part.passages) :]
    passages = np.concatenate((part.passages[inside], outside))[:limit]
    shown = np.concatenate((scores[inside], first.scores[outside] * 0.5 * least))[:limit]
    return PropositionRanking(passages, shown, "", first, paths, seeds)
