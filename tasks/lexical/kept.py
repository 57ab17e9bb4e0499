"""Postings of the version before, for the passages that it has with the same title and text.

Tokenises nothing; what is kept and what is new is put together in postings.py.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb
import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import DamagedStoreError
from polyhop.schemas.graph import LexicalIndex
from polyhop.schemas.ids import content_hash
from polyhop.schemas.tables import PASSAGES
from polyhop.warehouse.artefacts import LEXICAL_FILES, open_lexical
from polyhop.warehouse.build import Build, current_manifest
from polyhop.warehouse.graph.arrays import ArrayFolder
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.connection import connect, literal


@dataclass(frozen=True, slots=True)
class KeptPostings:
    """The postings of the version before.

    Attributes:
        index: All of them.
        numbers: Shape (passages now,): the number that each passage had, -1 where its text is not in `index`.
    """

    index: LexicalIndex
    numbers: NDArray[np.int64]


def kept_postings(build: Build, analyser: str, fingerprint: Callable[[str], str]) -> KeptPostings | None:
    """What need not be counted again; None if there is no such version, or its postings were not made as ours.

    Args:
        build: The build.
        analyser: Whose postings.
        fingerprint: Of the stage, from the hash of the passages that it reads.
    """
    files = build.earlier_files(*(f"lexical-{analyser}_{name}" for name in LEXICAL_FILES))
    before = current_manifest(build)
    if not files or build.earlier is None or before is None or PASSAGES.name not in build.earlier.tables:
        return None
    published = build.folder.version(before.version)
    with connect(published.tables, read_only=True) as connection:
        (content,) = connection.execute(statement("ingest", "content_of_passages")).fetchone() or ("",)
        (_, count) = connection.execute(statement("ingest", "count_documents")).fetchone() or (0, 0)
    record = before.stages.get(f"lexical-{analyser}")
    if record is None or record.fingerprint != fingerprint(content_hash("passages", content)):
        return None
    try:
        index = open_lexical(ArrayFolder(published.arrays, {}), analyser, count)  # damage was looked for
    except DamagedStoreError:
        return None
    with _with_before(build) as connection:
        numbers = connection.execute(statement("lexical", "numbers_before")).fetchnumpy()["number"]
    return KeptPostings(index, numbers.astype(np.int64))


@contextmanager
def changed_texts(build: Build) -> Iterator[duckdb.DuckDBPyConnection]:
    """Ids, titles and texts of the passages whose number before is -1, in number order, to be fetched."""
    with _with_before(build) as connection:
        yield connection.execute(statement("lexical", "changed_texts"))


@contextmanager
def _with_before(build: Build) -> Iterator[duckdb.DuckDBPyConnection]:
    before = current_manifest(build)
    with build.tables(read_only=True) as connection:
        if before is not None:
            tables = build.folder.version(before.version).tables
            connection.execute(f"ATTACH {literal(str(tables))} AS before (READ_ONLY)")
        yield connection
