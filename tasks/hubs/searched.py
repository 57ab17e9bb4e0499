"""Paths that the stage `hub-paths` found, as later steps read them: from its arrays, or right after the search.

Makes no text (text.py and textualise.py do).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.hubs import HubGraph, Numbers
from polyhop.schemas.statements import NamedTriple
from polyhop.schemas.stored_texts import StoredTexts
from polyhop.tasks.hubs.adjacency import view_of
from polyhop.tasks.hubs.flat import NamedGraph
from polyhop.tasks.hubs.read import ReadGraph
from polyhop.warehouse.graph.arrays import open_array

PATH_ARRAYS = "hub-paths"
"""Prefix of the arrays of the stage `hub-paths`."""


@dataclass(frozen=True, slots=True)
class SearchedPaths:
    """Hubs and their paths, in emission order, with names.

    Attributes:
        named: The graph.
        entity_ids: Of the nodes.
        hubs: Shape (h,): node of each hub.
        path_starts: Shape (h + 1,): paths of each hub.
        triple_starts: Shape (p + 1,): triples of each path.
        triples: Triples of all paths.
        end_kinds: Shape (p,).
        hashes: Shape (p, 32).
    """

    named: NamedGraph
    entity_ids: list[str]
    hubs: NDArray[np.int32]
    path_starts: NDArray[np.int64]
    triple_starts: NDArray[np.int64]
    triples: NDArray[np.int32]
    end_kinds: NDArray[np.uint8]
    hashes: NDArray[np.uint8]

    @classmethod
    def of(cls, read: ReadGraph, arrays: Mapping[str, NDArray[np.generic]]) -> "SearchedPaths":
        """From arrays by name, as `path_arrays` and `path_hashes` make them."""
        names = ("hubs", "path-starts", "triple-starts", "path-triples", "end-kinds", "hashes")
        return cls(read.named, read.entity_ids, *(arrays[name] for name in names))  # type: ignore[arg-type]

    @classmethod
    def open(cls, folder: Path) -> "SearchedPaths":
        """From the stage's arrays in a folder."""

        def array(name: str) -> NDArray[np.generic]:
            return open_array(folder, f"{PATH_ARRAYS}_{name}")

        def texts(name: str) -> list[str]:
            starts, data = array(f"{name}-starts"), array(f"{name}-texts")
            return StoredTexts(starts, data).of(range(len(starts) - 1))  # type: ignore[arg-type]

        graph = HubGraph.of({name: array(name) for name in HubGraph.array_names()})
        named = NamedGraph(graph, texts("own-ids"), texts("labels"), texts("predicates"))
        read = ReadGraph(named, texts("entity-ids"), [])
        names = ("hubs", "path-starts", "triple-starts", "path-triples", "end-kinds", "hashes")
        return cls.of(read, {name: array(name) for name in names})

    @property
    def path_count(self) -> int:
        """Paths of all hubs."""
        return len(self.end_kinds)

    def numbers(self) -> Iterator[memoryview]:
        """Triple numbers of each path."""
        triples = view_of(self.triples)
        return (triples[first:end] for first, end in pairwise(self.triple_starts.tolist()))

    def words(self) -> Iterator[list[NamedTriple]]:
        """Each path in words."""
        return map(self.named.path, self.numbers())

    def ends(self) -> Numbers:
        """Shape (p,): the node at which each path ends."""
        return self.named.graph.objects[self.triples[self.triple_starts[1:] - 1]]

    def end_labels(self) -> Iterator[str]:
        """Labels of these nodes."""
        return (self.named.labels[node] for node in self.ends().tolist())

    def signatures(self) -> Iterator[tuple[str, ...]]:
        """The predicates of each path, from the hub on."""
        predicates, names = self.named.graph.predicates[self.triples].tolist(), self.named.predicates
        bounds = pairwise(self.triple_starts.tolist())
        return (tuple(names[number] for number in predicates[first:end]) for first, end in bounds)

    def hub_names(self) -> list[str]:
        """Distinct labels of hubs, ascending; the id of one without a label."""
        return sorted({self.named.labels[node] or self.named.own_ids[node] for node in self.hubs.tolist()})

    def hash_of(self, path: int) -> str:
        """Hash of a path, 64 hexadecimal digits."""
        return bytes(self.hashes[path]).hex()
