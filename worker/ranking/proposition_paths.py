"""Beam search for paths of linked propositions, and from a micro-batch of questions to ranked passages.

Inside a search propositions are numbered by ascending number among those searched, so that their order is the order of
ids. Source: algorithms.md 3.6.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.propositions import CompressedRows, PropositionGraph
from polyhop.worker.ranking.fusion import DECIMALS, best
from polyhop.worker.ranking.proposition_walks import (
    Focus,
    PathRule,
    Similarities,
    Subgraph,
    WeightedGraph,
    focus,
    subgraph,
    walk_subgraph,
)

Scores = NDArray[np.float64]
Numbers = NDArray[np.intp]
Kind = Literal["exact", "synonym", "jump"]
Encode = Callable[[Sequence[str]], NDArray[np.floating]]
"""Vectors of shape (n, d) of n texts; the vector of a text does not depend on the other texts."""
TextsOf = Callable[[Sequence[int]], Sequence[str]]  # Texts of propositions, given by number, in the order asked.

_KINDS: tuple[Kind, ...] = ("exact", "synonym", "jump")
_EXACT, _SYNONYM, _JUMP = range(3)
_NO_ENTITY = -1  # entities are numbered from 0
_CANCELLING = 0.01
"""A sum of vectors with a smaller squared length is added up, since its length by products would lose digits."""


@dataclass(frozen=True, slots=True)
class PropositionLink:
    """Step of a path: an entity that both name, an entity and its synonym, or (both None) a jump."""

    kind: Kind
    source: int | None
    target: int | None


@dataclass(frozen=True, slots=True)
class PropositionPath:
    """Propositions by number, one connection fewer than these, and how similar they are together to the question."""

    propositions: tuple[int, ...]
    connections: tuple[PropositionLink, ...]
    score: float


@dataclass(frozen=True, slots=True)
class PropositionPathQuery:
    """Propositions to search for paths."""

    propositions: Numbers  # Shape (u,): those that paths are made of, ascending.
    vectors: NDArray[np.floating]  # Shape (u, d): their vectors, none of them 0.
    question: NDArray[np.floating]  # Shape (d,): the question's vector.


@dataclass(frozen=True, slots=True)
class FoundPaths:
    """Result of a path search."""

    initial: tuple[PropositionPath, ...]  # The `explore_propositions` most similar propositions, as paths of length 1.
    beams: tuple[tuple[PropositionPath, ...], ...]  # The paths kept at each depth, in descending order of score.
    # All of these, in descending order of score, then shorter ones first, then by propositions.
    paths: tuple[PropositionPath, ...]


def search_paths(
    graph: PropositionGraph, searches: Sequence[PropositionPathQuery], rule: PathRule, texts_of: TextsOf, encode: Encode
) -> list[FoundPaths]:
    """Searches paths for each question of a micro-batch.

    Args:
        graph: Propositions with entities.
        searches: One per question.
        rule: The parameters.
        texts_of: Called once per depth with ascending numbers, unless nothing is to be scored.
        encode: Called as often, with distinct texts.

    Returns:
        One per search, in order; it does not depend on the other searches.
    Source: algorithms.md 3.6.
    Cost: Per question and depth O(connections of the beam), a product per candidate, at most `rule.rescored` texts.
    """
    beams = [_Beam(graph, search, rule) for search in searches]
    for _ in range(1, rule.max_length):
        grown = [beam.extended() for beam in beams]
        unscored = [
            beam.numbers[paths.members].tolist() if paths.needs_text else []
            for beam, paths in zip(beams, grown, strict=True)
        ]
        for beam, paths, vectors in zip(beams, grown, _joined_vectors(unscored, texts_of, encode), strict=True):
            beam.keep(paths, vectors)
    return [beam.found() for beam in beams]


@dataclass(frozen=True, slots=True)
class _Paths:
    """Paths of one depth, n of them."""

    members: Numbers  # Shape (n, depth): propositions in the numbering of the search.
    kinds: NDArray[np.int8]  # Shape (n, depth - 1): kinds of their connections.
    ends: NDArray[np.int64]  # Shape (n, depth - 1, 2): entities of their connections.
    scores: Scores  # Shape (n,).
    needs_text: bool = False  # Whether they are still to be scored by the vector of their joined text.

    def first(self, count: int) -> "_Paths":
        """The first by descending score, then ascending propositions."""
        order = np.lexsort((*self.members.T[::-1], -np.round(self.scores, DECIMALS)))[:count]
        return _Paths(self.members[order], self.kinds[order], self.ends[order], self.scores[order], self.needs_text)

    def written(self, numbers: Numbers) -> tuple[PropositionPath, ...]:
        """As people and later steps read them; `numbers` are those of the propositions searched."""
        parts = (numbers[self.members], self.kinds, self.ends, self.scores)
        return tuple(
            PropositionPath(
                tuple(members),
                tuple(
                    PropositionLink(_KINDS[kind], *(None if entity == _NO_ENTITY else entity for entity in pair))
                    for kind, pair in zip(kinds, ends, strict=True)
                ),
                score,
            )
            for members, kinds, ends, score in zip(*(part.tolist() for part in parts), strict=True)
        )


class _Beam:
    """The beam of one question, and what it grows in."""

    def __init__(self, graph: PropositionGraph, search: PropositionPathQuery, rule: PathRule) -> None:
        self.numbers = search.propositions
        self.question = _unit(search.question[None, :])[0]
        self._rule = rule
        self._vectors = _unit(search.vectors)
        self._similarities = np.einsum("ud,d->u", self._vectors, self.question)
        self._order = np.argsort(-np.round(self._similarities, DECIMALS), kind="stable")
        self._links = _Links(graph, search.propositions, rule.synonym_threshold)
        self._jumps = self._order if rule.allow_unconnected else self._order[: rule.jump_points]
        self._kept = [self._alone(rule.beam_width)]

    def extended(self) -> _Paths:
        """The candidates of the next depth, `rescored` at most, by mean vector. Source: algorithms.md 3.6 (Depth d)."""
        beam, rule = self._kept[-1], self._rule
        steps = self._links.leaving(beam.members[:, -1], self._jumps)
        members = np.concatenate((beam.members[steps.paths], steps.targets[:, None]), axis=1)
        is_new = ~np.any(beam.members[steps.paths] == steps.targets[:, None], axis=1)
        # Of the rows `which`, ascending, the first of those that hold the same propositions in any order.
        which = np.flatnonzero(is_new)
        sets = np.sort(members[which], axis=1)
        order = np.lexsort(sets.T)
        is_first = np.ones(len(order), dtype=np.bool_)
        is_first[1:] = np.any(sets[order[1:]] != sets[order[:-1]], axis=1)
        fresh = np.sort(which[order[is_first]])
        parents, added = steps.paths[fresh], steps.targets[fresh]
        candidates = _Paths(
            members[fresh],
            np.concatenate((beam.kinds[parents], steps.kinds[fresh, None]), axis=1),
            np.concatenate((beam.ends[parents], steps.ends[fresh, None]), axis=1),
            self._mean_similarities(beam.members, parents, added),
            rule.exact and len(fresh) > (0 if rule.exact_when_few else rule.beam_width),
        )
        return candidates.first(rule.rescored)

    def keep(self, paths: _Paths, vectors: NDArray[np.floating] | None) -> None:
        """Takes the best of these paths as the beam of their depth, by the vectors of their joined texts if given."""
        if vectors is not None:
            paths = replace(paths, scores=np.einsum("nd,d->n", _unit(vectors), self.question))
        self._kept.append(paths.first(self._rule.beam_width))

    def found(self) -> FoundPaths:
        """Everything that was in the beam."""
        rule = self._rule
        initial = self._alone(rule.beam_width if rule.explore_propositions is None else rule.explore_propositions)
        beams = tuple(paths.written(self.numbers) for paths in self._kept if len(paths.scores))
        paths = sorted(
            (path for beam in beams for path in beam),
            key=lambda path: (-round(path.score, DECIMALS), len(path.propositions), path.propositions),
        )
        return FoundPaths(initial.written(self.numbers), beams, tuple(paths))

    def _alone(self, count: int) -> _Paths:
        """The most similar propositions as paths of length 1."""
        first = self._order[:count]
        n = len(first)
        nothing = (np.empty((n, 0), dtype=np.int8), np.empty((n, 0, 2), dtype=np.int64))
        return _Paths(first[:, None], *nothing, self._similarities[first])

    def _mean_similarities(self, paths: Numbers, parents: Numbers, added: Numbers) -> Scores:
        """Cosine of the question and the mean vector of a parent (an offset in `paths`) with one more proposition."""
        sums = self._vectors[paths].sum(axis=1)
        inner = np.einsum("bd,ud->bu", sums, self._vectors)[parents, added]
        squares = np.einsum("bd,bd->b", sums, sums)[parents] + 2 * inner + 1
        along = np.einsum("bd,d->b", sums, self.question)[parents] + self._similarities[added]
        short = np.flatnonzero(squares < _CANCELLING)
        added_up = sums[parents[short]] + self._vectors[added[short]]
        squares[short], along[short] = np.einsum("nd,nd->n", added_up, added_up), added_up @ self.question
        return np.asarray(np.divide(along, np.sqrt(squares), out=np.zeros_like(along), where=squares > 0))


@dataclass(frozen=True, slots=True)
class _Steps:
    """Ways on from the paths of a beam: which path, to which proposition, how, by which two entities."""

    paths: Numbers
    targets: Numbers
    kinds: NDArray[np.int8]
    ends: NDArray[np.int64]


class _Links:
    """Links of the propositions of a search: entities and their synonyms, numbered among those that occur."""

    def __init__(self, graph: PropositionGraph, propositions: Numbers, synonym_threshold: float) -> None:
        owners, offsets = graph.entities.gathered(propositions)
        self._numbers, entities = np.unique(graph.entities.indices[offsets], return_inverse=True)
        count = len(self._numbers)
        self._entities = CompressedRows.of(owners, entities, len(propositions))
        self._propositions = CompressedRows.of(entities, owners, count)
        owners, offsets = graph.synonyms.gathered(self._numbers)
        synonyms = graph.synonyms.indices[offsets]
        position = np.minimum(np.searchsorted(self._numbers, synonyms), max(0, count - 1))
        is_linked = (graph.similarities[offsets] >= synonym_threshold) & (self._numbers[position] == synonyms)
        itself = np.arange(count)
        self._reached = CompressedRows.of(
            np.concatenate((itself, owners[is_linked])), np.concatenate((itself, position[is_linked])), count
        )

    def leaving(self, lasts: Numbers, jumps: Numbers) -> _Steps:
        """Ways on, path by path: by each entity of its last proposition, then by each synonym of it, then by jumps.

        Args:
            lasts: Shape (b,): last proposition of each path.
            jumps: Shape (j,): propositions that continue any path, in the order wanted.

        Returns:
            A proposition may be reached in several ways, the first of which counts.
        Source: algorithms.md 3.6 (connected).
        """
        paths, offsets = self._entities.gathered(lasts)
        sources = self._entities.indices[offsets]
        by_source, offsets = self._reached.gathered(sources)
        targets = self._reached.indices[offsets]
        by_target, offsets = self._propositions.gathered(targets)
        from_source = by_source[by_target]
        left, right = sources[from_source], targets[by_target]
        connected = len(offsets)
        all_paths = np.concatenate((paths[from_source], np.repeat(np.arange(len(lasts)), len(jumps))))
        reached = np.concatenate((self._propositions.indices[offsets], np.tile(jumps, len(lasts))))
        kinds = np.full(len(all_paths), _JUMP, dtype=np.int8)
        kinds[:connected] = np.where(left == right, _EXACT, _SYNONYM)
        ends = np.full((len(all_paths), 2), _NO_ENTITY, dtype=np.int64)
        ends[:connected] = np.stack((self._numbers[left], self._numbers[right]), axis=1)
        order = np.argsort(all_paths, kind="stable")
        return _Steps(all_paths[order], reached[order].astype(np.intp), kinds[order], ends[order])


def _joined_vectors(
    paths: Sequence[Sequence[Sequence[int]]], texts_of: TextsOf, encode: Encode
) -> list[NDArray[np.floating] | None]:
    """Vectors of the joined texts of each question's paths, None where it has none; each callable is called once."""
    numbers = sorted({number for rows in paths for row in rows for number in row})
    if not numbers:
        return [None] * len(paths)
    text_of = dict(zip(numbers, texts_of(numbers), strict=True))
    joined = [[" ".join([text_of[number] for number in row]) for row in rows] for rows in paths]
    offset_of = {text: offset for offset, text in enumerate(dict.fromkeys(text for texts in joined for text in texts))}
    vectors = encode(list(offset_of))
    return [vectors[[offset_of[text] for text in texts]] if texts else None for texts in joined]


