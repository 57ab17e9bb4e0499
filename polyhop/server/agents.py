"""Tools and resources for agents, by the Model Context Protocol: each only reads, and names index and version.

A message that is no JSON-RPC gets an error as its reply, by standard input as by HTTP.
"""

import io
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, Field, ValidationError
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from polyhop.api import Index
from polyhop.graph import Connection, GraphEntity, ReachedEntity
from polyhop.output import json_text
from polyhop.schemas.errors import MAX_QUESTION_CHARACTERS, PolyhopError, UnknownIdError, redact
from polyhop.schemas.settings import broken_value
from polyhop.schemas.version import VERSION
from polyhop.server.api import MAX_DEPTH, answer_document, catalog_document, index_row, sql_document
from polyhop.server.service import Asked, Service
from polyhop.versions import version_rows
from polyhop.warehouse.files.versions import require_version
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.query import TABLES_QUERY
from polyhop.warehouse.tables.query_processes import QueryLimits

if TYPE_CHECKING:
    from mcp.server import MCPServer
    from mcp.types import JSONRPCError, JSONRPCMessage

T = TypeVar("T")

MAX_LISTED = 200  # rows of a query, entities, ids; chosen: a model's context holds them
SQL_LIMITS = QueryLimits(MAX_LISTED, 30.0, 1 << 19)  # of a query; chosen: MCP sends rows twice, 1 MB in all
MAX_DOCUMENT = 1_000  # passages of a document that are shown; chosen: a model's context holds no more
INSTRUCTIONS = "Answers multi-hop questions from published indexes, which polyhop://indexes lists. Use ask first."
ASK = "Answers a question, also one that needs several documents, with the passages that support it."
SEARCH = "Ranks passages for a question without generating an answer."

IndexName = Annotated[
    str | None, Field(description="Name of the index, as polyhop://indexes lists all; default: the only one.")
]
Text = Annotated[str, Field(max_length=MAX_QUESTION_CHARACTERS, description="The question, in plain words.")]
Strategy = Annotated[str | None, Field(description="Retrieval strategy; default: that of the index.")]
Limit = Annotated[int, Field(ge=1, le=100, description="Passages to return.")]
Where = Annotated[str | None, Field(description="A filter of records, such as metadata.year >= 1900.")]
Name = Annotated[str, Field(max_length=1_000, description="Name of an entity.")]
EntityId = Annotated[str, Field(description="Id of an entity, from find_entities.")]
Fuzzy = Annotated[bool, Field(description="Also names that contain this one, or all of its words.")]
Depth = Annotated[int, Field(ge=1, le=MAX_DEPTH, description="Maximum number of relations to follow.")]
Length = Annotated[int, Field(ge=1, le=10, description="Maximum number of relations in a connection.")]
Query = Annotated[str, Field(max_length=100_000, description="One read-only query in DuckDB's dialect.")]
Version = Annotated[int | None, Field(ge=1, description="A published version; default: the current one.")]


class Result(BaseModel):
    """The index, and its version that gave the result."""

    index: str
    version: int


class Answered(Result):
    """An answer, "" if none is certain enough or reading is disabled, and passages in descending order of score."""

    strategy: str
    answer: str
    confidence: float | None = None
    verified: bool | None = None  # whether a quote of a model's answer holds; None if no model answered
    reasoning: str = ""  # of a model that read
    sentences: list[dict[str, Any]]  # {passage_id, text, start, end}
    passages: list[dict[str, Any]]  # {id, title, text, score, rank, document, metadata, …}


class Entities(Result):
    """Entities of the names, and the shortest connections between two; none if they are not connected."""

    entities: list[GraphEntity]
    paths: list[Connection] = []


class Neighbours(Result):
    """An entity with those near it by hops, and the passages that mention it; the counts are of all."""

    entity: GraphEntity
    neighbours: list[ReachedEntity]
    neighbour_count: int
    passage_ids: list[str]
    passage_count: int


class Rows(Result):
    """Rows of a query; truncated if there are more."""

    columns: list[str]
    rows: list[dict[str, Any]]
    truncated: bool


