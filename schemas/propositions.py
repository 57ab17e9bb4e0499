"""The graph over propositions as arrays and texts, which the stage saves and the strategies open.

Numbers ascend with ids (propositions, passages) and with keys (entities), so that a tie that goes to the smaller
number goes to the smaller id. Source: algorithms.md 3.2, 3.3.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.graph import Integers, Numbers, gathered


@dataclass(frozen=True, slots=True)
class StoredTexts:
    """Numbered texts, to be read a few at a time without a query."""

    starts: NDArray[np.int64]  # Shape (n + 1,), int64: where each text begins.
    data: NDArray[np.uint8]  # Shape (bytes,), uint8: the texts in UTF-8, one after the other.

    def of(self, numbers: Sequence[int]) -> list[str]:
        """Texts by number, in the order asked."""
        bounds = ((self.starts[number], self.starts[number + 1]) for number in numbers)
        return [self.data[start:end].tobytes().decode("utf-8", "replace") for start, end in bounds]

    def restricted(self, kept: Numbers) -> "StoredTexts":
        """These texts, numbered in this order."""
        starts, offsets = gathered(np.asarray(self.starts), kept)
        return StoredTexts(starts, np.asarray(self.data[offsets]))


# Source: algorithms.md 3.3 (2).

GraphName = Literal["propositions", "triples"]
"""The graphs over propositions that an index may have: of those that are stated, and of triples."""


NOUNS: Mapping[GraphName, str] = {"propositions": "proposition", "triples": "triple"}
"""What begins the names of the tables that each is made of."""


@dataclass(frozen=True, slots=True)
class CompressedRows:
    """Numbers by row, compressed."""

    indptr: NDArray[np.int64]  # Shape (n_rows + 1,), int64: where each row begins.
    indices: NDArray[np.int32]  # Shape (nnz,), int32.

    @staticmethod
    def of(rows: Integers, indices: Integers, count: int) -> "CompressedRows":
        """`count` rows; inside a row the indices keep their order."""
        order = np.argsort(rows, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))])
        return CompressedRows(starts.astype(np.int64), indices[order].astype(np.int32))

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    @property
    def owners(self) -> NDArray[np.int64]:
        """Shape (nnz,): the row of each index."""
        return np.repeat(np.arange(self.count), np.diff(self.indptr))

    def stated(self, is_allowed: NDArray[np.bool_]) -> Numbers:
        """Rows that hold an allowed number (shape (numbers,)), and those that hold none at all; ascending."""
        is_left = np.bincount(self.owners[is_allowed[self.indices]], minlength=self.count) > 0
        return np.flatnonzero(is_left | (np.diff(self.indptr) == 0)).astype(np.int64)

    def row(self, number: int) -> NDArray[np.int32]:
        """The indices of one row."""
        return self.indices[self.indptr[number] : self.indptr[number + 1]]

    def of_all(self, rows: Collection[int]) -> NDArray[np.int32]:
        """The indices of several rows, one after the other."""
        return self.indices[self.gathered(np.fromiter(rows, np.intp, len(rows)))[1]]

    def gathered(self, rows: Integers) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Several rows, one after the other.

        Args:
            rows: Shape (m,): rows in the order wanted, repeated as often as wanted.

        Returns:
            For each index: which of `rows` (0 to m - 1) it belongs to, and its offset in `indices`.
        Cost: O(indices in these rows).
        """
        starts, offsets = gathered(self.indptr, rows)
        return np.repeat(np.arange(len(starts) - 1), np.diff(starts)), offsets


@dataclass(frozen=True, slots=True)
class PropositionGraph:
    """Propositions, the entities they name, the passages they come from, and what links entities.

    An entity is contained in a passage if a proposition of that passage names it. Entities that no proposition names
    may be numbered; they have no edges.
    Source: algorithms.md 3.2, 3.3 (3).
    """

    entities: CompressedRows  # Entities of each proposition, distinct, in stored order.
    passages: CompressedRows  # Passages of each proposition, ascending.
    entity_propositions: CompressedRows  # Propositions of each entity, ascending.
    passage_propositions: CompressedRows  # Propositions of each passage, ascending.
    passage_entities: CompressedRows  # Entities contained in each passage, ascending.
    cliques: CompressedRows  # Entities that share a proposition with each entity, ascending, each pair in both rows.
    synonyms: CompressedRows  # Entities with a similar name, in descending order of similarity, each pair in both rows.
    clique_counts: NDArray[np.int32]  # Shape (nnz of cliques,), int32: propositions that name both.
    similarities: NDArray[np.float64]  # Shape (nnz of synonyms,), float64: cosine of the two names.

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of propositions, entities and passages."""
        return self.entities.count, self.entity_propositions.count, self.passage_propositions.count

    @property
    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Every array by the name that it is saved under."""
        rows = {name: getattr(self, name) for name in _ROWS}
        return {
            **{f"{_dashed(name)}-indptr": row.indptr for name, row in rows.items()},
            **{f"{_dashed(name)}-indices": row.indices for name, row in rows.items()},
            **{_dashed(name): getattr(self, name) for name in _VALUES},
        }

    @staticmethod
    def of(read: Callable[[str], NDArray[Any]]) -> "PropositionGraph":
        """The graph of saved arrays, each read by its name; they may be memory-mapped."""
        rows = {
            name: CompressedRows(read(f"{_dashed(name)}-indptr"), read(f"{_dashed(name)}-indices")) for name in _ROWS
        }
        return PropositionGraph(**rows, **{name: read(_dashed(name)) for name in _VALUES})  # type: ignore[arg-type]


_VALUES = ("clique_counts", "similarities")
_ROWS = (
    "entities", "passages", "entity_propositions", "passage_propositions", "passage_entities", "cliques", "synonyms",
)  # fmt: skip


def _dashed(name: str) -> str:
    return name.replace("_", "-")
