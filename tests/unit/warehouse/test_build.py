"""A version in the making and published: lists in batches, rows that come and go, artefacts, and damage refused."""

import gc
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import methodcaller
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from real_index import RealIndex

from polyhop.schemas.errors import DamagedStoreError, InvariantError, MissingArtefactError, StatementRejectedError
from polyhop.schemas.graph import BipartiteGraph
from polyhop.schemas.ports import Artefact, Stored
from polyhop.schemas.settings import Settings
from polyhop.schemas.tables import ENTITIES, RELATION_SOURCES, RELATIONS
from polyhop.tasks.publish.publish import check_invariants
from polyhop.tasks.stage import Stage
from polyhop.warehouse import build as builds
from polyhop.warehouse.artefacts import GRAPH, SURFACES, ArrayFolder, lexical_of, open_array, save_arrays, save_graph
from polyhop.warehouse.build import Build, replace_rows, start_build, touched_ids, updated_tables
from polyhop.warehouse.files.disk import file_checksum
from polyhop.warehouse.index_reader import PublishedIndex
from polyhop.warehouse.open import open_published
from polyhop.warehouse.statements import statements
from polyhop.warehouse.tables.connection import connect, create_statement, table_record

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
COUNT = 40
FIRST = "relation_id = 'r000'"
ROWS = "SELECT 'r' || lpad(i::VARCHAR, 3, '0'), 's', 't', 'near', 'near', i, {}, 'rules' FROM range({}) AS x(i)"
RECORDS = [
    {"id": "b", "title": "Rome", "text": "Rome lies on the Tiber."},
    {"id": "a", "title": "Tiber", "text": "The Tiber flows through Rome."},
]
FIX = r"fix it with: polyhop verify --index towns --repair$"


def table(*numbers: int) -> pa.Table:
    return pa.Table.from_pydict({"n": list(numbers), "text": [f"t{n}" for n in numbers]}, schema=SCHEMA)


@pytest.mark.parametrize("batches", [[table(1, 2, 3), table(4), table(5, 6)], []], ids=["three", "none"])
def test_every_batch_comes_back_as_it_was(tmp_path: Path, batches: list[pa.Table]) -> None:
    path = tmp_path / "new" / "list.parquet"
    builds.write_batches(path, SCHEMA, iter(batches))
    assert (builds.batch_count(path), builds.row_count(path)) == (len(batches), sum(len(one) for one in batches))
    assert [builds.read_batch(path, number).equals(one) for number, one in enumerate(batches)] == [True] * len(batches)


