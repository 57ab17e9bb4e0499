"""SQL by people reads an index and nothing else: statements of an attacker leave every file as it is."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import polyhop
from polyhop.commands.stores import sql
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import ConfigurationError, StatementRejectedError
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings

pytestmark = pytest.mark.slow

PAGES = (
    {"id": "ada", "title": "Ada Lovelace", "text": "Ada Lovelace wrote for Charles Babbage."},
    {"id": "babbage", "title": "Charles Babbage", "text": "Charles Babbage lived in London."},
    {"id": "london", "title": "London", "text": "London lies on the River Thames."},
)
HOSTILE = (
    "COPY (SELECT 999) TO '{root}/indexes/small/CURRENT'",
    "COPY (SELECT 999) TO '{database}'",
    "COPY (SELECT 999) TO '{database}' (USE_TMP_FILE false)",
    "COPY (SELECT 999) TO '{own}/new.csv'",
    "COPY (SELECT 999) TO '{own}/new.parquet' (FORMAT parquet)",
    "COPY passages FROM '{own}/towns.csv'",
    'COPY FROM DATABASE "index" TO memory',
    "WITH x AS (COPY (SELECT 1) TO '{own}/new.csv') SELECT 1",
    "WITH x AS (COPY (SELECT 1) TO '{database}' (USE_TMP_FILE false)) SELECT 1",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{own}/new.csv'",
    "EXPLAIN ANALYZE WITH x AS (COPY (SELECT 1) TO '{own}/new.csv') SELECT 1",
    "EXPLAIN (ANALYZE, FORMAT json) COPY (SELECT 1) TO '{own}/new.csv'",
    "/* /* */ EXPLAIN SELECT 1 -- */ EXPLAIN ANALYZE COPY (SELECT 1) TO '{own}/new.csv'",
    "WITH x AS (COPY (SELECT 1) TO '{own}/new.csv') PIVOT mentions ON extractor USING sum(tf)",
    "SELECT 1; COPY (SELECT 1) TO '{own}/new.csv'",
    "SELECT 1 /* ; */ ; -- ;\nCOPY (SELECT 1) TO '{own}/new.csv' --",
    "SELECT 1) TO '{own}/new.csv'; COPY (SELECT 1",
    "PREPARE x AS COPY (SELECT 1) TO '{own}/new.csv'; EXECUTE x",
    "EXECUTE x",
    "FROM query('COPY (SELECT 1) TO ''{own}/new.csv''')",
    "FROM query('WITH x AS (COPY (SELECT 1) TO ''{own}/new.csv'') SELECT 1')",
    "CALL enable_logging(storage = 'file', storage_path = '{own}/logs')",
    "FROM enable_logging('QueryLog', storage = 'file', storage_path = '{own}/logs')",
    "FROM enable_profiling(save_location = '{own}/profile.json')",
    "PRAGMA enable_profiling",
    "EXPORT DATABASE '{own}/export'",
    "IMPORT DATABASE '{own}/script'",
    "PRAGMA import_database('{own}/script')",
    "ATTACH '{own}/new.duckdb' AS new",
    "ATTACH ':memory:' AS new",
    "ATTACH '{database}' AS again",
    'DETACH "index"',
    "USE memory",
    "INSTALL httpfs",
    "FORCE INSTALL httpfs FROM community",
    "LOAD httpfs",
    "UPDATE EXTENSIONS",
    "CREATE SECRET (TYPE s3, KEY_ID 'a', SECRET 'b')",
    "CREATE PERSISTENT SECRET (TYPE s3, KEY_ID 'a', SECRET 'b')",
    "CREATE TABLE new AS SELECT 1",
    "CREATE TABLE memory.new AS SELECT 1",
    "CREATE TEMP TABLE new AS SELECT 1",
    "CREATE OR REPLACE TEMP VIEW passages AS SELECT 1",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "SET disabled_filesystems = ''",
    "SET temp_directory = '{own}/spill'",
    "RESET enable_external_access",
    "DELETE FROM passages",
    "INSERT INTO passages (passage_id) VALUES ('x')",
    "WITH x AS (DELETE FROM passages RETURNING *) FROM x",
    "DROP TABLE passages",
    "CHECKPOINT",
    "VACUUM",
    "BEGIN TRANSACTION",
    "FROM read_text('{secret}/password.csv')",
    "FROM read_blob('{root}/indexes/small/CURRENT')",
    "FROM read_blob('{secret}/password.csv')",
    "FROM read_csv('{secret}/password.csv')",
    "FROM \"read_csv\"('{secret}/password.csv')",
    "FROM '{secret}/password.csv'",
    "FROM read_json('{secret}/password.csv')",
    "FROM sniff_csv('{secret}/password.csv')",
    "FROM glob('{root}/*')",
    "FROM glob('{secret}/*')",
    "FROM glob('/*')",
    "FROM read_text('/proc/self/environ')",
    "FROM '{own}/link.csv'",
    "FROM '{own}/linked/password.csv'",
    "FROM '{own}/../secret/password.csv'",
    "FROM read_text(['{own}/towns.csv', '{secret}/password.csv'])",
    "FROM 'https://127.0.0.1:9/x.csv'",
    "SELECT '\udcff'",
    "FROM a_variable",
    "FROM HOSTILE",
)
"""Statements that must be refused, without and with a folder of one's own."""
READS_OWN = ("FROM '{own}/towns.csv'", "FROM read_text('{own}/towns.csv')", "FROM glob('{own}/t*')")


