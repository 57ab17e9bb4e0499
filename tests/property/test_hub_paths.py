"""FindPathsInHub on random graphs with cycles, mutual hubs, self-loops and limits: what must hold of any of them.

The expectation is written from the definition of a hub's region (algorithms.md 4.5), not from the search.
"""

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.hubs import HUB, LEAF, LIMIT, REVISIT, HubGraph
from polyhop.tasks.hubs.paths import Adjacency, Path, PathsOfHub, find_paths_in_hub

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Case:
    """A graph, its hubs and a limit; the hub whose paths are searched is node 0."""

    triples: list[Triple]
    hubs: frozenset[int]
    max_length: int
    nodes: int

    def paths(self, max_paths: int = 0) -> PathsOfHub:
        columns = np.array(self.triples, dtype=np.int64).reshape(-1, 3).T
        graph = HubGraph.from_triples(*columns, np.zeros(self.nodes, dtype=bool))  # type: ignore[call-arg]
        is_hub = bytearray(node in self.hubs for node in range(self.nodes))
        return find_paths_in_hub(Adjacency(graph), is_hub, 0, self.max_length, max_paths)

    def leaving(self, node: int) -> list[int]:
        """Triples that leave a node and do not enter the hub."""
        return [number for number, (s, _, o) in enumerate(self.triples) if s == node and o != 0]

    def distances(self) -> dict[int, int]:
        """Steps from the hub to every node that is reached without passing another hub, or coming back."""
        found, edge = {0: 0}, [0]
        while edge:
            edge = [self.triples[t][2] for node in edge for t in self.leaving(node)]
            edge = list(dict.fromkeys(node for node in edge if node not in found and node not in self.hubs))
            found |= dict.fromkeys(edge, max(found.values()) + 1)
        return found

    def is_within(self, steps: int) -> bool:
        return self.max_length <= 0 or steps < self.max_length

    def region(self) -> set[int]:
        """Triples whose subject is near enough."""
        return {t for node, steps in self.distances().items() if self.is_within(steps) for t in self.leaving(node)}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    nodes = draw(st.integers(1, 8))
    node = st.integers(0, nodes - 1)
    triples = draw(st.sets(st.tuples(node, st.integers(0, 2), node), max_size=24))
    hubs = draw(st.sets(node, max_size=3)) | {0}
    return Case(sorted(triples), frozenset(hubs), draw(st.integers(-1, 4)), nodes)


@given(cases())
def test_paths_cover_the_region_and_nothing_else_and_each_ends_in_a_triple_of_its_own(case: Case) -> None:
    found = case.paths()
    assert {triple for path in found.paths for triple in path} == case.region()
    assert len({path[-1] for path in found.paths}) == len(found.paths)
    assert all(path for path in found.paths)
    for path in found.paths:
        ends = [0, *(case.triples[triple][2] for triple in path)]
        assert [case.triples[triple][0] for triple in path] == ends[:-1]
        assert not case.hubs & set(ends[1:-1])


@given(cases())
def test_paths_end_for_the_reason_that_is_given(case: Case) -> None:
    found, steps = case.paths(), case.distances()
    for path, kind in zip(found.paths, found.end_kinds, strict=True):
        end = case.triples[path[-1]][2]
        expected = (
            HUB
            if end in case.hubs
            else REVISIT
            if end in passed(case, path) or (steps[end] < len(path) and case.is_within(steps[end]))
            else kind
        )
        assert kind == expected
        if kind == LEAF:
            assert not case.leaving(end)
        if kind == LIMIT:
            assert len(path) == case.max_length
            assert case.leaving(end)


def passed(case: Case, path: Path) -> set[int]:
    """Subjects of a path."""
    return {case.triples[triple][0] for triple in path}


@given(cases())
def test_paths_come_level_by_level(case: Case) -> None:
    """A step that meets a hub or its own path ends there; all others end when their turn comes."""
    found = case.paths()
    turns = [
        len(path) - (kind == HUB or case.triples[path[-1]][2] in passed(case, path))
        for path, kind in zip(found.paths, found.end_kinds, strict=True)
    ]
    assert turns == sorted(turns)


@given(cases())
def test_candidates_are_the_hubs_that_the_region_enters_and_the_nodes_at_the_limit(case: Case) -> None:
    found, steps = case.paths(), case.distances()
    hubs = {case.triples[t][2] for t in case.region()} & case.hubs
    limits = {node for node, count in steps.items() if count == case.max_length > 0 and case.leaving(node)}
    assert {node: kind for node, (kind, _) in found.candidates.items()} == {
        **dict.fromkeys(hubs, HUB),
        **dict.fromkeys(limits, LIMIT),
    }
    for node, (kind, path) in found.candidates.items():
        entered = [steps[case.triples[t][0]] for t in case.region() if case.triples[t][2] == node]
        assert case.triples[path[-1]][2] == node
        assert len(path) == (min(entered) + 1 if kind == HUB else case.max_length)


@given(cases(), st.integers(1, 5))
def test_a_limit_keeps_the_first_paths_and_all_candidates(case: Case, max_paths: int) -> None:
    whole, limited = case.paths(), case.paths(max_paths)
    assert limited.paths == whole.paths[:max_paths]
    assert limited.left_out == len(whole.paths) - len(limited.paths)
    assert limited.candidates == whole.candidates
