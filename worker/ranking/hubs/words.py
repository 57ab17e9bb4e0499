"""Triples of stored hubs as their ids, labels and predicates, for texts of paths. Ranks nothing."""

from collections.abc import Sequence

from polyhop.schemas.statements import NamedTriple
from polyhop.tasks.hubs.artefact import StoredHubs


def words_of(stored: StoredHubs, triples: Sequence[int]) -> list[NamedTriple]:
    """Triples by number, in the order asked."""
    graph = stored.graph
    numbers = [int(node) for triple in triples for node in (graph.subjects[triple], graph.objects[triple])]
    ids, labels = stored.own_ids.of(numbers), stored.labels.of(numbers)
    predicates = [stored.predicates[int(graph.predicates[triple])] for triple in triples]
    return [
        NamedTriple(ids[2 * n], labels[2 * n], predicate, ids[2 * n + 1], labels[2 * n + 1])
        for n, predicate in enumerate(predicates)
    ]
