"""Spreading activation through the command line: an index extended for it, an answer with chains, ablations."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
CORPUS: list[dict[str, object]] = [
    {"id": "p1", "title": "Ada Lovelace", "text": "Ada Lovelace was born in London. She wrote notes on a machine."},
    {"id": "p2", "title": "London", "text": "London lies on the River Thames. It is the capital of England."},
    {"id": "p3", "title": "River Thames", "text": "The River Thames rises at Thames Head in Gloucestershire."},
    {"id": "p4", "title": "Paris", "text": "Paris lies on the Seine and is the capital of France."},
]
QUESTION = "Which river flows through the birthplace of Ada Lovelace?"


def _json(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_an_index_is_extended_for_qasa_and_answers_with_chains(polyhop: Run, write_corpus: Callable[..., Path]) -> None:
    polyhop("index", write_corpus(CORPUS), "--index", "tiny", "--set", "strategies=bm25")
    refused = polyhop("ask", QUESTION, "--index", "tiny", "--strategy", "qasa")
    assert refused.returncode == 1
    assert "--add-strategy qasa" in refused.stderr
    report = _json(polyhop("index", "--index", "tiny", "--set", "strategies=bm25", "--add-strategy", "qasa", "--json"))
    assert (report["changed"], report["version"]) == (True, 2)
    answer = _json(polyhop("ask", QUESTION, "--index", "tiny", "--strategy", "qasa", "--json"))
    evidence = answer["evidence"]
    assert [seed["key"] for seed in evidence["seeds"]] == ["ada lovelace"]
    assert {"p1", "p2"} <= {passage["id"] for passage in answer["passages"]}
    assert "p4" not in {passage["id"] for passage in answer["passages"]}
    keys = [path["nodes"] for path in evidence["paths"]]
    assert any(chain[:2] == ["ada lovelace", "london"] for chain in keys)
    assert "Ada Lovelace (PERSON): " in evidence["context"]
    without = _json(polyhop("ask", QUESTION, "--index", "tiny", "--strategy", "qasa", "--param", "steps=0", "--json"))
    assert [passage["id"] for passage in without["passages"]] == ["p1"]
    wrong = polyhop("ask", QUESTION, "--index", "tiny", "--strategy", "qasa", "--param", "decay=0")
    assert wrong.returncode != 0
    assert "'decay'" in wrong.stderr


def test_an_unknown_name_is_searched_through_the_encoder(polyhop: Run, write_corpus: Callable[..., Path]) -> None:
    polyhop("index", write_corpus(CORPUS), "--index", "tiny", "--set", "strategies=qasa")
    question = "Which river does the city of Londinium lie on?"
    evidence = _json(polyhop("ask", question, "--index", "tiny", "--strategy", "qasa", "--json"))["evidence"]
    assert evidence["names"] == {"matched": [], "unmatched": ["londinium"], "noun": "entities"}
    assert {seed["match"] for seed in evidence["seeds"]} == {"vector"}
    assert len(evidence["seeds"]) == 5


def test_ablations_are_variants_of_one_evaluation(
    polyhop: Run, write_corpus: Callable[..., Path], tmp_path: Path
) -> None:
    polyhop("index", write_corpus(CORPUS), "--index", "tiny", "--set", "strategies=naive-vector,qasa")
    questions = tmp_path / "questions.jsonl"
    gold = {"id": "q", "question": QUESTION, "answers": ["River Thames"], "supporting": ["p1", "p2"]}
    questions.write_text(json.dumps(gold), encoding="utf-8")
    variants = "qasa,qasa:steps=0,qasa:gate=none:decay=0.5,naive-vector"
    report = _json(polyhop("eval", questions, "--index", "tiny", "--strategies", variants, "--json"))
    assert list(report["strategies"]) == variants.split(",")
    assert report["strategies"]["qasa"]["recall@2"] == 1
    assert report["strategies"]["qasa:steps=0"]["recall@2"] == 0.5
    refused = polyhop("eval", questions, "--index", "tiny", "--strategies", "qasa:stepps=0")
    assert refused.returncode != 0
    assert "did you mean 'steps'" in refused.stderr


@pytest.mark.neo4j
def test_a_neo4j_server_that_holds_the_version_gives_the_same_answer(
    polyhop: Run, write_corpus: Callable[..., Path], neo4j_server: Any
) -> None:
    env = {"NEO4J_URI": neo4j_server.uri, "NEO4J_USER": "neo4j", "NEO4J_PASSWORD": neo4j_server.password}
    ask = ("ask", QUESTION, "--index", "tiny", "--strategy", "qasa", "--json")
    polyhop("index", write_corpus(CORPUS), "--index", "tiny", "--set", "strategies=qasa")
    refused = polyhop(*ask, "--param", "engine=neo4j", env=env)
    assert refused.returncode == 1
    assert "polyhop export neo4j" in refused.stderr
    exported = _json(polyhop("export", "neo4j", "--index", "tiny", "--json", env=env))
    assert exported["version"] == 1
    assert exported["created"] > 0
    embedded = _json(polyhop(*ask))
    database = _json(polyhop(*ask, "--param", "engine=neo4j", env=env))
    for name in ("seeds", "paths", "context", "names"):
        assert database["evidence"][name] == _nearly(embedded["evidence"][name])
    assert [p["id"] for p in database["passages"]] == [p["id"] for p in embedded["passages"]]
    nowhere = polyhop(*ask, "--param", "engine=neo4j")
    assert (nowhere.returncode, "NEO4J_URI" in nowhere.stderr) == (2, True)
    assert _json(polyhop("verify", "--index", "tiny", "--neo4j", "--json", env=env))["stores"]["neo4j"]["ok"]


def _nearly(value: Any) -> Any:
    """The same value, with numbers that may differ by rounding."""
    if isinstance(value, float):
        return pytest.approx(value, abs=1e-4)
    if isinstance(value, dict):
        return {key: _nearly(item) for key, item in value.items()}
    return [_nearly(item) for item in value] if isinstance(value, list) else value
