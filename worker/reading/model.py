"""The reader with a model: a short answer with its reasoning, and sources that are checked to be in the context.

Calls nobody itself (a ChatModel is given) and retries nothing. What it cannot read for reasons of the reply, the
reader without a model reads, and the Reading says so; what an unavailable model leaves unread is not a Reading.
Source: algorithms.md 0.7 (qa.answer), 1.5 step 7, 3.9.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from polyhop.schemas.chat import ChatModel, ChatOutcome, ChatRequest, ChatTask, Usage
from polyhop.schemas.errors import ContextTooLongError, ModelUnavailableError
from polyhop.schemas.ports import Reader
from polyhop.schemas.prompts import Prompt
from polyhop.schemas.query import Citation, ContextPassage, ModelUse, Question, Reading, ReadingItem, Sentence
from polyhop.worker.model_outcomes import outage_of, use_of
from polyhop.worker.reading.context import estimate_tokens, lines_within_tokens, within_tokens

READ_PASSAGES = 5
"""Passages that a model reads (algorithms.md 3.9)."""
READ_TOKENS = 6_000
"""Tokens of the question, the notes and the passages, by `estimate_tokens`."""
_NOTES_SHARE = 0.5  # of READ_TOKENS; chosen: passages keep at least the other half
_NO_NOTES = "(none)"
ANSWER_TOKENS = 1_024  # of a reply; chosen: a short answer, its reasoning and quotes take a few hundred
_SCHEMA_VERSION = 1  # of the reply's form: part of the cache's key, raised with every change; algorithms.md 0.3.
_LOG = logging.getLogger(__name__)


class CitedSource(BaseModel):
    """A source as a model names it: the number of a passage, and a sentence of it word for word."""

    passage: int = Field(description="Number of the passage.")
    quote: str = Field("", description="A sentence of that passage, copied word for word.")


class AnsweredReply(BaseModel):
    """The answer of a reply and how the model came to it; null is nothing."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    reasoning: str = Field(description="Which facts lead to the answer, in one to three sentences.")
    answer: str = Field(description="The shortest name, date, number or phrase; empty if the passages do not hold it.")

    @field_validator("answer", "reasoning", mode="before")
    @classmethod
    def _text(cls, value: Any) -> Any:
        return "" if value is None else value


class ReadReply(AnsweredReply):
    """What a model replies to qa.answer; a null answer is none, a bare number in `citations` is a passage."""

    citations: list[CitedSource] = Field(default_factory=list, description="The facts used.")

    @field_validator("citations", mode="before")
    @classmethod
    def _sources(cls, value: Any) -> Any:
        if value is None:
            return []
        if not isinstance(value, list):
            return value
        return [{"passage": each} if isinstance(each, int | str) else each for each in value]


def answer_task(prompt: Prompt) -> ChatTask[ReadReply]:
    """The task qa.answer with its prompt."""
    return ChatTask("qa.answer", prompt, ReadReply, _SCHEMA_VERSION, ANSWER_TOKENS)


