"""The HTTP API below /api/v1: the JSON of the command line's contract (docs/architecture.md section 9), over HTTP."""

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi import Path as InPath
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.background import BackgroundTask

from polyhop.api import MAX_TOPIC_CHARACTERS, Answer, Index
from polyhop.documents import add_rows
from polyhop.flows.answer import submit_file
from polyhop.inbox import add_records
from polyhop.jobs import job_document, result_document, result_tables, write_results
from polyhop.output import json_text
from polyhop.schemas.errors import MAX_QUESTION_CHARACTERS, SourceError, UnknownIdError
from polyhop.schemas.queue import JobSpec
from polyhop.schemas.requests import SubmissionRequest
from polyhop.server.access import RefusedError
from polyhop.server.problems import JsonRoute
from polyhop.server.service import Asked, Service, parameter_pairs
from polyhop.versions import diff_versions, version_rows
from polyhop.warehouse.files.versions import default_strategy_of, read_manifest, require_version, strategies_of
from polyhop.warehouse.open import open_questions
from polyhop.warehouse.tables.query import TABLES_QUERY, query_rows
from polyhop.warehouse.tables.query_processes import QueryLimits

SQL_LIMITS = QueryLimits(10_000, 30.0)  # of a query; chosen: a page reads the rows, a browser holds them
MAX_PASSAGES = 1_000  # of one request; as many as a question may ask for
_FILE_NAME = r"^[\w .()-]{1,200}\.\w{1,9}$"  # with an ending, which says how it is read, and no folder
MAX_DEPTH = 3  # relations from an entity to its neighbours; chosen: beyond it is most of a graph
MAX_PATHS = 100  # connections of one request; chosen: people read a few
MAX_JOB = 2**53  # the largest id: JSON's numbers are exact up to it, and databases hold it

Document = dict[str, Any]
_WHY_NOT = {"description": "The reason, as application/problem+json (RFC 9457)."}
_STATUSES = (400, 401, 403, 404, 408, 409, 413, 421, 422, 500, 502, 503, 504)  # those of problems.py and guard.py
Problems: dict[int | str, Document] = dict.fromkeys(_STATUSES, _WHY_NOT)
Version = Annotated[int | None, Query(ge=1, le=MAX_JOB, description="A published version; default: the current one.")]
JobId = Annotated[int, InPath(ge=1, le=MAX_JOB, description="Id of a job.")]
_FILE = {"requestBody": {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}}


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)  # without strict, true would count as the integer 1


class AskBody(_Body):
    """A question, as `polyhop ask` takes it."""

    question: str = Field(max_length=MAX_QUESTION_CHARACTERS)
    strategy: str | None = Field(None, description="Retrieval strategy; default: that of the index.")
    limit: int = Field(10, ge=1, le=MAX_PASSAGES, description="Passages to return.")
    parameters: dict[str, str | float | bool] = Field({}, description="Parameters of the strategy.")
    topic: str | None = Field(
        None, max_length=MAX_TOPIC_CHARACTERS, description="The entity that the question is about."
    )
    where: str | None = Field(None, description="A filter of records, as in `polyhop ask --where`.")
    version: int | None = Field(None, ge=1, le=MAX_JOB, description="A published version; default: the current one.")

    def asked(self, index: str, *, reads: bool = True) -> Asked:
        """The question as the service takes it."""
        parameters = parameter_pairs(self.parameters)
        topic, where = self.topic, self.where
        return Asked(index, self.question, self.version, self.strategy, self.limit, parameters, topic, where, reads)


class TextBody(_Body):
    """Words to find passages by."""

    words: str = Field(max_length=MAX_QUESTION_CHARACTERS)
    limit: int = Field(10, ge=1, le=MAX_PASSAGES)
    version: int | None = Field(None, ge=1, le=MAX_JOB)


class SqlBody(_Body):
    """One query that reads, in DuckDB's dialect."""

    query: str = Field(max_length=100_000)
    version: int | None = Field(None, ge=1, le=MAX_JOB)


def make_router(service: Service) -> APIRouter:
    """The routes of the API over a service."""
    router = APIRouter(route_class=JsonRoute, responses=Problems, default_response_class=ContractResponse)
    _add_questions(router, service)
    _add_entities(router, service)
    _add_index(router, service)
    _add_jobs(router, service)
    _add_documents(router, service)
    return router


class ContractResponse(JSONResponse):
    """JSON of the contract: NaN and infinity by name, dates as text, any text as it is."""

    def render(self, content: Any) -> bytes:
        """The bytes of a document."""
        return json_text(content).encode("utf-8", "replace")


