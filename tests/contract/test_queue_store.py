"""A queue's database: urls, tables, migrations, statements; and what is said of rows or pages that are damaged."""

import re
import socket
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy.exc
from psycopg import errors
from queue_parts import SPEC, finished, questions
from sqlalchemy import text

from polyhop.schemas import errors as ours
from polyhop.schemas.errors import StatementRejectedError, StoreError, StoreUnavailableError
from polyhop.warehouse.queue import schema as migrations
from polyhop.warehouse.queue.queue import QuestionQueue, examine_queue, open_queue
from polyhop.warehouse.queue.schema import SQL_FOLDER, Transaction, connect, sqlite_url, statement, transact
from polyhop.warehouse.statements import read_statements

pytestmark = pytest.mark.slow

NAMES = [f"{path.stem}.{name}" for path in sorted(SQL_FOLDER.glob("*.sql")) for name in read_statements(path)]
NUMBERS = re.compile(
    r"numbers|job_ids|number|job_id|limit|after|last|count|version|process_id|with_evidence"
    r"|.*(_limit|_number|_count|_attempts|ordinal|priority)"
)
TIMES = re.compile(r"now|before|since|min_confidence|.*(_at|_until|_since|seconds)")

OPEN_AND_SUBMIT = """
with open_queue(sys.argv[1]) as queue:
    queue.submit(JobSpec("wiki"), [NewQuestion("a", "Why?")])
"""
OWN = [(4, "0004_first")]
Open = Callable[..., QuestionQueue]
BUSY, FULL = sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL


def versions(queue: QuestionQueue) -> list[Any]:
    return queue.run(lambda tx: [*tx.connection.execute(text("SELECT version, name FROM schema_migrations"))])


@pytest.mark.rare
def test_processes_at_once_make_the_tables_once(open_one: Open, url: str, start_python: Any) -> None:
    processes = [start_python(OPEN_AND_SUBMIT, url) for _ in range(4)]
    assert [process.communicate(timeout=120)[1] for process in processes] == [""] * 4
    queue = open_one()
    assert (versions(queue), [job.job_id for job in queue.jobs()]) == (OWN, [4, 3, 2, 1])


def test_a_process_waits_while_another_makes_the_tables(open_one: Open, url: str) -> None:
    database, is_made = connect(url, 30), threading.Event()

    def make_tables(tx: Transaction) -> None:
        migrations._apply(tx)
        is_made.set()
        time.sleep(0.5)

    first = threading.Thread(target=transact, args=(database, 30, make_tables))
    first.start()
    assert is_made.wait(30)
    assert versions(open_one()) == OWN
    first.join()
    database.engine.dispose()


def test_a_later_version_is_applied_as_a_whole(open_one: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    known, fifth = migrations.migrations(), tmp_path / "0005_bad.sql"
    queue = open_one()
    queue.submit(SPEC, questions(2))
    monkeypatch.setattr(migrations, "migrations", lambda: {**known, 5: fifth})
    note = "-- name: note\n-- A column more.\nALTER TABLE jobs ADD COLUMN note TEXT;\n"
    fifth.write_text(note + "-- name: bad\nALTER TABLE nothing ADD COLUMN x TEXT;\n")
    with pytest.raises(StoreError):
        open_one()
    assert versions(queue) == OWN
    fifth = tmp_path / "0005_good.sql"
    fifth.write_text(note)
    later = open_one()
    assert versions(later) == [*OWN, (5, "0005_good")]
    assert queue.job(1).question_count == later.job(1).question_count == 2


def test_a_queue_of_a_newer_polyhop_is_refused(open_one: Open) -> None:
    queue = open_one()
    queue.run(lambda tx: tx.run("migrate.add_migration", version=99, name="0099_future", now=tx.now))
    with pytest.raises(
        ours.ManifestMismatchError, match="version 99, newer than version 4 of this Polyhop; upgrade Polyhop"
    ):
        open_one()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nonsense", r"^The queue's url is malformed; it looks like sqlite:///FILE or postgresql://…$"),
        ("mysql://localhost/x", "not on 'mysql'"),
        ("sqlite://", "needs a SQLite file"),
        ("sqlite:///:memory:", "needs a SQLite file"),
    ],
)
def test_urls_that_cannot_work_are_refused(url: str, words: str) -> None:
    with pytest.raises(ours.ConfigurationError, match=words):
        open_queue(url)


