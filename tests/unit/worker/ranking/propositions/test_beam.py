"""Beam search: the golden vectors of PropRAG, and a plain enumerating search on random small graphs."""

from dataclasses import replace
from typing import Any

import pytest

from polyhop.worker.ranking.proposition_paths import Connection, _Beam, search_paths
from polyhop.worker.ranking.proposition_walks import PathRule

GOLDEN_2 = PathRule(beam_width=2, rescored=3, jump_points=1)
U = "p1 p2 p3 p4"


def found(named: Any, universe: str, rule: PathRule) -> Any:
    return search_paths(named.graph, [named.search(universe)], rule, named.texts_of, named.encode)[0]


def scores(named: Any, universe: str, rule: PathRule) -> dict[str, float]:
    written: dict[str, float] = named.written(found(named, universe, rule).paths)
    return written


def is_close(found: dict[str, float], expected: dict[str, float]) -> bool:
    """The same paths in the same order, scores to six digits."""
    return list(found) == list(expected) and [*found.values()] == pytest.approx([*expected.values()], abs=1e-6)


def test_golden_paths(g_prop_1: Any) -> None:
    """G-PROP-2: jumps, a synonym, a shared entity; no path p4>p1, since p4 is the only jump point."""
    expected = {
        "p1>p4": 0.988372,
        "p4": 0.933333,
        "p1>p4>p3": 0.896268,
        "p4>p3": 0.825887,
        "p4>p3>p2": 0.792696,
        "p1": 0.733333,
    }
    assert is_close(scores(g_prop_1, U, GOLDEN_2), expected)


@pytest.mark.parametrize(
    ("max_length", "expected"),
    [
        (2, {"p1>p4": 0.96873, "p4>p3": 0.925935}),
        (3, {"p1>p4>p3": 0.935757, "p4>p3>p2": 0.897643}),
    ],
)
def test_golden_mean_scores(g_prop_1: Any, max_length: int, expected: dict[str, float]) -> None:
    """G-PROP-2, left half of its table."""
    rule = replace(GOLDEN_2, exact=False, max_length=max_length)
    last = found(g_prop_1, U, rule).beams[-1]
    assert is_close(g_prop_1.written(last), expected)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"beam_width": 1}, {"p4": 0.933333, "p4>p3": 0.825887, "p4>p3>p2": 0.792696}),
        (
            {"jump_points": 0},
            {
                "p4": 0.933333,
                "p4>p3": 0.825887,
                "p4>p3>p2": 0.792696,
                "p1": 0.733333,
                "p1>p2": 0.695095,
                "p1>p2>p3": 0.68601,
            },
        ),
    ],
)
def test_golden_greedy_and_without_jumps(g_prop_1: Any, changes: Any, expected: dict[str, float]) -> None:
    """G-PROP-2."""
    assert is_close(scores(g_prop_1, U, replace(GOLDEN_2, **changes)), expected)


def test_golden_connections(g_prop_1: Any) -> None:
    """G-PROP-2: p1>p4 by a jump, p4>p3 from V to W."""
    paths = {path.propositions: path for path in found(g_prop_1, U, GOLDEN_2).paths}
    v, w, b = (g_prop_1.entities.index(entity) for entity in "VWB")
    assert paths[0, 3, 2].connections == (Connection("jump", None, None), Connection("synonym", v, w))
    assert paths[3, 2, 1].connections == (Connection("synonym", v, w), Connection("exact", b, b))


GOLDEN_4 = {
    (2, 2, 10): {"p3": 0.970296, "p1>p2": 0.968195, "p3>p1": 0.962832, "p1": 0.866025},
    (2, 3, 3): {
        "p3": 0.970296,
        "p1>p2>p3": 0.969332,
        "p1>p2": 0.968195,
        "p3>p1": 0.962832,
        "p3>p1>p5": 0.875185,
        "p1": 0.866025,
    },
    (1, 3, 10): {"p3>p1>p2": 0.983038, "p3": 0.970296, "p3>p1": 0.962832},
}


