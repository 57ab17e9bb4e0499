"""From a corpus to an answer, as a person does it: commands in processes of their own."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_processes import Commands
from small_indexes import Run, printed, write_rows

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
TINY = ("--index", "tiny")


@pytest.fixture(scope="module")
def published(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A folder in which the corpus was indexed, to copy, and the report of the run."""
    folder = tmp_path_factory.mktemp("published")
    write_rows(folder / "corpus.jsonl", CORPUS)
    return folder, printed(commands.run(("index", "corpus.jsonl", *TINY, "--json"), folder, {}))


@pytest.fixture
def indexed(published: tuple[Path, Any], polyhop: Run, tmp_path: Path) -> Run:
    """Commands beside an index of the corpus."""
    shutil.copytree(published[0], tmp_path, dirs_exist_ok=True)
    return polyhop


def test_a_corpus_becomes_an_index_that_answers(indexed: Run, published: tuple[Path, Any]) -> None:
    index, report = ("index", published[0] / "corpus.jsonl", *TINY), published[1]
    assert (report["changed"], report["version"], report["counts"]["passages"]) == (True, 1, 5)
    assert set(report["model"]) == {
        *("calls", "cached", "prompt_tokens", "completion_tokens", "cost_usd", "replaced_counts"),
        *("unknown_calls", "unknown_tokens", "unknown_cost_usd"),
    }
    again = printed(indexed(*index, "--json"))
    assert (again["changed"], again["version"], again["computed"]) == (False, 1, {})
    assert "nothing was extracted or embedded" in indexed(*index).stdout
    answer = printed(indexed("ask", QUESTION, *TINY, "--limit", "3", "--json"))
    assert answer["strategy"] == "bridge"
    assert {p["id"] for p in answer["passages"]} >= {"p1", "p2"}
    assert [p["rank"] for p in answer["passages"]] == [1, 2, 3]
    assert answer["evidence"]["links"]
    assert "How the evidence connects" in indexed("ask", QUESTION, *TINY, "--explain").stdout


def test_edits_equal_a_full_build_in_any_order_and_the_version_before_can_be_used_again(
    indexed: Run, new_polyhop: Run, write_corpus: WriteCorpus, tmp_path: Path
) -> None:
    edited = [*CORPUS[1:3], {**CORPUS[3], "text": "Charles Babbage was born in Walworth."}, CORPUS[4]]
    edited.append({"id": "p6", "title": "Walworth", "text": "Walworth is a district of London."})
    changed = printed(indexed("index", write_corpus(edited), *TINY, "--source-name", "corpus", "--json"))
    assert (changed["version"], changed["computed"]["embed-passage"]) == (2, 2)
    printed(new_polyhop("index", write_corpus(edited[::-1]), "--index", "fresh", "--json"))
    updated, fresh = (
        json.loads((tmp_path / f"polyhop-data/indexes/{place}/manifest.json").read_text())
        for place in ("tiny/versions/000002", "fresh/versions/000001")
    )
    assert updated["tables"] == fresh["tables"]
    assert updated["arrays"] == fresh["arrays"]
    rows = printed(indexed("versions", *TINY, "--json"))
    assert [(row["version"], row["current"], row["passages"]) for row in rows] == [(1, False, 5), (2, True, 5)]
    printed(indexed("versions", *TINY, "--use", "1", "--json"))
    assert printed(indexed("ask", QUESTION, *TINY, "--json"))["version"] == 1


def test_another_strategy_is_added_without_extracting_again(indexed: Run) -> None:
    refused = indexed("ask", QUESTION, *TINY, "--strategy", "naive-vector")
    assert refused.returncode == 1
    assert "polyhop index --index tiny --add-strategy naive-vector" in refused.stderr
    added = printed(indexed("index", *TINY, "--add-strategy", "naive-vector", "--json"))
    assert (added["changed"], "extract" in added["reused"], set(added["computed"])) == (True, True, {"embed-entity"})
    assert printed(indexed("ask", QUESTION, *TINY, "--strategy", "naive-vector", "--json"))["passages"]