def test_an_odd_path_is_found_again_and_a_file_that_is_no_queue_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "a b?c#d%20ü" / "queue.sqlite"
    open_queue(sqlite_url(path)).close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    path.write_bytes(b"these are my notes, not a database" * 100)
    with pytest.raises(StoreError, match=r"not a database; stop its workers, then restore it .*, or move it away"):
        open_queue(sqlite_url(path))
    assert path.read_bytes().startswith(b"these are my notes")
    with pytest.raises(StoreError, match="a file is where a folder is needed"):
        open_queue(sqlite_url(path / "queue.sqlite"))


@pytest.mark.rare
def test_a_port_that_nobody_listens_at_is_waited_for_a_moment_and_it_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = time.monotonic()
    with pytest.raises(StoreUnavailableError, match=r"Connection refused\); try again later"):
        open_queue(f"postgresql://ada:hidden@127.0.0.1:{port}/queue", patience_seconds=60)
    assert time.monotonic() - started < 10
    [said] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said.startswith(f"waiting up to 5 s for the question queue postgresql://ada:***@127.0.0.1:{port}/queue: ")


def plan(queue: QuestionQueue, name: str) -> str:
    """The database's own plan for a statement with values of the right types."""
    clause = statement(name, row_locks=queue._database.row_locks)
    values = {}
    for key, bind in clause._bindparams.items():
        value = 1.5 if TIMES.fullmatch(key) else 1 if NUMBERS.fullmatch(key) else "x"
        values[key] = [value, value] if bind.expanding else value
    explain = "EXPLAIN " if queue._database.row_locks else "EXPLAIN QUERY PLAN "
    explained = text(explain + clause.text).bindparams(*(b for b in clause._bindparams.values() if b.expanding))
    return "\n".join(str(row) for row in queue.run(lambda tx: tx.connection.execute(explained, values).all()))


def test_the_database_accepts_every_statement(queue: QuestionQueue) -> None:
    for name in NAMES:
        other = "sqlite." if queue._database.row_locks else "postgresql."
        if name != "migrate.create_migrations" and not name.startswith(other):
            plan(queue, name)


def test_frequent_statements_use_their_index_and_do_not_sort(queue: QuestionQueue) -> None:
    queue.submit(SPEC, questions(5_000))
    for name, index in {
        "claim.candidates": "questions_waiting",
        "claim.expired": "questions_leased",
        "claim.pass_deadlines": "questions_deadline",
        "finish.finish": "questions_pkey",
        "finish.held": "questions_pkey",
        "submit.waiting": "questions_waiting",
        "jobs.counts": "questions_state",
    }.items():
        said = plan(queue, name)
        expected = index.replace("questions_pkey", "sqlite_autoindex_questions_1") if "SEARCH" in said else index
        assert expected in said, name
        assert name != "claim.candidates" or not re.search("Sort|TEMP B-TREE", said)


@pytest.mark.postgres
def test_the_clock_is_postgresqls_and_a_missing_database_is_said(postgres_server: Any, postgres_url: str) -> None:
    database = connect(postgres_url, 5)
    times = transact(database, 5, lambda tx: (tx.now, database.now(tx.connection)))
    database.engine.dispose()
    assert times[1] > times[0] > 1_700_000_000
    with pytest.raises(StoreError, match="does not exist"):
        open_queue(postgres_server.get_uri(database="nowhere"), patience_seconds=600)


def damage(queue: QuestionQueue, change: str) -> None:
    """What a fault of the disk, or a person with a database tool, leaves."""
    with queue._database.engine.begin() as connection:
        connection.execute(text(change))


@pytest.mark.parametrize("column", ["results.result_json", "questions.metadata_json", "jobs.parameters_json"])
def test_a_row_that_cannot_be_read_is_one_sentence(queue: QuestionQueue, url: str, column: str) -> None:
    job_id = queue.submit(SPEC, questions(3))
    queue.finish([finished(queue.claim(["default"], "w", 2)[0])])
    assert examine_queue(url).questions == 3
    damage(queue, "UPDATE {} SET {} = '[1'".format(*column.split(".")))
    readers: list[Callable[[], object]] = [lambda: [queue.job(job_id), *queue.results(job_id)]]
    readers.append(lambda: examine_queue(url))
    if column.startswith("jobs"):
        readers.append(lambda: queue.claim(["default"], "w"))
    for read in readers:
        with pytest.raises(StoreError, match=r"a row is damaged .*; stop its workers, then restore it from a backup"):
            read()


