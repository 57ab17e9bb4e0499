"""What of a graph search goes into the evidence, as plain data: start entities, entities reached, and how.

Ranks nothing. Source: algorithms.md 5.2.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.graph import RelationGraph
from schemas.ports import IndexReader
from worker.ranking.chain_text import chain_line
from worker.ranking.chains import hops_of
from worker.strategies.arcana_entities import StartEntities

EXPLAINED = 10
"""So many passages of the graph's list are explained."""

_SHOWN = 30
_DIGITS = 6


class ArcanaEvidence:
    """Writes graph searches down for one open version."""

    def __init__(self, reader: IndexReader, relations: RelationGraph) -> None:
        self._reader = reader
        self._relations = relations

    def of(
        self, start: StartEntities, reached: tuple[NDArray[np.intp], NDArray[np.intp]], ranked: NDArray[np.intp]
    ) -> dict[str, Any]:
        """The evidence of one question.

        Args:
            start: Where it started.
            reached: Entities, ascending, and their hops.
            ranked: Passages by graph search, best first.

        Returns:
            `question_entities` (keys found, names not found), `reached` (how many entities in all), `entities` (those
            that the first passages mention, by hops, then key, at most 30: with the relations that lead to each from
            a start entity in `path`) and `similarities` (where entities were found by likeness).
        """
        keys = self._reader.graph.keys
        entities, hops = reached
        shown = self._mentioned(entities, hops, ranked[:EXPLAINED])
        hop_of = dict(zip(entities[shown].tolist(), hops[shown].tolist(), strict=True))
        paths = {number: self._path(number, entities, hops) for number in hop_of}
        involved = sorted({number for path in paths.values() for number in path})
        name_of = {n: e.name for n, e in zip(involved, self._reader.entities(involved), strict=True)}
        evidence: dict[str, Any] = {
            "question_entities": {"matched": [keys[n] for n in start.numbers], "unmatched": list(start.unmatched)},
            "reached": len(entities),
            "entities": [
                {
                    "key": keys[number],
                    "name": name_of[number],
                    "hop": hop,
                    "path": chain_line([name_of[n] for n in paths[number]], hops_of(self._relations, paths[number])),
                }
                for number, hop in hop_of.items()
            ],
        }
        if start.similarities:
            evidence["similarities"] = {keys[n]: round(value, _DIGITS) for n, value in start.similarities.items()}
        return evidence

    def _mentioned(
        self, entities: NDArray[np.intp], hops: NDArray[np.intp], passages: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        """Places of the reached entities that these passages mention, by hops, then number; the first of them."""
        graph = self._reader.graph
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
