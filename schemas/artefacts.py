"""Handles of artefacts: what a stage wrote, how it is opened for strategies, what a filter leaves of it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import MissingArtefactError
from polyhop.schemas.graph import BipartiteGraph, LexicalIndex, RelationGraph
from polyhop.schemas.propositions import Rows, StoredTexts

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Artefact(Generic[T]):
    """The handle of a value that `reader.artefact(HANDLE)` opens, once per open version.

    Declared once, at the top of a module: handles with the same fields are the same.

    Attributes:
        name: The artefact that a stage writes and strategies need ("graph", "lexical:stems"…); several handles may read
            different values of one artefact.
        open: Reads the value; called when it is first asked for.
        strategy: One whose index has the artefact, for the advice of `MissingArtefactError`.
        is_optional: Whether versions are built without it; False for what every version has.
        restrict: Makes of it what is left under a filter of questions, where only some passages count, numbered from 0
            without gaps; gets this handle and the restriction. None: strategies that read it cannot be filtered.
    """

    name: str
    open: Callable[["Stored"], T]
    strategy: str = "STRATEGY"
    is_optional: bool = True
    restrict: "Callable[[Artefact[T], Restriction], T] | None" = field(default=None, compare=False)

    def require_in(self, artefacts: Collection[str], index: str) -> None:
        """Makes sure that a version has it.

        Args:
            artefacts: Names of those that the version was built with.
            index: Name of the version's index.

        Raises:
            MissingArtefactError: If it was built without; says for which strategy to build it.
        """
        if self.is_optional and self.name not in artefacts:
            raise MissingArtefactError(self.name, index, self.strategy)


class Restriction(Protocol):
    """A version of which a filter leaves some passages, as handles restrict their values.

    Attributes:
        allowed: Shape (n,), int64, ascending: numbers of the passages that count; the i-th gets the number i.
        is_allowed: Shape (all passages,), bool: the same as flags.
    """

    @property
    def allowed(self) -> NDArray[Any]: ...  # noqa: D102 - above

    @property
    def is_allowed(self) -> NDArray[Any]: ...  # noqa: D102 - above

    def whole(self, handle: Artefact[T]) -> T:
        """What a handle opens for all passages."""
        ...

    def artefact(self, handle: Artefact[T]) -> T:
        """What is left of it."""
        ...


def unrestricted(handle: Artefact[T], restriction: Restriction) -> T:
    """For values that do not depend on which passages count."""
    return restriction.whole(handle)


class StoredArrays(Protocol):
    """The arrays and lists of an open version, in files `<prefix>_<name>`; read-only."""

    def array(self, prefix: str, name: str) -> NDArray[Any]:
        """An array, memory-mapped, after the files of its prefix were compared with their published checksums.

        Raises:
            DamagedStoreError: If one of these files is missing, has another content, or is not an array.
        """
        ...

    def lines(self, prefix: str, name: str) -> list[str]:
        """The lines of a text file beside the arrays, checked like them; none if it is empty.

        Raises:
            DamagedStoreError: As for `array`.
        """
        ...

    def require(self, prefix: str, *, fits: bool) -> None:
        """Refuses arrays that do not fit each other or the tables: compiled code trusts their numbers.

        Raises:
            DamagedStoreError: If `fits` is false.
        """
        ...


class Stored(StoredArrays, Protocol):
    """An open version as openers of artefacts get it; read-only. Passages are numbered by ascending passage id."""

    @property
    def passage_ids(self) -> Sequence[str]:
        """Ids of the passages, in number order."""
        ...

    @property
    def number_of_passage(self) -> Mapping[str, int]:
        """Passage number by id."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings that the version was built with, as its manifest holds them, by section."""
        ...

    def rows(self, sql: str, parameters: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
        """Rows of a query on the version's tables, those of other packages' stages among them.

        Args:
            sql: One statement; values go into `parameters`, as `$name`.
            parameters: By name.

        Raises:
            DamagedStoreError: If the tables cannot be read.
            StatementRejectedError: If the database refuses the statement.
        """
        ...

    def columns(self, sql: str, parameters: Mapping[str, object] | None = None) -> Mapping[str, NDArray[Any]]:
        """The same by column, each of shape (rows,): for many rows."""
        ...

    def cosine_scale(self, kind: str) -> float:
        """What weights in units of the local encoder's cosine are multiplied by, for vectors of a kind; above 0."""
        ...

    def nearest(self, kind: str, vector: NDArray[Any], count: int, ef_search: int) -> list[str]:
        """Ids of about the `count` things of a kind whose vectors are nearest, nearest first; artefact `ann:<kind>`.

        Args:
            kind: A kind of vectors that the version has a graph of.
            vector: Shape (d,), float32.
            count: Things to find.
            ef_search: Candidates that the graph is searched with.

        Raises:
            DamagedStoreError: If the vector store cannot be read.
        """
        ...

    def artefact(self, handle: Artefact[T]) -> T:
        """Another artefact of this version.

        Raises:
            MissingArtefactError: If the version was built without it.
        """
        ...


# Source: decisions/0027-filters-of-questions.md. Cost: one pass over each array.

Numbers = NDArray[np.int64]
Integers = NDArray[np.integer[Any]]


def new_numbers(kept: Integers, count: int) -> Numbers:
    """Shape (count,): the new number of each old one, -1 of those that are gone.

    Args:
        kept: Ascending: the old numbers that stay.
        count: Old numbers.
    """
    moved = np.full(count, -1, dtype=np.int64)
    moved[kept] = np.arange(len(kept))
    return moved


def gathered(indptr: NDArray[np.int64], rows: Integers) -> tuple[Numbers, Numbers]:
    """Where rows begin once only these are left (shape (rows + 1,)), and the offsets of what they hold."""
    starts, lengths = indptr[rows], indptr[np.add(rows, 1)] - indptr[rows]
    new = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return new, np.arange(new[-1], dtype=np.int64) + np.repeat(starts - new[:-1], lengths)


def kept_entities(graph: BipartiteGraph, allowed: Numbers) -> Numbers:
    """Numbers of the entities that an allowed passage mentions, and of those that no passage does; ascending."""
    _, offsets = gathered(graph.indptr, allowed)
    is_kept = graph.df == 0
    is_kept[graph.indices[offsets]] = True
    return np.flatnonzero(is_kept).astype(np.int64)


def restricted_graph(graph: BipartiteGraph, allowed: Numbers, kept: Numbers | None = None) -> BipartiteGraph:
    """Allowed passages and the entities that are left.

    Args:
        graph: All of them.
        allowed: Passages, ascending.
        kept: The entities that are left, ascending; edges to others are gone. None: those of `kept_entities`.
    """
    kept = kept_entities(graph, allowed) if kept is None else kept
    moved = new_numbers(kept, graph.entity_count)
    indptr, offsets = gathered(graph.indptr, allowed)
    numbers = moved[graph.indices[offsets]]
    indptr, offsets, numbers = _starts_without(indptr, numbers < 0), offsets[numbers >= 0], numbers[numbers >= 0]
    return BipartiteGraph(
        indptr=indptr,
        indices=numbers.astype(np.int32),
        tf=np.asarray(graph.tf[offsets]),
        is_title=np.asarray(graph.is_title[offsets]),
        keys=tuple(graph.keys[number] for number in kept.tolist()),
    )


def restricted_relations(
    graph: RelationGraph, statements: tuple[Numbers, Numbers], is_allowed: NDArray[np.bool_], kept: Numbers
) -> RelationGraph:
    """Relations that an allowed passage states, and those that no passage does (a graph's), between entities left.

    Args:
        graph: All relations.
        statements: Shape (s,) each: offset of a relation in `labels`, and a passage that states it, or -1.
        is_allowed: Shape (passages,).
        kept: The entities that are left, ascending.
    """
    relations, passages = statements
    is_stated = np.zeros(len(graph.labels), dtype=np.bool_)
    is_stated[relations[(passages < 0) | is_allowed[passages]]] = True
    moved = new_numbers(kept, graph.entity_count)
    rows = np.repeat(np.arange(graph.entity_count, dtype=np.int64), np.diff(graph.indptr))
    is_between = (moved[rows] >= 0) & (moved[graph.indices] >= 0)
    places = np.repeat(np.arange(len(graph.indices)), np.diff(graph.label_indptr))
    is_stated &= is_between[places]
    leaving = np.bincount(places[is_stated], minlength=len(graph.indices))
    # each pair is in the rows of both: sorted by (neighbour, row), the places are those of the pairs turned round
    turned = np.lexsort((rows, graph.indices))
    is_kept = (leaving > 0) | (leaving[turned] > 0)
    per_row = np.bincount(moved[rows[is_kept]], minlength=len(kept))
    return RelationGraph(
        indptr=_starts(per_row),
        indices=moved[graph.indices[is_kept]].astype(np.int32),
        label_indptr=_starts(leaving[is_kept]),
        labels=np.asarray(graph.labels[is_stated]),
        names=graph.names,
    )


def restricted_postings(index: LexicalIndex, allowed: Numbers) -> LexicalIndex:
    """Postings of the allowed passages; terms that only other passages have are gone."""
    moved = new_numbers(allowed, len(index.lengths))
    passages = moved[index.passages]
    is_kept = passages >= 0
    owners = np.repeat(np.arange(len(index.indptr) - 1), np.diff(index.indptr))[is_kept]
    per_term = np.bincount(owners, minlength=len(index.indptr) - 1)
    terms = [term for term, count in zip(index.terms, per_term.tolist(), strict=True) if count]
    return LexicalIndex(
        terms={term: number for number, term in enumerate(terms)},
        indptr=_starts(per_term[per_term > 0]),
        passages=passages[is_kept].astype(np.int32),
        tf=np.asarray(index.tf[is_kept]),
        lengths=np.asarray(index.lengths[allowed]),
        language=index.language,
    )


def kept_statements(passages: Rows, is_allowed: NDArray[np.bool_]) -> Numbers:
    """Numbers of what an allowed passage states, and of what no passage does; ascending.

    Args:
        passages: Passages of each thing that is stated.
        is_allowed: Shape (passages,).
    """
    stated = np.bincount(passages.owners[is_allowed[passages.indices]], minlength=passages.count) > 0
    return np.flatnonzero(stated | (np.diff(passages.indptr) == 0)).astype(np.int64)


def restricted_texts(texts: StoredTexts, kept: Sequence[int] | Numbers) -> StoredTexts:
    """These texts, numbered in this order."""
    starts, offsets = gathered(np.asarray(texts.starts), np.asarray(kept, dtype=np.int64))
    return StoredTexts(starts, np.asarray(texts.data[offsets]))


def _starts_without(indptr: Numbers, is_gone: NDArray[np.bool_]) -> Numbers:
    """Where rows begin once some of what they hold is gone."""
    return indptr - np.concatenate(([0], np.cumsum(is_gone)))[indptr]


def _starts(counts: NDArray[np.int64]) -> Numbers:
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
