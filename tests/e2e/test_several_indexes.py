"""`polyhop ask --index a,b`: every index answers by itself, passages are fused by rank and name their index."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import polyhop
from polyhop.cli import app
from polyhop.schemas.errors import ConfigurationError, UnknownIndexError

SHARED = {"title": "Thames", "text": "The River Thames flows through London."}
RECORDS = {
    "people": [
        {"id": "ada", "title": "Ada Lovelace", "text": "Ada Lovelace was born in London in 1815."},
        {"id": "common", **SHARED},
        {"id": "same", "title": "Charles Babbage", "text": "Charles Babbage was born in London in 1791."},
    ],
    "places": [
        {"id": "river", **SHARED},
        {"id": "same", "title": "London", "text": "London is the capital of England, on the Thames."},
    ],
}
QUESTION = "Where was Ada Lovelace born?"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("several")
    for name, rows in RECORDS.items():
        path = where / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        done = CliRunner().invoke(
            app, ["index", str(path), "--index", name, "--set", "strategies=bm25,bridge-lexical", "--root", str(where)]
        )
        assert done.exit_code == 0, done.output
    return where


@pytest.fixture
def ask(root: Path) -> Callable[..., Result]:
    """`polyhop ask` of both indexes."""

    def run(*options: str, index: str = "people,places", question: str = QUESTION) -> Result:
        given = ("--strategy", "bm25", "--root", str(root), *options)
        return CliRunner().invoke(app, ["ask", question, "--index", index, *given])

    return run


def test_passages_are_fused_by_rank_and_name_their_index(ask: Callable[..., Result], root: Path) -> None:
    found = json.loads(ask("--json", question="river thames london").stdout)
    ranks = {}
    for name in ("people", "places"):
        with polyhop.open_index(name, root=root) as index:
            ranks[name] = {row["id"]: row["rank"] for row in index.ask("river thames london", strategy="bm25").passages}
    first, *others = found["passages"]
    assert (first["index"], first["id"], first["also_in"]) == ("people", "common", ["places"])
    assert first["score"] == pytest.approx(
        1 / (60 + ranks["people"]["common"]) + 1 / (60 + ranks["places"]["river"]), abs=1e-6
    )
    assert {(row["index"], row["id"]) for row in others} == {("people", "ada"), ("people", "same"), ("places", "same")}
    for row in others:
        assert "also_in" not in row
        assert row["score"] == pytest.approx(1 / (60 + ranks[row["index"]][row["id"]]), abs=1e-6)
    assert [row["rank"] for row in found["passages"]] == [1, 2, 3, 4]
    scores = [row["score"] for row in found["passages"]]
    assert scores == sorted(scores, reverse=True)


def test_the_most_certain_index_answers_and_every_answer_is_there_whole(ask: Callable[..., Result], root: Path) -> None:
    found = json.loads(ask("--json").stdout)
    assert (found["answer"], found["index"]) == ("London", "people")
    assert [one["index"] for one in found["answers"]] == ["people", "places"]
    with polyhop.open_index("people", root=root) as index:
        alone = index.ask(QUESTION, strategy="bm25").to_json()
    one = {**found["answers"][0], "seconds": 0}
    assert one == {"index": "people", **alone, "seconds": 0}
    assert json.loads(ask("--json", index="places,people").stdout)["index"] == "people"


def test_a_person_reads_answer_index_and_passages(ask: Callable[..., Result]) -> None:
    lines = ask("--limit", "2").stdout.splitlines()
    assert lines[0] == f"Question  {QUESTION}"
    assert lines[1].startswith("Answer    London  (possible, confidence 0.")
    assert lines[1].endswith("(from the index people)")
    assert "Passages  (people: bm25, version 1, places: bm25, version 1)" in lines
    assert sum(line.endswith("  in people") for line in lines) == 2
    assert "Answer    (none found)" in ask(question="zzzz qqqq").stdout


def test_from_python(root: Path) -> None:
    with polyhop.open_indexes(["places", "people"], root=root) as indexes:
        assert indexes.names == ("places", "people")
        found = indexes.ask(QUESTION, limit=1, strategy="bridge-lexical")
        assert (found.answer, found.index, len(found.passages)) == ("London", "people", 1)
        assert {name: one.strategy for name, one in found.answers.items()} == dict.fromkeys(
            indexes.names, "bridge-lexical"
        )


@pytest.mark.parametrize(
    ("index", "options", "error", "words"),
    [
        ("people,people", (), ConfigurationError, "'people' is named twice"),
        ("people,nowhere", (), UnknownIndexError, "nowhere"),
        ("people,places", ("--explain",), ConfigurationError, "show one index"),
        ("people,places", ("--html", "page.html"), ConfigurationError, "show one index"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    ask: Callable[..., Result], index: str, options: tuple[str, ...], error: type[Exception], words: str
) -> None:
    done = ask(*options, index=index)
    assert isinstance(done.exception, error)
    assert words in str(done.exception)