def make_tools(service: Service) -> "MCPServer[Any]":
    """A server of the Model Context Protocol over a service, which its caller closes."""
    from mcp.server import MCPServer
    from mcp.server.mcpserver import ResourceSecurity
    from mcp.server.mcpserver.exceptions import MCPServerError, ToolError
    from mcp.types import ToolAnnotations

    class Tools(MCPServer[Any]):
        async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
            try:
                return await super().call_tool(name, arguments, context)
            except ToolError as error:  # whose text has words of pydantic, or repeats the name of the tool
                cause = error.__cause__
                if isinstance(cause, ValidationError):
                    location, rule = broken_value(cause)
                    raise ToolError(redact(f"{'.'.join(map(str, location))} {rule}.")) from error
                if isinstance(cause, MCPServerError):
                    raise ToolError(str(cause)) from error
                raise

    not_paths = ResourceSecurity(exempt_params={"index", "document"})  # names and ids of ours, which open no file
    server = Tools(
        "polyhop", instructions=INSTRUCTIONS, version=VERSION, log_level="WARNING", resource_security=not_paths
    )
    reading = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    for reads, name, what in ((True, "ask", ASK), (False, "search_passages", SEARCH)):
        server.add_tool(_answering(service, reads=reads), name, description=what, annotations=reading)
    for tool in _looking(service):
        server.add_tool(tool, annotations=reading)
    _add_resources(server, service)
    return server


async def _reported(work: Awaitable[T]) -> T:
    """Awaits the work and turns errors of Polyhop into error replies with their sentence, for tools and resources."""
    from mcp.server.mcpserver.exceptions import ResourceNotFoundError

    try:
        return await work
    except PolyhopError as error:
        raise ResourceNotFoundError(redact(str(error))) from error


async def _named(service: Service, index: str | None) -> str:
    """The index that a call names, or the only one."""
    return await _reported(service.run(lambda: service.named_index(index)))


def _answering(service: Service, *, reads: bool) -> Callable[..., Any]:
    async def answer(
        question: Text,
        index: IndexName = None,
        strategy: Strategy = None,
        limit: Limit = 10,
        where: Where = None,
        version: Version = None,
    ) -> Answered:
        name = await _named(service, index)
        found = await _reported(service.ask(Asked(name, question, version, strategy, limit, where=where, reads=reads)))
        return Answered.model_validate({**found.reading, **answer_document(found), "index": name})

    return answer


def _looking(service: Service) -> list[Callable[..., Any]]:
    async def find_entities(
        name: Name, *, index: IndexName = None, fuzzy: Fuzzy = True, version: Version = None
    ) -> Entities:
        """Finds entities by name; their ids are for neighbours."""

        def look(opened: Index) -> Entities:
            found = opened.graph.find_entities(name, fuzzy=fuzzy)[:MAX_LISTED]
            return Entities(index=opened.name, version=opened.version, entities=found)

        return await _reported(service.use(await _named(service, index), look, version))

    async def neighbours(
        entity_id: EntityId, index: IndexName = None, depth: Depth = 1, version: Version = None
    ) -> Neighbours:
        """Lists the entities within some relations of one, and the passages that mention it."""

        def look(opened: Index) -> Neighbours:
            near, ids = opened.graph.traverse(entity_id, depth), opened.graph.chunks_for_entities([entity_id])
            return Neighbours(
                index=opened.name,
                version=opened.version,
                entity=opened.graph.entity(entity_id),
                neighbours=near[:MAX_LISTED],
                neighbour_count=len(near),
                passage_ids=ids[:MAX_LISTED],
                passage_count=len(ids),
            )

        return await _reported(service.use(await _named(service, index), look, version))

    async def connect(
        a: Name, b: Name, index: IndexName = None, max_length: Length = 4, version: Version = None
    ) -> Entities:
        """Finds the shortest connections between two entities, with the passages that state them."""
        name = await _named(service, index)
        found = await _reported(service.use(name, lambda one: one.graph.connect(a, b, max_length=max_length), version))
        return Entities.model_validate(found.to_json() | {"entities": [*found.from_entities, *found.to_entities]})

    async def sql(query: Query, index: IndexName = None, version: Version = None) -> Rows:
        """Runs a query that only reads, on the tables of polyhop://INDEX/tables; returns at most 200 rows, 1 MB."""
        name = await _named(service, index)
        found = await _reported(sql_document(service, name, query, version, SQL_LIMITS))
        rows = json.loads(json_text(found["rows"]))  # dates and such as text, as `polyhop sql --json`
        return Rows.model_validate(found | {"index": name, "rows": rows})

    return [find_entities, neighbours, connect, sql]


