"""Paths of propositions and spreading activation from the command line: indexed, asked, explained, kept up to date."""

import html
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_processes import Commands
from small_indexes import Run, printed, write_rows

RECORDS: list[dict[str, object]] = [
    {"id": "p1", "title": "The Nile", "text": "The Nile flows through Cairo. Cairo is the capital of Egypt."},
    {"id": "p2", "title": "Cairo Tower", "text": "The Cairo Tower stands in Cairo. It was designed by Naoum Shebib."},
    {"id": "p3", "title": "Naoum Shebib", "text": "Naoum Shebib was born in Cairo in 1915."},
    {"id": "p4", "title": "Warsaw", "text": "Warsaw lies on the Vistula. Warsaw is the capital of Poland."},
]
QUESTION = "Where was the designer of the Cairo Tower born?"
TINY = ("--index", "tiny")
PROPRAG = (*TINY, "--strategy", "proprag")
OPTIONS = (*TINY, "--set", "strategies=bm25,proprag", "--source-name", "corpus", "--json")
LONDON: list[dict[str, object]] = [
    {"id": "p1", "title": "Ada Lovelace", "text": "Ada Lovelace was born in London. She wrote notes on a machine."},
    {"id": "p2", "title": "London", "text": "London lies on the River Thames. It is the capital of England."},
    {"id": "p3", "title": "River Thames", "text": "The River Thames rises at Thames Head in Gloucestershire."},
    {"id": "p4", "title": "Paris", "text": "Paris lies on the Seine and is the capital of France."},
]
RIVER = "Which river flows through the birthplace of Ada Lovelace?"
QASA = ("--index", "london", "--strategy", "qasa", "--json")


