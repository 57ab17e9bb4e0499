"""FindPathsInHub and FindHubRoots on the graph of algorithms.md G-HUB-1 and G-HUB-2."""

import numpy as np
import pytest

from polyhop.schemas.hubs import END_KINDS, HubGraph
from polyhop.tasks.hubs.paths import Adjacency, PathsOfHub, RootWalk, find_paths_in_hub, layer_at

STATED = """H1 title t1; H1 author A1; H1 venue V1; H1 cites H2; H1 same-as H1; A1 affiliation U1; A1 wrote H2;
U1 place C1; U1 employs A1; V1 place C1; C1 part-of K1; H2 title t2; H2 author A2; H2 cites H1; A2 affiliation U1;
R contains H1; R contains H2; F parent-of R"""
TRIPLES = [tuple(triple.split()) for triple in STATED.split(";")]
NODES = sorted({triple[0] for triple in TRIPLES} | {triple[2] for triple in TRIPLES})
PREDICATES = sorted({triple[1] for triple in TRIPLES})
ROWS = sorted((NODES.index(s), PREDICATES.index(p), NODES.index(o)) for s, p, o in TRIPLES)
GRAPH = HubGraph.from_triples(*np.array(ROWS).T, np.zeros(len(NODES), dtype=bool))  # type: ignore[call-arg]
ADJACENT = Adjacency(GRAPH)
IS_HUB = bytearray(name in {"H1", "H2"} for name in NODES)


def written(path: tuple[int, ...]) -> str:
    """Predicates and objects of a path."""
    return ", ".join(f"{PREDICATES[ROWS[triple][1]]} {NODES[ROWS[triple][2]]}" for triple in path)


def stated(path: tuple[int, ...]) -> str:
    """Whole triples of a path."""
    return ", ".join(f"{NODES[s]} {PREDICATES[p]} {NODES[o]}" for s, p, o in (ROWS[triple] for triple in path))


def paths_of(hub: str, max_length: int) -> PathsOfHub:
    return find_paths_in_hub(ADJACENT, IS_HUB, NODES.index(hub), max_length)


def shown(found: PathsOfHub) -> list[tuple[str, str]]:
    return [(written(path), END_KINDS[kind]) for path, kind in zip(found.paths, found.end_kinds, strict=True)]


def candidates(found: PathsOfHub) -> dict[str, tuple[str, str]]:
    return {NODES[node]: (END_KINDS[kind], written(path)) for node, (kind, path) in found.candidates.items()}


def test_all_paths_of_a_hub_in_emission_order() -> None:
    found = paths_of("H1", -1)
    assert shown(found) == [
        ("cites H2", "hub"),
        ("author A1, wrote H2", "hub"),
        ("title t1", "leaf"),
        ("author A1, affiliation U1, employs A1", "revisit"),
        ("author A1, affiliation U1, place C1", "revisit"),
        ("venue V1, place C1, part-of K1", "leaf"),
    ]
    assert candidates(found) == {"H2": ("hub", "cites H2")}
    assert len({triple for path in found.paths for triple in path}) == 10


def test_a_length_limit_ends_paths_and_names_where_they_would_go_on() -> None:
    assert shown(paths_of("H1", 2)) == [
        ("cites H2", "hub"),
        ("author A1, wrote H2", "hub"),
        ("title t1", "leaf"),
        ("author A1, affiliation U1", "limit"),
        ("venue V1, place C1", "limit"),
    ]
    assert candidates(paths_of("H1", 2)) == {
        "H2": ("hub", "cites H2"),
        "U1": ("limit", "author A1, affiliation U1"),
        "C1": ("limit", "venue V1, place C1"),
    }
    found = paths_of("H1", 1)
    assert {path for path, _ in shown(found)} == {"cites H2", "author A1", "title t1", "venue V1"}
    assert set(candidates(found)) == {"H2", "A1", "V1"}


def test_paths_of_the_other_hub() -> None:
    found = paths_of("H2", 0)
    assert shown(found) == [
        ("cites H1", "hub"),
        ("title t2", "leaf"),
        ("author A2, affiliation U1, employs A1, affiliation U1", "revisit"),
        ("author A2, affiliation U1, place C1, part-of K1", "leaf"),
    ]
    assert candidates(found) == {"H1": ("hub", "cites H1")}


def test_paths_beyond_the_limit_of_a_hub_are_counted() -> None:
    found = find_paths_in_hub(ADJACENT, IS_HUB, NODES.index("H1"), -1, max_paths=2)
    assert [written(path) for path in found.paths] == ["cites H2", "author A1, wrote H2"]
    assert found.left_out == 4


def levels(topic: str, count: int, *, until_hub: bool) -> list[list[tuple[str, str]]]:
    """The hubs of each level with their paths to the topic."""
    search, starts = RootWalk(GRAPH, np.array(IS_HUB, dtype=bool)), layer_at([NODES.index(topic)], both_ways=True)
    found = []
    for _ in range(count):
        hubs, places, starts = search.level(starts, until_hub=until_hub)
        ways = map(search.triples_to, places.tolist())
        found.append([(NODES[hub], stated(way)) for hub, way in zip(hubs.tolist(), ways, strict=True)])
    return found


LEFT_OF_U1 = [
    ("H1", "A1 affiliation U1, H1 author A1"),
    ("H2", "A2 affiliation U1, H2 author A2"),
]


@pytest.mark.parametrize(
    ("topic", "until_hub", "expected"),
    [
        ("R", True, [[("H1", "R contains H1"), ("H2", "R contains H2")]]),
        ("R", False, [[], [("H1", "R contains H1"), ("H2", "R contains H2")]]),
        ("F", True, [[("H1", "F parent-of R, R contains H1"), ("H2", "F parent-of R, R contains H2")]]),
        ("U1", True, [LEFT_OF_U1]),
        ("U1", False, [[], [], LEFT_OF_U1]),
        ("H2", True, [[("H2", ""), ("H1", "H1 cites H2")]]),
        ("C1", False, [[], [], [("H1", "V1 place C1, H1 venue V1")], None]),
    ],
)
def test_hubs_that_a_topic_leads_to(topic: str, until_hub: bool, expected: list[list[tuple[str, str]] | None]) -> None:
    found = levels(topic, len(expected), until_hub=until_hub)
    for level, wanted in zip(found, expected, strict=True):
        if wanted is None:
            assert [hub for hub, _ in level] == ["H2"]
        else:
            assert level == wanted
