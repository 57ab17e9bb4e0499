"""Labelled relations as rows of neighbours, entities as one run of text: arrays for spreading activation (pure).

Reads no table (stage.py does).
"""

from collections.abc import Iterable

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
    places = np.unique(np.concatenate((directed, targets * entity_count + sources)))
    rows, neighbours = np.divmod(places, max(1, entity_count))
    per_place = np.bincount(np.searchsorted(places, directed), minlength=len(places))
    per_row = np.bincount(rows, minlength=entity_count)
    return {
        "indptr": _starts(per_row),
        "indices": neighbours.astype(np.int32),
        "label-indptr": _starts(per_place),
        "labels": labels.astype(np.int32),
    }


def text_arrays(rows: Iterable[tuple[str, str, str]]) -> dict[str, NDArray[np.generic]]:
    """The arrays of polyhop.schemas.graph.EntityTexts by name; rows are name, type and description in number order."""
    fields = [field.encode("utf-8", "replace") for row in rows for field in row]
    return {
        "text-starts": _starts(np.array([len(field) for field in fields], dtype=np.int64)),
        "texts": np.frombuffer(b"".join(fields), dtype=np.uint8),
    }


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
