"""Documents of an index: made from nothing, uploaded, changed one by one, and what the runs make of them."""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from typing import IO, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from polyhop.documents import add_files, delete_document, document_rows, retry_documents, switch_document
from polyhop.schemas.errors import ConfigurationError, PolyhopError, SourceError, UnknownIndexError
from polyhop.server.access import CURRENT, RefusedError
from polyhop.server.api import index_row
from polyhop.server.guard import MAX_BODY_BYTES
from polyhop.server.pages import Pages, index_link, require_form
from polyhop.server.problems import status_of
from polyhop.server.service import Service
from polyhop.warehouse.files.formats import folder_endings
from polyhop.warehouse.open import open_published
from polyhop.warehouse.statements import statement
from polyhop.warehouse.uploads import MAX_FILES, NamedFile

ROWS = 100  # documents of a page
STATES = {
    "read": "read",
    "refused": "not read",
    "unread": "of a kind that is not read",
    "new": "not indexed yet",
    "off": "switched off",
}
"""States of an uploaded file, as pages name them."""


def make_router(pages: Pages) -> APIRouter:
    """The routes of these pages."""
    router = APIRouter()
    _add_first(router, pages)
    _add_list(router, pages)
    _add_changes(router, pages)
    return router


def _add_first(router: APIRouter, pages: Pages) -> None:
    service = pages.service

    async def shown(request: Request, status: int = 200, name: str = "", sentence: str = "") -> Response:
        rows = await service.run(lambda: [index_row(service, one) for one in service.index_names()])
        begun = await service.run(service.begun_names)
        upload = {"endings": folder_endings(), "max_mb": MAX_BODY_BYTES >> 20}
        form = {"name": name, "sentence": sentence}
        return pages.page(request, "first.html.jinja", status, rows=rows, begun=begun, **upload, **form)

    @router.get("/")
    async def first(request: Request) -> Response:
        if CURRENT.get().where:  # the page counts what indexes hold
            return RedirectResponse("/ask", 303)
        return await shown(request)

    @router.post("/indexes")
    async def make(request: Request) -> Response:
        form = await _uploaded(request)
        require_form(service, form)
        name = str(form.get("name", "")).strip()

        def work() -> None:
            service.layout.index(name)  # raises if it cannot be a name
            if name in {*service.index_names(), *service.begun_names()}:
                raise ConfigurationError(f"There is an index '{name}'; add documents on its page, or use another name.")
            add_files(service.settings, name, _named(form))
            service.inbox_runs.start(name)

        try:
            await service.run(work)
        except PolyhopError as error:
            return await shown(request, status_of(error), name[:100], str(error))
        return RedirectResponse(_address(name), 303)


def _add_list(router: APIRouter, pages: Pages) -> None:
    service = pages.service

    @router.get("/indexes/{index}/documents")
    async def listed(request: Request, index: str, state: str = "", page: int = 1) -> Response:
        return await document_page(pages, request, index, state=state, page=page)

    @router.get("/indexes/{index}/run")
    async def run(request: Request, index: str) -> Response:
        """The part of the list that changes while a run goes on, for those with JavaScript."""
        found = _run(service, index)
        response = pages.page(request, "run_live.html.jinja", index=index, run=found, waits=False)
        if not found or found["state"] != "running":
            response.headers["hx-refresh"] = "true"  # the list is another one now
        return response


def _add_changes(router: APIRouter, pages: Pages) -> None:
    service = pages.service

    async def done(request: Request, index: str, work: Callable[[], None]) -> Response:
        """Makes a change and starts a run; the list says why if it cannot be made."""

        def change() -> None:
            work()
            service.inbox_runs.start(index)

        try:
            await service.run(change)
        except PolyhopError as error:
            return await document_page(pages, request, index, sentence=str(error), status=status_of(error))
        return RedirectResponse(_address(index), 303)

    @router.post("/indexes/{index}/documents")
    async def add(request: Request, index: str) -> Response:
        form = await _uploaded(request)
        require_form(service, form)
        return await done(request, index, lambda: add_files(service.settings, index, _named(form)))

    @router.post("/indexes/{index}/documents/{change}")
    async def change(request: Request, index: str, change: str) -> Response:
        form = await _uploaded(request)
        require_form(service, form)
        id_ = str(form.get("id", ""))
        works: dict[str, Callable[[], None]] = {
            "replace": lambda: add_files(service.settings, index, _replacing(form, id_)),
            "delete": lambda: delete_document(service.settings, index, id_),
            "off": lambda: switch_document(service.settings, index, id_, is_on=False),
            "on": lambda: switch_document(service.settings, index, id_, is_on=True),
            "retry": lambda: retry_documents(service.settings, index),
        }
        if change not in works:
            raise ConfigurationError(f"Unknown change '{change[:30]}' of a document; use {', '.join(works)}.")
        return await done(request, index, works[change])


