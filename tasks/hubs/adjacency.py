"""A graph's edges from Python, one node at a time (pure): views of its arrays, which copy nothing.

Search over whole arrays is NumPy's business; breadth-first search from one node touches too few edges to gain from it.
"""

import numpy as np

from polyhop.schemas.hubs import HubGraph, Numbers


class Adjacency:
    """Triples by subject and by object; numbers are those of the graph.

    Attributes:
        subjects: Node of each triple's subject.
        objects: Node of each triple's object.
    """

    def __init__(self, graph: HubGraph) -> None:
        self.subjects = view_of(graph.subjects)
        self.objects = view_of(graph.objects)
        self._out_starts = view_of(graph.out_starts)
        self._in_starts = view_of(graph.in_starts)
        self._in_triples = view_of(graph.in_triples)

    def outgoing(self, node: int) -> range:
        """Triples that leave a node, in order of (predicate, object)."""
        return range(self._out_starts[node], self._out_starts[node + 1])

    def incoming(self, node: int) -> "memoryview[int]":
        """Triples that enter a node, in order of (predicate, subject)."""
        return self._in_triples[self._in_starts[node] : self._in_starts[node + 1]]


def view_of(numbers: Numbers) -> "memoryview[int]":
    """Items of a view are Python's own integers, several times faster to get than NumPy's."""
    return memoryview(np.ascontiguousarray(numbers).data)
