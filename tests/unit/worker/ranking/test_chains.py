"""Chains: the golden vectors of QASA, the bounded search against full enumeration on random graphs, and texts."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.graph import ChainRule, Entity, Hop, RelationGraph
from polyhop.worker.ranking.chains import best_chains, chain_line, context_text, search_paths, without_duplicates
from polyhop.worker.strategies.base import entity_line

DEFAULTS = ChainRule()
KEYS = "abcdefgh"
ACTIVE = np.arange(6)
VALUES = np.array([1.935312, 1.25856, 1.456, 1.82784, 0.801797, 0.043218])


def lettered(paths: Any) -> list[str]:
    return ["-".join(KEYS[entity] for entity in path) for path in paths]


def test_golden_simple_paths(qasa_graph: RelationGraph) -> None:
    """G-QASA-4: all 18, in descending order of score."""
    found = search_paths(qasa_graph, ACTIVE, VALUES, [0, 1], DEFAULTS)
    paths = "a-d a-c-d a-d-c a-c a-d-c-b b-c-a-d b-c-d-a a-c-b b-c-a a-d-e b-c-d a-c-d-e b-c-a-d-e b-c b-c-d-e "
    paths += "a-c-d-e-f a-d-e-f b-c-d-e-f"
    scores = [1.881576, 1.739717, 1.739717, 1.695656, 1.619428, 1.619428, 1.619428, 1.549957, 1.549957, 1.52165]
    scores += [1.514133, 1.505237, 1.455902, 1.35728, 1.336049, 1.212833, 1.152042, 1.077483]
    assert lettered(chain.entities for chain in found.chains) == paths.split()
    assert [chain.score for chain in found.chains] == pytest.approx(scores, abs=1e-5)
    assert not found.is_cut


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["a-d-c-b", "b-c-a-d-e", "a-c-d-e-f", "a-d-e-f", "b-c-d-e-f"]),
        ({"limit": 5}, ["a-c-d", "a-d-c-b"]),
        ({"limit": 2, "dedupe": "before_limit"}, ["a-d-c-b", "b-c-a-d-e"]),
        ({"max_length": 1}, ["a-d", "a-c", "b-c"]),
    ],
)
def test_golden_chains_without_duplicates(qasa_graph: RelationGraph, changes: Any, expected: list[str]) -> None:
    """G-QASA-4."""
    found = best_chains(qasa_graph, ACTIVE, VALUES, [0, 1], replace(DEFAULTS, **changes))
    assert lettered(chain.entities for chain in found.chains) == expected


def test_hops_carry_the_labels_of_both_directions(qasa_graph: RelationGraph) -> None:
    found = best_chains(qasa_graph, ACTIVE, VALUES, [1], ChainRule(max_length=2))
    hops = {lettered([chain.entities])[0]: chain.hops for chain in found.chains}
    assert hops["b-c-a"] == (Hop(("studied at",), ()), Hop(("written by",), ("wrote",)))


@pytest.mark.parametrize(
    ("paths", "left"),
    [
        ([(1, 2, 3), (3, 2, 1), (1, 2, 3)], [(1, 2, 3)]),  # G-QASA-4: b-c-d-a is a-d-c-b, b-c-a is a-c-b
        ([(2, 1), (1, 2, 3), (3, 2), (4, 5)], [(1, 2, 3), (4, 5)]),  # prefixes read backwards go too
        # compared with all that are left after the reversals, not only with survivors
        ([(1, 2), (1, 2, 3), (1, 2, 3, 4)], [(1, 2, 3, 4)]),
    ],
)
def test_reversals_and_prefixes_go(paths: list[tuple[int, ...]], left: list[tuple[int, ...]]) -> None:
    assert without_duplicates(paths) == left


@pytest.mark.parametrize("active", [[], [0]])
def test_a_seed_alone_makes_no_chain(qasa_graph: RelationGraph, active: list[int]) -> None:
    values = np.ones(len(active))
    assert best_chains(qasa_graph, np.array(active, dtype=np.intp), values, active, DEFAULTS).chains == ()


def test_a_search_that_stops_early_says_so(qasa_graph: RelationGraph) -> None:
    found = best_chains(qasa_graph, ACTIVE, VALUES, [0, 1], replace(DEFAULTS, max_paths=3))
    assert found.is_cut
    assert found.looked_at == 3
    assert not best_chains(qasa_graph, ACTIVE, VALUES, [0, 1], replace(DEFAULTS, max_paths=18)).is_cut


def test_the_bound_saves_work_on_a_hub(make_relations: Any) -> None:
    """A hub with 60 neighbours has some 200,000 paths of four relations through five of them."""
    keys = [f"n{number:02}" for number in range(60)]
    graph = make_relations(
        keys, [(keys[0], "r", key) for key in keys[1:]] + [(keys[n], "r", keys[n + 1]) for n in range(1, 59)]
    )
    values = np.linspace(2.0, 0.1, 60)
    bounded = search_paths(graph, np.arange(60), values, [0, 59], replace(DEFAULTS, limit=10))
    full = search_paths(graph, np.arange(60), values, [0, 59], replace(DEFAULTS, limit=0))
    assert bounded.chains == full.chains[:10]
    assert bounded.looked_at < full.looked_at / 10


def enumerated(graph: RelationGraph, active: set[int], seed: int, length: int) -> Iterator[tuple[int, ...]]:
    """Every simple path from a seed, the plain way."""
    paths = [(seed,)]
    for _ in range(length):
        paths = [
            (*path, int(node))  # type: ignore[misc]
            for path in paths
            for node in graph.indices[graph.indptr[path[-1]] : graph.indptr[path[-1] + 1]]
            if int(node) in active and int(node) not in path
        ]
        yield from paths


@given(data=st.data())
def test_bounded_search_is_full_enumeration(make_relations: Any, data: st.DataObject) -> None:
    """Few different values, so that many paths tie."""
    n = data.draw(st.integers(2, 9))
    node = st.integers(0, n - 1)
    pairs = [pair for pair in data.draw(st.lists(st.tuples(node, node), max_size=24, unique=True)) if len({*pair}) == 2]
    graph = make_relations(list(range(n)), [(s, "r", t) for s, t in pairs])
    active = np.array(data.draw(st.lists(node, min_size=1, unique=True).map(sorted)), dtype=np.intp)
    choice = st.one_of(st.sampled_from([0.1, 0.3, 0.7, 1.0]), st.floats(0.01, 50))
    values = np.array(data.draw(st.lists(choice, min_size=len(active), max_size=len(active))))
    seeds = data.draw(st.lists(st.sampled_from(active.tolist()), min_size=1, max_size=3, unique=True))
    rule = ChainRule(data.draw(st.integers(1, 12)), data.draw(st.integers(1, 5)))
    value_of = dict(zip(active.tolist(), values.tolist(), strict=True))
    scored = []
    for seed in seeds:
        for path in enumerated(graph, set(active.tolist()), seed, rule.max_length):
            score = sum(sorted(value_of[entity] for entity in path)) / len(path)
            scored.append((-np.rint(score * 1e12), len(path), path))
    expected = [path for _, _, path in sorted(scored)][: rule.limit]
    found = search_paths(graph, active, values, seeds, rule)
    assert [chain.entities for chain in found.chains] == expected
    everything = search_paths(graph, active, values, seeds, replace(rule, limit=0))
    assert [chain.entities for chain in everything.chains] == [path for _, _, path in sorted(scored)]
    assert search_paths(graph, active, values, seeds[::-1], rule).chains == found.chains


@given(st.lists(st.lists(st.integers(0, 4), min_size=2, max_size=4, unique=True).map(tuple), max_size=8))
def test_what_is_left_says_all_that_was_said(paths: list[tuple[int, ...]]) -> None:
    """Each dropped path is, one way or the other, a part of one that is left; none of those begins another."""

    def is_at(short: tuple[int, ...], long: tuple[int, ...], place: int) -> bool:
        return long[place : place + len(short)] in (short, short[::-1])

    def begins(short: tuple[int, ...], long: tuple[int, ...]) -> bool:
        return is_at(short, long, 0) or is_at(short, long[::-1], 0)

    left = without_duplicates(paths)
    assert all(any(is_at(path, other, place) for other in left for place in range(4)) for path in paths)
    assert not any(begins(one, other) for one in left for other in left if one is not other)


def test_arrows_point_as_relations_are_stored() -> None:
    hops = (Hop(("directed",), ()), Hop((), ("capital of", "near")))
    assert chain_line(["A", "B", "C"], hops) == "A --[directed]--> B <--[capital of | near]-- C"


def test_golden_hop_with_both_directions() -> None:
    """G-QASA-4."""
    assert chain_line("ac", [Hop(("wrote",), ("written by",))]) == "a --[wrote]--> <--[written by]-- c"


@pytest.mark.parametrize(
    ("kind", "text", "line"),
    [
        ("PERSON", "Ada wrote\n notes.", "Ada (PERSON): Ada wrote notes."),
        ("", "Ada wrote.", "Ada: Ada wrote."),
        ("PERSON", "", "Ada (PERSON)"),
    ],
)
def test_an_entity_shows_what_is_known_of_it(kind: str, text: str, line: str) -> None:
    assert entity_line(Entity("ada", "Ada", kind, text)) == line


def test_empty_sections_say_so() -> None:
    assert context_text(["A --[r]--> B"], []) == "Chains:\nA --[r]--> B\n\nEntities:\n(none)"
    assert context_text([], ["A: a"]) == "Chains:\n(none)\n\nEntities:\nA: a"
