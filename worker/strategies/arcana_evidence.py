"""What of a graph search goes into the evidence, as evidence: start entities, entities reached, and how.

Ranks nothing. Source: algorithms.md 5.2.
"""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.evidence import Edge, Evidence, Node, Path, QuestionNames, Seed
from polyhop.schemas.graph import RelationGraph
from polyhop.schemas.ports import IndexReader
from polyhop.warehouse.artefacts import ENTITIES, GRAPH
from polyhop.worker.ranking.chain_text import chain_line
from polyhop.worker.ranking.chains import hops_of
from polyhop.worker.strategies.arcana_entities import StartEntities

EXPLAINED = 10
"""So many passages of the graph's list are explained."""

_SHOWN = 30  # entities; chosen: as many as `qasa` returns by default
_DIGITS = 6  # decimals shown; rankings keep twelve (algorithms.md 0.3).


class ArcanaEvidence:
    """Writes graph searches down for one open version."""

    def __init__(self, reader: IndexReader, relations: RelationGraph) -> None:
        self._reader = reader
        self._relations = relations

    def of(
        self, start: StartEntities, reached: tuple[NDArray[np.intp], NDArray[np.intp]], ranked: NDArray[np.intp]
    ) -> Evidence:
        """The evidence of one question.

        Args:
            start: Where it started.
            reached: Entities, ascending, and their hops.
            ranked: Passages by graph search, in descending order of score.

        Returns:
            Names, seeds (the start entities), how many entities were reached, as nodes those that the top passages
            mention (by hops, then key, at most 30), and for each the path that leads to it from a start entity.
        """
        keys = self._reader.artefact(GRAPH).keys
        entities, hops = reached
        shown = self._mentioned(entities, hops, ranked[:EXPLAINED])
        hop_of = dict(zip(entities[shown].tolist(), hops[shown].tolist(), strict=True))
        paths = {number: self._path(number, entities, hops) for number in hop_of}
        involved = sorted({*start.numbers, *(number for path in paths.values() for number in path)})
        name_of = {n: e.name for n, e in zip(involved, self._reader.artefact(ENTITIES)(involved), strict=True)}
        match = "vector" if start.similarities else ""
        return Evidence(
            names=QuestionNames(tuple(keys[n] for n in start.numbers), tuple(start.unmatched)),
            seeds=tuple(
                Seed("entity", keys[n], 1.0, name_of[n], match, _rounded(start.similarities.get(n)))
                for n in start.numbers
            ),
            nodes=tuple(Node(keys[n], name_of[n], distance=hop) for n, hop in hop_of.items()),
            paths=tuple(self._as_path(path, name_of) for path in paths.values() if len(path) > 1),
            node_count=len(entities),
        )

    def _as_path(self, numbers: tuple[int, ...], name_of: Mapping[int, str]) -> Path:
        keys = tuple(self._reader.artefact(GRAPH).keys[number] for number in numbers)
        names = tuple(name_of[number] for number in numbers)
        hops = hops_of(self._relations, numbers)
        edges = tuple(Edge(*pair, hop.forward, hop.backward) for pair, hop in zip(pairwise(keys), hops, strict=True))
        return Path(chain_line(names, hops), keys, names, edges)

    def _mentioned(
        self, entities: NDArray[np.intp], hops: NDArray[np.intp], passages: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        """Places of the reached entities that these passages mention, by hops, then number; the first of them."""
        graph = self._reader.artefact(GRAPH)
        rows = [graph.indices[graph.indptr[passage] : graph.indptr[passage + 1]] for passage in passages.tolist()]
        mentioned = np.isin(entities, np.concatenate(rows)) if rows else np.zeros(len(entities), dtype=np.bool_)
        places = np.flatnonzero(mentioned)
        return places[np.argsort(hops[places], kind="stable")][:_SHOWN]

    def _path(self, number: int, entities: NDArray[np.intp], hops: NDArray[np.intp]) -> tuple[int, ...]:
        """From a start entity to this one, over the smallest numbers."""
        graph = self._relations
        path = [number]
        for hop in range(int(hops[np.searchsorted(entities, number)]), 0, -1):
            row = graph.indices[graph.indptr[path[-1]] : graph.indptr[path[-1] + 1]]
            places = np.minimum(np.searchsorted(entities, row), len(entities) - 1)
            is_nearer = (entities[places] == row) & (hops[places] == hop - 1)
            path.append(int(row[is_nearer][0]))
        return tuple(reversed(path))


def _rounded(similarity: float | None) -> float | None:
    return None if similarity is None else round(similarity, _DIGITS)
