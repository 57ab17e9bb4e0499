"""Paths and walks of propositions: golden vectors, igraph on random graphs, algorithms.md 3.6 written out."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import floor
from pathlib import Path
from typing import Any

import igraph
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_index import propositions_from
from numpy.typing import NDArray
from scipy import sparse

from polyhop.schemas.errors import AlgorithmError, NoSeedError
from polyhop.schemas.propositions import CompressedRows, PropositionGraph
from polyhop.warehouse.artefacts import open_array, save_arrays
from polyhop.warehouse.propositions import proposition_graph
from polyhop.worker.ranking import proposition_paths as beams
from polyhop.worker.ranking import proposition_walks
from polyhop.worker.ranking import proposition_walks as walks

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class NamedGraph:
    """A graph whose propositions, entities and passages have names, numbered in ascending order of name.

    Propositions map to (passages, entities in stored order), synonyms from a pair of entities to their cosine. Texts
    of propositions are their names, so that a path's text lists them.
    """

    propositions: Mapping[str, tuple[str, str]]
    synonyms: Mapping[str, float]
    vectors: Mapping[str, Sequence[float]]
    question: Sequence[float]
    dense: Mapping[str, float]

    @property
    def names(self) -> list[str]:
        return sorted(self.propositions)

    @property
    def entities(self) -> list[str]:
        return sorted({entity for _, entities in self.propositions.values() for entity in entities.split()})

    @property
    def passages(self) -> list[str]:
        return sorted(self.dense)

    @property
    def graph(self) -> PropositionGraph:
        named, held = (
            [[numbered.index(name) for name in self.propositions[own][part].split()] for own in self.names]
            for part, numbered in ((1, self.entities), (0, self.passages))
        )
        cosines = {tuple(map(self.entities.index, pair)): cosine for pair, cosine in self.synonyms.items()}
        return propositions_from(named, held, cosines, (len(named), len(self.entities), len(self.passages)))

    @property
    def unit_vectors(self) -> Vector:
        rows = np.array([self.vectors[name] for name in self.names], dtype=np.float64)
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))

    @property
    def unit_question(self) -> Vector:
        return np.asarray(np.array(self.question) / np.linalg.norm(self.question))

    def similarities(self) -> walks.Similarities:
        dense = np.array([self.dense[passage] for passage in self.passages])
        return walks.Similarities(self.unit_question, self.unit_vectors @ self.unit_question, dense)

    def index(self, entity_edge_factor: float = 2.0, edge_weights: Any = "counts") -> beams.PropositionIndex:
        graph = self.graph
        walk = walks.weighted_graph(graph, entity_edge_factor, edge_weights)
        return beams.PropositionIndex(graph, walk, self.unit_vectors, self.texts_of)

    def search(self, universe: str) -> beams.PropositionPathQuery:
        """A search among some propositions; their names are one letter and a digit."""
        numbers = np.array([self.names.index(name) for name in universe.split()], dtype=np.intp)
        return beams.PropositionPathQuery(numbers, self.unit_vectors[numbers], self.unit_question)

    def texts_of(self, numbers: Sequence[int]) -> list[str]:
        return [self.names[number] for number in numbers]

    def encode(self, texts: Sequence[str]) -> Vector:
        """The goldens' exact scorer: normalise(sum over positions i of i times the vector at i)."""
        return np.array([self._joined(text.split()) for text in texts])

    def _joined(self, names: Sequence[str]) -> Vector:
        rows = self.unit_vectors[[self.names.index(name) for name in names]]
        total = np.arange(1, len(names) + 1) @ rows
        return np.asarray(total / np.linalg.norm(total))

    def written(self, paths: Sequence[beams.PropositionPath]) -> dict[str, float]:
        """Score by path, in order."""
        return {">".join(self.names[number] for number in path.propositions): path.score for path in paths}


def at(degrees: float) -> tuple[float, float]:
    """A vector of length 1 at an angle."""
    return float(np.cos(np.radians(degrees))), float(np.sin(np.radians(degrees)))


G_PROP_1 = NamedGraph(
    {"p1": ("d1", "M P"), "p2": ("d2", "B P"), "p3": ("d2", "B W")}
    | {"p4": ("d3", "S V"), "p5": ("d4", "F"), "p6": ("d4", "F M")},
    {"VW": 0.9},
    {"p1": (8, 6, 0), "p2": (3, 4, 0), "p3": (0, 12, 5), "p4": (6, 0, 8), "p5": (9, 0, -2), "p6": (4, 0, -3)},
    (2, 1, 2),
    {"d1": 0.8, "d2": 0.6, "d3": 0.5, "d4": 0.7},
)
G_PROP_4 = NamedGraph(
    {"p1": ("d", "X"), "p2": ("d", "X Z"), "p3": ("d", "X"), "p4": ("d", "Y"), "p5": ("d", "X Y")},
    {},
    {"p1": at(30), "p2": at(-35), "p3": at(-14), "p4": at(80), "p5": at(-70)},
    (1, 0),
    {"d": 0.5},
)
G_PROP_5 = NamedGraph({"p1": ("d", "A"), "p2": ("d", "B")}, {}, {"p1": at(10), "p2": at(50)}, (1, 0), {"d": 0.5})
G_PROP_6 = NamedGraph(
    {"p1": ("d1 d2", "A B"), "p2": ("d1", "A B"), "p3": ("d3", "A C"), "p4": ("d4", "C D")}
    | {"p5": ("d4", "B C"), "p6": ("d4", "E"), "p7": ("d5", "D F")},
    {"AC": 0.85},
    {"p1": at(30), "p2": at(35), "p3": at(40), "p4": at(-60), "p5": at(-45), "p6": at(-42), "p7": at(80)},
    (1, 0),
    {"d1": 0.9, "d2": 0.5, "d3": 0.4, "d4": 0.7, "d5": 0.1},
)


def lists(rows: CompressedRows) -> list[list[int]]:
    return [rows.indices[start:end].tolist() for start, end in zip(rows.indptr, rows.indptr[1:], strict=False)]


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    """Rows of the tables: propositions without entities, entities and passages without propositions among them."""
    propositions, entities, passages = draw(st.tuples(st.integers(0, 6), st.integers(0, 5), st.integers(0, 4)))
    named = st.lists(st.integers(0, entities - 1), max_size=5) if entities else st.just([])
    members = [draw(named) for _ in range(propositions)]
    held = st.sets(st.integers(0, passages - 1), max_size=3) if passages else st.just(set())
    sources = [draw(held) for _ in range(propositions)]
    pairs = draw(st.sets(st.sampled_from([*combinations(range(entities), 2)]), max_size=6)) if entities > 1 else set()
    cosines = {pair: draw(st.sampled_from([0.8, 0.9, 1.0])) for pair in sorted(pairs)}
    return {"members": members, "sources": sources, "cosines": cosines, "shape": (propositions, entities, passages)}


