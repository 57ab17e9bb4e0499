"""The login form, and Ask: a question answered by one strategy or two, with all its answer rests on."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response, StreamingResponse

from polyhop.api import Index
from polyhop.pages.answer_page import answer_parts, material_of
from polyhop.schemas.errors import MAX_QUESTION_CHARACTERS, ConfigurationError, PolyhopError, UnknownIdError
from polyhop.server.access import CURRENT, Tokens
from polyhop.server.api import MAX_PASSAGES
from polyhop.server.guard import COOKIE, LOGIN, csrf_token
from polyhop.server.pages import Pages, index_link, require_form
from polyhop.server.problems import status_of
from polyhop.server.service import Asked, Service, parameter_pairs
from polyhop.warehouse.files.versions import published_versions
from polyhop.warehouse.user_files import save_feedback

SESSION_SECONDS = 12 * 3600  # of the login form's cookie; chosen: a day's work
SHOWN_LIMIT = 10  # passages, by default
FIELDS = ("index", "question", "strategy", "other", "limit", "where", "topic", "parameters", "version", "context")
"""Fields of the form, and of the link that reproduces an answer; `context` are names of the question before."""

OnDraft = Callable[[str], None]
FEEDBACK = ("question", "answer", "right", "passage", "verdict")  # fields of the form below an answer


def make_router(pages: Pages, tokens: Tokens) -> APIRouter:
    """The routes of these pages; the login form asks for a token."""
    router = APIRouter()

    @router.get(LOGIN)
    async def login_form(request: Request) -> Response:
        return pages.page(request, "login.html.jinja", is_wrong=False)

    @router.post(LOGIN)
    async def login(request: Request, given: str = Form("", alias="token")) -> Response:
        session = tokens.login(given)
        if session is None:
            return pages.page(request, "login.html.jinja", 401, is_wrong=True)
        response = RedirectResponse("/", 303)
        response.set_cookie(COOKIE, session, SESSION_SECONDS, httponly=True, samesite="strict")
        return response

    _add_ask(router, pages)
    _add_feedback(router, pages.service)
    return router


def _add_ask(router: APIRouter, pages: Pages) -> None:
    service = pages.service

    async def shown(request: Request, on_draft: OnDraft | None = None) -> Response:
        names = service.index_names()
        form = {name: request.query_params.get(name, "").strip() for name in FIELDS}
        form["index"] = form["index"] or (names[0] if names else "")
        context: dict[str, Any] = {"form": form, "answers": [], "sentence": "", "link": ""}
        context["is_judged"] = "judged" in request.query_params
        status = 200
        if form["question"]:
            try:
                context["answers"] = [
                    await answered(service, form, strategy, f"answer{number}-", on_draft)
                    for number, strategy in enumerate(_strategies(form), start=1)
                ]
                version = context["answers"][0]["document"]["version"]
                kept = {name: value for name, value in form.items() if value} | {"version": version}
                context["link"] = f"/ask?{urlencode(kept)}"
                own = {"csrf": csrf_token() if service.allows_changes else "", "link": context["link"]}
                own |= {name: form[name] for name in ("index", "question", "strategy")}
                for one in context["answers"]:
                    one["after"] = own | {"context": one["context"]}
            except PolyhopError as error:
                context["sentence"], status = str(error), status_of(error)
        context["strategies"] = await service.run(service.servable_strategies)
        context["versions"] = published_versions(service.layout.index(form["index"])) if form["index"] in names else []
        context["writes_answers"] = bool(service.settings.models.read)
        return pages.page(request, "ask.html.jinja", status, **context)

    @router.get("/ask")
    async def ask(request: Request) -> Response:
        return await shown(request)

    @router.get("/ask/stream")
    async def stream(request: Request) -> Response:
        """JSON lines for polyhop.js: {"draft": text} while a model writes, then {"page": HTML} with the checked answer.

        Drafts are of the first answer that is being written; a second strategy begins a new one.
        """
        drafts, loop = asyncio.Queue[str | None](), asyncio.get_running_loop()

        def on_draft(text: str) -> None:
            with suppress(RuntimeError):  # the server has stopped
                loop.call_soon_threadsafe(drafts.put_nowait, text)

        made = asyncio.ensure_future(shown(request, on_draft))
        made.add_done_callback(lambda _: drafts.put_nowait(None))
        return StreamingResponse(_draft_lines(drafts, made), media_type="application/x-ndjson")


def _add_feedback(router: APIRouter, service: Service) -> None:
    @router.post("/indexes/{index}/feedback")
    async def judged(request: Request, index: str) -> Response:
        """Keeps what a person says of an answer; the browser returns to it."""
        form = await request.form()
        require_form(service, form)
        given = {
            name: str(form.get(name, "")).strip() for name in ("question", "answer", "right", "passage", "verdict")
        }
        if index not in service.index_names():
            raise UnknownIdError(f"There is no index '{index[:60]}'.")
        if not given["question"] or max(map(len, given.values())) > MAX_QUESTION_CHARACTERS:
            raise ConfigurationError(f"Feedback needs a question of at most {MAX_QUESTION_CHARACTERS:,} characters.")
        is_right = given["verdict"] == "right"
        right, wrong = (given["answer"], "") if is_right else (given["right"], given["answer"])
        labels = {"right": [right] * bool(right), "wrong": [wrong] * bool(wrong)}
        passages = {"supporting": [given["passage"]] * bool(given["passage"])}
        folder = service.layout.index(index)
        await service.run(lambda: save_feedback(folder, given["question"], **labels, **passages))
        back = str(form.get("back", ""))
        return RedirectResponse(f"{back}&judged=yes" if back.startswith("/ask?") else "/ask", 303)


async def _draft_lines(drafts: "asyncio.Queue[str | None]", made: "asyncio.Future[Response]") -> AsyncIterator[bytes]:
    while (text := await drafts.get()) is not None:
        yield json.dumps({"draft": text}).encode() + b"\n"
    yield json.dumps({"page": bytes((await made).body).decode()}).encode() + b"\n"


async def answered(
    service: Service, form: Mapping[str, str], strategy: str, prefix: str, on_draft: OnDraft | None = None
) -> dict[str, Any]:
    """Variables of the answer template for one strategy ("": that of the index)."""
    parameters = _parameters(form["parameters"])
    version, limit = _number(form, "version"), _number(form, "limit") or SHOWN_LIMIT
    if not 1 <= limit <= MAX_PASSAGES:
        raise ConfigurationError(f"The number of passages is {limit}; choose one from 1 to {MAX_PASSAGES:,}.")
    asked = Asked(
        form["index"],
        f"{form['question']} ({form['context']})" if form["context"] else form["question"],
        version,
        strategy or None,
        limit,
        parameter_pairs(parameters),
        form["topic"] or None,
        form["where"] or None,
        on_draft=on_draft,
    )
    answer = await service.ask(asked)

    def parts(opened: Index) -> dict[str, Any]:
        document = answer.to_json()
        material = material_of(opened.session.where(asked.where), document, parameters)
        # whether a name is known to the whole index is not for tokens with a filter
        names = [] if CURRENT.get().where else material.names
        context = ", ".join(dict.fromkeys([*names, *filter(None, [answer.answer])]))
        return {**answer_parts(document, material, prefix, index_link(asked.index, answer.version)), "context": context}

    return await service.use(asked.index, parts, answer.version)


def _strategies(form: Mapping[str, str]) -> list[str]:
    return [form["strategy"], form["other"]] if form["other"] else [form["strategy"]]


def _number(form: Mapping[str, str], name: str) -> int | None:
    if not form[name]:
        return None
    if not form[name].isascii() or not form[name].isdecimal() or len(form[name]) > len(str(2**53)):
        raise ConfigurationError(f"The {name} is a whole number, not '{form[name][:30]}'.")
    return int(form[name])


def _parameters(text: str) -> dict[str, str]:
    """The strategy's own settings, name=value separated by spaces."""
    parameters = {}
    for word in text.split():
        name, separator, value = word.partition("=")
        if not separator or not name:
            raise ConfigurationError(f"Parameters are written name=value, separated by spaces, not '{word[:60]}'.")
        parameters[name] = value
    return parameters
