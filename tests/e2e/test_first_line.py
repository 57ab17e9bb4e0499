"""From a corpus to an answer, as a person does it: commands in processes of their own."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from command_processes import Commands

Run = Callable[..., subprocess.CompletedProcess[str]]
WriteCorpus = Callable[..., Path]

CORPUS: list[dict[str, object]] = [
    {
        "id": "p1",
        "title": "Ada Lovelace",
        "text": "Ada Lovelace was born in London in 1815. She wrote notes on a machine.",
    },
    {"id": "p2", "title": "London", "text": "London lies on the River Thames. It is the capital of England."},
    {"id": "p3", "title": "River Thames", "text": "The River Thames rises at Thames Head in Gloucestershire."},
    {"id": "p4", "title": "Charles Babbage", "text": "Charles Babbage designed the Analytical Engine in London."},
    {"id": "p5", "title": "Paris", "text": "Paris lies on the Seine and is the capital of France."},
]
QUESTION = "Which river flows through the birthplace of Ada Lovelace?"


def _json(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def published(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the corpus was indexed, to copy."""
    folder = tmp_path_factory.mktemp("published")
    (folder / "corpus.jsonl").write_text("".join(json.dumps(record) + "\n" for record in CORPUS), encoding="utf-8")
    done = commands.run(("index", "corpus.jsonl", "--index", "tiny"), folder, {})
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def indexed(published: Path, polyhop: Run, tmp_path: Path) -> Run:
    """Commands beside an index of the corpus."""
    shutil.copytree(published, tmp_path, dirs_exist_ok=True)
    return polyhop


def test_a_corpus_becomes_an_index_that_answers(new_polyhop: Run, polyhop: Run, write_corpus: WriteCorpus) -> None:
    corpus = write_corpus(CORPUS)
    report = _json(new_polyhop("index", corpus, "--index", "tiny", "--json"))
    assert report["changed"] is True
    assert report["version"] == 1
    assert report["counts"]["passages"] == 5
    assert set(report["model"]) == {
        *("calls", "cached", "prompt_tokens", "completion_tokens", "cost_usd", "replaced_counts"),
        *("unknown_calls", "unknown_tokens", "unknown_cost_usd"),
    }
    answer = _json(new_polyhop("ask", QUESTION, "--index", "tiny", "--limit", "3", "--json"))
    assert answer["strategy"] == "bridge"
    assert {p["id"] for p in answer["passages"]} >= {"p1", "p2"}
    assert [p["rank"] for p in answer["passages"]] == [1, 2, 3]
    assert answer["evidence"]["links"]
    text = polyhop("ask", QUESTION, "--index", "tiny", "--explain").stdout
    assert "How the evidence connects" in text


def test_the_same_corpus_again_publishes_nothing(polyhop: Run, write_corpus: WriteCorpus) -> None:
    corpus = write_corpus(CORPUS)
    polyhop("index", corpus, "--index", "tiny")
    again = _json(polyhop("index", corpus, "--index", "tiny", "--json"))
    assert (again["changed"], again["version"], again["computed"]) == (False, 1, {})
    assert "nothing was extracted or embedded" in polyhop("index", corpus, "--index", "tiny").stdout


def test_adds_edits_and_deletes_equal_a_full_rebuild(polyhop: Run, new_polyhop: Run, write_corpus: WriteCorpus) -> None:
    polyhop("index", write_corpus(CORPUS), "--index", "changed")
    edited = [*CORPUS[1:3], {**CORPUS[3], "text": "Charles Babbage was born in Walworth."}, CORPUS[4]]
    edited.append({"id": "p6", "title": "Walworth", "text": "Walworth is a district of London."})
    corpus = write_corpus(edited)
    changed = _json(polyhop("index", corpus, "--index", "changed", "--json"))
    assert changed["version"] == 2
    assert changed["computed"]["embed-passage"] == 2
    _json(new_polyhop("index", corpus, "--index", "fresh", "--json"))
    manifests = [_manifest(corpus.parent, "changed", 2), _manifest(corpus.parent, "fresh", 1)]
    assert manifests[0]["tables"] == manifests[1]["tables"]
    assert manifests[0]["arrays"] == manifests[1]["arrays"]