def test_a_name_is_no_synonym_of_itself() -> None:
    nothing = np.empty((0, 2), dtype=np.int64)
    graph = proposition_graph(nothing, nothing, np.array([[0, 0], [1, 0]]), np.array([1.0, 0.9]), (0, 2, 0))
    assert pairs_of(graph.synonyms) == [(0, 1), (1, 0)]


@given(tables())
def test_arrays_hold_what_plain_dictionaries_hold(case: dict[str, Any]) -> None:
    propositions, entities, passages = case["shape"]
    turned = {pair[::-1]: cosine for pair, cosine in case["cosines"].items()}
    graph = propositions_from(case["members"], case["sources"], turned, case["shape"])
    members = [[*dict.fromkeys(row)] for row in case["members"]]
    assert graph.shape == case["shape"]
    assert lists(graph.entities) == members
    assert lists(graph.passages) == [sorted(row) for row in case["sources"]]
    naming = [[n for n in range(propositions) if e in members[n]] for e in range(entities)]
    assert lists(graph.entity_propositions) == naming
    held = [[n for n in range(propositions) if d in case["sources"][n]] for d in range(passages)]
    assert lists(graph.passage_propositions) == held
    assert lists(graph.passage_entities) == [sorted({e for n in row for e in members[n]}) for row in held]
    counts = Counter(pair for row in members for pair in combinations(sorted(row), 2))
    found = zip(pairs_of(graph.cliques), graph.clique_counts.tolist(), strict=True)
    assert dict(found) == {**counts, **{pair[::-1]: count for pair, count in counts.items()}}
    both = case["cosines"] | turned
    ordered = sorted(both, key=lambda pair: (pair[0], -both[pair], pair[1]))
    assert pairs_of(graph.synonyms) == ordered
    assert graph.similarities.tolist() == [both[pair] for pair in ordered]


def pairs_of(rows: CompressedRows) -> list[tuple[int, int]]:
    return [*zip(rows.owners.tolist(), rows.indices.tolist(), strict=True)]


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=5), st.data())
def test_gathered_rows_follow_each_other(rows: list[list[int]], data: st.DataObject) -> None:
    wanted = data.draw(st.lists(st.sampled_from(range(len(rows))), max_size=7))
    owners = [number for number, row in enumerate(rows) for _ in row]
    flat = [value for row in rows for value in row]
    compressed = CompressedRows.of(np.array(owners, dtype=np.int64), np.array(flat, dtype=np.int64), len(rows))
    found, offsets = compressed.gathered(np.array(wanted, dtype=np.int64))
    assert compressed.indices[offsets].tolist() == [value for number in wanted for value in rows[number]]
    assert found.tolist() == [order for order, number in enumerate(wanted) for _ in rows[number]]


def test_saved_arrays_open_memory_mapped_as_the_same_graph(tmp_path: Path) -> None:
    graph = G_PROP_6.graph
    save_arrays(tmp_path, "propositions", graph.arrays)
    opened = PropositionGraph.of(lambda name: open_array(tmp_path, f"propositions_{name}"))
    for name, array in opened.arrays.items():
        assert (array.dtype, array.tolist()) == (graph.arrays[name].dtype, graph.arrays[name].tolist())
        assert not array.flags.writeable


GRAPHS = range(80)
GOLDEN_1 = walks.PathRule(seed_propositions=3, seed_entities=4, subgraph_passages=3)
SIX = walks.PathRule(seed_propositions=6, seed_entities=5, subgraph_passages=4)


@dataclass(frozen=True)
class Judged:
    """A random graph: its arrays, and igraph's graph with an edge per shared proposition, synonym and containment."""

    graph: PropositionGraph
    plain: igraph.Graph
    similarities: walks.Similarities
    rng: np.random.Generator


def judge(plain: igraph.Graph, seeds: Vector, restart: float) -> Vector:
    """PageRank by igraph."""
    options = {"directed": False, "weights": "weight", "implementation": "prpack"}
    return np.array(plain.personalized_pagerank(damping=1 - restart, reset=seeds.tolist(), **options))


def judged(seed: int, factor: float = 2.0) -> Judged:
    """Up to 120 nodes, which igraph solves directly; entities and passages without any proposition among them."""
    rng = np.random.default_rng(seed)
    entities, passages, propositions = (int(rng.integers(low, high)) for low, high in ((2, 70), (2, 50), (1, 60)))
    used_entities, used_passages = int(rng.integers(1, entities + 1)), int(rng.integers(1, passages + 1))
    sizes = (min(used_entities, int(rng.integers(0, 5))) for _ in range(propositions))
    members = [rng.choice(used_entities, size, replace=False).tolist() for size in sizes]
    held = (rng.integers(0, used_passages, int(rng.integers(1, 3))) for _ in range(propositions))
    sources = [np.unique(row).tolist() for row in held]
    synonyms = {tuple(sorted(rng.integers(0, entities, 2).tolist())) for _ in range(int(rng.integers(0, entities)))}
    cosines = {pair: float(rng.uniform(0.8, 1)) for pair in sorted(synonyms) if pair[0] != pair[1]}
    edges = [(pair, factor) for row in members for pair in combinations(row, 2)]
    edges += [(pair, factor * cosine) for pair, cosine in cosines.items()]
    both = zip(members, sources, strict=True)
    edges += [(pair, 1.0) for pair in sorted({(e, entities + d) for row, held in both for d in held for e in row})]
    plain = igraph.Graph(entities + passages, [pair for pair, _ in edges])
    plain.es["weight"] = [weight for _, weight in edges]
    graph = propositions_from(members, sources, cosines, (propositions, entities, passages))
    similarities = walks.Similarities(
        np.ones(1), rng.uniform(-0.2, 1, propositions), rng.uniform(-0.2, 1, passages).round(1)
    )
    return Judged(graph, plain, similarities, rng)


def order_of(scores: Vector) -> list[int]:
    """Nodes by descending score after rounding to nine digits, then ascending."""
    given: list[int] = np.lexsort((np.arange(len(scores)), -np.round(scores, 9))).tolist()
    return given