def _add_questions(router: APIRouter, service: Service) -> None:
    @router.get("/indexes", summary="The published indexes")
    async def indexes() -> Response:
        return ContractResponse(await service.run(lambda: [index_row(service, name) for name in service.index_names()]))

    @router.post("/indexes/{index}/ask", summary="Answer a question, with the passages that support it")
    async def ask(index: str, body: AskBody) -> Response:
        return ContractResponse(answer_document(await service.ask(body.asked(index))))

    @router.post("/indexes/{index}/search", summary="Rank passages for a question without generating an answer")
    async def search(index: str, body: AskBody) -> Response:
        return ContractResponse(answer_document(await service.ask(body.asked(index, reads=False))))

    @router.post("/indexes/{index}/text", summary="Find passages by their words")
    async def text(index: str, body: TextBody) -> Response:
        def look(opened: Index) -> Document:
            return {"version": opened.version, "passage_ids": opened.search_text(body.words, limit=body.limit)}

        return ContractResponse(await service.use(index, look, body.version))

    @router.get("/indexes/{index}/passages", summary="Passages by id")
    async def passages(
        index: str,
        ids: Annotated[list[str], Query(alias="id", max_length=MAX_PASSAGES)],
        version: Version = None,
    ) -> Response:
        return ContractResponse(await service.use(index, lambda opened: passage_documents(opened, ids), version))


def answer_document(answer: Answer) -> Document:
    """The JSON contract of `polyhop ask`, with the texts of its passages."""
    document = answer.to_json()
    for row, passage in zip(document["passages"], answer.passages, strict=True):
        row["text"] = passage["text"]
    return document


def index_row(service: Service, name: str) -> Document:
    """An index: {index, version, source, counts of the manifest, strategy (its default), strategies}."""
    version, folder = require_version(service.layout, name)
    manifest = read_manifest(folder)
    own = {"strategy": default_strategy_of(service.layout, name), "strategies": strategies_of(service.layout, name)}
    return {"index": name, "version": version, "source": manifest.source, **manifest.counts, **own}


def passage_documents(opened: Index, ids: list[str]) -> Document:
    """{version, passages[{id, title, text, document, source, start, end, metadata}]}, in the order asked."""
    index = opened.session.published
    unknown = [one for one in ids if one not in index.number_of_passage]
    if unknown:
        raise UnknownIdError(f"Index '{opened.name}' has no passage '{unknown[0]}' in version {opened.version}.")
    numbers = [index.number_of_passage[one] for one in ids]
    rows = [
        {"id": passage_id, "title": title, "text": text, **origin.row()}
        for (passage_id, title, text), origin in zip(index.passages(numbers), index.origins(numbers), strict=True)
    ]
    return {"version": opened.version, "passages": rows}


def _add_entities(router: APIRouter, service: Service) -> None:
    @router.get("/indexes/{index}/entities", summary="Entities of a name")
    async def entities(
        index: str, name: Annotated[str, Query(max_length=1_000)], *, fuzzy: bool = True, version: Version = None
    ) -> Response:
        def look(opened: Index) -> Document:
            found = opened.find_entities(name, fuzzy=fuzzy)
            return {"version": opened.version, "entities": [dataclasses.asdict(one) for one in found]}

        return ContractResponse(await service.use(index, look, version))

    @router.get("/indexes/{index}/entities/{entity_id}", summary="An entity with its neighbours and passages")
    async def entity(
        index: str,
        entity_id: str,
        depth: Annotated[int, Query(ge=1, le=MAX_DEPTH)] = 1,
        version: Version = None,
    ) -> Response:
        def look(opened: Index) -> Document:
            near = [dataclasses.asdict(one) for one in opened.neighbours(entity_id, depth)]
            own = {"version": opened.version, "entity": dataclasses.asdict(opened.graph.entity(entity_id))}
            return {**own, "neighbours": near, "passage_ids": opened.graph.chunks_for_entities([entity_id])}

        return ContractResponse(await service.use(index, look, version))

    @router.get("/indexes/{index}/connect", summary="The shortest connections between two entities")
    async def connect(
        index: str,
        a: Annotated[str, Query(max_length=1_000)],
        b: Annotated[str, Query(max_length=1_000)],
        max_length: Annotated[int, Query(ge=0, le=10)] = 4,
        paths: Annotated[int, Query(ge=0, le=MAX_PATHS, description="Connections to return at most.")] = 5,
        version: Version = None,
    ) -> Response:
        def look(opened: Index) -> Document:
            return opened.connect(a, b, max_length=max_length, paths=paths).to_json()

        return ContractResponse(await service.use(index, look, version))


