"""A chat model in place of a server: replies the same to everything, or fails with an error of that class."""

from collections.abc import Sequence
from typing import Any

from polyhop.schemas.chat import ChatOutcome, ChatRequest, Rung, Usage


class OneReply:
    """Replies with `reply`, read as the task's own schema; a string is the class of an error."""

    model = "openai/scripted"

    def __init__(self, reply: Any, *, is_cached: bool = False) -> None:
        self._reply = reply
        self._is_cached = is_cached
        self.requests: list[ChatRequest[Any]] = []

    def ask(self, requests: Sequence[ChatRequest[Any]]) -> list[ChatOutcome[Any]]:
        self.requests += requests
        return [self._outcome(request) for request in requests]

    def _outcome(self, request: ChatRequest[Any]) -> ChatOutcome[Any]:
        if isinstance(self._reply, str):
            return ChatOutcome(None, self.model, False, None, 2, self._reply, "no reply", Usage(2, 60, 4))
        reply = request.task.reply.model_validate(self._reply)
        return ChatOutcome(reply, self.model, self._is_cached, Rung.AS_IS, 1, "", "", Usage(1, 30, 2, 0.5))
