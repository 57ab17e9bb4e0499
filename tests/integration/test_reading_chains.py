"""Reading without passages over real HTTP (models.read_context = chains), as QASA's paper has its models answer."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from polyhop.cli import app
from polyhop.schemas.errors import ConfigurationError
from polyhop.warehouse.open_models import close_chats

CORPUS = [
    {"id": "ada", "title": "Ada Lovelace", "text": "Ada Lovelace was born in London. She wrote in the hidden attic."},
    {"id": "london", "title": "London", "text": "London is the capital of England. London lies on the Thames."},
]
QUESTION = "Where was Ada Lovelace born?"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("chains")
    (where / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in CORPUS), encoding="utf-8")
    options = ("--index", "ada", "--set", "strategies=bm25,qasa,naive-vector", "--root", str(where / "root"))
    done = CliRunner().invoke(app, ["index", str(where / "corpus.jsonl"), *options])
    assert done.exit_code == 0, done.output
    return where / "root"


@pytest.fixture
def ask(root: Path, model_server: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Result]]:
    """`polyhop ask` of the question by a model that reads chains."""
    for name, value in {
        "OPENAI_API_KEY": "not-a-key",
        "POLYHOP_ROOT": str(root),
        "POLYHOP_MODELS__READ": "openai/scripted",
        "POLYHOP_MODELS__API_BASE": model_server.url,
        "POLYHOP_MODELS__READ_CONTEXT": "chains",
    }.items():
        monkeypatch.setenv(name, value)
    reply = {"kind": "reply", "content": json.dumps({"reasoning": "A chain says so.", "answer": "London"})}
    model_server.respond(lambda asked: reply if asked.task == "qa.chains" else "reply")
    yield lambda *options: CliRunner().invoke(app, ["ask", QUESTION, "--index", "ada", "--json", *options])
    close_chats()


@pytest.mark.parametrize(("strategy", "seen"), [("qasa", "Chains:"), ("naive-vector", "London")])
def test_the_model_sees_what_the_strategy_wrote_and_no_passage(
    ask: Callable[..., Result], model_server: Any, strategy: str, seen: str
) -> None:
    done = ask("--strategy", strategy)
    assert done.exit_code == 0, done.exception
    answer = json.loads(done.stdout)
    assert (answer["answer"], answer["reading"]["by"]) == ("London", "model")
    assert answer["reading"]["prompt"]["name"] == "qa.chains"
    (prompt,) = [asked.prompt for asked in model_server.requests if asked.task == "qa.chains"]
    context = prompt.split('<data name="context">')[1]
    assert seen in context
    assert "hidden attic" not in prompt
    assert context.split("</data>")[0].strip() == answer["evidence"]["context"].strip()
    assert answer["passages"]


def test_a_strategy_that_writes_nothing_to_read_is_refused_before_anybody_is_asked(
    ask: Callable[..., Result], model_server: Any
) -> None:
    done = ask("--strategy", "bm25")
    assert isinstance(done.exception, ConfigurationError)
    assert "Strategy 'bm25' writes nothing that a model could read without passages" in str(done.exception)
    assert model_server.count() == 0
    assert ask("--strategy", "bm25", "--reader", "rules").exit_code == 0
