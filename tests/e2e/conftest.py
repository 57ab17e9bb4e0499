"""What end-to-end tests share: small indexes, commands on them in processes and in this one, both databases."""

import contextlib
import fcntl
import json
import os
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from command_processes import SHORT_LEASE, Commands, Prepare, Started
from small_indexes import TOWNS, Call, indexed, record, town_records, wait_for, write_rows
from typer.testing import CliRunner

from polyhop.schemas.errors import WaitingError
from polyhop.schemas.settings import Settings, as_environment, flatten, parse_settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import read_manifest, require_version
from polyhop.warehouse.open import open_questions
from polyhop.warehouse.queue.queue import QuestionQueue


@dataclass
class Towns:
    """A root with the index `towns`, and commands on it."""

    folder: Path
    commands: Commands
    settings: tuple[str, ...] = ()
    started: list[Started] = field(default_factory=list)

    @property
    def root(self) -> Path:
        return self.folder / "root"

    def publish(self, edition: int = 1) -> int:
        """Indexes an edition in this process; returns the version."""
        settings = Settings(root=self.root, strategies=("bm25", "bridge-lexical", "dense"))
        return indexed(settings, self.corpus(edition), replaces=True).version

    def corpus(self, edition: int) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        return write_rows(self.folder / f"corpus-{edition}.jsonl", town_records(edition))

    def questions(self, count: int) -> Path:
        asked = ({"id": f"q{n}", "question": f"Which river does Town {n % TOWNS} lie on?"} for n in range(count))
        return write_rows(self.folder / "questions.jsonl", asked)

    def start(self, line: str, *arguments: str | Path) -> Started:
        """A command to be watched and killed; its output goes to a file, so that no pipe can fill up."""
        variables = {"POLYHOP_ROOT": str(self.root)}
        with (self.folder / "output.log").open("a") as log:
            words = [*shlex.split(line), *arguments, *self.settings]
            process = self.commands.start(words, self.folder, variables, log, SHORT_LEASE)
        self.started.append(process)
        return process

    def run(self, line: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """A command to its end: a line, and words of which each is one argument."""
        words = [*shlex.split(line), *arguments, *self.settings]
        return self.commands.run(words, self.folder, {"POLYHOP_ROOT": str(self.root)}, SHORT_LEASE)

    def good(self, line: str, *arguments: str | Path) -> list[Any]:
        """The JSON lines of a command that must succeed."""
        done = self.run(line, *arguments)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def queue(self) -> QuestionQueue:
        """The queue, opened in this process."""
        flags = dict(setting.split("=", 1) for setting in self.settings if "=" in setting)
        return open_questions(parse_settings({"flags": {"root": str(self.root), **flags}}))

    def log(self) -> str:
        """What all started commands printed."""
        return (self.folder / "output.log").read_text()

    def kill_all(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()


@dataclass
class ModelRuns:
    """Index runs in a folder, with the scripted server as the model: by single calls, or as `mode` says."""

    folder: Path
    server: Any
    commands: Commands
    mode = "single"
    people = ("Aldo Verri", "Berta Kahn", "Carl Otto", "Dora Lind")

    def corpus(self, count: int, first: int = 0, name: str = "corpus") -> Path:
        """Villages, each a passage of three units."""
        rows = []
        for n in range(first, first + count):
            person = self.people[n % 4]
            text = f"Village {n} lies on the River {n % 7}. It was founded by {person} in {1500 + n}. "
            rows.append(record(f"p{n:05d}", f"Village {n}", f"{text}{person} was born in Town {n % 5}."))
        return write_rows(self.folder / f"{name}.jsonl", rows)

    def settings(self, root: str = "one", mode: str = "", **more: object) -> Settings:
        """Settings of a root by name; the dot in a setting's name is written as two underscores."""
        index = {"root": str(self.folder / root), "strategies": "bridge-lexical", "extraction__extractor": "model"}
        models = {"extract": "openai/scripted", "api_base": self.server.url, "concurrency": 8, "price": "1.0,2.0"}
        models |= {"batch_price": "0.5,1.0", "mode": mode or self.mode}
        given = {**index, **{f"models__{name}": value for name, value in models.items()}, **more}
        return parse_settings({"test": {name.replace("__", "."): value for name, value in given.items()}})

    def start(self, settings: Settings, corpus: Path, *options: str, name: str = "towns") -> Started:
        """`polyhop index` with these settings, in a process of its own."""
        return self.start_command(settings, "index", str(corpus), "--index", name, "--json", *options)

    def start_command(self, settings: Settings, *command: str) -> Started:
        """A command with these settings, in a process of its own."""
        written = {
            name: ",".join(map(str, value)) if isinstance(value, list) else str(value)
            for name, value in flatten(settings.model_dump(mode="json", exclude_unset=True)).items()
        }
        with (self.folder / "log").open("a") as log:
            return self.commands.start(command, self.folder, as_environment(written), log)

    def to_the_end(self, settings: Settings, corpus: Path) -> list[str]:
        """Runs until one publishes; the sentences of those that waited."""
        waited: list[str] = []
        for _ in range(20):
            try:
                indexed(settings, corpus)
            except WaitingError as waiting:
                waited.append(str(waiting))
            else:
                return waited
        pytest.fail(f"not published after 20 runs: {waited}")

    def tables(self, settings: Settings, name: str = "towns") -> dict[str, Any]:
        """Checksums of the current version's tables, but for history: attempts and prices differ after faults."""
        manifest = read_manifest(require_version(Layout(settings.root), name)[1])
        history = {"extraction_ledger", "version_stages"}
        return {table: record for table, record in manifest.tables.items() if table not in history}


@pytest.fixture
def runs(tmp_path: Path, model_server: Any, commands: Commands) -> ModelRuns:
    return ModelRuns(tmp_path, model_server, commands)


@dataclass
class Window:
    """A running `polyhop ui`: its address, and its process, whose output is in a file."""

    url: str
    process: Started
    output: Path


@pytest.fixture(scope="session")
def serve(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Call]:
    """Starts `polyhop ui`, or `mcp`, on a root and a free port, and waits until it answers."""
    started: list[Started] = []

    def start(
        root: Path,
        *arguments: str,
        host: str = "127.0.0.1",
        command: str = "ui",
        prepare: Prepare | None = None,
        **variables: str,
    ) -> Window:
        with socket.create_server((host, 0)) as free:
            port = free.getsockname()[1]
        output = tmp_path_factory.mktemp("window") / "output.log"
        words = [command, "--root", str(root), "--host", host, "--port", str(port), *arguments]
        with output.open("w") as log:
            process = commands.start(words, output.parent, {"POLYHOP_ROOT": str(root), **variables}, log, prepare)
        started.append(process)
        window = Window(f"http://127.0.0.1:{port}", process, output)

        def answers() -> bool:
            assert process.poll() is None, output.read_text()
            with contextlib.suppress(httpx.TransportError):
                return httpx.get(f"{window.url}/healthz").status_code in {200, 401, 404}
            return False

        wait_for(answers)
        return window

    yield start
    for process in started:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="session")
def window(serve: Call, demo_root: Path) -> str:
    """The address of a `polyhop ui` on the demo's index, which changes nothing."""
    return str(serve(demo_root).url)


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that the first test process to need it fills for all of them, which only read it."""
    own = factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / name
    done = folder.with_suffix(".done")
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a try that failed
            make(folder)
            done.touch()
    return folder


@pytest.fixture(scope="session")
def published_towns(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with the first edition, to copy."""
    return made_once(tmp_path_factory, "towns", lambda folder: Towns(folder, commands).publish()) / "root"


@pytest.fixture
def towns(published_towns: Path, commands: Commands, tmp_path: Path) -> Iterator[Towns]:
    """The index with an empty queue in a file."""
    own = Towns(tmp_path / "towns", commands)
    shutil.copytree(published_towns, own.root)
    yield own
    own.kill_all()


@pytest.fixture(scope="session")
def demo_root(tmp_path_factory: pytest.TempPathFactory, demo_folder: Path) -> Path:
    """A root with the demo's index, which tests only read."""
    corpus = demo_folder / "corpus.jsonl"
    return made_once(tmp_path_factory, "demo", lambda folder: indexed(Settings(root=folder), corpus, "demo"))


@pytest.fixture
def root(published: Path, tmp_path: Path) -> Path:
    """A root of its own for each test, and the files beside it: a copy of the folder that the file publishes."""
    shutil.copytree(published, tmp_path / "own")
    return tmp_path / "own" / "root"


@pytest.fixture
def command(root: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """A command in this process, on that root: a line, and words of which each is one argument."""
    from polyhop.cli import app

    monkeypatch.chdir(root.parent)
    monkeypatch.setenv("POLYHOP_ROOT", str(root))

    return lambda line, *arguments: CliRunner().invoke(app, [*shlex.split(line), *arguments])


@pytest.fixture
def good(command: Call) -> Call:
    """The JSON lines of such a command, which must succeed."""

    def run(line: str, *arguments: str) -> list[Any]:
        done = command(line, *arguments)
        assert done.exception is None, done.exception
        return [json.loads(printed) for printed in done.stdout.splitlines()]

    return run


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """A command in this process as the program ends it: a line, and words of which each is one argument."""
    from polyhop.cli import main

    def run(line: str, *arguments: str | Path) -> tuple[Any, str, str]:
        monkeypatch.setattr("sys.argv", ["polyhop", *shlex.split(line), *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    return run


@pytest.fixture
def restart_postgres(postgres_server: Any) -> Callable[[], None]:
    """Stops the server under its clients, waits a moment, starts it again."""

    def restart() -> None:
        postgres_server.stop()
        time.sleep(1.0)
        postgres_server.ensure_postgres_running()

    return restart


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def towns_on_both(request: pytest.FixtureRequest, towns: Towns) -> Towns:
    """The index with an empty queue, once per database."""
    if request.param == "postgresql":
        towns.settings = ("--set", f"queue.url={request.getfixturevalue('postgres_url')}")
    return towns
