"""Proposition paths from the command line: indexed, asked, explained, evaluated, kept up to date."""

import html
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_processes import Commands

Run = Callable[..., subprocess.CompletedProcess[str]]
RECORDS: list[dict[str, object]] = [
    {"id": "p1", "title": "The Nile", "text": "The Nile flows through Cairo. Cairo is the capital of Egypt."},
    {"id": "p2", "title": "Cairo Tower", "text": "The Cairo Tower stands in Cairo. It was designed by Naoum Shebib."},
    {"id": "p3", "title": "Naoum Shebib", "text": "Naoum Shebib was born in Cairo in 1915."},
    {"id": "p4", "title": "Warsaw", "text": "Warsaw lies on the Vistula. Warsaw is the capital of Poland."},
]
QUESTION = "Where was the designer of the Cairo Tower born?"
OPTIONS = ("--index", "tiny", "--set", "strategies=bm25,proprag", "--json")


def _json(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def published(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A folder with an index to copy, and the report of its run."""
    folder = tmp_path_factory.mktemp("proprag")
    (folder / "corpus.jsonl").write_text("".join(json.dumps(record) + "\n" for record in RECORDS), encoding="utf-8")
    return folder, _json(commands.run(["index", "corpus.jsonl", *OPTIONS], folder, {}))


@pytest.fixture
def indexed(published: tuple[Path, dict[str, Any]], tmp_path: Path) -> dict[str, Any]:
    """The index in a folder of the test's own."""
    folder, report = published
    shutil.copytree(folder / "polyhop-data", tmp_path / "polyhop-data")
    return report


def test_a_question_is_answered_over_paths_that_are_shown_and_drawn(
    polyhop: Run, indexed: dict[str, Any], tmp_path: Path
) -> None:
    assert {"embed-proposition", "embed-name", "propositions"} <= indexed["seconds"].keys()
    ask = ("ask", QUESTION, "--index", "tiny", "--strategy", "proprag")
    answer = _json(polyhop(*ask, "--json"))
    assert {row["id"] for row in answer["passages"][:2]} == {"p2", "p3"}
    best = answer["evidence"]["paths"][0]
    assert any("Naoum Shebib was born in Cairo" in name for name in best["names"])
    assert {node["kind"] for node in answer["evidence"]["nodes"]} == {"proposition"}
    assert len(best["edges"]) == len(best["nodes"]) - 1
    beams = answer["evidence"]["beams"]
    assert [len(path["connections"]) for beam in beams for path in beam] == [n for n, b in enumerate(beams) for _ in b]
    assert {one["type"] for beam in beams for path in beam for one in path["connections"]} >= {"exact", "synonym"}
    notes = {note["label"] for note in answer["evidence"]["notes"]}
    assert {"Explored", "Exploited", "Beam of length 1", "Beam of length 2", "Beam of length 3"} <= notes
    shown = polyhop(*ask, "--explain", "--html", tmp_path / "page.html").stdout
    page = html.unescape((tmp_path / "page.html").read_text(encoding="utf-8"))
    for path in beams[1]:
        left, right = path["nodes"]
        sign = {"exact": "→", "synonym": "≈", "jump": "⇢"}[path["connections"][0]["type"]]
        assert f"{left}{sign}{right} {path['score']:.4f}" in shown
        assert f"{left}{sign}{right} {path['score']:.4f}" in page
    for node in answer["evidence"]["nodes"]:
        assert f"{node['name']} {node['weight']:.3f}" in shown
        assert node["name"] in page
    for note in answer["evidence"]["notes"][:2]:
        for name, weight in note["items"]:
            assert f"{name} {weight:.3f}" in shown
            assert f"{name} {weight:.3f}" in page
    for path in answer["evidence"]["paths"]:
        assert f"{path['score']:.3f}  {path['text']}" in shown
        assert path["text"] in page
    assert any("→ " in path["text"] for path in answer["evidence"]["paths"])
    assert "passage states proposition" in page
    assert "Naoum Shebib mentions p" in page


def test_texts_of_paths_are_encoded_once_and_change_no_answer_when_they_come_from_the_cache(
    polyhop: Run, indexed: dict[str, Any]
) -> None:
    def cached() -> int:
        count: int = _json(polyhop("cache", "stats", "--json"))["paths"]["count"]
        return count

    def asked(*more: str) -> Any:
        answer = _json(polyhop("ask", QUESTION, "--index", "tiny", "--strategy", "proprag", *more, "--json"))
        return [answer[part] for part in ("passages", "evidence")]

    assert cached() == 0
    first = asked()
    count = cached()
    assert count > 0
    assert asked() == first
    assert cached() == count
    assert asked("--param", "exact=false") != first
    assert cached() == count


@pytest.mark.parametrize(
    ("parameter", "has_paths"),
    [
        ("max_length=1", True),
        ("exact=false", True),
        ("allow_unconnected=true", True),
        ("seeds=explore_only", True),
        ("edge_weights=ones", True),
        ("stage1_only=true", False),
    ],
)
def test_every_ablation_is_a_parameter(
    polyhop: Run, indexed: dict[str, Any], parameter: str, *, has_paths: bool
) -> None:
    ask = ("ask", QUESTION, "--index", "tiny", "--strategy", "proprag", "--param", parameter, "--json")
    answer = _json(polyhop(*ask))
    assert len(answer["passages"]) == 4
    assert bool(answer["evidence"].get("paths")) == has_paths
    if parameter == "max_length=1":
        assert all(len(path["nodes"]) == 1 for path in answer["evidence"]["paths"])


def test_the_same_corpus_changes_nothing_and_a_changed_one_embeds_what_is_new(
    polyhop: Run, indexed: dict[str, Any], write_corpus: Callable[..., Path]
) -> None:
    polyhop("index", write_corpus(RECORDS), *OPTIONS, "--source-name", "corpus")  # where the source lies now
    again = _json(polyhop("index", write_corpus(RECORDS), *OPTIONS, "--source-name", "corpus"))
    assert (again["changed"], again["computed"].get("embed-proposition", 0)) == (False, 0)
    changed = [*RECORDS, {"id": "p5", "title": "Vistula", "text": "The Vistula flows through Warsaw."}]
    report = _json(polyhop("index", write_corpus(changed), *OPTIONS, "--source-name", "corpus"))
    assert (report["version"], report["computed"]["embed-proposition"]) == (3, 1)
    rows = _json(polyhop("sql", "FROM synonym_edges", "--index", "tiny", "--json"))
    assert rows
    assert all(row["cosine"] >= 0.8 and row["entity_id"] != row["synonym_id"] for row in rows)
    assert polyhop("verify", "--index", "tiny").returncode == 0


def test_batches_of_a_queue_give_the_same_answers_as_asking_one_by_one(
    polyhop: Run, indexed: dict[str, Any], tmp_path: Path
) -> None:
    texts = [QUESTION, "Which river flows through the capital of Egypt?", "Where does Warsaw lie?"]
    questions = tmp_path / "questions.jsonl"
    rows = [{"id": f"q{number}", "question": text} for number, text in enumerate(texts)]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    _json(polyhop("submit", questions, "--index", "tiny", "--strategy", "proprag", "--json"))
    assert polyhop("worker", "--until-empty").returncode == 0
    answered = {row["id"]: row for row in map(json.loads, polyhop("results", "1", "--json").stdout.splitlines())}
    for number, text in enumerate(texts):
        alone = _json(polyhop("ask", text, "--index", "tiny", "--strategy", "proprag", "--json"))
        together = answered[f"q{number}"]
        assert [row["id"] for row in together["passages"]] == [row["id"] for row in alone["passages"]]
        assert together["answer"] == alone["answer"]
