"""Clients of a server in a process of its own: ours, the `openai` package and the `mcp` package's."""

import asyncio
import dataclasses
import json
import logging
import re
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import httpx2
import openai
import pytest
from empty_version import publish_empty
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from small_indexes import Call, publish
from typer.testing import CliRunner

import polyhop
from polyhop import Index, RemoteIndex
from polyhop.cli import app
from polyhop.integrations.langchain import PolyhopRetriever
from polyhop.schemas import errors
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.settings import Settings
from polyhop.server.service import Service
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.tables.query import TABLES_QUERY

TOKEN = "long-and-secret-token"
QUESTION = "Which suspension bridge over a strait did Thomas Telford design?"
DESIGNER = "Who designed the Statue of Liberty?"


@pytest.fixture(scope="module")
def guarded(serve: Call, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Two indexes, for those who know the token."""
    folder = tmp_path_factory.mktemp("guarded")
    for name in ("towns", "rivers"):
        root = publish(folder, [{"id": "p1", "title": "Cairo", "text": "Cairo lies on the Nile."}], name, "bm25")
    return serve(root, "--no-pages", POLYHOP_UI_TOKEN=TOKEN)


@pytest.fixture
def remote(window: str) -> Iterator[RemoteIndex]:
    with polyhop.connect(window) as connected:
        yield connected


@pytest.fixture(scope="module")
def local(demo_root: Path) -> Iterator[Index]:
    with polyhop.open_index("demo", root=demo_root) as opened:
        yield opened


def document(answer: polyhop.Answer) -> Any:
    """All of an answer but what its parts took, as JSON has it."""
    whole = {**answer.to_json(), "texts": [row["text"] for row in answer.passages]}
    del whole["seconds"]
    if "filter" in whole:
        del whole["filter"]["seconds"]
    return json.loads(json.dumps(whole))


def test_a_server_answers_as_the_open_index_does(remote: RemoteIndex, local: Index) -> None:
    assert (remote.name, remote.version, remote.default_strategy) == ("demo", 1, local.default_strategy)
    filtered = {"strategy": "bm25", "limit": 3, "parameters": {"k1": 0.9}, "where": "title != 'London'"}
    for options in ({}, filtered, {"topic": "Thomas Telford"}):
        asked: dict[str, Any] = dict(options)
        answer = remote.ask(QUESTION, **asked)
        assert document(answer) == document(local.ask(QUESTION, **asked))
        asked.pop("topic", None)
        found = remote.search(QUESTION, **asked)
        assert document(found) == document(local.search(QUESTION, **asked))
        assert (found.answer, found.reading["by"], found.passages) == ("", "none", answer.passages)
    assert isinstance(answer, polyhop.Answer)
    documents = PolyhopRetriever(remote, limit=4).invoke(QUESTION)
    assert [(one.id, one.page_content) for one in documents] == [(row["id"], row["text"]) for row in found.passages[:4]]


def test_a_batch_keeps_its_order_also_in_asyncio(remote: RemoteIndex, local: Index, demo_folder: Path) -> None:
    rows = [json.loads(line) for line in (demo_folder / "questions.jsonl").read_text().splitlines()]
    questions = [row["question"] for row in rows] * 2
    expected = [document(answer) for answer in local.ask_batch(questions)]
    assert [document(answer) for answer in remote.ask_batch(questions)] == expected

    async def all_at_once() -> list[polyhop.Answer]:
        return await asyncio.gather(*map(remote.aask, questions[:20]))

    assert [document(answer) for answer in asyncio.run(all_at_once())] == expected[:20]
    with pytest.raises(errors.ConfigurationError, match="There are 1 topics for 2 questions; give one for each"):
        remote.ask_batch(questions[:2], topics=["Thomas Telford"])
    with pytest.raises(errors.EmptyQuestionError):
        remote.ask_batch([*questions, "?"])


def test_sql_words_and_entities_are_those_of_the_open_index_and_names_are_not_logged(
    remote: RemoteIndex, local: Index, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    query = "SELECT passage_id, length(text) AS length FROM passages ORDER BY passage_id"
    assert remote.sql(query).equals(local.sql(query).cast(remote.sql(query).schema))
    assert remote.sql("SELECT title FROM passages WHERE false").to_pydict() == {"title": []}
    assert remote.search_text("river bridge", limit=4) == local.search_text("river bridge", limit=4) != []
    (entity,) = remote.find_entities("thomas telford")
    assert [entity] == local.find_entities("thomas telford")
    fuzzy = remote.find_entities("telford")
    assert entity in fuzzy == local.find_entities("telford")
    assert remote.neighbours(entity.id, 2) == local.neighbours(entity.id, 2) != []
    ends = ("Thomas Telford", "Menai Suspension Bridge")
    connected = remote.connect(*ends, max_length=3)
    assert connected == local.connect(*ends, max_length=3)
    assert connected.paths
    assert caplog.records != []  # of httpcore: the capture works
    assert "Telford" not in caplog.text


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (lambda index: index.ask(QUESTION, strategy="brigde"), errors.UnknownStrategyError, "did you mean 'bridge'?"),
        (lambda index: index.ask(QUESTION, limit=0), errors.PolyhopError, "limit must be at least 1, not 0."),
        (lambda index: index.sql("FROM range(10_001)"), errors.StatementRejectedError, "10,000 that the server sends"),
    ],
)
def test_what_a_server_refuses_is_raised(remote: RemoteIndex, call: Call, kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind) as raised:
        call(remote)
    assert (type(raised.value), sentence in str(raised.value)) == (kind, True)


def test_an_index_is_named_where_there_are_several_and_the_token_is_asked_for_and_never_shown(guarded: Any) -> None:
    with polyhop.connect(guarded.url, "rivers", token=TOKEN) as index:
        assert index.ask("Where does Cairo lie?", strategy="bm25").passages[0]["id"] == "p1"
        assert "Cairo" not in guarded.output.read_text()
        assert repr(index) == f"RemoteIndex('rivers', version=1, server='{guarded.url}')"
    with pytest.raises(errors.ConfigurationError, match="has the indexes rivers, towns; name one of them"):
        polyhop.connect(guarded.url, token=TOKEN)
    with pytest.raises(errors.UnknownIndexError, match=r"Unknown index 'river'.*known indexes: rivers, towns"):
        polyhop.connect(guarded.url, "river", token=TOKEN)
    for token, said in ((None, "A token"), (f"{TOKEN}x", "A token"), (f"{TOKEN}\n", "that a header cannot hold")):
        with pytest.raises(errors.PolyhopError, match=said) as raised:
            polyhop.connect(guarded.url, "rivers", token=token)
        assert TOKEN not in str(raised.value)


class OtherServer(BaseHTTPRequestHandler):
    """A web server that is not ours: pages, and a proxy's error."""

    def do_GET(self) -> None:
        self.send_response(502 if "proxy" in self.path else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Prints nothing."""


ASKS_AND_ADDS = """
import sys
import polyhop
with polyhop.connect(sys.argv[1]):
    with polyhop.open_index("towns", root=sys.argv[2]) as index:
        index.ask("Where is Cairo?")
        index.add([{"id": "p2", "title": "Warsaw", "text": "Warsaw lies on the Vistula."}])
"""


def test_a_process_that_asks_a_server_and_adds_records_ends_without_complaints(window: str, tmp_path: Path) -> None:
    root = publish(tmp_path, [{"id": "p1", "title": "Cairo", "text": "Cairo lies on the Nile."}], "towns", "bm25")
    words = [sys.executable, "-c", ASKS_AND_ADDS, window, str(root)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    assert done.stderr == ""


def test_a_server_that_is_not_there_or_not_ours_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        dead_port = free.getsockname()[1]
    unreached = r"The server at http://127\.0\.0\.1:\d+ cannot be reached .*polyhop ui"
    with pytest.raises(errors.StoreUnavailableError, match=unreached):
        polyhop.connect(f"http://user:s3cret-of-an-address@127.0.0.1:{dead_port}")
    for address in ("127.0.0.1:4280", "ftp://127.0.0.1", "http://", "http://\x00", ""):
        with pytest.raises(errors.ConfigurationError, match="is not a server's address; give one like http://"):
            polyhop.connect(address)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections and says nothing
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(errors.StoreUnavailableError, match=r"did not answer within 0\.2 s; try again later"):
            polyhop.connect(url, timeout_seconds=0.2)
    with ThreadingHTTPServer(("127.0.0.1", 0), OtherServer) as other:
        Thread(target=other.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{other.server_port}"
        with pytest.raises(errors.StoreError, match=r"\(status 200\) is not a Polyhop server of this version"):
            polyhop.connect(f"{url}/page")
        with pytest.raises(errors.StoreUnavailableError, match=r"\(status 502\)"):
            polyhop.connect(f"{url}/proxy")
        other.shutdown()


def openai_client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def chat(url: str, question: Any = DESIGNER, model: str = "demo", **options: Any) -> Any:
    messages: Any = [
        {"role": "system", "content": "Answer shortly."},
        {"role": "user", "content": "Which river flows through Paris?"},
        {"role": "assistant", "content": "The Seine."},
        {"role": "user", "content": question},
    ]
    return openai_client(url).chat.completions.create(model=model, messages=messages, **options)


def test_each_index_and_each_strategy_it_was_built_for_is_a_model(window: str) -> None:
    names = [one.id for one in openai_client(window).models.list()]
    assert names == ["demo", *(f"demo:{strategy}" for strategy in Settings().strategies)]
    assert openai_client(window).models.retrieve("demo:bm25").id == "demo:bm25"


@pytest.mark.parametrize(("question", "strategy"), [(DESIGNER, ""), (DESIGNER, "bm25"), ("Why do zebras sing?", "")])
def test_chat_answers_as_the_command(window: str, demo_root: Path, local: Index, question: str, strategy: str) -> None:
    options = ["--strategy", strategy] if strategy else []
    words = ["ask", question, "--index", "demo", "--root", str(demo_root), *options]
    said, document = (CliRunner().invoke(app, [*words, *more]).stdout for more in ([], ["--json"]))
    answer = json.loads(document)
    parts = [{"type": "text", "text": question}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    reply = chat(window, parts, f"demo:{strategy}" if strategy else "demo", temperature=0.2, seed=3)
    message = reply.choices[0].message
    shown = message.content.replace("\\", "")
    assert shown.split("\n\n")[0] in " ".join(said.split())
    texts = {row["id"]: row["text"] for row in local.ask(question, strategy=strategy or None).passages}
    own = ("id", "title", "score", "rank")
    passages = [{**{name: row[name] for name in own}, "text": texts[row["id"]]} for row in answer["passages"]]
    kept = {name: answer[name] for name in ("version", "strategy", "answer", "sentences")}
    whole = {"index": "demo", "confidence": answer["reading"]["confidence"], "passages": passages, **kept}
    assert message.polyhop == whole
    sources = [f"[{row['rank']}] {row['title']} — {row['id']}" for row in passages]
    assert [line.rstrip() for line in shown.split("Sources:\n\n")[1].splitlines()] == sources
    assert (reply.usage.total_tokens, reply.choices[0].finish_reason) == (0, "stop")


def test_a_streamed_reply_is_the_same_reply(window: str) -> None:
    whole = chat(window)
    parts = list(chat(window, stream=True))
    deltas = [part.choices[0].delta for part in parts]
    assert "".join(delta.content or "" for delta in deltas) == whole.choices[0].message.content
    assert [delta.polyhop for delta in deltas if hasattr(delta, "polyhop")] == [whole.choices[0].message.polyhop]
    assert len(deltas) > 3
    *others, last = chat(window, stream=True, stream_options={"include_usage": True})
    assert (len(others), len(last.choices), last.usage.total_tokens) == (len(parts), 0, 0)


@pytest.mark.parametrize(
    ("model", "question", "status", "code", "sentence"),
    [
        ("nothing", DESIGNER, 404, "model_not_found", "Unknown model 'nothing'; known are: demo, demo:"),
        ("demo", " ", 400, "EmptyQuestionError", "The last message of the user is empty"),
        ("demo", 7, 400, "invalid_request", "messages.3.content must be text or a list, not 7."),
        ("demo", None, 400, "EmptyQuestionError", "The last message of the user is empty"),
        ("demo", [{"type": "text", "text": None}], 400, "EmptyQuestionError", "The last message of the user is empty"),
    ],
)
def test_errors_are_those_of_openai(
    window: str, model: str, question: Any, status: int, code: str, sentence: str
) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        chat(window, question, model)
    error: Any = caught.value.body
    assert (caught.value.status_code, error["type"], error["code"]) == (status, "invalid_request_error", code)
    assert sentence in error["message"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "sentence"),
    [
        ("POST", "v1/completions", b"{}", 404, "There is nothing at /v1/completions."),
        ("POST", "v1/models", b"{}", 405, "POST is not allowed at /v1/models."),
        ("POST", "v1/chat/completions", b'{"model":', 400, "The body is invalid JSON at character 9."),
        ("GET", "v1/models/none", b"", 404, "Unknown model 'none'; known are: demo"),
    ],
)
def test_each_error_below_v1_has_the_form_of_openai(
    window: str, method: str, path: str, body: bytes, status: int, sentence: str
) -> None:
    reply = httpx.request(method, f"{window}/{path}", content=body)
    error = reply.json()["error"]
    assert (reply.status_code, sorted(error)) == (status, ["code", "message", "param", "type"])
    assert error["message"].startswith(sentence)


def test_a_refusal_of_the_guard_below_v1_has_the_form_of_openai(guarded: Any) -> None:
    error = httpx.get(f"{guarded.url}/v1/models").json()["error"]
    assert (error["code"], "***" in error["message"]) == ("invalid_api_key", False)


def test_no_markup_is_made_from_what_a_corpus_says(serve: Call, tmp_path: Path) -> None:
    title = "![x](http://example.org/x.png) <img src=x> [a](b)\n# `Halvorsen`"
    records = [{"id": "p<1>", "title": title, "text": f"{title} designed the *Tower* of Oslo."}]
    reply = chat(serve(publish(tmp_path, records)).url, "Who designed the Tower of Oslo?", "towns:bm25")
    message = reply.choices[0].message
    assert message.polyhop["passages"][0]["text"].startswith("![x](http")
    unescaped = re.sub(r"\\.", "", message.content)
    assert re.findall(r"[\[\]<>`*#]", unescaped.replace("[1]", "")) == []
    assert "!\\[x\\](http://example.org/x.png) \\<img src=x\\>" in message.content


def test_a_model_that_read_is_quoted_with_its_tokens(serve: Call, demo_root: Path, model_server: Any) -> None:
    reading = {"reasoning": "It was Bartholdi of *Colmar*.", "answer": "Bartholdi", "citations": []}
    model_server.respond(lambda asked: {"kind": "reply", "content": json.dumps(reading)})
    values = ("read=openai/scripted", f"api_base={model_server.url}", "price=1,2")
    options = [word for value in values for word in ("--set", f"models.{value}")]
    reply = chat(serve(demo_root, *options, OPENAI_API_KEY="not-a-key").url)
    assert reply.choices[0].message.content.startswith(
        "Bartholdi (by a model, not verified)\n\nIt was Bartholdi of \\*Colmar\\*.\n\n"
    )
    assert reply.usage.prompt_tokens > 0
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens


@pytest.fixture(scope="module")
def http_address(serve: Call, demo_root: Path) -> str:
    """A running `polyhop mcp --http` on all addresses, which asks for TOKEN."""
    return f"{serve(demo_root, '--http', host='0.0.0.0', command='mcp', POLYHOP_UI_TOKEN=TOKEN).url}/mcp"


@pytest.fixture(params=["stdio", "http"])
def ask_server(request: pytest.FixtureRequest, demo_root: Path) -> Call:
    """Runs what asks a connected client."""

    def connected(http: httpx2.AsyncClient) -> Client:
        if request.param == "http":
            return Client(streamable_http_client(request.getfixturevalue("http_address"), http_client=http))
        words = ["-m", "polyhop.cli", "mcp", "--root", str(demo_root)]
        return Client(stdio_client(StdioServerParameters(command=sys.executable, args=words)))

    def run(work: Callable[[Client], Awaitable[Any]]) -> Any:
        async def whole() -> Any:
            told = {"Authorization": f"Bearer {TOKEN}"}
            async with httpx2.AsyncClient(headers=told) as http, connected(http) as client:
                return await work(client)

        return asyncio.run(whole())

    return run


def test_each_tool_gives_what_the_python_api_gives_with_index_and_version(ask_server: Call, local: Index) -> None:
    graph = local.graph
    (entity,) = graph.find_entities("Statue of Liberty")
    near, mentioned = graph.traverse(entity.id, 2), graph.chunks_for_entities([entity.id])
    answer = local.ask(DESIGNER, strategy="bridge", limit=3)
    ranked = local.search(DESIGNER, strategy="bm25", limit=2)
    own = {"index": "demo", "version": local.version}
    read, unread = (
        {"strategy": one.strategy, "answer": one.answer, "confidence": one.reading.get("confidence")}
        | {"reasoning": "", "verified": None, "sentences": one.sentences, "passages": one.passages}
        for one in (answer, ranked)
    )
    rows = local.sql("SELECT name, df FROM entities ORDER BY name LIMIT 200").to_pylist()
    connected = graph.connect("Statue of Liberty", "Paris")
    ends = [*connected.from_entities, *connected.to_entities]
    fuzzy = graph.find_entities("Eiffel", fuzzy=True)
    calls: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "ask": ({"question": DESIGNER, "strategy": "bridge", "limit": 3}, read),
        "search_passages": ({"question": DESIGNER, "strategy": "bm25", "limit": 2}, unread),
        "find_entities": ({"name": "Eiffel"}, {"entities": fuzzy, "paths": []}),
        "neighbours": (
            {"entity_id": entity.id, "depth": 2},
            {"entity": entity, "neighbours": near[:200], "neighbour_count": len(near)}
            | {"passage_ids": mentioned, "passage_count": len(mentioned)},
        ),
        "connect": ({"a": "Statue of Liberty", "b": "Paris"}, {"entities": ends, "paths": connected.paths}),
        "sql": (
            {"query": "SELECT name, df FROM entities ORDER BY name"},
            {"columns": ["name", "df"], "rows": rows, "truncated": True},
        ),
    }

    async def call(client: Client) -> tuple[list[Any], dict[str, Any]]:
        listed = (await client.list_tools()).tools
        done = {name: await client.call_tool(name, {"index": "demo", **given}) for name, (given, _) in calls.items()}
        return listed, {name: one.structured_content for name, one in done.items()}

    listed, found = ask_server(call)
    assert {tool.name for tool in listed} == set(calls)
    assert all(tool.annotations.read_only_hint and tool.output_schema for tool in listed)
    assert (bool(fuzzy), bool(near), bool(connected.paths), len(rows)) == (True, True, True, 200)
    for name, (_, expected) in calls.items():
        assert found[name] == json.loads(json.dumps({**own, **expected}, default=dataclasses.asdict)), name


@pytest.mark.parametrize("ask_server", ["http"], indirect=True)  # the test of each tool proves both ways to a server
@pytest.mark.parametrize(
    ("tool", "given", "sentence"),
    [
        ("ask", {"index": "nothing", "question": DESIGNER}, "nothing"),
        ("sql", {"index": "demo", "query": "FROM read_text('/etc/passwd')"}, "tables only"),
        ("neighbours", {"index": "demo", "entity_id": "e?"}, "no entity with the id 'e?'"),
        ("ask", {"index": "demo", "question": DESIGNER, "limit": 0}, "limit must be at least 1, not 0."),
        ("ask", {"index": "demo"}, "question is missing."),
    ],
)
def test_an_error_of_a_tool_is_our_sentence(ask_server: Call, tool: str, given: dict[str, Any], sentence: str) -> None:
    result = ask_server(lambda client: client.call_tool(tool, given))
    assert (result.is_error, sentence in result.content[0].text) == (True, True)


@pytest.mark.parametrize("ask_server", ["http"], indirect=True)
def test_resources_are_indexes_documents_versions_and_tables(ask_server: Call, local: Index) -> None:
    passage = local.ask(DESIGNER).passages[0]
    tables = local.sql(TABLES_QUERY).to_pylist()
    own = {"index": "demo", "version": local.version}

    async def read(client: Client) -> list[Any]:
        paths = ("indexes", f"demo/documents/{passage['document']}", "demo/versions", "demo/tables")
        found = [await client.read_resource(f"polyhop://{path}") for path in paths]
        with pytest.raises(MCPError, match="has no document 'none' in version"):
            await client.read_resource("polyhop://demo/documents/none")
        return [json.loads(one.contents[0].text) for one in found]  # type: ignore[union-attr]

    indexes, document, versions, listed = ask_server(read)
    assert [(one["index"], one["strategies"]) for one in indexes] == [("demo", list(Settings().strategies))]
    assert document.pop("passages")[0] == {name: passage[name] for name in ("id", "title", "text")}
    assert document == {**own, "document": passage["document"]}
    assert [row["version"] for row in versions["versions"]] == [own["version"]]
    assert listed == {**own, "tables": tables}


CALL = '{"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": %s}'
UNREADABLE = [
    ("not json", -32700, None),
    ("", -32700, None),
    ("[" * 100_000, -32700, None),
    ("[]", -32600, None),
    ('{"jsonrpc": "2.0", "id": 5, "method": 7}', -32600, 5),
    ('{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600, None),
    (CALL % '{"name": "ask", "arguments": {"index": "demo", "question": "\\ud800"}}', -32600, 5),
    (CALL % '{"nam": "ask"}', -32602, 5),
]


@pytest.fixture(scope="module")
def line_server(demo_root: Path) -> Iterator[Any]:
    """A running `polyhop mcp` after its handshake."""
    words = [sys.executable, "-m", "polyhop.cli", "mcp", "--root", str(demo_root)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client}
        process.stdin.write(f'{json.dumps(hello)}\n{{"jsonrpc": "2.0", "method": "notifications/initialized"}}\n')
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]
        yield process
        process.stdin.close()


@pytest.mark.parametrize(("line", "code", "number"), UNREADABLE)
def test_a_line_that_cannot_be_read_gets_an_error(line_server: Any, line: str, code: int, number: int | None) -> None:
    line_server.stdin.write(f"{line}\n")
    line_server.stdin.flush()
    reply = json.loads(line_server.stdout.readline())
    assert (reply["id"], reply["error"]["code"], "pydantic" in str(reply)) == (number, code, False)


@pytest.mark.parametrize(("line", "code", "number"), UNREADABLE[:-1])
def test_a_body_that_cannot_be_read_gets_an_error(http_address: str, line: str, code: int, number: int | None) -> None:
    headers = {"Authorization": f"bearer {TOKEN}", "Accept": "application/json, text/event-stream"}
    reply = httpx.post(http_address, content=line, headers=headers)
    error = reply.json()
    assert (reply.status_code, error["id"], error["error"]["code"]) == (400, number, code)
    assert "pydantic" not in reply.text


@pytest.mark.parametrize("ask_server", ["http"], indirect=True)
@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("ask", {"question": DESIGNER, "strategy": "bm25"}),
        ("search_passages", {"question": DESIGNER, "strategy": "bm25"}),
        ("find_entities", {"name": "Paris"}),
        ("connect", {"a": "Statue of Liberty", "b": "Paris"}),
        ("sql", {"query": "SELECT 1 AS one"}),
    ],
)
def test_a_tool_without_an_index_uses_the_only_one(ask_server: Call, tool: str, given: dict[str, Any]) -> None:
    result = ask_server(lambda client: client.call_tool(tool, given))
    assert (result.is_error, result.structured_content["index"]) == (False, "demo")


def test_an_index_must_be_named_where_there_are_several(tmp_path: Path) -> None:
    for name in ("one", "other"):
        publish_empty(Layout(tmp_path).index(name))
    service = Service(Settings(root=tmp_path))
    try:
        with pytest.raises(ConfigurationError, match=r"'index' is needed .*; there are: one, other\."):
            service.named_index(None)
    finally:
        service.close()


@pytest.mark.parametrize("ask_server", ["http"], indirect=True)
@pytest.mark.parametrize("name", ["record_id", "passage_id"])
def test_a_document_is_read_by_the_id_that_results_show(ask_server: Call, local: Index, name: str) -> None:
    (row,) = local.sql("SELECT * FROM passages WHERE record_id <> document_id ORDER BY ALL LIMIT 1").to_pylist()
    read = ask_server(lambda client: client.read_resource(f"polyhop://demo/documents/{row[name]}"))
    document = json.loads(read.contents[0].text)
    assert document["document"] == row["document_id"]
    assert row["passage_id"] in [passage["id"] for passage in document["passages"]]


def test_standard_output_has_the_protocol_alone_and_http_is_guarded(
    commands: Any, demo_root: Path, tmp_path: Path, http_address: str
) -> None:
    done = commands.run(["mcp", "--root", str(demo_root)], tmp_path, {})  # its input is empty
    assert (done.returncode, done.stdout) == (0, "")
    refused = commands.run(["mcp", "--http", "--host", "0.0.0.0", "--root", str(demo_root)], tmp_path, {})
    assert (refused.returncode, "POLYHOP_UI_TOKEN" in refused.stderr) == (2, True)
    for given in ({}, {"authorization": f"Bearer {TOKEN}x"}):
        assert httpx.post(http_address, json={}, headers=given).status_code == 401
