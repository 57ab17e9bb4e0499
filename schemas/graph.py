"""What extraction yields, and the arrays that rankings run on.

Arrays are plain numpy so that they can be memory-mapped and shared; no ranking formula lives here.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Mention:
    """A name at one place of a text: `start` and `end` are character offsets into that text."""

    key: str
    surface: str
    start: int
    end: int


@dataclass(frozen=True)
class BipartiteGraph:
    """Passages and the entities they mention, compressed by passage.

    Entities are numbered by ascending key, passages by ascending id.

    Attributes:
        indptr: Shape (n_passages + 1,), int64.
        indices: Shape (nnz,), int32: entity numbers, ascending inside a passage.
        tf: Shape (nnz,), float64: mentions, at least 1.
        is_title: Shape (nnz,), bool: the entity is a key of the passage's own title.
        keys: Entity keys, in number order.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    tf: NDArray[np.float64]
    is_title: NDArray[np.bool_]
    keys: tuple[str, ...]

    @property
    def passage_count(self) -> int:
        """Number of passages."""
        return len(self.indptr) - 1

    @property
    def entity_count(self) -> int:
        """Number of entities."""
        return len(self.keys)

    @cached_property
    def number_of(self) -> dict[str, int]:
        """Entity number by key."""
        return {key: number for number, key in enumerate(self.keys)}

    @cached_property
    def df(self) -> NDArray[np.int64]:
        """Shape (n_entities,): passages that mention each entity."""
        return np.bincount(self.indices, minlength=self.entity_count)

    @cached_property
    def rows(self) -> NDArray[np.int32]:
        """Shape (nnz,): passage number of each edge."""
        return np.repeat(np.arange(self.passage_count, dtype=np.int32), np.diff(self.indptr))


def with_edges(graph: BipartiteGraph, indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> BipartiteGraph:
    """The graph with further edges: one mention each, not title edges.

    Args:
        graph: Passages and the entities they mention.
        indptr: Shape (n_passages + 1,): where the further edges of each passage begin.
        indices: Shape (m,): their entity numbers, ascending inside a passage, none of an edge that the graph has.

    Cost: O(edges).
    """
    rows = np.repeat(np.arange(graph.passage_count, dtype=np.int64), np.diff(indptr))
    present = graph.rows.astype(np.int64) * graph.entity_count + graph.indices
    places = np.searchsorted(present, rows * graph.entity_count + indices)
    return BipartiteGraph(
        indptr=graph.indptr + indptr,
        indices=np.insert(graph.indices, places, indices),
        tf=np.insert(graph.tf, places, 1.0),
        is_title=np.insert(graph.is_title, places, np.False_),
        keys=graph.keys,
    )


@dataclass(frozen=True)
class RelationGraph:
    """Entities and their labelled relations, compressed by entity, each pair of neighbours in both rows.

    Entities are numbered as in `BipartiteGraph`; there are no self loops.

    Attributes:
        indptr: Shape (n_entities + 1,), int64.
        indices: Shape (nnz,), int32: neighbours whichever way the relation points, distinct and ascending in a row.
        label_indptr: Shape (nnz + 1,), int64: where the labels of each place of `indices` begin.
        labels: Shape (n_relations,), int32: labels of the relations that leave the row's entity for that neighbour.
        names: The labels, ascending.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    label_indptr: NDArray[np.int64]
    labels: NDArray[np.int32]
    names: tuple[str, ...]

    @property
    def entity_count(self) -> int:
        """Number of entities."""
        return len(self.indptr) - 1

    @cached_property
    def single(self) -> NDArray[np.int32]:
        """Shape (nnz,): 1 everywhere, every pair of neighbours once."""
        return np.ones(len(self.indices), dtype=np.int32)

    @cached_property
    def multiplicity(self) -> NDArray[np.int32]:
        """Shape (nnz,): relations between the two neighbours, both ways together."""
        rows = np.repeat(np.arange(self.entity_count), np.diff(self.indptr))
        leaving = np.diff(self.label_indptr)
        return (leaving + leaving[np.lexsort((rows, self.indices))]).astype(np.int32)

    def labels_from(self, source: int, target: int) -> tuple[str, ...]:
        """Labels of the relations from one entity to another, ascending; none if they are not neighbours."""
        start, end = self.indptr[source], self.indptr[source + 1]
        place = start + int(np.searchsorted(self.indices[start:end], target))
        if place == end or self.indices[place] != target:
            return ()
        return tuple(
            self.names[label] for label in self.labels[self.label_indptr[place] : self.label_indptr[place + 1]]
        )


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity as people see it; `type` is "" if it has none."""

    key: str
    name: str
    type: str
    description: str


@dataclass(frozen=True)
class EntityTexts:
    """Names, types and descriptions of all entities, to be read a few at a time without a query.

    Attributes:
        starts: Shape (3 n + 1,), int64: where each field begins; three fields per entity in number order.
        data: Shape (bytes,), uint8: the fields in UTF-8, one after the other.
    """

    starts: NDArray[np.int64]
    data: NDArray[np.uint8]

    def fields(self, number: int) -> tuple[str, str, str]:
        """Name, type ("" if none) and description of an entity."""
        bounds = self.starts[3 * number : 3 * number + 4].tolist()
        whole = self.data[bounds[0] : bounds[3]].tobytes()
        cuts = [bound - bounds[0] for bound in bounds]
        name, kind, description = (whole[start:end].decode("utf-8", "replace") for start, end in pairwise(cuts))
        return name, kind, description


@dataclass(frozen=True)
class LexicalIndex:
    """Postings of one analyser, compressed by term; terms ascending, passages ascending inside a term.

    Attributes:
        terms: Term number by term.
        indptr: Shape (n_terms + 1,), int64.
        passages: Shape (nnz,), int32: passage numbers.
        tf: Shape (nnz,), int32: occurrences.
        lengths: Shape (n_passages,), int32: tokens per passage.
        language: `corpus.language` of the texts, in which questions are taken apart too.
    """

    terms: dict[str, int]
    indptr: NDArray[np.int64]
    passages: NDArray[np.int32]
    tf: NDArray[np.int32]
    lengths: NDArray[np.int32]
    language: str = "en"
