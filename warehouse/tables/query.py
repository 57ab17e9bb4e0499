"""SQL by people on a published version, with the vectors of LanceDB as views.

Read-only by construction: the file is opened so.
"""

from collections.abc import Mapping

import pyarrow as pa

from warehouse.files.layout import Layout
from warehouse.files.versions import read_manifest, require_version
from warehouse.tables.connection import connect
from warehouse.vectors.lance import read_table


def query_rows(
    layout: Layout, name: str, query: str, version: int | None = None, extra: Mapping[str, pa.Table] | None = None
) -> pa.Table:
    """The result of one query on a version's tables.

    Vectors are read from LanceDB only if the query names `passage_vectors` or `entity_vectors`; `extra` are further
    tables by name.

    Raises:
        UnknownIndexError: If there is no such index.
        StatementRejectedError: If DuckDB refuses the query.
    """
    _, folder = require_version(layout, name, version)
    manifest = read_manifest(folder)
    with connect(folder.tables, read_only=True) as connection:
        for kind, record in manifest.vectors.items():
            view = f"{kind}_vectors"
            if view in query:
                connection.register(view, read_table(layout.index(name).vectors, record.table, record.lance_version))
        for view, table in (extra or {}).items():
            connection.register(view, table)
        relation = connection.sql(query)
        if relation is None:
            return pa.table({})
        found: pa.Table = relation.to_arrow_table()
        return found
