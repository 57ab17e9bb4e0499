"""What commands say about damage: what it was, what became of it, and the command to run."""

import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from polyhop.cli import app
from polyhop.commands.index import print_report
from polyhop.commands.operate import _print
from polyhop.flows.reports import IndexReport
from polyhop.flows.verify import VerifyReport
from polyhop.warehouse.cache.vectors import VectorCache
from polyhop.warehouse.files.layout import Layout


def test_an_index_run_says_what_it_made_again(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(IndexReport("towns", 2, changed=True, damaged=["table 'mentions' cannot be read", "3 cached vectors"]))
    said = capsys.readouterr().out
    assert "  damaged, made again: table 'mentions' cannot be read\n  damaged, made again: 3 cached vectors\n" in said


def test_verify_names_the_command_that_fixes_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    report = VerifyReport("towns", 2, {"tables": [], "older_versions": ["version 1: file 'x' is missing"]})
    _print(report, "version 2")
    assert capsys.readouterr().out.splitlines()[1:] == [
        "ok    tables",
        "FAIL  older versions",
        "      version 1: file 'x' is missing",
        "Fix it with: polyhop verify --index towns --repair",
    ]


def test_cache_repair_says_what_it_saved(tmp_path: Path) -> None:
    path = Layout(tmp_path).vector_cache
    cache = VectorCache(path)
    cache.put_many({name: np.ones(3, np.float32) for name in "abc"})
    cache.close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE vectors SET vector = x'00' WHERE key = 'b'")
    connection.commit()
    connection.close()
    done = CliRunner().invoke(app, ["cache", "repair", "--root", str(tmp_path), "--json"])
    (saved,) = json.loads(done.stdout)
    assert (saved["saved"], saved["kept"]) == (2, f"{path}.damaged-1")
    again = CliRunner().invoke(app, ["cache", "repair", "--root", str(tmp_path)])
    assert again.stdout == "The caches are intact.\n"