def test_walks_agree_with_igraph_on_random_graphs() -> None:
    """Per node to 1e-9 and in order: several seeds, isolated nodes among them, both restart probabilities."""
    isolated_seeds, many_seeds = 0, 0
    for number in GRAPHS:
        case = judged(number)
        walk = walks.weighted_graph(case.graph, 2.0)
        seeds = case.rng.random(len(walk.strengths)) * (case.rng.random(len(walk.strengths)) < 0.2)
        seeds[case.rng.integers(len(seeds))] += 0.5
        isolated_seeds += int(np.any(seeds[walk.strengths == 0] > 0))
        many_seeds += int(np.count_nonzero(seeds) > 1)
        for restart in (0.25, 0.55):
            expected = judge(case.plain, seeds, restart)
            found = walks.pagerank(walk, seeds, restart)
            assert found == pytest.approx(expected, abs=1e-9), number
            assert order_of(found) == order_of(expected), number
            assert found.sum() == pytest.approx(1, abs=1e-11)
    assert min(isolated_seeds, many_seeds) > 40


def test_both_stages_agree_with_igraph_on_random_graphs() -> None:
    """Seeds, subgraph and both walks made plainly, from dictionaries and igraph's induced subgraph."""
    walked = 0
    for number in GRAPHS:
        factor = 1.0 if number % 3 == 0 else 2.0
        case = judged(number, factor)
        walk = walks.weighted_graph(case.graph, factor)
        rule = replace(SIX, stage1_passage_weight=0.05 * (number % 2))
        passages = case.graph.shape[2]
        first = walks.focus(case.graph, walk, case.similarities, rule, passages)
        seeds = plain_seeds(case, rule)
        if first is None:
            assert not np.any(seeds)
            continue
        expected = judge(case.plain, seeds, 0.25)[-passages:]
        assert first.scores == pytest.approx(expected, abs=1e-9), number
        ties = -np.round(case.similarities.passages, 9)
        plain_order = np.lexsort((np.arange(passages), ties, -np.round(expected, 9)))
        order = np.lexsort((np.arange(passages), ties, -np.round(first.scores, 9)))
        assert order.tolist() == plain_order.tolist(), number
        walked += stage_2_agrees(case, walk, first.order[:4], rule)
    assert walked > 60


def plain_seeds(case: Judged, rule: walks.PathRule) -> Vector:
    """Seeds of the first walk by sorting; nothing if no entity is named."""
    propositions, entities, passages = case.graph.shape
    sims = case.similarities.propositions.tolist()
    top = sorted(range(propositions), key=lambda n: (-sims[n], n))[: rule.seed_propositions]
    relevance: dict[int, float] = {}
    for n in sorted(top):
        for entity in case.graph.entities.indices[slice(*case.graph.entities.indptr[n : n + 2])].tolist():
            relevance[entity] = relevance.get(entity, 0.0) + sims[n]
    chosen = sorted(relevance, key=lambda entity: (-round(relevance[entity], 12), entity))[: rule.seed_entities]
    seeds = np.zeros(entities + passages)
    if chosen:
        seeds[chosen] = 1.0
        dense = case.similarities.passages
        height = dense.max() - dense.min()
        spread = (dense - dense.min()) / height if height > 0 else float(dense[0] > 0)
        seeds[entities:] = rule.stage1_passage_weight * spread
    return seeds


def stage_2_agrees(case: Judged, walk: Any, passages: NDArray[np.intp], rule: walks.PathRule) -> bool:
    """Compares the second walk from two entities of the subgraph; False if it contains fewer."""
    entity_count = case.graph.shape[1]
    neighbours = {node for d in passages.tolist() for node in case.plain.neighbors(entity_count + d)}
    part = walks.subgraph(case.graph, walk, passages, np.ones(case.graph.shape[0], dtype=np.bool_))
    assert part.entities.tolist() == sorted(neighbours)
    if len(neighbours) < 2:
        return False
    weights = {entity: float(case.rng.random()) for entity in part.entities[:2].tolist()}
    nodes = [*part.entities.tolist(), *(entity_count + passages).tolist()]
    order = sorted(nodes)  # igraph keeps the order of the whole graph
    dense = walks.normalised(case.similarities.passages)
    seed_of = {**weights, **{entity_count + d: 0.05 * float(dense[d]) for d in passages.tolist()}}
    induced = case.plain.induced_subgraph(order)
    scored = judge(induced, np.array([seed_of.get(n, 0.0) for n in order]), 0.55)
    expected = dict(zip(order, scored, strict=True))
    walked = walks.walk_subgraph(part, weights, case.similarities.passages, rule)
    assert walked is not None
    scores = np.array([expected[entity_count + d] for d in passages.tolist()])
    assert walked[0] == pytest.approx(scores, abs=1e-9)
    assert order_of(walked[0]) == order_of(scores)
    assert walked[1] == pytest.approx(min(score for score in expected.values() if score > 0), abs=1e-9)
    return True


class Counted:
    """Weights that count how often they are multiplied."""

    def __init__(self, weights: Any) -> None:
        self.weights, self.products = weights, 0

    def __matmul__(self, scores: Vector) -> Any:
        self.products += 1
        return self.weights @ scores


@pytest.mark.parametrize(("restart", "most"), [(0.25, 37), (0.55, 21)])
def test_acceleration_saves_steps(restart: float, most: int) -> None:
    """By power iteration 104 and 37 steps are needed for the same accuracy on a graph that mixes slowly."""
    pairs = [(n, n + 1) for n in range(59)]  # each entity shares a proposition with the next one
    walk = walks.weighted_graph(propositions_from(pairs, [], {}, (59, 60, 1)), 2.0)
    counted = Counted(walk.weights)
    walks.pagerank(replace(walk, weights=counted), np.eye(len(walk.strengths))[0], restart)  # type: ignore[arg-type]
    assert counted.products <= most


