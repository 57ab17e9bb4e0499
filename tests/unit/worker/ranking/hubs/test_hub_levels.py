"""Traversal over the graph of algorithms.md G-HUB-1, paths scored at will; order of triples and passages."""

from collections.abc import Mapping

import numpy as np
import pytest
from hub_index import hubs_of, written

from polyhop.tasks.hubs.paths import StoredHubs
from polyhop.worker.ranking.hubs import (
    ChoiceRule,
    Level,
    ScoredHub,
    TopicWalk,
    UsedPath,
    linked,
    linked_passages,
    rank_passages,
    rank_triples,
)

GOLDEN = written(
    "H1 title t1; H1 author A1; H1 venue V1; H1 cites H2; H1 same-as H1; A1 affiliation U1; A1 wrote H2; U1 place C1; "
    "U1 employs A1; V1 place C1; C1 part-of K1; H2 title t2; H2 author A2; H2 cites H1; A2 affiliation U1; "
    "R contains H1; R contains H2; F parent-of R"
)
CHAIN = written("T has H1; H1 cites H2; H2 cites H3; H3 cites H1; H1 name a; H2 name b; H3 name c")
"""A topic, and three hubs in a cycle."""


def node(stored: StoredHubs, own_id: str) -> int:
    return stored.own_ids.of(range(stored.graph.node_count)).index(own_id)


def walk(
    stored: StoredHubs,
    topic: str,
    scores: Mapping[str, float] | None = None,
    *,
    hubs: int = 5,
    most: int = 5,
    eta: bool = True,
) -> list[Level]:
    """Levels from a topic; a hub's paths score as said, .5 otherwise."""
    own = stored.own_ids.of(stored.paths.hubs.tolist())
    values = np.array([(scores or {}).get(own[hub], 0.5) for hub in stored.paths.path_hubs()])
    rule = ChoiceRule(hubs, 10, 5.0)
    walked = TopicWalk(stored.graph, stored.paths, stored.unreached)
    return list(walked.levels(node(stored, topic), values, rule, most_levels=most, until_hub=eta))


def shown(stored: StoredHubs, levels: list[Level]) -> list[tuple[int, list[tuple[str, str]]]]:
    """Of each level its number, and its hubs with the triples that lead to them."""
    own = stored.own_ids.of(range(stored.graph.node_count))

    def triple(number: int) -> str:
        graph = stored.graph
        s, p, o = (int(part[number]) for part in (graph.subjects, graph.predicates, graph.objects))
        return f"{own[s]} {stored.predicates[p]} {own[o]}"

    return [
        (
            level.number,
            [
                (own[int(stored.paths.hubs[hub.hub])], ", ".join(map(triple, walked)))
                for hub, walked in zip(level.hubs, level.paths_to_topic, strict=True)
            ],
        )
        for level in levels
    ]


@pytest.mark.parametrize(
    ("topic", "eta", "expected"),
    [
        ("R", True, [(1, [("H1", "R contains H1"), ("H2", "R contains H2")])]),
        ("R", False, [(2, [("H1", "R contains H1"), ("H2", "R contains H2")])]),
        ("F", True, [(1, [("H1", "F parent-of R, R contains H1"), ("H2", "F parent-of R, R contains H2")])]),
        ("H2", True, [(1, [("H1", "H1 cites H2"), ("H2", "")])]),
        ("C1", False, [(3, [("H1", "V1 place C1, H1 venue V1")]), (4, [("H2", "A2 affiliation U1")])]),
    ],
)
def test_hubs_are_found_by_level_with_the_way_to_them(topic: str, eta: bool, expected: object) -> None:
    """G-HUB-2; H2 from C1 is reached over U1 and A2."""
    stored, _ = hubs_of(GOLDEN, {"H1", "H2"})
    found = shown(stored, walk(stored, topic, eta=eta))
    if topic == "C1":
        assert [(number, [hub for hub, _ in hubs]) for number, hubs in found] == [(3, ["H1"]), (4, ["H2"])]
        assert found[0][1] == [("H1", "V1 place C1, H1 venue V1")]
        assert found[1][1][0][1].startswith("U1 place C1, A2 affiliation U1, H2 author A2")
    else:
        assert found == expected


def test_a_cycle_of_hubs_is_walked_once_level_by_level() -> None:
    """Each level begins at the candidates of the one before; the way there goes on from the way to that hub."""
    stored, _ = hubs_of(CHAIN, {"H1", "H2", "H3"})
    assert shown(stored, walk(stored, "T")) == [
        (1, [("H1", "T has H1")]),
        (2, [("H2", "T has H1, H1 cites H2")]),
        (3, [("H3", "T has H1, H1 cites H2, H2 cites H3")]),
    ]
    assert [level.number for level in walk(stored, "T", most=2)] == [1, 2]


