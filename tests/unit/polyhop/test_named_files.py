"""Every command that writes a file which people name goes through one check: nothing of Polyhop's is overwritten."""

import hashlib
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from polyhop.cli import app
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import ConfigurationError, PolyhopError, StoreError
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings

COMMANDS = {
    "ask": "ask Where? --index small --strategy bm25 --html {file}",
    "cache export": "cache export {file}",
    "eval": "eval {questions} --index small --strategies bm25 --out {file}",
    "export extraction": "export extraction {file} --index small",
    "explain": "explain 1 q1 --html {file}",
    "results": "results 1 --out {file}",
    "score": "score {predictions} --out {file}",
}
NO_ROOT = {"score"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with an index, a cache of replies and an answered job."""
    folder = tmp_path_factory.mktemp("named")
    (folder / "corpus.jsonl").write_text('{"id": "ada", "title": "Ada", "text": "Ada lived in London."}\n')
    question = {"id": "q1", "question": "Where did Ada live?", "answers": ["London"], "supporting": ["ada"]}
    (folder / "questions.jsonl").write_text(json.dumps(question) + "\n")
    (folder / "predictions.jsonl").write_text('{"id": "q1", "prediction": "London", "answers": ["London"]}\n')
    settings = Settings(root=folder / "root", strategies=("bm25",))
    run_index(settings, IndexRequest("small", folder / "corpus.jsonl"), DirectRunner())
    for line in (f"submit {folder}/questions.jsonl --index small --strategy bm25", "worker --until-empty"):
        assert CliRunner().invoke(app, [*line.split(), "--root", str(settings.root)]).exit_code == 0
    CliRunner().invoke(app, ["cache", "export", str(folder / "replies.parquet"), "--root", str(settings.root)])
    return settings.root


def contents(root: Path) -> dict[Path, str]:
    files = [file for file in root.rglob("*") if file.is_file() and "-shm" not in file.name]
    return {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("file", "error", "words"),
    [
        ("{root}/indexes/small/CURRENT", ConfigurationError, "is among Polyhop's own files below"),
        ("{root}/indexes/small/new/er.jsonl", ConfigurationError, "is among Polyhop's own files below"),
        ("{root}/queue.sqlite", ConfigurationError, "is among Polyhop's own files below"),
        ("{root}/caches/x", ConfigurationError, "is among Polyhop's own files below"),
        ("/dev/null/x", StoreError, "Cannot write "),
    ],
)
def test_a_place_that_is_none_is_refused_in_a_sentence_and_nothing_changes(
    root: Path, command: str, file: str, error: type[PolyhopError], words: str
) -> None:
    folder = root.parent
    named = {"questions": folder / "questions.jsonl", "predictions": folder / "predictions.jsonl"}
    line = COMMANDS[command].format(file=file.format(root=root), **named)
    before = contents(root)
    done = CliRunner().invoke(app, [*line.split(), *([] if command in NO_ROOT else ["--root", str(root)])])
    assert type(done.exception) is error, done.output
    assert words in str(done.exception)
    assert contents(root) == before
