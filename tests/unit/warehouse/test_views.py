"""SQL over the tables of a version: what a date says, names as written, and two versions compared."""

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from polyhop.schemas.graph import BipartiteGraph
from polyhop.schemas.tables import TABLES
from polyhop.schemas.values import find_dates
from polyhop.warehouse.artefacts import surface_graph
from polyhop.warehouse.files.layout import VersionFolder
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.connection import create_statement
from polyhop.warehouse.tables.version_rows import compare_versions

Row = dict[str, Any]
EMPTY = {"string": "", "int64": 0, "bool": False, "double": 0.0}


def fill(connection: duckdb.DuckDBPyConnection, **filled: list[Row]) -> duckdb.DuckDBPyConnection:
    """All tables of a version with these rows; columns that a row does not name are empty."""
    for table in TABLES:
        connection.execute(create_statement(table))
        for row in filled.get(table.name, []):
            values = [row.get(c.name, None if c.nullable else EMPTY[str(c.type)]) for c in table.columns]
            connection.execute(f"INSERT INTO {table.name} VALUES ({', '.join('?' * len(values))})", values)
    return connection


def mention(passage: str, entity: str, surface: str, tf: int, spans: str, *, is_title: bool = False) -> Row:
    row = {"level": "passage", "extractor": "rules", "unit_id": passage, "entity_id": entity, "surface": surface}
    return {**row, "tf": tf, "is_title": is_title, "spans_json": spans}


SENTENCES: list[tuple[str, list[tuple[str, str | None]]]] = [
    ("Ada Roe (born 3 May 1815) is a poet.", [("1815-05-03", "birth")]),
    ("Ada Roe (3 May 1815 – 1852) was a poet.", [("1815-05-03", "birth"), ("1852", "death")]),
    ("Ada Roe (born 1815 in London; died 27 November 1852) wrote.", [("1815", "birth"), ("1852-11-27", "death")]),
    ("Ada Roe (died about December 1299) was a countess.", [("1299-12", "death")]),
    ("Ada I (reigned 1545–1554) was a queen.", [("1545", None), ("1554", None)]),
    ("She was born in Farnham, Surrey, in 1850. In 1871 she left.", [("1850", "birth"), ("1871", None)]),
    ("He was killed in 1941, while she was deported in 1943.", [("1941", "death"), ("1943", None)]),
    ("The bridge was opened in 1904 and rebuilt later.", [("1904", "opening")]),
    ("Shriro was founded by two brothers in 1906.", [("1906", "founding")]),
    ("Blue is a 1949 French comedy film.", [("1949", "release")]),
    ("I Died Twice is a 1955 American film.", [("1955", "release")]),
    ("Blue was released on May 2, 1999 in Rome.", [("1999-05-02", "release")]),
    ("The tower was completed in May 1889.", [("1889-05", "building")]),
    ("The probe was launched in 2004.", [("2004", "launch")]),
    ("He was born here; in 1999 he left.", [("1999", None)]),
    ("In 1999 it rained.", [("1999", None)]),
    ("No date.", []),
]


@pytest.fixture(scope="module")
def dates() -> duckdb.DuckDBPyConnection:
    """A passage per sentence, which mentions its dates and one entity that is none."""
    passages, mentions, keys = [], [], set()
    for text, _ in SENTENCES:
        passages.append({"passage_id": text, "title": "T", "text": text})
        mentions.append(mention(text, "rain", "", 1, "[[0, 2]]"))
        for date in find_dates(text):
            keys.add(date.key)
            mentions.append(mention(text, date.key, "", 1, json.dumps([[date.start, date.end]])))
    entities = [{"entity_id": key, "key": key, "is_date": key != "rain"} for key in ("rain", *keys)]
    opened = fill(duckdb.connect(), passages=passages, entities=entities, mentions=mentions)
    opened.execute(statement("views", "dates"))
    return opened


@pytest.mark.parametrize(("text", "expected"), SENTENCES, ids=[text for text, _ in SENTENCES])
def test_a_date_has_the_role_that_its_sentence_gives_it(
    dates: duckdb.DuckDBPyConnection, text: str, expected: list[tuple[str, str | None]]
) -> None:
    columns = "value, role, year, precision, stated, start_offset, end_offset"
    query = f"SELECT {columns} FROM dates WHERE passage_id = ? ORDER BY start_offset"
    rows = dates.execute(query, [text]).fetchall()
    assert [row[:2] for row in rows] == expected
    for value, _, year, precision, stated, start, end in rows:
        assert (year, precision) == (int(value[:4]), {4: "year", 7: "month", 10: "day"}[len(value)])
        assert text[start:end] in stated
        assert stated in text
        assert value[:4] in text[start:end]


