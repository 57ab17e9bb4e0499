"""Hubs for a question: topics, levels, scores of hub paths, the chosen hubs and their rankings (pure).

Source: algorithms.md 4.8, G-HUB-3, G-HUB-4.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from polyhop.schemas.errors import AlgorithmError
from polyhop.schemas.graph import NamedTriple, gathered
from polyhop.schemas.hub_paths import RootWalk, StoredHubs, candidate_layer, joined, layer_at
from polyhop.schemas.hubs import LEVELS, HubGraph, HubPaths, HubRows, Numbers
from polyhop.schemas.propositions import CompressedRows, StoredTexts
from polyhop.schemas.text import entity_id, node_id, norm_ws
from polyhop.worker.ranking.fusion import DECIMALS, best, contenders
from polyhop.worker.ranking.similarity import cosines


def words_of(stored: StoredHubs, triples: Sequence[int]) -> list[NamedTriple]:
    """Triples by number, in the order asked."""
    graph = stored.graph
    numbers = [int(node) for triple in triples for node in (graph.subjects[triple], graph.objects[triple])]
    ids, labels = stored.own_ids.of(numbers), stored.labels.of(numbers)
    predicates = [stored.predicates[int(graph.predicates[triple])] for triple in triples]
    return [
        NamedTriple(ids[2 * n], labels[2 * n], predicate, ids[2 * n + 1], labels[2 * n + 1])
        for n, predicate in enumerate(predicates)
    ]


Scores = NDArray[np.float64]
_TRIPLE_ROW = LEVELS.index("triple")
_HASH_PARTS = 4  # 8 bytes each of a sha256, compared as large numbers in the order of its digits


@dataclass(frozen=True, slots=True)
class PathScores:
    """Scores of a question for every path, shape (p,), and for the distinct texts of rows, shape (t,).

    From 0 to 1; minus infinity for what search does not see.
    """

    paths: Scores
    texts: Scores


class PathSearch:
    """The rows of a version, ready for questions; shared by threads.

    Args:
        rows: What is compared with a question.
        vectors: Shape (t, d), float32, of length 1, by number of a row's text; one of zeros is missing, and no row of
            it is seen.

    Attributes:
        has_triple_rows: Whether some rows stand for single triples.
        text_count: Distinct texts, each compared with every question.
    """

    def __init__(self, paths: HubPaths, rows: HubRows, vectors: NDArray[np.float32]) -> None:
        self.paths = paths
        self.text_count = len(vectors)
        self._vectors = vectors
        self._missing = np.flatnonzero(~np.any(vectors, axis=1)) if len(vectors) else np.empty(0, dtype=np.intp)
        order = np.argsort(rows.row_paths, kind="stable")
        self._row_texts = rows.row_texts[order].astype(np.intp)  # of this type they select fastest
        self._row_triples = np.where(rows.row_levels == _TRIPLE_ROW, rows.row_triples, -1)[order]
        self.has_triple_rows = bool(np.any(self._row_triples >= 0))
        self._starts = np.searchsorted(rows.row_paths[order], np.arange(paths.path_count + 1))
        counts = np.diff(self._starts)
        self._is_simple = bool(np.all(counts == 1))
        self._with_rows = np.flatnonzero(counts)

    def scores(self, queries: NDArray[np.float32], least: float = 0.0) -> PathScores:
        """Scores of all paths.

        Args:
            queries: Shape (m, d), m >= 1, of length 1: the question, and its components if they are used.
            least: Paths that score below it are not seen.

        Cost: O(t * d * m + rows).
        """
        if len(self._vectors) and queries.shape[1:] != self._vectors.shape[1:]:
            raise AlgorithmError(
                f"The question's vectors have shape {queries.shape}, those of hub paths {self._vectors.shape}; encode "
                "questions with the model that built the index."
            )
        texts = np.empty(0)
        if len(self._vectors):
            products = self._vectors @ queries.astype(np.float32, copy=False).T
            largest = products[:, 0] if products.shape[1] == 1 else products.max(axis=1)
            texts = np.clip(largest, 0, 1).astype(np.float64)  # float32 makes a little more than 1 of equal texts
            texts[self._missing] = -np.inf
        found = np.full(self.paths.path_count, -np.inf)
        if self._is_simple:
            found = texts.take(self._row_texts)
        elif len(self._with_rows):
            found[self._with_rows] = np.maximum.reduceat(texts.take(self._row_texts), self._starts[self._with_rows])
        if least > 0:
            found[found < least] = -np.inf
        return PathScores(found, texts)

    def best_row_triple(self, scores: PathScores, path: int) -> int:
        """The triple that the row with a path's score stands for; -1 if that row stands for something else.

        Of equal rows the first.
        """
        start, end = int(self._starts[path]), int(self._starts[path + 1])
        if start == end:
            return -1
        row = start + int(np.argmax(np.round(scores.texts[self._row_texts[start:end]], DECIMALS)))
        return int(self._row_triples[row])


def best_paths(scores: Scores, hashes: NDArray[np.uint8], count: int) -> NDArray[np.intp]:
    """Numbers of the `count` best paths, in descending order of score; equal scores by ascending hash.

    Args:
        scores: Shape (n,); paths at minus infinity are left out.
        hashes: Shape (n, 32), sha256.
        count: How many; fewer are returned if there are fewer.

    Source: algorithms.md 4.8.
    """
    seen = np.flatnonzero(scores > -np.inf)
    near = seen[contenders(scores[seen], count)]
    keys = np.ascontiguousarray(hashes[near]).view(">u8").reshape(len(near), _HASH_PARTS)
    order = np.lexsort((*keys.T[::-1], -np.round(scores[near], DECIMALS)))
    return near[order[: max(count, 0)]]


@dataclass(frozen=True, slots=True)
class ScoredHub:
    """A hub with its kept paths, in descending order of score, and their weighted mean score, 0 without any."""

    hub: int
    score: float
    paths: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChoiceRule:
    """Parameters of the choice."""

    hubs: int  # gamma: hubs to choose.
    paths: int  # alpha_paths: paths kept of a hub.
    weight: float  # How much better paths count more (w = exp(weight * score)); 0 is the mean.


def weighted_score(scores: Sequence[float] | Scores, weight: float) -> float:
    """Mean of path scores, weighted by exp(weight * score); 0 of none.

    Source: algorithms.md 4.8 (hub score), G-HUB-4.
    """
    values = np.asarray(scores, dtype=np.float64)
    if not len(values):
        return 0.0
    weights = np.exp(weight * (values - values.max()))
    return float(np.sum(weights * values) / np.sum(weights))


def diversified(scores: Sequence[float], subjects: Sequence[int], penalty: float) -> list[int]:
    """An order of a hub's rows in which rows of level triple about one subject come later and later.

    Args:
        scores: In descending order.
        subjects: Of the row's triple; -1 for a row of another level, which is never penalised.
        penalty: Taken off once for the first repetition of a subject, twice for the second…

    Returns:
        Indices into `scores`, in descending order of the penalised scores.
    Source: algorithms.md 4.8 (diversity re-ranking), G-HUB-4.
    """
    before: dict[int, int] = {}
    penalised = []
    for score, subject in zip(scores, subjects, strict=True):
        repeated = before.get(subject, 0) if subject >= 0 else 0
        before[subject] = repeated + 1
        penalised.append(score - penalty * repeated)
    return sorted(range(len(penalised)), key=lambda index: -round(penalised[index], DECIMALS))


class HubChoice:
    """Chooses among the hubs of a version."""

    def __init__(self, paths: HubPaths) -> None:
        self._paths = paths
        self._with_paths = np.flatnonzero(np.diff(paths.path_starts))

    def by_candidates(self, scores: Scores, rule: ChoiceRule) -> list[ScoredHub]:
        """The direct strategy: the hubs of the best paths, in descending order of hub score, then by hub id.

        Each round looks at as many of the best paths, of hubs not yet chosen, as could fill all free slots; hubs are
        chosen in order of their best path.

        Source: algorithms.md 4.8 (direct strategy), G-HUB-3.
        """
        # The hubs that so many best paths can belong to: those with the best paths.
        tops = np.full(len(self._paths.hubs), -np.inf)
        if len(self._with_paths):
            tops[self._with_paths] = np.maximum.reduceat(scores, self._paths.path_starts[self._with_paths])
        seen = np.flatnonzero(tops > -np.inf)
        pool = seen[contenders(tops[seen], rule.hubs * rule.paths)]
        # Hub and number of each path of some hubs.
        starts, numbers = gathered(self._paths.path_starts, pool)
        owners = np.repeat(pool, np.diff(starts))
        left, hashes = scores[numbers], self._paths.hashes[numbers]
        chosen: dict[int, None] = {}
        while len(chosen) < rule.hubs:
            found = best_paths(left, hashes, (rule.hubs - len(chosen)) * rule.paths)
            if not len(found):
                break
            fresh = dict.fromkeys(owners[found].tolist())
            chosen.update(dict.fromkeys(list(fresh)[: rule.hubs - len(chosen)]))
            left[np.isin(owners, list(chosen))] = -np.inf
        return in_order([self.scored(scores, hub, rule) for hub in chosen])

    def best_of(self, scores: Scores, hubs: NDArray[np.intp], rule: ChoiceRule) -> list[ScoredHub]:
        """The best of some hubs by hub score, in descending order of it, then by hub id; hubs without paths last.

        Source: algorithms.md 4.8 (traversal strategy, pruning).
        """
        hubs = np.sort(hubs)
        found = hub_scores(scores, self._paths.path_starts, hubs, rule.paths, rule.weight)
        kept = hubs[best(found, rule.hubs)].tolist()
        return in_order([self.scored(scores, hub, rule) for hub in kept])

    def scored(self, scores: Scores, hub: int, rule: ChoiceRule) -> ScoredHub:
        """A hub with its best paths."""
        start, end = self._paths.path_starts[hub], self._paths.path_starts[hub + 1]
        kept = start + best_paths(scores[start:end], self._paths.hashes[start:end], rule.paths)
        return ScoredHub(hub, weighted_score(scores[kept], rule.weight), tuple(kept.tolist()))


def _hub_scores(scores: Scores, starts: Numbers, hubs: NDArray[np.intp], count: int, weight: float) -> Scores:
    """Hub scores of some hubs by their `count` best paths, shape (len(hubs),); -1 without paths that are seen."""
    found = np.full(len(hubs), -1.0)
    largest = np.empty(count)
    for number in range(len(hubs)):
        largest[:] = -np.inf
        for path in range(starts[hubs[number]], starts[hubs[number] + 1]):
            value = scores[path]
            if value > largest[count - 1]:
                for rank in range(count):
                    kept = largest[rank]
                    largest[rank] = max(kept, value)
                    value = min(kept, value)
        total, weights = 0.0, 0.0
        for value in largest:
            if value > -np.inf:
                total += np.exp(weight * (value - 1)) * value
                weights += np.exp(weight * (value - 1))
        if weights > 0:
            found[number] = total / weights
    return found


hub_scores: Any = njit(cache=True)(_hub_scores)  # Compiled `_hub_scores`.


def in_order(hubs: list[ScoredHub]) -> list[ScoredHub]:
    """By score, then hub id; hubs without paths after all others."""
    return sorted(hubs, key=lambda hub: (not hub.paths, -round(hub.score, DECIMALS), hub.hub))


@dataclass(frozen=True, slots=True)
class Level:
    """Result of one level of a search."""

    number: int  # From 1. Levels that reach no hub are left out.
    hubs: tuple[ScoredHub, ...]  # The best, in descending order of hub score.
    paths_to_topic: tuple[tuple[int, ...], ...]  # Triples from the topic to each of them, in the order walked.
    found: int  # How many hubs the level reached in all.
    not_indexed: tuple[int, ...] = ()  # Nodes that are hubs by definition, but whose paths no index run has found.


class TopicWalk:
    """The graph of a version, ready for searches from a topic; shared by threads."""

    def __init__(self, graph: HubGraph, paths: HubPaths, unreached: Numbers) -> None:
        """For a version; `unreached` are the nodes that are hubs but have no paths in it."""
        self._graph = graph
        self._paths = paths
        self._choice = HubChoice(paths)
        self._hub_of = np.full(graph.node_count, -1, dtype=np.int32)
        self._hub_of[paths.hubs] = np.arange(len(paths.hubs))
        self._is_hub = self._hub_of >= 0
        self._is_hub[unreached] = True

    def levels(
        self, topic: int, scores: Scores, rule: ChoiceRule, *, most_levels: int, until_hub: bool = True
    ) -> Iterator[Level]:
        """The levels in which hubs are reached, one at a time, as they are asked for.

        The search begins at the topic in both directions and goes on from the candidates of all hubs of a level, those
        that are left out of it included.

        Args:
            topic: A node.
            scores: Of all paths.
            rule: How many hubs of a level, and of their paths.
            most_levels: beta.
            until_hub: eta: a level goes on along every path until it meets a hub; otherwise it is one step.
        """
        walk = RootWalk(self._graph, self._is_hub)
        starts = layer_at([topic], both_ways=True)
        for number in range(1, most_levels + 1):
            nodes, positions, after = walk.level(starts, until_hub=until_hub)
            hubs = self._hub_of[nodes]
            if len(nodes):
                chosen = self._choice.best_of(scores, hubs[hubs >= 0].astype(np.intp), rule)
                ways = tuple(walk.triples_to(int(positions[np.argmax(hubs == hub.hub)]), self._paths) for hub in chosen)
                not_indexed = tuple(sorted(nodes[hubs < 0].tolist()))
                yield Level(number, tuple(chosen), ways, len(nodes), not_indexed)
            starts = joined(after, candidate_layer(self._paths, hubs[hubs >= 0], positions[hubs >= 0]))
            if not len(starts.nodes):
                return


# Source: algorithms.md 4.8 (order of levels), 4.9, 4.10 (contexts).

Pairs = NDArray[np.int64]


def linked(pairs: Pairs, count: int) -> CompressedRows:
    """Passages of each of `count` triples or hubs, ascending, from pairs in any order, shape (e, 2)."""
    pairs = pairs[np.argsort(pairs[:, 1], kind="stable")]
    return CompressedRows.of(pairs[:, 0], pairs[:, 1], count)


@dataclass(frozen=True, slots=True)
class UsedPath:
    """A path with its score and the rank of its hub, from 0."""

    path: int
    score: float
    hub_rank: int


def used_paths(hubs: Sequence[ScoredHub], scores: Scores) -> list[UsedPath]:
    """The kept paths of consecutive hubs."""
    return [UsedPath(path, float(scores[path]), rank) for rank, hub in enumerate(hubs) for path in hub.paths]


def rank_triples(levels: Iterable[Sequence[UsedPath]], paths: HubPaths) -> list[tuple[int, float]]:
    """Triples with the score of the path that placed them, each once.

    Within a level paths stand by score, then rank of their hub, then hash; each gives its last triple, and all their
    other triples follow in the same order.

    Source: algorithms.md 4.10 (contexts).
    """
    placed: dict[int, float] = {}
    for used in levels:
        ordered = in_context_order(used, paths)
        for one in ordered:
            placed.setdefault(int(paths.triples_of(one.path)[-1]), one.score)
        for one in ordered:
            for triple in paths.triples_of(one.path)[:-1].tolist():
                placed.setdefault(triple, one.score)
    return list(placed.items())


def in_context_order(used: Sequence[UsedPath], paths: HubPaths) -> list[UsedPath]:
    """Paths by score, then rank of their hub, then hash. Source: algorithms.md 4.10."""
    return sorted(used, key=lambda one: (-round(one.score, DECIMALS), one.hub_rank, paths.hashes[one.path].tobytes()))


def linked_passages(passages: NDArray[np.integer], values: Scores, count: int) -> list[tuple[int, float]]:
    """The `count` passages of a hub with the largest cosines, with these; ties to the smaller number.

    Source: algorithms.md 4.9.
    """
    order = np.lexsort((passages, -np.round(values, DECIMALS)))[:count]
    return list(zip(passages[order].tolist(), values[order].tolist(), strict=True))


def rank_passages(
    levels: Iterable[tuple[Sequence[ScoredHub], Sequence[Sequence[tuple[int, float]]]]],
    scores: Scores,
    paths: HubPaths,
    stating: CompressedRows,
) -> list[tuple[int, float]]:
    """Passages with their scores, each once, level by level; equal scores by passage number."""
    ranked: dict[int, float] = {}
    for hubs, linked in levels:
        found: dict[int, float] = {}
        for hub, near in zip(hubs, linked, strict=True):
            for path in hub.paths:
                for passage in stating.row(int(paths.triples_of(path)[-1])).tolist():
                    found[passage] = max(found.get(passage, 0.0), float(scores[path]))
            for passage, cosine in near:
                found[passage] = max(found.get(passage, 0.0), hub.score * max(cosine, 0.0))
        for passage, score in sorted(found.items(), key=lambda pair: (-round(pair[1], DECIMALS), pair[0])):
            ranked.setdefault(passage, score)
    return list(ranked.items())


# Source: algorithms.md 4.8 (topic).

MIN_SIMILARITY = 0.6  # Least cosine of a label that is taken for a topic. Source: algorithms.md 4.8.

MATCHES = ("id", "exact", "alias", "vector")  # How a topic was found, the surest first.


@dataclass(frozen=True, slots=True)
class Topic:
    """A node that a topic means."""

    node: int
    match: str  # One of MATCHES.
    similarity: float | None = None  # Cosine of its label, for "vector" only.
    others: tuple[int, ...] = ()  # Further nodes of that label, those with most edges first.


class Topics:
    """The nodes of a version by what they are called; a table of all labels is made when the first one is looked up.

    Args:
        stored: The graph and its names.
        aliases: Key of an entity by another form of its name.
        entities: Keys and ids of the entities that have vectors, for search by similarity.
        vectors: Shape (n, d), float32, of their names (of a text's entities also of their descriptions).
    """

    def __init__(
        self,
        stored: StoredHubs,
        aliases: Mapping[str, str],
        entities: tuple[Sequence[str], Sequence[str]],
        vectors: NDArray[np.float32],
    ) -> None:
        self._stored = stored
        self._aliases = aliases
        self._keys, self._ids = entities
        self._vectors = vectors
        self._edges = np.diff(stored.graph.out_starts) + np.diff(stored.graph.in_starts)

    def by_name(self, name: str) -> Topic | None:
        """The node with this own id, this label, or a label that this is another form of."""
        own = number_of(self._stored.own_ids, self._stored.graph.node_count, name)
        if own is not None:
            return Topic(own, "id")
        key = norm_ws(name)
        if key in self._by_label:
            return self._most_edges(self._by_label[key], "exact")
        other = self._aliases.get(key)
        if other is None:
            return None
        same = number_of(self._stored.own_ids, self._stored.graph.node_count, other)
        nodes = [same] if same is not None else self._by_label.get(other, [])
        return self._most_edges(nodes, "alias") if nodes else None

    def by_vector(self, vector: NDArray[np.float32]) -> Topic | None:
        """The node with the label most similar to a vector of shape (d,); None if none is similar enough."""
        if not len(self._vectors):
            return None
        found = cosines(self._vectors, vector)
        best = int(np.argmax(np.round(found, 6)))  # float32 has no more digits
        similarity = float(found[best])
        # The node of an entity: a text's has the entity's key as its own id, a graph's one that the id is made of.
        key, identity = self._keys[best], self._ids[best]
        node = number_of(self._stored.own_ids, self._stored.graph.node_count, key)
        node = node if node is not None and entity_id(key) == identity else self._by_identity.get(identity)
        if similarity < MIN_SIMILARITY or node is None:
            return None
        (label,) = self._stored.labels.of([node])
        return self._most_edges(self._by_label[norm_ws(label)], "vector", round(similarity, 6))

    def find(self, names: Sequence[str], vectors: Mapping[str, NDArray[np.float32]]) -> dict[str, Topic]:
        """The nodes that names mean, by name, the surest first; names that mean none are left out."""
        found: dict[str, Topic] = {}
        for name in names:
            topic = self.by_name(name)
            if topic is None and name in vectors:
                topic = self.by_vector(vectors[name])
            if topic is not None:
                found[name] = topic
        return dict(sorted(found.items(), key=lambda pair: MATCHES.index(pair[1].match)))

    def _most_edges(self, nodes: Sequence[int], match: str, similarity: float | None = None) -> Topic:
        first, *others = sorted(nodes, key=lambda node: (-int(self._edges[node]), node))
        return Topic(first, match, similarity, tuple(others))

    @cached_property
    def _by_label(self) -> dict[str, list[int]]:
        labels = self._stored.labels.of(range(self._stored.graph.node_count))
        nodes: dict[str, list[int]] = {}
        for node, label in enumerate(labels):
            nodes.setdefault(norm_ws(label), []).append(node)
        return nodes

    @cached_property
    def _by_identity(self) -> dict[str, int]:
        own_ids = self._stored.own_ids.of(range(self._stored.graph.node_count))
        return {node_id(own_id): node for node, own_id in enumerate(own_ids)}


def number_of(texts: StoredTexts, count: int, wanted: str) -> int | None:
    """The number of a text among ascending ones, None if it is not there. Cost: O(log n)."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        (text,) = texts.of([middle])
        if text < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < count and texts.of([low]) == [wanted] else None