async def document_page(
    pages: Pages,
    request: Request,
    index: str,
    *,
    state: str = "",
    page: int = 1,
    sentence: str = "",
    status: int = 200,
) -> Response:
    """The page of an index's documents, with a sentence about a change that could not be made."""
    service = pages.service
    first = ROWS * (max(1, min(page, 10**6)) - 1)

    def read() -> dict[str, Any]:
        if index not in {*service.index_names(), *service.begun_names()}:
            raise UnknownIndexError(index, service.index_names(), str(service.layout.root))
        found = document_rows(service.settings, index)
        rows = [row for row in found["documents"] if not state or row["state"] == state]
        others = _others(service, index, [row["id"] for row in found["documents"]], first)
        is_last = len(rows) <= first + ROWS and len(others) <= ROWS
        kept = {"state": state} if state else {}
        return {
            "version": found["version"],
            "rows": rows[first : first + ROWS],
            "total": len(found["documents"]),
            "counts": Counter(row["state"] for row in found["documents"]),
            "others": others[:ROWS],
            "turn": {
                "previous": f"?{urlencode({**kept, 'page': page - 1})}" if first else "",
                "next": "" if is_last else f"?{urlencode({**kept, 'page': page + 1})}",
            },
            "waits": found["waits"],
            "run": _run(service, index),
        }

    shown = {"index": index, "link": index_link(index, None), "states": STATES, "state": state, "sentence": sentence}
    upload = {"endings": folder_endings(), "max_mb": MAX_BODY_BYTES >> 20}
    return pages.page(request, "documents.html.jinja", status, **shown, **upload, **await service.run(read))


def _others(service: Service, index: str, files: list[str], first: int) -> list[dict[str, Any]]:
    """Documents of the current version that are no uploaded files, one more than a page shows."""
    if index not in service.index_names():
        return []
    with closing(open_published(service.settings.root, index)) as published:
        values = {"files": files, "limit": ROWS + 1, "offset": first}
        return published.documents(statement("pages", "documents_of_others"), values)


def _run(service: Service, index: str) -> dict[str, Any] | None:
    """The run of an index that goes on, or its last one since the server started."""
    found = service.inbox_runs.latest(index)
    return found.to_json() if found else None


def _address(index: str) -> str:
    return f"/indexes/{quote(index, safe='')}/documents"


async def _uploaded(request: Request) -> FormData:
    """The form of a request, with at most `MAX_FILES` files."""
    try:
        return await request.form(max_files=MAX_FILES)
    except HTTPException as error:
        if "Too many files" not in str(error.detail):
            raise
        raise RefusedError(413, f"The upload has more than {MAX_FILES:,} files; send it in parts.") from error


def _named(form: FormData) -> list[NamedFile]:
    """The files of a form; fields without a chosen file are left out."""
    files = [one for one in form.getlist("files") if isinstance(one, UploadFile) and one.filename]
    return [(one.filename or "", _opener(one)) for one in files]


def _replacing(form: FormData, id_: str) -> list[NamedFile]:
    """The one file of a form, under the path of the file that it replaces."""
    named = _named(form)
    ending = id_.rpartition(".")[2].lower()
    if len(named) != 1 or named[0][0].rpartition(".")[2].lower() != ending:
        raise SourceError(f"'{id_[:100]}' was not replaced; choose one file that ends in .{ending[:20]}.")
    return [(id_, named[0][1])]


def _opener(file: UploadFile) -> Callable[[], AbstractContextManager[IO[bytes]]]:
    """Returns a function that opens an uploaded file, which stays open after the block: its request closes it."""

    def opened() -> AbstractContextManager[IO[bytes]]:
        file.file.seek(0)
        return nullcontext(file.file)

    return opened
