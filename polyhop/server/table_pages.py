"""Evaluations, SQL and health: what is in tables and lists."""

import asyncio
import csv
import io
import os
import time
from typing import Annotated, Any
from urllib.parse import urlencode

from annotated_types import Ge, Le
from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, Response

from polyhop.doctor import Check, run_checks
from polyhop.flows.evaluate import compare, stored_row, stored_rows, stored_run, strategy_rows
from polyhop.output import json_text
from polyhop.schemas.errors import PolyhopError, UnknownIdError, redact
from polyhop.schemas.settings import flatten
from polyhop.server.api import MAX_JOB, Document, catalog_document, sql_document
from polyhop.server.guard import is_from_elsewhere
from polyhop.server.pages import Pages
from polyhop.server.problems import status_of
from polyhop.server.service import Service
from polyhop.terminal import CHANGED, changed_rows, stored_table
from polyhop.warehouse.files.versions import read_runs
from polyhop.warehouse.tables.query import COLUMNS_QUERY, TABLES_QUERY

ROWS = 100  # of a result on one page
KEPT_SECONDS = 30.0  # that the doctor's lines are kept; chosen: the checks reach servers and take seconds
SHOWN_RUNS = 50  # of each index, the newest
# a stored report has its style in it
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; frame-ancestors 'none'"
_Run = Annotated[int, Ge(1), Le(MAX_JOB)]
EXAMPLES = (
    "FROM entities WHERE is_named ORDER BY df DESC LIMIT 20",
    "SELECT relation, sum(count) AS stated FROM relations GROUP BY ALL ORDER BY stated DESC LIMIT 50",
    "FROM index_runs ORDER BY run DESC",
    "SELECT state, count(*) AS questions FROM results GROUP BY ALL",
)


def make_router(pages: Pages) -> APIRouter:
    """The routes of these pages."""
    router = APIRouter()
    _add_evaluations(router, pages)
    _add_sql(router, pages)
    _add_health(router, pages)
    return router


def _add_evaluations(router: APIRouter, pages: Pages) -> None:
    service = pages.service

    @router.get("/evaluations")
    async def evaluations(request: Request, page: int = 1) -> Response:
        rows = await service.run(lambda: stored_rows(service.settings))
        columns, table = stored_table(rows)
        first, bad = ROWS * (max(1, min(page, 10**6)) - 1), [row for row in rows if "error" in row]
        shown = {"columns": columns, "rows": table[::-1][first : first + ROWS], "bad": bad}
        return pages.page(request, "evaluations.html.jinja", **shown, first=first, total=len(table))

    @router.get("/evaluations/compare")
    async def compared(request: Request, a: _Run, b: _Run) -> Response:
        changes = await service.run(lambda: compare(service.settings, a, b))
        rows = changed_rows(changes)
        return pages.page(request, "evaluations_compared.html.jinja", changes=changes, columns=CHANGED, rows=rows)

    @router.get("/evaluations/{run}")
    async def evaluation(request: Request, run: _Run) -> Response:
        stored = await service.run(lambda: stored_run(service.settings, run))
        rows = strategy_rows(stored)
        return pages.page(request, "evaluation.html.jinja", run=run, stored=stored, rows=rows, facts=stored_row(stored))

    @router.get("/evaluations/{run}/report")
    async def report(run: _Run) -> Response:
        stored = await service.run(lambda: stored_run(service.settings, run))
        path = stored.path / "report.html"
        if not path.is_file():
            raise UnknownIdError(f"Evaluation {run} has no report.")
        return FileResponse(path, media_type="text/html", headers={"content-security-policy": REPORT_POLICY})


def _add_sql(router: APIRouter, pages: Pages) -> None:
    service = pages.service

    @router.get("/sql")
    async def sql(
        request: Request,
        *,
        index: str = "",
        query: str = "",
        page: int = 1,
        table: str = "",
        format: str = "",  # noqa: A002
    ) -> Response:
        names = service.index_names()
        chosen = index or (names[0] if names else "")
        context: dict[str, Any] = {"index": chosen, "query": query, "table": table, "sentence": "", "result": None}
        context |= {"tables": [], "columns": [], "examples": EXAMPLES, "link": "", "page": max(1, min(page, 10**6))}
        status = 200
        try:
            if chosen:
                context |= await service.run(lambda: _tables(service, chosen, table))
            if is_from_elsewhere(request.headers):
                context["sentence"] = "You came from another site; press Run to run the query." if query else ""
            elif query.strip():
                found = await sql_document(service, chosen, query)
                if format in {"csv", "jsonl"}:
                    return _download(found, format)
                context["result"] = found
                context["link"] = f"/sql?{urlencode({'index': chosen, 'query': query})}"
        except PolyhopError as error:
            context["sentence"], status = str(error), status_of(error)
        return pages.page(request, "sql.html.jinja", status, rows_per_page=ROWS, **context)


def _add_health(router: APIRouter, pages: Pages) -> None:
    service = pages.service
    health_of: list[tuple[float, list[Check]]] = []
    turn = asyncio.Lock()

    @router.get("/health")
    async def health(request: Request) -> Response:
        async with turn:  # of several callers one checks, and the others see what it found
            if not health_of or time.monotonic() - health_of[-1][0] > KEPT_SECONDS:
                checks = await service.run(lambda: run_checks(service.settings))
                health_of[:] = [(time.monotonic(), checks)]
        runs = await service.run(lambda: _runs(service))
        dashboard = os.environ.get("PREFECT_UI_URL") or os.environ.get("PREFECT_API_URL", "").removesuffix("/api")
        chosen = flatten(service.settings.model_dump(exclude_defaults=True))
        shown = {"checks": health_of[-1][1], "runs": runs, "dashboard": dashboard}
        rows = [{"name": name, "value": redact(str(value))} for name, value in chosen.items()]
        return pages.page(request, "health.html.jinja", **shown, settings=rows)


def _tables(service: Service, index: str, table: str) -> Document:
    """The tables of an index, and the columns of one."""
    tables = catalog_document(service, index, TABLES_QUERY)["rows"]
    columns = catalog_document(service, index, COLUMNS_QUERY)["rows"] if table else []
    return {"tables": tables, "columns": [row for row in columns if row["table"] == table]}


def _download(found: Document, kind: str) -> Response:
    """The rows of a query as a file."""
    headers = {"content-disposition": f'attachment; filename="query.{kind}"'}
    if kind == "jsonl":
        lines = "".join(f"{json_text(row)}\n" for row in found["rows"])
        return Response(lines.encode("utf-8", "replace"), media_type="application/x-ndjson", headers=headers)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(found["columns"])
    writer.writerows([row[name] for name in found["columns"]] for row in found["rows"])
    return Response(text.getvalue().encode("utf-8", "replace"), media_type="text/csv; charset=utf-8", headers=headers)


def _runs(service: Service) -> list[Document]:
    """The newest index runs of all indexes, each with its page on the Prefect dashboard, if it has one."""
    rows = []
    for name in service.index_names():
        for run in read_runs(service.layout.index(name))[-SHOWN_RUNS:]:
            by = f"{run.started_by.user}@{run.started_by.host}".strip("@")
            shown = {"index": name, "run": run.run, "started": run.started, "by": by, "outcome": run.outcome}
            ended = {"seconds": run.seconds, "published": run.published or None, "sentence": run.sentence}
            rows.append({**shown, **ended, "link": run.started_by.flow_run_url})
    return sorted(rows, key=lambda row: str(row["started"]), reverse=True)
