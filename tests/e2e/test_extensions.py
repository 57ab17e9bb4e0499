"""What other packages add, installed beside Polyhop as a user would: examples/extensions, from the command line."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_processes import Commands, install
from real_index import flip
from small_indexes import Call, Run, printed, write_rows

PROJECT = Path(__file__).resolve().parents[2]
XML = """<corpus>
<passage id="p1" title="The Nile" river="yes">The Nile flows through Cairo.</passage>
<passage id="p2" title="Cairo Tower"> </passage>
<passage id="p3" title="Warsaw">Warsaw lies on the Vistula.</passage>
</corpus>"""
CORPUS: list[dict[str, object]] = [
    {"id": "p1", "title": "The Nile", "text": "The Nile flows through Cairo. Cairo Tower stands near it."},
    {"id": "p2", "title": "Cairo Tower", "text": "It is 187 metres high."},
    {"id": "p3", "title": "Warsaw", "text": "Warsaw lies on the Vistula."},
]
TINY = ("--index", "tiny")
LINKED_TITLES = (*TINY, "--strategy", "linked-titles")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A variable that makes the example package known, which was built and installed into a folder of its own."""
    folder = tmp_path_factory.mktemp("site")
    install(PROJECT / "examples" / "extensions", folder)
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)}


@pytest.fixture(scope="module")
def published(commands: Commands, installed: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an index of three passages, to copy."""
    folder = tmp_path_factory.mktemp("published")
    write_rows(folder / "corpus.jsonl", CORPUS)
    command = ("index", "corpus.jsonl", *TINY, "--set", "strategies=bm25", "--json")
    assert printed(commands.run(command, folder, installed))["version"] == 1
    return folder


@pytest.fixture
def with_package(polyhop: Run, installed: dict[str, str]) -> Run:
    """Runs a command with the examples installed."""
    return lambda *arguments, **more: polyhop(*arguments, env=installed | more)


@pytest.fixture
def extended(with_package: Run, published: Path, tmp_path: Path) -> Run:
    """The same on an index of three passages."""
    shutil.copytree(published / "polyhop-data", tmp_path / "polyhop-data")
    return with_package


@pytest.mark.rare
def test_a_strategy_of_another_package_answers_and_its_evidence_is_drawn(extended: Run, tmp_path: Path) -> None:
    question = ("ask", "How high is the Cairo Tower?", *TINY, "--strategy", "shared-title")
    answer = printed(extended(*question, "--json"))
    assert [(row["id"], row["score"]) for row in answer["passages"]] == [("p2", 1.0)]
    assert answer["evidence"]["names"] == {"matched": ["cairo", "tower"], "unmatched": ["high"], "noun": "words"}
    text = extended(*question, "--explain", "--html", tmp_path / "page.html").stdout
    lines = ("Question words  matched: cairo, tower; unmatched: high", "  cairo → Cairo Tower", "Titles looked at  3")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    parts = ("<h2>Words in the question</h2>", "cairo → Cairo Tower", "Titles looked at", "is in")
    assert [part for part in lines if part not in text] + [part for part in parts if part not in page] == []


def test_a_command_of_another_package_stands_in_the_help_and_runs(extended: Run) -> None:
    assert "List the titles of the passages" in extended("--help").stdout
    assert printed(extended("titles", *TINY, "--json")) == ["Cairo Tower", "The Nile", "Warsaw"]


@pytest.mark.rare
def test_without_the_package_its_strategy_and_format_are_unknown(extended: Run, polyhop: Run) -> None:
    refused = polyhop("ask", "Cairo?", *TINY, "--strategy", "shared-title")
    assert (refused.returncode, "shared-title" in refused.stderr) == (2, True)
    assert ".parquet, .xml" in " ".join(extended("index", "--help").stdout.replace("│", " ").split())
    assert ".xml" not in polyhop("index", "--help").stdout


def test_a_corpus_in_a_format_of_another_package_is_indexed_alone_and_in_a_folder(
    with_package: Run, tmp_path: Path
) -> None:
    (corpus := tmp_path / "corpus").mkdir()
    (corpus / "a.xml").write_text(XML, encoding="utf-8")
    (corpus / "b.txt").write_text("Alexandria lies by the sea.", encoding="utf-8")
    for source, passages in ((corpus / "a.xml", ["p1", "p3"]), (corpus, ["b.txt", "p1", "p3"])):
        named = ("--index", source.stem, "--json")
        printed(with_package("index", source, *named, "--set", "strategies=bm25"))
        bad = "(SELECT (source, line, reason) FROM quarantine) AS bad"
        query = f"SELECT list(passage_id ORDER BY passage_id) AS ids, {bad} FROM passages"
        (row,) = printed(with_package("sql", query, *named))
        assert row["ids"] == passages
        assert list(row["bad"].values()) == ["a.xml", 3, "the text is empty"]


@pytest.mark.rare
def test_vectors_of_another_package_are_published_in_a_table_of_their_own_and_searched(
    extended: Run, polyhop: Run
) -> None:
    printed(extended("index", *TINY, "--add-strategy", "nearest-title", "--json"))
    question = ("ask", "the tower", *TINY, "--strategy", "nearest-title", "--json")
    assert printed(extended(*question))["passages"][0]["id"] == "p2"
    rows = printed(extended("sql", "SELECT id FROM title_vectors ORDER BY id", *TINY, "--json"))
    assert [row["id"] for row in rows] == ["p1", "p2", "p3"]
    without = polyhop("index", *TINY, "--full")
    assert (without.returncode, "Unknown vector kind 'title'" in without.stderr) == (2, True)
    assert "install that package again" in without.stderr


def test_a_stage_of_another_package_fills_a_table_and_an_array_which_its_strategy_reads(
    with_package: Run, polyhop: Run, write_corpus: Call, tmp_path: Path
) -> None:
    """It runs again when the corpus changes, when a byte of its array flips, and not without its package."""
    strategies = ("--set", "strategies=bm25,linked-titles", *TINY, "--json")
    first = printed(with_package("index", write_corpus(CORPUS), *strategies))
    assert {"title-links", "publish"} <= first["seconds"].keys()
    rows = "SELECT passage_id, target_id, times FROM title_links"
    shown = printed(with_package("sql", rows, *TINY, "--json"))
    assert shown == [{"passage_id": "p1", "target_id": "p2", "times": 1}]
    answer = printed(with_package("ask", "Where does The Nile flow?", *LINKED_TITLES, "--json"))
    assert [(row["id"], row["score"]) for row in answer["passages"]] == [("p1", 1.0), ("p2", 0.5)]
    assert "Cairo Tower 0.500" in with_package("ask", "Where does The Nile flow?", *LINKED_TITLES, "--explain").stdout

    again = printed(with_package("index", write_corpus(CORPUS), *strategies))
    assert (again["changed"], "title-links" in again["reused"]) == (False, True)
    changed = [*CORPUS, {"id": "p4", "title": "Vistula", "text": "It flows through Warsaw."}]
    assert printed(with_package("index", write_corpus(changed), *strategies))["version"] == 2
    shown = printed(with_package("sql", f"{rows} ORDER BY ALL", *TINY, "--json"))
    assert [(row["passage_id"], row["target_id"]) for row in shown] == [("p1", "p2"), ("p3", "p4"), ("p4", "p3")]

    assert with_package("verify", *TINY).returncode == 0
    (array,) = tmp_path.rglob("000002/*/title-links_links.npy")
    flip(array, -8)
    question = ("ask", "Where does The Nile flow?", *LINKED_TITLES)
    refused = with_package(*question)
    assert (refused.returncode, "title-links" in refused.stderr) == (1, True)
    report = printed(with_package("index", write_corpus(changed), *strategies))
    assert (report["version"], "title-links_links.npy" in report["damaged"][0]) == (3, True)
    assert with_package(*question).returncode == 0

    assert polyhop("ask", "Cairo?", *TINY, "--strategy", "bm25").returncode == 0
    refused = polyhop("index", *TINY, "--full")
    assert (refused.returncode, "No stage builds 'title-links' from a corpus" in refused.stderr) == (2, True)


@pytest.mark.rare
def test_a_step_of_another_package_asks_a_model_is_planned_cached_and_tried_again(
    with_package: Run, write_corpus: Call, model_server: Any
) -> None:
    model_server.respond(_summary)
    values = ("strategies=bm25", "models.extract=openai/scripted", f"models.api_base={model_server.url}")
    options = [part for value in (*values, "models.price=1,2") for part in ("--set", value)]
    options += ["--add-strategy", "summary-words", "--json"]
    corpus, key = write_corpus(CORPUS), {"OPENAI_API_KEY": "sk-none"}

    def planned() -> Any:
        return printed(with_package("plan", corpus, *options, **key))["steps"]["examples.summarise"]

    before = planned()
    assert (before["calls"], model_server.count()) == (3, 0)

    index = ("index", corpus, *TINY, *options)
    first = with_package(*index, **key)
    assert printed(first)["model"]["calls"] == model_server.count() == 3
    rows = printed(with_package("sql", "FROM summaries ORDER BY ALL", *TINY, "--json"))
    assert [row["passage_id"] for row in rows] == ["p1", "p3"]
    question = ("ask", "Which capital lies in Poland?", *TINY, "--strategy", "summary-words", "--json")
    assert [row["id"] for row in printed(with_package(*question))["passages"]] == ["p3"]

    model_server.respond(lambda _: _reply("A tower in the capital of Egypt."))
    second = printed(with_package(*index, **key))
    assert (second["model"]["calls"], second["version"]) == (1, 2)
    third = printed(with_package(*index, **key))
    assert (third["model"]["calls"], third["changed"]) == (0, False)
    nothing = dict.fromkeys(("calls", "prompt_tokens", "completion_tokens", "seconds"), 0)
    assert planned() == {**before, **nothing, "cached": 3, "completion_range": [0, 0]}


def _summary(asked: Any) -> dict[str, str]:
    """Of two of the passages; the third is refused."""
    if "187 metres" in asked.prompt:
        return {"kind": "refusal"}
    return _reply("A river." if "Nile" in asked.prompt else "The capital of Poland.")


def _reply(summary: str) -> dict[str, str]:
    return {"content": json.dumps({"summary": summary})}