def test_a_list_that_breaks_off_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "list.parquet"

    def broken() -> Iterator[pa.Table]:
        yield table(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        builds.write_batches(path, SCHEMA, broken())
    assert not path.exists()


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """After a version with relations in order, a table that nobody fills any more, and a view."""
    made = Build(Settings(root=tmp_path), "one", None, ())
    (published := made.folder.version(1)).path.mkdir(parents=True)
    with connect(published.tables, read_only=False) as connection:
        connection.execute(create_statement(RELATIONS))
        connection.execute(f"INSERT INTO relations {ROWS.format('NULL', COUNT)}")
        connection.execute("CREATE TABLE summaries (id VARCHAR)")
        connection.execute("CREATE VIEW counted AS SELECT count(*) AS n FROM relations")
        records = {"relations": table_record(connection, "relations")}
    start_build(made := replace(made, earlier=builds.Earlier(1, frozenset(), records=records)), updated=[RELATIONS])
    return made


@pytest.fixture
def connection(build: Build) -> Iterator[duckdb.DuckDBPyConnection]:
    with build.tables() as connection:
        yield connection


def test_a_copy_has_tables_asked_for_beside_empty_ones(connection: duckdb.DuckDBPyConnection, build: Build) -> None:
    assert connection.execute("SELECT count(*) FROM relations").fetchone() == (COUNT,)
    assert connection.execute("FROM relation_sources").fetchall() == []
    names = {row[0] for row in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    assert {ENTITIES.name, RELATION_SOURCES.name} <= names == names - {"summaries"}
    assert not connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    assert not list(build.staging.path.glob("*.wal"))


@pytest.mark.parametrize("most", [0.0, 1.0])
def test_rows_that_differ_are_replaced_and_the_checksum_is_that_of_the_table(
    build: Build, connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, most: float
) -> None:
    monkeypatch.setattr("polyhop.warehouse.build.MOST_APPENDED", most)
    rows = ROWS.format("CASE i WHEN 1 THEN 0.5 END", 3)  # r000 goes, r001 gets a confidence, r002 stays, r900 comes
    new = "UNION ALL SELECT 'r900', 's', 't', 'far', 'far', 1, NULL, 'rules'"
    replace_rows(build, connection, RELATIONS, f"{rows} WHERE i > 0 {new};", "relation_id < 'r003'")
    note = updated_tables(build)["relations"]
    assert note.record == table_record(connection, "relations")
    assert (note.record.rows, note.appended) == (COUNT, 2 if most else 0)
    in_order = connection.execute("SELECT relation_id FROM relations ORDER BY relation_id").fetchall()
    assert (in_order[0], in_order[-1]) == (("r001",), ("r900",))
    assert connection.execute("SELECT confidence FROM relations WHERE relation_id = 'r001'").fetchone() == (0.5,)
    as_stored = connection.execute("SELECT relation_id FROM relations").fetchall()
    assert (as_stored == in_order, as_stored[0]) == (not most, ("r002",) if most else ("r001",))


def test_minus_zero_is_another_value(build: Build, connection: duckdb.DuckDBPyConnection) -> None:
    for confidence in ("0.0", "-0.0"):
        replace_rows(build, connection, RELATIONS, ROWS.format(f"{confidence}::DOUBLE", 1), FIRST)
    shown = connection.execute(f"SELECT confidence::VARCHAR FROM relations WHERE {FIRST}").fetchone()
    assert shown == ("-0.0",)


def test_invariants_are_checked_of_ids_that_came_or_went(build: Build, connection: duckdb.DuckDBPyConnection) -> None:
    """No relation here has a source, and all have the same ends, which are no entities."""
    laws, stage = statements("text_invariants") | statements("entity_invariants"), Stage()
    replace_rows(build, connection, RELATIONS, ROWS.format("0.5::DOUBLE", 1), FIRST)
    for law, few, many in (("relation_without_source", 1, COUNT), ("relation_without_entity", 2 * COUNT, 2 * COUNT)):
        stage.invariants = {law: laws[law]}
        for tables, count in (([RELATIONS], few), ([RELATIONS, ENTITIES], many)):
            with pytest.raises(InvariantError, match=f"{count} rows .*{law}.*r000"):
                check_invariants(connection, [stage], [], touched_ids(build, tables))


@pytest.mark.parametrize("outdated", [FIRST, "false"])
def test_a_key_of_another_row_is_refused(build: Build, connection: duckdb.DuckDBPyConnection, outdated: str) -> None:
    row = "SELECT 'r005', 's', 't', 'far', 'far', 1, NULL, 'rules'"
    with pytest.raises(InvariantError, match="table 'relations' would have 1 rows with a used key"):
        replace_rows(build, connection, RELATIONS, row, outdated)


def test_a_stage_that_derives_all_rows_begins_with_none_as_does_a_run_after_a_killed_one(build: Build) -> None:
    with build.tables() as connection:
        replace_rows(build, connection, RELATIONS, ROWS.format("NULL", 1), FIRST)
        builds.clear_tables(build, connection, [RELATIONS])
        assert connection.execute("SELECT count(*) FROM relations").fetchone() == (0,)
    assert not updated_tables(build)
    start_build(build, updated=[RELATIONS])
    assert updated_tables(build)
    start_build(build)
    assert not updated_tables(build)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with an index built for the strategy `graph`: the graph, and postings of plain words."""
    index = RealIndex(tmp_path_factory.mktemp("artefacts"), "towns", strategies=("graph",))
    index.read(RECORDS)
    return index.root


@pytest.fixture
def index(root: Path) -> Iterator[PublishedIndex]:
    opened = open_published(root, "towns")
    yield opened
    opened.close()


def test_arrays_lists_rows_columns_and_settings_can_be_read(index: PublishedIndex) -> None:
    def read(function: Callable[[Stored], Any]) -> Any:
        return index.artefact(Artefact("graph", function))

    assert read(lambda stored: stored.array("lexical-plain", "lengths").tolist()) == [6, 6]
    words = ["flows", "lies", "on", "rome", "the", "through", "tiber"]
    assert read(lambda stored: stored.lines("lexical-plain", "terms")) == words
    title = "SELECT title FROM passages WHERE passage_id = $id"
    assert read(lambda stored: stored.rows(title, {"id": "b"})) == [("Rome",)]
    columns = read(lambda stored: stored.columns("SELECT key, is_named FROM entities ORDER BY key"))
    found = {name: column.tolist() for name, column in columns.items()}
    assert found == {"key": ["rome", "tiber"], "is_named": [True, True]}
    assert read(lambda stored: stored.settings["extraction"]["ner"]) == "rules"
    with pytest.raises(MissingArtefactError, match=r"'hubs'.*--index towns --add-strategy hublink"):
        read(lambda stored: stored.artefact(Artefact("hubs", str, "hublink")))


def test_a_value_that_could_not_be_opened_is_tried_again(index: PublishedIndex) -> None:
    replies = [[], ["opened"]]
    flaky = Artefact("graph", lambda _: replies.pop(0)[0])
    with pytest.raises(IndexError):
        index.artefact(flaky)
    assert index.artefact(flaky) == index.artefact(flaky) == "opened"


def test_neither_tables_nor_arrays_can_be_written(index: PublishedIndex) -> None:
    for sql in ("DELETE FROM passages", "CREATE TABLE more (a INT)", "SELECT nothing FROM nowhere"):
        for method in ("rows", "columns"):
            with pytest.raises(StatementRejectedError, match="DuckDB refused a statement"):
                index.artefact(Artefact("graph", methodcaller(method, sql)))
    with pytest.raises(ValueError, match="read-only"):
        index.artefact(lexical_of("plain")).lengths[0] = 7


def test_closing_lets_go_of_everything_that_was_opened(root: Path) -> None:
    index = open_published(root, "towns")
    held = [weakref.ref(index.artefact(one)) for one in (GRAPH, SURFACES, lexical_of("plain"))]
    array = weakref.ref(index.artefact(lexical_of("plain")).lengths)
    assert index.number_of_passage == {"a": 0, "b": 1}
    assert all(one() is not None for one in (*held, array))
    index.close()
    gc.collect()
    assert [one() for one in (*held, array)] == [None] * 4


def test_damage_of_one_artefact_does_not_touch_another(root: Path, index: PublishedIndex) -> None:
    path = index.tables_file.parent / "graph" / "bipartite_tf.npy"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    try:
        with pytest.raises(DamagedStoreError, match=r"bipartite_tf.npy is damaged \(its checksum"):
            index.artefact(GRAPH)
        assert np.sum(index.artefact(lexical_of("plain")).lengths) == 12
    finally:
        path.write_bytes(whole)
    assert index.artefact(GRAPH).keys == ("rome", "tiber")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Arrays of a graph, and a list of terms beside an array; whole."""
    folder = tmp_path / "indexes" / "towns" / "versions" / "000001" / "graph"
    folder.mkdir(parents=True)
    save_arrays(folder, "bipartite", {"indptr": np.array([0, 2, 2, 3]), "tf": np.ones(3)})
    save_arrays(folder, "lexical-stems", {"lengths": np.full(3, 5, np.int32)})
    (folder / "lexical-stems_terms.txt").write_text("river\ntown", encoding="utf-8")
    return folder


@pytest.fixture
def checksums(folder: Path) -> dict[str, str]:
    return {file.name: file_checksum(file) for file in folder.iterdir()}


def test_a_missing_file_is_named(folder: Path, checksums: dict[str, str]) -> None:
    for arrays in (ArrayFolder(folder, checksums), ArrayFolder(folder, {})):
        assert arrays.array("bipartite", "indptr").tolist() == [0, 2, 2, 3]
        assert arrays.lines("lexical-stems", "terms") == ["river", "town"]
    (folder / "bipartite_tf.npy").unlink()
    with pytest.raises(DamagedStoreError, match=r"bipartite_tf.npy is damaged \(it is missing\); " + FIX):
        ArrayFolder(folder, checksums).array("bipartite", "indptr")
    (folder / "lexical-stems_terms.txt").unlink()
    with pytest.raises(DamagedStoreError, match=r"lexical-stems_terms.txt is damaged .*" + FIX):
        ArrayFolder(folder, {}).lines("lexical-stems", "terms")
    for content in (b"", b"\x93NUMPY", b"\x93NUMPY\x01\x00\x10\x00{'descr': (((((   \n", b"x" * 200):
        (folder / "bipartite_indptr.npy").write_bytes(content)
        with pytest.raises(DamagedStoreError, match=FIX):
            open_array(folder, "bipartite_indptr")


@pytest.mark.parametrize(
    ("keys", "asked"), [(("a", "b"), 0), (("a\nb", "c"), 1), (("a\r", "b"), 0), (("a", "b\r\n"), 1)]
)
def test_the_graph_of_a_large_version_comes_back(tmp_path: Path, keys: tuple[str, str], asked: int) -> None:
    """Edges by entity beside those by passage, counts above 255; keys with line breaks are read from the tables."""
    counts, is_title = np.array([1.0, 300.0, 2.0]), np.array([True, False, True])
    edges = np.array([0, 1, 3]), np.array([1, 0, 1], np.int32), counts, is_title
    save_graph(tmp_path, edges, keys)
    columns = Mock(return_value={"key": np.array(keys, object)})
    stored: Any = SimpleNamespace(
        array=lambda prefix, name: open_array(tmp_path, f"{prefix}_{name}"),
        has_array=lambda _, name: (tmp_path / f"bipartite_{name}.npy").is_file(),
        lines=ArrayFolder(tmp_path, {}).lines,
        columns=columns,
    )
    found = GRAPH.open(stored)
    assert (found.keys, columns.call_count) == (keys, asked)
    assert [array.tolist() for array in (found.tf, found.df)] == [[1.0, 300.0, 2.0], [1, 2]]
    by_entity = [[0, 1, 3], [1, 0, 1], [300.0, 1.0, 2.0], [False, True, True]]
    assert [array.tolist() for array in found.by_entity] == by_entity
    assert [array.tolist() for array in BipartiteGraph(*edges, keys).by_entity] == by_entity


def test_every_file_of_a_prefix_is_compared_before_one_is_opened(folder: Path, checksums: dict[str, str]) -> None:
    """Also those that this value is not read from: an artefact is whole, or it is not opened."""
    np.save(folder / "lexical-stems_lengths.npy", np.full(3, 6, np.int32))
    arrays = ArrayFolder(folder, checksums)
    arrays.array("bipartite", "indptr")
    for _ in range(2):
        with pytest.raises(DamagedStoreError, match=r"stems_lengths.npy .*its checksum is not the published one"):
            arrays.lines("lexical-stems", "terms")
