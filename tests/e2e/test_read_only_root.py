"""Reading commands need no place to write: a root that may only be read is asked, shown and checked as any other."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from polyhop.cli import app

READING = (
    "ask 'Who lived in London?' --index small --strategy dense",
    "explain 1 q1",
    "jobs",
    "results 1",
    "sql 'SELECT count(*) FROM results' --index small",
    "verify --index small",
)
WRITING = {
    "index {folder}/corpus.jsonl --index small": "no permission|read-only",
    "submit {folder}/questions.jsonl --index small": "may only be read",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder whose `root` holds an index, a cache and an answered job, and may not be written."""
    folder = tmp_path_factory.mktemp("read-only")
    pages = [
        '{"id": "ada", "title": "Ada", "text": "Ada lived in London with Charles Babbage."}',
        '{"id": "bo", "title": "Charles Babbage", "text": "Charles Babbage was born in London."}',
    ]
    (folder / "corpus.jsonl").write_text("\n".join(pages) + "\n")
    (folder / "questions.jsonl").write_text(
        '{"id": "q1", "question": "Where did Ada live?", "answers": ["London"], "supporting": ["ada"]}\n'
    )
    for line in (
        f"index {folder}/corpus.jsonl --index small --add-strategy graph --add-strategy dense",
        f"submit {folder}/questions.jsonl --index small --strategy bm25",
        "worker --until-empty",
    ):
        done = CliRunner().invoke(app, [*line.split(), "--root", str(folder / "root")])
        assert done.exit_code == 0, done.output
    everything = [folder / "root", *(folder / "root").rglob("*")]
    modes = {path: path.stat().st_mode for path in everything}
    for path, mode in modes.items():
        path.chmod(mode & ~0o222)
    yield folder
    for path, mode in modes.items():
        path.chmod(mode)


def _run(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command as a user whom modes of files bind; root loses its right to pass them over."""
    command = f"{Path(sys.executable).with_name('polyhop')} {line.format(folder=folder)} --root {folder}/root"
    if os.geteuid() == 0:
        command = f"setpriv --bounding-set=-dac_override --inh-caps=-dac_override {command}"
    return subprocess.run(["/bin/sh", "-c", command], check=False, capture_output=True, text=True)


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may write everywhere")
@pytest.mark.parametrize("line", READING)
def test_a_command_that_reads_needs_no_place_to_write(folder: Path, line: str) -> None:
    done = _run(line, folder)
    assert done.returncode == 0, done.stderr
    assert "annot" not in done.stderr


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may write everywhere")
@pytest.mark.parametrize("line", WRITING)
def test_a_command_that_writes_says_that_it_cannot(folder: Path, line: str) -> None:
    done = _run(line, folder)
    assert done.returncode == 1
    assert any(words in done.stderr for words in WRITING[line].split("|")), done.stderr
