"""Beam search and ranking over proposition paths: golden vectors, ablations, and a search by enumeration."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from polyhop.worker.ranking.proposition_paths import (
    Connection,
    PropositionPath,
    PropositionRanking,
    entity_weights,
    path_entries,
    rank_passages,
    search_paths,
)
from polyhop.worker.ranking.proposition_walks import PRESETS, PathRule, Similarities

GOLDEN_2 = PathRule(beam_width=2, rescored=3, jump_points=1)
U, ALL_5 = "p1 p2 p3 p4", "p1 p2 p3 p4 p5"


def is_close(found: dict[str, float], expected: dict[str, float], tolerance: float = 1e-6) -> bool:
    """The same keys in the same order with the same numbers."""
    return list(found) == list(expected) and [*found.values()] == pytest.approx([*expected.values()], abs=tolerance)


def found(named: Any, universe: str, rule: PathRule) -> Any:
    return search_paths(named.graph, [named.search(universe)], rule, named.texts_of, named.encode)[0]


def scores(named: Any, universe: str, rule: PathRule) -> dict[str, float]:
    written: dict[str, float] = named.written(found(named, universe, rule).paths)
    return written


def of(text: str) -> dict[str, float]:
    """Scores by path, in order, of `p1>p4 0.9, p4 0.8`."""
    return {path: float(score) for path, score in map(str.split, text.split(","))}


GREEDY = "p4 0.933333, p4>p3 0.825887, p4>p3>p2 0.792696"


@pytest.mark.parametrize(
    ("name", "universe", "changes", "expected"),
    [
        # G-PROP-2: jumps, a synonym, a shared entity; no path p4>p1, since p4 is the only jump point
        ("1", U, {}, f"p1>p4 0.988372, p4 0.933333, p1>p4>p3 0.896268, {GREEDY[13:]}, p1 0.733333"),
        ("1", U, {"beam_width": 1}, GREEDY),
        ("1", U, {"jump_points": 0}, f"{GREEDY}, p1 0.733333, p1>p2 0.695095, p1>p2>p3 0.68601"),
        # G-PROP-4 by beam width, length and M: p1>p3 is suppressed by p3>p1, re-scoring swaps p1>p5 and p3>p2
        ("4", ALL_5, {"max_length": 2, "rescored": 10}, "p3 0.970296, p1>p2 0.968195, p3>p1 0.962832, p1 0.866025"),
        (
            *("4", ALL_5, {}),
            "p3 0.970296, p1>p2>p3 0.969332, p1>p2 0.968195, p3>p1 0.962832, p3>p1>p5 0.875185, p1 0.866025",
        ),
        ("4", ALL_5, {"beam_width": 1, "rescored": 10}, "p3>p1>p2 0.983038, p3 0.970296, p3>p1 0.962832"),
    ],
)
def test_golden_paths(
    request: pytest.FixtureRequest, name: str, universe: str, changes: dict[str, Any], expected: str
) -> None:
    named = request.getfixturevalue(f"g_prop_{name}")
    assert is_close(scores(named, universe, replace(GOLDEN_2, **changes)), of(expected))


@pytest.mark.parametrize(
    ("max_length", "expected"), [(2, "p1>p4 0.96873, p4>p3 0.925935"), (3, "p1>p4>p3 0.935757, p4>p3>p2 0.897643")]
)
def test_golden_mean_scores(g_prop_1: Any, max_length: int, expected: str) -> None:
    """G-PROP-2, left half of its table."""
    rule = replace(GOLDEN_2, exact=False, max_length=max_length)
    assert is_close(g_prop_1.written(found(g_prop_1, U, rule).beams[-1]), of(expected))


def test_golden_connections(g_prop_1: Any) -> None:
    """G-PROP-2: p1>p4 by a jump, p4>p3 from V to W."""
    paths = {path.propositions: path for path in found(g_prop_1, U, GOLDEN_2).paths}
    v, w, b = (g_prop_1.entities.index(entity) for entity in "VWB")
    assert paths[0, 3, 2].connections == (Connection("jump", None, None), Connection("synonym", v, w))
    assert paths[3, 2, 1].connections == (Connection("synonym", v, w), Connection("exact", b, b))


def test_golden_disconnected_start(g_prop_5: Any) -> None:
    """G-PROP-5: the only way on is a jump to p1."""
    rule = PathRule(beam_width=2, max_length=3, jump_points=1)
    assert is_close(scores(g_prop_5, "p1 p2", rule), {"p1": 0.984808, "p2>p1": 0.919941, "p2": 0.642788})
    by_mean = found(g_prop_5, "p1 p2", replace(rule, exact=False)).beams[1]
    assert is_close(g_prop_5.written(by_mean), {"p2>p1": 0.866025})
    without = found(g_prop_5, "p1 p2", replace(rule, jump_points=0))
    assert is_close(g_prop_5.written(without.paths), {"p1": 0.984808, "p2": 0.642788})
    assert len(without.beams) == 1


HIPPORAG2 = PathRule(**PRESETS["hipporag2"])
FIRST = PathRule(beam_width=2, rescored=3, jump_points=1, seed_propositions=3, exploit_paths=3)
GOLDEN_3 = replace(FIRST, seed_entities=4, subgraph_passages=3, exploit_entities=3, explore_entities=3)
SECOND = replace(FIRST, max_length=2, rescored=4, seed_entities=3, subgraph_passages=4)
GOLDEN_6 = replace(SECOND, exploit_entities=2, explore_propositions=3, explore_entities=2)


def ranked(named: Any, rule: PathRule, limit: int = 10) -> PropositionRanking:
    index = named.index(rule.entity_edge_factor)
    return rank_passages(index, [named.similarities()], rule, limit, named.encode)[0]


def by_passage(named: Any, ranking: PropositionRanking) -> dict[str, float]:
    pairs = zip(ranking.passages.tolist(), ranking.scores.tolist(), strict=True)
    return {named.passages[number]: score for number, score in pairs}


def by_entity(named: Any, ranking: PropositionRanking, part: str) -> dict[str, float]:
    return {named.entities[seed.entity]: getattr(seed, part) for seed in ranking.seeds if getattr(seed, part) > 0}


def test_golden_entity_totals(g_prop_1: Any) -> None:
    """G-PROP-3: W has an entry for p3 and one for the synonym that led there."""
    paths = ranked(g_prop_1, GOLDEN_3).found
    assert paths is not None
    entries = path_entries(g_prop_1.index().graph, paths.paths[:3])
    totals = {g_prop_1.entities[entity]: sum(scores) for entity, scores in sorted(entries.items())}
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
def test_golden_second_walk(g_prop_1: Any, kind: Any, exploit: dict[str, float], expected: dict[str, float]) -> None:
    """G-PROP-3."""
    ranking = ranked(g_prop_1, replace(GOLDEN_3, entity_weight=kind), len(expected))
    assert is_close(by_entity(g_prop_1, ranking, "exploit"), exploit)
    assert is_close(by_passage(g_prop_1, ranking), expected)
    assert ranking.fallback == ""
    if kind == "sum":
        assert is_close(by_entity(g_prop_1, ranking, "explore"), {"S": 1, "V": 1, "M": 0.785714})
        assert is_close(by_entity(g_prop_1, ranking, "weight"), {"S": 1, "V": 1, "M": 0.785714})


BETWEEN_6 = {"A-B": 2 * 2, "A-C": 2 * (1 + 0.85), "B-C": 2, "C-D": 2, "D-F": 2}
CONTAINED_6 = "A-d1 B-d1 A-d2 B-d2 A-d3 C-d3 B-d4 C-d4 D-d4 E-d4 D-d5 F-d5"
WEIGHTS_6: dict[str, float] = {**BETWEEN_6, **dict.fromkeys(CONTAINED_6.split(), 1)}
NODES_6 = ["A", "B", "C", "D", "E", "F", "d1", "d2", "d3", "d4", "d5"]


def solved(plain_walk: Any, nodes: list[str], seeds: dict[str, float], restart: float) -> dict[str, float]:
    """PageRank on the weights above as written down, by solving the equations."""
    weights = np.zeros((len(nodes), len(nodes)))
    for edge, weight in WEIGHTS_6.items():
        if all(node in nodes for node in edge.split("-")):
            left, right = (nodes.index(node) for node in edge.split("-"))
            weights[left, right] = weights[right, left] = weight
    rows = sparse.csr_array(weights / weights.sum(axis=1, keepdims=True))
    reset = np.array([seeds.get(node, 0.0) for node in nodes])
    return dict(zip(nodes, plain_walk(rows, reset, restart).at_last().tolist(), strict=True))


def test_golden_6_by_hand(plain_walk: Any) -> None:
    """G-PROP-6 without the product: vectors of length 1 at angles a, b have a mean at (a + b) / 2, and the exact
    scorer's v_a + 2 v_b has the length sqrt(5 + 4 cos(a - b)); the walks are linear equations in the weights above.
    """
    angle = {"p1": 30, "p2": 35, "p3": 40, "p4": -60, "p5": -45, "p6": -42}

    def cos(degrees: float) -> float:
        return float(np.cos(np.radians(degrees)))

    def mean(a: str, b: str) -> float:
        return cos((angle[a] + angle[b]) / 2)

    def exact(a: str, b: str) -> float:
        return (cos(angle[a]) + 2 * cos(angle[b])) / float(np.sqrt(5 + 4 * cos(angle[a] - angle[b])))

    pairs = [("p2", "p5"), ("p1", "p5"), ("p2", "p4"), ("p1", "p4"), ("p1", "p2"), ("p1", "p3"), ("p2", "p3")]
    means = [0.996195, 0.991445, 0.976296, 0.965926, 0.843391, 0.819152, 0.793353]
    assert [mean(*pair) for pair in pairs] == pytest.approx(means, abs=1e-6)
    exacts = [0.935898, 0.928179, 0.843487, 0.834512]
    assert [exact(*pair) for pair in pairs[:4]] == pytest.approx(exacts, abs=1e-6)
    assert [mean("p2", "p6"), mean("p1", "p6")] == pytest.approx([0.998135, 0.994522], abs=1e-6)
    assert [exact("p2", "p6"), exact("p1", "p6")] == pytest.approx([0.949151, 0.941976], abs=1e-6)
    # The three best paths are p2>p5, p1>p5 and p1: B is in p2, p5, p1, p5, p1; C in p5 twice, and reached twice.
    first, second, third = exact("p2", "p5"), exact("p1", "p5"), cos(30)
    b, c, a = 2 * first + 2 * second + third, 2 * first + 2 * second, first + second + third
    assert [b, c, a] == pytest.approx([4.594179, 3.728154, 2.730102], abs=1e-6)
    # p1, p2 and p3 name A; p1 and p2 name B; p3 names C.
    explored = {"A": cos(30) + cos(35) + cos(40), "B": cos(30) + cos(35), "C": cos(40)}
    assert [*explored.values()] == pytest.approx([2.451222, 1.685177, 0.766044], abs=1e-6)
    stage1 = solved(plain_walk, NODES_6, {"A": 1, "B": 1, "C": 1}, 0.25)
    assert stage1["d5"] == pytest.approx(0.012384, abs=1e-6)
    inside = [node for node in NODES_6 if node not in {"F", "d5"}]
    reset = {"A": 1, "B": 1, "C": c / b, "d1": 0.05, "d2": 0.05 * 0.5, "d3": 0.05 * 0.3 / 0.8, "d4": 0.05 * 0.6 / 0.8}
    stage2 = solved(plain_walk, inside, reset, 0.55)
    expected = [0.306923, 0.281, 0.246279, 0.027183, 0.004333, 0.036303, 0.03163, 0.027838, 0.038511]
    assert [*stage2.values()] == pytest.approx(expected, abs=1e-6)


def test_golden_6_first_walk(g_prop_6: Any, plain_walk: Any) -> None:
    """G-PROP-6: p1 counts once although two passages hold it, so that A-B weighs 4; A-C is clique and synonym."""
    index = g_prop_6.index()
    nodes = [*g_prop_6.entities, *g_prop_6.passages]
    assert nodes == NODES_6
    weights = index.walk.weights.toarray()
    rows, columns = np.nonzero(np.triu(weights))
    found = {f"{nodes[row]}-{nodes[column]}": weights[row, column] for row, column in zip(rows, columns, strict=True)}
    assert found == pytest.approx(WEIGHTS_6)
    first = ranked(g_prop_6, GOLDEN_6).focus
    assert first is not None
    assert [g_prop_6.entities[entity] for entity in first.entities] == ["A", "B", "C"]
    assert first.scores == pytest.approx([0.038306, 0.038306, 0.036713, 0.052045, 0.012384], abs=1e-6)
    assert [g_prop_6.passages[passage] for passage in first.order[:4]] == ["d4", "d1", "d2", "d3"]


def test_golden_6_paths_and_seeds(g_prop_6: Any) -> None:
    """G-PROP-6: p1>p5 goes from A to its synonym C, though both name B: A comes first."""
    ranking = ranked(g_prop_6, GOLDEN_6)
    assert ranking.found is not None
    paths = g_prop_6.written(ranking.found.paths)
    assert is_close(paths, {"p2>p5": 0.935898, "p1>p5": 0.928179, "p1": 0.866025, "p2": 0.819152})
    a, c = (g_prop_6.entities.index(entity) for entity in "AC")
    connections = [path.connections[0] for path in ranking.found.paths[:2]]
    assert [(link.kind, link.source, link.target) for link in connections] == [("synonym", a, c)] * 2
    assert is_close(by_entity(g_prop_6, ranking, "explore"), {"A": 1, "B": 0.687485})
    assert is_close(by_entity(g_prop_6, ranking, "exploit"), {"B": 1, "C": 0.811495})
    assert is_close(by_entity(g_prop_6, ranking, "weight"), {"A": 1, "B": 1, "C": 0.811495})


def test_golden_6_second_walk(g_prop_6: Any) -> None:
    """G-PROP-6: similarities are normalised over the corpus; d5 is scaled by the score of an entity, the smallest."""
    found = by_passage(g_prop_6, ranked(g_prop_6, GOLDEN_6))
    inside = {"d4": 0.038511, "d1": 0.036303, "d2": 0.03163, "d3": 0.027838}
    assert is_close(found, {**inside, "d5": 0.0000268})
    assert found["d5"] == pytest.approx(0.0000268, abs=1e-7)


def test_golden_6_unconnected_candidates(g_prop_6: Any) -> None:
    """G-PROP-6: p6 is reached by jumps only; without paths of two the second walk starts from the same entities."""
    rule = replace(GOLDEN_6, allow_unconnected=True)
    ranking = ranked(g_prop_6, rule, 4)
    assert ranking.found is not None
    paths = g_prop_6.written(ranking.found.paths)
    assert is_close(paths, {"p2>p6": 0.949151, "p1>p6": 0.941976, "p1": 0.866025, "p2": 0.819152})
    assert ranking.found.paths[0].connections[0].kind == "jump"
    expected = {"d1": 0.046273, "d2": 0.039822, "d4": 0.036313, "d3": 0.025484}
    assert is_close(by_passage(g_prop_6, ranking), expected)
    assert is_close(by_passage(g_prop_6, ranked(g_prop_6, replace(GOLDEN_6, max_length=1), 4)), expected)


@pytest.mark.parametrize(
    ("seeds", "expected"), [("explore_only", {"A": 1, "B": 0.687485}), ("exploit_only", {"B": 1, "C": 0.811495})]
)
def test_one_set_of_seeds_alone(g_prop_6: Any, plain_walk: Any, seeds: Any, expected: dict[str, float]) -> None:
    """The passages' part of the seeds stays."""
    ranking = ranked(g_prop_6, replace(GOLDEN_6, seeds=seeds), 4)
    assert is_close(by_entity(g_prop_6, ranking, "weight"), expected)
    inside = [node for node in NODES_6 if node not in {"F", "d5"}]
    reset = {**expected, "d1": 0.05, "d2": 0.05 * 0.5, "d3": 0.05 * 0.3 / 0.8, "d4": 0.05 * 0.6 / 0.8}
    judged = solved(plain_walk, inside, reset, 0.55)
    inside = g_prop_6.passages[:4]
    assert by_passage(g_prop_6, ranking) == pytest.approx({name: judged[name] for name in inside}, abs=1e-6)