def _add_resources(server: "MCPServer[Any]", service: Service) -> None:
    @server.resource("polyhop://indexes", mime_type="application/json")
    async def indexes() -> str:
        """The published indexes, with their counts and strategies."""
        return json_text(await service.run(lambda: [index_row(service, name) for name in service.index_names()]))

    @server.resource("polyhop://{index}/documents/{document}", mime_type="application/json")
    async def documents(index: str, document: str) -> str:
        """A document of the current version, by its id or that of a record or passage in it.

        Returns {index, version, document, passages[{id, title, text}]}.
        """

        def look(opened: Index) -> str:
            read, named = opened.session.published.rows, document
            asked = {"limit": MAX_DOCUMENT, "offset": 0}
            rows = read(statement("pages", "passages_of_document"), asked | {"id": named})
            if not rows:
                for (named,) in read(statement("pages", "document_of_record"), {"id": document}):
                    rows = read(statement("pages", "passages_of_document"), asked | {"id": named})
            if not rows:
                raise UnknownIdError(f"Index '{index}' has no document '{document}' in version {opened.version}.")
            passages = [{"id": one, "title": title, "text": text} for one, _, title, text in rows]
            return json_text({"index": index, "version": opened.version, "document": named, "passages": passages})

        return await _reported(service.use(index, look))

    @server.resource("polyhop://{index}/versions", mime_type="application/json")
    async def versions(index: str) -> str:
        """The published versions of an index, oldest first."""
        layout = service.layout
        rows = await _reported(service.run(lambda: version_rows(layout, index, require_version(layout, index)[0])[0]))
        return json_text({"index": index, "versions": rows})

    @server.resource("polyhop://{index}/tables", mime_type="application/json")
    async def tables(index: str) -> str:
        """The tables and views that sql reads, with what they hold."""
        found = await _reported(service.run(lambda: catalog_document(service, index, TABLES_QUERY)))
        return json_text({"index": index, "version": found["version"], "tables": found["rows"]})


_FORM = 'send one like {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'


async def serve_lines(server: "MCPServer[Any]") -> None:
    """Serves the tools on standard input and output, a message a line, until the input ends."""
    import anyio
    from mcp.server.stdio import stdio_server
    from mcp.shared.message import SessionMessage

    server.streamable_http_app()  # makes the session manager, by which the package shows what runs on streams
    app = server.session_manager.app
    sender, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)

    async with (
        stdio_server(stdin=anyio.wrap_file(io.StringIO())) as (empty, replies),
        anyio.create_task_group() as group,
    ):
        await empty.aclose()  # the input is read here: the package drops lines that it cannot read

        async def read() -> None:
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the server has ended
                async with sender:
                    async for line in anyio.wrap_file(sys.stdin.buffer):
                        message, rejection = read_message(line)
                        if rejection is not None:
                            await replies.send(SessionMessage(rejection))
                        elif message is not None:
                            await sender.send(SessionMessage(message))

        group.start_soon(read)
        await app.run(messages, replies, app.create_initialization_options())
        group.cancel_scope.cancel()


def read_bodies(app: ASGIApp) -> ASGIApp:
    """The application of the tools, which gets only bodies that it can read, whatever content type a client names."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await app(scope, receive, send)
            return
        body = await Request(scope, receive).body()
        _, rejection = read_message(body)
        if rejection is not None:
            content = rejection.model_dump_json(by_alias=True, exclude_unset=True)
            await Response(content, 400, media_type="application/json")(scope, receive, send)
            return
        MutableHeaders(scope=scope)["content-type"] = "application/json"
        is_read = False

        async def receive_again() -> Message:
            nonlocal is_read
            if is_read:
                return await receive()
            is_read = True
            return {"type": "http.request", "body": body, "more_body": False}

        await app(scope, receive_again, send)

    return answer


def read_message(line: bytes) -> "tuple[JSONRPCMessage | None, JSONRPCError | None]":
    """A message of JSON-RPC, or the reply to what is none."""
    from mcp.types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCNotification
    from mcp.types import jsonrpc_message_adapter as adapter

    def rejected(code: int, sentence: str, given: object = None) -> "tuple[None, JSONRPCError]":
        is_known = isinstance(given, int | str) and not isinstance(given, bool)
        is_text = not isinstance(given, str) or given.encode(errors="ignore").decode() == given
        known: Any = given if is_known and is_text else None
        return None, JSONRPCError(jsonrpc="2.0", id=known, error=ErrorData(code=code, message=sentence))

    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return rejected(PARSE_ERROR, f"The message is not JSON; {_FORM}.")
    given = document.get("id") if isinstance(document, dict) else None
    try:
        message = adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        if error.errors()[0]["type"] == "json_invalid":
            why = "The message has half of a surrogate pair, or is nested too deeply; send valid characters."
            return rejected(INVALID_REQUEST, why, given)
        return rejected(INVALID_REQUEST, f"The message is not JSON-RPC 2.0; {_FORM}.", given)
    if isinstance(message, JSONRPCNotification) and "id" in document:
        return rejected(INVALID_REQUEST, "The id of a request must be text or a whole number.")
    return message, None
