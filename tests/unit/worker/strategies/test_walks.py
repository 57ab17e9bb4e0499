"""Walks of SPRIG: both ways of computing them, and what their parameters change."""

from typing import Any

import numpy as np
import pytest

from polyhop.schemas.graph import BipartiteGraph
from polyhop.worker.ranking.pagerank import WalkSeeds
from polyhop.worker.strategies import sprig
from polyhop.worker.strategies.sprig import WalkParameters, make_walk

SEEDS = WalkSeeds(np.array([0, 3]), np.array([0.5, 0.2]), np.array([2]), np.array([0.3]))


@pytest.mark.parametrize("hub_penalty", [0.0, 0.5])
@pytest.mark.parametrize("restart", [0.15, 0.6])
def test_many_power_steps_and_a_fine_push_agree(
    golden_graph: BipartiteGraph, hub_penalty: float, restart: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sprig, "EPS", 1e-10)
    given = {"hub_penalty": hub_penalty, "restart": restart}
    power = make_walk(golden_graph, None, WalkParameters(ppr="power", max_iter=400, **given))(SEEDS)
    push = make_walk(golden_graph, None, WalkParameters(ppr="push", **given))(SEEDS)
    assert power == pytest.approx(push, abs=1e-7)
    assert power.shape == (5,)
    assert 0 < power.sum() < 1


def test_edges_that_are_not_kept_carry_nothing(golden_graph: BipartiteGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sprig, "EPS", 1e-9)
    kept = golden_graph.indices != golden_graph.number_of["paris"]
    for way in ("power", "push"):
        parameters: Any = WalkParameters(ppr=way, max_iter=50)
        seeds = WalkSeeds(np.array([golden_graph.number_of["paris"]]), np.ones(1), np.array([], int), np.array([]))
        assert make_walk(golden_graph, kept, parameters)(seeds).sum() == pytest.approx(0.0, abs=1e-9)
        assert make_walk(golden_graph, None, parameters)(seeds).sum() > 0.1


def test_no_step_leaves_the_mass_where_it_started(golden_graph: BipartiteGraph) -> None:
    found = make_walk(golden_graph, None, WalkParameters(max_iter=0))(SEEDS)
    assert found == pytest.approx(np.array([0, 0, 0.3, 0, 0]))
