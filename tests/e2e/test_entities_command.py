"""Merged names as a person meets them: questions that use them, and why they are one."""

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
    {"id": "p3", "title": "Paris", "text": "Paris is a city in France."},
    {"id": "p4", "title": "Paris, Texas", "text": "Paris, Texas is a city in Lamar County."},
    {"id": "p5", "title": "Danube", "text": "The Danube is a river."},
]


@pytest.fixture
def indexed(polyhop: Run, write_corpus: WriteCorpus, tmp_path: Path) -> Run:
    """Commands on an index of these passages, with link files."""
    (tmp_path / "links.csv").write_text("a,b,same\nBlue Giant,Zorgon Corp,\nUlm,Paris,no\n")
    done = polyhop(
        *("index", write_corpus(CORPUS), "--index", "tiny", "--set", "strategies=bridge-lexical,graph"),
        *("--set", "resolution.links=links.csv"),
    )
    assert done.returncode == 0, done.stderr
    return polyhop


def explained(run: Run, a: str, b: str) -> Any:
    done = run("entities", "explain", a, b, "--index", "tiny", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_names_are_explained(indexed: Run) -> None:
    one = explained(indexed, "Zorgon", "Zorgon Corp")
    assert (one["same"], one["reason"]) == (True, "'zorgon corp' only adds corp to 'zorgon'")
    assert [decision["key"] for decision in one["decisions"]] == ["zorgon", "zorgon corp"]
    assert explained(indexed, "Blue Giant", "zorgon")["same"] is True
    assert "cannot-link 'ulm' is not 'paris' (links.csv line 3)" in explained(indexed, "Paris", "Ulm")["reason"]
    apart = explained(indexed, "Paris", "Paris, Texas")
    assert (apart["same"], "same words" in apart["reason"]) == (False, True)
    unseen = explained(indexed, "Danuba", "Ulm")
    assert unseen["same"] is False
    assert unseen["nearest"]["Danuba"][0] == "Danube"
    text = indexed("entities", "explain", "Zorgon", "Zorgon Corp", "--index", "tiny").stdout
    assert text.startswith("Zorgon and Zorgon Corp are one entity: ")
    assert "zorgon -> zorgon corp  (resolution, ORGANIZATION)" in text


@pytest.mark.parametrize("name", ["Zorgon", "Blue Giant"])
def test_a_question_finds_the_passages_of_the_entity_under_its_other_names(indexed: Run, name: str) -> None:
    done = indexed("ask", f"Where was {name} founded?", "--index", "tiny", "--strategy", "graph", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["evidence"]["names"]["matched"] == ["zorgon corp"]
    assert answer["passages"][0]["id"] in {"p1", "p2"}


def test_bad_links_and_names_are_one_sentence(indexed: Run, write_corpus: WriteCorpus, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("a,b\nUlm\n")
    done = indexed("index", write_corpus(CORPUS), "--index", "tiny", "--set", "resolution.links=bad.csv")
    assert (done.returncode, done.stderr) == (2, "polyhop: bad.csv line 2: 1 columns instead of 2.\n")
    done = indexed("entities", "explain", "!!!", "'; DROP TABLE entities; --", "--index", "tiny")
    assert (done.returncode, done.stderr.startswith("polyhop: '!!!' is not a name")) == (2, True)
    assert explained(indexed, "'; DROP TABLE entities; --", "Ulm")["same"] is False
