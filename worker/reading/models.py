"""The readers with a model: context within a budget, checked sources, chains, closed book.

What it cannot read for reasons of the reply, the reader without a model reads, and the Reading says so; what an
unavailable model leaves unread is not a Reading. Source: algorithms.md 0.7 (qa.answer), 1.5 step 7, 3.9.
"""

import logging
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from polyhop.schemas.chat import ChatModel, ChatOutcome, ChatRequest, ChatTask, Prompt, Usage
from polyhop.schemas.errors import (
    ContextTooLongError,
    MalformedReplyError,
    ModelRateLimitError,
    ModelRejectedError,
    ModelTimeoutError,
    ModelUnavailableError,
    ModelUnreachableError,
    ReplyRefusedError,
)
from polyhop.schemas.names import split_sentences
from polyhop.schemas.ports import Reader
from polyhop.schemas.query import (
    Citation,
    ContextPassage,
    ModelUse,
    Question,
    Reading,
    ReadingItem,
    Sentence,
)

# Source: algorithms.md 0.7 (last column).

_OUTAGES = frozenset(
    error.__name__ for error in (ModelUnavailableError, ModelRateLimitError, ModelTimeoutError, ModelUnreachableError)
)
_REPLY_FAILURES = frozenset({MalformedReplyError.__name__, ReplyRefusedError.__name__, ContextTooLongError.__name__})


def use_of(task: ChatTask[Any], outcome: ChatOutcome[Any]) -> ModelUse:
    """What a question to a model took, and what went wrong."""
    return ModelUse(
        model=outcome.model,
        prompt=task.prompt.name,
        prompt_hash=task.prompt.hash,
        is_cached=outcome.is_cached,
        usage=outcome.usage,
        rung=outcome.rung.value if outcome.rung else "",
        error_class=outcome.error_class,
        error=outcome.error,
    )


def outage_of(outcome: ChatOutcome[Any]) -> ModelUnavailableError | None:
    """The outage that left a request without a reply; None if the reply itself failed, so that a fallback may do."""
    if outcome.error_class in _REPLY_FAILURES:
        return None
    if outcome.error_class not in _OUTAGES:
        raise ModelRejectedError(outcome.error or outcome.error_class)
    if outcome.error_class == ModelRateLimitError.__name__:
        return ModelRateLimitError(outcome.error, outcome.retry_after_seconds)
    return ModelUnavailableError(outcome.error)


BYTES_PER_TOKEN = 3  # at least, in all tokenizers that we know
_HEADING_TOKENS = 8  # chosen: a passage's number and the line breaks around it take fewer


def _prefix(text: str, reach: int, *, within_sentence: bool) -> str:
    """The whole sentences that end within so many characters; without one, all of these characters or none."""
    sentence_ends = [end for _, end in split_sentences(text) if end <= reach]
    if sentence_ends:
        return text[: sentence_ends[-1]]
    return text[:reach] if within_sentence else ""


def estimate_tokens(text: str) -> int:
    """Tokens of a text in any script, on the safe side: three bytes of UTF-8 each (English has four and more)."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def within_tokens(context: Sequence[ContextPassage], budget_tokens: int) -> list[ContextPassage]:
    """The first passages within a budget of tokens, headings included; the last one is cut after a whole sentence.

    It is left out if not even its first sentence fits; only the very first passage is cut within a sentence.
    """
    packed: list[ContextPassage] = []
    left = budget_tokens
    for passage in context:
        left -= estimate_tokens(passage.title) + _HEADING_TOKENS
        text = _cut_to_tokens(passage.text, left, within_sentence=not packed)
        if left < 0 or (passage.text and not text):
            break
        packed.append(replace(passage, text=text))
        if len(text) < len(passage.text):
            break
        left -= estimate_tokens(text)
    return packed


def lines_within_tokens(text: str, budget_tokens: int) -> str:
    """The first whole lines of a text within a budget of tokens."""
    kept: list[str] = []
    left = budget_tokens
    for line in text.splitlines():
        left -= estimate_tokens(line + "\n")
        if left < 0:
            break
        kept.append(line)
    return "\n".join(kept)


def _cut_to_tokens(text: str, budget_tokens: int, *, within_sentence: bool) -> str:
    if estimate_tokens(text) <= budget_tokens:
        return text
    room = max(0, budget_tokens) * BYTES_PER_TOKEN
    reach = len(text.encode("utf-8", "replace")[:room].decode("utf-8", "ignore"))
    return _prefix(text, reach, within_sentence=within_sentence)


READ_PASSAGES = 5
"""Passages that a model reads (algorithms.md 3.9)."""
READ_TOKENS = 6_000
"""Tokens of the question, the notes and the passages, by `estimate_tokens`; chosen."""
CHAIN_TOKENS = 14_000
"""Tokens of the question and the chains: the QASA paper's for generation (algorithms.md 1.7)."""
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

    reasoning: str = Field(description="The answer in one to three full sentences, each fact with its passage number.")
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
        """One Reading per item, in order; one with an `outage` is not an answer."""
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
    numbers = {citation.number for citation in citations}
    return Reading(
        answer=reply.answer.strip(),
        sentences=tuple(citation.sentence for citation in citations if citation.sentence is not None),
        kind="generated",
        reasoning=_cited(reply.reasoning.strip(), numbers),
        citations=citations,
        dropped_citations=len(reply.citations) - len(found),
        use=use,
    )