class Place:
    """An index, a folder of a person's own files, and one that holds a secret."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root, self.own = folder, folder / "root", folder / "own"
        secret = folder / "secret"
        for path in (self.own / "script", secret):
            path.mkdir(parents=True)
        (secret / "password.csv").write_text("name,password\nada,hunter2\n")
        (self.own / "towns.csv").write_text("town\nLondon\n")
        (self.own / "script" / "schema.sql").write_text(f"COPY (SELECT 1) TO '{self.own}/new.csv';")
        (self.own / "script" / "load.sql").write_text("")
        (self.own / "link.csv").symlink_to(secret / "password.csv")
        (self.own / "linked").symlink_to(secret)
        corpus = folder / "corpus.jsonl"
        corpus.write_text("".join(json.dumps(page) + "\n" for page in PAGES), encoding="utf-8")
        run_index(Settings(root=self.root, strategies=("bm25",)), IndexRequest("small", corpus), DirectRunner())
        self.database = self.root / "indexes" / "small" / "versions" / "000001" / "index.duckdb"
        self.paths = {"root": self.root, "own": self.own, "secret": secret, "database": self.database}

    def files(self) -> dict[str, bytes]:
        """Every file below the folder, links not followed."""
        return {
            str(Path(parent, name)): Path(parent, name).read_bytes()
            for parent, _, names in os.walk(self.folder)
            for name in names
            if not Path(parent, name).is_symlink()
        }


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("sandbox"))


@pytest.fixture(scope="module")
def index(place: Place) -> Iterator[polyhop.Index]:
    with polyhop.open_index("small", root=place.root) as opened:
        yield opened


@pytest.mark.parametrize("allow", [False, True], ids=["no files", "own files"])
@pytest.mark.parametrize("statement", HOSTILE)
def test_a_hostile_statement_is_refused_in_words_and_changes_no_file(
    index: polyhop.Index, place: Place, monkeypatch: pytest.MonkeyPatch, statement: str, allow: bool
) -> None:
    a_variable = pa.table({"secret": ["of the program"]})
    monkeypatch.chdir(place.own)
    before = place.files()
    with pytest.raises(StatementRejectedError) as refused:
        index.sql(statement.format(**place.paths), allow_files=[place.own] if allow else [])
    assert place.files() == before
    assert str(refused.value).count("\n") == 0
    assert str(refused.value).endswith(".")
    assert "hunter2" not in str(refused.value)
    assert a_variable.num_rows == 1


@pytest.mark.parametrize("statement", READS_OWN)
def test_own_files_are_read_only_below_the_folder_that_was_allowed(
    index: polyhop.Index, place: Place, statement: str
) -> None:
    query = statement.format(**place.paths)
    with pytest.raises(StatementRejectedError, match=r"--allow-files DIR"):
        index.sql(query)
    assert index.sql(query, allow_files=str(place.own)).num_rows == 1


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT passage_id FROM passages ORDER BY passage_id DESC", 3),
        ("  -- a comment\nWITH p AS (FROM passages) FROM p -- ;", 3),
        ("FROM passages;", 3),
        ("SELECT 'é;' AS \"ö;\" FROM passages /* ü; */ ; ; -- the end;", 3),
        ("VALUES (1), (2)", 2),
        ("TABLE passages", 3),
        ("DESCRIBE passages", 10),
        ("SUMMARIZE passages", 10),
        ("PRAGMA table_info('passages')", 10),
        ("EXPLAIN FROM passages", 1),
        ("EXPLAIN ANALYZE SELECT count(*) FROM passages", 1),
        ("EXPLAIN (FORMAT json) FROM passages", 1),
        ("PIVOT mentions ON extractor USING sum(tf) GROUP BY level", 1),
        ("FROM query('SELECT 1')", 1),
        ('SELECT count(*) FROM "index".passages', 1),
        ("SELECT * FROM stages WHERE what = 'records'", 1),
        ("SELECT count(*) FROM results", 1),
    ],
)
def test_what_only_reads_goes_on_working(index: polyhop.Index, query: str, rows: int) -> None:
    assert index.sql(query).num_rows == rows


def test_rows_come_in_the_order_that_was_asked_for(index: polyhop.Index) -> None:
    found = index.sql("SELECT passage_id FROM passages ORDER BY passage_id DESC")
    assert found.column("passage_id").to_pylist() == ["london", "babbage", "ada"]


def test_a_locked_query_leaves_the_open_index_and_later_queries_as_they_were(
    index: polyhop.Index, place: Place
) -> None:
    index.sql("FROM passages")
    assert index.sql(f"FROM '{place.own}/towns.csv'", allow_files=[place.own]).to_pylist() == [{"town": "London"}]
    assert index.ask("Where did Charles Babbage live?", strategy="bm25").passages


def test_a_folder_that_is_missing_is_not_allowed(index: polyhop.Index, place: Place) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere.* is not a folder"):
        index.sql("SELECT 1", allow_files=[place.folder / "nowhere"])


def test_the_command_reads_own_files_below_a_folder(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    query = f"SELECT town, passage_id FROM '{place.own}/towns.csv' JOIN passages ON title = town"
    sql("small", query, allow_files=[place.own], root=place.root, json=True)
    assert json.loads(capsys.readouterr().out) == [{"town": "London", "passage_id": "london"}]


@pytest.mark.parametrize(
    ("query", "help_"),
    [
        ("SELECT titel FROM passages", 'Candidate bindings: "title"'),
        ("FROM pasages", 'Did you mean "passages"?'),
        ("SELECT lenght(text) FROM passages", 'Did you mean "length"?'),
    ],
)
def test_a_refusal_keeps_what_duckdb_suggests(index: polyhop.Index, query: str, help_: str) -> None:
    with pytest.raises(StatementRejectedError) as refused:
        index.sql(query)
    assert help_ in str(refused.value)
    assert "\n" not in str(refused.value)
