"""Evaluations and health: what is in tables and lists."""

import asyncio
import os
import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from annotated_types import Ge, Le
from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, Response

from polyhop.doctor import Check, run_checks
from polyhop.flows.evaluate import compare, stored_row, stored_rows, stored_run, strategy_rows
from polyhop.flows.evaluation.report import ALL_METRICS
from polyhop.schemas.errors import UnknownIdError, redact
from polyhop.schemas.settings import flatten
from polyhop.server.api import MAX_JOB, Document
from polyhop.server.pages import Pages
from polyhop.server.service import Service
from polyhop.terminal import CHANGED, changed_rows, stored_table
from polyhop.warehouse.files.versions import read_runs

ROWS = 100  # of a result on one page
KEPT_SECONDS = 30.0  # that the doctor's lines are kept; chosen: the checks reach servers and take seconds
SHOWN_RUNS = 50  # of each index, the newest
# a stored report has its style in it
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; frame-ancestors 'none'"
_Run = Annotated[int, Ge(1), Le(MAX_JOB)]


def make_router(pages: Pages) -> APIRouter:
    """The routes of these pages."""
    router = APIRouter()
    _add_evaluations(router, pages)
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
        index = (await service.run(lambda: stored_run(service.settings, b))).run["index"]
        columns = [*CHANGED[:-1], "significance"]
        rows = [dict(zip(columns, row, strict=True)) for row in changed_rows(changes)]
        shown = {"columns": columns, "rows": rows, "metrics": ALL_METRICS, "index": index}
        return pages.page(request, "evaluations_compared.html.jinja", changes=changes, **shown)

    @router.get("/evaluations/{run}")
    async def evaluation(request: Request, run: _Run, strategy: str = "") -> Response:
        stored = await service.run(lambda: stored_run(service.settings, run))
        rows = strategy_rows(stored)
        chosen = strategy if strategy in stored.run["strategies"] else rows[0]["strategy"] if rows else ""
        missed = await service.run(lambda: missed_questions(stored.question_rows(), chosen))
        shown = {"facts": stored_row(stored), "chosen": chosen, "missed": missed[:ROWS], "missed_count": len(missed)}
        return pages.page(request, "evaluation.html.jinja", run=run, stored=stored, rows=rows, **shown)

    @router.get("/evaluations/{run}/report")
    async def report(run: _Run) -> Response:
        stored = await service.run(lambda: stored_run(service.settings, run))
        path = stored.path / "report.html"
        if not path.is_file():
            raise UnknownIdError(f"Evaluation {run} has no report.")
        return FileResponse(path, media_type="text/html", headers={"content-security-policy": REPORT_POLICY})


def missed_questions(rows: Iterable[Mapping[str, Any]], strategy: str) -> list[Mapping[str, Any]]:
    """The questions of a strategy whose first five passages lack a supporting one, or whose guess is not exact."""

    def lost(row: Mapping[str, Any]) -> float:
        return float(sum(1 - row[metric] for metric in ("recall@5", "em") if row.get(metric) is not None))

    own = [row for row in rows if row["strategy"] == strategy and lost(row) > 0]
    return sorted(own, key=lost, reverse=True)


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