def test_golden_first_walk() -> None:
    """G-PROP-1."""
    index, similarities = G_PROP_1.index(), G_PROP_1.similarities()
    expected = [0.733333, 0.666667, 0.564103, 0.933333, 0.506171, 0.133333]
    assert similarities.propositions == pytest.approx(expected, abs=1e-6)
    first = walks.focus(index.graph, index.walk, similarities, GOLDEN_1, 4)
    assert first is not None
    assert [G_PROP_1.names[number] for number in first.propositions] == ["p4", "p1", "p2"]
    assert [G_PROP_1.entities[number] for number in first.entities] == ["P", "S", "V", "M"]
    assert [G_PROP_1.passages[number] for number in first.order] == ["d3", "d2", "d1", "d4"]
    seeds = np.array([float(name in {"M", "P", "S", "V"}) for name in [*G_PROP_1.entities, *G_PROP_1.passages]])
    found = dict(zip(G_PROP_1.entities, walks.pagerank(index.walk, seeds, 0.25).tolist(), strict=False))
    scores = {"M": 0.148735, "P": 0.14606, "B": 0.073254, "V": 0.181863, "W": 0.083707, "S": 0.143435, "F": 0.048724}
    assert found == pytest.approx(scores, abs=1e-6)


def test_the_first_walk_starts_from_the_propositions_that_were_chosen() -> None:
    """By hand, on G-PROP-1 from p1 and p2: P .733333 + .666667, M .733333, B .666667; from none there is no walk."""
    index, similarities = G_PROP_1.index(), G_PROP_1.similarities()
    chosen = [replace(similarities, seeds=np.array(numbers, dtype=np.intp)) for numbers in ([0, 1], [])]
    some, none = (walks.focus(index.graph, index.walk, one, GOLDEN_1, 4) for one in chosen)
    assert some is not None
    assert [G_PROP_1.entities[number] for number in some.entities] == ["P", "M", "B"]
    assert none is None


@pytest.mark.parametrize(
    ("weight", "edges", "expected"),
    [
        (0, (2.0, "counts"), [0.036849, 0.042325, 0.064275, 0.030773]),
        (0.05, (2.0, "counts"), [0.0401, 0.04324, 0.062828, 0.033294]),
        (0, (1.0, "counts"), [0.051624, 0.057561, 0.09675, 0.041605]),
        (0, (1.0, "ones"), [0.051671, 0.057869, 0.094557, 0.041625]),
    ],
)
def test_golden_passages_of_the_first_walk(weight: float, edges: Any, expected: list[float]) -> None:
    """G-PROP-1, by weight of passages among the seeds and by edges."""
    index, rule = G_PROP_1.index(*edges), replace(GOLDEN_1, stage1_passage_weight=weight)
    first = walks.focus(index.graph, index.walk, G_PROP_1.similarities(), rule, 4)
    assert first is not None
    assert first.scores == pytest.approx(expected, abs=1e-6)


def test_a_walk_that_always_returns_stays_at_its_seeds_and_others_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    walk, seeds = G_PROP_1.index().walk, np.arange(11, dtype=np.float64)
    assert walks.pagerank(walk, seeds, 1.0) == pytest.approx(seeds / seeds.sum(), abs=1e-15)
    with pytest.raises(NoSeedError):
        walks.pagerank(walk, np.zeros(11), 0.25)
    monkeypatch.setattr(proposition_walks, "MAX_STEPS", 3)
    with pytest.raises(AlgorithmError, match="3 steps"):
        walks.pagerank(walk, np.ones(11), 0.25)


def test_other_components_get_exactly_nothing_so_that_similarity_ranks_them() -> None:
    """d3 and d4 have nothing in common with the seed A, which reaches d2 twice; d4 is the more similar one."""
    named = NamedGraph(
        {"p1": ("d1", "A"), "p2": ("d2", "A B"), "p3": ("d3", "C D"), "p4": ("d4", "D")},
        {},
        {"p1": (1, 0), "p2": (0, 1), "p3": (0, 1), "p4": (0, 1)},
        (1, 0),
        {"d1": 0.1, "d2": 0.2, "d3": 0.3, "d4": 0.4},
    )
    index = named.index()
    first = walks.focus(index.graph, index.walk, named.similarities(), walks.PathRule(seed_propositions=1), 4)
    assert first is not None
    assert first.scores[2:].tolist() == [0, 0]
    assert [named.passages[number] for number in first.order] == ["d2", "d1", "d4", "d3"]


@pytest.mark.parametrize(
    ("given_values", "expected"),
    [
        *(([3.0, 1.0, 2.0], [1, 0, 0.5]), ([0.5, 0.5], [1, 1]), ([0.0, 0.0], [0, 0])),
        *(([-1.0], [0]), ([-3.0, -1.0], [0, 1]), ([], [])),
    ],
)
def test_normalised_similarities(given_values: list[float], expected: list[float]) -> None:
    """Equal ones are all 1 if they are above 0, else all 0; propositions without a vector are not similar."""
    assert walks.normalised(np.array(given_values)).tolist() == expected
    assert walks.most_similar(np.array([0.1, np.nan, 0.3, -0.2, 0.3]), 3).tolist() == [2, 4, 0]
    assert walks.most_similar(np.array([np.nan, -0.5]), 3).tolist() == [1]


PAIRS = st.tuples(st.sampled_from([0.0, 0.1, 0.1 + 1e-14, 0.2]), st.sampled_from([-0.5, 0.3, 0.3 + 1e-14]))


@given(st.lists(PAIRS, max_size=90), st.integers(-1, 95))
def test_the_order_is_that_of_sorting_everything(pairs: list[tuple[float, float]], count: int) -> None:
    """Scores that differ by rounding only tie."""
    expected = sorted(range(len(pairs)), key=lambda n: (-round(pairs[n][0], 12), -round(pairs[n][1], 12), n))
    scores, similarities = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
    assert walks.in_order(scores, similarities, count).tolist() == expected[: max(0, count)]


GOLDEN_2 = walks.PathRule(beam_width=2, rescored=3, jump_points=1)


def is_close(found: dict[str, float], expected: dict[str, float], tolerance: float = 1e-6) -> bool:
    """The same keys in the same order with the same numbers."""
    return list(found) == list(expected) and [*found.values()] == pytest.approx([*expected.values()], abs=tolerance)


def of(text: str) -> dict[str, float]:
    """Scores by path, in order, of `p1>p4 0.9, p4 0.8`."""
    return {path: float(score) for path, score in map(str.split, text.split(","))}


