"""Secrets planted everywhere, then looked for in everything that the program prints, stores and starts."""

import base64
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import duckdb
import lancedb
import psycopg
import pytest
from prefect_rest import ask as ask_server
from prefect_rest import events_of, post

pytestmark = [pytest.mark.prefect, pytest.mark.postgres]
WriteCorpus = Callable[..., Path]

KEY, BASE, QUEUE, GRAPH, PREFECT = (
    *("sk-plantedkey0001", "planted-base-0002", "planted-queue-0003"),
    *("planted-graph-0004", "planted-prefect-0005"),
)
SECRETS = {
    name: (value, base64.b64encode(f"svc:{value}".encode()).decode())
    for name, value in {"key": KEY, "base": BASE, "queue": QUEUE, "graph": GRAPH, "prefect": PREFECT}.items()
}
RECORDS: list[dict[str, object]] = [
    {"id": f"p{n}", "title": f"Lake {n}", "text": f"Lake {n} lies near Mount {n} in Country {n % 3}."} for n in range(6)
]
STEPS = """
import json, os, sys
from polyhop.cli import main

def answer(**order):
    from polyhop.flows.prefect_answer import answer_flow
    print(json.dumps(answer_flow("questions.jsonl", "lakes", strategy="bm25", settings=order)))

for name, arguments, variables in json.load(sys.stdin):
    before = dict(os.environ)
    os.environ.update(variables)
    print(f"<step> {name}", flush=True)
    try:
        if name == "answer":
            answer(**{"queue.url": os.environ.pop("POLYHOP_QUEUE__URL")})
            print("<code> 0")
        else:
            sys.argv = ["polyhop", *arguments]
            main()
    except SystemExit as ended:
        print(f"<code> {ended.code or 0}")
    os.environ.clear()
    os.environ.update(before)
"""
"""Commands one after the other in one process, each with variables of its own; a process each would take minutes."""


def found_in(text: str) -> set[str]:
    """Names of the secrets that a text holds."""
    return {name for name, forms in SECRETS.items() if any(form in text for form in forms)}


