"""Every step of HubLink by a model over real HTTP, from `polyhop index --graph` to `polyhop ask` and `explain`."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from polyhop.cli import app
from polyhop.warehouse.open_models import close_chats

Command = Callable[..., Result]
PAPERS = {
    "P1": ("Tactics of Microservices", "Ann Roe", "interview study"),
    "P2": ("Views of Monoliths", "Bob Low", "case study"),
    "P3": ("Joins of Tables", "Cid Moss", "survey"),
}


TEXTS = [
    {"id": "P3", "title": "Joins", "text": "A survey of joins.", "metadata": {"doi": "10.1/joins", "tags": ["sql"]}},
    {"id": "P3", "title": "Joins", "text": "A survey of joins.", "metadata": {"doi": "10.1/again"}},
    {"id": "P2", "title": "Views", "text": "Views are stored questions."},
]


def triple(subject: str, predicate: str, value: dict[str, Any]) -> dict[str, Any]:
    node: dict[str, Any] = {"id": subject, "name": PAPERS.get(subject, (subject,))[0], "types": []}
    if subject in PAPERS:
        node["types"] = ["Paper"]
    return {"subject": node, "predicate": predicate, "object": value}


def graph() -> list[dict[str, Any]]:
    """A field with two papers, one of which cites a third."""
    papers = {own: {"id": own, "name": name, "types": ["Paper"]} for own, (name, _, _) in PAPERS.items()}
    rows = [triple("Software Design", "contains", papers[own]) for own in ("P1", "P2")]
    for own, (_, author, method) in PAPERS.items():
        rows.append(triple(own, "author", {"id": author.replace(" ", "_"), "name": author, "types": ["Person"]}))
        rows.append(triple(own, "method", {"id": f"M{own}", "name": method, "types": ["Method"]}))
    return [*rows, triple("P2", "cites", papers["P3"])]


def block(prompt: str, name: str) -> str:
    return prompt.split(f'<data name="{name}">')[1].split("</data>", maxsplit=1)[0].strip()


def respond(asked: Any) -> Any:
    """Contributes the author of each hub; the answer needs Cid Moss; the filter keeps what says so."""
    if asked.task.startswith("hub."):
        return {"kind": "reply", "content": json.dumps(REPLIES[asked.task](asked.prompt))}
    return "reply"


def partial(prompt: str) -> dict[str, Any]:
    lines = block(prompt, "statements").splitlines()
    used = [n for n, line in enumerate(lines, start=1) if " author " in line]
    said = [match[1] for line in lines if (match := re.search(r" author (.*)\.", line))]
    return {"sufficient": bool(said), "answer": f"Written by {said[0]}." if said else "", "used": used}


def final(prompt: str) -> dict[str, Any]:
    lines = block(prompt, "partial_answers").splitlines()
    cited = [n for n, line in enumerate(lines, start=1) if "Cid Moss" in line]
    return {"sufficient": bool(cited), "answer": "Cid Moss" if cited else "", "citations": cited}


def supporting(prompt: str) -> dict[str, Any]:
    lines = block(prompt, "statements").splitlines()
    return {"ids": [n for n, line in enumerate(lines, start=1) if "Cid Moss" in line]}


REPLIES: dict[str, Callable[[str], dict[str, Any]]] = {
    "hub.partial": partial,
    "hub.final": final,
    "hub.filter": supporting,
    "hub.components": lambda _: {"components": ["author", "survey"]},
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the root that the first test publishes."""
    return tmp_path_factory.mktemp("hublink")


