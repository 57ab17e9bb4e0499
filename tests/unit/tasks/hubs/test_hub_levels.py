"""The paths of all hubs, each on a graph of its own."""

from collections.abc import Callable

import numpy as np

from polyhop.schemas.hubs import END_KINDS
from polyhop.tasks.hubs.paths import TYPES, HubSearch, NamedGraph, SearchLimits, path_arrays, search_hubs

MakeGraph = Callable[[str], NamedGraph]
CHAIN = "S to H1; H1 a x1; x1 b H2; H2 a x2; x2 b H3; H3 a x3"


def search(named: NamedGraph, hubs: str, limits: SearchLimits) -> HubSearch:
    rules = np.zeros(named.graph.node_count, dtype=np.uint8)
    rules[[named.own_ids.index(name) for name in hubs.split()]] = TYPES
    return search_hubs(named.graph, rules, limits)


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


def test_every_hub_has_its_paths_up_to_the_next_hub(graph_of: MakeGraph) -> None:
    named = graph_of(CHAIN)
    found = search(named, "H1 H2 H3", SearchLimits())
    assert [named.own_ids[node] for node in found.hubs] == ["H1", "H2", "H3"]
    assert paths(named, found, "H1") == ["a x1, b H2 hub"]
    assert paths(named, found, "H3") == ["a x3 leaf"]


def test_mutual_hubs_and_self_loops_end(graph_of: MakeGraph) -> None:
    named = graph_of("H1 cites H2; H2 cites H1; H1 same H1; H2 a t")
    found = search(named, "H1 H2", SearchLimits())
    assert paths(named, found, "H1") == ["cites H2 hub"]
    assert paths(named, found, "H2") == ["cites H1 hub", "a t leaf"]


def test_a_hub_without_edges_that_leave_it_has_no_path(graph_of: MakeGraph) -> None:
    named = graph_of("a to H1; H2 to b")
    found = search(named, "H1 H2", SearchLimits())
    assert paths(named, found, "H1") == []


LONG = 'H a x; x b y; y c z; z d "1'


def test_what_lies_beyond_the_limit_is_in_no_path(graph_of: MakeGraph) -> None:
    named = graph_of(LONG)
    found = search(named, "H", SearchLimits(max_path_length=2))
    assert paths(named, found, "H") == ["a x, b y limit"]


def test_paths_beyond_the_limit_of_a_hub_are_counted_and_their_candidates_kept(graph_of: MakeGraph) -> None:
    named = graph_of("H a x1; H a x2; H b H2; H2 c y")
    found = search(named, "H H2", SearchLimits(max_paths_per_hub=1))
    assert paths(named, found, "H") == ["b H2 hub"]
    assert found.hubs[named.own_ids.index("H")].left_out == 2