class Planted:
    """Commands whose environment is full of secrets; keeps all that they print and how processes were started."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("POLYHOP_", "PREFECT_"))}
        self.folder = folder
        self.environment = clean | environment
        self.printed = ""
        self.command_lines: set[str] = set()

    def run(self, steps: Sequence[tuple[str, Sequence[str], dict[str, str]]]) -> dict[str, str]:
        """Runs commands; gives what each printed on standard output, with its exit code."""
        done = subprocess.run(
            [sys.executable, "-c", STEPS], env=self.environment, cwd=self.folder, capture_output=True, text=True,
            input=json.dumps(steps), check=False, timeout=500,
        )  # fmt: skip
        self.printed = done.stdout + done.stderr
        parts = [part.partition("\n") for part in done.stdout.split("<step> ")[1:]]
        return {name: output for name, _, output in parts}

    @contextmanager
    def watching_processes(self) -> Iterator[None]:
        """Reads the command lines of all processes of this machine, again and again."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(0.1):
                for path in Path("/proc").glob("[0-9]*/cmdline"):
                    try:
                        self.command_lines.add(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
                    except OSError:
                        continue

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


@pytest.fixture
def queue_url(postgres_server: Any) -> Iterator[str]:
    """A database whose user has a password."""
    with psycopg.connect(postgres_server.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE ROLE svc LOGIN SUPERUSER PASSWORD '{QUEUE}'")
        connection.execute("CREATE DATABASE secrets")
    socket = urlsplit(postgres_server.get_uri()).query
    yield f"postgresql://svc:{QUEUE}@/secrets?{socket}"
    with psycopg.connect(postgres_server.get_uri(), autocommit=True) as connection:
        connection.execute("DROP DATABASE secrets WITH (FORCE)")
        connection.execute("DROP ROLE svc")


def texts_of(path: Path) -> Iterator[str]:
    """A file as it is, and what databases hold inside, unpacked."""
    data = path.read_bytes()
    yield data.decode("latin-1")
    if data.startswith(b"SQLite format 3"):
        with sqlite3.connect(path) as connection:
            tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            for table in tables:
                for row in connection.execute(f'SELECT * FROM "{table}"'):
                    yield " ".join(unpacked(value) for value in row)
    elif path.suffix == ".duckdb":
        with duckdb.connect(str(path), read_only=True) as tables_file:
            for (table,) in tables_file.execute("SELECT table_name FROM duckdb_tables()").fetchall():
                for (row,) in tables_file.execute(f'SELECT t::VARCHAR FROM "{table}" AS t').fetchall():
                    yield str(row)


def unpacked(value: object) -> str:
    if isinstance(value, bytes):
        try:
            return zlib.decompress(value).decode("utf-8", "replace")
        except zlib.error:
            return value.decode("latin-1")
    return str(value)


def leaks_under(folder: Path) -> dict[str, set[str]]:
    """The files below a folder that hold a secret."""
    leaks: dict[str, set[str]] = {}
    for path in (path for path in folder.rglob("*") if path.is_file()):
        found = {name for text in texts_of(path) for name in found_in(text)}
        if found:
            leaks[str(path.relative_to(folder))] = found
    for path in (versions.parent for versions in folder.rglob("*.lance/_versions") if versions.is_dir()):
        found = found_in(str(lancedb.connect(str(path.parent)).open_table(path.stem).to_arrow().to_pylist()))
        if found:
            leaks[str(path)] = found
    return leaks


def echo(asked: Any) -> dict[str, object]:
    """A server that tells everybody what it was sent: in good replies, and in errors for some prompts."""
    if asked.task == "kg.extract":
        if "Lake 4" in asked.prompt:
            return {"kind": "error", "status": 500, "message": "cannot serve {'authorization': '{authorization}'}"}
        entity = {"name": "{authorization}", "type": "CONCEPT", "description": "said {authorization}"}
        return {"kind": "reply", "content": json.dumps({"entities": [entity], "relations": []})}
    if "lies near Mount 1?" in asked.prompt:
        return {"kind": "error", "status": 403, "message": "you may not: {authorization}"}
    if "lies near Mount 3?" in asked.prompt:
        return {"kind": "error", "status": 400, "message": "cannot answer {authorization}"}
    content = {"reasoning": "you sent {authorization}", "answer": "{authorization}", "citations": []}
    return {"kind": "reply", "content": json.dumps(content)}


def extract_with(model: str) -> dict[str, str]:
    return {"POLYHOP_MODELS__EXTRACT": f"openai/{model}"}


@pytest.mark.rare
def test_no_output_no_file_and_no_process_list_holds_a_planted_secret(
    write_corpus: WriteCorpus,
    model_server: Any,
    queue_url: str,
    postgres_server: Any,
    prefect_server: dict[str, str],
    tmp_path: Path,
) -> None:
    model_server.respond(echo)
    with_password = model_server.url.replace("http://", f"http://svc:{BASE}@")
    prefect_url = prefect_server["PREFECT_API_URL"].replace("http://", f"http://svc:{PREFECT}@")
    environment = prefect_server | {
        "PREFECT_API_URL": prefect_url,
        "PREFECT_LOGGING_LEVEL": "INFO",
        "OPENAI_API_KEY": KEY,
        "NEO4J_URI": f"bolt://svc:{GRAPH}@127.0.0.1:9",
        "NEO4J_PASSWORD": GRAPH,
        "POLYHOP_ROOT": str(tmp_path / "root"),
        "POLYHOP_QUEUE__URL": queue_url,
        "POLYHOP_MODELS__READ": "openai/scripted",
        **extract_with("scripted"),
        "POLYHOP_MODELS__MAX_ATTEMPTS": "1",
        "POLYHOP_STRATEGIES": "bm25,dense",
        "POLYHOP_MODELS__API_BASE": model_server.url,
        "POLYHOP_LOG_LEVEL": "debug",
        "POLYHOP_LOG_JSON": "1",
    }
    planted = Planted(tmp_path, environment)
    corpus = str(write_corpus(RECORDS))
    rows = [{"id": f"q{n}", "question": f"What lies near Mount {n}?"} for n in (0, 2, 3, 4)]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    index = ("index", corpus, "--index", "lakes", "--extractor", "model")
    ask = ("--index", "lakes", "--strategy", "bm25", "--json")
    debug = {"POLYHOP_DEBUG": "1", "POLYHOP_QUEUE__URL": f"mysql://svc:{QUEUE}@host/db"}
    with planted.watching_processes():
        done = planted.run(
            [
                ("index", index, {}),
                ("index-2", index, {**extract_with("scripted-too"), "POLYHOP_MODELS__API_BASE": with_password}),
                ("ask", ("ask", "What lies near Mount 1?", *ask), {}),
                ("ask-2", ("ask", "What lies near Mount 2?", *ask), {"POLYHOP_MODELS__API_BASE": with_password}),
                ("answer", (), {}),
                ("doctor", ("doctor", "--json"), {}),
                ("export", ("export", "neo4j", "--index", "lakes"), {}),
                ("deploy", ("deploy", "--index", "lakes"), {}),
                ("source", ("deploy", "--index", "lakes", "--source", f"neo4j://svc:{GRAPH}@127.0.0.1:9"), {}),
                ("jobs", ("jobs",), {"POLYHOP_QUEUE__URL": queue_url.replace("/secrets?", "/nowhere?")}),
                ("debug", ("jobs",), debug),
            ]
        )
    codes = {name: output.rpartition("<code> ")[2].strip() for name, output in done.items()}
    refused = {"ask": "1", "doctor": "1", "export": "2", "source": "2", "jobs": "1", "debug": "2"}
    assert codes == dict.fromkeys(done, "0") | refused, planted.printed
    assert json.loads(done["ask-2"].splitlines()[0])["answer"] == "Basic ***"
    time.sleep(3)  # Prefect's server stores logs a little later

    assert model_server.count("kg.extract") == 2 * len(RECORDS)
    assert model_server.count("qa.answer") >= 5
    assert [line for line in planted.printed.splitlines() if found_in(line)] == []
    assert "you may not: Bearer ***" in planted.printed
    assert '"message": "stage ended"' in planted.printed  # the log, too, was printed
    assert leaks_under(tmp_path / "root") == {}
    assert [line for line in planted.command_lines if found_in(line)] == []
    assert found_in(_queue_as_text(postgres_server.get_uri(database="secrets"))) == set()
    _require_no_secret_in(prefect_server)


def _require_no_secret_in(prefect_server: dict[str, str]) -> None:
    """Nothing that the Prefect server stores of the test's runs holds a planted secret."""
    stored = [run for run in post(prefect_server, "/flow_runs/filter") if not run["name"].startswith("answer ")]
    assert found_in(json.dumps(stored)) == set()
    logs = post(prefect_server, "/logs/filter", {"logs": {"level": {"ge_": 0}}})
    assert any("lakes" in log["message"] or "batches" in log["message"] for log in logs)
    assert [log["message"] for log in logs if found_in(log["message"])] == []
    for kind, marker in (
        ("artifacts", "index-lakes"),
        ("deployments", "lakes-export"),
        ("automations", "of lakes after"),
    ):
        held = json.dumps(post(prefect_server, f"/{kind}/filter"))
        assert (marker in held, found_in(held)) == (True, set())
    for automation in post(prefect_server, "/automations/filter"):  # they would start other tests' runs again
        ask_server(prefect_server, f"/automations/{automation['id']}", "DELETE")
    published = events_of(prefect_server, "polyhop.index.published", "polyhop.index.lakes")
    dead = events_of(prefect_server, "polyhop.queue.dead_letter", "polyhop.queue.default")
    assert found_in(json.dumps([published, dead])) == set()
    assert "Bearer ***" in json.dumps(dead)


def _queue_as_text(url: str) -> str:
    with psycopg.connect(url) as connection:
        tables = ("jobs", "questions", "results", "workers")
        held = [str(connection.execute(f"SELECT * FROM {table}").fetchall()) for table in tables]
    assert "'q3'" in held[1]
    return "\n".join(held)
