"""What stages would ask of a model: requests, those already answered, tokens. Asks nothing.

A stage's `plan` counts with what a `Planner` gives it; flows/plan.py sums the stages' steps and prices them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel

from polyhop.schemas.chat import ChatRequest, ChatTask, Role
from polyhop.schemas.encoder_settings import PASSAGES, Space


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One kind of question over a corpus, or a part of it.

    Attributes:
        task: What kind of question.
        role: Whose model answers it.
        units: Documents or passages that it is about.
        cached: Of these, how many have a reply.
        prompt_tokens: Estimated tokens of the prompts still to send.
        text_tokens: Of these, the tokens of texts; how long replies become depends on them.
    """

    task: ChatTask[Any]
    role: Role = Role.EXTRACT
    units: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    text_tokens: int = 0

    @property
    def name(self) -> str:
        """Of the step."""
        return self.task.name

    @property
    def calls(self) -> int:
        """Calls to make, if none has to be repeated."""
        return self.units - self.cached

    def __add__(self, other: "PlannedStep") -> "PlannedStep":
        return PlannedStep(
            self.task,
            self.role,
            self.units + other.units,
            self.cached + other.cached,
            self.prompt_tokens + other.prompt_tokens,
            self.text_tokens + other.text_tokens,
        )


@dataclass(frozen=True, slots=True)
class PlannedEmbedding:
    """Vectors of one kind over a corpus, by an encoder behind a server.

    Attributes:
        name: Of the stage.
        units: Distinct texts.
        cached: Of these, how many have a vector.
        calls: Calls to make, if none has to be repeated.
        prompt_tokens: Estimated tokens of the texts still to send.
        space: Whose encoder it is.
    """

    name: str
    units: int
    cached: int
    calls: int
    prompt_tokens: int
    space: Space = PASSAGES


class Planner(Protocol):
    """What a stage may ask while it plans."""

    def embedding(self, name: str, texts: Iterable[str], kind: str, space: Space = PASSAGES) -> PlannedEmbedding | None:
        """Vectors of texts of a kind, "" for questions; None if the encoder of the space asks no server."""
        ...

    def replies(self, requests: Sequence[ChatRequest[Any]], role: Role = Role.EXTRACT) -> list[BaseModel | None]:
        """The replies that the cache holds, None where it has none."""
        ...

    def count_tokens(self, text: str) -> int:
        """Estimated tokens of a text."""
        ...

    def output_per_input(self, task: ChatTask[Any]) -> float:
        """Tokens of a reply per token of the text that it is about: from this project's calls, else the task's own."""
        ...


def planned_step(
    task: ChatTask[Any],
    requests: Sequence[ChatRequest[Any]],
    planner: Planner,
    role: Role = Role.EXTRACT,
    replies: Sequence[BaseModel | None] | None = None,
) -> PlannedStep:
    """The step that asks these requests of one task.

    Args:
        task: Of all of them.
        requests: Whether answered or not.
        planner: Knows the cache and counts tokens.
        role: Whose model answers.
        replies: What the cache holds of them, if it was asked before.
    """
    known = planner.replies(requests, role) if replies is None else replies
    missing = [request for request, reply in zip(requests, known, strict=True) if reply is None]
    template = planner.count_tokens(task.prompt.text)
    prompts = [planner.count_tokens(request.text) for request in missing]
    return PlannedStep(
        task,
        role,
        units=len(requests),
        cached=len(requests) - len(missing),
        prompt_tokens=sum(prompts),
        text_tokens=sum(max(tokens - template, 0) for tokens in prompts),
    )
