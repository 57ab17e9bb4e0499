"""Texts of document files by the content of the file, in one SQLite file that indexes and processes share.

A row that cannot be read is as good as none: the file is read again.
"""

import json
import logging
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from polyhop.schemas.errors import StoreError
from polyhop.schemas.records import Document, document_json, document_of
from polyhop.warehouse.cache.database import SharedDatabase

T = TypeVar("T")
MOST_ROWS = 100_000
"""Documents that are kept, the newest; some 10 kB each."""
_SQL_FILE = Path(__file__).parent / "sql" / "documents.sql"
_LOG = logging.getLogger(__name__)


class DocumentCache:
    """Documents by key; whatever is wrong with the file, it only knows nothing."""

    def __init__(self, path: Path, *, most_rows: int = MOST_ROWS) -> None:
        self._most_rows = most_rows
        self._database: SharedDatabase | None = None
        self._database = self._tried(
            lambda: SharedDatabase(path, _SQL_FILE, what="the cache of documents", is_durable=False)
        )

    def get(self, key: str) -> Document | None:
        """The document of a key; None if it is not known, or cannot be read."""
        database = self._database
        rows = (database and self._tried(lambda: database.read("read_document", {"key": key}))) or []
        return next((_document(content) for (content,) in rows), None)

    def put(self, key: str, document: Document) -> None:
        """Keeps a document, and forgets the oldest above the limit."""
        database = self._database
        if database is None:
            return
        content = zlib.compress(json.dumps(document_json(document)).encode())
        row = {"key": key, "content": content}
        self._tried(lambda: database.write(("write_document", row), ("forget_oldest", {"most": self._most_rows})))

    def stats(self) -> tuple[int, int]:
        """How many documents are cached, and bytes of the file; zeros if it cannot be used."""
        database = self._database
        rows = (database and self._tried(lambda: database.read("measure"))) or [(0, 0)]
        row_count, byte_count = rows[0]
        return row_count, byte_count

    def close(self) -> None:
        """Closes the file."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _tried(self, work: Callable[[], T]) -> T | None:
        """What a piece of work gives; None, and nothing more is asked of the file, if it cannot be used."""
        try:
            return work()
        except StoreError as error:
            _LOG.warning("Documents are read without their cache: %s", error)
            self.close()
            return None


def _document(content: bytes) -> Document | None:
    try:
        return document_of(json.loads(zlib.decompress(content)))
    except (zlib.error, ValueError, TypeError):
        return None
