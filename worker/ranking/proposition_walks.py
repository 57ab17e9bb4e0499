"""The two walks over propositions' entities and passages: from the whole graph to a subgraph, and inside the subgraph.

Nodes are the entities, then the passages, each in number order. Source: algorithms.md 0.4, 3.3 (3), 3.5, 3.8.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import AlgorithmError
from polyhop.schemas.graph import distinct
from polyhop.schemas.propositions import PropositionGraph
from polyhop.worker.ranking.fusion import DECIMALS, best
from polyhop.worker.ranking.pagerank import normalised_seeds

if TYPE_CHECKING:
    from scipy import sparse


# Source: algorithms.md 3.4, 3.6.

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
    """Parameters and ablations of a search for proposition paths, as in the paper. Source: algorithms.md 3.4, 3.6."""

    beam_width: int = 4  # B, paths that go on after a depth, at least 1.
    max_length: int = 3  # L_max, propositions in a path, at least 1.
    rescored: int = 40  # M, candidates per depth that are scored by the vector of their joined text, at least 1.
    jump_points: int = 3  # Most similar propositions that continue any path, whether connected or not.
    # Whether candidates are scored by the vector of their joined text; if not, by their mean vector only.
    exact: bool = True
    exact_when_few: bool = True  # Whether that holds for at most `beam_width` candidates too (the published code: no).
    allow_unconnected: bool = False  # Whether every proposition of the subgraph continues any path.
    # Least cosine of two names at which a path goes from one to the other; at least the index's.
    synonym_threshold: float = 0.8
    seed_propositions: int = 20  # N_prop, most similar propositions whose entities the first walk may start from.
    seed_entities: int = 40  # N_entity, entities that the first walk starts from.
    stage1_restart: float = 0.25  # Probability that the first walk returns to its seeds, above 0.
    stage1_passage_weight: float = 0.0  # Share of each passage's normalised similarity in the first walk's seeds.
    # Seeds of the first walk: 1 each, or the mean similarity of the propositions that name the entity divided by the
    # number of passages that contain it.
    stage1_entity_weight: Literal["uniform", "mean_per_passage"] = "uniform"
    stage1_only: bool = False  # Whether all passages are ranked by the first walk.
    subgraph_passages: int = 50  # K, passages of the subgraph.
    # P_initial, most similar propositions that give seeds; None for `beam_width`.
    explore_propositions: int | None = None
    explore_entities: int = 5  # B_initial, entities taken from them.
    exploit_paths: int = 5  # P_beam, paths that give seeds.
    exploit_entities: int = 5  # B_beam, entities taken from them.
    # Which of the two sets of entities the second walk starts from.
    seeds: Literal["both", "explore_only", "exploit_only"] = "both"
    # Weight of an entity: the sum of the scores of what names it, or the largest.
    entity_weight: Literal["sum", "max"] = "sum"
    passage_weight: float = 0.05  # lambda, share of each passage's normalised similarity in the second walk's seeds.
    stage2_restart: float = 0.55  # Probability that the second walk returns to its seeds, above 0.
    entity_edge_factor: float = 2.0  # Factor of edges between entities relative to those between entity and passage.
    # An edge between entities before that factor: shared propositions and synonymy added, or 1.
    edge_weights: EdgeWeights = "counts"


TOLERANCE = 1e-12  # Largest sum of errors over all nodes. Source: algorithms.md 0.4 (ppr_exact).

MAX_STEPS = 1000
"""Three times the 308 steps of a restart probability of .005; the paper's take 39 and 22 (on 86,000 edge entries)."""

Scores = NDArray[np.float64]
Numbers = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class WeightedGraph:
    """Undirected weighted edges between nodes."""

    weights: "sparse.csr_array"  # Shape (n, n), CSR float64, symmetric, above 0 where stored, nothing on the diagonal.
    strengths: Scores  # Shape (n,): sums of the rows, 0 for isolated nodes.

    def induced(self, nodes: Numbers) -> "WeightedGraph":
        """The edges among some nodes, which are renumbered in the order given. Cost: O(n + edges of these nodes)."""
        weights = self.weights[nodes][:, nodes]
        return WeightedGraph(weights, np.asarray(weights.sum(axis=1)))


@dataclass(frozen=True, slots=True)
class Similarities:
    """Similarities of a question to vectors of the index."""

    vector: Scores  # Shape (d,), float64: the question's vector.
    propositions: Scores  # Shape (n_propositions,), float64: cosines; NaN for propositions without a vector.
    passages: Scores  # Shape (n_passages,), float64: cosines.
    # Propositions that the first walk starts from, in descending order of similarity; None: the most similar ones.
    seeds: Numbers | None = None


