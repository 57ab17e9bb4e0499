"""SQL by people on a published version, with its vectors as views.

Locks nothing itself (sandbox.py does).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import hold_version, read_manifest
from polyhop.warehouse.open import open_vector_store
from polyhop.warehouse.tables.connection import translated
from polyhop.warehouse.tables.sandbox import run_query, sandbox


def query_rows(
    layout: Layout,
    name: str,
    query: str,
    version: int | None = None,
    extra: Mapping[str, pa.Table] | None = None,
    allow_files: Sequence[str | Path] = (),
) -> pa.Table:
    """The result of one query on a version's tables; it reads those, `extra` and what `allow_files` names, and no more.

    Vectors are read only if the query names `passage_vectors` or `entity_vectors`; `extra` are further
    tables by name, `allow_files` folders whose files may be read.

    Raises:
        UnknownIndexError: If there is no such index.
        ConfigurationError: If a folder of `allow_files` does not exist.
        DamagedStoreError: If the tables are not as they were written.
        StatementRejectedError: If the query does anything but read, or DuckDB refuses it.
    """
    with hold_version(layout, name, version) as held:
        tables = dict(extra or {})
        for kind, record in read_manifest(held.folder).vectors.items():
            if f"{kind}_vectors" in query:
                table = open_vector_store(layout.index(name)).open(record.table, record.table_version)
                tables[f"{kind}_vectors"] = table.read()
        path = held.folder.tables
        with translated(path), sandbox(path, tables, allow_files) as connection:
            return run_query(connection, query, may_read_files=bool(allow_files))