def test_a_hub_that_points_to_itself_is_found_once() -> None:
    stored, _ = hubs_of(written("T has H1; H1 same-as H1; H1 name a"), {"H1"})
    assert shown(stored, walk(stored, "T")) == [(1, [("H1", "T has H1")])]


def test_hubs_that_are_left_out_of_a_level_lead_on_to_the_next() -> None:
    stored, _ = hubs_of(written("T has H1; T has H2; H2 cites H3; H1 name a; H2 name b; H3 name c"), {"H1", "H2", "H3"})
    levels = walk(stored, "T", {"H1": 0.9, "H2": 0.1}, hubs=1)
    assert shown(stored, levels) == [(1, [("H1", "T has H1")]), (2, [("H3", "T has H2, H2 cites H3")])]
    assert [level.found for level in levels] == [2, 1]


def test_a_level_without_hubs_counts_and_the_search_goes_on() -> None:
    """With a limit of one triple, A is where the paths of H1 go on; the hub after it is of level 2."""
    stored, _ = hubs_of(written("T has H1; H1 by A; A knows B; B wrote H2; H2 name b"), {"H1", "H2"}, max_length=1)
    assert [(level, hubs[0][0]) for level, hubs in shown(stored, walk(stored, "T"))] == [(1, "H1"), (2, "H2")]
    single = walk(stored, "T", eta=False)
    assert [level.number for level in single] == [2, 5]


def test_hubs_without_an_index_are_named_and_not_passed() -> None:
    stored, _ = hubs_of(
        written("T has H1; T has H2; H2 cites H3; H1 name a; H3 name c"), {"H1", "H2", "H3"}, not_indexed={"H2"}
    )
    (level,) = walk(stored, "T")
    own = stored.own_ids.of(list(level.not_indexed))
    assert (own, level.found, len(level.hubs)) == (["H2"], 2, 1)


def test_a_hub_without_paths_stands_behind_all_others() -> None:
    stored, _ = hubs_of(written("T has A; T has B; B name b"), {"A", "B"})
    levels = walk(stored, "T", {"B": 0.0})
    assert shown(stored, levels) == [(1, [("B", "T has B"), ("A", "T has A")])]


def test_a_topic_that_reaches_no_hub_has_no_level() -> None:
    stored, _ = hubs_of(written("T has X; H1 name a"), {"H1"})
    assert walk(stored, "T") == []


def test_triples_stand_by_score_then_hub_then_hash_and_inner_triples_follow() -> None:
    stored, _ = hubs_of(written("H1 by A; A at U; H1 name n; H2 name m"), {"H1", "H2"})
    paths, own = stored.paths, stored.own_ids.of(range(stored.graph.node_count))
    number = {
        " ".join(own[int(stored.graph.objects[triple])] for triple in paths.triples_of(path)): path
        for path in range(paths.path_count)
    }
    used = [UsedPath(number["A U"], 0.8, 1), UsedPath(number["m"], 0.8, 0), UsedPath(number["n"], 0.9, 1)]

    def objects(levels: list[list[UsedPath]]) -> list[tuple[str, float]]:
        return [(own[int(stored.graph.objects[triple])], score) for triple, score in rank_triples(levels, paths)]

    assert objects([used]) == [("n", 0.9), ("m", 0.8), ("U", 0.8), ("A", 0.8)]
    assert objects([used[:2], used]) == [("m", 0.8), ("U", 0.8), ("A", 0.8), ("n", 0.9)]


def test_passages_take_the_best_of_path_and_hub_level_by_level() -> None:
    triples = written("H1 by A; H1 name n; H2 name m")
    stated = [(triples[0], 3), (triples[1], 1), (triples[1], 3), (triples[2], 0)]
    stored, _ = hubs_of(triples, {"H1", "H2"}, triple_passages=stated)
    paths = stored.paths
    stating = linked(stored.triple_passages, len(stored.graph.subjects))
    scores = np.array([0.6, 0.4, 0.9])
    first, second = ScoredHub(0, 0.5, (0, 1)), ScoredHub(1, 0.9, (2,))
    levels = [([first], [[(2, 0.8), (1, 0.9), (4, -1.0)]]), ([second], [[(2, 1.0)]])]
    found = rank_passages(levels, scores, paths, stating)
    assert found == [(3, 0.6), (1, 0.45), (2, 0.4), (4, 0.0), (0, 0.9)]


def test_linked_passages_are_those_nearest_to_the_question() -> None:
    passages, cosines = np.array([9, 7, 8]), np.array([0.5, 0.5, 0.9])
    assert linked_passages(passages, cosines, 2) == [(8, 0.9), (7, 0.5)]
    assert linked_passages(passages, cosines, 0) == []
