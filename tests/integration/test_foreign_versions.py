"""Versions of a store that somebody else writes: pulling, opening and asking them reads and sends nothing else."""

import json
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import duckdb
import lancedb
import pyarrow as pa
import pytest
from small_indexes import indexed, write_rows

import polyhop
from polyhop.flows.evaluate import run_evaluation
from polyhop.flows.index import known_request
from polyhop.flows.maintain import run_verify
from polyhop.schemas.errors import ConfigurationError, PolyhopError, SourceError, StoreError
from polyhop.schemas.requests import EvaluationRequest
from polyhop.schemas.settings import EncoderSettings, Settings
from polyhop.warehouse.files.disk import file_checksum
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.remote import pull_version, push_version
from polyhop.warehouse.files.versions import CHECKSUM, document_checksum
from polyhop.warehouse.index_reader import PublishedIndex
from polyhop.warehouse.tables.connection import connect
from polyhop.warehouse.tables.query import query_rows

NAME, QUESTION, SECRET = "lakes", "Where is Lake 3?", "the reader's own secret"
RECORDS = [{"id": f"p{n}", "title": f"Lake {n}", "text": f"Lake {n} lies near Mount {n}."} for n in range(9)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with an index of passages and their vectors."""
    folder = tmp_path_factory.mktemp("made")
    source = write_rows(folder / "c.jsonl", RECORDS)
    indexed(Settings(root=folder / "root", strategies=("dense",)), source, NAME)
    return folder / "root"


class Attacker:
    """A root whose version is changed and pushed with right checksums, as anybody who may write to a store can."""

    def __init__(self, made: Path, folder: Path) -> None:
        shutil.copytree(made, folder / "theirs")
        self.layout, self.own = Layout(folder / "theirs"), Layout(folder / "mine")
        self.url = f"file://{folder / 'store'}"
        self.index = self.layout.index(NAME)
        self.version = self.index.version(1)

    def change_tables(self, *statements: str) -> None:
        self.version.tables.chmod(0o644)
        with duckdb.connect(str(self.version.tables)) as connection:
            for sql in statements:
                connection.execute(sql)

    def change_manifest(self, change: Callable[[dict[str, object]], object] = lambda _: None) -> None:
        document = json.loads(self.version.manifest.read_bytes())
        document.pop(CHECKSUM)
        document["tables_file"] = file_checksum(self.version.tables)
        change(document)
        document[CHECKSUM] = document_checksum(document)
        self.version.manifest.chmod(0o644)
        self.version.manifest.write_text(json.dumps(document))

    def push(self, key_file: str = "") -> None:
        push_version(self.layout, NAME, self.url, key_file=key_file)

    def pull(self, key_file: str = "") -> None:
        pull_version(self.own, NAME, self.url, keep=3, key_file=key_file)


@pytest.fixture
def attacker(made: Path, tmp_path: Path) -> Attacker:
    return Attacker(made, tmp_path)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.txt"
    path.write_text(SECRET)
    return path


@pytest.fixture
def listener() -> Iterator[tuple[str, list[bytes]]]:
    """An address that only a manifest names, and what was sent to it."""
    received: list[bytes] = []
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        received.append(connection.recv(65_536))

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1", received


def with_encoder(name: str, address: str) -> Callable[[dict[str, object]], None]:
    def change(document: dict[str, object]) -> None:
        encoder = {"name": name, "api_base": address}
        for record in document["vectors"].values():  # type: ignore[attr-defined]
            record |= {"encoder": encoder, "model": name}
        document["settings"]["encoder"] |= encoder  # type: ignore[index]

    return change


ENCODERS = ["litellm:openai/text-embedding-3-small", "onnx:/tmp", "sentence-transformers:/tmp", "fastembed:x"]


@pytest.mark.parametrize("name", ENCODERS)
def test_asking_stops_where_only_the_manifest_names_an_encoder(
    attacker: Attacker, listener: tuple[str, list[bytes]], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    attacker.change_manifest(with_encoder(name, listener[0]))
    attacker.push()
    attacker.pull()
    with (
        pytest.raises(ConfigurationError, match=f"set encoder.name={name}"),
        polyhop.open_index(NAME, root=attacker.own.root) as index,
    ):
        index.ask(QUESTION, strategy="dense")
    assert listener[1] == []


def test_a_run_stops_where_only_the_manifest_names_an_encoder(
    attacker: Attacker, listener: tuple[str, list[bytes]], tmp_path: Path
) -> None:
    attacker.change_manifest(with_encoder(ENCODERS[0], listener[0]))
    attacker.push()
    attacker.pull()
    source = write_rows(tmp_path / "c.jsonl", [*RECORDS, {"id": "q", "title": "Hill", "text": "A hill."}])
    with pytest.raises(ConfigurationError, match="which your settings do not"):
        indexed(Settings(root=attacker.own.root, strategies=("dense",)), source, NAME, replaces=True)
    assert listener[1] == []


def test_an_evaluation_stops_where_only_the_manifest_names_an_encoder(attacker: Attacker, tmp_path: Path) -> None:
    attacker.change_manifest(with_encoder(ENCODERS[0], "http://127.0.0.1:9/v1"))
    attacker.push()
    attacker.pull()
    questions = write_rows(tmp_path / "q.jsonl", [{"id": "1", "question": QUESTION, "answers": ["Mount 3"]}])
    request = EvaluationRequest(questions, NAME, ("dense",))
    with pytest.raises(ConfigurationError, match="which your settings do not"):
        run_evaluation(Settings(root=attacker.own.root), request)


LEAVES_OPEN = """
import sys, polyhop
with polyhop.open_index(sys.argv[2], root=sys.argv[1]) as index:
    index.ask("Where is Lake 3?", strategy="dense")
record = {"id": "new", "title": "Lake 99", "text": "Lake 99 lies near Mount 99."}
polyhop.add([record], index=sys.argv[2], root=sys.argv[1])
"""


def test_a_script_that_asks_and_adds_leaves_no_object_of_duckdb_open(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path / "root")
    words = [sys.executable, "-c", LEAVES_OPEN, str(tmp_path / "root"), NAME]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "nanobind" not in done.stderr


def test_an_encoder_named_without_its_address_asks_for_the_address(
    attacker: Attacker, listener: tuple[str, list[bytes]]
) -> None:
    attacker.change_manifest(with_encoder(ENCODERS[0], listener[0]))
    attacker.push()
    attacker.pull()
    settings = Settings(root=attacker.own.root, encoder=EncoderSettings(name=ENCODERS[0]))
    with (
        pytest.raises(ConfigurationError, match=f"set encoder.api_base={listener[0]}"),
        polyhop.open_index(NAME, settings=settings) as index,
    ):
        index.ask(QUESTION, strategy="dense")


def test_a_run_reads_no_file_of_extractions_that_only_the_manifest_names(
    attacker: Attacker, secret: Path, tmp_path: Path
) -> None:
    attacker.change_manifest(lambda document: document["settings"]["extraction"].update(extractor=f"import:{secret}"))  # type: ignore[index]
    attacker.push()
    attacker.pull()
    source = write_rows(tmp_path / "c.jsonl", RECORDS)
    with pytest.raises(ConfigurationError, match=r"names extraction\.extractor=import:"):
        indexed(Settings(root=attacker.own.root, strategies=("dense",)), source, NAME, replaces=True)


def test_a_run_without_a_source_reads_no_file_that_only_a_pulled_manifest_names(
    attacker: Attacker, secret: Path
) -> None:
    attacker.change_manifest(lambda document: document.update(source=str(secret)))
    attacker.push()
    attacker.pull()
    with pytest.raises(SourceError, match="pass SOURCE"):
        known_request(Settings(root=attacker.own.root), NAME)


LEAK = "CREATE VIEW passages AS SELECT * REPLACE ((SELECT content FROM read_text('{secret}')) AS text) FROM real"
FOREIGN = {
    "view 'passages'": ("CREATE TABLE real AS FROM passages", "DROP TABLE passages CASCADE", LEAK),
    "view 'neighbours'": ("CREATE OR REPLACE VIEW neighbours AS FROM read_text('{secret}')",),
    "macro 'md5'": ("CREATE MACRO md5(x) AS (SELECT content FROM read_text('{secret}'))",),
    "type 'mood'": ("CREATE TYPE mood AS ENUM ('good')",),
    "sequence 'numbers'": ("CREATE SEQUENCE numbers",),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_a_pull_refuses_tables_that_hold_what_polyhop_did_not_create(
    attacker: Attacker, secret: Path, what: str
) -> None:
    attacker.change_tables(*(sql.format(secret=secret) for sql in FOREIGN[what]))
    attacker.change_manifest()
    attacker.push()
    with pytest.raises(StoreError, match=f"holds the {what}, which Polyhop did not create; nothing was pulled"):
        attacker.pull()
    assert not attacker.own.index(NAME).current.exists()


@pytest.mark.parametrize("what", FOREIGN)
def test_verify_reports_tables_that_hold_what_polyhop_did_not_create(
    attacker: Attacker, secret: Path, what: str
) -> None:
    attacker.change_tables(*(sql.format(secret=secret) for sql in FOREIGN[what]))
    attacker.change_manifest()
    report = run_verify(Settings(root=attacker.layout.root), NAME)
    assert what in report.differences["tables"][0]


def read_by_run(attacker: Attacker, sql: str) -> object:
    with connect(attacker.version.tables, read_only=True) as connection:
        return connection.execute(sql).fetchall()


def read_by_index(attacker: Attacker, sql: str) -> object:
    with closing(PublishedIndex(attacker.layout, NAME)) as published:
        return published.rows(sql)


def read_by_query(attacker: Attacker, sql: str) -> object:
    return query_rows(attacker.layout, NAME, sql).to_pylist()


READERS = [read_by_run, read_by_index, read_by_query]
planted = pa.table({"secret": [SECRET]})  # a variable that DuckDB's replacement scans would find


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    "sql", ["FROM read_text('{secret}')", "FROM read_csv('https://127.0.0.1:9/x')", "FROM planted", "LOAD httpfs"]
)
def test_sql_on_a_version_reads_no_file_address_variable_or_extension(
    attacker: Attacker, secret: Path, read: Callable[[Attacker, str], object], sql: str
) -> None:
    with pytest.raises(PolyhopError):
        read(attacker, sql.format(secret=secret))


@pytest.mark.parametrize("read", READERS)
def test_a_view_inside_of_a_version_reads_no_file(
    attacker: Attacker, secret: Path, read: Callable[[Attacker, str], object]
) -> None:
    attacker.change_tables(f"CREATE VIEW leak AS FROM read_text('{secret}')")
    with pytest.raises(PolyhopError, match=r"disabled by configuration|its tables only"):
        read(attacker, "FROM leak")


def test_a_pull_refuses_files_that_the_manifest_does_not_list(attacker: Attacker) -> None:
    attacker.push()
    store = Path(attacker.url.removeprefix("file://")) / NAME
    pointer = json.loads((store / "CURRENT").read_bytes())
    listing = json.loads((store / "files" / pointer["files"][:2] / pointer["files"]).read_bytes())
    listing["files"]["version/index.duckdb.wal"] = listing["files"]["version/manifest.json"]
    written = store / "list"
    written.write_text(json.dumps(listing))
    digest = file_checksum(written)
    (store / "files" / digest[:2]).mkdir(exist_ok=True)
    written.rename(store / "files" / digest[:2] / digest)
    (store / "CURRENT").write_text(json.dumps(pointer | {"files": digest}))
    with pytest.raises(StoreError, match=r"holds the file version/index\.duckdb\.wal, which"):
        attacker.pull()


def test_a_pull_refuses_vectors_that_lie_outside_of_the_version(attacker: Attacker, tmp_path: Path) -> None:
    name = json.loads(attacker.version.manifest.read_bytes())["vectors"]["passage"]["table"]
    database: Any = lancedb.connect(str(tmp_path / "clone"))
    database.create_table("seed", data=[{"id": "a"}])
    database.clone_table(name, str(attacker.index.vectors / f"{name}.lance"))
    cloned = tmp_path / "clone" / f"{name}.lance"
    target = attacker.index.vectors / f"{name}.lance"
    checksums = json.loads((attacker.index.vectors / "checksums.json").read_bytes())
    for file in (file for file in cloned.rglob("*") if file.is_file()):
        path = target / file.relative_to(cloned)
        shutil.copy(file, path)
        checksums["files"][path.relative_to(attacker.index.vectors).as_posix()] = file_checksum(path)
    (attacker.index.vectors / "checksums.json").write_text(json.dumps(checksums))
    attacker.push()
    with pytest.raises(StoreError, match="holds vectors outside of the version"):
        attacker.pull()


def test_a_manifest_nested_without_end_is_one_sentence(attacker: Attacker) -> None:
    attacker.push()
    store = Path(attacker.url.removeprefix("file://")) / NAME
    (store / "CURRENT").write_text("[" * 100_000)
    with pytest.raises(StoreError, match="is damaged"):
        attacker.pull()


def test_an_honest_version_pull_marker_and_answers(attacker: Attacker) -> None:
    attacker.push()
    attacker.pull()
    with polyhop.open_index(NAME, root=attacker.own.root) as index:
        assert index.ask(QUESTION, strategy="dense").passages[0]["title"] == "Lake 3"


@pytest.fixture
def keys(tmp_path: Path) -> tuple[str, str]:
    """Files with two different keys."""
    made = tmp_path / "key", tmp_path / "other-key"
    for number, path in enumerate(made):
        path.write_text(f"{number}" * 64)
    return str(made[0]), str(made[1])


@pytest.mark.parametrize("signs", ["", "other"])
def test_with_a_key_a_version_without_its_signature_is_refused(
    attacker: Attacker, keys: tuple[str, str], signs: str
) -> None:
    attacker.push(keys[1] if signs else "")
    with pytest.raises(StoreError, match="is not signed with the key"):
        attacker.pull(keys[0])
    assert not attacker.own.index(NAME).path.exists()


def test_a_version_signed_with_the_key_pull_marker(attacker: Attacker, keys: tuple[str, str]) -> None:
    attacker.push(keys[0])
    attacker.pull(keys[0])
    assert attacker.own.index(NAME).current.exists()


def test_pushing_again_with_a_key_signs_what_was_pushed_without(attacker: Attacker, keys: tuple[str, str]) -> None:
    attacker.push()
    attacker.push(keys[0])
    attacker.pull(keys[0])
    assert attacker.own.index(NAME).current.exists()


@pytest.mark.parametrize(("content", "message"), [(None, "cannot be read"), ("short", "a key needs at least 16")])
def test_a_key_file_that_holds_no_key_is_refused(
    attacker: Attacker, tmp_path: Path, content: str | None, message: str
) -> None:
    if content is not None:
        (tmp_path / "key").write_text(content)
    with pytest.raises(ConfigurationError, match=message):
        attacker.push(str(tmp_path / "key"))