def test_stage_1_alone_ranks_every_passage_by_the_first_walk(g_prop_6: Any) -> None:
    """G-PROP-6, without the subgraph; nothing is encoded."""

    def refuse(texts: Any) -> Any:
        raise AssertionError(texts)

    rule = replace(GOLDEN_6, stage1_only=True)
    ranking = rank_passages(g_prop_6.index(), [g_prop_6.similarities()], rule, 5, refuse)[0]
    expected = {"d4": 0.052045, "d1": 0.038306, "d2": 0.038306, "d3": 0.036713, "d5": 0.012384}
    assert is_close(by_passage(g_prop_6, ranking), expected)
    assert (ranking.fallback, ranking.found, ranking.seeds) == ("", None, ())


def test_the_preset_hipporag2_divides_mean_similarities_by_passages(g_prop_6: Any, plain_walk: Any) -> None:
    """G-PROP-6's graph: of the five most similar propositions, p1, p2 and p3 name A, which is in d1, d2 and d3."""
    sim = dict(zip(g_prop_6.names, g_prop_6.similarities().propositions.tolist(), strict=True))
    best = sorted(sim, key=lambda name: -sim[name])[:5]
    assert best == ["p1", "p2", "p3", "p6", "p5"]
    means = {
        "A": (sim["p1"] + sim["p2"] + sim["p3"]) / 3 / 3,
        "B": (sim["p1"] + sim["p2"] + sim["p5"]) / 3 / 3,
        "C": (sim["p3"] + sim["p5"]) / 2 / 2,
        "E": sim["p6"],
    }
    ranking = ranked(g_prop_6, HIPPORAG2)
    assert ranking.focus is not None
    found = {
        g_prop_6.entities[entity]: weight
        for entity, weight in zip(ranking.focus.entities.tolist(), ranking.focus.weights.tolist(), strict=True)
    }
    assert found == pytest.approx(means)
    dense = {"d1": 0.05, "d2": 0.05 * 0.5, "d3": 0.05 * 0.3 / 0.8, "d4": 0.05 * 0.6 / 0.8, "d5": 0}
    judged = solved(plain_walk, NODES_6, {**means, **dense}, 0.5)
    assert by_passage(g_prop_6, ranking) == pytest.approx({name: judged[name] for name in dense}, abs=1e-9)


