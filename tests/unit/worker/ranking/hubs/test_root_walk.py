"""The search over arrays finds what the search of tasks/hubs/paths.py finds, on random graphs."""

import numpy as np
import pytest
from hub_index import hubs_of
from hypothesis import given
from hypothesis import strategies as st

from polyhop.tasks.hubs.paths import Adjacency, DirectedNode, RootSearch, triples_of
from polyhop.worker.ranking.hub_walk import RootWalk, joined, topic_layer

NODES = [f"n{number}" for number in range(7)]
TRIPLES = st.lists(
    st.tuples(st.sampled_from(NODES), st.sampled_from(["p", "q"]), st.sampled_from(NODES)), min_size=1, max_size=18
)
Found = list[list[tuple[int, tuple[int, ...]]]]


@pytest.mark.parametrize("until_hub", [True, False])
@given(triples=TRIPLES, hubs=st.sets(st.sampled_from(NODES), min_size=1, max_size=4), data=st.data())
def test_both_searches_find_the_same_hubs_over_the_same_ways(
    until_hub: bool, triples: list[tuple[str, str, str]], hubs: set[str], data: st.DataObject
) -> None:
    """Level by level, going on from the stored candidates; with cycles, self-loops and hubs that cite each other."""
    stored, _ = hubs_of(triples, hubs, max_length=data.draw(st.integers(1, 3)))
    topic = data.draw(st.integers(0, stored.graph.node_count - 1))
    is_hub = np.zeros(stored.graph.node_count, dtype=np.bool_)
    is_hub[stored.paths.hubs] = True
    number_of = {int(node): number for number, node in enumerate(stored.paths.hubs)}
    assert by_arrays(stored, is_hub, topic, number_of, until_hub) == by_queue(
        stored, is_hub, topic, number_of, until_hub
    )


def by_arrays(stored, is_hub, topic, number_of, until_hub) -> Found:  # type: ignore[no-untyped-def]
    walk, starts, levels = RootWalk(stored.graph, stored.paths, is_hub), topic_layer(topic), []
    for _ in range(6):
        nodes, places, after = walk.level(starts, until_hub=until_hub)
        levels.append([(int(node), walk.triples_to(int(place))) for node, place in zip(nodes, places, strict=True)])
        hubs = np.array([number_of[int(node)] for node in nodes], dtype=np.int64)
        starts = joined(after, walk.candidates(hubs, places))
    return levels


def by_queue(stored, is_hub, topic, number_of, until_hub) -> Found:  # type: ignore[no-untyped-def]
    search = RootSearch(Adjacency(stored.graph), is_hub.tolist())
    starts, levels, paths = [DirectedNode(topic, True), DirectedNode(topic, False)], [], stored.paths
    for _ in range(6):
        found, starts = search.level(starts, until_hub=until_hub)
        levels.append([(place.node, triples_of(place.path_to_topic)) for place in found])
        for place in found:
            hub = number_of[place.node]
            for candidate in range(paths.candidate_starts[hub], paths.candidate_starts[hub + 1]):
                start, end = paths.candidate_triple_starts[candidate : candidate + 2]
                trail = place.path_to_topic
                for triple in paths.candidate_triples[start:end].tolist():
                    trail = (trail, triple)
                starts.append(DirectedNode(int(paths.candidates[candidate]), False, trail))
    return levels
