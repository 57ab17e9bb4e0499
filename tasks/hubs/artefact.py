"""How hubs are opened for strategies; knows no store.

A hub's id, like that of every node here, is the one that the graph gave it (of an entity of a text: its key).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.hubs import HubGraph, HubPaths, HubRows, Numbers
from polyhop.schemas.query import RankedTriple
from polyhop.schemas.stored_texts import StoredTexts


@dataclass(frozen=True, slots=True)
class StoredHubs:
    """The graph, its hubs and their paths, and all names; numbers as in polyhop.schemas.hubs.

    Attributes:
        graph: The triples.
        paths: Hubs and their paths.
        rows: What `hublink` compares with a question.
        path_texts: Distinct texts of paths, by number.
        values: Shape (p,), int32: number of each path's text for `hub-facets` (signature and value; algorithms.md 4B)
            among the distinct ones, which is the row of their vectors.
        own_ids: Of the nodes.
        labels: Of the nodes.
        predicates: As the graph has them.
        relation_ids: Of the triples: rows of the table `relations`.
        hub_types: Names of the types that hubs were chosen by, or that they have: their words tell no hub from others.
        triple_passages: Shape (e, 2), int64: pairs of a triple and the number of a passage that states it.
        hub_passages: Shape (e, 2), int64: pairs of a hub number and the number of a passage that is about the hub or
            mentions it, or was attached to it.
    """

    graph: HubGraph
    paths: HubPaths
    rows: HubRows
    path_texts: StoredTexts
    values: Numbers
    own_ids: StoredTexts
    labels: StoredTexts
    predicates: tuple[str, ...]
    relation_ids: StoredTexts
    hub_types: tuple[str, ...]
    triple_passages: NDArray[np.int64]
    hub_passages: NDArray[np.int64]

    def ranked_triple(self, triple: int, rank: int, score: float) -> RankedTriple:
        """A triple as results show it."""
        graph = self.graph
        ends = [int(graph.subjects[triple]), int(graph.objects[triple])]
        (subject_id, object_id), (subject, value) = self.own_ids.of(ends), self.labels.of(ends)
        predicate = self.predicates[int(graph.predicates[triple])]
        (relation_id,) = self.relation_ids.of([triple])
        return RankedTriple(relation_id, subject_id, subject, predicate, object_id, value, rank, score)
