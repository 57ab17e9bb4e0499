"""Tools and resources for agents, by the Model Context Protocol: each only reads, and names index and version."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field

from polyhop.api import Answer, Index
from polyhop.graph import Connection, GraphEntity, ReachedEntity
from polyhop.output import json_text
from polyhop.schemas.errors import MAX_QUESTION_CHARACTERS, PolyhopError, UnknownIdError, redact
from polyhop.schemas.version import VERSION
from polyhop.server.api import MAX_DEPTH, index_row, sql_document
from polyhop.server.service import Asked, Service
from polyhop.versions import version_rows
from polyhop.warehouse.files.versions import require_version
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.query import TABLES_QUERY

if TYPE_CHECKING:
    from mcp.server import MCPServer

MAX_ROWS = 200  # of a query; chosen: a model's context holds them
MAX_LISTED = 200  # passages and neighbours of an entity; chosen: likewise, and the count says how many there are
MAX_DOCUMENT = 1_000  # passages of a document that are shown; chosen: a model's context holds no more
INSTRUCTIONS = (
    "Polyhop answers multi-hop questions from published indexes; polyhop://indexes lists them. Use ask first; "
    "search_passages, find_entities, neighbours and connect show what an answer stands on; sql reads the tables that "
    "polyhop://INDEX/tables lists."
)

IndexName = Annotated[str, Field(description="Name of the index; the resource polyhop://indexes lists all.")]
Text = Annotated[str, Field(max_length=MAX_QUESTION_CHARACTERS, description="The question, in plain words.")]
Strategy = Annotated[str | None, Field(description="How passages are found; default: that of the index.")]
Limit = Annotated[int, Field(ge=1, le=100, description="Passages to return.")]
Where = Annotated[str | None, Field(description="A filter of records, such as metadata.year >= 1900.")]
Name = Annotated[str, Field(max_length=1_000, description="Name of an entity, as one would write it.")]
Version = Annotated[int | None, Field(ge=1, description="A published version; default: the current one.")]


class AgentPassage(BaseModel):
    """A ranked passage; `document` is the id for polyhop://INDEX/documents/ID."""

    id: str
    title: str
    text: str
    score: float
    rank: int
    document: str


class AgentResult(BaseModel):
    """What every tool says of its result: the index, and the version that gave it."""

    index: str
    version: int


class AgentPassages(AgentResult):
    """Passages in descending order of score."""

    strategy: str
    passages: list[AgentPassage]


class AgentAnswer(AgentPassages):
    """An answer; "" if none is certain enough: then the sentences say most of it."""

    answer: str
    confidence: float | None
    reasoning: str | None  # of a model that read
    sentences: list[dict[str, Any]]  # {passage_id, text, start, end}


class AgentEntities(AgentResult):
    """Entities of a name."""

    entities: list[GraphEntity]


class AgentNeighbours(AgentResult):
    """An entity with those near it by hops, and the passages that mention it; the counts are of all."""

    entity: GraphEntity
    neighbours: list[ReachedEntity]
    neighbour_count: int
    passage_ids: list[str]
    passage_count: int


class AgentConnections(AgentResult):
    """The shortest connections between two names; none if they are not connected."""

    paths: list[Connection]


class AgentRows(AgentResult):
    """Rows of a query; truncated if there are more."""

    columns: list[str]
    rows: list[dict[str, Any]]
    truncated: bool


def make_tools(service: Service) -> "MCPServer[Any]":
    """A server of the Model Context Protocol over a service, which its caller closes."""
    from mcp.server import MCPServer

    server: MCPServer[Any] = MCPServer(
        "polyhop", title="Polyhop", instructions=INSTRUCTIONS, version=VERSION, log_level="WARNING"
    )
    _add_questions(server, service)
    _add_graph(server, service)
    _add_resources(server, service)
    return server


def _reading() -> Any:
    """What clients are told of each tool: it changes nothing, and asks nobody outside."""
    from mcp.types import ToolAnnotations

    return ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)


@contextmanager
def _tool_errors() -> Iterator[None]:
    """Errors of ours as errors of a tool, with our sentence."""
    from mcp.server.mcpserver.exceptions import ToolError

    try:
        yield
    except PolyhopError as error:
        raise ToolError(redact(str(error))) from error


@contextmanager
def _resource_errors() -> Iterator[None]:
    """Errors of ours as errors of a resource, with our sentence."""
    from mcp.server.mcpserver.exceptions import ResourceNotFoundError

    try:
        yield
    except PolyhopError as error:
        raise ResourceNotFoundError(redact(str(error))) from error