def _cited(text: str, numbers: Collection[int]) -> str:
    """A text without the numbers in brackets that are not among those of checked sources."""

    def kept(match: re.Match[str]) -> str:
        found = [number for number in re.findall(r"[0-9]+", match[0]) if int(number) in numbers]
        return f"{match[1]}[{', '.join(found)}]" if found else ""

    return re.sub(r"(\s*)\[\s*[0-9]{1,4}(?:\s*,\s*[0-9]{1,4})*\s*\]", kept, text)


def _citation(source: CitedSource, seen: Sequence[ContextPassage]) -> Citation | None:
    """The source as a passage of the context, or None if there is no such passage or it does not say so."""
    if not 1 <= source.passage <= len(seen):
        return None
    passage = seen[source.passage - 1]
    words = source.quote.split()
    if not words:
        return Citation(passage.passage_id, number=source.passage)
    place = re.search(r"\s+".join(map(re.escape, words)), passage.text)
    if place is None:
        return None
    sentence = Sentence(passage.passage_id, place.group(), place.start(), place.end())
    return Citation(passage.passage_id, sentence, number=source.passage)


# Source: algorithms.md 1.5 step 7, 1.7; the QASA paper's setting for generation.


class ChainsReply(AnsweredReply):
    """What a model replies to qa.chains; a null answer is none."""


def chains_task(prompt: Prompt) -> ChatTask[ChainsReply]:
    """The task qa.chains with its prompt."""
    return ChatTask("qa.chains", prompt, ChainsReply, _SCHEMA_VERSION, ANSWER_TOKENS)


class ChainReader:
    """Reads answers from strategies' own words with a model, many questions at once.

    Args:
        chat: Asks the model; concurrent, cached, retried.
        task: From `chains_task`.
        fallback: Reads the passages where there are no chains, or the model replied nothing usable.
        budget_tokens: Of the question and the first lines of the context, by `estimate_tokens`.
    """

    batches = True

    def __init__(
        self, chat: ChatModel, task: ChatTask[ChainsReply], fallback: Reader, *, budget_tokens: int = CHAIN_TOKENS
    ) -> None:
        self._chat = chat
        self._task = task
        self._fallback = fallback
        self._budget_tokens = budget_tokens

    def read(self, items: Sequence[ReadingItem]) -> list[Reading]:
        """One Reading per item, in order; one with an `outage` is not an answer."""
        seen = [self._seen(item) for item in items]
        asked = [place for place, context in enumerate(seen) if context]
        outcomes = self._chat.ask([self._request(items[place], seen[place]) for place in asked])
        read = dict(zip(asked, outcomes, strict=True))
        return [self._reading(item, read.get(place)) for place, item in enumerate(items)]

    def _seen(self, item: ReadingItem) -> str:
        return lines_within_tokens(item.notes, self._budget_tokens - estimate_tokens(item.question.text))

    def _request(self, item: ReadingItem, context: str) -> ChatRequest[ChainsReply]:
        question = item.question
        inputs = (("question", question.text), ("context", context))
        return ChatRequest(self._task, question.id or question.text, inputs)

    def _reading(self, item: ReadingItem, outcome: ChatOutcome[ChainsReply] | None) -> Reading:
        if outcome is None:
            use = no_room(self._chat, self._task, "a chain", self._budget_tokens) if item.notes else None
            return read_instead(self._fallback, item, use)
        use = use_of(self._task, outcome)
        if outcome.reply is not None:
            reply = outcome.reply
            return Reading(reply.answer.strip(), kind="generated", reasoning=reply.reasoning.strip(), use=use)
        outage = outage_of(outcome)
        if outage is None:
            return read_instead(self._fallback, item, use)
        return Reading("", use=use, outage=outage)


# Source: algorithms.md 0.7 (qa.closed_book).


class ClosedBookReply(AnsweredReply):
    """What a model replies to qa.closed_book; a null answer is none."""

    reasoning: str = Field(description="Which facts lead to the answer, in one sentence.")
    answer: str = Field(description="The shortest name, date, number or phrase.")


def closed_book_task(prompt: Prompt) -> ChatTask[ClosedBookReply]:
    """The task qa.closed_book with its prompt."""
    return ChatTask("qa.closed_book", prompt, ClosedBookReply, _SCHEMA_VERSION, ANSWER_TOKENS)


class ClosedBookReader:
    """Answers with a model that sees the question alone; without a usable reply there is no answer.

    Args:
        chat: Asks the model; concurrent, cached, retried.
        task: From `closed_book_task`.
    """

    batches = True

    def __init__(self, chat: ChatModel, task: ChatTask[ClosedBookReply]) -> None:
        self._chat = chat
        self._task = task

    def read(self, items: Sequence[ReadingItem]) -> list[Reading]:
        """One Reading per item, in order, from its question alone; one with an `outage` is no answer."""
        questions = [item.question for item in items]
        requests = [ChatRequest(self._task, q.id or q.text, (("question", q.text),)) for q in questions]
        return [self._reading(outcome) for outcome in self._chat.ask(requests)]

    def _reading(self, outcome: ChatOutcome[Any]) -> Reading:
        use = use_of(self._task, outcome)
        if outcome.reply is None:
            return Reading("", use=use, outage=outage_of(outcome))
        reply = outcome.reply
        return Reading(reply.answer.strip(), kind="generated", reasoning=reply.reasoning.strip(), use=use)
