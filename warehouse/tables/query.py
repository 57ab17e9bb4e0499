"""SQL by people on a published version, with the vectors of LanceDB as views.

Read-only by construction: the file is opened so.
"""

import pyarrow as pa

from warehouse.files.layout import Layout
from warehouse.files.versions import read_manifest, require_version
from warehouse.tables.connection import connect
from warehouse.vectors.lance import read_table


def query_rows(layout: Layout, name: str, query: str, version: int | None = None) -> pa.Table:
    """The result of one query on a version's tables.

    Vectors are read from LanceDB only if the query names `passage_vectors` or `entity_vectors`.

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
        relation = connection.sql(query)
        if relation is None:
            return pa.table({})
        table: pa.Table = relation.to_arrow_table()
        return table