class ModelReader:
    """Reads answers with a model, many questions at once.

    Args:
        chat: Asks the model; concurrent, cached, retried.
        task: From `answer_task`.
        fallback: Reads what the model replied nothing usable to, from the whole context.
        passages: The first so many passages of a context are read.
        budget_tokens: Of the question, the notes (half of it at most) and these passages.

    Attributes:
        fallback: As given.
    """

    batches = True

    def __init__(
        self,
        chat: ChatModel,
        task: ChatTask[ReadReply],
        fallback: Reader,
        *,
        passages: int = READ_PASSAGES,
        budget_tokens: int = READ_TOKENS,
    ) -> None:
        self._chat = chat
        self._task = task
        self.fallback = fallback
        self._passages = passages
        self._budget_tokens = budget_tokens

    def read(self, items: Sequence[ReadingItem]) -> list[Reading]:
        """One Reading per item, in order; one with an `outage` is not an answer.

        Raises:
            ModelRejectedError: If the model's server accepts no such request (unknown model, wrong key).
            BudgetExceededError: If the next call would exceed the budget.
        """
        notes = [lines_within_tokens(item.notes, int(self._budget_tokens * _NOTES_SHARE)) for item in items]
        seen = [self._seen(item, shown) for item, shown in zip(items, notes, strict=True)]
        asked = [place for place, passages in enumerate(seen) if passages]
        outcomes = self._chat.ask([self._request(items[place].question, seen[place], notes[place]) for place in asked])
        read = dict(zip(asked, outcomes, strict=True))
        return [
            self._reading(item, passages, read.get(place))
            for place, (item, passages) in enumerate(zip(items, seen, strict=True))
        ]

    def _seen(self, item: ReadingItem, notes: str) -> list[ContextPassage]:
        left = self._budget_tokens - estimate_tokens(item.question.text) - estimate_tokens(notes)
        return within_tokens(item.context[: self._passages], left)

    def _request(self, question: Question, passages: Sequence[ContextPassage], notes: str) -> ChatRequest[ReadReply]:
        inputs = (("question", question.text), ("passages", numbered(passages)), ("notes", notes or _NO_NOTES))
        return ChatRequest(self._task, question.id or question.text, inputs)

    def _reading(
        self, item: ReadingItem, seen: Sequence[ContextPassage], outcome: ChatOutcome[ReadReply] | None
    ) -> Reading:
        if outcome is None:
            use = no_room(self._chat, self._task, "a passage", self._budget_tokens) if item.context else None
            return read_instead(self.fallback, item, use)
        use = use_of(self._task, outcome)
        if outcome.reply is not None:
            return _checked(outcome.reply, seen, use)
        outage: ModelUnavailableError | None = outage_of(outcome)
        if outage is not None:
            return Reading("", use=use, outage=outage)
        return read_instead(self.fallback, item, use)


def read_instead(fallback: Reader, item: ReadingItem, use: ModelUse | None) -> Reading:
    """What the fallback reads where a model gave nothing, and what the model took."""
    (reading,) = fallback.read([item])
    if use is not None:
        fields = {"model": use.model, "prompt": use.prompt, "error": use.error_class}
        _LOG.info("a model gave no usable reply; read without it", extra={"fields": fields})
    return replace(reading, use=use)


def no_room(chat: ChatModel, task: ChatTask[Any], what: str, budget_tokens: int) -> ModelUse:
    """Nothing was asked: the question leaves no room for anything to read."""
    return ModelUse(
        chat.model,
        task.prompt.name,
        task.prompt.hash,
        usage=Usage(),
        error_class=ContextTooLongError.__name__,
        error=f"The question leaves no room for {what} within {budget_tokens} tokens.",
    )


def numbered(passages: Sequence[ContextPassage]) -> str:
    """The passages with their numbers (from 1) and titles, as a prompt shows them."""
    return "\n\n".join(f"[{n}] {passage.title}\n{passage.text}" for n, passage in enumerate(passages, start=1))


def _checked(reply: ReadReply, seen: Sequence[ContextPassage], use: ModelUse) -> Reading:
    """The reply without the sources that are not in the context."""
    found = [citation for source in reply.citations if (citation := _citation(source, seen)) is not None]
    citations = tuple(dict.fromkeys(found))
    return Reading(
        answer=reply.answer.strip(),
        sentences=tuple(citation.sentence for citation in citations if citation.sentence is not None),
        kind="generated",
        reasoning=reply.reasoning.strip(),
        citations=citations,
        dropped_citations=len(reply.citations) - len(found),
        use=use,
    )


def _citation(source: CitedSource, seen: Sequence[ContextPassage]) -> Citation | None:
    """The source as a passage of the context, or None if there is no such passage or it does not say so."""
    if not 1 <= source.passage <= len(seen):
        return None
    passage = seen[source.passage - 1]
    words = source.quote.split()
    if not words:
        return Citation(passage.passage_id)
    place = re.search(r"\s+".join(map(re.escape, words)), passage.text)
    if place is None:
        return None
    return Citation(passage.passage_id, Sentence(passage.passage_id, place.group(), place.start(), place.end()))
