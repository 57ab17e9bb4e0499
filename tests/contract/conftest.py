"""A question queue on each database that it supports; PostgreSQL is a real server, started once per session."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from queue_parts import Clock

from polyhop.warehouse.queue.queue import QuestionQueue, open_queue
from polyhop.warehouse.queue.schema import sqlite_url

PROJECT = Path(__file__).resolve().parents[2]
PRELUDE = """
import sys, time
from pathlib import Path
from polyhop.schemas.queue import FinishedQuestion, JobSpec, NewQuestion
from polyhop.warehouse.cache.replies import ReplyCache, ReplySource
from polyhop.warehouse.queue.queue import open_queue
"""


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "queue.sqlite")
    found: str = request.getfixturevalue("postgres_url")
    return found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def open_one(url: str) -> Iterator[Callable[..., QuestionQueue]]:
    """Opens the queue once more, as another process would; closed at the end."""
    opened: list[QuestionQueue] = []

    def open_again(**options: Any) -> QuestionQueue:
        opened.append(open_queue(url, **options))
        return opened[-1]

    yield open_again
    for queue in opened:
        queue.close()


@pytest.fixture
def queue(open_one: Callable[..., QuestionQueue], clock: Clock) -> QuestionQueue:
    return open_one(clock=clock)


@pytest.fixture
def start_python() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts Python code, after PRELUDE, in a process of its own; what still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(code: str, *arguments: object) -> subprocess.Popen[str]:
        command, pipe = [sys.executable, "-W", "error", "-c", PRELUDE + code, *map(str, arguments)], subprocess.PIPE
        started.append(subprocess.Popen(command, cwd=PROJECT, stdout=pipe, stderr=pipe, text=True, bufsize=1))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def graphs(neo4j_server: Any) -> Iterator[Any]:
    """An empty graph database; see graph_databases.py."""
    from graph_databases import on_neo4j

    with on_neo4j(neo4j_server) as opened:
        yield opened