def test_sql_reads_tables_views_and_vectors(indexed: Run) -> None:
    query = "SELECT passage_id FROM passages_of_entity WHERE entity = 'London' ORDER BY passage_id"
    assert printed(indexed("sql", query, *TINY, "--json")) == [{"passage_id": p} for p in ("p1", "p2", "p4")]
    query = "SELECT count(*) AS n, min(len(vector)) AS d FROM passage_vectors"
    assert printed(indexed("sql", query, *TINY, "--json")) == [{"n": 5, "d": 384}]
    refused = indexed("sql", "DELETE FROM passages", *TINY)
    assert (refused.returncode, "read-only" in refused.stderr) == (1, True)


def test_doctor_finds_a_damaged_array(indexed: Run, tmp_path: Path) -> None:
    assert printed(indexed("doctor", "--json"))["ok"] is True
    array = tmp_path / "polyhop-data/indexes/tiny/versions/000001/graph/bipartite_tf.npy"
    array.write_bytes(array.read_bytes()[:-1] + b"\x7f")
    done = indexed("doctor", "--json")
    assert done.returncode == 1
    (failed,) = (check for check in json.loads(done.stdout)["checks"] if not check["ok"])
    assert failed["name"] == "index tiny"
    assert "file 'bipartite_tf.npy' has another content" in failed["message"]
    assert "polyhop verify --index tiny --repair" in failed["message"]


PEOPLE: list[dict[str, object]] = [
    {"id": "p1", "title": "Ann Roe", "text": "Ann Roe was born in Rome in 1950."},
    {"id": "p2", "title": "Rome", "text": "Rome lies on the Tiber."},
    {"id": "p3", "title": "Oslo", "text": "Oslo lies on a fjord. Bo Lee lives there."},
]
EXTRACTED: list[Any] = [
    {
        "id": "p1",
        "entities": ["Ann Roe", "Rome", "'); DROP TABLE entities; --"],
        "triples": [["Ann Roe", "was born in", "Rome"], ["Ann Roe", "1950"]],
    },
    {"id": "p2", "entities": ["Rome", "Tiber"], "triples": [["Rome", "lies on", "Tiber"]]},
    {"id": "gone", "entities": [], "triples": []},
    [1, 2],
]


def test_an_imported_extraction_is_indexed_reported_and_asked(
    polyhop: Run, write_corpus: WriteCorpus, tmp_path: Path
) -> None:
    openie = write_rows(tmp_path / "openie.jsonl", EXTRACTED)
    settings = {"extraction.extractor": f"import:{openie}", "strategies": "bridge-lexical", "batch_size": 2}
    options = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    index = ("index", write_corpus(PEOPLE), *TINY, *options, "--json")
    assert printed(polyhop(*index))["version"] == 1

    def rows(query: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in printed(polyhop("sql", query, *TINY, "--json"))]

    ((counts,),) = rows("SELECT counts_json FROM version_stages WHERE stage = 'extract'")
    stated = json.loads(counts)
    assert {
        name: stated[name] for name in stated if name not in {"mentions", "relations", "propositions", "triples"}
    } == {
        "extracted_units": 2,
        "malformed_rows": 1,
        "malformed_triples": 1,
        "malformed_triples_not_three_parts": 1,
        "unknown_ids": 1,
        "without_row": 1,
    }
    assert rows("SELECT step, unit_id, state, stand_in FROM extraction_ledger ORDER BY ALL") == [
        ("import", "p1", "done", ""),
        ("import", "p3", "failed", "rules"),
        ("import.row", "line 3", "failed", ""),
        ("import.row", "line 4", "failed", ""),
    ]
    extractors = rows("SELECT DISTINCT unit_id, extractor FROM mentions ORDER BY ALL")
    assert extractors == [("p1", "import"), ("p2", "import"), ("p3", "rules")]
    named = rows("SELECT name FROM entities WHERE key = 'drop table entities'")
    assert named == [("'); DROP TABLE entities; --",)]

    question = "Which river lies in the town where Ann Roe was born?"
    asked = printed(polyhop("ask", question, *TINY, "--strategy", "bridge-lexical", "--json"))
    assert {p["id"] for p in asked["passages"][:2]} == {"p1", "p2"}

    assert printed(polyhop(*index))["changed"] is False
    write_rows(openie, EXTRACTED[1:])
    assert printed(polyhop(*index))["version"] == 2
