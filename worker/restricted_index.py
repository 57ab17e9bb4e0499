"""A version of which a filter leaves some passages, as an index of these alone: strategies run on it unchanged.

Opens no store: every value is the whole version's, restricted by its handle (polyhop.schemas.artefacts).
"""

import time
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.artefacts import Artefact
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.origins import PassageOrigin
from polyhop.schemas.ports import IndexReader
from polyhop.schemas.sections import Location

T = TypeVar("T")


class RestrictedIndex:
    """An IndexReader of the allowed passages of another one, numbered from 0 in the same order.

    Attributes:
        allowed: Shape (n,), int64, ascending: their numbers in the whole version.
        seconds: What restricting took so far.

    Args:
        whole: The whole version.
        allowed: As the attribute.
    """

    def __init__(self, whole: IndexReader, allowed: NDArray[np.int64]) -> None:
        self._whole = whole
        self._opened: dict[Artefact[Any], object] = {}
        self._depth = 0
        self.allowed = allowed
        self.seconds = 0.0
        self.name, self.version, self.artefacts = whole.name, whole.version, whole.artefacts
        self.passage_ids: Sequence[str] = [whole.passage_ids[number] for number in allowed.tolist()]
        self.passage_titles: Sequence[str] = [whole.passage_titles[number] for number in allowed.tolist()]

    @cached_property
    def is_allowed(self) -> NDArray[np.bool_]:
        """Shape (all passages,): which are allowed."""
        flags = np.zeros(len(self._whole.passage_ids), dtype=np.bool_)
        flags[self.allowed] = True
        return flags

    @cached_property
    def number_of_passage(self) -> Mapping[str, int]:
        """Passage number by id."""
        return {passage_id: number for number, passage_id in enumerate(self.passage_ids)}

    def passages(self, numbers: Sequence[int]) -> list[tuple[str, str, str]]:
        """(passage id, title, text) by number, in the order asked."""
        return self._whole.passages(self.allowed[list(numbers)].tolist())

    def origins(self, numbers: Sequence[int]) -> list[PassageOrigin]:
        """Where passages come from, by number, in the order asked."""
        return self._whole.origins(self.allowed[list(numbers)].tolist())

    def record_of(self, passage_id: str) -> str:
        """Id of the source record that a passage is, or is a piece of."""
        return self._whole.record_of(passage_id)

    def locations(self, passage_ids: Collection[str]) -> Mapping[str, Location]:
        """Where passages stand in their files, by id, of those of which anything is known."""
        return self._whole.locations(passage_ids)

    def whole(self, handle: Artefact[T]) -> T:
        """What a handle opens for all passages."""
        return self._whole.artefact(handle)

    def artefact(self, handle: Artefact[T]) -> T:
        """What is left of it, made when first asked for, then kept.

        Raises:
            ConfigurationError: If the handle does not say what is left of its value.
        """
        handle.require_in(self.artefacts, self.name)
        if handle not in self._opened:
            if handle.restrict is None:
                raise ConfigurationError(
                    f"Strategies that read the artefact '{handle.name}' cannot be filtered: its handle does not say "
                    "what is left of it (Artefact.restrict); leave out the filter, or name another strategy."
                )
            begun, self._depth = time.perf_counter(), self._depth + 1
            try:
                self._opened.setdefault(handle, handle.restrict(handle, self))
            finally:
                self._depth -= 1
                self.seconds += 0 if self._depth else time.perf_counter() - begun
        return cast("T", self._opened[handle])
