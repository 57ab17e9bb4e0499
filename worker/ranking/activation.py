"""Spreading activation: names to seeds, seeds to activated entities, each step gated by similarity to the question.

One question at a time, so that a batch changes nothing. Source: algorithms.md 1.5 steps 2 and 3.
"""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import AlgorithmError
from polyhop.schemas.graph import (
    ActivationSeed,
    BipartiteGraph,
    Match,
    RelationGraph,
    SeedRule,
    SeedScore,
    SpreadQuestion,
    SpreadRule,
    row_starts,
)
from polyhop.worker.ranking.fusion import DECIMALS, best
from polyhop.worker.ranking.similarity import cosines

SAME = 1e-12  # Activations closer than this are equal, so that the order of a sum never decides who feeds whom (0.3).

_SPARE = 50  # candidates more than asked for; chosen: near ties of float32 that float64 puts in another order
MENTIONS = "mentions"  # label of the relation of a passage to an entity
_MATCHES: tuple[Match, ...] = ("exact", "alias", "vector")


def entities_per_name(budget: int, name_count: int) -> int:
    """Maximum number of nearest entities per name: `max(1, budget // names)`. Source: algorithms.md 1.5 step 2b."""
    return max(1, budget // max(1, name_count))


Search = Callable[[NDArray[np.float32], int], NDArray[np.intp]]
"""Numbers of about so many entities nearest to a vector, in any order, from where not all vectors are compared."""


def find_seeds(
    vectors: NDArray[np.float32], question: SpreadQuestion, rule: SeedRule, search: Search | None = None
) -> tuple[ActivationSeed, ...]:
    """Finds the seeds of a question's activation.

    Args:
        vectors: Shape (n, d), float32: of all entities; a row of zeros is a missing vector.
        question: Its names; those without entities are searched by their vector.
        rule: Budget and score.
        search: As of `nearest`.

    Returns:
        By descending activation, then number; empty if no name leads anywhere.

    Source: algorithms.md 1.5 step 2. An entity found twice keeps the larger score, and of equal ones the surer match.
    Cost: O(n d) per name that is searched.
    """
    found: list[tuple[int, float, Match]] = []
    count = entities_per_name(rule.vector_budget, len(question.names))
    for name in question.names:
        if name.entities:
            found += [(entity, 1.0, name.match) for entity in name.entities]
        elif name.vector is None:
            raise AlgorithmError(
                f"'{name.name}' is not the name of an entity; encode its hint with the question first."
            )
        else:
            near = nearest(vectors, name.vector, count, search)
            scores = seed_scores(vectors[near], name.vector, question.vector, rule.score)
            found += [(int(entity), score, "vector") for entity, score in zip(near, scores.tolist(), strict=True)]
    return normalised(found)


def nearest(
    vectors: NDArray[np.float32], vector: NDArray[np.float32], count: int, search: Search | None = None
) -> NDArray[np.intp]:
    """The `count` entities nearest to a vector, ties to the smaller number; those without vector never.

    Source: algorithms.md 1.5 step 2b. Candidates come from `search`, else from a float32 product, their order from
    float64.
    """
    if search is not None:
        near = np.unique(search(vector, count + _SPARE))
        near = near[vectors[near].any(axis=1)]
    else:
        rough = cosines(vectors, vector)
        zero = np.flatnonzero(rough == 0)
        rough[zero[~vectors[zero].any(axis=1)]] = -np.inf
        near = np.sort(best(rough, count + _SPARE))
        near = near[rough[near] > -np.inf]
    return near[best(_exact_cosines(vectors[near], vector), count)]


def seed_scores(
    near: NDArray[np.float32], hint: NDArray[np.float32], question: NDArray[np.float32], score: SeedScore
) -> NDArray[np.float64]:
    """Scores of entities found by vector.

    Args:
        near: Shape (k, d): vectors of the entities.
        hint: Shape (d,): what they were found by.
        question: Shape (d,): the question's vector.
        score: `question` and `entity` are cosines with these two; `neo4j` is Neo4j's (1 + cosine with `hint`) / 2.

    Source: algorithms.md 1.5 step 2b, 1.6.
    """
    if score == "question":
        return _exact_cosines(near, question)
    similarity = _exact_cosines(near, hint)
    return similarity if score == "entity" else (1 + similarity) / 2


def normalised(found: Iterable[tuple[int, float, Match]]) -> tuple[ActivationSeed, ...]:
    """Seeds from (entity, score, match): scores not above 0 dropped, duplicates joined, divided by the largest.

    Source: algorithms.md 1.5 step 2, G-QASA-3.
    """
    kept: dict[int, tuple[float, Match]] = {}
    for entity, score, match in found:
        before = kept.get(entity)
        if score > 0 and (before is None or (score, _sureness(match)) > (before[0], _sureness(before[1]))):
            kept[entity] = score, match
    largest = max((score for score, _ in kept.values()), default=1.0)
    seeds = [ActivationSeed(entity, score, score / largest, match) for entity, (score, match) in kept.items()]
    return tuple(sorted(seeds, key=lambda seed: (-round(seed.activation, DECIMALS), seed.entity)))


def spread(
    graph: RelationGraph,
    vectors: NDArray[np.float32],
    question: NDArray[np.float32],
    seeds: Mapping[int, float],
    rule: SpreadRule,
    passage_gates: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Activation after T synchronous steps.

    Args:
        graph: Entities and their relations; behind the entities also passages, from `with_passages`.
        vectors: Shape (n, d), float32: of all entities; a row of zeros is a missing vector.
        question: Shape (d,): the question's vector.
        seeds: Entity number to activation above 0.
        rule: Steps, decay, threshold, gate.
        passage_gates: Shape (passages,): gates of the passages that are nodes; None if none is.

    Returns:
        Entities, and behind them passages, with activation above 0, ascending, and their activation.

    Source: algorithms.md 1.5 step 3. Sums run over ascending numbers; cosines are taken of reached entities only.
    Cost: O(T * edges of active entities + d * entities reached), besides O(n) to clear.
    """
    from polyhop.worker.ranking.compiled_walks import step

    if question.shape != vectors.shape[1:]:
        raise AlgorithmError(
            f"The question's vector has shape {question.shape}, those of entities {vectors.shape[1:]}."
        )
    count = graph.entity_count
    active = np.array(sorted(seeds), dtype=np.intp)
    values = np.zeros(count)
    values[active] = [seeds[entity] for entity in active.tolist()]
    gates = np.full(count, np.nan)
    if passage_gates is not None:
        gates[len(vectors) :] = passage_gates
    state = (values, gates, np.zeros(count))
    multiplicity = graph.multiplicity if rule.edge_multiplicity == "per_edge" else graph.single
    edges = (graph.indptr, graph.indices, multiplicity)
    switches = (rule.gate == "cosine", rule.gate == "cosine" or rule.uniform_requires_embedding)
    limits = (rule.decay, rule.threshold, SAME)
    for _ in range(rule.steps):
        fresh, is_changed = step(edges, (vectors, question), state, active, limits, switches)
        if not is_changed:
            break
        active = np.sort(np.concatenate((active, fresh)))
    return active, values[active]


def next_seeds(
    entities: NDArray[np.intp], values: NDArray[np.float64], seeds: Iterable[int], count: int
) -> dict[int, float]:
    """Seeds of a further pass: the `count` strongest entities and the question's seeds, relative to the strongest.

    Source: algorithms.md 1.10.
    """
    chosen = {*entities[best(values, count)].tolist(), *seeds}
    largest = values.max(initial=0.0)
    pairs = zip(entities.tolist(), values.tolist(), strict=True)
    return {entity: value / largest for entity, value in pairs if entity in chosen}


def with_passages(graph: RelationGraph, mentions: BipartiteGraph) -> RelationGraph:
    """The graph with passages as nodes behind the entities, each related to what it mentions.

    Source: algorithms.md 1.10.
    Cost: O(edges log edges).
    """
    count, by_entity = graph.entity_count, mentions.by_entity
    entities = np.arange(count)
    related, mentioned = np.repeat(entities, np.diff(graph.indptr)), np.repeat(entities, np.diff(by_entity.indptr))
    rows = np.concatenate((related, mentioned, count + mentions.rows.astype(np.int64)))
    neighbours = np.concatenate((graph.indices, count + by_entity.passages.astype(np.int64), mentions.indices))
    none, one = np.zeros(len(mentioned), dtype=np.int64), np.ones(len(mentions.indices), dtype=np.int64)
    labels = np.concatenate((np.diff(graph.label_indptr), none, one))
    order = np.lexsort((neighbours, rows))
    return RelationGraph(
        indptr=row_starts(np.bincount(rows, minlength=count + mentions.passage_count)),
        indices=neighbours[order].astype(np.int32),
        label_indptr=row_starts(labels[order]),
        labels=np.concatenate((graph.labels, np.full(len(one), len(graph.names), dtype=np.int32))),
        names=(*graph.names, MENTIONS),
    )


def _sureness(match: Match) -> int:
    return -_MATCHES.index(match)


def _exact_cosines(rows: NDArray[np.float32], vector: NDArray[np.float32]) -> NDArray[np.float64]:
    """In float64, row by row alike, so that equal vectors tie. Source: algorithms.md 0.1."""
    left, right = rows.astype(np.float64), vector.astype(np.float64)
    norms = np.sqrt((left * left).sum(axis=1) * (right * right).sum())
    dots = (left * right).sum(axis=1)
    return np.asarray(np.divide(dots, norms, out=np.zeros(len(rows)), where=norms > 0))