@dataclass(frozen=True, slots=True)
class Focus:
    """Result of the first walk."""

    propositions: Numbers  # The most similar ones, in descending order of similarity.
    entities: Numbers  # Seeds, in descending order of relevance.
    weights: Scores
    scores: Scores  # Shape (n_passages,): what the walk gave to each passage.
    # Passages in descending order of score, then similarity, then ascending number; as many as asked for.
    order: Numbers


@dataclass(frozen=True, slots=True)
class Subgraph:
    """Some passages and the entities that they contain."""

    entities: Numbers
    passages: Numbers  # Their numbers, in the order of the first walk.
    graph: WeightedGraph  # Edges among these entities, then these passages.
    propositions: Numbers  # Those of these passages that have a vector, ascending.


def weighted_graph(
    graph: PropositionGraph, entity_edge_factor: float, edge_weights: EdgeWeights = "counts"
) -> WeightedGraph:
    """The edges that are walked.

    Returns:
        Between entities the factor times that weight; between entity and passage 1.
    Source: algorithms.md 3.3 (3).
    Cost: O(edges log edges), once per version.
    """
    from scipy import sparse

    _, entities, passages = graph.shape
    square = (entities, entities)
    cliques = sparse.csr_array((graph.clique_counts.astype(float), graph.cliques.indices, graph.cliques.indptr), square)
    synonyms = sparse.csr_array((graph.similarities, graph.synonyms.indices, graph.synonyms.indptr), square)
    rows = graph.passage_entities
    contained = sparse.csr_array((np.ones(len(rows.indices)), rows.indices, rows.indptr), (passages, entities))
    between = cliques + synonyms.sorted_indices()
    if edge_weights == "ones":
        between.data[:] = 1.0
    between = between * entity_edge_factor
    weights = sparse.csr_array(sparse.block_array([[between, contained.T], [contained, None]], format="csr"))
    return WeightedGraph(weights.sorted_indices(), np.asarray(weights.sum(axis=1)))


def pagerank(graph: WeightedGraph, seeds: Scores, restart: float, tolerance: float = TOLERANCE) -> Scores:
    """Personalised PageRank to convergence on undirected edges.

    Chebyshev's acceleration of the power iteration: on undirected edges all eigenvalues of a step are real, so that a
    restart probability of .25 takes 39 steps instead of 100. What reaches isolated nodes returns to the seeds.

    Args:
        graph: The edges.
        seeds: Shape (n,), see `normalised_seeds`.
        restart: Probability of returning to the seeds, above 0, at most 1.
        tolerance: The errors of all nodes together are at most this.

    Returns:
        Shape (n,), summing to 1 up to the tolerance; exactly 0 where no seed can reach.

    Source: algorithms.md 0.4 (ppr_exact); Golub and Varga, Chebyshev semi-iterative methods, 1961.
    Cost: O(edges * log(1 / tolerance) / sqrt(restart)).
    """
    start = normalised_seeds(seeds)
    follow = 1.0 - restart
    is_linked = graph.strengths > 0
    shares = np.divide(follow, graph.strengths, out=np.zeros_like(start), where=is_linked)
    base = start * (restart / (1.0 - follow * float(start[~is_linked].sum())))
    previous, current = base, base + graph.weights @ (base * shares)
    factor = 2.0 / (2.0 - follow * follow)
    buffer = np.empty_like(start)
    for _ in range(MAX_STEPS):
        arrived = graph.weights @ np.multiply(current, shares, out=buffer)
        arrived += base
        # A step shrinks the error by `follow` at least, so the remaining one is at most the change over `restart`.
        if np.abs(np.subtract(arrived, current, out=buffer), out=buffer).sum() <= tolerance * restart:
            return np.asarray(arrived)
        arrived -= previous
        arrived *= factor
        arrived += previous
        previous, current = current, arrived
        factor = 1.0 / (1.0 - 0.25 * follow * follow * factor)
    raise AlgorithmError(f"PageRank did not converge in {MAX_STEPS} steps; use a restart probability above {restart}.")


def focus(
    graph: PropositionGraph, walk: WeightedGraph, similarities: Similarities, rule: PathRule, count: int
) -> Focus | None:
    """The first walk: from the entities of the most similar propositions over the whole graph.

    Returns:
        None if no proposition has a vector or was chosen, or none of them names an entity to start from.
    Source: algorithms.md 3.5 (1) to (4), 3.6 (preset).
    Cost: O(propositions + edges).
    """
    chosen = similarities.seeds
    propositions = most_similar(similarities.propositions, rule.seed_propositions) if chosen is None else chosen
    entities, weights = _first_seeds(graph, propositions, similarities.propositions, rule)
    if not len(entities):
        return None
    entity_count, passage_count = graph.shape[1:]
    seeds = np.zeros(entity_count + passage_count)
    seeds[entities] = weights
    if rule.stage1_passage_weight > 0:
        seeds[entity_count:] = rule.stage1_passage_weight * normalised(similarities.passages)
    scores = pagerank(walk, seeds, rule.stage1_restart)[entity_count:]
    return Focus(propositions, entities, weights, scores, in_order(scores, similarities.passages, count))


