"""The chat endpoint in OpenAI's form: each index is a model, and each index with a strategy it was built for.

The last message of the user is the question. A reply's text is for people: chat clients render Markdown, so what comes
from a corpus is escaped in it; the extra field `polyhop` of the message has the same as it is.
"""

import re
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any
from uuid import uuid4

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel

from polyhop.api import Answer
from polyhop.commands.ask import certainty, silence
from polyhop.output import json_text
from polyhop.schemas.errors import EmptyQuestionError, PolyhopError, redact
from polyhop.schemas.text import printable_line
from polyhop.server.problems import status_of
from polyhop.server.service import Asked, RefusedError, Service
from polyhop.warehouse.files.versions import strategies_of

SHOWN_TITLE = 200  # characters of a title among the sources; chosen: two lines, and the extra field has all
PIECE = 400  # characters of one part of a stream; chosen: the answer and its sources are a few parts
_MARKUP = re.compile(r"([\\`*_\[\]<>#~|$&])")  # what begins an image, a link, HTML, code, emphasis, a formula
Reply = dict[str, Any]


class StreamOptions(BaseModel):
    """How a reply is streamed."""

    include_usage: bool = False


class Message(BaseModel):
    """A message of the conversation; its content is a text, or parts of which those of type text count."""

    role: str
    content: str | list[dict[str, Any]] | None = None

    @property
    def text(self) -> str:
        """The text of all parts."""
        parts = [{"type": "text", "text": self.content}] if isinstance(self.content, str) else self.content or []
        return "\n".join(str(part.get("text", "")) for part in parts if part.get("type") == "text")


class ChatBody(BaseModel):
    """A request; what else clients send (temperature, tools, …) has no effect here and is ignored."""

    model: str
    messages: list[Message]
    stream: bool | None = False
    stream_options: StreamOptions | None = None


