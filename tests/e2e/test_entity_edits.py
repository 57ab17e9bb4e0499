"""`polyhop entities edit`: what a person decides about entities holds in every later run."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
WriteCorpus = Callable[..., Path]

CORPUS: list[dict[str, object]] = [
    {"id": "p1", "title": "Zorgon Corp", "text": "Zorgon Corp is an American company. It was founded in Ulm."},
    {"id": "p2", "title": "Ulm", "text": "Ulm lies on the Danube. The company Zorgon has a plant there."},
    {"id": "p3", "title": "Donau", "text": "The Donau is a river in Ulm."},
]
MORE: dict[str, object] = {"id": "p4", "title": "Danube", "text": "The Danube is a river. Zorgon lies on the Danube."}
TABLES = ("entities", "mentions", "relations", "propositions", "proposition_entities", "aliases", "triple_entities")


@pytest.fixture
def run(polyhop: Run, write_corpus: WriteCorpus) -> Run:
    """Commands beside an index of these passages."""
    index(polyhop, write_corpus(CORPUS))
    return polyhop


def index(run: Run, corpus: Path | None = None, *arguments: str) -> None:
    source = [] if corpus is None else [corpus]
    done = run("index", *source, "--index", "tiny", "--set", "strategies=bridge-lexical", *arguments)
    assert done.returncode == 0, done.stderr


def edit(run: Run, *arguments: str) -> Any:
    done = run("entities", "edit", *arguments, "--index", "tiny", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(run: Run, *arguments: str) -> str:
    done = run("entities", "edit", *arguments, "--index", "tiny")
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


def rows(run: Run, query: str) -> Any:
    done = run("sql", query, "--index", "tiny", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def entity(run: Run, key: str) -> Any:
    found = rows(run, f"SELECT name, type FROM entities WHERE key = '{key}'")
    return tuple(found[0].values()) if found else None


def test_every_edit_holds_from_the_next_run_on_and_after_edits_of_the_corpus(
    run: Run, write_corpus: WriteCorpus
) -> None:
    before = {table: rows(run, f"FROM {table} ORDER BY ALL") for table in TABLES}
    edit(run, "merge", "Danube", "Donau")
    edit(run, "split", "Zorgon", "Zorgon Corp")
    edit(run, "rename", "Zorgon Corp", "Zorgon & Sons")
    edit(run, "retype", "Ulm", "organization")
    edit(run, "delete", "American")
    index(run)
    assert (entity(run, "zorgon corp"), entity(run, "ulm")) == (
        ("Zorgon & Sons", "ORGANIZATION"),
        ("Ulm", "ORGANIZATION"),
    )
    assert (entity(run, "american"), entity(run, "danube")) == (None, None)
    assert (entity(run, "donau"), entity(run, "zorgon")) == (("Donau", "LOCATION"), ("Zorgon", "ORGANIZATION"))
    why = json.loads(run("entities", "explain", "Danube", "Donau", "--index", "tiny", "--json").stdout)
    assert (why["same"], "edits.jsonl line 1" in why["reason"]) == (True, True)
    alias = "SELECT e.key FROM aliases AS a JOIN entities AS e USING (entity_id) WHERE alias_key = 'zorgon sons'"
    assert rows(run, alias) == [{"key": "zorgon corp"}]

    index(run, write_corpus([*CORPUS, MORE]))
    updated = {table: rows(run, f"FROM {table} ORDER BY ALL") for table in TABLES}
    index(run, None, "--full")
    assert {table: rows(run, f"FROM {table} ORDER BY ALL") for table in TABLES} == updated
    assert entity(run, "ulm") == ("Ulm", "ORGANIZATION")

    for _ in range(5):
        edit(run, "undo", "1")
    assert rows(run, "SELECT count(*) AS n FROM entities WHERE key = 'american'") == [{"n": 0}]
    index(run, write_corpus(CORPUS))
    assert {table: rows(run, f"FROM {table} ORDER BY ALL") for table in TABLES} == before


def test_the_last_decision_about_the_same_thing_counts(run: Run) -> None:
    edit(run, "merge", "Danube", "Donau")
    edit(run, "retype", "Ulm", "PERSON")
    edit(run, "split", "Donau", "Danube")
    edit(run, "retype", "Ulm", "NONE")
    assert edit(run, "list") == [
        {"edit": "split", "key": "donau", "other": "danube"},
        {"edit": "retype", "key": "ulm", "other": "NONE"},
    ]
    index(run)
    assert entity(run, "ulm") == ("Ulm", None)
    text = run("entities", "edit", "list", "--index", "tiny").stdout
    assert text == "1  split 'donau' from 'danube'\n2  retype 'ulm' to 'NONE'\n"


def test_what_cannot_be_done_is_one_sentence(run: Run, tmp_path: Path) -> None:
    assert "No passage of 'tiny' mentions 'Danuba'" in refused(run, "retype", "Danuba", "PERSON")
    assert "'PRESON' is not a type; choose one of EVENT, LOCATION" in refused(run, "retype", "Ulm", "PRESON")
    assert "'Ulm' and 'ULM' have one key" in refused(run, "split", "Ulm", "ULM")
    assert "'Zorgon' and 'Zorgon Corp' are one entity already" in refused(run, "merge", "Zorgon", "Zorgon Corp")
    assert "'Ulm' is the name of another entity" in refused(run, "rename", "Donau", "Ulm")
    assert "no decision 1 about 'tiny'" in refused(run, "undo", "1")
    assert "'!!!' is not a name" in refused(run, "delete", "!!!")
    done = run("entities", "edit", "list", "--index", "nowhere")
    assert (done.returncode, "nowhere" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "edits.jsonl line 1: not JSON"),
        ("[]", "an edit has the texts"),
        ('{"edit": "paint", "key": "ulm", "other": "red"}', "an edit is one of rename, merge, split, retype, delete"),
        ('{"edit": "rename", "key": "ulm", "other": ""}', "an edit is one of"),
        ('{"edit": "delete", "key": "ulm", "other": 1}', "an edit has the texts"),
    ],
)
def test_a_broken_file_of_edits_stops_a_run_in_one_sentence(run: Run, tmp_path: Path, line: str, said: str) -> None:
    (file,) = tmp_path.rglob("indexes/tiny")
    (file / "edits.jsonl").write_text(line)
    done = run("index", "--index", "tiny")
    assert (done.returncode, said in done.stderr, done.stderr.count("\n")) == (2, True, 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("rebaptise", "Ada"), "'rebaptise' is no edit of entities; choose one of rename, merge,"),
        (("rename", "Ada"), "'rename' takes 2 arguments, not 1"),
        (("undo", "first"), "'undo' takes the number of a decision"),
    ],
)
def test_an_edit_that_cannot_be_says_what_can(polyhop: Run, arguments: tuple[str, ...], said: str) -> None:
    """Before the index is looked for."""
    assert said in refused(polyhop, *arguments)
