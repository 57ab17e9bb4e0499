"""Handles of artefacts: what a stage wrote into a version, by what name, and how it is opened for strategies.

Declares none (ours: warehouse/artefacts.py) and opens no file: a handle reads an open version through `Stored` only, so
that another package can declare a stage, its handle and the strategy that reads it in one file.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from numpy.typing import NDArray

from polyhop.schemas.errors import MissingArtefactError

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
