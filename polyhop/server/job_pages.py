"""Jobs: how far they are, what failed, their results page by page, and questions from a file."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from starlette.datastructures import FormData, UploadFile

from polyhop.jobs import QuestionPace, job_document, pace_words, require_result, result_document, unserved_sentence
from polyhop.pages.answer_page import answer_parts, stored_material
from polyhop.schemas.errors import ConfigurationError, PolyhopError
from polyhop.schemas.queue import JobRow, JobSpec, QuestionState, WorkerRow
from polyhop.server.api import MAX_PASSAGES, JobId, change_job, submit_bytes
from polyhop.server.pages import Pages, index_link, require_form
from polyhop.server.problems import status_of
from polyhop.server.service import Service
from polyhop.warehouse.open import open_questions

ROWS = 100  # questions of a page
FIELDS = ("index", "strategy", "name", "queue", "limit", "where")
STARTING = {"queue": "default", "limit": "10"}  # fields of the form that are filled at first


def make_router(pages: Pages) -> APIRouter:
    """The routes of these pages."""
    router, service = APIRouter(), pages.service
    paces: defaultdict[int, QuestionPace] = defaultdict(QuestionPace)

    async def listed(request: Request, template: str, status: int = 200, **more: Any) -> Response:
        jobs, workers = await service.run(lambda: _looked(service))
        rows = [job_document(job, workers) | _pace(job, paces) for job in jobs]
        return pages.page(request, template, status, jobs=rows, workers=workers, states=list(QuestionState), **more)

    @router.get("/jobs")
    async def jobs(request: Request) -> Response:
        form = {name: STARTING.get(name, "") for name in FIELDS}
        strategies = await service.run(service.servable_strategies)
        return await listed(request, "jobs.html.jinja", form=form, sentence="", strategies=strategies)

    @router.get("/jobs/live")
    async def live(request: Request) -> Response:
        """The part of the list that changes, for those with JavaScript."""
        return await listed(request, "jobs_live.html.jinja")

    @router.post("/jobs")
    async def submit(request: Request) -> Response:
        form = await request.form()
        require_form(service, form)
        given = {name: str(form.get(name, "")).strip() for name in FIELDS}
        try:
            made = await _submitted(service, form, given)
        except PolyhopError as error:
            strategies = await service.run(service.servable_strategies)
            shown = {"form": given, "sentence": str(error), "strategies": strategies}
            return await listed(request, "jobs.html.jinja", status_of(error), **shown)
        return RedirectResponse(f"/jobs/{made['job_id']}", 303)

    @router.get("/jobs/{job}")
    async def job(request: Request, job: JobId, state: str = "", words: str = "", after: int = 0) -> Response:
        return pages.page(
            request, "job.html.jinja", **await service.run(lambda: _page(service, job, state, words, after))
        )

    @router.post("/jobs/{job}/{change}")
    async def change(request: Request, job: JobId, change: str) -> Response:
        require_form(service, await request.form())
        if change not in {"cancel", "retry"}:
            raise ConfigurationError(f"Unknown change '{change}' of a job; use cancel or retry.")
        await service.run(lambda: change_job(service, job, "cancelled" if change == "cancel" else "requeued"))
        return RedirectResponse(f"/jobs/{job}", 303)

    @router.get("/jobs/{job}/questions/{question:path}")
    async def question(request: Request, job: JobId, question: str) -> Response:
        return pages.page(
            request, "job_answer.html.jinja", **await service.run(lambda: _answer(service, job, question))
        )

    _add_workers(router, service)
    return router


def _add_workers(router: APIRouter, service: Service) -> None:
    @router.post("/workers/{change}")
    async def worker(request: Request, change: str) -> Response:
        """Starts a worker for the queues of the open jobs, or stops the one that was started here."""
        require_form(service, await request.form())
        if change == "start":
            await service.run(lambda: service.page_worker.start(_open_queues(service)))
        elif change == "stop":
            await service.run(service.page_worker.stop)
        else:
            raise ConfigurationError(f"Unknown change '{change[:30]}' of a worker; use start or stop.")
        return RedirectResponse("/jobs", 303)


def _open_queues(service: Service) -> set[str]:
    """The queues of open jobs, and the default one."""
    with open_questions(service.settings) as queue:
        return {"default", *(job.queue for job in queue.jobs() if job.is_open)}


def _looked(service: Service) -> tuple[list[JobRow], list[WorkerRow]]:
    with open_questions(service.settings) as queue:
        queue.sweep()
        return queue.jobs(), queue.workers()


def _pace(job: JobRow, paces: defaultdict[int, QuestionPace]) -> dict[str, Any]:
    """Answer rate of an open job, averaged over page views; None if unknown."""
    if not job.is_open:
        paces.pop(job.job_id, None)
        return {"pace": None, "ended": job.question_count}
    ended = job.question_count - job.open_count
    look = paces[job.job_id].look(ended, job.open_count)
    rate = look["per_minute"]
    return {"pace": pace_words(rate, look["seconds_left"]) if rate is not None else None, "ended": ended}


async def _submitted(service: Service, form: FormData, given: Mapping[str, str]) -> dict[str, Any]:
    file = form.get("file")
    if not isinstance(file, UploadFile) or not file.filename:
        raise ConfigurationError("No file was chosen; choose one with questions.")
    kind = file.filename.rpartition(".")[2].lower()
    if kind not in {"jsonl", "json", "csv", "txt", "parquet"}:
        raise ConfigurationError(
            f"'{file.filename[:100]}' has an unknown format; use .jsonl, .json, .csv, .txt or .parquet."
        )
    limit = given["limit"] or "10"
    if not limit.isascii() or not limit.isdecimal() or len(limit) > 4 or not 1 <= int(limit) <= MAX_PASSAGES:
        raise ConfigurationError(f"The number of passages is '{limit[:30]}'; choose one from 1 to {MAX_PASSAGES:,}.")
    spec = JobSpec(
        index=given["index"],
        name=given["name"] or file.filename,
        queue=given["queue"] or "default",
        strategy=given["strategy"],
        limit=int(limit),
        where=given["where"] or None,
    )
    body = await file.read()
    return await service.run(lambda: submit_bytes(service, body, kind, spec))


def _page(service: Service, number: int, state: str, words: str, after: int) -> dict[str, Any]:
    """A job with a page of its questions, as they were submitted, after so many of them."""
    known = {one.value for one in QuestionState}
    if state not in {"", *known}:
        raise ConfigurationError(f"Unknown state '{state[:30]}'; states are {', '.join(sorted(known))}.")
    states = [QuestionState(state)] if state else list(QuestionState)
    with open_questions(service.settings) as queue:
        queue.sweep()
        job = queue.job(number)
        rows = queue.results_page(number, max(0, min(after, job.question_count)), states, words.strip(), ROWS + 1)
        workers = queue.workers()
    document = job_document(job, workers)
    shown = [{**result_document(row), "number": row.ordinal + 1} for row in rows[:ROWS]]
    filters = {"state": state, "words": words}
    next_link = f"?{urlencode({**filters, 'after': shown[-1]['number']})}" if len(rows) > ROWS else ""
    return {
        "job": document,
        "unserved": unserved_sentence(job, workers, service.settings),
        "is_open": job.is_open,
        "rows": shown,
        "states": list(QuestionState),
        "first_link": f"?{urlencode(filters)}" if after > 0 else "",
        "next_link": next_link,
        **filters,
    }


def _answer(service: Service, number: int, question_id: str) -> dict[str, Any]:
    """A stored answer with all it rests on."""
    with open_questions(service.settings) as queue:
        row = require_result(queue, number, question_id)
    stored: Any = dict(row.result)
    again = {"index": stored["index"], "question": row.question, "strategy": stored["strategy"]}
    again |= {"version": row.version, "limit": stored.get("limit") or 10, "topic": row.topic or ""}
    again |= {"where": (stored.get("filter") or {}).get("where") or ""}
    again |= {"parameters": " ".join(f"{name}={value}" for name, value in (stored.get("parameters") or {}).items())}
    link = index_link(stored["index"], row.version)
    parts = answer_parts(stored, stored_material(stored, service.settings), link=link)
    return {**parts, "job": number, "question_id": question_id, "again": f"/ask?{urlencode(again)}"}
