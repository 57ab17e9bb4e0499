"""Found hubs as the arrays of polyhop.schemas.hubs, and the triples of paths in words (pure).

Searches nothing. A path's hash and text are made from it when they are needed: a graph has up to millions of paths.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.hubs import HubGraph, Numbers
from polyhop.schemas.statements import NamedTriple
from polyhop.tasks.hubs.adjacency import view_of
from polyhop.tasks.hubs.levels import FoundHub, HubSearch


def path_arrays(search: HubSearch) -> dict[str, NDArray[np.generic]]:
    """The arrays of `HubPaths` under their names, but for hashes and texts; hubs ascending."""
    hubs = sorted(search.hubs)
    found = [search.hubs[hub] for hub in hubs]

    def numbers(part: Callable[[FoundHub], Sequence[int]]) -> NDArray[np.int32]:
        return np.fromiter(chain.from_iterable(map(part, found)), dtype=np.int32)

    def kinds(part: Callable[[FoundHub], bytes]) -> NDArray[np.uint8]:
        return np.frombuffer(b"".join(map(part, found)), dtype=np.uint8)

    return {
        "hubs": np.array(hubs, dtype=np.int32),
        "path-starts": _starts(len(hub.end_kinds) for hub in found),
        "triple-starts": _starts(numbers(lambda hub: hub.lengths)),
        "path-triples": numbers(lambda hub: hub.triples),
        "end-kinds": kinds(lambda hub: hub.end_kinds),
        "candidate-starts": _starts(len(hub.candidates) for hub in found),
        "candidates": numbers(lambda hub: hub.candidates),
        "candidate-kinds": kinds(lambda hub: hub.candidate_kinds),
        "candidate-triple-starts": _starts(numbers(lambda hub: hub.candidate_lengths)),
        "candidate-triples": numbers(lambda hub: hub.candidate_triples),
    }


def _starts(lengths: Iterable[int]) -> NDArray[np.int64]:
    """Where runs of these lengths start, and where the last one ends."""
    return np.concatenate(([0], np.cumsum(np.fromiter(lengths, dtype=np.int64)))).astype(np.int64)


class NamedGraph:
    """A graph with the own ids and labels of its nodes and the text of its predicates."""

    def __init__(
        self, graph: HubGraph, own_ids: Sequence[str], labels: Sequence[str], predicates: Sequence[str]
    ) -> None:
        self.graph = graph
        self.own_ids = own_ids
        self.labels = labels
        self.predicates = predicates
        self._columns = [view_of(each) for each in (graph.subjects, graph.predicates, graph.objects)]

    def path(self, triples: Iterable[int]) -> list[NamedTriple]:
        """Triples by number, in words."""
        ids, labels, predicates = self.own_ids, self.labels, self.predicates
        subjects, relations, objects = self._columns
        return [
            NamedTriple(
                ids[subjects[triple]],
                labels[subjects[triple]],
                predicates[relations[triple]],
                ids[objects[triple]],
                labels[objects[triple]],
            )
            for triple in triples
        ]

    def paths(self, starts: Numbers, triples: Numbers) -> Iterator[list[NamedTriple]]:
        """Each of several paths, one after the other.

        Args:
            starts: Shape (p + 1,): where each path begins.
            triples: Shape (triples of all,): triple numbers.
        """
        numbers = view_of(triples)
        for first, end in pairwise(starts.tolist()):
            yield self.path(numbers[first:end])