@pytest.mark.parametrize(("setting", "expected"), GOLDEN_4.items())
def test_golden_sets_are_generated_once(g_prop_4: Any, setting: Any, expected: dict[str, float]) -> None:
    """G-PROP-4 by beam width, length and M: p1>p3 is suppressed by p3>p1, re-scoring swaps p1>p5 and p3>p2."""
    width, length, rescored = setting
    rule = PathRule(beam_width=width, max_length=length, rescored=rescored, jump_points=1)
    assert is_close(scores(g_prop_4, "p1 p2 p3 p4 p5", rule), expected)


def candidates(named: Any, universe: str, rule: PathRule) -> dict[str, float]:
    """Those of the second depth in order of their mean vectors, before any text is read."""
    search = named.search(universe)
    written: dict[str, float] = named.written(_Beam(named.graph, search, rule).extended().written(search.propositions))
    return written


def test_golden_candidates(g_prop_1: Any) -> None:
    """G-PROP-2: all three of the second depth, with the types of their connections."""
    search = g_prop_1.search(U)
    found = _Beam(g_prop_1.graph, search, GOLDEN_2).extended().written(search.propositions)
    assert is_close(g_prop_1.written(found), {"p1>p4": 0.96873, "p4>p3": 0.925935, "p1>p2": 0.707107})
    assert [path.connections[0].kind for path in found] == ["jump", "synonym", "exact"]


def test_golden_candidates_of_every_set(g_prop_4: Any) -> None:
    """G-PROP-4: p1>p3 is suppressed by p3>p1; the exact scores order p1>p5 and p3>p2 the other way."""
    rule = PathRule(beam_width=2, max_length=2, rescored=10, jump_points=1)
    means = {"p1>p2": 0.999048, "p3>p1": 0.990268, "p1>p5": 0.939693, "p3>p2": 0.909961, "p3>p5": 0.743145}
    assert is_close(candidates(g_prop_4, "p1 p2 p3 p4 p5", rule), means)
    exact = {"p1>p2": 0.968195, "p3>p1": 0.962832, "p3>p2": 0.882659, "p1>p5": 0.747038, "p3>p5": 0.614966}
    scored = g_prop_4.encode([path.replace(">", " ") for path in means]) @ g_prop_4.unit_question
    assert dict(zip(means, scored.tolist(), strict=True)) == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize("rescored", [4, 40])
def test_golden_candidates_are_cut_at_m(g_prop_6: Any, rescored: int) -> None:
    """G-PROP-6: seven candidates, of which M are kept."""
    means = {
        "p2>p5": 0.996195,
        "p1>p5": 0.991445,
        "p2>p4": 0.976296,
        "p1>p4": 0.965926,
        "p1>p2": 0.843391,
        "p1>p3": 0.819152,
        "p2>p3": 0.793353,
    }
    rule = PathRule(beam_width=2, max_length=2, rescored=rescored, jump_points=1)
    found = candidates(g_prop_6, "p1 p2 p3 p4 p5 p6", rule)
    assert is_close(found, dict([*means.items()][:rescored]))


def test_golden_disconnected_start(g_prop_5: Any) -> None:
    """G-PROP-5: the only way on is a jump to p1."""
    rule = PathRule(beam_width=2, max_length=3, jump_points=1)
    assert is_close(scores(g_prop_5, "p1 p2", rule), {"p1": 0.984808, "p2>p1": 0.919941, "p2": 0.642788})
    by_mean = found(g_prop_5, "p1 p2", replace(rule, exact=False)).beams[1]
    assert is_close(g_prop_5.written(by_mean), {"p2>p1": 0.866025})
    without = found(g_prop_5, "p1 p2", replace(rule, jump_points=0))
    assert is_close(g_prop_5.written(without.paths), {"p1": 0.984808, "p2": 0.642788})
    assert len(without.beams) == 1
