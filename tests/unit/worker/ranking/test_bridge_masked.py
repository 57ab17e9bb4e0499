"""The steps of `bridge-masked` on its golden vectors. The graph, cosines and BM25 are those of G-BRIDGE-1."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from polyhop.schemas.graph import BipartiteGraph
from polyhop.worker.ranking.bm25 import DEPTH, Trust, agreement, completeness
from polyhop.worker.ranking.bridge import common_count, flat_walk_part, names_share, relative, seed_passages
from polyhop.worker.ranking.fusion import best, best_positive
from polyhop.worker.ranking.pagerank import WalkSeeds, bipartite_transition, entity_weights, mix, walk_passages

COSINES = np.array([0.60, 0.20, 0.10, 0.58, 0.05, 0.28, 0.12, 0.15, 0.02, 0.01, 0, -0.05])
MASKED = np.array([0.30, 0.35, 0.25, 0.40, 0.30, 0.10, 0.20, 0.15, 0.05, 0.02, 0.01, 0])
WORDS = np.array([4.0, 1, 0, 4, 0, 1, 0, 0, 0, 0, 0, 0])
OTHER_WORDS = np.array([0.0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 1])


@pytest.fixture
def graph(make_graph: Callable[..., BipartiteGraph]) -> BipartiteGraph:
    """G-BRIDGE-1."""
    mentions: list[dict[str, float]] = [
        {"a": 2, "b": 1},
        {"b": 2, "c": 1},
        {"c": 1},
        {"b": 1, "d": 1},
        {"d": 1},
        {"e": 1, "a": 1},
        {"d": 1, "t6": 1},
        {"c": 2, "t7": 1},
        *({f"t{p}": 1.0} for p in range(8, 12)),
    ]
    titles = {0: ["a"], 1: ["b"], 2: ["c"], 4: ["d"], 5: ["e"], **{p: [f"t{p}"] for p in range(6, 12)}}
    return make_graph(mentions, titles)


def trust_of(words: NDArray[np.float64], kappa: float) -> Trust:
    return Trust(kappa, agreement(best(COSINES, DEPTH), best_positive(words, DEPTH)))


def walked(graph: BipartiteGraph, names: list[str], words: NDArray[np.float64], trust: Trust) -> NDArray[np.float64]:
    """Steps 1 and 2, k = 2."""
    numbers, passages = seed_passages(COSINES + 0.3 * trust.in_seeds * relative(words), 2, 0.03)
    entities = np.array([graph.number_of[name] for name in names], dtype=np.intp)
    weights, passages = mix(2.0 * entity_weights(graph.df[entities], 0.5), passages)
    matrices = bipartite_transition(graph, title_boost=5.0)
    return walk_passages(matrices, WalkSeeds(entities, weights, numbers, passages), 0.1, 7, return_dangling=False)


def test_golden_rare_name(graph: BipartiteGraph) -> None:
    """G-MASKED-1: L 5, c 1, o 4, r 1, no lexical part."""
    common = common_count(graph.passage_count, 0.01)
    share, trust = names_share(graph.df[[graph.number_of["a"]]], common), trust_of(WORDS, 0.8)
    assert (common, share, trust.agreement, trust.in_seeds) == (5, 1, 4, 1)
    mass = walked(graph, ["a"], WORDS, trust)
    expected = [0.215915, 0.122684, 0.0393731, 0.0360623, 0.0181239, 0.0414587, 0.00498097, 0.0146167]
    assert mass[:8] == pytest.approx(expected, rel=3e-6)
    assert mass[8:].tolist() == [0.0] * 4
    similarity = 0.3 * COSINES + 0.7 * MASKED
    assert similarity == pytest.approx(
        [0.39, 0.305, 0.205, 0.454, 0.225, 0.154, 0.176, 0.15, 0.041, 0.017, 0.007, -0.015]
    )
    found = similarity + 0.3 * (1 - share) * trust.in_fusion * relative(WORDS) + flat_walk_part(mass, 0.35 * share, 10)
    expected = [2.01456, 1.65056, 1.12624, 1.34866, 0.936308, 1.09123, 0.638464, 0.8121, 0.041, 0.017, 0.007, -0.015]
    assert found == pytest.approx(expected, rel=6e-6)


def test_golden_question_without_a_name(graph: BipartiteGraph) -> None:
    """G-MASKED-2: o 0, r .4, c 0, weight of the walk .07; then kappa .8, which brings the lexical part."""
    trust = trust_of(OTHER_WORDS, 0.4)
    assert (trust.agreement, trust.in_seeds, trust.in_fusion) == (0, 0.4, 0)
    seeding = COSINES + 0.3 * trust.in_seeds * relative(OTHER_WORDS)
    assert seeding[:6] == pytest.approx([0.6, 0.2, 0.1, 0.58, 0.05, 0.28])
    assert seeding[10] == pytest.approx(0.12)
    mass = walked(graph, [], OTHER_WORDS, trust)
    expected = [0.131763, 0.0623011, 0.0133467, 0.046421, 0.0237864, 0.0105999, 0.00678826, 0.00474728]
    assert mass[:8] == pytest.approx(expected, rel=6e-6)
    share = names_share(np.array([], dtype=np.int64), 5.0)
    weight = 0.35 * max(share, 0.2)
    found = COSINES + flat_walk_part(mass, weight, 10)
    expected = [0.924911, 0.453123, 0.251458, 0.809476, 0.23363, 0.42026, 0.240898, 0.257312, 0.02, 0.01, 0, -0.05]
    assert found == pytest.approx(expected, abs=2e-6)
    complete = trust_of(OTHER_WORDS, 0.8)
    assert complete.in_seeds == 0.8
    assert 0.3 * (1 - share) * complete.in_fusion == pytest.approx(0.18)
    found = (
        COSINES + 0.18 * relative(OTHER_WORDS) + flat_walk_part(walked(graph, [], OTHER_WORDS, complete), weight, 10)
    )
    assert found[10:] == pytest.approx([0.18, 0.01])
    assert best(found, 12).tolist() == [0, 3, 1, 5, 7, 2, 6, 4, 10, 8, 9, 11]


def test_trust_is_the_larger_of_completeness_and_agreement() -> None:
    assert [Trust(0.4, o).in_seeds for o in range(5)] == pytest.approx([0.4, 0.4, 2 / 3, 1, 1])
    assert Trust(0.9, 1).in_seeds == 0.9
    assert [Trust(kappa, 9).in_fusion for kappa in (0, 0.5, 0.75, 1)] == [0, 0, 0.5, 1]


def test_completeness_is_the_share_of_the_question_s_idf() -> None:
    assert completeness(np.array([True, False, True]), np.array([2.0, 1, 1])) == 0.75
    assert completeness(np.array([], dtype=bool), np.array([])) == 0


def test_agreement_counts_common_passages() -> None:
    assert agreement(np.array([4, 1, 9]), np.array([9, 3, 4, 5])) == 2
    assert agreement(np.array([4]), np.array([], dtype=np.intp)) == 0


def test_the_flat_walk_part_is_a_cube_root_over_the_reference() -> None:
    """The reference is the second mass, or a hundredth of the largest."""
    assert flat_walk_part(np.array([0.8, 0.1, 0.0125, 0.0]), 0.5, 2) == pytest.approx([1, 0.5, 0.25, 0])
    assert flat_walk_part(np.array([0.8, 0.0]), 0.5, 2) == pytest.approx([0.5 * 100 ** (1 / 3), 0])
    assert flat_walk_part(np.zeros(2), 0.5, 2).tolist() == [0, 0]
