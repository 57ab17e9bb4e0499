"""The application: the routers of API, chat endpoint and pages, and what errors look like."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, Response
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from polyhop.schemas.errors import PolyhopError
from polyhop.schemas.settings import Settings
from polyhop.schemas.version import VERSION
from polyhop.server.access import Tokens
from polyhop.server.guard import RequestGuard, own_hosts
from polyhop.server.problems import problem_of
from polyhop.server.service import Service
from polyhop.warehouse.files.layout import Layout

if TYPE_CHECKING:
    from polyhop.server.pages import Pages


def make_app(
    settings: Settings,
    *,
    allows_changes: bool = False,
    has_pages: bool = True,
    host: str = "127.0.0.1",
    token: str = "",
) -> ASGIApp:
    """API, chat endpoint and pages over one root.

    Args:
        settings: Of the process.
        allows_changes: Whether jobs may be submitted, retried and cancelled, and indexes and documents changed.
        has_pages: Whether pages are served beside the API.
        host: Address that it listens on.
        token: That of the environment, which may do everything; tokens of the root are accepted, too.
    """
    from polyhop.server import api, chat, document_api

    service, tokens = Service(settings, allows_changes=allows_changes), Tokens(Layout(settings.root), token)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    app = FastAPI(
        title="Polyhop",
        version=VERSION,
        summary="Multi-hop questions over published indexes, with every graph-retrieval method as a strategy.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.include_router(api.make_router(service), prefix="/api/v1")
    app.include_router(document_api.make_router(service), prefix="/api/v1")
    app.include_router(chat.make_router(service))
    shown: Pages | None = None
    if has_pages:
        shown = _add_pages(app, service, tokens)

    async def on_error(request: Request, error: Exception) -> Response:
        said = problem_of(request, error)
        is_read = "text/html" in request.headers.get("accept", "")  # by a person in a browser
        if shown is not None and is_read and not request.url.path.startswith(("/api/", "/v1/")):
            return shown.error(request, said.status_code, json.loads(bytes(said.body))["detail"])
        return said

    for kind in (PolyhopError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, on_error)

    @app.get("/healthz", include_in_schema=False)
    async def health() -> dict[str, Any]:
        return {"version": VERSION}

    return RequestGuard(app, hosts=own_hosts(host), tokens=tokens)


def _add_pages(app: FastAPI, service: Service, tokens: Tokens) -> "Pages":
    """Adds all pages, and the files that they load."""
    from polyhop.server import (
        ask_pages,
        document_pages,
        graph_pages,
        index_pages,
        job_pages,
        source_pages,
        sql_pages,
        table_pages,
    )
    from polyhop.server.pages import FOLDER, Pages

    @app.get("/static/answer.css", include_in_schema=False)
    async def answer_style() -> Response:  # of `--html` pages, too
        return FileResponse(FOLDER.parent / "pages" / "answer.css", media_type="text/css")

    app.mount("/static", StaticFiles(directory=FOLDER / "static"), name="static")
    pages = Pages(service)
    app.include_router(ask_pages.make_router(pages, tokens), include_in_schema=False)
    for module in (document_pages, graph_pages, job_pages, source_pages, index_pages, sql_pages, table_pages):
        app.include_router(module.make_router(pages), include_in_schema=False)
    return pages