def _add_index(router: APIRouter, service: Service) -> None:
    @router.get("/indexes/{index}/versions", summary="The published versions")
    async def versions(index: str) -> Response:
        def look() -> list[Document]:
            return version_rows(service.layout, index, require_version(service.layout, index)[0])[0]

        return ContractResponse(await service.run(look))

    @router.get("/indexes/{index}/versions/diff", summary="Compare two versions")
    async def diff(
        index: str, before: Annotated[int, Query(ge=1, le=MAX_JOB)], after: Annotated[int, Query(ge=1, le=MAX_JOB)]
    ) -> Response:
        return ContractResponse(
            await service.run(lambda: diff_versions(service.settings, index, (before, after), None, None))
        )

    @router.get("/indexes/{index}/tables", summary="The tables that SQL reads")
    async def tables(index: str) -> Response:
        return ContractResponse((await service.run(lambda: catalog_document(service, index, TABLES_QUERY)))["rows"])

    @router.post("/indexes/{index}/sql", summary="Rows of a read-only query, at most 10,000")
    async def sql(index: str, body: SqlBody) -> Response:
        return ContractResponse(await sql_document(service, index, body.query, body.version))


async def sql_document(
    service: Service, index: str, query: str, version: int | None = None, limits: QueryLimits | None = None
) -> Document:
    """{version, columns, rows, truncated} of a query in the sandbox of `polyhop sql`, within SQL_LIMITS or others."""
    number, found = await service.query(index, query, version, limits or SQL_LIMITS)
    return {"version": number, "columns": found.columns, "rows": found.rows, "truncated": found.is_truncated}


def catalog_document(service: Service, index: str, query: str) -> Document:
    """{version, rows} of a query of ours on the catalog of an index."""
    number, _ = require_version(service.layout, index)
    found = query_rows(service.layout, index, query, number, result_tables(service.settings, index))
    return {"version": number, "rows": found.to_pylist()}


def _add_jobs(router: APIRouter, service: Service) -> None:
    @router.get("/jobs", summary="The newest jobs")
    async def jobs() -> Response:
        return ContractResponse(await service.run(lambda: job_documents(service)))

    @router.post(
        "/jobs", status_code=201, summary="Submit a file of questions, the body, as a job", openapi_extra=_FILE
    )
    async def submit(  # noqa: PLR0913 - those of `polyhop submit`
        request: Request,
        *,
        index: str,
        strategy: str = "",
        limit: Annotated[int, Query(ge=1, le=MAX_PASSAGES)] = 10,
        where: str | None = None,
        queue: str = "default",
        priority: Annotated[int, Query(ge=-1000, le=1000)] = 0,
        key: str | None = None,
        name: str = "",
        format: Literal["jsonl", "json", "csv", "txt", "parquet"] = "jsonl",  # noqa: A002 - as callers write it
    ) -> Response:
        require_changes(service)
        spec = JobSpec(index, name, queue, strategy, limit=limit, priority=priority, key=key, where=where)
        body = await request.body()
        return ContractResponse(await service.run(lambda: submit_bytes(service, body, format, spec)), 201)

    @router.get("/jobs/{job}", summary="A job")
    async def job(job: JobId) -> Response:
        return ContractResponse(await service.run(lambda: one_job(service, job)))

    @router.get(
        "/jobs/{job}/results", summary="List its questions with their answers", response_class=StreamingResponse
    )
    async def results(job: JobId, format: Literal["jsonl", "csv", "parquet"] = "jsonl") -> Response:  # noqa: A002
        return await service.run(lambda: results_response(service, job, format))

    @router.post("/jobs/{job}/cancel", summary="Cancel the open questions of a job")
    async def cancel(job: JobId) -> Response:
        require_changes(service)
        return ContractResponse(await service.run(lambda: change_job(service, job, "cancelled")))

    @router.post("/jobs/{job}/retry", summary="Retry its dead and cancelled questions")
    async def retry(job: JobId) -> Response:
        require_changes(service)
        return ContractResponse(await service.run(lambda: change_job(service, job, "requeued")))


def _file_name(name: str) -> str:
    """The name of a file without a folder."""
    if not re.fullmatch(_FILE_NAME, name):
        raise ValueError("must be the name of a file with its ending, such as corpus.jsonl")
    return name


