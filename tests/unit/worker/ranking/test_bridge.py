"""Steps of `bridge` and `bridge-masked` on their golden vectors, the laws of the cover, and masked questions."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_index import graph_from, lexical_from
from numpy.typing import NDArray

from polyhop.schemas.graph import BipartiteGraph
from polyhop.schemas.names import NameFinder
from polyhop.worker.ranking import bridge
from polyhop.worker.ranking.bm25 import DEPTH, TermImpacts, Trust, agreement, completeness, score
from polyhop.worker.ranking.fusion import best, best_positive
from polyhop.worker.ranking.pagerank import WalkSeeds, bipartite_transition, entity_weights, mix, walk_passages

COSINES = np.array([0.60, 0.20, 0.10, 0.58, 0.05, 0.28, 0.12, 0.15, 0.02, 0.01, 0, -0.05])
BM25 = np.array([4.0, 1, 0, 4, 0, 1, 0, 0, 0, 0, 0, 0])


@pytest.fixture
def golden_bridge() -> BipartiteGraph:
    """G-BRIDGE-1: entities a 0, b 1, c 2, d 3, e 4, then t10, t11, t6…t9."""
    mentions: list[Any] = [{"a": 2, "b": 1}, {"b": 2, "c": 1}, {"c": 1}, {"b": 1, "d": 1}, {"d": 1}, {"e": 1, "a": 1}]
    mentions += [{"d": 1, "t6": 1}, {"c": 2, "t7": 1}, *({f"t{p}": 1.0} for p in range(8, 12))]
    titles = {0: ["a"], 1: ["b"], 2: ["c"], 4: ["d"], 5: ["e"], **{p: [f"t{p}"] for p in range(6, 12)}}
    return graph_from(mentions, titles)


def golden_seeds(graph: BipartiteGraph) -> WalkSeeds:
    numbers, passages = bridge.seed_passages(COSINES + 0.3 * bridge.relative(BM25), 2, 0.03)
    entities = np.array([graph.number_of["a"]])
    mixed = mix(2.0 * entity_weights(graph.df[entities], 0.5), passages)
    return WalkSeeds(entities, mixed[0], numbers, mixed[1])


def test_golden_seeds(golden_bridge: BipartiteGraph) -> None:
    """G-BRIDGE-1, before norming: p0 1, p3 .513417, a 1.414214, together 2.927631."""
    seeds = golden_seeds(golden_bridge)
    assert seeds.passages.tolist() == [0, 3]
    assert seeds.passage_weights * 2.927631 == pytest.approx([1, 0.513417], abs=1e-6)
    assert seeds.entity_weights * 2.927631 == pytest.approx([1.414214], abs=1e-6)


@pytest.fixture
def golden_mass(golden_bridge: BipartiteGraph) -> Callable[[int], NDArray[np.float64]]:
    """Of passages, after so many half-steps."""
    matrices = bipartite_transition(golden_bridge, title_boost=5.0)
    return lambda steps: walk_passages(matrices, golden_seeds(golden_bridge), 0.1, steps, return_dangling=False)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (1, [0.420456, 0, 0, 0.017537, 0, 0.048453, 0, 0]),
        (3, [0.296875, 0.10203, 0, 0.031794, 0.005073, 0.052405, 0.001015, 0]),
        (5, [0.243034, 0.122386, 0.021565, 0.035338, 0.012386, 0.047113, 0.002944, 0.006646]),
    ],
)
def test_golden_walk(golden_mass: Callable[[int], NDArray[np.float64]], steps: int, expected: list[float]) -> None:
    """G-BRIDGE-1."""
    assert golden_mass(steps)[:8] == pytest.approx(expected, abs=1e-6)
    assert golden_mass(steps)[8:].tolist() == [0.0] * 4


def test_golden_fusion(golden_mass: Callable[[int], NDArray[np.float64]]) -> None:
    """G-BRIDGE-1: fewer than ten passages have mass, so the floor is the reference."""
    expected = [2.6, 1.619262, 0.695758, 1.34264, 0.501502, 1.160576, 0.340141, 0.48074, 0.02, 0.01, 0, -0.05]
    part = bridge.walk_part(golden_mass(5), 0.2, bridge.walk_reference(golden_mass(5), 10))
    assert COSINES + part == pytest.approx(expected, abs=1e-6)


def test_golden_fusion_of_a_question_with_half_a_rare_name(golden_mass: Callable[[int], NDArray[np.float64]]) -> None:
    """G-BRIDGE-3: c .5, so half of BM25 and of the walk counts."""
    expected = [1.75, 0.947131, 0.397879, 1.11132, 0.275751, 0.757788, 0.23007, 0.31537, 0.02, 0.01, 0, -0.05]
    part = bridge.walk_part(golden_mass(5), 0.2 * 0.5, bridge.walk_reference(golden_mass(5), 10))
    assert COSINES + 0.3 * 0.5 * bridge.relative(BM25) + part == pytest.approx(expected, abs=1e-6)


def test_golden_names() -> None:
    """G-BRIDGE-3: a word that a thirtieth of its passages write as a name is hardly one, and names no rare thing."""
    df, word_df = np.array([1, 2, 40, 90]), np.array([30, 4, 0, 90])
    evidence, common = bridge.name_evidence(df, word_df), bridge.common_count(1000, 0.01)
    assert evidence == pytest.approx([1 / 6, 1, 1, 1])
    shares = [bridge.names_share(df[one], common, evidence[one]) for one in ([0], [1], [2], [3], [0, 3], [])]
    assert shares == pytest.approx([0.527046, 1, 0.5, 0.333333, 0.86038, 0], abs=1e-6)


@pytest.mark.parametrize(
    ("part", "mass", "weight", "expected"),
    [
        (bridge.walk_part, [0.0, 0.0], 0.2, [0, 0]),
        (bridge.walk_part, [0.4, 0.1, 0.025, 0.0], 0.2, [0.4, 0.2, 0.1, 0]),
        (bridge.flat_walk_part, [0.0, 0.0], 0.5, [0, 0]),
        (bridge.flat_walk_part, [0.8, 0.1, 0.0125, 0.0], 0.5, [1, 0.5, 0.25, 0]),
        (bridge.flat_walk_part, [0.8, 0.0], 0.5, [0.5 * 100 ** (1 / 3), 0]),
    ],
)
def test_the_walk_s_part_is_a_root_over_the_reference(part: Any, mass: Any, weight: float, expected: Any) -> None:
    """The square or the cube root; the reference is the second mass, or a hundredth of the largest."""
    assert part(np.array(mass), weight, bridge.walk_reference(np.array(mass), 2)) == pytest.approx(expected)


def test_relative_scores_of_candidates_are_those_of_all_passages() -> None:
    """The best ones ascending, of equal ones the first, none without a score."""
    rows = [["z"], ["a", "z"], ["a", "z", "z"], ["a"], ["a"], ["a", "z"]]
    impacts, every = TermImpacts(lexical_from(rows), 1.2, 0.75), np.arange(6)
    found, shares = bridge.TopRelativeScores(impacts, {0: 1}, 3), bridge.relative(score(impacts, {0: 1}))
    assert (found.rows.tolist(), found[every].tolist()) == ([1, 3, 4], shares.tolist())
    found = bridge.TopRelativeScores(impacts, {}, 3)
    assert (found.rows.tolist(), found[every].tolist()) == ([], [0.0] * 6)


def test_golden_cover() -> None:
    """G-BRIDGE-2: stems x (idf 2), y, z (1 each); and .2 + .1 ties with .3, though its sum is larger by an ulp."""
    contains = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 1]], dtype=bool)
    assert bridge.cover(np.array([0.9, 0.8, 0.75, 0.7]), contains, np.array([2.0, 1, 1]), 1.0, 4) == [0, 3, 1, 2]
    contains = np.array([[0, 0], [0, 0], [1, 0]], dtype=bool)
    assert bridge.cover(np.array([0.9, 0.3, 0.2]), contains, np.array([1.0, 9]), 1.0, 3) == [0, 1, 2]
    for count in (2, 0):  # without known stems the order stays
        nothing = np.zeros((count, 0), dtype=bool)
        assert bridge.cover(np.array([0.9, 0.8])[:count], nothing, np.array([]), 1.0, 20) == [*range(count)]


def plain_cover(scores: np.ndarray, contains: np.ndarray, idf: np.ndarray, weight: float, choose: int) -> list[int]:
    """The text of 2B.3 step 4, word by word."""
    order, total = [0], sum(idf)
    while len(order) < min(choose, len(scores)):
        covered = {stem for place in order for stem in np.flatnonzero(contains[place])}
        rest = [place for place in range(len(scores)) if place not in order]
        gain = {p: sum(idf[s] for s in np.flatnonzero(contains[p]) if s not in covered) / total for p in rest}
        order.append(min(rest, key=lambda p: (-round(scores[p] + weight * gain[p], 12), -scores[p], p)))
    return order + [place for place in range(len(scores)) if place not in order]


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 5), st.integers(1, 14), st.sampled_from([1.0, 5.0])
)
def test_the_cover_is_the_specified_one(seed: int, m: int, stems: int, choose: int, weight: float) -> None:
    """With many ties, which go to the larger score, then to the earlier place."""
    rng = np.random.default_rng(seed)
    scores = np.sort(np.round(rng.random(m), 1))[::-1].copy()
    contains, idf = rng.random((m, stems)) < 0.3, rng.integers(1, 4, stems).astype(float)
    assert bridge.cover(scores, contains, idf, weight, choose) == plain_cover(scores, contains, idf, weight, choose)


MASKED = np.array([0.30, 0.35, 0.25, 0.40, 0.30, 0.10, 0.20, 0.15, 0.05, 0.02, 0.01, 0])
OTHER_WORDS = np.array([0.0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 1])


def trust_of(words: NDArray[np.float64], kappa: float) -> Trust:
    return Trust(kappa, agreement(best(COSINES, DEPTH), best_positive(words, DEPTH)))


def walked(graph: BipartiteGraph, names: list[str], words: NDArray[np.float64], trust: Trust) -> NDArray[np.float64]:
    """Steps 1 and 2, k = 2."""
    numbers, passages = bridge.seed_passages(COSINES + 0.3 * trust.in_seeds * bridge.relative(words), 2, 0.03)
    entities = np.array([graph.number_of[name] for name in names], dtype=np.intp)
    weights, passages = mix(2.0 * entity_weights(graph.df[entities], 0.5), passages)
    matrices = bipartite_transition(graph, title_boost=5.0)
    return walk_passages(matrices, WalkSeeds(entities, weights, numbers, passages), 0.1, 7, return_dangling=False)


def test_golden_rare_name(golden_bridge: BipartiteGraph) -> None:
    """G-MASKED-1: L 5, c 1, o 4, r 1, no lexical part."""
    common = bridge.common_count(golden_bridge.passage_count, 0.01)
    share, trust = bridge.names_share(golden_bridge.df[[golden_bridge.number_of["a"]]], common), trust_of(BM25, 0.8)
    assert (common, share, trust.agreement, trust.in_seeds) == (5, 1, 4, 1)
    mass = walked(golden_bridge, ["a"], BM25, trust)
    expected = [0.215915, 0.122684, 0.0393731, 0.0360623, 0.0181239, 0.0414587, 0.00498097, 0.0146167]
    assert mass[:8] == pytest.approx(expected, rel=3e-6)
    assert mass[8:].tolist() == [0.0] * 4
    similarity = 0.3 * COSINES + 0.7 * MASKED
    expected = [0.39, 0.305, 0.205, 0.454, 0.225, 0.154, 0.176, 0.15, 0.041, 0.017, 0.007, -0.015]
    assert similarity == pytest.approx(expected)
    of_walk = bridge.flat_walk_part(mass, 0.35 * share, bridge.walk_reference(mass, 10))
    found = similarity + 0.3 * (1 - share) * trust.in_fusion * bridge.relative(BM25) + of_walk
    expected = [2.01456, 1.65056, 1.12624, 1.34866, 0.936308, 1.09123, 0.638464, 0.8121, 0.041, 0.017, 0.007, -0.015]
    assert found == pytest.approx(expected, rel=6e-6)


def test_golden_question_without_a_name(golden_bridge: BipartiteGraph) -> None:
    """G-MASKED-2: o 0, r .4, c 0, weight of the walk .07; then kappa .8, which brings the lexical part."""
    trust = trust_of(OTHER_WORDS, 0.4)
    assert (trust.agreement, trust.in_seeds, trust.in_fusion) == (0, 0.4, 0)
    seeding = COSINES + 0.3 * trust.in_seeds * bridge.relative(OTHER_WORDS)
    assert seeding[:6] == pytest.approx([0.6, 0.2, 0.1, 0.58, 0.05, 0.28])
    assert seeding[10] == pytest.approx(0.12)
    mass = walked(golden_bridge, [], OTHER_WORDS, trust)
    expected = [0.131763, 0.0623011, 0.0133467, 0.046421, 0.0237864, 0.0105999, 0.00678826, 0.00474728]
    assert mass[:8] == pytest.approx(expected, rel=6e-6)
    share = bridge.names_share(np.array([], dtype=np.int64), 5.0)
    weight = 0.35 * max(share, 0.2)
    found = COSINES + bridge.flat_walk_part(mass, weight, bridge.walk_reference(mass, 10))
    expected = [0.924911, 0.453123, 0.251458, 0.809476, 0.23363, 0.42026, 0.240898, 0.257312, 0.02, 0.01, 0, -0.05]
    assert found == pytest.approx(expected, abs=2e-6)
    complete = trust_of(OTHER_WORDS, 0.8)
    mass = walked(golden_bridge, [], OTHER_WORDS, complete)
    assert complete.in_seeds == 0.8
    assert 0.3 * (1 - share) * complete.in_fusion == pytest.approx(0.18)
    of_walk = bridge.flat_walk_part(mass, weight, bridge.walk_reference(mass, 10))
    found = COSINES + 0.18 * bridge.relative(OTHER_WORDS) + of_walk
    assert found[10:] == pytest.approx([0.18, 0.01])
    assert best(found, 12).tolist() == [0, 3, 1, 5, 7, 2, 6, 4, 10, 8, 9, 11]


def test_trust_is_the_larger_of_completeness_and_agreement() -> None:
    assert [Trust(0.4, o).in_seeds for o in range(5)] == pytest.approx([0.4, 0.4, 2 / 3, 1, 1])
    assert Trust(0.9, 1).in_seeds == 0.9
    assert [Trust(kappa, 9).in_fusion for kappa in (0, 0.5, 0.75, 1)] == [0, 0, 0.5, 1]
    assert completeness(np.array([True, False, True]), np.array([2.0, 1, 1])) == 0.75
    assert completeness(np.array([], dtype=bool), np.array([])) == 0
    assert [bridge.relative(np.array(scores)).tolist() for scores in ([0.0] * 3, [2.0, 4.0])] == [[0, 0, 0], [0.5, 1]]


TITLES = ("Republic of Texas", "Texas", "Marie Curie", "The Wizard of Oz")


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (
            "When was the president of the Republic of Texas's capital founded?",
            "When was the president of the capital founded",
        ),
        ("Who directed The Wizard of Oz?", "Who directed"),
        ("Where was Marie Curie born?", "Where was born"),
        ("What is Texas?", "What is"),
        ("Is Texas s large?", "Is s large"),  # without an apostrophe
    ],
)
def test_golden_masks(question: str, expected: str) -> None:
    """G-MASKED-3; that `What is` has no stem is the strategy's business."""
    found = NameFinder(TITLES).find(question)
    assert bridge.masked_text(question, [(mention.start, mention.end) for mention in found]) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["austin", "republic of texas", "texas"], [True, True, False]),  # G-MASKED-3
        (["tex", "texas", "new texas city", "texas city"], [True, False, True, False]),
        ([], []),
        (["texas"], [True]),
    ],
)
def test_nested_names_are_no_seeds_and_only_whole_words_nest(names: list[str], expected: list[bool]) -> None:
    assert bridge.is_unnested(names).tolist() == expected


@given(st.text("aB é's’_-., ", max_size=30), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=4))
def test_what_is_left_are_words_outside_of_all_spans_in_order(text: str, ends: list[tuple[int, int]]) -> None:
    spans = [(min(pair), max(pair)) for pair in ends]
    covered = {place for start, end in spans for place in range(start, end)}
    words = [w for w in re.finditer(r"[^\W_]+", text) if not covered & set(range(w.start(), w.end()))]
    gone = [
        w for w in words
        if w[0] == "s" and any(end == w.start() - 1 and text[end] in "'’" for _, end in spans)
    ]  # fmt: skip
    assert bridge.masked_text(text, spans) == " ".join(w[0] for w in words if w not in gone)


def test_a_name_is_rare_in_a_share_of_the_passages_or_in_five_and_the_share_of_rare_ones_is_at_most_one() -> None:
    assert [bridge.common_count(n, 0.01) for n in (0, 100, 500, 1890)] == [5, 5, 5, 18.9]
    df = np.array([20, 500])
    assert bridge.names_share(df, 5.0) == pytest.approx(0.5 + 0.1)
    assert (bridge.names_share(df[:1], 80.0), bridge.names_share(df[:0], 5.0)) == (1, 0)
