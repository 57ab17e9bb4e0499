"""Two versions compared by SQL: what came and went, what was merged and split."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

from polyhop.schemas.tables import ALIASES, ENTITIES, PASSAGES, RELATIONS, TABLES, Table
from polyhop.warehouse.files.layout import VersionFolder
from polyhop.warehouse.tables.connection import create_statement
from polyhop.warehouse.tables.version_rows import compare_versions

EMPTY = {"string": "", "int64": 0, "bool": False, "double": 0.0}


def rows(table: Table, *given: dict[str, Any]) -> list[list[Any]]:
    return [[row.get(c.name, None if c.nullable else EMPTY[str(c.type)]) for c in table.columns] for row in given]


def version(folder: Path, *filled: tuple[Table, list[list[Any]]]) -> VersionFolder:
    made = VersionFolder(folder)
    made.arrays.mkdir(parents=True)
    with duckdb.connect(str(made.tables)) as connection:
        for table in TABLES:
            connection.execute(create_statement(table))
        for table, values in filled:
            for row in values:
                connection.execute(f"INSERT INTO {table.name} VALUES ({', '.join('?' * len(row))})", row)
    return made


def entity(key: str) -> dict[str, Any]:
    return {"entity_id": f"id of {key}", "key": key, "name": key.title()}


def alias(key: str, target: str) -> dict[str, Any]:
    return {"alias_key": key, "kind": "er", "entity_id": f"id of {target}"}


def relation(source: str, label: str, target: str) -> dict[str, Any]:
    return {
        "relation_id": f"{source} {label} {target}",
        "source_id": f"id of {source}",
        "relation": label,
        "target_id": f"id of {target}",
    }


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> tuple[VersionFolder, VersionFolder]:
    folder = tmp_path_factory.mktemp("versions")
    few = version(
        folder / "few",
        (ENTITIES, rows(ENTITIES, entity("curie"), entity("paris"))),
        (ALIASES, rows(ALIASES, alias("mme curie", "curie"), alias("curie", "curie"))),
        (RELATIONS, rows(RELATIONS, relation("curie", "lived in", "paris"))),
        (PASSAGES, rows(PASSAGES, {"passage_id": "p", "record_id": "p", "content_hash": "1"})),
    )
    many = version(
        folder / "many",
        (ENTITIES, rows(ENTITIES, entity("curie"), entity("mme curie"), entity("oslo"))),
        (RELATIONS, rows(RELATIONS, relation("curie", "lived in", "oslo"))),
        (PASSAGES, rows(PASSAGES, {"passage_id": "q", "record_id": "q", "content_hash": "1"})),
    )
    return few, many


def test_a_name_that_became_an_alias_is_merged(versions: tuple[VersionFolder, VersionFolder]) -> None:
    few, many = versions
    found = compare_versions(many, few, 10)
    assert found["entities"].counts == {"added": 1, "removed": 1, "merged": 1, "split": 0}
    assert found["entities"].first == [
        {"kind": "added", "name": "Paris", "other": None},
        {"kind": "merged", "name": "Mme Curie", "other": "Curie"},
        {"kind": "removed", "name": "Oslo", "other": None},
    ]


def test_an_alias_that_became_a_name_of_its_own_is_split(versions: tuple[VersionFolder, VersionFolder]) -> None:
    found = compare_versions(*versions, 10)
    assert found["entities"].counts == {"added": 1, "removed": 1, "merged": 0, "split": 1}
    assert {"kind": "split", "name": "Mme Curie", "other": "Curie"} in found["entities"].first


def test_relations_and_records_that_came_and_went(versions: tuple[VersionFolder, VersionFolder]) -> None:
    found = compare_versions(*versions, 10)
    assert found["relations"].first == [
        {"kind": "added", "source": "Curie", "relation": "lived in", "target": "Oslo"},
        {"kind": "removed", "source": "Curie", "relation": "lived in", "target": "Paris"},
    ]
    assert found["records"].counts == {"added": 0, "changed": 0, "deleted": 0, "renamed": 1}
    assert [(row["record_id"], row["from_id"]) for row in found["records"].first] == [("q", "p")]


def test_no_more_of_a_kind_are_listed_than_asked_for(versions: tuple[VersionFolder, VersionFolder]) -> None:
    found = compare_versions(*versions, 0)
    assert (found["entities"].counts["added"], found["entities"].first) == (1, [])
