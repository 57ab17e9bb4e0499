"""Shared code of the retrievers for other frameworks: ranked passages of an index with their metadata."""

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from polyhop.api import open_index
from polyhop.protocol import IndexLike

AnyIndex = IndexLike | str
"""An open index, one of a server, or the name of one, which is opened for the first query."""


@dataclass
class PassageSearch:
    """An index with the way to search it, as `Index.search` takes it."""

    index: AnyIndex
    root: str | Path | None = None  # of an index that is named
    strategy: str | None = None
    limit: int = 10
    where: str | None = None
    parameters: Mapping[str, object] | None = None
    _lock: Any = field(default_factory=Lock, init=False, repr=False, compare=False)

    def find(
        self, query: str, where: str | None = None, limit: int | None = None
    ) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Passages in descending order of score, each with its metadata; `where` and `limit` go before the own ones.

        The metadata are the record's, and ours: title, document, source, rank, index, version, strategy…; of one name,
        ours count.
        """
        with self._lock:  # opened once, by the first caller
            if isinstance(self.index, str):
                self.index = open_index(self.index, root=self.root)
                weakref.finalize(self, self.index.close)  # with the retriever
        found = self.index.search(
            query,
            strategy=self.strategy,
            limit=self.limit if limit is None else limit,
            parameters=self.parameters,
            where=self.where if where is None else where,
        )
        ours = {"index": self.index.name, "version": found.version, "strategy": found.strategy}
        for row in found.passages:
            stated = {name: row[name] for name in row.keys() - {"id", "text", "score", "metadata"}}
            yield row, row["metadata"] | stated | ours
