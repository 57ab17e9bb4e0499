"""What other packages add, installed beside Polyhop as a user would: examples/extensions, from the command line."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).resolve().parents[2]
CORPUS: list[dict[str, object]] = [
    {"id": "p1", "title": "The Nile", "text": "The Nile flows through Cairo."},
    {"id": "p2", "title": "Cairo Tower", "text": "The Cairo Tower stands in Cairo."},
    {"id": "p3", "title": "Warsaw", "text": "Warsaw lies on the Vistula."},
]
XML = """<corpus>
<passage id="p1" title="The Nile" river="yes">The Nile flows through Cairo.</passage>
<passage id="p2" title="Cairo Tower"> </passage>
<passage id="p3" title="Warsaw">Warsaw lies on the Vistula.</passage>
</corpus>"""
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example package, built and installed into a folder of its own."""
    folder = tmp_path_factory.mktemp("site")
    command = ["uv", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), "--python", sys.executable]
    done = subprocess.run(
        [*command, str(PROJECT / "examples" / "extensions")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def with_package(polyhop: Run, installed: Path) -> Run:
    """Runs a command with the examples installed."""
    env = {"PYTHONPATH": os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)}

    def run(*arguments: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
        return polyhop(*arguments, env=env | more)

    return run


@pytest.fixture
def extended(with_package: Run, write_corpus: Callable[..., Path]) -> Run:
    """Runs a command with the examples installed, on an index of three passages."""
    done = with_package("index", write_corpus(CORPUS), "--index", "tiny", "--set", "strategies=bm25")
    assert done.returncode == 0, done.stderr
    return with_package


def test_a_strategy_of_another_package_answers_and_its_evidence_is_drawn(extended: Run, tmp_path: Path) -> None:
    question = ("ask", "How high is the Cairo Tower?", "--index", "tiny", "--strategy", "shared-title")
    answer = json.loads(extended(*question, "--json").stdout)
    assert [(row["id"], row["score"]) for row in answer["passages"]] == [("p2", 1.0)]
    assert answer["evidence"]["names"] == {"matched": ["cairo", "tower"], "unmatched": ["high"], "noun": "words"}
    text = extended(*question, "--explain", "--html", tmp_path / "page.html").stdout
    for line in (
        "Question words  matched: cairo, tower; unmatched: high",
        "  cairo → Cairo Tower",
        "Titles looked at  3",
    ):
        assert line in text, line
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for part in ("<h2>Words in the question</h2>", "cairo → Cairo Tower", "Titles looked at", "is in"):
        assert part in page, part


def test_its_parameters_are_checked_like_ours(extended: Run) -> None:
    question = ("ask", "Cairo?", "--index", "tiny", "--strategy", "shared-title", "--param")
    wrong = extended(*question, "shortest=0")
    assert (wrong.returncode, "'shortest' of strategy 'shared-title' is '0'" in wrong.stderr) == (2, True)
    unknown = extended(*question, "shotest=3")
    assert (unknown.returncode, "'shortest'" in unknown.stderr) == (2, True)


def test_a_command_of_another_package_stands_in_the_help_and_runs(extended: Run) -> None:
    assert "List the titles of the passages" in extended("--help").stdout
    assert json.loads(extended("titles", "--index", "tiny", "--json").stdout) == ["Cairo Tower", "The Nile", "Warsaw"]


def test_without_the_package_its_strategy_is_unknown(polyhop: Run, write_corpus: Callable[..., Path]) -> None:
    polyhop("index", write_corpus(CORPUS), "--index", "tiny", "--set", "strategies=bm25")
    refused = polyhop("ask", "Cairo?", "--index", "tiny", "--strategy", "shared-title")
    assert (refused.returncode, "shared-title" in refused.stderr) == (2, True)


def test_a_corpus_in_a_format_of_another_package_is_indexed_alone_and_in_a_folder(
    with_package: Run, tmp_path: Path
) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (corpus / "a.xml").write_text(XML, encoding="utf-8")
    (corpus / "b.txt").write_text("Alexandria lies by the sea.", encoding="utf-8")
    for source, passages in ((corpus / "a.xml", ["p1", "p3"]), (corpus, ["b.txt", "p1", "p3"])):
        options = ("--index", source.stem, "--set", "strategies=bm25", "--set", "corpus.max_quarantine_share=0.5")
        done = with_package("index", source, *options)
        assert done.returncode == 0, done.stderr
        query = (
            "SELECT list(passage_id ORDER BY passage_id) AS ids, (SELECT (source, line, reason) FROM quarantine) AS bad"
        )
        (row,) = json.loads(with_package("sql", f"{query} FROM passages", "--index", source.stem, "--json").stdout)
        assert row["ids"] == passages
        assert list(row["bad"].values()) == ["a.xml", 3, "the text is empty"]


def test_the_help_names_the_formats_of_installed_packages(with_package: Run, polyhop: Run) -> None:
    assert ".parquet, .xml" in " ".join(with_package("index", "--help").stdout.replace("│", " ").split())
    assert ".xml" not in polyhop("index", "--help").stdout


def test_vectors_of_another_package_are_published_in_a_table_of_their_own_and_searched(
    extended: Run, polyhop: Run
) -> None:
    done = extended("index", "--index", "tiny", "--add-strategy", "nearest-title", "--json")
    assert done.returncode == 0, done.stderr
    question = ("ask", "the tower", "--index", "tiny", "--strategy", "nearest-title", "--json")
    assert json.loads(extended(*question).stdout)["passages"][0]["id"] == "p2"
    rows = json.loads(extended("sql", "SELECT id FROM title_vectors ORDER BY id", "--index", "tiny", "--json").stdout)
    assert [row["id"] for row in rows] == ["p1", "p2", "p3"]
    without = polyhop("index", "--index", "tiny", "--full")
    assert (without.returncode, "Unknown vector kind 'title'" in without.stderr) == (2, True)
    assert "install that package again" in without.stderr


LINKED: list[dict[str, object]] = [
    {"id": "p1", "title": "The Nile", "text": "The Nile flows through Cairo. Cairo Tower stands near it."},
    {"id": "p2", "title": "Cairo Tower", "text": "It is 187 metres high."},
    {"id": "p3", "title": "Warsaw", "text": "Warsaw lies on the Vistula."},
]
LINKED_TITLES = ("--index", "tiny", "--strategy", "linked-titles")


def test_a_stage_of_another_package_fills_a_table_and_an_array_which_its_strategy_reads(
    with_package: Run, polyhop: Run, write_corpus: Callable[..., Path]
) -> None:
    strategies = ("--set", "strategies=bm25,linked-titles", "--index", "tiny", "--json")
    first = json.loads(with_package("index", write_corpus(LINKED), *strategies).stdout)
    assert {"title-links", "publish"} <= first["seconds"].keys()
    rows = "SELECT passage_id, target_id, times FROM title_links"
    shown = json.loads(with_package("sql", rows, "--index", "tiny", "--json").stdout)
    assert shown == [{"passage_id": "p1", "target_id": "p2", "times": 1}]
    answer = json.loads(with_package("ask", "Where does The Nile flow?", *LINKED_TITLES, "--json").stdout)
    assert [(row["id"], row["score"]) for row in answer["passages"]] == [("p1", 1.0), ("p2", 0.5)]
    assert "Cairo Tower 0.500" in with_package("ask", "Where does The Nile flow?", *LINKED_TITLES, "--explain").stdout

    again = json.loads(with_package("index", write_corpus(LINKED), *strategies).stdout)
    assert (again["changed"], "title-links" in again["reused"]) == (False, True)
    changed = [*LINKED, {"id": "p4", "title": "Vistula", "text": "It flows through Warsaw."}]
    assert json.loads(with_package("index", write_corpus(changed), *strategies).stdout)["version"] == 2
    shown = json.loads(with_package("sql", f"{rows} ORDER BY ALL", "--index", "tiny", "--json").stdout)
    assert [(row["passage_id"], row["target_id"]) for row in shown] == [("p1", "p2"), ("p3", "p4"), ("p4", "p3")]

    assert with_package("verify", "--index", "tiny").returncode == 0
    assert polyhop("ask", "Cairo?", "--index", "tiny", "--strategy", "bm25").returncode == 0
    refused = polyhop("index", "--index", "tiny", "--full")
    assert (refused.returncode, "No stage builds 'title-links' from a corpus" in refused.stderr) == (2, True)


def test_a_byte_of_its_array_that_flips_is_noticed_and_the_next_run_makes_it_again(
    with_package: Run, write_corpus: Callable[..., Path], tmp_path: Path
) -> None:
    options = ("--set", "strategies=linked-titles", "--index", "tiny", "--root", tmp_path / "root", "--json")
    with_package("index", write_corpus(LINKED), *options)
    (array,) = (tmp_path / "root").rglob("title-links_links.npy")
    content = bytearray(array.read_bytes())
    content[-8] ^= 64
    array.write_bytes(content)
    question = ("ask", "Where does The Nile flow?", *LINKED_TITLES, "--root", tmp_path / "root")
    refused = with_package(*question)
    assert (refused.returncode, "title-links" in refused.stderr) == (1, True)
    report = json.loads(with_package("index", write_corpus(LINKED), *options).stdout)
    assert (report["version"], "title-links_links.npy" in report["damaged"][0]) == (2, True)
    assert with_package(*question).returncode == 0


def test_a_step_of_another_package_asks_a_model_is_planned_cached_and_tried_again(
    with_package: Run, write_corpus: Callable[..., Path], model_server: Any
) -> None:
    model_server.respond(_summary)
    options = ("--set", "strategies=bm25", "--set", "models.extract=openai/scripted", "--add-strategy", "summary-words")
    address = ("--set", f"models.api_base={model_server.url}", "--set", "models.price=1,2",
               "--json")  # fmt: skip
    corpus = write_corpus(LINKED)
    key = {"OPENAI_API_KEY": "sk-none"}
    planned = json.loads(with_package("plan", corpus, *options, *address, **key).stdout)
    assert planned["steps"]["examples.summarise"]["calls"] == 3
    assert model_server.count() == 0

    index = ("index", corpus, "--index", "tiny", *options, *address)
    first = with_package(*index, **key)
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout)["model"]["calls"] == model_server.count() == 3
    rows = json.loads(with_package("sql", "FROM summaries ORDER BY ALL", "--index", "tiny", "--json").stdout)
    assert [row["passage_id"] for row in rows] == ["p1", "p3"]
    question = ("ask", "Which capital lies in Poland?", "--index", "tiny", "--strategy", "summary-words", "--json")
    assert [row["id"] for row in json.loads(with_package(*question).stdout)["passages"]] == ["p3"]

    model_server.respond(lambda _: _reply("A tower in the capital of Egypt."))
    second = json.loads(with_package(*index, **key).stdout)
    assert (second["model"]["calls"], second["version"]) == (1, 2)
    third = json.loads(with_package(*index, **key).stdout)
    assert (third["model"]["calls"], third["changed"]) == (0, False)
    assert json.loads(with_package("plan", corpus, *options, *address, **key).stdout)["steps"][
        "examples.summarise"
    ] == {**planned["steps"]["examples.summarise"], "cached": 3, "calls": 0, "prompt_tokens": 0,
          "completion_tokens": 0, "completion_range": [0, 0], "seconds": 0.0}  # fmt: skip


def _summary(asked: Any) -> dict[str, str]:
    """Of two of the passages; the third is refused."""
    if "187 metres" in asked.prompt:
        return {"kind": "refusal"}
    return _reply("A river." if "Nile" in asked.prompt else "The capital of Poland.")


def _reply(summary: str) -> dict[str, str]:
    return {"content": json.dumps({"summary": summary})}