def test_an_examination_finds_answers_of_no_finished_question(queue: QuestionQueue, url: str) -> None:
    queue.submit(SPEC, questions(1))
    queue.finish([finished(question) for question in queue.claim(["default"], "w")])
    damage(queue, "DELETE FROM results WHERE question_id = 'q0'")
    assert examine_queue(url).faults == ("1 question is finished without an answer, or has one without being finished",)
    damage(queue, "UPDATE schema_migrations SET version = version + 100")
    found = examine_queue(url)
    assert (found.version > found.newest, found.jobs) == (True, 0)
    damage(queue, "DROP TABLE schema_migrations")
    assert examine_queue(url).version == 0


def test_bytes_of_sqlite_that_are_no_text_are_one_sentence_and_damaged_pages_a_fault(tmp_path: Path) -> None:
    """SQLite keeps whatever bytes it is given; PostgreSQL refuses them."""
    path = tmp_path / "queue.sqlite"
    with open_queue(sqlite_url(path)) as queue:
        job_id = queue.submit(SPEC, questions(500))
        damage(queue, "UPDATE questions SET question = CAST(X'57686FFF' AS TEXT)")
        with pytest.raises(StoreError, match=r"Could not decode to UTF-8 .*restore it from a backup"):
            list(queue.results(job_id))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'questions_state'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as stream:
        stream.seek((root - 1) * size)
        stream.write(b"\xff" * 64)
    assert examine_queue(sqlite_url(path)).faults != ()


def fault(error: BaseException | int, *, kind: str = "OperationalError", is_broken: bool = False) -> Any:
    """A driver's error, or SQLite's with that code, as SQLAlchemy passes it on."""
    if isinstance(error, int):
        coded = sqlite3.OperationalError("database is locked")
        coded.sqlite_errorcode = error
        error = coded
    return getattr(sqlalchemy.exc, kind)("SELECT 1", {}, error, connection_invalidated=is_broken)


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (ValueError("not of a database"), False),
        (fault(BUSY), True),
        (fault(sqlite3.SQLITE_BUSY_SNAPSHOT), True),
        (fault(sqlite3.SQLITE_LOCKED), True),
        (fault(FULL), False),
        (fault(sqlite3.OperationalError("no code")), False),
        (fault(FULL, is_broken=True), True),
        (fault(errors.DeadlockDetected("deadlock")), True),
        (fault(errors.SerializationFailure("try again")), True),
        (fault(errors.AdminShutdown("restarting")), True),
        (fault(errors.UndefinedTable("no table")), False),
        (fault(psycopg.OperationalError("connection refused")), True),
        (fault(psycopg.OperationalError('FATAL: password authentication failed for user "x"')), False),
        (fault(psycopg.OperationalError('FATAL: database "nowhere" does not exist')), False),
        (fault(psycopg.ProgrammingError("no state")), False),
    ],
)
def test_only_a_busy_or_restarting_database_is_worth_another_try(error: BaseException, passes: bool) -> None:
    assert migrations.passes_by_itself(error) is passes


def failing(*faults: BaseException) -> Any:
    """Work that fails with each fault in turn, then says which try it is."""
    left = list(faults)

    def work(tx: Transaction) -> tuple[int, float]:
        if left:
            raise left.pop(0)
        return tx.attempt, tx.now

    return work


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        (fault(BUSY), StoreUnavailableError, "busy or"),
        (fault(FULL), StoreError, r"^Cannot use the question queue sqlite:///\S+: data"),
        (fault(sqlite3.Error("malformed\nmore"), kind="DatabaseError"), StoreError, "^Cannot use .*malformed.$"),
        (fault(sqlite3.Error("UNIQUE"), kind="IntegrityError"), StatementRejectedError, "refused a statement"),
    ],
)
def test_what_lasts_is_our_error(tmp_path: Path, error: BaseException, kind: type[StoreError], sentence: str) -> None:
    database = connect(sqlite_url(tmp_path / "queue.sqlite"), 0.1, lambda: 7.0)
    assert transact(database, 30, failing(fault(BUSY), fault(BUSY))) == (3, 7.0)
    with pytest.raises(kind, match=sentence) as caught:
        transact(database, 0, failing(*[error] * 99))
    assert type(caught.value) is kind
    assert caught.value.__cause__ is error
