"""What of a graph the paths of its hubs cover, in counts (pure). Source: algorithms.md 4.3, coverage report."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.hubs import END_KINDS, HubGraph

ALL = "(all)"
Row = tuple[str, str, int, int, float | None]
"""What, part, covered, uncovered, share: a row of the table `hub_coverage`."""


@dataclass(frozen=True, slots=True)
class Covered:
    """Which nodes and triples are in some path: shapes (n,) and (t,), bool."""

    nodes: NDArray[np.bool_]
    triples: NDArray[np.bool_]

    @classmethod
    def by(cls, path_triples: NDArray[np.generic], graph: HubGraph) -> "Covered":
        """What these triples cover, of whatever paths they are."""
        triples = np.zeros(len(graph.subjects), dtype=np.bool_)
        triples[path_triples] = True
        nodes = np.zeros(graph.node_count, dtype=np.bool_)
        nodes[graph.subjects[triples]] = True
        nodes[graph.objects[triples]] = True
        return cls(nodes, triples)

    def rows(self) -> Iterator[Row]:
        """All nodes, all triples."""
        for what, mask in (("nodes", self.nodes), ("triples", self.triples)):
            covered = int(mask.sum())
            yield row(what, ALL, covered, len(mask) - covered)


def path_rows(arrays: Mapping[str, NDArray[np.generic]], left_out: int, unreached: int) -> Iterator[Row]:
    """Hubs and paths in numbers.

    Args:
        arrays: Those of `path_arrays`.
        left_out: Paths beyond the limit.
        unreached: Hubs that no search found.
    """
    per_hub, lengths = np.diff(arrays["path-starts"]), np.diff(arrays["triple-starts"])
    with_paths = int((per_hub > 0).sum())
    yield row("hubs", ALL, with_paths, len(per_hub) - with_paths + unreached)
    yield row("paths", ALL, len(lengths), left_out)
    yield from _histogram("hubs with paths", per_hub)
    yield from _histogram("paths of length", lengths)
    ends = np.bincount(arrays["end-kinds"].astype(np.int64), minlength=len(END_KINDS))
    yield from (row("paths that end in", kind, int(ends[number]), 0) for number, kind in enumerate(END_KINDS))


def parts(what: str, counted: Iterable[tuple[str, int, int]]) -> Iterator[Row]:
    """Rows of (part, covered, uncovered)."""
    return (row(what, *counts) for counts in counted)


def row(what: str, part: str, covered: int, uncovered: int) -> Row:
    """A row with its share."""
    total = covered + uncovered
    return what, part, covered, uncovered, covered / total if total else None


def _histogram(what: str, values: NDArray[np.generic]) -> Iterator[Row]:
    found, counts = np.unique(values, return_counts=True)
    return (row(what, str(value), count, 0) for value, count in zip(found.tolist(), counts.tolist(), strict=True))
