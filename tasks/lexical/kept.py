"""Postings of the version before, for the passages that it has with the same title and text.

Tokenises nothing; what is kept and what is new is put together in postings.py.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import DamagedStoreError
from polyhop.schemas.graph import LexicalIndex
from polyhop.schemas.tables import PASSAGES
from polyhop.warehouse.artefact_arrays import LEXICAL_FILES, open_lexical
from polyhop.warehouse.build import Build
from polyhop.warehouse.files.layout import VersionFolder
from polyhop.warehouse.graph.arrays import ArrayFolder
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.connection import attached, connect


@dataclass(frozen=True, slots=True)
class KeptPostings:
    """The postings of the version before.

    Attributes:
        index: All of them.
        numbers: Shape (passages now,): the number that each passage had, -1 where its text is not in `index`.
    """

    index: LexicalIndex
    numbers: NDArray[np.int64]


def tables_before(build: Build, analyser: str, recipe: str) -> Path | None:
    """The tables of the version before, if its postings were made in the same way and both are undamaged."""
    files = build.earlier_files(*(f"lexical-{analyser}_{name}" for name in LEXICAL_FILES))
    return build.earlier_tables(f"lexical-{analyser}", recipe, [PASSAGES.name]) if files else None


def kept_postings(build: Build, analyser: str, before: Path) -> KeptPostings | None:
    """What need not be counted again; None if the postings cannot be read.

    Args:
        build: The build.
        analyser: Whose postings.
        before: The tables of the version before.
    """
    with connect(before, read_only=True) as connection:
        (_, count) = connection.execute(statement("ingest", "count_documents")).fetchone() or (0, 0)
    try:
        index = open_lexical(ArrayFolder(VersionFolder(before.parent).arrays, {}), analyser, count)
    except DamagedStoreError:
        return None
    with build.tables(read_only=True) as connection, attached(connection, before, "before"):
        numbers = connection.execute(statement("lexical", "numbers_before")).fetchnumpy()["number"]
    return KeptPostings(index, numbers.astype(np.int64))


@contextmanager
def changed_texts(build: Build, before: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Ids, titles and texts of the passages whose number before is -1, in number order, to be fetched."""
    with build.tables(read_only=True) as connection, attached(connection, before, "before"):
        yield connection.execute(statement("lexical", "changed_texts"))