GREEDY = "p4 0.933333, p4>p3 0.825887, p4>p3>p2 0.792696"


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        # G-PROP-2: jumps, a synonym, a shared entity; no path p4>p1, since p4 is the only jump point
        ("1", {}, f"p1>p4 0.988372, p4 0.933333, p1>p4>p3 0.896268, {GREEDY[13:]}, p1 0.733333"),
        ("1", {"beam_width": 1}, GREEDY),
        ("1", {"jump_points": 0}, f"{GREEDY}, p1 0.733333, p1>p2 0.695095, p1>p2>p3 0.68601"),
        # G-PROP-4 by beam width, length and M: p1>p3 is suppressed by p3>p1, re-scoring swaps p1>p5 and p3>p2
        ("4", {"max_length": 2, "rescored": 10}, "p3 0.970296, p1>p2 0.968195, p3>p1 0.962832, p1 0.866025"),
        ("4", {}, "p3 0.970296, p1>p2>p3 0.969332, p1>p2 0.968195, p3>p1 0.962832, p3>p1>p5 0.875185, p1 0.866025"),
        ("4", {"beam_width": 1, "rescored": 10}, "p3>p1>p2 0.983038, p3 0.970296, p3>p1 0.962832"),
    ],
)
def test_golden_paths(name: str, changes: dict[str, Any], expected: str) -> None:
    named, universe = {"1": (G_PROP_1, "p1 p2 p3 p4"), "4": (G_PROP_4, "p1 p2 p3 p4 p5")}[name]
    rule = replace(GOLDEN_2, **changes)
    (found,) = beams.search_paths(named.graph, [named.search(universe)], rule, named.texts_of, named.encode)
    assert is_close(named.written(found.paths), of(expected))


HIPPORAG2 = walks.PathRule(**walks.PRESETS["hipporag2"])
FIRST = walks.PathRule(beam_width=2, rescored=3, jump_points=1, seed_propositions=3, exploit_paths=3)
GOLDEN_3 = replace(FIRST, seed_entities=4, subgraph_passages=3, exploit_entities=3, explore_entities=3)
SECOND = replace(FIRST, max_length=2, rescored=4, seed_entities=3, subgraph_passages=4)
GOLDEN_6 = replace(SECOND, exploit_entities=2, explore_propositions=3, explore_entities=2)


def ranked(named: Any, rule: walks.PathRule, limit: int = 10) -> beams.PropositionRanking:
    index = named.index(rule.entity_edge_factor)
    return beams.rank_passages(index, [named.similarities()], rule, limit, named.encode)[0]


def by_passage(named: Any, ranking: beams.PropositionRanking) -> dict[str, float]:
    pairs = zip(ranking.passages.tolist(), ranking.scores.tolist(), strict=True)
    return {named.passages[number]: score for number, score in pairs}


def by_entity(named: Any, ranking: beams.PropositionRanking, part: str) -> dict[str, float]:
    return {named.entities[seed.entity]: getattr(seed, part) for seed in ranking.seeds if getattr(seed, part) > 0}


def test_golden_entity_totals() -> None:
    """G-PROP-3: W has an entry for p3 and one for the synonym that led there."""
    paths = ranked(G_PROP_1, GOLDEN_3).found
    assert paths is not None
    entries = beams.path_entries(G_PROP_1.index().graph, paths.paths[:3])
    totals = {G_PROP_1.entities[entity]: sum(scores) for entity, scores in sorted(entries.items())}
    expected = {"B": 0.896268, "M": 1.88464, "P": 1.88464, "S": 2.817973, "V": 2.817973, "W": 1.792536}
    assert is_close(totals, expected, 2e-6)


@pytest.mark.parametrize(
    ("kind", "exploit", "expected"),
    [
        # weights by sum: M comes before P by its key; d4 follows with the first walk's score
        ("sum", {"S": 1, "V": 1, "M": 0.668793}, {"d3": 0.067342, "d1": 0.040226, "d2": 0.015577, "d4": 0.00024}),
        ("max", {"M": 1, "S": 1, "V": 1}, {"d3": 0.062653, "d1": 0.044903, "d2": 0.015921}),
    ],
)
def test_golden_second_walk(kind: Any, exploit: dict[str, float], expected: dict[str, float]) -> None:
    """G-PROP-3."""
    ranking = ranked(G_PROP_1, replace(GOLDEN_3, entity_weight=kind), len(expected))
    assert is_close(by_entity(G_PROP_1, ranking, "exploit"), exploit)
    assert is_close(by_passage(G_PROP_1, ranking), expected)
    assert ranking.fallback == ""
    if kind == "sum":
        assert is_close(by_entity(G_PROP_1, ranking, "explore"), {"S": 1, "V": 1, "M": 0.785714})
        assert is_close(by_entity(G_PROP_1, ranking, "weight"), {"S": 1, "V": 1, "M": 0.785714})


BETWEEN_6 = {"A-B": 2 * 2, "A-C": 2 * (1 + 0.85), "B-C": 2, "C-D": 2, "D-F": 2}
CONTAINED_6 = "A-d1 B-d1 A-d2 B-d2 A-d3 C-d3 B-d4 C-d4 D-d4 E-d4 D-d5 F-d5"
WEIGHTS_6: dict[str, float] = {**BETWEEN_6, **dict.fromkeys(CONTAINED_6.split(), 1)}
NODES_6 = ["A", "B", "C", "D", "E", "F", "d1", "d2", "d3", "d4", "d5"]
INSIDE_6 = [node for node in NODES_6 if node not in {"F", "d5"}]
DENSE_6 = {"d1": 0.05, "d2": 0.05 * 0.5, "d3": 0.05 * 0.3 / 0.8, "d4": 0.05 * 0.6 / 0.8}


def solved(plain_walk: Any, nodes: list[str], seeds: dict[str, float], restart: float) -> dict[str, float]:
    """PageRank on the weights above as written down, by solving the equations."""
    weights = np.zeros((len(nodes), len(nodes)))
    for edge, weight in WEIGHTS_6.items():
        if all(node in nodes for node in edge.split("-")):
            left, right = (nodes.index(node) for node in edge.split("-"))
            weights[left, right] = weights[right, left] = weight
    rows = sparse.csr_array(weights / weights.sum(axis=1, keepdims=True))
    reset = np.array([seeds.get(node, 0.0) for node in nodes])
    return dict(zip(nodes, plain_walk(rows, reset, restart).tolist(), strict=True))


