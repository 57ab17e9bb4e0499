"""Single documents of an index over HTTP: listed, put, deleted, switched off and on, and read again by a run."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi import Path as InPath
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from polyhop.documents import delete_document, document_rows, put_document, retry_documents, switch_document
from polyhop.schemas.errors import SourceError
from polyhop.server.api import ContractResponse, Document, Problems, records_of, require_changes
from polyhop.server.problems import JsonRoute
from polyhop.server.service import Service
from polyhop.warehouse.uploads import is_read

DocumentId = Annotated[str, InPath(description="Path of an uploaded file, or id of an added record.")]
_FILE_OR_RECORD = {
    "requestBody": {
        "content": {
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
            "application/json": {
                "schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
            },
        }
    }
}


class SwitchBody(BaseModel):
    """Switch of an uploaded file."""

    model_config = ConfigDict(extra="forbid", strict=True)
    on: bool = Field(description="Whether runs read the uploaded file.")


def make_router(service: Service) -> APIRouter:
    """The routes of documents over a service; each change starts a run, whose document it returns."""
    router = APIRouter(route_class=JsonRoute, responses=Problems, default_response_class=ContractResponse)

    async def started(index: str, change: Callable[[], None]) -> Response:
        require_changes(service)

        def work() -> Document:
            change()
            return service.inbox_runs.start(index).to_json()

        return ContractResponse(await service.run(work), 202)

    @router.get("/indexes/{index}/documents", summary="The uploaded files, with what the current version made of them")
    async def listed(index: str) -> Response:
        return ContractResponse(await service.run(lambda: document_rows(service.settings, index)))

    @router.put(
        "/indexes/{index}/documents/{document:path}",
        status_code=202,
        summary="Add or replace a document: the content of a file if its id ends like one, else a record",
        openapi_extra=_FILE_OR_RECORD,
    )
    async def put(request: Request, index: str, document: DocumentId) -> Response:
        require_changes(service)
        body = await request.body()
        return await started(index, lambda: put_document(service.settings, index, document, _content(document, body)))

    @router.delete("/indexes/{index}/documents/{document:path}", status_code=202, summary="Delete a document")
    async def delete(index: str, document: DocumentId) -> Response:
        return await started(index, lambda: delete_document(service.settings, index, document))

    @router.patch(
        "/indexes/{index}/documents/{document:path}", status_code=202, summary="Switch an uploaded file off, or on"
    )
    async def switch(index: str, document: DocumentId, body: SwitchBody) -> Response:
        return await started(index, lambda: switch_document(service.settings, index, document, is_on=body.on))

    @router.post("/indexes/{index}/runs", status_code=202, summary="Read the uploaded files again")
    async def retry(index: str) -> Response:
        return await started(index, lambda: retry_documents(service.settings, index))

    return router


def _content(document: str, body: bytes) -> bytes | dict[str, Any]:
    """The content of a file if the id ends like one, else the record in a body."""
    if is_read(document):
        return body
    records = records_of(body)
    if len(records) != 1:
        raise SourceError(f"Document '{document[:100]}' is one record; send one object with a text.")
    record: dict[str, Any] = records[0]
    return record
