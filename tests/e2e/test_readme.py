"""README.md and the how-to pages tell the truth: commands run, settings exist, the demo prints what is shown."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import loaded
from small_indexes import Run, printed, write_rows

from polyhop.worker.strategies.registry import STRATEGIES

WriteCorpus = Callable[..., Path]
PROJECT = Path(__file__).resolve().parents[2]
README = (PROJECT / "README.md").read_text(encoding="utf-8")
HOW_TO = PROJECT / "docs" / "how-to"
REFERENCE = PROJECT / "docs" / "reference"
TEXT = "Ada Lovelace was born in London, on the River Thames."
MOST_LINES = 249
MOST_PICTURE_BYTES = 200_000


def how_to(*names: str) -> list[str]:
    """Texts of how-to pages."""
    return [(HOW_TO / f"{name}.md").read_text(encoding="utf-8") for name in names]


tables: Any = loaded("../benchmarks/readme_tables.py")


@pytest.mark.parametrize("part", ["settings", "musique", "strategies"])
def test_tables_are_those_of_the_settings_and_of_the_measured_results(part: str) -> None:
    marker, produce, pages = tables.PARTS[part]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert f"<!-- {marker}: begin -->" in text
        assert tables.replaced(text, marker, produce()) == text


def test_the_readme_is_short_and_its_pictures_are_small() -> None:
    assert len(README.splitlines()) <= MOST_LINES
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    assert len(pictures) == 3
    assert [name for name in pictures if (PROJECT / name).stat().st_size > MOST_PICTURE_BYTES] == []


def test_the_demo_prints_what_the_readme_shows(polyhop: Run) -> None:
    shown = re.search(r"<!-- demo output: begin -->\n```console\n(.*?)```", README, re.DOTALL)
    assert shown is not None
    told = polyhop("demo").stdout.replace(f"{PROJECT}/", "")
    assert _without_times(told) == _without_times(shown.group(1))
    assert printed(polyhop("demo", "--json"))["index"]["changed"] is False


def _without_times(text: str) -> list[str]:
    return [re.sub(r" +[\d.]+ (?:s|ms)\b", " TIME", line).rstrip() for line in text.splitlines()]


@pytest.mark.rare
def test_the_commands_on_an_own_corpus_run(
    polyhop: Run, write_corpus: WriteCorpus, tmp_path: Path, model_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    write_corpus([{"id": "1", "title": "Ada Lovelace", "text": TEXT, "metadata": {"year": 1815}}])
    gold = {"answers": ["London"], "supporting": ["1"]}
    write_rows(tmp_path / "questions.jsonl", [{"question": "Where was Ada Lovelace born?", **gold}])
    write_rows(tmp_path / "predictions.jsonl", [{"id": "q1", "prediction": "London", **gold}])
    start = README.split("## Your own corpus\n", 1)[1].split("\n## ", 1)[0]
    pages = ("indexing", "asking", "filters", "entities", "batches", "evaluation")
    assert run_all(polyhop, start, *how_to(*pages), env={"POLYHOP_MODELS__API_BASE": model_server.url}) >= 27


@pytest.mark.rare
def test_the_commands_on_a_knowledge_graph_run(polyhop: Run, tmp_path: Path) -> None:
    paper, person = (
        {"id": "p1", "name": "On Graphs", "types": ["Paper"]},
        {"id": "a1", "name": "Ada", "types": ["Person"]},
    )
    oslo = {"id": "u1", "name": "University of Oslo", "types": ["University"]}
    author = {"subject": paper, "predicate": "author", "object": person}
    write_rows(tmp_path / "triples.jsonl", [author, {"subject": person, "predicate": "affiliation", "object": oslo}])
    write_rows(tmp_path / "texts.jsonl", [{"id": "p1", "title": "On Graphs", "text": "Graphs are drawn by hand."}])
    golden = ["(p1:On Graphs, author, a1:Ada)"]
    write_rows(tmp_path / "kg-questions.jsonl", [{"question": "Who wrote On Graphs?", "golden_triples": golden}])
    assert run_all(polyhop, *how_to("knowledge-graphs")) == 5


@pytest.mark.rare
def test_the_commands_with_a_model_and_with_neo4j_run(
    polyhop: Run, write_corpus: WriteCorpus, tmp_path: Path, model_server: Any, neo4j_server: Any
) -> None:
    others = {"Fram": "Colin Archer", "Maud": "Christian Jensen"}
    built = (
        "{} is a ship that {} built in Larvik. Roald Amundsen sailed with it from Oslo to the Arctic Ocean in 1910, "
    )
    ships = [(title, f"{built.format(title, name)}and Fridtjof Nansen saw it leave.") for title, name in others.items()]
    passages = [("Ada Lovelace", TEXT), *ships]
    write_corpus([{"id": str(n), "title": title, "text": text} for n, (title, text) in enumerate(passages, start=1)])
    write_rows(tmp_path / "questions.jsonl", [{"id": "q1", "question": "Who built the Fram?", "answers": ["Archer"]}])
    triples = [["Ada Lovelace", "born in", "London"]]
    write_rows(tmp_path / "openie.jsonl", [{"id": "1", "entities": ["Ada Lovelace", "London"], "triples": triples}])
    env = {
        "POLYHOP_MODELS__API_BASE": model_server.url,
        "NEO4J_URI": neo4j_server.uri,
        "NEO4J_PASSWORD": neo4j_server.password,
    }
    assert run_all(polyhop, *how_to("models", "neo4j"), env=env) == 19


def run_all(polyhop: Run, *texts: str, env: dict[str, str] | None = None) -> int:
    """Runs every polyhop command that the texts show, in order; returns how many there were."""
    blocks = [block for text in texts for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL)]
    commands = re.findall(r"^\$ uv run polyhop (.*?)(?: +#.*)?$", "\n".join(blocks), re.MULTILINE)
    for command in commands:
        arguments = [part.strip('"') for part in re.findall(r'"[^"]*"|\S+', command)]
        done = polyhop(*arguments, env=env)
        assert done.returncode == 0, (command, done.stderr)
    return len(commands)


def test_ci_runs_exactly_the_readmes_test_command() -> None:
    assert "$ uv run pytest\n" in README
    assert (PROJECT / ".ci" / "run").read_text(encoding="utf-8").rstrip().endswith("\nuv run pytest")


def test_every_strategy_is_in_the_reference() -> None:
    page = (REFERENCE / "strategies.md").read_text(encoding="utf-8")
    assert [name for name in STRATEGIES if f"`{name}`" not in page] == []