def _add_documents(router: APIRouter, service: Service) -> None:
    @router.post(
        "/indexes/{index}/documents",
        status_code=202,
        summary="Add records, or a file, to an index, and start an incremental run",
        openapi_extra=_RECORDS,
    )
    async def add(
        request: Request,
        index: str,
        file: Annotated[
            str,
            AfterValidator(_file_name),
            Query(
                description="File name, if the body is a file; otherwise the body holds records.",
                json_schema_extra={"pattern": _FILE_NAME},
            ),
        ] = "",
    ) -> Response:
        require_changes(service)
        body = await request.body()
        return ContractResponse(await service.run(lambda: add_documents(service, index, body, file)), 202)

    @router.get("/runs/{run}", summary="Status of a run that adding documents started")
    async def run(run: str) -> Response:
        found = service.inbox_runs.get(run)
        if found is None:
            raise UnknownIdError(f"There is no run '{run[:100]}' since the server started.")
        return ContractResponse(found.to_json())


_RECORD = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
_LIST = {"type": "object", "properties": {"records": {"type": "array", "items": _RECORD}}, "required": ["records"]}
_RECORDS = {
    "requestBody": {
        "content": {
            "application/json": {"schema": _LIST},
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        }
    }
}


def add_documents(service: Service, index: str, body: bytes, file: str) -> Document:
    """Keeps records, or a file of that name, in the inbox of an index, and starts a run: {run, state, index, …}."""
    if file:
        add_rows(service.settings, index, file, body)
    else:
        add_records(service.settings, index, records_of(body))
    return service.inbox_runs.start(index).to_json()


def records_of(body: bytes) -> list[Any]:
    """The records of {"records": […]}, or of JSON lines; only objects, since a text would be taken for a path."""
    try:
        text = body.decode()
        try:
            document = json.loads(text)
        except ValueError:
            document = [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        raise SourceError('The body is neither {"records": […]} nor JSON lines.') from error
    listed = document.get("records", [document]) if isinstance(document, dict) else document
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise SourceError('The records are objects with a text: {"records": [{"title": …, "text": …}]}.')
    return listed


def require_changes(service: Service) -> None:
    """Raises RefusedError unless the server may change something."""
    if not service.allows_changes:
        raise RefusedError(403, "This server is read-only; start it with --allow-changes.")


def job_documents(service: Service) -> list[Document]:
    """The newest jobs, as `polyhop jobs` lists them."""
    with open_questions(service.settings) as queue:
        queue.sweep()
        workers = queue.workers()
        return [job_document(job, workers) for job in queue.jobs()]


def one_job(service: Service, job: int) -> Document:
    """A job, as `polyhop jobs` lists it."""
    with open_questions(service.settings) as queue:
        queue.sweep()
        return job_document(queue.job(job), queue.workers())


def submit_bytes(service: Service, body: bytes, kind: str, spec: JobSpec) -> Document:
    """A file of questions as one job: {job_id, questions, new}."""
    with TemporaryDirectory(prefix="polyhop-questions-") as folder, open_questions(service.settings) as queue:
        path = Path(folder) / f"questions.{kind}"
        path.write_bytes(body)
        named = dataclasses.replace(spec, name=spec.name or "upload")
        try:
            submitted = submit_file(service.settings, queue, SubmissionRequest(path, named))
        except SourceError as error:  # says which file; the folder is nothing to the caller
            raise SourceError(str(error).replace(f"{folder}/", "")) from error
    return {"job_id": submitted.job_id, "questions": submitted.count, "new": submitted.is_new}


def change_job(service: Service, job: int, done: Literal["cancelled", "requeued"]) -> Document:
    """Cancels or retries a job: how many questions that concerns."""
    with open_questions(service.settings) as queue:
        return {"job_id": job, done: queue.cancel(job) if done == "cancelled" else queue.retry(job)}


def results_response(service: Service, job: int, kind: str) -> Response:
    """The results of a job, streamed: JSON lines, or a file of CSV or Parquet that is deleted once it was sent."""
    name = f"job-{job}.{kind}"
    with open_questions(service.settings) as queue:
        queue.job(job)  # raises before the first byte
        if kind != "jsonl":
            folder = TemporaryDirectory(prefix="polyhop-results-")
            path = Path(folder.name) / name
            write_results(queue.results(job), path)
            return FileResponse(path, filename=name, background=BackgroundTask(folder.cleanup))

    def lines() -> Iterator[str]:
        with open_questions(service.settings) as queue:
            for row in queue.results(job):
                yield json_text(result_document(row)) + "\n"

    attachment = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(lines(), media_type="application/x-ndjson", headers=attachment)
