"""`polyhop mcp` as agents meet it: the `mcp` package's own client, on a real process, over stdio and over HTTP."""

import asyncio
import dataclasses
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from polyhop.api import open_index
from polyhop.schemas.settings import Settings
from polyhop.warehouse.tables.query import TABLES_QUERY

QUESTION = "Who designed the Statue of Liberty?"


def plain(value: Any) -> Any:
    """As it comes out of JSON."""
    return json.loads(json.dumps(value, default=dataclasses.asdict))


TOKEN = "a-token-of-twenty-two-c"


@pytest.fixture(scope="module")
def http_address(serve: Callable[..., Any], demo_root: Path) -> str:
    """A running `polyhop mcp --http` on all addresses, which asks for TOKEN."""
    return f"{serve(demo_root, '--http', host='0.0.0.0', command='mcp', POLYHOP_UI_TOKEN=TOKEN).url}/mcp"


@pytest.fixture(params=["stdio", "http"])
def ask_server(request: pytest.FixtureRequest, demo_root: Path) -> Callable[..., Any]:
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


def test_each_tool_gives_what_the_python_api_gives_and_names_index_and_version(
    ask_server: Callable[..., Any], demo_root: Path
) -> None:
    with open_index("demo", root=demo_root) as index:
        graph = index.graph
        (entity,) = graph.find_entities("Statue of Liberty")
        near, mentioned = graph.traverse(entity.id, 2), graph.chunks_for_entities([entity.id])
        answer = index.ask(QUESTION, strategy="bridge", limit=3)
        ranked = index.search(QUESTION, strategy="bm25", limit=2)
        own = {"index": "demo", "version": index.version}
        read, unread = (
            {"strategy": one.strategy, "answer": one.answer, "confidence": one.reading.get("confidence")}
            | {"reasoning": "", "sentences": one.sentences, "passages": one.passages}
            for one in (answer, ranked)
        )
        rows = index.sql("SELECT name, df FROM entities ORDER BY name LIMIT 200").to_pylist()
        connected = graph.connect("Statue of Liberty", "Paris")
        ends = [*connected.from_entities, *connected.to_entities]
        fuzzy = graph.find_entities("Eiffel", fuzzy=True)
    calls: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "ask": ({"question": QUESTION, "strategy": "bridge", "limit": 3}, read),
        "search_passages": ({"question": QUESTION, "strategy": "bm25", "limit": 2}, unread),
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
    assert fuzzy
    assert near
    assert connected.paths
    assert len(rows) == 200
    for name, (_, expected) in calls.items():
        assert found[name] == plain({**own, **expected}), name


@pytest.mark.parametrize("ask_server", ["http"], indirect=True)  # the test of each tool proves both ways to a server
@pytest.mark.parametrize(
    ("tool", "given", "sentence"),
    [
        ("ask", {"index": "nothing", "question": QUESTION}, "nothing"),
        ("sql", {"index": "demo", "query": "FROM read_text('/etc/passwd')"}, "tables only"),
        ("neighbours", {"index": "demo", "entity_id": "e?"}, "no entity with the id 'e?'"),
        ("ask", {"index": "demo", "question": QUESTION, "limit": 0}, "greater than or equal to 1"),
    ],
)
def test_an_error_of_a_tool_is_our_sentence(
    ask_server: Callable[..., Any], tool: str, given: dict[str, Any], sentence: str
) -> None:
    result = ask_server(lambda client: client.call_tool(tool, given))
    assert result.is_error
    assert sentence in result.content[0].text


@pytest.mark.parametrize("ask_server", ["http"], indirect=True)
def test_resources_are_indexes_documents_versions_and_tables(ask_server: Callable[..., Any], demo_root: Path) -> None:
    with open_index("demo", root=demo_root) as index:
        passage = index.ask(QUESTION).passages[0]
        tables = index.sql(TABLES_QUERY).to_pylist()
        own = {"index": "demo", "version": index.version}

    async def read(client: Client) -> list[Any]:
        paths = ("indexes", f"demo/documents/{passage['document']}", "demo/versions", "demo/tables")
        found = [await client.read_resource(f"polyhop://{path}") for path in paths]
        with pytest.raises(MCPError, match="has no document 'none' in version"):
            await client.read_resource("polyhop://demo/documents/none")
        shown: list[Any] = [one.contents[0] for one in found]
        return [json.loads(one.text) for one in shown]

    indexes, document, versions, listed = ask_server(read)
    assert [(one["index"], one["strategies"]) for one in indexes] == [("demo", list(Settings().strategies))]
    shown = {name: passage[name] for name in ("id", "title", "text")}
    assert document["passages"][0] == shown
    assert {**document, "passages": None} == {**own, "document": passage["document"], "passages": None}
    assert [row["version"] for row in versions["versions"]] == [own["version"]]
    assert listed == {**own, "tables": tables}


def test_standard_output_has_the_protocol_alone_and_http_is_guarded(
    commands: Any, demo_root: Path, tmp_path: Path, http_address: str
) -> None:
    done = commands.run(["mcp", "--root", str(demo_root)], tmp_path, {})  # its input is empty
    assert (done.returncode, done.stdout) == (0, "")
    refused = commands.run(["mcp", "--http", "--host", "0.0.0.0", "--root", str(demo_root)], tmp_path, {})
    assert refused.returncode == 2
    assert "POLYHOP_UI_TOKEN" in refused.stderr
    for given in ({}, {"authorization": f"Bearer {TOKEN}x"}):
        assert httpx.post(http_address, json={}, headers=given).status_code == 401