@pytest.fixture
def command(built: Path, tmp_path: Path, model_server: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    monkeypatch.chdir(tmp_path)
    settings = {
        "OPENAI_API_KEY": "not-a-key",
        "POLYHOP_ROOT": str(tmp_path / "root"),
        "POLYHOP_MODELS__READ": "openai/scripted",
        "POLYHOP_MODELS__API_BASE": model_server.url,
        "POLYHOP_MODELS__PRICE": "1,2",
        "POLYHOP_MODELS__MAX_ATTEMPTS": "2",
        "POLYHOP_STRATEGIES": "hublink,hublink-topic",
        "POLYHOP_HUBS__TYPES": "Paper",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    Path("graph.jsonl").write_text("".join(json.dumps(row) + "\n" for row in graph()), encoding="utf-8")

    def run(*arguments: str) -> Result:
        close_chats()
        return CliRunner().invoke(app, arguments)

    Path("texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in TEXTS), encoding="utf-8")
    model_server.respond(respond)
    if not (built / "root").exists():
        done = run(
            "index", "--graph", "graph.jsonl", "--graph-sources", "texts.jsonl", "--index", "papers", "--json"
        )  # fmt: skip
        assert done.exit_code == 0, (done.exception, done.output)
        shutil.copytree("root", built / "root")
    else:
        shutil.copytree(built / "root", "root")
    yield run
    close_chats()


@pytest.fixture
def asked(command: Command) -> Callable[..., Any]:
    """The JSON of an answer."""

    def run(*options: str) -> Any:
        done = command("ask", "Who wrote the survey?", "--index", "papers", "--json", *options)
        assert done.exception is None, (done.exception, done.output)
        return json.loads(done.stdout)

    return run


ALL_STEPS = ("--param", "question_components=model", "--param", "output_filter=1")


def test_the_traversal_goes_on_until_a_level_suffices(asked: Callable[..., Any], model_server: Any) -> None:
    """Level 1 has the field's papers, which do not answer; level 2 the paper that one of them cites."""
    document = asked("--strategy", "hublink-topic", "--topic", "Software Design", *ALL_STEPS)
    assert (document["answer"], document["reading"]["by"]) == ("Cid Moss", "model")
    (cited,) = document["reading"]["citations"]
    assert (cited["hub_id"], cited["name"], cited["number"]) == ("P3", "Joins of Tables", 1)
    answers = document["evidence"]["hub_answers"]
    assert answers["levels_used"] == 2
    assert [(row["level"], row["asked"], row["sufficient"], row["calls"]) for row in answers["levels"]] == [
        (1, 2, 2, 3),
        (2, 1, 1, 2),
    ]
    assert [part["prompt"]["name"] for part in document["reading"]["parts"]] == [
        *["hub.partial"] * 2,
        "hub.final",
        "hub.partial",
        "hub.final",
        "hub.filter",
    ]
    assert [(row["predicate"], row["object"]["name"]) for row in document["triples"]] == [("author", "Cid Moss")]
    assert document["reading"]["naming"]["prompt"]["name"] == "hub.components"
    assert document["reading"]["spent"]["calls"] == 7


def test_a_partial_question_shows_metadata_that_its_answer_can_cite(
    asked: Callable[..., Any], model_server: Any
) -> None:
    """Types of the graph, and the metadata of every row that attached a text, after the numbers of the paths."""
    shown: dict[str, list[str]] = {}

    def reply(request: Any) -> Any:
        if request.task != "hub.partial":
            return respond(request)
        lines = block(request.prompt, "metadata").splitlines()
        shown[block(request.prompt, "thing")] = lines
        dois = [int(line[1 : line.index("]")]) for line in lines if "10.1/joins" in line]
        said = {"sufficient": True, "answer": "Cid Moss wrote it.", "used": dois}
        return {"kind": "reply", "content": json.dumps(said)}

    model_server.respond(reply)
    document = asked("--strategy", "hublink", "--param", "number_of_hubs=3")
    assert shown == {
        "Tactics of Microservices": ["[3] Tactics of Microservices: type Paper"],
        "Views of Monoliths": ["[4] Views of Monoliths: type Paper"],
        "Joins of Tables": [
            "[3] Joins of Tables: type Paper",
            "[4] passage Joins: doi 10.1/again",
            "[5] passage Joins: doi 10.1/joins",
            "[6] passage Joins: tags sql",
        ],
    }
    (cited,) = (row for row in document["evidence"]["hub_answers"]["partial_answers"] if row["used_metadata"])
    assert (cited["hub_id"], cited["used_paths"]) == ("P3", [])
    assert [(one["field"], one["value"]) for one in cited["used_metadata"]] == [("doi", "10.1/joins")]
    asked("--strategy", "hublink", "--param", "n_source_chunks=0")
    assert set(map(tuple, shown.values())) == {("(none)",)}


def test_the_same_question_again_is_free_and_answered_alike(asked: Callable[..., Any]) -> None:
    options = ("--strategy", "hublink", *ALL_STEPS)
    first, again = asked(*options), asked(*options)
    assert (first["answer"], first["triples"]) == (again["answer"], again["triples"])
    assert (first["reading"]["spent"]["calls"], again["reading"]["spent"]["calls"]) == (6, 0)
    assert again["reading"]["cached"] is True
    assert again["reading"]["usage"] == first["reading"]["usage"]


def test_the_budget_holds_before_the_first_call(command: Command) -> None:
    done = command(
        "ask", "Who wrote the survey?", "--index", "papers", "--strategy", "hublink", "--set", "max_cost_usd=0.000001"
    )
    assert done.exit_code != 0
    assert "budget" in str(done.exception).lower() + done.output.lower()


def test_the_terminal_shows_partial_answers_and_the_cited_hub(command: Command) -> None:
    done = command(
        "ask", "Who wrote the survey?", "--index", "papers", "--strategy", "hublink", "--explain", "--param",
        "number_of_hubs=3",
    )  # fmt: skip
    assert "  [1]     [P3] Joins of Tables" in done.output
    assert "Partial answer 1  " in done.output
    assert "Model  4 requests; at most 4 for a question" in done.output