def test_golden_6() -> None:
    """G-PROP-6: p1 counts once although two passages hold it, so that A-B weighs 4; A-C is clique and synonym.

    p1>p5 goes from A to its synonym C, though both name B: A comes first. Similarities are normalised over the corpus;
    d5 is scaled by the score of an entity, the smallest.
    """
    weights = G_PROP_6.index().walk.weights.toarray()
    rows, columns = np.nonzero(np.triu(weights))
    assert [*G_PROP_6.entities, *G_PROP_6.passages] == NODES_6
    edges = zip(rows, columns, strict=True)
    found = {f"{NODES_6[row]}-{NODES_6[column]}": weights[row, column] for row, column in edges}
    assert found == pytest.approx(WEIGHTS_6)
    ranking = ranked(G_PROP_6, GOLDEN_6)
    first, paths = ranking.focus, ranking.found
    assert first is not None
    assert [G_PROP_6.entities[entity] for entity in first.entities] == ["A", "B", "C"]
    assert first.scores == pytest.approx([0.038306, 0.038306, 0.036713, 0.052045, 0.012384], abs=1e-6)
    assert [G_PROP_6.passages[passage] for passage in first.order[:4]] == ["d4", "d1", "d2", "d3"]
    assert paths is not None
    expected = {"p2>p5": 0.935898, "p1>p5": 0.928179, "p1": 0.866025, "p2": 0.819152}
    assert is_close(G_PROP_6.written(paths.paths), expected)
    synonym = beams.PropositionLink("synonym", *map("ABC".index, "AC"))
    assert [path.connections for path in paths.paths[:2]] == [(synonym,)] * 2
    assert is_close(by_entity(G_PROP_6, ranking, "explore"), {"A": 1, "B": 0.687485})
    assert is_close(by_entity(G_PROP_6, ranking, "exploit"), {"B": 1, "C": 0.811495})
    assert is_close(by_entity(G_PROP_6, ranking, "weight"), {"A": 1, "B": 1, "C": 0.811495})
    inside = {"d4": 0.038511, "d1": 0.036303, "d2": 0.03163, "d3": 0.027838}
    found = by_passage(G_PROP_6, ranking)
    assert is_close(found, {**inside, "d5": 0.0000268})
    assert found["d5"] == pytest.approx(0.0000268, abs=1e-7)


def test_golden_6_unconnected_candidates() -> None:
    """G-PROP-6: p6 is reached by jumps only; without paths of two the second walk starts from the same entities."""
    rule = replace(GOLDEN_6, allow_unconnected=True)
    ranking = ranked(G_PROP_6, rule, 4)
    assert ranking.found is not None
    paths = G_PROP_6.written(ranking.found.paths)
    assert is_close(paths, {"p2>p6": 0.949151, "p1>p6": 0.941976, "p1": 0.866025, "p2": 0.819152})
    assert ranking.found.paths[0].connections[0].kind == "jump"
    expected = {"d1": 0.046273, "d2": 0.039822, "d4": 0.036313, "d3": 0.025484}
    assert is_close(by_passage(G_PROP_6, ranking), expected)
    assert is_close(by_passage(G_PROP_6, ranked(G_PROP_6, replace(GOLDEN_6, max_length=1), 4)), expected)


@pytest.mark.parametrize(
    ("seeds", "expected"), [("explore_only", {"A": 1, "B": 0.687485}), ("exploit_only", {"B": 1, "C": 0.811495})]
)
def test_one_set_of_seeds_alone(plain_walk: Any, seeds: Any, expected: dict[str, float]) -> None:
    """The passages' part of the seeds stays."""
    ranking = ranked(G_PROP_6, replace(GOLDEN_6, seeds=seeds), 4)
    assert is_close(by_entity(G_PROP_6, ranking, "weight"), expected)
    judged = solved(plain_walk, INSIDE_6, {**expected, **DENSE_6}, 0.55)
    assert by_passage(G_PROP_6, ranking) == pytest.approx({name: judged[name] for name in DENSE_6}, abs=1e-6)


def test_the_preset_hipporag2_divides_mean_similarities_by_passages(plain_walk: Any) -> None:
    """G-PROP-6's graph: of the five most similar propositions, p1, p2 and p3 name A, which is in d1, d2 and d3."""
    sim = dict(zip(G_PROP_6.names, G_PROP_6.similarities().propositions.tolist(), strict=True))
    best = sorted(sim, key=lambda name: -sim[name])[:5]
    assert best == ["p1", "p2", "p3", "p6", "p5"]
    a, b = ((sim["p1"] + sim["p2"] + sim[third]) / 3 / 3 for third in ("p3", "p5"))
    means = {"A": a, "B": b, "C": (sim["p3"] + sim["p5"]) / 2 / 2, "E": sim["p6"]}
    ranking = ranked(G_PROP_6, HIPPORAG2)
    assert (ranking.fallback, ranking.found, ranking.seeds) == ("", None, ())
    assert ranking.focus is not None
    names = (G_PROP_6.entities[entity] for entity in ranking.focus.entities.tolist())
    found = dict(zip(names, ranking.focus.weights.tolist(), strict=True))
    assert found == pytest.approx(means)
    judged = solved(plain_walk, NODES_6, {**means, **DENSE_6}, 0.5)
    assert by_passage(G_PROP_6, ranking) == pytest.approx({name: judged[name] for name in G_PROP_6.passages}, abs=1e-9)


def test_without_a_similar_proposition_similarity_ranks() -> None:
    """Without vectors; or, with the preset, from negative similarities."""
    question = replace(G_PROP_6.similarities(), propositions=np.full(7, np.nan))
    ranking = beams.rank_passages(G_PROP_6.index(), [question], GOLDEN_6, 3, G_PROP_6.encode)[0]
    assert (ranking.fallback, ranking.focus) == ("dense", None)
    assert by_passage(G_PROP_6, ranking) == {"d1": 0.9, "d4": 0.7, "d2": 0.5}
    question = replace(G_PROP_5.similarities(), propositions=np.array([-0.2, -0.1]))
    assert beams.rank_passages(G_PROP_5.index(), [question], HIPPORAG2, 1, G_PROP_5.encode)[0].fallback == "dense"


@pytest.mark.parametrize(
    ("first", "similar", "rule", "fallback", "passages"),
    [
        # propositions without entities start nothing
        ("", [1, 0], walks.PathRule(seed_propositions=1), "dense", ["d2", "d1"]),
        # the best passage holds p2 only, which has no vector: a subgraph without propositions
        ("A", [1, np.nan], walks.PathRule(subgraph_passages=1), "stage1", ["d2", "d1"]),
    ],
)
def test_what_ranks_instead(first: str, similar: list[float], rule: Any, fallback: str, passages: list[str]) -> None:
    named = NamedGraph(
        {"p1": ("d1", first), "p2": ("d2", "A")}, {}, {"p1": (1, 0), "p2": (1, 0)}, (1, 0), {"d1": 0.1, "d2": 0.2}
    )
    question = replace(named.similarities(), propositions=np.array(similar, dtype=np.float64))
    ranking = beams.rank_passages(named.index(), [question], rule, 2, named.encode)[0]
    assert ranking.fallback == fallback
    assert [named.passages[number] for number in ranking.passages] == passages
    assert fallback == "stage1" or by_passage(named, ranking) == {"d2": 0.2, "d1": 0.1}