def changed(similarities: Similarities, **parts: Any) -> Similarities:
    return replace(similarities, **{name: np.array(values, dtype=np.float64) for name, values in parts.items()})


def test_without_a_similar_proposition_similarity_ranks(g_prop_6: Any, g_prop_5: Any) -> None:
    """Without vectors; or, with the preset, from negative similarities."""
    question = changed(g_prop_6.similarities(), propositions=[np.nan] * 7)
    ranking = rank_passages(g_prop_6.index(), [question], GOLDEN_6, 3, g_prop_6.encode)[0]
    assert (ranking.fallback, ranking.focus) == ("dense", None)
    assert by_passage(g_prop_6, ranking) == {"d1": 0.9, "d4": 0.7, "d2": 0.5}
    question = changed(g_prop_5.similarities(), propositions=[-0.2, -0.1])
    assert rank_passages(g_prop_5.index(), [question], HIPPORAG2, 1, g_prop_5.encode)[0].fallback == "dense"


def test_propositions_without_entities_start_nothing(make_named_graph: Any) -> None:
    named = make_named_graph(
        {"p1": ("d1", ""), "p2": ("d2", "A")}, {}, {"p1": (1, 0), "p2": (0, 1)}, (1, 0), {"d1": 0.1, "d2": 0.2}
    )
    ranking = ranked(named, PathRule(seed_propositions=1))
    assert ranking.fallback == "dense"
    assert by_passage(named, ranking) == {"d2": 0.2, "d1": 0.1}


