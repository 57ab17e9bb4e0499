"""SQL by people: it reads an index and nothing else, says what everything holds, and joins answers of the queue."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from real_index import RealIndex

import polyhop
from polyhop.commands.stores import sql
from polyhop.schemas.errors import ConfigurationError, StatementRejectedError
from polyhop.schemas.queue import FailedQuestion, FinishedQuestion, JobSpec, NewQuestion
from polyhop.schemas.tables import VIEWS
from polyhop.warehouse.open import open_questions
from polyhop.warehouse.queue.queue import QuestionQueue
from polyhop.warehouse.tables.query import Wanted

pytestmark = pytest.mark.slow

PAGES = (
    {"id": "ada", "title": "Ada Lovelace", "text": "Ada Lovelace wrote for Charles Babbage."},
    {"id": "babbage", "title": "Charles Babbage", "text": "Charles Babbage lived in London."},
    {"id": "london", "title": "London", "text": "London lies on the River Thames."},
    {"id": "nobody", "title": "", "text": "it rained all day and nothing else was written down."},
)

Capture = pytest.CaptureFixture[str]
STRATEGIES = ("bm25", "graph", "graph-search")
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


READING = {"by": "model", "kind": "generated", "model": "openai/x", "confidence": 0.75}
PASSAGES = [{"id": "ada", "title": "Ada Lovelace", "score": 2.5, "rank": 1}, {"id": "gone", "score": 1.0, "rank": 2}]
RESULT = {"question": "Who?", "answer": "Ada", "strategy": "bm25", "version": 1, "passages": PASSAGES, "evidence": {}}
RESULT |= {"seconds": {}, "parameters": {}, "index": "small", "limit": 10, "reading": READING}
RESULT |= {"tokens": {"prompt": 90, "completion": 7}, "cost_usd": 0.25}


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
        self.indexed = RealIndex(folder, "small", strategies=STRATEGIES)
        self.indexed.read(PAGES)
        self._answer()
        self.database = self.root / "indexes" / "small" / "versions" / "000001" / "index.duckdb"
        self.paths = {"root": self.root, "own": self.own, "secret": secret, "database": self.database}

    def files(self) -> dict[str, bytes]:
        paths = (Path(parent, name) for parent, _, names in os.walk(self.folder) for name in names)
        return {str(path): path.read_bytes() for path in paths if not path.is_symlink()}

    def _answer(self) -> None:
        """Jobs 1 and 3 are of the index (a done and a dead question each), job 2 is of another."""
        with open_questions(self.indexed.settings) as queue:
            for name in ("small", "other", "small"):
                asked = [NewQuestion("q1", "Who?", answers=["Ada"], supporting=["ada"]), NewQuestion("q2", "When?")]
                queue.submit(JobSpec(name, strategy="bm25"), asked)
                done, dead = queue.claim(["default"], "w")
                queue.finish([FinishedQuestion(done.lease_token, "Ada", 1, "bm25", 0.5, RESULT)])
                queue.fail([FailedQuestion(dead.lease_token, "no word", "EmptyQuestionError", retryable=False)])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("sql"))


@pytest.fixture(scope="module")
def index(place: Place) -> Iterator[polyhop.Index]:
    with polyhop.open_index("small", root=place.root) as opened:
        yield opened


@pytest.mark.parametrize("statement", HOSTILE)
def test_a_hostile_statement_is_refused_in_words_and_changes_no_file(
    index: polyhop.Index, place: Place, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    a_variable = pa.table({"secret": ["of the program"]})
    monkeypatch.chdir(place.own)
    before = place.files()
    for allowed in ([], [place.own]):
        with pytest.raises(StatementRejectedError) as refused:
            index.sql(statement.format(**place.paths), allow_files=allowed)
        said = str(refused.value)
        assert (said.count("\n"), said[-1], "hunter2" in said) == (0, ".", False)
    assert place.files() == before
    assert a_variable.num_rows == 1


@pytest.mark.parametrize("statement", READS_OWN)
def test_own_files_are_read_only_below_the_allowed_folder(index: polyhop.Index, place: Place, statement: str) -> None:
    query = statement.format(**place.paths)
    with pytest.raises(StatementRejectedError, match=r"--allow-files DIR"):
        index.sql(query)
    assert index.sql(query, allow_files=str(place.own)).num_rows == 1
    with pytest.raises(ConfigurationError, match=r"nowhere.* is not a folder"):
        index.sql("SELECT 1", allow_files=[place.folder / "nowhere"])
    assert index.ask("Where did Charles Babbage live?", strategy="bm25").passages, "the open index is as it was"


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("  -- a comment\nWITH p AS (FROM passages) FROM p -- ;", 4),
        ("SELECT 'é;' AS \"ö;\" FROM passages /* ü; */ ; ; -- the end;", 4),
        ("VALUES (1), (2)", 2),
        ("TABLE passages", 4),
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
    ],
)
def test_what_only_reads_goes_on_working(index: polyhop.Index, query: str, rows: int) -> None:
    assert index.sql(query).num_rows == rows


def test_the_command_reads_own_files_below_a_folder(place: Place, capsys: Capture) -> None:
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
    assert (help_ in str(refused.value), "\n" in str(refused.value)) == (True, False)


def test_passages_without_a_mention_are_found_by_the_obvious_query(index: polyhop.Index) -> None:
    obvious = "SELECT passage_id FROM passages WHERE passage_id NOT IN (SELECT passage_id FROM mentions)"
    assert index.sql(obvious).to_pylist() == [{"passage_id": "nobody"}]
    assert index.sql("SELECT count(*) AS n FROM mentions WHERE passage_id <> unit_id").to_pylist() == [{"n": 0}]
    with duckdb.connect(str(index.session.published.tables_file), read_only=True) as plain:
        assert plain.execute(obvious).fetchall() == [("nobody",)]


def test_every_table_view_and_column_is_described_and_there(index: polyhop.Index) -> None:
    without = index.sql(
        "SELECT view_name AS name, '' AS part FROM duckdb_views() WHERE NOT internal AND comment IS NULL UNION ALL "
        "SELECT table_name, '' FROM duckdb_tables() WHERE NOT internal AND comment IS NULL UNION ALL "
        "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal AND comment IS NULL"
    )
    assert without.to_pylist() == []
    column = "table_name = 'neighbours' AND column_name = 'entity'"
    shown = index.sql(f"SELECT comment FROM duckdb_columns() WHERE {column}").to_pylist()
    assert shown == [{"comment": "name of the entity"}]
    names = index.sql("SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY ALL")
    further = ("index_runs", "index_stages", "results", "result_passages")
    assert names.column("view_name").to_pylist() == sorted([*further, *(view.name for view in VIEWS)])
    for view in VIEWS:
        assert index.sql(f"FROM {view.name} LIMIT 0").column_names == [column.name for column in view.columns]


@pytest.mark.parametrize(
    ("values", "row"),
    [
        ("1 AS n, 2 AS n, 3 AS n_1, 4 AS n", {"n": 1, "n_1": 2, "n_1_1": 3, "n_2": 4}),
        ("'-infinity'::date AS v", {"v": "-infinity"}),
        ("'99999-01-01'::date AS v", {"v": "99999-01-01"}),
        ("'infinity'::timestamptz AS v", {"v": "infinity"}),
        ("'2020-01-01 00:00:00.123456789'::timestamp_ns AS v", {"v": "2020-01-01 00:00:00.123456789"}),
        ("{'a': ['infinity'::date]} AS v", {"v": "{'a': [infinity]}"}),
        ("'2020-01-01'::date AS v", {"v": "2020-01-01"}),
        ("'nan'::double AS v", {"v": "nan"}),
    ],
)
def test_every_value_and_column_of_a_result_is_shown(
    index: polyhop.Index, place: Place, capsys: Capture, values: str, row: dict[str, object]
) -> None:
    sql("small", f"SELECT {values}", root=place.root, json=True)
    assert json.loads(capsys.readouterr().out) == [row]
    sql("small", f"SELECT {values}", root=place.root)
    names, cells, _ = capsys.readouterr().out.splitlines()
    assert names.split() == list(row)
    assert cells.strip().startswith(str(next(iter(row.values()))))
    assert [*index.sql(f"SELECT {values}").to_pylist()[0]] == list(row)


def test_columns_are_listed_with_comments_and_what_they_join(place: Place, capsys: Capture) -> None:
    sql("small", "Entities", tables=True, root=place.root, json=True)
    rows = {row["column"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["df"]["comment"] == "passages that mention it"
    joined = rows["entity_id"]["joins_with"].split(", ")
    assert {"mentions.entity_id", "aliases.entity_id", "relations.source_id", "relations.target_id"} <= {*joined}
    assert rows["name"]["joins_with"] == ""
    with pytest.raises(ConfigurationError, match="Unknown table 'entites'; did you mean 'entities'"):
        sql("small", "entites", tables=True, root=place.root)


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """(job, with evidence) of each reading of the queue."""
    seen: list[tuple[int, bool]] = []
    read = QuestionQueue.results

    def noted(queue: QuestionQueue, job_id: int, *arguments: Any, with_evidence: bool = True) -> Any:
        seen.append((job_id, with_evidence))
        return read(queue, job_id, *arguments, with_evidence=with_evidence)

    monkeypatch.setattr(QuestionQueue, "results", noted)
    return seen


def test_an_answer_has_its_reader_tokens_cost_and_gold(index: polyhop.Index) -> None:
    (row,) = index.sql("FROM results WHERE job_id = 1 AND id = 'q1'").to_pylist()
    finished_at = row.pop("finished_at")
    assert finished_at.tzinfo is not None
    texts = {"question": "Who?", "answer": "Ada", "guess": "Ada", "topic": None, "error": None, "error_class": None}
    asked = {"job_id": 1, "id": "q1", "state": "done", "strategy": "bm25", "index": "small", "version": 1}
    gold = {"gold_answers": ["Ada"], "gold_passages": ["ada"], "passage_ids": ["ada", "gone"]}
    read = {"confidence": 0.75, "read_by": "model", "model": "openai/x", "seconds": 0.5, "attempts": 1, "worker": "w"}
    paid = {"prompt_tokens": 90, "completion_tokens": 7, "cost_usd": 0.25}
    assert row == texts | asked | gold | read | paid


def test_answers_of_the_index_join_their_passages_also_those_that_are_gone(index: polyhop.Index) -> None:
    query = (
        "SELECT r.answer, p.rank, p.passage_id, p.title, t.text FROM results AS r "
        "JOIN result_passages AS p USING (job_id, id) LEFT JOIN passages AS t USING (passage_id) "
        "WHERE job_id = 3 ORDER BY rank"
    )
    assert [tuple(row.values()) for row in index.sql(query).to_pylist()] == [
        ("Ada", 1, "ada", "Ada Lovelace", "Ada Lovelace wrote for Charles Babbage."),
        ("Ada", 2, "gone", None, None),
    ]
    states = index.sql("SELECT job_id, state, error_class FROM results ORDER BY ALL").to_pylist()
    of_job = (("dead", "EmptyQuestionError"), ("done", None))
    assert [tuple(row.values()) for row in states] == [(job, *state) for job in (1, 3) for state in of_job]
    found = index.sql("PIVOT (SELECT job_id, state FROM results) ON state USING count(*) ORDER BY job_id")
    assert found.to_pylist() == [{"job_id": job, "dead": 1, "done": 1} for job in (1, 3)]


@pytest.mark.parametrize(
    ("query", "read"),
    [
        ("SELECT count(*) FROM passages", []),
        ("SELECT comment FROM duckdb_views() WHERE view_name LIKE 'res%'", []),
        ("SELECT count(*) FROM results", [(1, False), (3, False)]),
        ("SELECT answer FROM results WHERE job_id = 3", [(3, False)]),
        ("SELECT answer, cost_usd FROM results WHERE job_id = 3", [(3, True)]),
        ("FROM results WHERE job_id IN (3, 4) AND state = 'done'", [(3, True)]),
        ("WITH r AS (FROM results) SELECT id FROM r WHERE job_id = 1", [(1, False)]),
        ("SELECT id FROM results WHERE job_id = 1 OR id = 'q1'", [(1, False), (3, False)]),
        ("SELECT id FROM results WHERE answer = ') AND (job_id = 1'", [(1, False), (3, False)]),
        ("SELECT 1 AS my_results", []),
        ("SELECT a.id FROM results a, results b WHERE a.job_id = 1", [(1, False), (3, False)]),
        ("SELECT max(run), max(job_id) FROM results, index_runs WHERE job_id = 3", [(3, False)]),
        ("SELECT score FROM result_passages WHERE job_id = 3", [(3, True)]),
        ("SELECT id FROM results WHERE job_id > 1 LIMIT 1", [(1, False), (3, False)]),
    ],
)
def test_a_query_reads_what_it_asks_for(
    index: polyhop.Index, readings: list[tuple[int, bool]], query: str, read: list[tuple[int, bool]]
) -> None:
    index.sql(query)
    assert readings == read


@pytest.mark.parametrize(
    "condition",
    [
        "job_id = 1",
        "job_id IN (1, 3)",
        "job_id = 1 AND id = 'q1'",
        "job_id = 1 OR id = 'q1'",
        "NOT (job_id = 1)",
        "(job_id = 1) IS DISTINCT FROM (id = 'q1')",
        "job_id = 1 AND (job_id = 1 OR job_id = 3)",
        "CASE WHEN job_id = 1 THEN id = 'q1' ELSE true END",
        "job_id = (SELECT max(job_id) FROM results)",
        "answer = '(job_id = 1)'",
    ],
)
def test_rows_are_those_of_reading_all(index: polyhop.Index, monkeypatch: pytest.MonkeyPatch, condition: str) -> None:
    query = f"SELECT job_id, id, confidence FROM results WHERE {condition} ORDER BY ALL"
    found = index.sql(query).to_pylist()
    monkeypatch.setattr("polyhop.warehouse.tables.query.wanted", lambda *_: Wanted())
    assert found == index.sql(query).to_pylist()


def test_a_statement_that_writes_is_refused_before_the_queue_is_read(
    index: polyhop.Index, readings: list[tuple[int, bool]], tmp_path: Path
) -> None:
    for query in ("SELECT 1 FROM results; COPY (SELECT 1) TO '{0}'", "COPY (FROM results) TO '{0}'"):
        with pytest.raises(StatementRejectedError):
            index.sql(query.format(tmp_path / "new.csv"))
    assert list(tmp_path.iterdir()) == []
    assert readings == []


@pytest.mark.parametrize("value", ["interval 1 day", "[interval 1 day]", "{'a': interval 1 day}"])
def test_an_interval_is_text(index: polyhop.Index, value: str) -> None:
    (row,) = index.sql(f"SELECT {value} AS x").to_pylist()
    assert "1 day" in row["x"]
