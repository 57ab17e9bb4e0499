"""Raw rows under the keys of bearers, where `resolution.identity` tells namesakes apart.

Decides nothing (namesakes.py does); the statements are in warehouse/tables/sql/namesakes.sql.
"""

import re
from collections.abc import Collection, Mapping

import duckdb
import pyarrow as pa

from polyhop.tasks.resolution.namesakes import (
    Bearer,
    Senses,
    disjoint,
    qualified_bearers,
    senses_of,
    titled_bearers,
    typed_bearers,
)
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.connection import quoted

_OF_BEARERS = {
    "mentions": "mentions_of_bearers",
    "relations": "relations_of_bearers",
    "propositions": "propositions_of_bearers",
    "triples": "triples_of_bearers",
}
"""Raw rows and the statement that puts them under the keys of bearers."""
_IN_A_LIST = re.compile(r",? (and|or)\b|, [^\W\da-z_]|[-/'’]")
"""What follows one of several names in a row, and a name that goes on."""


def tell_apart(connection: duckdb.DuckDBPyConnection, identity: str) -> Senses:
    """Puts the raw rows (`all_mentions` and so on) under the keys of the bearers that they mean.

    Args:
        connection: With the raw rows, and the table of passages.
        identity: `name_type` or `context`.
    Cost: O(mentions) to look through, O(those of shared names) to decide.
    """
    senses = _by_type(connection) if identity == "name_type" else _by_context(connection)
    connection.execute(statement("namesakes", "senses"))
    if not senses.rows:
        return senses
    arrays = [pa.array(column) for column in zip(*senses.rows, strict=True)]
    connection.register("incoming", pa.Table.from_arrays(arrays, names=["passage_id", "key", "bearer", "name"]))
    connection.execute("INSERT INTO senses FROM incoming")
    connection.unregister("incoming")
    connection.execute(statement("namesakes", "bearers_by_passage"))
    for name, rows in _OF_BEARERS.items():
        connection.execute(statement("namesakes", rows))
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {quoted(f'all_{name}')} AS FROM {quoted(f'sensed_{name}')}")
    return senses


def _by_type(connection: duckdb.DuckDBPyConnection) -> Senses:
    rows = connection.execute(statement("namesakes", "types_by_passage")).fetchall()
    bearers = typed_bearers(rows, keeps_name=True)
    return senses_of(bearers, {}, {}, _mentioning(_names_around(connection, bearers), bearers))


def _by_context(connection: duckdb.DuckDBPyConnection) -> Senses:
    titles = dict(connection.execute(statement("namesakes", "titles_of_passages")).fetchall())
    titled = titled_bearers(titles)
    types = connection.execute(statement("namesakes", "types_by_passage")).fetchall()
    located = {row[1] for row in types if row[3] == "LOCATION"}
    found = {**typed_bearers(types, keeps_name=False), **_qualified(connection, located)}
    neighbours = _names_around(connection, {**found, **titled})
    (passages,) = connection.execute("SELECT count(*) FROM passages").fetchone() or (0,)
    counts: Mapping[str, int] = dict(connection.execute(statement("namesakes", "passages_of_names")).fetchall())
    common = {key for key, count in counts.items() if count > max(5, passages // 100)}
    rare = {passage: names - common for passage, names in neighbours.items()}
    bearers = {**disjoint(found, rare), **titled}
    return senses_of(bearers, neighbours, counts, _mentioning(neighbours, bearers))


def _qualified(connection: duckdb.DuckDBPyConnection, located: Collection[str]) -> dict[str, list[Bearer]]:
    """Bearers of the names of places that texts qualify by another place, lists of places aside."""
    rows = connection.execute(statement("namesakes", "qualified_places")).fetchall()
    places = [row[:5] for row in rows if not _IN_A_LIST.match(row[5])]
    return qualified_bearers([row for row in places if row[1] in located], {(row[1], row[3]) for row in places})


def _names_around(connection: duckdb.DuckDBPyConnection, keys: Collection[str]) -> dict[str, frozenset[str]]:
    """Names in the passages that mention one of these."""
    rows = connection.execute(statement("namesakes", "names_around"), {"keys": sorted(keys)}).fetchall()
    return {passage: frozenset(names) for passage, names in rows}


def _mentioning(neighbours: Mapping[str, frozenset[str]], bearers: Mapping[str, list[Bearer]]) -> dict[str, list[str]]:
    """Passages that mention each of these names."""
    found: dict[str, list[str]] = {key: [] for key in bearers}
    for passage, names in neighbours.items():
        for key in names & bearers.keys():
            found[key].append(passage)
    return found
