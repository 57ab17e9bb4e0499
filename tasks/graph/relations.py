"""Labelled relations as rows of neighbours: arrays for spreading activation (pure).

Reads no table (stage.py does).
"""

import numpy as np
from numpy.typing import NDArray


def relation_arrays(
    sources: NDArray[np.int64], targets: NDArray[np.int64], labels: NDArray[np.int64], entity_count: int
) -> dict[str, NDArray[np.generic]]:
    """The relation graph's arrays by name.

    Args:
        sources: Shape (m,): entity that each relation leaves; relations ordered by source, target, label.
        targets: Shape (m,): entity that it enters, never its source.
        labels: Shape (m,): its label.
        entity_count: Number of entities.

    Cost: O(m log m).
    """
    directed = sources * entity_count + targets
    places = np.sort(np.concatenate((directed, targets * entity_count + sources)))
    places = places[np.diff(places, prepend=-1) > 0]  # numpy's unique, by a hash table, takes ten times as long
    rows, neighbours = np.divmod(places, max(1, entity_count))
    per_place = np.bincount(np.searchsorted(places, directed), minlength=len(places))
    per_row = np.bincount(rows, minlength=entity_count)
    return {
        "indptr": _starts(per_row),
        "indices": neighbours.astype(np.int32),
        "label-indptr": _starts(per_place),
        "labels": labels.astype(np.int32),
    }


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
