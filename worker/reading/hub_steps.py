"""What is asked of a model about hubs: a partial answer per hub, a final one, and which triples support it.

Forms of replies, requests and what a prompt shows; asks nobody (hubs.py does). Source: algorithms.md 0.7, 4.10.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field, field_validator

from polyhop.schemas.chat import ChatRequest, ChatTask
from polyhop.schemas.prompts import Prompt
from polyhop.schemas.query import ContextPassage, Question, RankedTriple
from polyhop.worker.reading.context import BYTES_PER_TOKEN, estimate_tokens, lines_within_tokens, within_tokens
from polyhop.worker.reading.model import numbered

REPLY_TOKENS = 1_024
"""Longest reply of a step."""
_SCHEMA_VERSION = 1  # of the replies' forms: part of the cache's key, raised with every change; algorithms.md 0.3.
_PATHS_SHARE = 0.7  # of the budget; chosen: a hub is judged by its paths, and what is linked gets what these leave
_METADATA_SHARE = 0.5  # of what paths leave; chosen: fields are short, and passages get the rest
_NONE = "(none)"


class _Reply(BaseModel):
    """Null texts are empty, null lists have nothing in them."""

    @field_validator("answer", mode="before", check_fields=False)
    @classmethod
    def _text(cls, value: Any) -> Any:
        return "" if value is None else value

    @field_validator("used", "citations", "ids", mode="before", check_fields=False)
    @classmethod
    def _numbers(cls, value: Any) -> Any:
        return [] if value is None else value


class PartialReply(_Reply):
    """What a model replies to hub.partial."""

    sufficient: bool = Field(description="Whether anything in the evidence is relevant to the question.")
    answer: str = Field(description="What the evidence contributes to the answer.")
    used: list[int] = Field(default_factory=list, description="Numbers of the statements used.")


class FinalReply(_Reply):
    """What a model replies to hub.final."""

    sufficient: bool = Field(description="Whether the partial answers together answer the question.")
    answer: str = Field(description="The answer, as short as the question allows.")
    citations: list[int] = Field(default_factory=list, description="Numbers of the partial answers used.")


class FilterReply(_Reply):
    """What a model replies to hub.filter."""

    ids: list[int] = Field(description="Numbers of the statements that support the answer.")


@dataclass(frozen=True, slots=True)
class HubTasks:
    """The three tasks with their prompts."""

    partial: ChatTask[PartialReply]
    final: ChatTask[FinalReply]
    filter: ChatTask[FilterReply]


def hub_tasks(partial: Prompt, final: Prompt, supporting: Prompt) -> HubTasks:
    """The tasks hub.partial, hub.final and hub.filter with their prompts."""
    return HubTasks(
        ChatTask("hub.partial", partial, PartialReply, _SCHEMA_VERSION, REPLY_TOKENS),
        ChatTask("hub.final", final, FinalReply, _SCHEMA_VERSION, REPLY_TOKENS),
        ChatTask("hub.filter", supporting, FilterReply, _SCHEMA_VERSION, REPLY_TOKENS),
    )


@dataclass(frozen=True, slots=True)
class HubMetadata:
    """A field of what is linked to a hub: of its node, or of a passage.

    Attributes:
        name: Of the hub, or title of the passage.
        passage_id: "" if it is the node's.
        field: As filters name it, without `metadata.`.
        value: In plain text.
    """

    name: str
    passage_id: str
    field: str
    value: str

    def __str__(self) -> str:
        of = f"passage {self.name}" if self.passage_id else self.name
        return " ".join(f"{of}: {self.field} {self.value}".split())


@dataclass(frozen=True, slots=True)
class HubInput:
    """A hub as it is read.

    Attributes:
        row: Of the evidence's data: hub_id, name, score, path_to_topic, paths, passages.
        triples: Of each of its paths, as text; "" where the path's text says the same.
        passages: Linked to it, with their texts.
        metadata: Of its node and of these passages.
    """

    row: Mapping[str, Any]
    triples: Sequence[str]
    passages: Sequence[ContextPassage]
    metadata: Sequence[HubMetadata] = ()

    @property
    def path_lines(self) -> str:
        """The paths with their triples, numbered from 1."""
        return "\n".join(
            f"[{n}] {' '.join(path['text'].split())}" + (f" {triples}" if triples else "")
            for n, (path, triples) in enumerate(zip(self.row["paths"], self.triples, strict=True), start=1)
        )

    @property
    def metadata_lines(self) -> str:
        """The metadata, with the numbers after those of the paths."""
        return "\n".join(f"[{n}] {one}" for n, one in enumerate(self.metadata, start=len(self.row["paths"]) + 1))


def partial_request(
    task: ChatTask[PartialReply], question: Question, hub: HubInput, budget_tokens: int
) -> ChatRequest[PartialReply]:
    """The question for a hub's partial answer, its evidence within a budget: most of it for paths.

    Metadata have the numbers after those of the paths, so that a reply can name either. A name, or a way from the
    topic, that would take more than a tenth of the budget is cut.
    """
    name = _cut(hub.row["name"] or hub.row["hub_id"], budget_tokens // 10)
    way = _cut(hub.row["path_to_topic"], budget_tokens // 10)
    budget_tokens -= estimate_tokens(name) + estimate_tokens(way)
    is_linked = bool(hub.passages or hub.metadata)
    paths = lines_within_tokens(hub.path_lines, int(budget_tokens * _PATHS_SHARE) if is_linked else budget_tokens)
    budget_tokens -= estimate_tokens(paths)
    metadata = lines_within_tokens(
        hub.metadata_lines, int(budget_tokens * _METADATA_SHARE) if hub.passages else budget_tokens
    )
    passages = within_tokens(hub.passages, budget_tokens - estimate_tokens(metadata))
    inputs = (
        ("question", question.text),
        ("hub", name),
        ("topic_path", way or _NONE),
        ("paths", paths or _NONE),
        ("metadata", metadata or _NONE),
        ("passages", numbered(passages) or _NONE),
    )
    return ChatRequest(task, question.id or question.text, inputs)


def final_request(
    task: ChatTask[FinalReply], question: Question, partials: Sequence[str], budget_tokens: int
) -> ChatRequest[FinalReply]:
    """The question for the answer from partial ones, as many of the first as the budget holds."""
    shown = lines_within_tokens(merged(partials), budget_tokens)
    return ChatRequest(task, question.id or question.text, (("question", question.text), ("partials", shown or _NONE)))


def filter_request(
    task: ChatTask[FilterReply], question: Question, answer: str, triples: Sequence[RankedTriple], budget_tokens: int
) -> ChatRequest[FilterReply]:
    """The question for the triples that support an answer; what exceeds the budget is not shown, and so not kept."""
    lines = "\n".join(f"[{n}] {_stated(triple)}" for n, triple in enumerate(triples, start=1))
    statements = lines_within_tokens(lines, budget_tokens)
    inputs = (("question", question.text), ("answer", _cut(answer, REPLY_TOKENS)), ("statements", statements or _NONE))
    return ChatRequest(task, question.id or question.text, inputs)


def merged(partials: Sequence[str]) -> str:
    """Partial answers with their numbers, one a line."""
    return "\n".join(f"[{n}] {' '.join(text.split())}" for n, text in enumerate(partials, start=1))


def valid(numbers: Sequence[int], count: int) -> list[int]:
    """Numbers from 1 to `count`, each once, in the order given."""
    return [number for number in dict.fromkeys(numbers) if 1 <= number <= count]


def _cut(text: str, budget_tokens: int) -> str:
    """The text, or its beginning if it is longer than the budget."""
    if estimate_tokens(text) <= budget_tokens:
        return text
    kept = text.encode("utf-8", "replace")[: max(0, budget_tokens - 1) * BYTES_PER_TOKEN].decode("utf-8", "ignore")
    return f"{kept.rstrip()}…"


def _stated(triple: RankedTriple) -> str:
    return " ".join(f"({triple.subject}, {triple.predicate}, {triple.object})".split())