def test_order_of_the_corpus_changes_nothing(polyhop: Run, new_polyhop: Run, write_corpus: WriteCorpus) -> None:
    polyhop("index", write_corpus(CORPUS, "c.jsonl"), "--index", "one")
    first = _manifest(write_corpus(CORPUS, "c.jsonl").parent, "one", 1)
    corpus = write_corpus(CORPUS[::-1], "c.jsonl")
    new_polyhop("index", corpus, "--index", "two")
    second = _manifest(corpus.parent, "two", 1)
    assert first["tables"] == second["tables"]
    assert first["arrays"] == second["arrays"]


def test_another_strategy_is_added_without_extracting_again(indexed: Run) -> None:
    refused = indexed("ask", QUESTION, "--index", "tiny", "--strategy", "naive-vector")
    assert refused.returncode == 1
    assert "polyhop index --index tiny --add-strategy naive-vector" in refused.stderr
    added = _json(indexed("index", "--index", "tiny", "--add-strategy", "naive-vector", "--json"))
    assert added["changed"] is True
    assert "extract" in added["reused"]
    assert set(added["computed"]) == {"embed-entity"}
    answer = _json(indexed("ask", QUESTION, "--index", "tiny", "--strategy", "naive-vector", "--json"))
    assert answer["passages"]


def test_versions_are_listed_and_rolled_back(polyhop: Run, write_corpus: WriteCorpus) -> None:
    polyhop("index", write_corpus(CORPUS), "--index", "tiny")
    polyhop("index", write_corpus(CORPUS[:3]), "--index", "tiny")
    rows = _json(polyhop("versions", "--index", "tiny", "--json"))
    assert [(row["version"], row["current"], row["passages"]) for row in rows] == [(1, False, 5), (2, True, 3)]
    _json(polyhop("versions", "--index", "tiny", "--use", "1", "--json"))
    assert _json(polyhop("ask", QUESTION, "--index", "tiny", "--json"))["version"] == 1


def test_sql_reads_tables_views_and_vectors(indexed: Run, tmp_path: Path) -> None:
    query = "SELECT passage_id FROM passages_of_entity WHERE entity = 'London' ORDER BY passage_id"
    assert _json(indexed("sql", query, "--index", "tiny", "--json")) == [{"passage_id": p} for p in ("p1", "p2", "p4")]
    query = "SELECT count(*) AS n, min(len(vector)) AS d FROM passage_vectors"
    assert _json(indexed("sql", query, "--index", "tiny", "--json")) == [{"n": 5, "d": 384}]
    refused = indexed("sql", "DELETE FROM passages", "--index", "tiny")
    assert refused.returncode == 1
    assert "read-only" in refused.stderr
    plain = duckdb.connect(str(tmp_path / "polyhop-data/indexes/tiny/versions/000001/index.duckdb"), read_only=True)
    comments = plain.execute("SELECT comment FROM duckdb_columns() WHERE NOT internal AND table_name = 'passages'")
    assert all(comment for (comment,) in comments.fetchall())


def test_strategies_are_compared(indexed: Run, tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text(
        json.dumps({"id": "q1", "question": QUESTION, "answers": ["River Thames"], "supporting": ["p1", "p2"]}) + "\n"
    )
    out = tmp_path / "rows.jsonl"
    report = _json(indexed("eval", questions, "--index", "tiny", "--strategies", "bridge,bm25", "--json", "--out", out))
    assert report["n"] == 1
    assert list(report["strategies"]) == ["bridge", "bm25"]
    assert {
        "recall@2",
        "recall@5",
        "recall@10",
        "recall@30",
        "hit@10",
        "mrr",
        "em",
        "f1",
        "latency_ms",
        "failures",
    } <= set(report["strategies"]["bridge"])
    assert len(out.read_text().splitlines()) == 2


def test_doctor_finds_a_damaged_array(indexed: Run, tmp_path: Path) -> None:
    assert _json(indexed("doctor", "--json"))["ok"] is True
    array = tmp_path / "polyhop-data/indexes/tiny/versions/000001/graph/bipartite_tf.npy"
    array.write_bytes(array.read_bytes()[:-1] + b"\x7f")
    done = indexed("doctor", "--json")
    assert done.returncode == 1
    failed = [check for check in json.loads(done.stdout)["checks"] if not check["ok"]]
    assert [check["name"] for check in failed] == ["index tiny"]
    assert "file 'bipartite_tf.npy' has another content" in failed[0]["message"]
    assert "polyhop verify --index tiny --repair" in failed[0]["message"]


def _manifest(folder: Path, index: str, version: int) -> dict[str, Any]:
    path = folder / f"polyhop-data/indexes/{index}/versions/{version:06d}/manifest.json"
    document: dict[str, Any] = json.loads(path.read_text())
    return document
