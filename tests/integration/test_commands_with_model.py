"""Commands with a model over real HTTP: evaluations, reading of chains, and every step of HubLink."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from polyhop.cli import app
from polyhop.schemas.errors import ConfigurationError
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import stage_timings
from polyhop.warehouse.open_models import close_chats

Command = Callable[..., Result]
RECORDS = [
    {"id": f"p{n}", "title": f"Town {n}", "text": f"Town {n} lies on River {n % 2} in Wessex."} for n in range(4)
]
QUESTIONS = [
    {
        "id": f"q{n}",
        "question": f"Which river does Town {n} lie on?",
        "answers": [f"River {n % 2}"],
        "supporting": [f"p{n}"],
    }
    for n in range(4)
]


def respond(asked: Any) -> Any:
    """Reads rightly; without passages it knows one town. Anything else is left to the server."""
    if asked.task == "qa.closed_book":
        return reply("River 1" if "Town 1" in asked.prompt else "Thames")
    if asked.task == "qa.answer":
        question = asked.prompt.split('<data name="question">')[1]
        town = next(n for n in range(4) if f"Town {n}" in question.split("</data>")[0])
        return reply(f"River {town % 2}")
    return "reply"


def reply(answer: str) -> dict[str, str]:
    return {"kind": "reply", "content": json.dumps({"reasoning": "So it is.", "answer": answer, "citations": []})}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the roots that the first tests publish."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def opened(
    kept: Path, tmp_path: Path, model_server: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Command]]:
    """Opens an index: commands in this process, in a folder with these files and a copy of the root."""

    def start(name: str, files: dict[str, list[Any]], settings: dict[str, str], *index: str) -> Command:
        monkeypatch.chdir(tmp_path)
        known = {
            "OPENAI_API_KEY": "not-a-key",
            "POLYHOP_ROOT": str(tmp_path / "root"),
            "POLYHOP_MODELS__READ": "openai/scripted",
            "POLYHOP_MODELS__API_BASE": model_server.url,
            "POLYHOP_MODELS__PRICE": "1,2",
            "POLYHOP_MODELS__MAX_ATTEMPTS": "2",
        }
        for variable, value in (known | settings).items():
            monkeypatch.setenv(variable, value)
        for file, rows in files.items():
            Path(f"{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

        def run(*arguments: str) -> Result:
            close_chats()
            return CliRunner().invoke(app, arguments)

        if (kept / name).exists():
            shutil.copytree(kept / name, "root")
        else:
            done = run("index", *index, "--index", name)
            assert done.exit_code == 0, (done.exception, done.output)
            shutil.copytree("root", kept / name)
        return run

    yield start
    close_chats()


@pytest.fixture
def command(opened: Callable[..., Command], model_server: Any) -> Command:
    """Commands on an index that the model extracted."""
    model_server.respond(respond)
    files = {"corpus": RECORDS, "questions": QUESTIONS}
    settings = {"POLYHOP_MODELS__EXTRACT": "openai/scripted", "POLYHOP_STRATEGIES": "bm25,bridge-lexical"}
    return opened("towns", files, settings, "corpus.jsonl", "--set", "extraction.extractor=model")


@pytest.fixture
def evaluated(command: Command) -> Callable[..., Any]:
    """The JSON of an evaluation."""

    def run(*options: str) -> Any:
        done = command("eval", "questions.jsonl", "--index", "towns", "--json", *options)
        assert done.exception is None, done.exception
        return json.loads(done.stdout)

    return run


def test_the_model_answers_without_passages_beside_the_strategies_and_all_costs_are_shown(
    evaluated: Callable[..., Any], command: Command, model_server: Any
) -> None:
    options = ("--reader", "model", "--closed-book", "--strategies", "bm25,bridge-lexical", "--out", "rows.jsonl")
    report = evaluated(*options)
    read, closed = report["strategies"]["bm25"], report["strategies"]["closed-book"]
    assert list(report["strategies"]) == ["bm25", "bridge-lexical", "closed-book"]
    assert (read["em"], closed["em"], closed["answered"]["share"]) == (1, 0.25, 1)
    assert (read["recall@30"], closed["recall@30"], closed["mrr"], closed["failures"]) == (1, None, None, 0)
    assert list(report["paired"]["bm25 vs closed-book"]) == ["em", "f1"]
    assert report["paired"]["bm25 vs closed-book"]["em"]["wins"] == 3
    rows = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]
    assert [row["ranking"] for row in rows if row["strategy"] == "closed-book"] == [None] * 4
    taken = report["reading"]["closed-book"]
    assert (taken["prompt"]["name"], taken["calls"], taken["cached"]) == ("qa.closed_book", 4, 1)
    assert taken["cost_usd"] == pytest.approx((taken["prompt_tokens"] + 2 * taken["completion_tokens"]) / 1e6, abs=1e-6)
    prompts = [prompt for prompt in model_server.prompts() if "There are no passages" in prompt]
    assert (len(prompts), [prompt for prompt in prompts if "Wessex" in prompt]) == (4, [])

    costs = report["costs"]
    timings = stage_timings(Layout(Path("root")).index("towns"), 1)
    query = "SELECT sum(prompt_tokens)::INT AS p, sum(completion_tokens)::INT AS c FROM extraction_ledger"
    (spent,) = json.loads(command("sql", query, "--index", "towns", "--json").stdout)
    index = costs["bridge-lexical"]["index"]
    assert spent == {"p": index["prompt_tokens"], "c": index["completion_tokens"]}
    assert index["prompt_tokens"] > 0
    needed = ("ingest", "extract", "resolve", "graph", "lexical-stems")
    assert index["seconds"] == pytest.approx(sum(timings[name].seconds for name in needed), abs=1e-5)
    assert (costs["bm25"]["index"]["prompt_tokens"], costs["closed-book"]["index"]["seconds"]) == (0, 0)
    question = costs["closed-book"]["question"]
    assert 0 < question["prompt_tokens"] < costs["bm25"]["question"]["prompt_tokens"]
    stored = json.loads((Path(report["folder"]) / "timings.json").read_text())
    assert stored["costs"]["closed-book"]["index"] == costs["closed-book"]["index"]
    page = (Path(report["folder"]) / "report.html").read_text()
    assert ("index: prompt tokens" in page, "closed-book" in page) == (True, True)

    calls = model_server.count()
    again = evaluated(*options, "--baseline", "closed-book")
    assert (model_server.count(), again["reading"]["closed-book"]["calls"]) == (calls, 0)
    for one, other in ((report, "closed-book"), (again, "bm25")):
        run = json.loads((Path(one["folder"]) / "run.json").read_text())
        assert list(run["paired"][other]) == ["em", "f1"]
        assert "closed-book" in (Path(one["folder"]) / "summary.md").read_text()
    printed = command("eval", "questions.jsonl", "--index", "towns", "--no-store", *options).stdout
    for words in ("tokens per question", "bm25 vs closed-book, em: +0.750", f"{spent['p']:,} + {spent['c']:,}"):
        assert words in printed


def test_replies_of_no_use_leave_questions_unanswered_and_outages_and_the_budget_fail_them(
    evaluated: Callable[..., Any], command: Command, model_server: Any
) -> None:
    options = ("--reader", "model", "--closed-book", "--strategies", "bm25", "--no-store")
    row = evaluated(*options, "--set", "max_tokens=1")["strategies"]["closed-book"]
    assert (row["failures"], model_server.count("qa.closed_book")) == (4, 0)
    assert "max_tokens" in row["failed"][0]["error"]
    model_server.respond(lambda asked: "wrong_schema" if asked.task == "qa.closed_book" else respond(asked))
    report = evaluated(*options)
    row = report["strategies"]["closed-book"]
    assert (row["em"], row["answered"]["share"], row["failures"]) == (0, 0, 0)
    assert report["reading"]["closed-book"]["fallbacks"] == 5
    assert "5 left unanswered" in command("eval", "questions.jsonl", "--index", "towns", *options).stdout
    model_server.respond(lambda asked: {"kind": "error", "status": 503} if "Town 2" in asked.prompt else respond(asked))
    row = evaluated(*options)["strategies"]["closed-book"]
    assert ([failed["id"] for failed in row["failed"]], row["em"], row["recall@5"]) == (["q2"], 0.25, None)


def test_without_a_reader_nothing_is_asked_and_passages_are_ranked_as_ever(
    evaluated: Callable[..., Any], command: Command, model_server: Any
) -> None:
    read = evaluated("--reader", "rules", "--strategies", "bm25,bridge-lexical", "--no-store")
    report = evaluated("--reader", "none", "--strategies", "bm25,bridge-lexical", "--fail-below", "recall@5=0")
    for name, row in report["strategies"].items():
        assert (row["em"], row["f1"], row["answered"]["share"]) == (None, None, None)
        assert (row["recall@1"], row["mrr"]) == (read["strategies"][name]["recall@1"], read["strategies"][name]["mrr"])
        assert "reading" not in row["parts_ms"]
    assert "em" not in report["paired"]["bm25 vs bridge-lexical"]
    run = json.loads((Path(report["folder"]) / "run.json").read_text())
    assert (report["reader"], run["reader"]) == ("none", "none")
    done = command("eval", "questions.jsonl", "--index", "towns", "--reader", "none", "--strategies", "bm25")
    assert "No answers were read (--reader none)" in done.stdout
    ask = ("ask", QUESTIONS[1]["question"], "--index", "towns", "--strategy", "bm25", "--reader", "none")
    answer = json.loads(command(*ask, "--json").stdout)
    assert (answer["answer"], answer["reading"]["by"], answer["reading"]["kind"]) == ("", "none", "unread")
    assert (answer["passages"][0]["id"], "reading" in answer["seconds"]) == ("p1", False)
    assert "(not read; --reader rules or model reads one)" in command(*ask).stdout
    assert model_server.count("qa.answer") == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--reader", "none", "--closed-book"), "--closed-book asks a chat model without passages"),
        (("--reader", "none", "--fail-below", "f1=.1"), "--fail-below f1 needs answers, and --reader none reads none"),
        (("--closed-book", "--fail-below", "closed-book:mrr=.1"), "cannot judge mrr of 'closed-book'"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_sentence(
    command: Command, model_server: Any, options: tuple[str, ...], sentence: str
) -> None:
    done = command("eval", "questions.jsonl", "--index", "towns", "--strategies", "bm25", *options)
    assert isinstance(done.exception, ConfigurationError)
    assert sentence in str(done.exception)
    assert done.stdout == ""


CORPUS = [
    {"id": "ada", "title": "Ada Lovelace", "text": "Ada Lovelace was born in London. She wrote in the hidden attic."},
    {"id": "london", "title": "London", "text": "London is the capital of England. London lies on the Thames."},
]
QUESTION = "Where was Ada Lovelace born?"


@pytest.fixture
def ask(opened: Callable[..., Command], model_server: Any) -> Callable[..., Result]:
    """`polyhop ask` of the question by a model that reads chains."""
    settings = {"POLYHOP_STRATEGIES": "bm25,qasa,naive-vector", "POLYHOP_MODELS__READ_PASSAGES": "0"}
    run = opened("ada", {"corpus": CORPUS}, settings, "corpus.jsonl")
    said = {"kind": "reply", "content": json.dumps({"reasoning": "A chain says so.", "answer": "London"})}
    model_server.respond(lambda asked: said if asked.task == "qa.chains" else "reply")
    return lambda *options: run("ask", QUESTION, "--index", "ada", "--json", *options)


@pytest.mark.parametrize(("strategy", "seen"), [("qasa", "Chains:"), ("naive-vector", "London")])
def test_the_model_sees_what_the_strategy_wrote_and_no_passage(
    ask: Callable[..., Result], model_server: Any, strategy: str, seen: str
) -> None:
    answer = json.loads(ask("--strategy", strategy).stdout)
    assert (answer["answer"], answer["reading"]["by"]) == ("London", "model")
    assert answer["reading"]["prompt"]["name"] == "qa.chains"
    (prompt,) = [asked.prompt for asked in model_server.requests if asked.task == "qa.chains"]
    context = prompt.split('<data name="context">')[1]
    assert seen in context
    assert "hidden attic" not in prompt
    assert context.split("</data>")[0].strip() == answer["evidence"]["context"].strip()
    assert answer["passages"]


def test_a_strategy_that_writes_nothing_to_read_is_refused_before_anybody_is_asked(
    ask: Callable[..., Result], model_server: Any
) -> None:
    done = ask("--strategy", "bm25")
    assert isinstance(done.exception, ConfigurationError)
    assert "Strategy 'bm25' writes nothing that a model could read without passages" in str(done.exception)
    assert model_server.count() == 0
    assert ask("--strategy", "bm25", "--reader", "rules").exit_code == 0


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


def graph() -> list[dict[str, Any]]:
    """A field with two papers, one of which cites a third."""
    rows = [("Software Design", "contains", own) for own in ("P1", "P2")]
    for own, (_, author, method) in PAPERS.items():
        rows += [(own, "author", author), (own, "method", method)]

    def node(name: str) -> dict[str, Any]:
        return {"id": name, "name": PAPERS.get(name, (name,))[0], "types": ["Paper"] if name in PAPERS else []}

    rows.append(("P2", "cites", "P3"))
    return [{"subject": node(one), "predicate": predicate, "object": node(other)} for one, predicate, other in rows]


def block(prompt: str, name: str) -> str:
    return prompt.split(f'<data name="{name}">')[1].split("</data>", maxsplit=1)[0].strip()


def hub_reply(asked: Any) -> Any:
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


@pytest.fixture
def hub_command(opened: Callable[..., Command], model_server: Any) -> Command:
    model_server.respond(hub_reply)
    settings = {"POLYHOP_STRATEGIES": "hublink,hublink-topic", "POLYHOP_HUBS__TYPES": "Paper"}
    sources = ("--graph", "graph.jsonl", "--graph-sources", "texts.jsonl")
    return opened("papers", {"graph": graph(), "texts": TEXTS}, settings, *sources)


@pytest.fixture
def asked(hub_command: Command) -> Callable[..., Any]:
    """The JSON of an answer."""

    def run(*options: str) -> Any:
        done = hub_command("ask", "Who wrote the survey?", "--index", "papers", "--json", *options)
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
            return hub_reply(request)
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


def test_the_terminal_shows_partial_answers_and_the_cited_hub_within_the_budget(hub_command: Command) -> None:
    ask = ("ask", "Who wrote the survey?", "--index", "papers", "--strategy", "hublink")
    done = hub_command(*ask, "--set", "max_cost_usd=0.000001")
    assert (done.exit_code != 0, "budget" in str(done.exception).lower()) == (True, True)
    done = hub_command(*ask, "--explain", "--param", "number_of_hubs=3")
    for words in (
        "  [1]     [P3] Joins of Tables",
        "Partial answer 1  ",
        "Model  4 requests; at most 4 for a question",
    ):
        assert words in done.output
