"""Commands with a model over real HTTP: evaluations, reading of chains, and every step of HubLink."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner, Result

from polyhop.cli import app
from polyhop.schemas.errors import ConfigurationError
from polyhop.server.app import make_app
from polyhop.warehouse.open_models import current_run
from polyhop.warehouse.user_files import load_settings

Command = Callable[..., Result]
Read = Callable[..., Any]
TOWNS = [{"id": f"p{n}", "title": f"Town {n}", "text": f"Town {n} lies on River {n % 2} in Wessex."} for n in range(4)]
ASKED = "Which river does Town {} lie on?"
QUESTIONS = [
    {"id": f"q{n}", "question": ASKED.format(n), "answers": [f"River {n % 2}"], "supporting": [f"p{n}"]}
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
def opened(kept: Path, tmp_path: Path, model_server: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Opens an index: commands in this process, in a folder with these files and a copy of the root."""

    def start(name: str, files: dict[str, list[Any]], settings: dict[str, str], *index: str) -> Command:
        monkeypatch.chdir(tmp_path)
        models = {"READ": "openai/scripted", "API_BASE": model_server.url, "PRICE": "1,2", "MAX_ATTEMPTS": "2"}
        known = {"OPENAI_API_KEY": "not-a-key", "POLYHOP_ROOT": str(tmp_path / "root")}
        known |= {f"POLYHOP_MODELS__{name}": value for name, value in models.items()}
        for variable, value in (known | settings).items():
            monkeypatch.setenv(variable, value)
        for file, rows in files.items():
            Path(f"{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

        def run(*arguments: str) -> Result:
            current_run().close()
            return CliRunner().invoke(app, arguments)

        if (kept / name).exists():
            shutil.copytree(kept / name, "root")
        else:
            done = run("index", *index, "--index", name)
            assert done.exit_code == 0, (done.exception, done.output)
            shutil.copytree("root", kept / name)
        return run

    yield start
    current_run().close()


@pytest.fixture
def command(opened: Callable[..., Command], model_server: Any) -> Command:
    model_server.respond(respond)
    files = {"corpus": TOWNS, "questions": QUESTIONS}
    settings = {"POLYHOP_MODELS__EXTRACT": "openai/scripted", "POLYHOP_STRATEGIES": "bm25,bridge-lexical"}
    return opened("towns", files, settings, "corpus.jsonl", "--set", "extraction.extractor=model")


@pytest.fixture
def evaluated(command: Command) -> Read:
    def run(*options: str) -> Any:
        done = command("eval", "questions.jsonl", "--index", "towns", "--json", *options)
        assert done.exception is None, done.exception
        return json.loads(done.stdout)

    return run


def test_the_model_answers_without_passages_at_a_cost(evaluated: Read, command: Command, model_server: Any) -> None:
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

    query = "SELECT sum(prompt_tokens)::INT AS p, sum(completion_tokens)::INT AS c FROM extraction_ledger"
    (spent,) = json.loads(command("sql", query, "--index", "towns", "--json").stdout)
    costs, folder = report["costs"], Path(report["folder"])
    index, question = costs["bridge-lexical"]["index"], costs["closed-book"]["question"]
    assert spent == {"p": index["prompt_tokens"], "c": index["completion_tokens"]}
    assert 0 < question["prompt_tokens"] < costs["bm25"]["question"]["prompt_tokens"] < index["prompt_tokens"]
    stored = json.loads((folder / "timings.json").read_text())["costs"]
    assert stored["closed-book"]["index"] == costs["closed-book"]["index"]
    assert "index: prompt tokens" in (folder / "report.html").read_text()

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


def test_useless_replies_answer_nothing_and_outages_fail(evaluated: Read, command: Command, model_server: Any) -> None:
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


def test_without_a_reader_nothing_is_asked(evaluated: Read, command: Command, model_server: Any) -> None:
    options = ("--reader", "none", "--strategies", "bm25")
    report = evaluated(*options, "--fail-below", "recall@5=0")
    row = report["strategies"]["bm25"]
    assert (row["em"], row["answered"]["share"], row["recall@1"]) == (None, None, 1)
    assert "reading" not in row["parts_ms"]
    assert report["reader"] == json.loads((Path(report["folder"]) / "run.json").read_text())["reader"] == "none"
    said = command("eval", "questions.jsonl", "--index", "towns", "--no-store", *options).stdout
    assert "Reading is disabled (--reader none)" in said
    ask = ("ask", QUESTIONS[1]["question"], "--index", "towns", "--strategy", "bm25", "--reader", "none")
    answer = json.loads(command(*ask, "--json").stdout)
    assert (answer["answer"], answer["reading"]["by"], answer["reading"]["kind"]) == ("", "none", "unread")
    assert "(reading is disabled; --reader spans or --reader model enables it)" in command(*ask).stdout
    assert model_server.count("qa.answer") == 0


def test_what_does_not_go_together_is_refused_in_one_sentence(command: Command) -> None:
    for options, sentence in (
        (("--reader", "none", "--closed-book"), "--closed-book asks a chat model without passages"),
        (("--reader", "none", "--fail-below", "f1=.1"), "--fail-below f1 needs answers; use --reader spans or model"),
        (("--closed-book", "--fail-below", "closed-book:mrr=.1"), "cannot judge mrr of 'closed-book'"),
    ):
        done = command("eval", "questions.jsonl", "--index", "towns", "--strategies", "bm25", *options)
        assert (type(done.exception), done.stdout) == (ConfigurationError, "")
        assert sentence in str(done.exception)


CORPUS = [
    {"id": "ada", "title": "Ada Lovelace", "text": "Ada Lovelace was born in London. She wrote in the hidden attic."},
    {"id": "london", "title": "London", "text": "London is the capital of England. London lies on the Thames."},
]


def test_without_passages_the_model_sees_what_the_strategy_wrote_if_it_writes(opened: Any, model_server: Any) -> None:
    settings = {"POLYHOP_STRATEGIES": "bm25,qasa,naive-vector", "POLYHOP_MODELS__READ_PASSAGES": "0"}
    run = opened("ada", {"corpus": CORPUS}, settings, "corpus.jsonl")
    said = {"kind": "reply", "content": json.dumps({"reasoning": "A chain says so.", "answer": "London"})}
    model_server.respond(lambda asked: said if asked.task == "qa.chains" else "reply")
    ask = ("ask", "Where was Ada Lovelace born?", "--index", "ada", "--json", "--strategy")
    refused = run(*ask, "bm25").exception
    assert isinstance(refused, ConfigurationError)
    assert "Strategy 'bm25' produces no text for a model; set models.read_passages above 0" in str(refused)
    assert (run(*ask, "bm25", "--reader", "spans").exit_code, model_server.count()) == (0, 0)
    answer = json.loads(run(*ask, "naive-vector").stdout)
    assert (answer["answer"], answer["reading"]["by"], bool(answer["passages"])) == ("London", "model", True)
    assert answer["reading"]["prompt"]["name"] == "qa.chains"
    (prompt,) = [asked.prompt for asked in model_server.requests if asked.task == "qa.chains"]
    assert ("London" in block(prompt, "context"), "hidden attic" in prompt) == (True, False)
    assert block(prompt, "context") == answer["evidence"]["context"].strip()


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


# each hub contributes its author; the answer needs Cid Moss; the filter keeps what says so
REPLIES: dict[str, Callable[[str], dict[str, Any]]] = {
    "hub.partial": partial,
    "hub.final": final,
    "hub.filter": supporting,
    "hub.components": lambda _: {"components": ["author", "survey"]},
}


def test_the_traversal_goes_on_until_a_level_suffices_and_shows_metadata(opened: Any, model_server: Any) -> None:
    """Level 1 has the field's papers, which do not answer; level 2 the paper that one of them cites."""
    shown: dict[str, list[str]] = {}

    def reply(asked: Any) -> Any:
        if asked.task == "hub.partial":
            shown[block(asked.prompt, "thing")] = block(asked.prompt, "metadata").splitlines()
        made = REPLIES.get(asked.task)
        return {"kind": "reply", "content": json.dumps(made(asked.prompt))} if made else "reply"

    model_server.respond(reply)
    settings = {"POLYHOP_STRATEGIES": "hublink-topic", "POLYHOP_HUBS__TYPES": "Paper"}
    sources = ("--graph", "graph.jsonl", "--graph-sources", "texts.jsonl")
    command = opened("papers", {"graph": graph(), "texts": TEXTS}, settings, *sources)
    options = ("--param", "question_components=model", "--param", "output_filter=1", "--topic", "Software Design")
    ask = ("ask", "Who wrote the survey?", "--index", "papers", "--strategy", "hublink-topic", *options)
    document = json.loads(command(*ask, "--json").stdout)
    reading, answers = document["reading"], document["evidence"]["hub_answers"]
    assert (document["answer"], reading["by"], answers["levels_used"]) == ("Cid Moss", "model", 2)
    assert [(one["hub_id"], one["name"], one["number"]) for one in reading["citations"]] == [("P3", PAPERS["P3"][0], 1)]
    levels = [(row["level"], row["asked"], row["sufficient"], row["calls"]) for row in answers["levels"]]
    assert levels == [(1, 2, 2, 3), (2, 1, 1, 2)]
    steps = [*["hub.partial"] * 2, "hub.final", "hub.partial", "hub.final", "hub.filter"]
    assert [part["prompt"]["name"] for part in reading["parts"]] == steps
    assert [(row["predicate"], row["object"]["name"]) for row in document["triples"]] == [("author", "Cid Moss")]
    assert (reading["naming"]["prompt"]["name"], reading["spent"]["calls"]) == ("hub.components", 7)
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
    command(*ask, "--param", "n_source_chunks=0")
    assert set(map(tuple, shown.values())) == {("(none)",)}
    explained = command(*ask, "--explain").output
    for words in (
        "  [1]     [P3] Joins of Tables",
        "Partial answer 1  ",
        "Model  6 requests; at most 32 for a question\n",
    ):
        assert words in explained


@pytest.mark.parametrize(("kind", "label"), [("reply", "Read by"), ("wrong_schema", "Asked")])
def test_a_model_is_named_as_reader_only_if_it_read(command: Command, model_server: Any, kind: str, label: str) -> None:
    model_server.respond(lambda asked: kind if kind != "reply" else respond(asked))
    shown = command("ask", QUESTIONS[1]["question"], "--index", "towns", "--strategy", "bm25").stdout
    named = [line.partition("openai/scripted")[0].strip() for line in shown.splitlines() if "openai/scripted" in line]
    assert named == [label]


def test_the_table_of_results_names_no_model_if_rules_read(command: Command, model_server: Any) -> None:
    model_server.respond(lambda _: "wrong_schema")
    for line in ("submit questions.jsonl --index towns --strategy bm25", "worker --until-empty"):
        assert command(*line.split()).exception is None
    (row,) = json.loads(
        command("sql", "SELECT DISTINCT read_by, model FROM results", "--index", "towns", "--json").stdout
    )
    assert row == {"read_by": "local", "model": None}


CITED = {
    "fabricated": ({"passage": 1, "quote": "Town 1 lies on the River 1, as all say."}, "not verified"),
    "one word": ({"passage": 1, "quote": "in"}, "not verified"),
    "none": (None, "not verified"),
    "right": ({"passage": 1, "quote": "Town 1 lies on River 1 in Wessex."}, "confidence"),
}


@pytest.fixture(params=CITED)
def cited(request: Any, command: Command, model_server: Any) -> tuple[Command, str]:
    """Commands whose model answers with one such source, and how each output has to call its answer."""
    source, label = CITED[request.param]
    content = {"reasoning": "It does [1].", "answer": "River 1", "citations": [] if source is None else [source]}
    model_server.respond(lambda _: {"kind": "reply", "content": json.dumps(content)})
    return command, label


ASK_TOWN = ("ask", QUESTIONS[1]["question"], "--index", "towns", "--strategy", "bm25")


def test_text_says_whether_a_models_answer_is_verified(cited: tuple[Command, str]) -> None:
    command, label = cited
    shown = command(*ASK_TOWN).stdout
    assert f"Answer    River 1  (by a model, {label}" in shown
    assert ("It does [not verified]." if label == "not verified" else "It does [1].") in shown


def test_json_says_whether_a_models_answer_is_verified(cited: tuple[Command, str]) -> None:
    command, label = cited
    reading = json.loads(command(*ASK_TOWN, "--json").stdout)["reading"]
    assert (reading["verified"], reading["confidence"] > 0) == (label == "confidence", label == "confidence")


def test_the_page_says_whether_a_models_answer_is_verified(cited: tuple[Command, str]) -> None:
    command, label = cited
    command(*ASK_TOWN, "--html", "answer.html")
    badges = re.findall(r'<span class="badge">(?!written)(not verified|confidence)', Path("answer.html").read_text())
    assert badges == [label]


def test_the_server_says_whether_a_models_answer_is_verified(cited: tuple[Command, str]) -> None:
    _, label = cited
    with TestClient(make_app(load_settings()), base_url="http://127.0.0.1:4280") as client:
        asked = {"question": QUESTIONS[1]["question"], "strategy": "bm25"}
        reading = client.post("/api/v1/indexes/towns/ask", json=asked).json()["reading"]
        messages = [{"role": "user", "content": QUESTIONS[1]["question"]}]
        chat = client.post("/v1/chat/completions", json={"model": "towns:bm25", "messages": messages}).json()
    assert reading["verified"] == (label == "confidence")
    assert f"by a model, {label}" in chat["choices"][0]["message"]["content"].replace("\\", "")


def test_an_answer_that_is_none_of_the_options_is_not_shown(command: Command, model_server: Any) -> None:
    model_server.respond(lambda _: reply("2010"))
    shown = command("ask", "Which is larger, Town 1 or Town 2?", "--index", "towns", "--strategy", "bm25").stdout
    assert "Answer    2010" not in shown
    assert "fell back to the reader without a model" in shown


@pytest.fixture
def recognise(opened: Callable[..., Command], model_server: Any) -> Callable[[str, str], Any]:
    """Asks for Town 1 by a strategy with HippoRAG 2's filter, by which the model keeps statements with a word."""
    settings = {"POLYHOP_STRATEGIES": "dense,proprag,triple-ppr"}
    command = opened("stated", {"corpus": TOWNS}, settings, "corpus.jsonl")

    def ask(strategy: str, word: str) -> Any:
        def reply(asked: Any) -> Any:
            if asked.task != "prop.filter":
                return respond(asked)
            lines = block(asked.prompt, "statements").splitlines()
            numbers = [number for number, line in enumerate(lines, start=1) if word in line]
            return {"kind": "reply", "content": json.dumps({"ids": numbers})}

        model_server.respond(reply)
        parameters = () if strategy == "dense" else ("--param", "recognition_filter=1")
        options = ("--index", "stated", "--strategy", strategy, *parameters, "--json")
        return json.loads(command("ask", ASKED.format(1), *options).stdout)

    return ask


@pytest.mark.parametrize(
    ("word", "towns"), [("lies", {"Town 0", "Town 1", "Town 2", "Town 3"}), ("Town 3", {"Town 3"})]
)
def test_a_walk_starts_from_the_statements_that_a_model_keeps(recognise: Any, word: str, towns: set[str]) -> None:
    seeds = {seed["name"] for seed in recognise("triple-ppr", word)["evidence"]["seeds"]}
    assert {name for name in seeds if name.startswith("Town")} == towns


@pytest.mark.parametrize("strategy", ["triple-ppr", "proprag"])
def test_the_choice_of_statements_is_a_call_of_the_question(recognise: Any, strategy: str) -> None:
    reading = recognise(strategy, "Town")["reading"]
    assert (reading["naming"]["prompt"]["name"], reading["spent"]["calls"]) == ("prop.filter", 2)


@pytest.mark.parametrize("strategy", ["triple-ppr", "proprag"])
def test_similarity_ranks_if_a_model_keeps_no_statement(recognise: Any, strategy: str) -> None:
    document, dense = recognise(strategy, "Atlantis"), recognise("dense", "")
    assert [one["id"] for one in document["passages"]] == [one["id"] for one in dense["passages"]]
    assert document["evidence"]["fallback"]["code"] == "vector"
