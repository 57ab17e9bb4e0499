"""Small indexes of tests that go a whole way: files of rows, an index made in this process, what commands print."""

import json
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from polyhop.flows.index import run_index
from polyhop.flows.reports import IndexReport
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.records import Source
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings

Run = Callable[..., subprocess.CompletedProcess[str]]
"""A command to its end, in a process of its own: the fixture `polyhop`."""
Call = Callable[..., Any]
"""What a fixture gives to be called."""
Rows = Iterable[Mapping[str, object]]
TOWNS = 100


def write_rows(path: Path, rows: Rows, *more: str) -> Path:
    """A .jsonl file of rows, and of lines as they are."""
    lines = [*map(json.dumps, rows), *more]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def record(own_id: str, title: str, text: str, **more: object) -> dict[str, object]:
    return {"id": own_id, "title": title, "text": text, **more}


def town_records(edition: int = 1) -> list[dict[str, object]]:
    """A corpus of towns on rivers in countries; an edition changes the texts, not the ids."""
    about = "lies on the River {} in Country {}. Edition {}."
    return [record(f"p{n:03d}", f"Town {n}", f"Town {n} {about.format(n % 7, n % 3, edition)}") for n in range(TOWNS)]


def indexed(settings: Settings, source: Source | None, name: str = "towns", **request: Any) -> IndexReport:
    """Makes an index in this process."""
    return run_index(settings, IndexRequest(name, source, **request), DirectRunner())


def publish(folder: Path, records: Rows, name: str = "towns", strategies: str = "bm25,bridge-lexical") -> Path:
    """Indexes records in the folder's `root`, which it returns; these strategies need no vectors."""
    settings = Settings(root=folder / "root", strategies=tuple(strategies.split(",")))
    indexed(settings, write_rows(folder / f"{name}.jsonl", records), name)
    return folder / "root"


def printed(done: subprocess.CompletedProcess[str]) -> Any:
    """The JSON of a command that must succeed."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def wait_for(is_reached: Callable[[], object], seconds: float = 90.0) -> None:
    """Waits until something that other processes bring about is so."""
    end = time.monotonic() + seconds
    while not is_reached():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)
