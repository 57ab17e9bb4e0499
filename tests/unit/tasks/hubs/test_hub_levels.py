"""Hubs level by level: starts, and splits of long paths, each on a graph of its own."""

from collections.abc import Callable, Sequence

import numpy as np

from polyhop.schemas.hubs import END_KINDS
from polyhop.tasks.hubs.paths import SPLIT, TYPES, HubSearch, NamedGraph, SearchLimits, path_arrays, search_hubs

MakeGraph = Callable[[str], NamedGraph]
CHAIN = "S to H1; H1 a x1; x1 b H2; H2 a x2; x2 b H3; H3 a x3"


def search(named: NamedGraph, hubs: str, starts: Sequence[str] | None, limits: SearchLimits) -> HubSearch:
    rules = np.zeros(named.graph.node_count, dtype=np.uint8)
    rules[[named.own_ids.index(name) for name in hubs.split()]] = TYPES
    roots = None if starts is None else [named.own_ids.index(name) for name in starts]
    return search_hubs(named.graph, rules, roots, limits)


def levels(named: NamedGraph, found: HubSearch) -> dict[str, int]:
    return {named.own_ids[node]: hub.level for node, hub in found.hubs.items()}


def paths(named: NamedGraph, found: HubSearch, hub: str) -> list[str]:
    """Predicates and objects of a hub's paths, and why they end."""
    arrays = path_arrays(found)
    number = arrays["hubs"].tolist().index(named.own_ids.index(hub))
    first, end = arrays["path-starts"][number : number + 2].tolist()
    words = list(named.paths(arrays["triple-starts"], arrays["path-triples"]))  # type: ignore[arg-type]
    kinds = arrays["end-kinds"].tolist()
    return [
        f"{', '.join(f'{t.predicate} {t.object}' for t in words[path])} {END_KINDS[kinds[path]]}"
        for path in range(first, end)
    ]


def test_every_hub_is_a_start_by_default(graph_of: MakeGraph) -> None:
    named = graph_of(CHAIN)
    found = search(named, "H1 H2 H3", None, SearchLimits())
    assert levels(named, found) == {"H1": 0, "H2": 0, "H3": 0}
    assert list(found.unreached) == []


def test_from_a_start_further_hubs_are_found_through_those_before(graph_of: MakeGraph) -> None:
    named = graph_of(CHAIN)
    found = search(named, "H1 H2 H3", ["S"], SearchLimits())
    assert levels(named, found) == {"H1": 0, "H2": 1, "H3": 2}
    assert paths(named, found, "H1") == ["a x1, b H2 hub"]
    assert paths(named, found, "H3") == ["a x3 leaf"]


def test_a_start_leads_against_the_direction_of_edges_too(graph_of: MakeGraph) -> None:
    named = graph_of("H1 a x; y a x; H2 b y")
    assert levels(named, search(named, "H1 H2", ["x"], SearchLimits())) == {"H1": 0, "H2": 0}


def test_mutual_hubs_and_self_loops_end(graph_of: MakeGraph) -> None:
    named = graph_of("H1 cites H2; H2 cites H1; H1 same H1; H2 a t")
    found = search(named, "H1 H2", ["H1"], SearchLimits())
    assert levels(named, found) == {"H1": 0, "H2": 0}
    assert paths(named, found, "H1") == ["cites H2 hub"]
    assert paths(named, found, "H2") == ["cites H1 hub", "a t leaf"]


def test_a_hub_without_edges_that_leave_it_has_no_path(graph_of: MakeGraph) -> None:
    named = graph_of("a to H1; H2 to b")
    found = search(named, "H1 H2", None, SearchLimits())
    assert levels(named, found) == {"H1": 0, "H2": 0}
    assert paths(named, found, "H1") == []


LONG = 'H a x; x b y; y c z; z d "1'


def test_without_a_split_what_lies_beyond_the_limit_is_in_no_path(graph_of: MakeGraph) -> None:
    named = graph_of(LONG)
    found = search(named, "H", None, SearchLimits(max_path_length=2))
    assert paths(named, found, "H") == ["a x, b y limit"]
    assert levels(named, found) == {"H": 0}


def test_a_split_makes_the_ends_of_long_paths_hubs_of_the_next_level(graph_of: MakeGraph) -> None:
    named = graph_of(LONG)
    found = search(named, "H", None, SearchLimits(split=True, max_path_length=2))
    assert levels(named, found) == {"H": 0, "y": 1}
    assert found.rules[named.own_ids.index("y")] == SPLIT
    assert paths(named, found, "H") == ["a x, b y limit"]
    assert paths(named, found, "y") == ['c z, d "1 leaf']


def test_a_literal_at_the_limit_is_no_hub(graph_of: MakeGraph) -> None:
    named = graph_of('H a x; x b "1; "1 c y')
    found = search(named, "H", None, SearchLimits(split=True, max_path_length=2))
    assert levels(named, found) == {"H": 0}


def test_a_level_is_not_changed_by_its_own_splits(graph_of: MakeGraph) -> None:
    """H2's path over x goes on past it, although H1's path ends at x: x is a hub from the next level on."""
    named = graph_of("H1 a m; m b x; H2 c x; x d y")
    found = search(named, "H1 H2", None, SearchLimits(split=True, max_path_length=2))
    assert paths(named, found, "H1") == ["a m, b x limit"]
    assert paths(named, found, "H2") == ["c x, d y leaf"]
    assert levels(named, found) == {"H1": 0, "H2": 0, "x": 1}


def test_paths_beyond_the_limit_of_a_hub_are_counted_and_their_candidates_kept(graph_of: MakeGraph) -> None:
    named = graph_of("H a x1; H a x2; H b H2; H2 c y")
    found = search(named, "H H2", ["H"], SearchLimits(max_paths_per_hub=1))
    assert paths(named, found, "H") == ["b H2 hub"]
    assert found.hubs[named.own_ids.index("H")].left_out == 2
    assert levels(named, found) == {"H": 0, "H2": 1}
