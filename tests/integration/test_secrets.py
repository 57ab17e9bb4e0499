"""Secrets planted everywhere, then looked for in everything that the program prints, stores and starts."""

import base64
import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import duckdb
import lancedb
import psycopg
import pytest
from prefect_rest import ask as ask_server
from prefect_rest import events_of, post
from small_indexes import write_rows

pytestmark = [pytest.mark.prefect, pytest.mark.postgres]

KEY, BASE, QUEUE, GRAPH, PREFECT = (
    *("sk-plantedkey0001", "planted-base-0002", "planted-queue-0003"),
    *("planted-graph-0004", "planted-prefect-0005"),
)

SECRETS = {
    name: (value, base64.b64encode(f"svc:{value}".encode()).decode())
    for name, value in {"key": KEY, "base": BASE, "queue": QUEUE, "graph": GRAPH, "prefect": PREFECT}.items()
}


def found_in(text: str) -> set[str]:
    return {name for name, forms in SECRETS.items() if any(form in text for form in forms)}


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


@contextmanager
def command_lines() -> Iterator[set[str]]:
    """Those of all processes of this machine, read again and again meanwhile."""
    seen: set[str] = set()
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.1):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    seen.add(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


@pytest.fixture
def queue_url(postgres_server: Any) -> Iterator[str]:
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
            for row in (row for table in tables for row in connection.execute(f'SELECT * FROM "{table}"')):
                yield " ".join(unpacked(value) for value in row)
    elif path.suffix == ".duckdb":
        with duckdb.connect(str(path), read_only=True) as tables_file:
            for (table,) in tables_file.execute("SELECT table_name FROM duckdb_tables()").fetchall():
                for (row,) in tables_file.execute(f'SELECT t::VARCHAR FROM "{table}" AS t').fetchall():
                    yield str(row)


def unpacked(value: object) -> str:
    if not isinstance(value, bytes):
        return str(value)
    with suppress(zlib.error):
        return zlib.decompress(value).decode("utf-8", "replace")
    return value.decode("latin-1")


def leaks_under(folder: Path) -> dict[str, set[str]]:
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


@pytest.mark.rare
def test_no_output_no_file_and_no_process_list_holds_a_planted_secret(
    model_server: Any, queue_url: str, postgres_server: Any, prefect_server: dict[str, str], tmp_path: Path
) -> None:
    model_server.respond(echo)
    with_password = {"POLYHOP_MODELS__API_BASE": model_server.url.replace("http://", f"http://svc:{BASE}@")}
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("POLYHOP_", "PREFECT_"))}
    environment = clean | prefect_server
    environment |= {
        "PREFECT_API_URL": prefect_server["PREFECT_API_URL"].replace("http://", f"http://svc:{PREFECT}@"),
        "PREFECT_LOGGING_LEVEL": "INFO",
        "OPENAI_API_KEY": KEY,
        "NEO4J_URI": f"bolt://svc:{GRAPH}@127.0.0.1:9",
        "NEO4J_PASSWORD": GRAPH,
        "POLYHOP_ROOT": str(tmp_path / "root"),
        "POLYHOP_QUEUE__URL": queue_url,
        "POLYHOP_MODELS__READ": "openai/scripted",
        "POLYHOP_MODELS__EXTRACT": "openai/scripted",
        "POLYHOP_MODELS__MAX_ATTEMPTS": "1",
        "POLYHOP_STRATEGIES": "bm25,dense",
        "POLYHOP_MODELS__API_BASE": model_server.url,
        "POLYHOP_LOG_LEVEL": "debug",
        "POLYHOP_LOG_JSON": "1",
    }
    corpus = str(write_rows(tmp_path / "corpus.jsonl", RECORDS))
    asked = [{"id": f"q{n}", "question": f"What lies near Mount {n}?"} for n in (0, 2, 3, 4)]
    write_rows(tmp_path / "questions.jsonl", asked)
    index = ("index", corpus, "--index", "lakes", "--extractor", "model")
    ask = ("--index", "lakes", "--strategy", "bm25", "--json")
    steps = [
        ("index", index, {}),
        ("index-2", index, {"POLYHOP_MODELS__EXTRACT": "openai/scripted-too"} | with_password),
        ("ask", ("ask", "What lies near Mount 1?", *ask), {}),
        ("ask-2", ("ask", "What lies near Mount 2?", *ask), with_password),
        ("answer", (), {}),
        ("doctor", ("doctor", "--json"), {}),
        ("export", ("export", "neo4j", "--index", "lakes"), {}),
        ("deploy", ("deploy", "--index", "lakes"), {}),
        ("source", ("deploy", "--index", "lakes", "--source", f"neo4j://svc:{GRAPH}@127.0.0.1:9"), {}),
        ("jobs", ("jobs",), {"POLYHOP_QUEUE__URL": queue_url.replace("/secrets?", "/nowhere?")}),
        ("debug", ("jobs",), {"POLYHOP_DEBUG": "1", "POLYHOP_QUEUE__URL": f"mysql://svc:{QUEUE}@host/db"}),
    ]
    with command_lines() as started:
        ran = subprocess.run(
            [sys.executable, "-c", STEPS], env=environment, cwd=tmp_path, capture_output=True, text=True,
            input=json.dumps(steps), check=False, timeout=500,
        )  # fmt: skip
    printed = ran.stdout + ran.stderr
    parts = [part.partition("\n") for part in ran.stdout.split("<step> ")[1:]]
    done = {name: output for name, _, output in parts}
    codes = {name: output.rpartition("<code> ")[2].strip() for name, output in done.items()}
    refused = {"ask": "1", "doctor": "1", "export": "2", "source": "2", "jobs": "1", "debug": "2"}
    assert codes == dict.fromkeys(done, "0") | refused, printed
    assert json.loads(done["ask-2"].splitlines()[0])["answer"] == "Basic ***"
    time.sleep(3)  # Prefect's server stores logs a little later

    assert model_server.count("kg.extract") == 2 * len(RECORDS)
    asked_of = [prompt for prompt in model_server.prompts() if re.search(r"lies near Mount \d\?", prompt)]
    assert len(asked_of) >= 5  # after a refusal (Mount 3) without the name of a schema, by which tasks are told
    assert [line for line in printed.splitlines() if found_in(line)] == []
    assert "you may not: Bearer ***" in printed
    assert '"message": "stage ended"' in printed  # the log, too, was printed
    assert leaks_under(tmp_path / "root") == {}
    assert [line for line in started if found_in(line)] == []
    with psycopg.connect(postgres_server.get_uri(database="secrets")) as connection:
        tables = ("jobs", "questions", "results", "workers")
        held = "\n".join(str(connection.execute(f"SELECT * FROM {table}").fetchall()) for table in tables)
    assert ("'q3'" in held, found_in(held)) == (True, set())

    stored = [run for run in post(prefect_server, "/flow_runs/filter") if not run["name"].startswith("answer ")]
    assert found_in(json.dumps(stored)) == set()
    logs = [log["message"] for log in post(prefect_server, "/logs/filter", {"logs": {"level": {"ge_": 0}}})]
    assert any("lakes" in line or "batches" in line for line in logs)
    assert [line for line in logs if found_in(line)] == []
    markers = {"artifacts": "index-lakes", "deployments": "lakes-export", "automations": "of lakes after"}
    for kind, marker in markers.items():
        held = json.dumps(post(prefect_server, f"/{kind}/filter"))
        assert (marker in held, found_in(held)) == (True, set())
    for automation in post(prefect_server, "/automations/filter"):  # they would start other tests' runs again
        ask_server(prefect_server, f"/automations/{automation['id']}", "DELETE")
    published = events_of(prefect_server, "polyhop.index.published", "polyhop.index.lakes")
    dead = json.dumps(events_of(prefect_server, "polyhop.queue.dead_letter", "polyhop.queue.default"))
    assert found_in(json.dumps(published) + dead) == set()
    assert "Bearer ***" in dead
