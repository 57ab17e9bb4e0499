"""Signatures of hub paths against their definition: the predicates of a path, numbered in ascending order."""

from hub_index import hubs_of, written

from polyhop.worker.ranking.facets.units import signatures_of

HUBS, _ = hubs_of(
    written("P1 author A1; P1 venue V; A1 born V; P2 author A2; P2 cites P1; A2 knows A1"), {"P1", "P2"}, {}
)


def test_a_signature_is_the_predicates_of_a_path() -> None:
    graph, paths = HUBS.graph, HUBS.paths
    expected = [tuple(graph.predicates[paths.triples_of(path)].tolist()) for path in range(paths.path_count)]
    numbers, signatures = signatures_of(graph, paths)
    assert [signatures[number] for number in numbers.tolist()] == expected
    assert signatures == sorted(set(expected))
    assert {len(signature) for signature in signatures} >= {1, 2}