def surfaces_in(texts: dict[str, str], entities: dict[str, bool], *mentions: Row) -> BipartiteGraph:
    """The names in passages by id, of entities (id: is it named)."""
    connection = fill(
        duckdb.connect(),
        passages=[{"passage_id": passage, "text": text} for passage, text in texts.items()],
        entities=[{"entity_id": entity, "is_named": is_named} for entity, is_named in entities.items()],
        mentions=list(mentions),
    )
    return surface_graph(connection.execute(statement("read", "surfaces")).fetchnumpy(), len(texts))


def as_rows(graph: BipartiteGraph) -> list[dict[str, tuple[float, bool]]]:
    rows: list[dict[str, tuple[float, bool]]] = [{} for _ in range(graph.passage_count)]
    for row, entity, tf, is_title in zip(graph.rows, graph.indices, graph.tf, graph.is_title, strict=True):
        rows[row][graph.keys[entity]] = (float(tf), bool(is_title))
    return rows


def test_every_place_counts_under_its_own_spelling() -> None:
    """p1: title, then two places spelled differently; p2: 𝄞 is one character; p3 mentions nothing."""
    graph = surfaces_in(
        {"p2": "𝄞 Ada met ADA.", "p1": "Lovelace, or Ada King, was here.", "p3": ""},
        {"ada": True, "year": False},
        mention("p1", "ada", "Ada Lovelace", 3, "[[0,8],[13,21]]", is_title=True),
        mention("p2", "ada", "Ada", 2, "[[2,5],[10,13]]"),
        mention("p2", "year", "1815", 1, "[[0,1]]"),
    )
    assert graph.keys == ("ADA", "Ada", "Ada King", "Ada Lovelace", "Lovelace")
    assert as_rows(graph) == [
        {"Ada King": (1, True), "Ada Lovelace": (1, True), "Lovelace": (1, True)},
        {"ADA": (1, False), "Ada": (1, False)},
        {},
    ]


def test_mentions_without_a_place_count_under_the_row_s_spelling() -> None:
    """A title that the text never repeats; an imported name that is not in the text; a lone place that is a title."""
    graph = surfaces_in(
        {"p1": "It is old.", "p2": "rome is old."},
        {"rome": True, "tiber": True},
        mention("p1", "rome", "Rome", 1, "[]", is_title=True),
        mention("p1", "tiber", "Tiber", 4, "[]"),
        mention("p2", "rome", "ROME", 1, "[[0,4]]", is_title=True),
        mention("p2", "tiber", "Tiber", 1, "[]"),
    )
    assert as_rows(graph) == [{"Rome": (1, True), "Tiber": (4, False)}, {"Tiber": (1, False), "rome": (1, True)}]


def test_entities_that_are_written_alike_are_one_spelling() -> None:
    city = mention("p1", "city", "Paris", 1, "[[0,5]]")
    hero = mention("p1", "hero", "Paris", 1, "[[10,15]]", is_title=True)
    assert as_rows(surfaces_in({"p1": "Paris and Paris."}, {"city": True, "hero": True}, city, hero)) == [
        {"Paris": (2, True)}
    ]


def test_an_empty_version_has_no_names() -> None:
    graph = surfaces_in({}, {})
    assert (graph.keys, graph.passage_count, len(graph.indices)) == ((), 0, 0)


def version(folder: Path, **filled: list[Row]) -> VersionFolder:
    made = VersionFolder(folder)
    made.arrays.mkdir(parents=True)
    with duckdb.connect(str(made.tables)) as connection:
        fill(connection, **filled)
    return made


def entity(key: str) -> Row:
    return {"entity_id": f"id of {key}", "key": key, "name": key.title()}


def alias(key: str, target: str) -> Row:
    return {"alias_key": key, "kind": "er", "entity_id": f"id of {target}"}


def relation(source: str, label: str, target: str) -> Row:
    ends = {"source_id": f"id of {source}", "target_id": f"id of {target}"}
    return {"relation_id": f"{source} {label} {target}", "relation": label, **ends}


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> tuple[VersionFolder, VersionFolder]:
    folder = tmp_path_factory.mktemp("versions")
    few = version(
        folder / "few",
        entities=[entity("curie"), entity("paris")],
        aliases=[alias("mme curie", "curie"), alias("curie", "curie")],
        relations=[relation("curie", "lived in", "paris")],
        passages=[{"passage_id": "p", "record_id": "p", "content_hash": "1"}],
    )
    many = version(
        folder / "many",
        entities=[entity("curie"), entity("mme curie"), entity("oslo")],
        relations=[relation("curie", "lived in", "oslo")],
        passages=[{"passage_id": "q", "record_id": "q", "content_hash": "1"}],
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