def subgraph(
    graph: PropositionGraph, walk: WeightedGraph, passages: Numbers, has_vector: NDArray[np.bool_]
) -> Subgraph:
    """Some passages, the entities that they contain, all edges among them, and the propositions to search.

    Args:
        graph: Propositions with entities and passages.
        walk: Its edges.
        passages: Distinct passage numbers.
        has_vector: Shape (n_propositions,).

    Source: algorithms.md 3.5 (5). Cost: O(nodes + edges of these entities).
    """
    contained = graph.passage_entities
    entities = distinct(contained.of_all(passages)).astype(np.intp)
    stated = graph.passage_propositions
    propositions = distinct(stated.of_all(passages)).astype(np.intp)
    nodes = np.concatenate((entities, graph.shape[1] + passages))
    return Subgraph(entities, passages, walk.induced(nodes), propositions[has_vector[propositions]])


def walk_subgraph(
    part: Subgraph, entity_weights: dict[int, float], similarities: Scores, rule: PathRule
) -> tuple[Scores, float] | None:
    """The second walk: from chosen entities, and from passages by similarity, inside the subgraph.

    Args:
        part: The subgraph.
        entity_weights: Weight of each chosen entity, all of them in the subgraph.
        similarities: Shape (n_passages,): of the question to all passages of the corpus.
        rule: The parameters.

    Returns:
        Shape (k,): scores of the subgraph's passages; and the smallest score above 0 of any node. None without a seed.
    Source: algorithms.md 3.8.
    """
    chosen = np.array(sorted(entity_weights), dtype=np.intp)
    weights = np.zeros(len(part.entities))
    weights[np.searchsorted(part.entities, chosen)] = [entity_weights[entity] for entity in chosen.tolist()]
    by_similarity = rule.passage_weight * normalised(similarities)[part.passages]
    seeds = np.concatenate((weights, by_similarity))
    if not np.any(seeds > 0):
        return None
    scores = pagerank(part.graph, seeds, rule.stage2_restart)
    return scores[len(part.entities) :], float(scores[scores > 0].min())


def most_similar(similarities: Scores, count: int) -> Numbers:
    """The `count` largest, NaN left out; equal ones in ascending order. Source: algorithms.md 3.5 (1), 3.6."""
    known = np.flatnonzero(~np.isnan(similarities))
    return known[best(similarities[known], count)]


def in_order(scores: Scores, similarities: Scores, count: int) -> Numbers:
    """The `count` first by descending score, then descending similarity, then ascending number.

    Args:
        scores: Shape (n,), no NaN.
        similarities: Shape (n,), no NaN.
        count: Fewer are returned if there are fewer.

    Source: algorithms.md 3.5 (4). Cost: O(n + count log count) where scores differ.
    """
    count = min(count, len(scores))
    if count <= 0:
        return np.empty(0, dtype=np.intp)
    rounded = np.round(scores, DECIMALS)
    cut = np.partition(rounded, len(rounded) - count)[len(rounded) - count]
    above, equal = np.flatnonzero(rounded > cut), np.flatnonzero(rounded == cut)
    head = above[np.lexsort((above, -np.round(similarities[above], DECIMALS), -rounded[above]))]
    return np.concatenate((head, equal[best(similarities[equal], count - len(head))]))


def normalised(similarities: Scores) -> Scores:
    """From 0 for the smallest to 1 for the largest; where all are equal, 1 if they are above 0, else 0.

    Source: algorithms.md 3.8 (minmax).
    """
    if not len(similarities):
        return similarities
    least, largest = float(similarities.min()), float(similarities.max())
    if least == largest:
        return np.full(len(similarities), 1.0 if largest > 0 else 0.0)
    return np.asarray((similarities - least) / (largest - least))


def _first_seeds(
    graph: PropositionGraph, propositions: Numbers, similarities: Scores, rule: PathRule
) -> tuple[Numbers, Scores]:
    """Entities of some propositions that a walk may start from, in descending order of relevance, and their weights."""
    ascending = np.sort(propositions)
    owners, offsets = graph.entities.gathered(ascending)
    entities, which = np.unique(graph.entities.indices[offsets], return_inverse=True)
    relevance = np.bincount(which, similarities[ascending][owners], len(entities)).astype(np.float64)
    top = best(relevance, rule.seed_entities)
    chosen = entities[top].astype(np.intp)
    if rule.stage1_entity_weight == "uniform":
        return chosen, np.ones(len(chosen))
    passages = np.bincount(graph.passage_entities.indices, minlength=graph.shape[1])[chosen]
    weights = relevance[top] / np.bincount(which, minlength=len(entities))[top] / np.maximum(1, passages)
    return chosen[weights > 0], weights[weights > 0]
