"""A knowledge graph as hub search sees it, its hubs and their paths: arrays that any part of Polyhop may read.

Builds nothing (tasks/hubs does) and scores nothing. Nodes are numbered in ascending order of their ids, predicates
in ascending order of their text, triples by (subject, predicate, object), hubs by node, and a hub's paths as they were
emitted: an order of numbers is the order that algorithms.md asks for. Source: algorithms.md 4.2 to 4.6.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.integer[Any]]

LEAF, HUB, LIMIT, REVISIT = range(4)
END_KINDS = ("leaf", "hub", "limit", "revisit")
"""Why a path ends: no edge goes on, another hub, the greatest length, a node that was expanded before."""

LEVELS = ("path", "triple", "entity")
"""What a row of the search stands for: the text of a path, of one of its triples, or one of its labels."""


class _Arrays:
    """Arrays under the names of their fields, `-` for `_`."""

    @classmethod
    def of(cls, read: Callable[[str], NDArray[Any]]) -> Self:
        """From saved arrays, each read by its name."""
        return cls(*(read(field.name.replace("_", "-")) for field in fields(cls)))  # type: ignore[arg-type]

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Its arrays by name."""
        return {field.name.replace("_", "-"): getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class HubGraph(_Arrays):
    """Directed triples; self-loops are among them."""

    subjects: Numbers  # Shape (t,), int32, node of each triple's subject.
    predicates: Numbers  # Shape (t,), int32.
    objects: Numbers  # Shape (t,), int32.
    out_starts: Numbers  # Shape (n + 1,), int64: the triples that leave node i are out_starts[i] to out_starts[i + 1].
    in_triples: Numbers  # Shape (t,), int32: triple numbers by (object, predicate, subject).
    in_starts: Numbers  # Shape (n + 1,), int64: into `in_triples`.
    is_literal: NDArray[np.bool_]  # Shape (n,), bool.

    @classmethod
    def from_triples(
        cls, subjects: Numbers, predicates: Numbers, objects: Numbers, is_literal: NDArray[np.bool_]
    ) -> Self:
        """From distinct triples in ascending order of (subject, predicate, object)."""
        nodes = np.arange(len(is_literal) + 1)
        entered = np.lexsort((subjects, predicates, objects)).astype(np.int32)
        return cls(
            subjects.astype(np.int32),
            predicates.astype(np.int32),
            objects.astype(np.int32),
            np.searchsorted(subjects, nodes),
            entered,
            np.searchsorted(objects[entered], nodes),
            is_literal,
        )

    @property
    def node_count(self) -> int:
        """Nodes, those without a triple included."""
        return len(self.is_literal)


@dataclass(frozen=True, slots=True)
class HubPaths(_Arrays):
    """Hubs, their paths in emission order, and the candidates from which search goes on."""

    hubs: Numbers  # Shape (h,), int32, ascending: node of each hub.
    path_starts: Numbers  # Shape (h + 1,), int64: paths of hub i.
    triple_starts: Numbers  # Shape (p + 1,), int64: triples of path j, in order from the hub.
    path_triples: Numbers  # Shape (triples of all paths,), int32: triple numbers.
    end_kinds: NDArray[np.uint8]  # Shape (p,), uint8: number in END_KINDS.
    hashes: NDArray[np.uint8]  # Shape (p, 32), uint8: sha256 of the path (algorithms.md 4.2).
    path_texts: Numbers  # Shape (p,), int32: number of the path's text among the distinct texts of paths.
    candidate_starts: Numbers  # Shape (h + 1,), int64: candidates of hub i.
    candidates: Numbers  # Shape (c,), int32: nodes.
    candidate_kinds: NDArray[np.uint8]  # Shape (c,), uint8: HUB or LIMIT.
    candidate_triple_starts: Numbers  # Shape (c + 1,), int64: triples of the path from the hub to candidate i.
    candidate_triples: Numbers  # Shape (triples of these paths,), int32.

    @property
    def path_count(self) -> int:
        """Paths of all hubs."""
        return len(self.end_kinds)

    def path_hubs(self) -> NDArray[np.int32]:
        """Hub number of each path, shape (p,)."""
        return np.repeat(np.arange(len(self.hubs), dtype=np.int32), np.diff(self.path_starts))

    def last_triples(self) -> Numbers:
        """The last triple of each path, shape (p,): what a ranking of paths ranks."""
        return self.path_triples[self.triple_starts[1:] - 1]

    def triples_of(self, path: int) -> Numbers:
        """Triple numbers of a path."""
        return self.path_triples[self.triple_starts[path] : self.triple_starts[path + 1]]


@dataclass(frozen=True, slots=True)
class HubRows(_Arrays):
    """Rows for similarity search: one per path, and per triple and label if levels include them."""

    row_paths: Numbers  # Shape (r,), int32: path of each row.
    # Shape (r,), int32: number of its text among the distinct texts of rows, which is the row of their vectors.
    row_texts: Numbers
    row_levels: NDArray[np.uint8]  # Shape (r,), uint8: number in LEVELS.
    row_triples: Numbers  # Shape (r,), int32: the triple of a row of level "triple"; -1 for others.