def test_without_a_seed_above_zero_the_first_walk_ranks() -> None:
    """All similarities are negative, and no weight is left for passages."""
    ranking = ranked(replace(G_PROP_5, question=(-1, 0)), walks.PathRule(passage_weight=0))
    assert (ranking.fallback, ranking.seeds) == ("stage1", ())
    assert ranking.found is not None


def test_ties_inside_the_subgraph_go_to_the_smaller_passage_id() -> None:
    """The first walk lets similarity decide between d1 and d2, the second one does not."""
    named = NamedGraph({"p1": ("d1 d2", "A")}, {}, {"p1": (1, 0)}, (1, 0), {"d1": 0.1, "d2": 0.2})
    rule = walks.PathRule(passage_weight=0)
    assert [*by_passage(named, ranked(named, replace(rule, stage1_only=True)))] == ["d2", "d1"]
    assert [*by_passage(named, ranked(named, rule))] == ["d1", "d2"]


@pytest.mark.parametrize(
    ("kind", "source", "target", "expected"),
    [
        ("exact", "B", "B", {"B": [0.5, 0.5], "P": [0.5], "W": [0.5]}),
        ("synonym", "P", "W", {"B": [0.5, 0.5], "P": [0.5], "W": [0.5, 0.5]}),
        ("jump", None, None, {"B": [0.5, 0.5], "P": [0.5], "W": [0.5]}),
    ],
)
def test_where_synonymy_leads_gets_one_entry_more(kind: Any, source: Any, target: Any, expected: Any) -> None:
    """From p2 (B, P) to p3 (B, W)."""
    ends = [None if entity is None else G_PROP_1.entities.index(entity) for entity in (source, target)]
    path = beams.PropositionPath((1, 2), (beams.PropositionLink(kind, *ends),), 0.5)
    entries = beams.path_entries(G_PROP_1.graph, [path])
    assert {G_PROP_1.entities[entity]: scores for entity, scores in sorted(entries.items())} == expected


def test_negative_weights_are_dropped_before_the_division() -> None:
    paths = [beams.PropositionPath((0,), (), 0.5), beams.PropositionPath((3,), (), -0.5)]
    names = G_PROP_1.entities
    assert beams.entity_weights(G_PROP_1.graph, paths, 9, "sum") == {names.index("M"): 1.0, names.index("P"): 1.0}
    assert beams.entity_weights(G_PROP_1.graph, paths[1:], 9, "sum") == {}
    assert beams.entity_weights(G_PROP_1.graph, paths, 0, "sum") == {}


Ids = tuple[int, ...]
Links = tuple[tuple[str, int | None, int | None], ...]
ENTITIES = 6


@dataclass(frozen=True)
class Case:
    """Propositions with entities in stored order, cosines by pair of entities, and those that are searched."""

    members: list[list[int]]
    cosines: dict[tuple[int, int], float]
    universe: list[int]
    vectors: Vector
    question: Vector

    @property
    def graph(self) -> PropositionGraph:
        return propositions_from(self.members, [], self.cosines, (len(self.members), ENTITIES, 0))

    @property
    def search(self) -> beams.PropositionPathQuery:
        numbers = np.array(self.universe, dtype=np.intp)
        return beams.PropositionPathQuery(numbers, self.vectors[numbers], self.question)

    def texts_of(self, numbers: Sequence[int]) -> list[str]:
        return [f"t{number}" for number in numbers]

    def encode(self, texts: Sequence[str]) -> Vector:
        """A vector that depends on the order of a path."""
        return np.array([self.joined([int(word[1:]) for word in text.split(" ")]) for text in texts])

    def joined(self, numbers: Sequence[int]) -> Vector:
        weighted = [(position + 1) * self.vectors[number] for position, number in enumerate(numbers)]
        given: Vector = np.sum(weighted, axis=0)
        return given


class Enumerated:
    """The search as written in the specification, with lists and dictionaries, one path at a time."""

    def __init__(self, case: Case, rule: walks.PathRule) -> None:
        self.case, self.rule = case, rule
        self.scores: list[float] = []
        self.beams: list[list[tuple[float, Ids, Links]]] = []

    def run(self) -> list[tuple[float, Ids, Links]]:
        """All paths in order."""
        rule = self.rule
        similarity = {p: self.cosine(self.case.vectors[p]) for p in self.case.universe}
        order = sorted(self.case.universe, key=lambda p: (-round(similarity[p], 12), p))
        jumps = order if rule.allow_unconnected else order[: rule.jump_points]
        self.beams = [[(similarity[p], (p,), ()) for p in order[: rule.beam_width]]]
        for _ in range(2, rule.max_length + 1):
            candidates = self.candidates(jumps)
            if not candidates:
                break
            by_mean = [(self.mean(ids), ids, links) for ids, links in candidates]
            kept = sorted(by_mean, key=self.rank)[: rule.rescored]
            if rule.exact and (rule.exact_when_few or len(candidates) > rule.beam_width):
                kept = [(self.cosine(self.case.joined(ids)), ids, links) for _, ids, links in kept]
                self.scores += [score for score, _, _ in kept]
            self.beams.append(sorted(kept, key=self.rank)[: rule.beam_width])
        paths = [path for beam in self.beams for path in beam]
        return sorted(paths, key=lambda path: (-round(path[0], 12), len(path[1]), path[1]))

    def candidates(self, jumps: list[int]) -> list[tuple[Ids, Links]]:
        generated: set[frozenset[int]] = set()
        found = []
        for _, ids, links in self.beams[-1]:
            connected = self.connected(ids[-1])
            for jump in jumps:
                if jump != ids[-1]:
                    connected.setdefault(jump, ("jump", None, None))
            for target, link in connected.items():
                members = frozenset((*ids, target))
                if target in ids or members in generated:
                    continue
                generated.add(members)
                found.append(((*ids, target), (*links, link)))
        return found

    def connected(self, last: int) -> dict[int, tuple[str, int | None, int | None]]:
        """How each connected proposition was first reached, in the order in which that happened."""
        found: dict[int, tuple[str, int | None, int | None]] = {}
        for entity in dict.fromkeys(self.case.members[last]):
            ways = [("exact", entity)] + [("synonym", other) for other in self.synonyms(entity)]
            for kind, other in ways:
                for p in sorted(self.case.universe):
                    if p != last and other in self.case.members[p]:
                        found.setdefault(p, (kind, entity, other))
        return found

    def synonyms(self, entity: int) -> list[int]:
        near = {}
        for (left, right), cosine in self.case.cosines.items():
            if cosine >= self.rule.synonym_threshold and entity in (left, right):
                near[right if entity == left else left] = cosine
        return sorted(near, key=lambda other: (-near[other], other))

    def mean(self, ids: Ids) -> float:
        score = self.cosine(np.mean([self.case.vectors[p] for p in ids], axis=0))
        self.scores.append(score)
        return score

    def cosine(self, vector: Vector) -> float:
        return float(vector @ self.case.question) / float(np.linalg.norm(vector))

    def rank(self, path: tuple[float, Ids, Links]) -> tuple[float, Ids]:
        return (-round(path[0], 12), path[1])

    def is_stable(self) -> bool:
        """Whether no score lies where its last digits, which depend on the order of summation, decide the rounding."""
        return all(abs(score * 1e12 - floor(score * 1e12) - 0.5) > 2e-3 for score in self.scores)