def _unit(vectors: NDArray[np.floating]) -> Scores:
    """Rows scaled to length 1, in float64; rows without length are 0."""
    wide = vectors.astype(np.float64)
    lengths = np.sqrt(np.einsum("ud,ud->u", wide, wide))[:, None]
    return np.asarray(np.divide(wide, lengths, out=np.zeros_like(wide), where=lengths > 0))


# Source: algorithms.md 3.5 to 3.8.

PathFallback = Literal["", "dense", "stage1"]


@dataclass(frozen=True, slots=True)
class PropositionIndex:
    """Data of path searches, prepared once per version."""

    graph: PropositionGraph  # Propositions with entities and passages.
    walk: WeightedGraph  # Its edges, by `weighted_graph` with the rule's `entity_edge_factor` and `edge_weights`.
    # Shape (n_propositions, d): vectors in number order; read only for propositions of a subgraph.
    vectors: NDArray[np.floating]
    texts_of: TextsOf  # Texts of propositions by number.


@dataclass(frozen=True, slots=True)
class PathSeed:
    """An entity that the second walk starts from."""

    entity: int  # Its number.
    explore: float  # Its share of the largest weight among entities of the most similar propositions, 0 if not chosen.
    exploit: float  # Its share of the largest weight among entities of the best paths, 0 if not chosen.

    @property
    def weight(self) -> float:
        """Its weight: the larger of the two."""
        return max(self.explore, self.exploit)


@dataclass(frozen=True, slots=True)
class PropositionRanking:
    """Ranked passages, and what led to them."""

    passages: NDArray[np.intp]  # Shape (n,): passage numbers.
    # Shape (n,): for display; passages outside the subgraph are ranked apart and stay after those inside.
    scores: NDArray[np.float64]
    # "dense" if there was nothing to start the first walk from, so that similarity ranks; "stage1" if there was nothing
    # to search or to start the second walk from, so that the first walk ranks.
    fallback: PathFallback = ""
    focus: Focus | None = None  # The first walk, None with the fallback "dense".
    found: FoundPaths | None = None  # Paths, None if none were searched.
    seeds: tuple[PathSeed, ...] = ()  # Of the second walk, in descending order of weight.


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
        number: PropositionPathQuery(part.propositions, index.vectors[part.propositions], questions[number].vector)
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