def test_a_subgraph_without_propositions_is_ranked_by_the_first_walk(make_named_graph: Any) -> None:
    """The best passage holds p2 only, which has no vector."""
    named = make_named_graph(
        {"p1": ("d1", "A"), "p2": ("d2", "A")}, {}, {"p1": (1, 0), "p2": (1, 0)}, (1, 0), {"d1": 0.1, "d2": 0.2}
    )
    question = changed(named.similarities(), propositions=[1, np.nan])
    rule = PathRule(subgraph_passages=1)
    ranking = rank_passages(named.index(), [question], rule, 2, named.encode)[0]
    assert (ranking.fallback, ranking.found) == ("stage1", None)
    assert [named.passages[number] for number in ranking.passages] == ["d2", "d1"]


def test_without_a_seed_above_zero_the_first_walk_ranks(g_prop_5: Any) -> None:
    """All similarities are negative, and no weight is left for passages."""
    named = replace(g_prop_5, question=(-1, 0))
    ranking = ranked(named, PathRule(passage_weight=0))
    assert (ranking.fallback, ranking.seeds) == ("stage1", ())
    assert ranking.found is not None


@pytest.mark.parametrize(
    ("kind", "source", "target", "expected"),
    [
        ("exact", "B", "B", {"B": [0.5, 0.5], "P": [0.5], "W": [0.5]}),
        ("synonym", "P", "W", {"B": [0.5, 0.5], "P": [0.5], "W": [0.5, 0.5]}),
        ("jump", None, None, {"B": [0.5, 0.5], "P": [0.5], "W": [0.5]}),
    ],
)
def test_only_the_entity_that_synonymy_leads_to_gets_one_entry_more(
    g_prop_1: Any, kind: Any, source: str | None, target: str | None, expected: dict[str, list[float]]
) -> None:
    """From p2 (B, P) to p3 (B, W)."""
    ends = [None if entity is None else g_prop_1.entities.index(entity) for entity in (source, target)]
    path = PropositionPath((1, 2), (Connection(kind, *ends),), 0.5)
    entries = path_entries(g_prop_1.graph, [path])
    assert {g_prop_1.entities[entity]: scores for entity, scores in sorted(entries.items())} == expected