def case_of(seed: int) -> Case:
    """Some vectors are shared, so that scores tie; some propositions are not searched, some name nothing."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 13))
    members = [rng.integers(0, ENTITIES, rng.integers(0, 4)).tolist() for _ in range(count)]
    pairs = {tuple(sorted(rng.integers(0, ENTITIES, 2).tolist())) for _ in range(int(rng.integers(0, 7)))}
    cosines = {pair: float(rng.choice([0.8, 0.85, 0.9, 0.95])) for pair in sorted(pairs) if pair[0] < pair[1]}
    pool = rng.normal(np.array([1.5, 0, 0, 0]), 1.0, (int(rng.integers(2, 10)), 4))
    vectors = pool[rng.integers(0, len(pool), count)]
    question = rng.normal(size=4)
    universe = np.flatnonzero(rng.random(count) < 0.85).tolist() or [0]
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return Case(members, cosines, universe, vectors / length, question / np.linalg.norm(question))


cases = st.builds(case_of, st.integers(0, 2**32 - 1))
rules = st.builds(
    walks.PathRule,
    beam_width=st.integers(1, 5),
    max_length=st.sampled_from([2, 3, 4, 1]),
    rescored=st.integers(1, 8),
    jump_points=st.integers(0, 3),
    exact=st.booleans(),
    exact_when_few=st.booleans(),
    allow_unconnected=st.booleans(),
    synonym_threshold=st.sampled_from([0.8, 0.9]),
    explore_propositions=st.none() | st.integers(0, 9),
)


def as_plain(path: Any) -> tuple[Ids, Links]:
    return path.propositions, tuple((link.kind, link.source, link.target) for link in path.connections)


@given(st.integers(0, 2**32 - 1), rules)
def test_the_search_is_the_enumerated_one(seed: int, rule: walks.PathRule) -> None:
    """Paths, their order, their connections and scores, and the beam after every depth, on five graphs per rule."""
    for number in range(5):
        case = case_of(seed + number)
        judge = Enumerated(case, rule)
        expected = judge.run()
        if not judge.is_stable():
            continue
        found = beams.search_paths(case.graph, [case.search], rule, case.texts_of, case.encode)[0]
        assert [as_plain(path) for path in found.paths] == [path[1:] for path in expected]
        assert [path.score for path in found.paths] == pytest.approx([one[0] for one in expected], rel=0, abs=1e-12)
        plain = [[path[1:] for path in beam] for beam in judge.beams]
        assert [[as_plain(path) for path in beam] for beam in found.beams] == plain
        first = rule.beam_width if rule.explore_propositions is None else rule.explore_propositions
        alone = Enumerated(case, walks.PathRule(beam_width=first, max_length=1)).run()
        assert [as_plain(path) for path in found.initial] == [path[1:] for path in alone]


@given(st.lists(cases, max_size=4), rules)
def test_a_batch_is_searched_as_its_questions_are(batch: list[Case], rule: walks.PathRule) -> None:
    """One call of the encoder per depth, with distinct texts of ascending propositions; one graph for all questions."""
    if not batch:
        nothing = propositions_from([], [], {}, (0, 0, 0))
        assert beams.search_paths(nothing, [], rule, list, np.array) == []  # type: ignore[arg-type]
        return
    shared = batch[0]
    universes = (shared.universe[n:] or [0] for n in range(len(batch)))
    questions = [replace(shared, universe=u, question=case.question) for u, case in zip(universes, batch, strict=True)]
    calls: list[list[str]] = []
    asked: list[list[int]] = []

    def encode(texts: Sequence[str]) -> Vector:
        calls.append(list(texts))
        return shared.encode(texts)

    def texts_of(numbers: Sequence[int]) -> list[str]:
        asked.append(list(numbers))
        return shared.texts_of(numbers)

    together = beams.search_paths(shared.graph, [case.search for case in questions], rule, texts_of, encode)
    assert len(asked) == len(calls)
    assert all(numbers == sorted(set(numbers)) for numbers in asked)
    assert len(calls) <= rule.max_length - 1
    assert all(texts and len(set(texts)) == len(texts) for texts in calls)
    alone = [
        beams.search_paths(shared.graph, [case.search], rule, shared.texts_of, shared.encode)[0] for case in questions
    ]
    assert together == alone


@pytest.mark.parametrize(("angle", "expected"), [(0.0, 0.0), (1e-3, 0.8), (1e-8, 0.8)])
def test_opposite_vectors_have_no_mean_direction_and_almost_opposite_ones_have(angle: float, expected: float) -> None:
    """The cosine of a vector without length is 0 (algorithms.md 0.1); the mean of these two points along (0, 1)."""
    vectors = np.array([[1.0, 0.0], [-np.cos(angle), np.sin(angle)]])
    case = Case([[0], [0]], {}, [0, 1], vectors, np.array([0.6, 0.8]))
    rule = walks.PathRule(exact=False, max_length=2)
    found = beams.search_paths(case.graph, [case.search], rule, case.texts_of, case.encode)[0]
    assert found.beams[1][0].score == pytest.approx(expected, abs=1e-3)
    assert found.beams[1][0].connections == (beams.PropositionLink("exact", 0, 0),)