def _add_questions(server: "MCPServer[Any]", service: Service) -> None:
    @server.tool(annotations=_reading())
    async def ask(
        index: IndexName,
        question: Text,
        strategy: Strategy = None,
        limit: Limit = 10,
        where: Where = None,
        version: Version = None,
    ) -> AgentAnswer:
        """Answers a question, also one that needs several documents, with the passages that the answer stands on."""
        with _tool_errors():
            found = await service.ask(Asked(index, question, version, strategy, limit, where=where))
        return AgentAnswer(
            **_ranked(index, found),
            answer=found.answer,
            confidence=found.reading.get("confidence"),
            reasoning=found.reading.get("reasoning") or None,
            sentences=found.sentences,
        )

    @server.tool(annotations=_reading())
    async def search_passages(
        index: IndexName,
        query: Text,
        strategy: Strategy = None,
        limit: Limit = 10,
        where: Where = None,
        version: Version = None,
    ) -> AgentPassages:
        """Ranks passages for a question, which nobody reads."""
        with _tool_errors():
            found = await service.ask(Asked(index, query, version, strategy, limit, where=where, reads=False))
        return AgentPassages(**_ranked(index, found))

    @server.tool(annotations=_reading())
    async def sql(
        index: IndexName,
        query: Annotated[str, Field(max_length=100_000, description="One query that reads, in DuckDB's dialect.")],
        version: Version = None,
    ) -> AgentRows:
        """Runs a query that only reads on the tables of an index; at most 200 rows come back."""
        with _tool_errors():
            found = await service.run(lambda: sql_document(service, index, query, version))
        rows = json.loads(json_text(found["rows"][:MAX_ROWS]))  # dates and such as text, as `polyhop sql --json`
        is_cut = found["truncated"] or len(found["rows"]) > MAX_ROWS
        own = {"index": index, "version": found["version"], "columns": found["columns"]}
        return AgentRows(**own, rows=rows, truncated=is_cut)


def _ranked(index: str, answer: Answer) -> dict[str, Any]:
    own = {"index": index, "version": answer.version, "strategy": answer.strategy}
    return {**own, "passages": [AgentPassage.model_validate(row) for row in answer.passages]}


def _add_graph(server: "MCPServer[Any]", service: Service) -> None:
    @server.tool(annotations=_reading())
    async def find_entities(
        index: IndexName,
        name: Name,
        *,
        fuzzy: Annotated[bool, Field(description="Also names that contain this one, or all of its words.")] = True,
        version: Version = None,
    ) -> AgentEntities:
        """Finds entities by name; their ids are for neighbours."""

        def look(opened: Index) -> AgentEntities:
            found = opened.graph.find_entities(name, fuzzy=fuzzy)[:MAX_LISTED]
            return AgentEntities(index=index, version=opened.version, entities=found)

        with _tool_errors():
            return await service.use(index, look, version)

    @server.tool(annotations=_reading())
    async def neighbours(
        index: IndexName,
        entity_id: Annotated[str, Field(description="Id of an entity, from find_entities.")],
        depth: Annotated[int, Field(ge=1, le=MAX_DEPTH, description="Relations to follow.")] = 1,
        version: Version = None,
    ) -> AgentNeighbours:
        """Lists the entities within some relations of one, and the passages that mention it."""

        def look(opened: Index) -> AgentNeighbours:
            near, graph = opened.graph.traverse(entity_id, depth), opened.graph
            ids = graph.chunks_for_entities([entity_id])
            return AgentNeighbours(
                index=index,
                version=opened.version,
                entity=graph.entity(entity_id),
                neighbours=near[:MAX_LISTED],
                neighbour_count=len(near),
                passage_ids=ids[:MAX_LISTED],
                passage_count=len(ids),
            )

        with _tool_errors():
            return await service.use(index, look, version)

    @server.tool(annotations=_reading())
    async def connect(
        index: IndexName,
        a: Name,
        b: Name,
        max_length: Annotated[int, Field(ge=1, le=10, description="Relations in a connection.")] = 4,
        version: Version = None,
    ) -> AgentConnections:
        """Finds the shortest connections between two entities, with the passages that state them."""

        def look(opened: Index) -> AgentConnections:
            found = opened.graph.connect(a, b, max_length=max_length)
            return AgentConnections(index=index, version=opened.version, paths=list(found.paths))

        with _tool_errors():
            return await service.use(index, look, version)


def _add_resources(server: "MCPServer[Any]", service: Service) -> None:
    from mcp.server.mcpserver import ResourceSecurity

    is_json = "application/json"
    not_paths = ResourceSecurity(exempt_params={"index", "document"})  # names and ids of ours, which open no file

    @server.resource("polyhop://indexes", mime_type=is_json)
    async def indexes() -> str:
        """The published indexes, with their counts and strategies."""
        return json_text(await service.run(lambda: [index_row(service, name) for name in service.index_names()]))

    @server.resource("polyhop://{index}/documents/{document}", mime_type=is_json, security=not_paths)
    async def documents(index: str, document: str) -> str:
        """A document of the current version: {index, version, document, passages[{id, title, text}]}."""

        def look(opened: Index) -> str:
            asked = {"id": document, "limit": MAX_DOCUMENT, "offset": 0}
            rows = opened.session.published.rows(statement("pages", "passages_of_document"), asked)
            if not rows:
                raise UnknownIdError(f"Index '{index}' has no document '{document}' in version {opened.version}.")
            passages = [{"id": one, "title": title, "text": text} for one, _, title, text in rows]
            own = {"index": index, "version": opened.version, "document": document}
            return json_text({**own, "passages": passages})

        with _resource_errors():
            return await service.use(index, look)

    @server.resource("polyhop://{index}/versions", mime_type=is_json, security=not_paths)
    async def versions(index: str) -> str:
        """The published versions of an index, oldest first."""

        def look() -> str:
            rows = version_rows(service.layout, index, require_version(service.layout, index)[0])[0]
            return json_text({"index": index, "versions": rows})

        with _resource_errors():
            return await service.run(look)

    @server.resource("polyhop://{index}/tables", mime_type=is_json, security=not_paths)
    async def tables(index: str) -> str:
        """The tables and views that sql reads, with what they hold."""

        def look() -> str:
            found = sql_document(service, index, TABLES_QUERY, None)
            return json_text({"index": index, "version": found["version"], "tables": found["rows"]})

        with _resource_errors():
            return await service.run(look)