def test_ties_inside_the_subgraph_go_to_the_smaller_passage_id(make_named_graph: Any) -> None:
    """The first walk lets similarity decide between d1 and d2, the second one does not."""
    named = make_named_graph({"p1": ("d1 d2", "A")}, {}, {"p1": (1, 0)}, (1, 0), {"d1": 0.1, "d2": 0.2})
    rule = PathRule(passage_weight=0)
    assert [*by_passage(named, ranked(named, replace(rule, stage1_only=True)))] == ["d2", "d1"]
    assert [*by_passage(named, ranked(named, rule))] == ["d1", "d2"]


def test_negative_weights_are_dropped_before_the_division(g_prop_1: Any) -> None:
    paths = [PropositionPath((0,), (), 0.5), PropositionPath((3,), (), -0.5)]
    names = g_prop_1.entities
    assert entity_weights(g_prop_1.graph, paths, 9, "sum") == {names.index("M"): 1.0, names.index("P"): 1.0}
    assert entity_weights(g_prop_1.graph, paths[1:], 9, "sum") == {}
    assert entity_weights(g_prop_1.graph, paths, 0, "sum") == {}


def test_a_question_does_not_depend_on_its_batch(g_prop_6: Any) -> None:
    """Questions of different depths and fallbacks; texts of all questions are encoded in one call per depth."""
    calls = []

    def encode(texts: Any) -> Any:
        calls.append(list(texts))
        return g_prop_6.encode(texts)

    question = g_prop_6.similarities()
    turned = replace(g_prop_6, question=(0, 1)).similarities()
    without = changed(question, propositions=[np.nan] * 7)
    batch = [question, turned, without, question]
    rule = replace(GOLDEN_6, max_length=3)
    together = rank_passages(g_prop_6.index(), batch, rule, 5, encode)
    assert len(calls) == 2
    assert all(len(set(texts)) == len(texts) for texts in calls)
    for alone, row in zip(batch, together, strict=True):
        single = rank_passages(g_prop_6.index(), [alone], rule, 5, g_prop_6.encode)[0]
        assert single.passages.tolist() == row.passages.tolist()
        assert single.scores.tolist() == row.scores.tolist()
        assert (single.found, single.seeds, single.fallback) == (row.found, row.seeds, row.fallback)
