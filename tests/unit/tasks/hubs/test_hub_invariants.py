"""What must hold of the tables of hubs, each invariant broken by one row."""

from collections.abc import Iterator

import duckdb
import pytest

from polyhop.schemas.tables import ENTITIES
from polyhop.tasks.hubs.stage import HUB_CANDIDATES, HUB_PATHS
from polyhop.tasks.hubs.stage import HUBS_TABLE as HUBS
from polyhop.warehouse.statements import statements
from polyhop.warehouse.tables.connection import create_statement

INVARIANTS = statements("hub_invariants") | statements("hub_path_invariants")
SOUND = [
    "INSERT INTO hubs VALUES ('h', 'types', 0, 2, 0, ''), ('i', 'types', 1, 0, 0, ''), ('u', 'types', NULL, 0, 0, '')",
    "INSERT INTO hub_candidates VALUES ('h', 'i', 'hub', '[]'), ('h', 'u', 'hub', '[]'), ('h', 'x', 'limit', '[]')",
    "INSERT INTO hub_paths VALUES ('h', 'a', 0, 1, '[[]]', 'text', 'template', 'hub', 'i')",
    "INSERT INTO hub_paths VALUES ('h', 'b', 1, 1, '[[]]', 'text', 'template', 'leaf', 'x')",
]
BREACHES = {
    "hub_is_no_entity": "INSERT INTO hubs VALUES ('nothing', 'types', 0, 0, 0, '')",
    "literal_is_hub": "INSERT INTO hubs VALUES ('v', 'types', 0, 0, 0, '')",
    "candidate_of_no_hub": "INSERT INTO hub_candidates VALUES ('u', 'x', 'limit', '[]')",
    "candidate_is_no_entity": "INSERT INTO hub_candidates VALUES ('h', 'nothing', 'limit', '[]')",
    "hub_candidate_is_no_hub": "UPDATE hub_candidates SET kind = 'hub' WHERE next_entity_id = 'x'",
    "hub_without_its_paths": "UPDATE hubs SET path_count = 3 WHERE hub_id = 'h'",
    "path_of_no_hub": "UPDATE hub_paths SET end_entity_id = 'nothing' WHERE path_hash = 'a'",
    "path_without_text": "UPDATE hub_paths SET length = 0 WHERE path_hash = 'a'",
}


@pytest.fixture
def tables() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect()
    for table in (ENTITIES, HUBS, HUB_CANDIDATES, HUB_PATHS):
        connection.execute(create_statement(table))
    columns = ", ".join(ENTITIES.column_names)
    values = [
        f"'{name}'" if column in {"entity_id", "key"} else str(name == "v").lower() if column == "is_literal" else "0"
        for name in "hiuxv"
        for column in ENTITIES.column_names
    ]
    width = len(ENTITIES.column_names)
    rows = ", ".join(f"({', '.join(values[first : first + width])})" for first in range(0, len(values), width))
    connection.execute(f"INSERT INTO entities ({columns}) VALUES {rows}")
    for sql in SOUND:
        connection.execute(sql)
    yield connection
    connection.close()


def broken(connection: duckdb.DuckDBPyConnection) -> set[str]:
    return {name for name, sql in INVARIANTS.items() if (connection.execute(sql).fetchone() or (0,))[0]}


def test_sound_tables_break_nothing(tables: duckdb.DuckDBPyConnection) -> None:
    assert broken(tables) == set()
    assert BREACHES.keys() == INVARIANTS.keys()


@pytest.mark.parametrize("name", BREACHES)
def test_a_breach_is_found(tables: duckdb.DuckDBPyConnection, name: str) -> None:
    tables.execute(BREACHES[name])
    assert name in broken(tables)