class OpenAIRoute(APIRoute):
    """A route whose errors have OpenAI's form."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with errors as replies."""
        handle = super().get_route_handler()

        async def handle_all(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as error:
                fault = error.errors()[0]
                where = ".".join(map(str, fault["loc"][1:])) or "The request"
                return _error(400, f"{where}: {fault['msg']}.", "invalid_request")
            except PolyhopError as error:
                status = status_of(error)
                code = "model_not_found" if status == 404 else type(error).__name__
                return _error(400 if status == 422 else status, str(error), code)

        return handle_all


def _error(status: int, message: str, code: str) -> Response:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return JSONResponse({"error": {"message": redact(message), "type": kind, "param": None, "code": code}}, status)


def make_router(service: Service) -> APIRouter:
    """The routes of the chat endpoint over a service."""
    router = APIRouter(route_class=OpenAIRoute, prefix="/v1", include_in_schema=False)

    @router.get("/models")
    async def models() -> Reply:
        names = await service.run(lambda: _model_names(service))
        return {"object": "list", "data": [_model(name) for name in names]}

    @router.get("/models/{name}")
    async def model(name: str) -> Reply:
        await service.run(lambda: _require_model(service, name))
        return _model(name)

    @router.post("/chat/completions")
    async def complete(body: ChatBody) -> Response:
        index, strategy = await service.run(lambda: _require_model(service, body.model))
        questions = [message.text.strip() for message in body.messages if message.role == "user"]
        if not questions or not questions[-1]:
            raise EmptyQuestionError("The last message of the user is empty; it is the question.")
        answer = await service.ask(Asked(index, questions[-1], strategy=strategy))
        head = {"id": f"chatcmpl-{uuid4().hex}", "created": int(time.time()), "model": body.model}
        if body.stream:
            has_usage = body.stream_options is not None and body.stream_options.include_usage
            parts = _stream(head, index, answer, has_usage=has_usage)
            return StreamingResponse(parts, media_type="text/event-stream")
        message = {"role": "assistant", "content": message_text(answer), "polyhop": _extra(index, answer)}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        reply = {**head, "object": "chat.completion", "choices": [choice], "usage": _usage(answer)}
        return Response(json_text(reply).encode("utf-8", "replace"), media_type="application/json")

    return router


def _model(name: str) -> Reply:
    return {"id": name, "object": "model", "created": 0, "owned_by": "polyhop"}


def _model_names(service: Service) -> list[str]:
    names = []
    for index in service.index_names():
        names += [index, *(f"{index}:{strategy}" for strategy in strategies_of(service.layout, index))]
    return names


def _require_model(service: Service, name: str) -> tuple[str, str | None]:
    """The index and the strategy of a model."""
    if name not in (known := _model_names(service)):
        listed = ", ".join(known) or "none, since no index was published"
        raise RefusedError(404, f"Unknown model '{name}'; known are: {listed}.")
    index, _, strategy = name.partition(":")
    return index, strategy or None


def message_text(answer: Answer) -> str:
    """The answer as `polyhop ask` gives it, and the numbered sources, as Markdown in which a corpus's text is text."""
    number_of = {row["id"]: row["rank"] for row in answer.passages}
    paragraphs = [_text(f"{answer.answer or silence(answer)}{certainty(answer)}")]
    if answer.reading.get("model") and answer.reading.get("reasoning"):
        paragraphs.append(_text(answer.reading["reasoning"]))
    shown = answer.sentences[: 1 if answer.answer else None]
    for sentence in [] if answer.reading.get("citations") else shown:
        number = number_of.get(sentence["passage_id"])
        paragraphs.append(_text(sentence["text"]) + (f" [{number}]" if number else ""))
    sources = [_source(row) for row in answer.passages]
    return "\n\n".join([*paragraphs, "\n".join(["Sources:", "", *sources])] if sources else paragraphs)


def _source(row: dict[str, Any]) -> str:
    title = " ".join(str(row["title"]).split())
    shown = title if len(title) <= SHOWN_TITLE else f"{title[:SHOWN_TITLE].rstrip()}…"
    return f"[{row['rank']}] {_text(shown)} — {_text(row['id'])}  "  # the spaces end the line in Markdown


def _text(text: str) -> str:
    """A text on one line, as Markdown that shows it."""
    return _MARKUP.sub(r"\\\1", printable_line(" ".join(text.split())))


def _extra(index: str, answer: Answer) -> Reply:
    passages = [{name: row[name] for name in ("id", "title", "score", "rank", "text")} for row in answer.passages]
    return {
        "index": index,
        "version": answer.version,
        "strategy": answer.strategy,
        "answer": answer.answer,
        "confidence": answer.reading.get("confidence"),
        "sentences": answer.sentences,
        "passages": passages,
    }


def _usage(answer: Answer) -> dict[str, int]:
    """Tokens of the model that read; 0 where none did."""
    used = answer.reading.get("usage") or {}
    prompt, completion = int(used.get("prompt_tokens") or 0), int(used.get("completion_tokens") or 0)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _stream(head: Reply, index: str, answer: Answer, *, has_usage: bool) -> Iterator[bytes]:
    """The reply as server-sent events; the last delta has the extra field."""

    def event(choices: list[Reply], usage: dict[str, int] | None = None) -> bytes:
        chunk = {**head, "object": "chat.completion.chunk", "choices": choices, "usage": usage}
        return f"data: {json_text(chunk)}\n\n".encode("utf-8", "replace")

    def choice(delta: Reply, finish_reason: str | None = None) -> list[Reply]:
        return [{"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}]

    text = message_text(answer)
    yield event(choice({"role": "assistant", "content": ""}))
    for start in range(0, len(text), PIECE):
        yield event(choice({"content": text[start : start + PIECE]}))
    yield event(choice({"polyhop": _extra(index, answer)}, "stop"))
    if has_usage:
        yield event([], _usage(answer))
    yield b"data: [DONE]\n\n"
