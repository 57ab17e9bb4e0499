"""A chat model in place of a server: replies as it was told, or fails with an error of that class."""

from collections.abc import Sequence
from typing import Any

from polyhop.schemas.chat import ChatOutcome, ChatRequest, Repair, Usage


class OneReply:
    """Replies with `reply`, or what it says of a request, as the task's own schema; a string is an error's class."""

    model = "openai/scripted"

    def __init__(self, reply: Any, *, is_cached: bool = False) -> None:
        self._reply = reply
        self._is_cached = is_cached
        self.requests: list[ChatRequest[Any]] = []
        self.batches: list[int] = []

    def ask(self, requests: Sequence[ChatRequest[Any]]) -> list[ChatOutcome[Any]]:
        self.requests += requests
        self.batches.append(len(requests))
        return [self._outcome(request) for request in requests]

    def _outcome(self, request: ChatRequest[Any]) -> ChatOutcome[Any]:
        said = self._reply(request) if callable(self._reply) else self._reply
        if isinstance(said, str):
            return ChatOutcome(None, self.model, False, None, 2, said, "no reply", Usage(2, 60, 4, 0.25))
        reply = request.task.reply.model_validate(said)
        return ChatOutcome(reply, self.model, self._is_cached, Repair.AS_IS, 1, "", "", Usage(1, 30, 2, 0.5))
