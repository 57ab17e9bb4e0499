"""The chat endpoint in OpenAI's form: each index is a model, and each index with a strategy it was built for.

The last message of the user is the question. A reply's text is for people: chat clients render Markdown, so what comes
from a corpus is escaped in it; the extra field `polyhop` of the message has the same as it is.
"""

import re
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from fastapi import APIRouter, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from polyhop.api import Answer
from polyhop.output import json_text
from polyhop.schemas.errors import EmptyQuestionError
from polyhop.schemas.text import printable_line
from polyhop.server.access import RefusedError
from polyhop.server.problems import JsonRoute
from polyhop.server.service import Asked, Service
from polyhop.terminal import certainty, silence
from polyhop.warehouse.files.versions import strategies_of

SHOWN_TITLE = 200  # characters of a title among the sources; chosen: two lines, and the extra field has all
_MARKUP = re.compile(r"([\\`*_\[\]<>#~|$&])")  # what begins an image, a link, HTML, code, emphasis, a formula
Reply = dict[str, Any]
_MODEL: Reply = {"object": "model", "created": 0, "owned_by": "polyhop"}


class Message(BaseModel):
    """A message of the conversation; its content is a text, or parts of which those of type text count."""

    role: str
    content: str | list[dict[str, Any]] | None = None

    @property
    def text(self) -> str:
        """The text of all parts."""
        parts = [{"type": "text", "text": self.content}] if isinstance(self.content, str) else self.content or []
        texts = [part.get("text") for part in parts if part.get("type") == "text"]
        return "\n".join(text for text in texts if isinstance(text, str))


class ChatBody(BaseModel):
    """A request; what else clients send (temperature, tools, …) has no effect here and is ignored."""

    model: str
    messages: list[Message]
    stream: bool | None = False
    stream_options: dict[str, Any] | None = None


def make_router(service: Service) -> APIRouter:
    """The routes of the chat endpoint over a service."""
    router = APIRouter(route_class=JsonRoute, prefix="/v1", include_in_schema=False)

    @router.get("/models")
    async def models() -> Reply:
        names = await service.run(lambda: _model_names(service))
        return {"object": "list", "data": [{"id": name, **_MODEL} for name in names]}

    @router.get("/models/{name}")
    async def model(name: str) -> Reply:
        await service.run(lambda: _require_model(service, name))
        return {"id": name, **_MODEL}

    @router.post("/chat/completions")
    async def complete(body: ChatBody) -> Response:
        index, strategy = await service.run(lambda: _require_model(service, body.model))
        questions = [message.text.strip() for message in body.messages if message.role == "user"]
        if not questions or not questions[-1]:
            raise EmptyQuestionError("The last message of the user is empty; it is the question.")
        answer = await service.ask(Asked(index, questions[-1], strategy=strategy))
        head = {"id": f"chatcmpl-{uuid4().hex}", "created": int(time.time()), "model": body.model}
        used = answer.reading.get("usage") or {}  # tokens of the model that read, if one did
        usage = {name: int(used.get(name) or 0) for name in ("prompt_tokens", "completion_tokens")}
        usage["total_tokens"] = sum(usage.values())
        if body.stream:
            counted = usage if (body.stream_options or {}).get("include_usage") else None
            return StreamingResponse(_stream(head, index, answer, counted), media_type="text/event-stream")
        message = {"role": "assistant", "content": message_text(answer), "polyhop": _extra(index, answer)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        reply = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
        return Response(json_text(reply).encode("utf-8", "replace"), media_type="application/json")

    return router


def _model_names(service: Service) -> list[str]:
    indexes = service.index_names()
    return [name for one in indexes for name in (one, *(f"{one}:{way}" for way in strategies_of(service.layout, one)))]


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
    sources = []
    for row in answer.passages:
        title = " ".join(str(row["title"]).split())
        short = title if len(title) <= SHOWN_TITLE else f"{title[:SHOWN_TITLE].rstrip()}…"
        sources.append(f"[{row['rank']}] {_text(short)} — {_text(row['id'])}  ")  # the spaces end the line in Markdown
    return "\n\n".join([*paragraphs, "\n".join(["Sources:", "", *sources])] if sources else paragraphs)


def _text(text: str) -> str:
    """A text on one line, as Markdown that shows it."""
    return _MARKUP.sub(r"\\\1", printable_line(" ".join(text.split())))


def _extra(index: str, answer: Answer) -> Reply:
    own = {name: getattr(answer, name) for name in ("version", "strategy", "answer", "sentences")}
    passages = [{name: row[name] for name in ("id", "title", "score", "rank", "text")} for row in answer.passages]
    return {"index": index, **own, "confidence": answer.reading.get("confidence"), "passages": passages}


def _stream(head: Reply, index: str, answer: Answer, usage: Reply | None) -> Iterator[bytes]:
    """The reply as server-sent events, a line of the text each; the last delta has the extra field.

    The token counts, if they are asked for, come in a separate event without a choice.
    """

    def event(*choices: Reply, **more: Reply) -> bytes:
        chunk = {**head, "object": "chat.completion.chunk", "choices": choices, **more}
        return f"data: {json_text(chunk)}\n\n".encode("utf-8", "replace")

    def delta(finish_reason: str | None = None, **said: object) -> bytes:
        return event({"index": 0, "delta": said, "finish_reason": finish_reason})

    yield delta(role="assistant", content="")
    for line in message_text(answer).splitlines(keepends=True):
        yield delta(content=line)
    yield delta("stop", polyhop=_extra(index, answer))
    if usage:
        yield event(usage=usage)
    yield b"data: [DONE]\n\n"