@pytest.fixture(scope="module")
def published(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A folder with two indexes to copy, and the report of the run of the first."""
    folder = tmp_path_factory.mktemp("published")
    write_rows(folder / "corpus.jsonl", RECORDS)
    report = printed(commands.run(["index", "corpus.jsonl", *OPTIONS], folder, {}))
    write_rows(folder / "london.jsonl", LONDON)
    settings = ("--set", "strategies=bm25", "--json")
    printed(commands.run(["index", "london.jsonl", "--index", "london", *settings], folder, {}))
    extended = commands.run(["index", "--index", "london", *settings, "--add-strategy", "qasa"], folder, {})
    assert (printed(extended)["changed"], printed(extended)["version"]) == (True, 2)
    return folder, report


@pytest.fixture
def run(published: tuple[Path, Any], polyhop: Run, tmp_path: Path) -> Run:
    """Commands beside indexes of the test's own."""
    shutil.copytree(published[0] / "polyhop-data", tmp_path / "polyhop-data")
    return polyhop


def test_a_question_is_answered_over_paths_that_are_shown_and_drawn(
    run: Run, published: tuple[Path, Any], tmp_path: Path
) -> None:
    assert {"embed-proposition", "embed-name", "propositions"} <= published[1]["seconds"].keys()
    answer = printed(run("ask", QUESTION, *PROPRAG, "--json"))
    evidence = answer["evidence"]
    assert {row["id"] for row in answer["passages"][:2]} == {"p2", "p3"}
    best = evidence["paths"][0]
    assert any("Naoum Shebib was born in Cairo" in name for name in best["names"])
    assert {node["kind"] for node in evidence["nodes"]} == {"proposition"}
    assert len(best["edges"]) == len(best["nodes"]) - 1
    beams = evidence["beams"]
    assert [len(path["connections"]) for beam in beams for path in beam] == [n for n, b in enumerate(beams) for _ in b]
    assert {one["type"] for beam in beams for path in beam for one in path["connections"]} >= {"exact", "synonym"}
    notes = {note["label"] for note in evidence["notes"]}
    assert {"Explored", "Exploited", "Beam of length 1", "Beam of length 2", "Beam of length 3"} <= notes
    shown = run("ask", QUESTION, *PROPRAG, "--explain", "--html", tmp_path / "page.html").stdout
    page = html.unescape((tmp_path / "page.html").read_text(encoding="utf-8"))
    signs = {"exact": "→", "synonym": "≈", "jump": "⇢"}
    in_both = [
        f"{path['nodes'][0]}{signs[path['connections'][0]['type']]}{path['nodes'][1]} {path['score']:.4f}"
        for path in beams[1]
    ]
    in_both += [f"{name} {weight:.3f}" for note in evidence["notes"][:2] for name, weight in note["items"]]
    assert [part for part in in_both if part not in shown or part not in page] == []
    for node in evidence["nodes"]:
        assert f"{node['name']} {node['weight']:.3f}" in shown
        assert node["name"] in page
    for path in evidence["paths"]:
        assert f"{path['score']:.3f}  {path['text']}" in shown
        assert path["text"] in page
    assert any("→ " in path["text"] for path in evidence["paths"])
    assert "passage states proposition" in page
    assert "Naoum Shebib mentions p" in page


@pytest.mark.rare
def test_texts_of_paths_are_encoded_once_and_change_no_answer_when_they_come_from_the_cache(run: Run) -> None:
    def cached() -> int:
        count: int = printed(run("cache", "stats", "--json"))["paths"]["count"]
        return count

    def asked(*more: str) -> Any:
        answer = printed(run("ask", QUESTION, *PROPRAG, *more, "--json"))
        return [answer[part] for part in ("passages", "evidence")]

    assert cached() == 0
    first = asked()
    count = cached()
    assert count > 0
    assert asked() == first
    assert cached() == count
    assert asked("--param", "exact=false") != first
    assert cached() == count


def test_the_same_corpus_changes_nothing_and_a_changed_one_embeds_what_is_new(
    run: Run, write_corpus: Callable[..., Path]
) -> None:
    run("index", write_corpus(RECORDS), *OPTIONS)  # where the source lies now
    again = printed(run("index", write_corpus(RECORDS), *OPTIONS))
    assert (again["changed"], again["computed"].get("embed-proposition", 0)) == (False, 0)
    changed = [*RECORDS, {"id": "p5", "title": "Vistula", "text": "The Vistula flows through Warsaw."}]
    report = printed(run("index", write_corpus(changed), *OPTIONS))
    assert (report["version"], report["computed"]["embed-proposition"]) == (3, 1)
    rows = printed(run("sql", "FROM synonym_edges", *TINY, "--json"))
    assert rows
    assert all(row["cosine"] >= 0.8 and row["entity_id"] != row["synonym_id"] for row in rows)
    assert run("verify", *TINY).returncode == 0


def test_an_index_that_was_extended_for_qasa_answers_with_chains(run: Run) -> None:
    answer = printed(run("ask", RIVER, *QASA))
    evidence = answer["evidence"]
    assert [seed["key"] for seed in evidence["seeds"]] == ["ada lovelace"]
    assert {"p1", "p2"} <= {passage["id"] for passage in answer["passages"]}
    assert "p4" not in {passage["id"] for passage in answer["passages"]}
    assert any(path["nodes"][:2] == ["ada lovelace", "london"] for path in evidence["paths"])
    assert "Ada Lovelace (PERSON): " in evidence["context"]
    without = printed(run("ask", RIVER, *QASA, "--param", "steps=0"))
    assert [passage["id"] for passage in without["passages"]] == ["p1"]
    wrong = run("ask", RIVER, *QASA, "--param", "decay=0")
    assert (wrong.returncode, "'decay'" in wrong.stderr) == (2, True)


@pytest.mark.rare
@pytest.mark.neo4j
def test_a_neo4j_server_that_holds_the_version_gives_the_same_answer(
    polyhop: Run, write_corpus: Callable[..., Path], neo4j_server: Any
) -> None:
    env = {"NEO4J_URI": neo4j_server.uri, "NEO4J_USER": "neo4j", "NEO4J_PASSWORD": neo4j_server.password}
    named = ("--index", "london")
    printed(polyhop("index", write_corpus(LONDON), *named, "--set", "strategies=qasa", "--json"))
    refused = polyhop("ask", RIVER, *QASA, "--param", "engine=neo4j", env=env)
    assert (refused.returncode, "polyhop export neo4j" in refused.stderr) == (1, True)
    exported = printed(polyhop("export", "neo4j", *named, "--json", env=env))
    assert (exported["version"], exported["created"] > 0) == (1, True)
    embedded = printed(polyhop("ask", RIVER, *QASA))
    database = printed(polyhop("ask", RIVER, *QASA, "--param", "engine=neo4j", env=env))
    for name in ("seeds", "paths", "context", "names"):
        assert database["evidence"][name] == _nearly(embedded["evidence"][name])
    assert [p["id"] for p in database["passages"]] == [p["id"] for p in embedded["passages"]]
    nowhere = polyhop("ask", RIVER, *QASA, "--param", "engine=neo4j")
    assert (nowhere.returncode, "NEO4J_URI" in nowhere.stderr) == (2, True)
    assert printed(polyhop("verify", *named, "--neo4j", "--json", env=env))["stores"]["neo4j"]["ok"]


def _nearly(value: Any) -> Any:
    """The same value, with numbers that may differ by rounding."""
    if isinstance(value, float):
        return pytest.approx(value, abs=1e-4)
    if isinstance(value, dict):
        return {key: _nearly(item) for key, item in value.items()}
    return [_nearly(item) for item in value] if isinstance(value, list) else value
