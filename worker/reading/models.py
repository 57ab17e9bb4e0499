"""The readers with a model: context within a budget, checked sources, chains, closed book.

What it cannot read for reasons of the reply, the reader without a model reads, and the Reading says so; what an
unavailable model leaves unread is not a Reading. Source: algorithms.md 0.7 (qa.answer), 1.5 step 7, 3.9.
"""

import logging
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate, takewhile
from math import exp
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
)
from pydantic_core import from_json

from polyhop.schemas.chat import ChatModel, ChatOutcome, ChatRequest, ChatTask, Prompt, ReplyText, Usage
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
from polyhop.schemas.languages import analyser_of
from polyhop.schemas.names import split_sentences
from polyhop.schemas.ports import Encode, IndexReader, Reader
from polyhop.schemas.query import Citation, ContextPassage, ModelUse, Question, ReaderResult, ReadingItem, Sentence
from polyhop.schemas.text import contains_words, either_contains, norm_answer, passage_text
from polyhop.warehouse.artefacts import LANGUAGE, NAMES
from polyhop.worker.reading.comparisons import choices_of
from polyhop.worker.reading.question import parse_question

# Source: algorithms.md 0.7 (last column).

_OUTAGES = frozenset(
    error.__name__ for error in (ModelUnavailableError, ModelRateLimitError, ModelTimeoutError, ModelUnreachableError)
)
_REPLY_FAILURES = frozenset({MalformedReplyError.__name__, ReplyRefusedError.__name__, ContextTooLongError.__name__})


def use_of(task: ChatTask[Any], outcome: ChatOutcome[Any]) -> ModelUse:
    """Model use of a request, with its error."""
    return ModelUse(
        model=outcome.model,
        prompt=task.prompt.name,
        prompt_hash=task.prompt.hash,
        is_cached=outcome.is_cached,
        usage=outcome.usage,
        repair=outcome.repair.value if outcome.repair else "",
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
    lines = text.splitlines()
    taken = accumulate(estimate_tokens(line + "\n") for line in lines)
    fitting = takewhile(lambda pair: pair[1] <= budget_tokens, zip(lines, taken, strict=True))
    return "\n".join(line for line, _ in fitting)


def _cut_to_tokens(text: str, budget_tokens: int, *, within_sentence: bool) -> str:
    """The whole sentences of a text that fit a budget; without one, all characters that fit it or none."""
    if estimate_tokens(text) <= budget_tokens:
        return text
    room = max(0, budget_tokens) * BYTES_PER_TOKEN
    reach = len(text.encode("utf-8", "replace")[:room].decode("utf-8", "ignore"))
    sentence_ends = [end for _, end in split_sentences(text) if end <= reach]
    return text[: sentence_ends[-1]] if sentence_ends else text[:reach] if within_sentence else ""


READ_PASSAGES = 5  # Passages that a model reads (algorithms.md 3.9).
READ_TOKENS = 6_000  # Tokens of the question, the notes and the passages, by `estimate_tokens`; chosen.
CHAIN_TOKENS = 14_000  # Tokens of the question and the chains: the QASA paper's for generation (algorithms.md 1.7).
_NOTES_SHARE = 0.5  # of READ_TOKENS; chosen: passages keep at least the other half
_NO_NOTES = "(none)"
ANSWER_TOKENS = 1_024  # of a reply; chosen: a short answer, its reasoning and quotes take a few hundred
_SCHEMA_VERSION = 1  # of the reply's form: part of the cache's key, raised with every change; algorithms.md 0.3.
_LOG = logging.getLogger(__name__)
COPIED = (None, "…", "...")
"""Values that say nothing: null, and the gaps in a prompt's form, which a weak model copies (Gemma 270M, measured)."""


def _number_or_none(value: Any, validate: ValidatorFunctionWrapHandler) -> int:
    """The number of a passage; 0, the number of none, for what is not a number."""
    try:
        number: int = validate(value)
    except ValidationError:
        return 0
    return number


class CitedSource(BaseModel):
    """A source as a model names it: the number of a passage, and a sentence of it word for word."""

    passage: Annotated[int, WrapValidator(_number_or_none)] = Field(0, description="Number of the passage.")
    quote: ReplyText = Field("", description="A sentence of that passage, copied word for word.")


class AnsweredReply(BaseModel):
    """The answer of a reply and how the model came to it; null, and a gap copied from the form, are nothing."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    reasoning: str = Field(description="Which facts lead to the answer, in one to three sentences.")
    answer: str = Field(description="The shortest name, date, number or phrase; empty if the passages do not hold it.")

    @field_validator("answer", "reasoning", mode="before")
    @classmethod
    def _text(cls, value: Any) -> Any:
        return "" if value in COPIED else value


class ReadReply(AnsweredReply):
    """Reply of a model to qa.answer; a null answer is none, a bare number in `citations` is a passage."""

    reasoning: str = Field(description="The answer in one to three full sentences, each fact with its passage number.")
    citations: list[CitedSource] = Field(default_factory=list, description="The facts used.")

    @field_validator("citations", mode="before")
    @classmethod
    def _sources(cls, value: Any) -> Any:
        if value is None:
            return []
        if not isinstance(value, list):
            return value
        return [each if isinstance(each, dict | CitedSource) else {"passage": each} for each in value]


class PromptInputs(NamedTuple):
    """Inputs of a prompt by name, besides the question, and the passages in them."""

    inputs: tuple[tuple[str, str], ...]
    passages: Sequence[ContextPassage] = ()


def _show_draft(show: Callable[[str], None], text: str) -> None:
    """Shows the sentences of a reply that is being written; of what is no JSON object (yet), nothing."""
    with suppress(ValueError):
        reply = from_json(text[text.index("{") :], allow_partial="trailing-strings")
        if isinstance(reply, dict) and isinstance(reply.get("reasoning"), str):
            show(reply["reasoning"])


class AskingReader:
    """Asks a model about each item, many at once; what it replies nothing usable to, the fallback reads.

    Args:
        chat: Asks the model; concurrent, cached, retried.
        prompt: Of the task.
        fallback: Reads the whole item where the model gave nothing; None: then there is no answer.
        budget_tokens: Of the question and all that is shown with it, by `estimate_tokens`; None: `most_tokens`.
    """

    batches = True
    task: ClassVar[str]
    form: ClassVar[type[AnsweredReply]]
    unit: ClassVar[str] = ""
    most_tokens: ClassVar[int] = READ_TOKENS

    def __init__(
        self, chat: ChatModel, prompt: Prompt, fallback: Reader | None = None, *, budget_tokens: int | None = None
    ) -> None:
        self._chat = chat
        self._task = ChatTask(self.task, prompt, self.form, _SCHEMA_VERSION, ANSWER_TOKENS)
        self.fallback = fallback
        self._budget_tokens = self.most_tokens if budget_tokens is None else budget_tokens

    def read(self, items: Sequence[ReadingItem]) -> list[ReaderResult]:
        """One result per item, in order; one with an `outage` is not an answer."""
        pairs = [(item, self._view(item)) for item in items]
        requests = []
        for question, shown in ((item.question, shown) for item, shown in pairs if shown is not None):
            inputs = (("question", question.text), *shown.inputs)
            on_text = partial(_show_draft, question.on_draft) if question.on_draft else None
            requests.append(ChatRequest(self._task, question.id or question.text, inputs, on_text))
        outcomes = iter(self._chat.ask(requests))
        return [
            self._unasked(item) if shown is None else self._reading(item, shown, next(outcomes))
            for item, shown in pairs
        ]

    def _view(self, item: ReadingItem) -> PromptInputs | None:
        """Inputs for an item; None if there are none, or they do not fit."""
        raise NotImplementedError

    def _is_offered(self, item: ReadingItem) -> bool:
        """Returns whether an item has something for the model to read."""
        return bool(item.context)

    def _made(self, item: ReadingItem, reply: Any, shown: PromptInputs, use: ModelUse) -> ReaderResult:
        """The reply as an answer; readers of passages check its sources."""
        del item, shown
        return ReaderResult(reply.answer.strip(), kind="generated", reasoning=reply.reasoning.strip(), use=use)

    def _unasked(self, item: ReadingItem) -> ReaderResult:
        if not self._is_offered(item):
            return self._read_instead(item, None)
        prompt, error = self._task.prompt, ContextTooLongError.__name__
        why = f"The question is too long to fit {self.unit} within {self._budget_tokens} tokens; ask a shorter one."
        use = ModelUse(self._chat.model, prompt.name, prompt.hash, usage=Usage(), error_class=error, error=why)
        return self._read_instead(item, use)

    def _reading(self, item: ReadingItem, shown: PromptInputs, outcome: ChatOutcome[Any]) -> ReaderResult:
        use = use_of(self._task, outcome)
        if outcome.reply is not None:
            return self._made(item, outcome.reply, shown, use)
        outage = outage_of(outcome)
        return self._read_instead(item, use) if outage is None else ReaderResult("", use=use, outage=outage)

    def _read_instead(self, item: ReadingItem, use: ModelUse | None) -> ReaderResult:
        """Reads by the fallback after an unusable reply, and adds the model use."""
        if self.fallback is None:
            return ReaderResult("", use=use)
        (reading,) = self.fallback.read([item])
        if use is not None:
            fields = {"model": use.model, "prompt": use.prompt, "error": use.error_class}
            _LOG.info("a model gave no usable reply; fell back to the reader without a model", extra={"fields": fields})
        return replace(reading, use=use)


# Checks of a model's answer: its quotes, what they have to do with the question, and its options.
# A quote holds if its passage has it word for word and it is about the question. Source: reader.md, Answers of a model.

NOT_VERIFIED = "[not verified]"  # In a model's sentences, instead of the numbers of sources that do not hold.
RELATED = 1.5
"""Standard deviations that a quote's cosine with the question is above those of unrelated sentences, at least.

Measured by benchmarks/quotes.py: 94 % of the sentences of MuSiQue-100 that hold the answer are above it (bge 100 %), of
sentences of other passages 16 % (30 %). Source: reader.md, Answers of a model."""
_ALIKE = 6.0  # Standard deviations that count as 1; those of a quarter of the sentences that hold the answer.
_QUOTED_WORDS = 2  # Content words of a quote at least; chosen: one word of a page says nothing beyond its title.
_VERDICTS = frozenset({"yes", "no", "both", "neither", "either"})
_UNRELATED = (
    "The kettle boiled while the children looked for their shoes.",
    "Snow fell all night and closed the road over the pass.",
    "The bakery sells rye bread on Fridays.",
    "A second coat of paint dries within four hours.",
    "Parliament met in the new building for the first time.",
    "The goalkeeper saved two penalties in the final.",
    "Bees store honey in cells of wax.",
    "The violinist tuned her instrument before the concert.",
    "Copper conducts electricity better than iron.",
    "Passengers must show their tickets at the gate.",
    "The surgeon closed the wound with six stitches.",
    "Wheat prices rose after the dry summer.",
    "The lighthouse stands on a rock south of the harbour.",
    "Her second novel sold a million copies.",
    "The committee approved the budget without debate.",
    "Volcanic ash covered the fields for weeks.",
    "The company moved its head office to the capital.",
    "A prime number has exactly two divisors.",
    "The king gave the town its charter.",
    "Foxes hunt at dusk and sleep during the day.",
    "The film was shot in black and white.",
    "Press the green button to start the pump.",
    "The river floods the meadows every spring.",
    "Students may borrow five books at a time.",
)
"""Sentences on many subjects: their cosines with a question are those of its encoder for what is unrelated."""


@dataclass(frozen=True, slots=True)
class HeldCitation:
    """A citation that holds, and how much its quote is about the question (above 0 to 1)."""

    citation: Citation
    relevance: float


class AnswerChecks:
    """Checks of a model's answers from passages of an index.

    Args:
        index: The open version: names in questions, the language, and whether it has vectors of passages.
        encode: Encodes quotes as its vectors were; None: words are counted instead.
    """

    def __init__(self, index: IndexReader, encode: Encode | None = None) -> None:
        self._encode = encode if "vectors:passage" in index.artefacts else None
        self._names = index.artefact(NAMES)
        self._content_words = analyser_of("stems", index.artefact(LANGUAGE))

    def other_option(self, question: str, answer: str) -> str:
        """Sentence on the options of a question of which the answer is none; "" if it is one, or there are none."""
        parsed = parse_question(question, self._names.find(question))
        options = choices_of(parsed)
        if (
            not options
            or norm_answer(answer) in _VERDICTS
            or any(either_contains(answer, option) for option in options)
        ):
            return ""
        listed = " and ".join(f"'{option}'" for option in options)
        return f"The question offers {listed}; the model's answer '{answer[:100]}' is none of them."

    def held(
        self, question: Question, answer: str, sources: Sequence[tuple[int, str]], seen: Sequence[ContextPassage]
    ) -> list[HeldCitation]:
        """The sources that hold, in order.

        Args:
            question: The question; it is encoded if it has no vector.
            answer: The short answer; a source without a quote is the first sentence of its passage with it.
            sources: Number of a passage (from 1) and quote ("": none) of each source.
            seen: The passages that the model was shown.
        """
        found = []
        for number, quote in sources:
            passage = seen[number - 1] if 1 <= number <= len(seen) else None
            if passage is None:
                continue
            sentence = _quoted(passage, quote) if quote.split() else _with_answer(passage, answer)
            if sentence is not None and len(self._content_words(sentence.text)) >= _QUOTED_WORDS:
                found.append((Citation(passage.passage_id, sentence, number=number), passage, sentence))
        texts = [passage_text(passage.title, sentence.text) for _, passage, sentence in found]
        relevances = self._relevances(question, texts) if texts else []
        return [
            HeldCitation(citation, relevance)
            for (citation, _, _), relevance in zip(found, relevances, strict=True)
            if relevance > 0
        ]

    def _relevances(self, question: Question, texts: Sequence[str]) -> list[float]:
        """Relevance of each text to the question, 0 to 1; 0 is unrelated.

        By vectors: cosine above those of unrelated sentences. Without: share of the question's content words.
        """
        if self._encode is None:
            asked = set(self._content_words(question.text))
            return [len(asked.intersection(self._content_words(text))) / max(1, len(asked)) for text in texts]
        vector = self._encode([question.text])[0] if question.vector is None else question.vector
        above = deviations(vector, self._encode(texts, is_repeated=True), self._unrelated)
        return [min(1.0, value / _ALIKE) if value >= RELATED else 0.0 for value in above]

    @cached_property
    def _unrelated(self) -> NDArray[np.float32]:
        return unrelated_vectors(self._encode) if self._encode is not None else np.zeros((0, 0), np.float32)


def unrelated_vectors(encode: Encode) -> NDArray[np.float32]:
    """Vectors of the sentences that are about no question in particular."""
    return encode(_UNRELATED, is_repeated=True)


def deviations(
    question: NDArray[np.float32], texts: NDArray[np.float32], unrelated: NDArray[np.float32]
) -> list[float]:
    """Standard deviations that the cosine of each text with a question is above those of unrelated sentences."""
    vector = question.astype(np.float64)
    background = unrelated.astype(np.float64) @ vector
    above = (texts.astype(np.float64) @ vector - background.mean()) / max(float(background.std()), 1e-9)
    return [float(value) for value in above]


class Support(NamedTuple):
    """The support of a model's answer, as features of its confidence."""

    relevance: float  # Of the most relevant quote that holds, above 0 to 1; 0 if none holds.
    agreement: float  # 1 if the local reader's guess agrees, -1 if it differs, 0 if there is none.


def support_of(answer: str, held: Sequence[HeldCitation], guess: str) -> Support:
    """The support of an answer, from its sources that hold and the guess of the local reader."""
    if not held or not answer:
        return Support(0.0, 0.0)
    agreement = 0.0 if not guess else 1.0 if either_contains(answer, guess) else -1.0
    return Support(max(one.relevance for one in held), agreement)


_BIAS, _WEIGHTS = -0.16, (0.84, 2.13)
"""Logistic regression on `Support`, fitted by benchmarks/model_confidence.py."""


def confidence_of(support: Support) -> float:
    """Estimated probability that a model's answer is right, below .95; 0 if no source holds."""
    if not support.relevance:
        return 0.0
    score = _BIAS + sum(weight * value for weight, value in zip(_WEIGHTS, support, strict=True))
    return round(1 / (1 + exp(-score)), 4)


_NUMBERS = r"\[\s*[0-9]{1,4}(?:\s*,\s*[0-9]{1,4})*\s*\]"


def with_held_numbers(text: str, numbers: Collection[int]) -> str:
    """A text with the numbers in brackets of sources that hold; where none of them holds, `NOT_VERIFIED`."""

    def bracket(match: re.Match[str]) -> str:
        found = [number for number in re.findall(r"[0-9]+", match[0]) if int(number) in numbers]
        return f"{match[1]}[{', '.join(found)}]" if found else ""

    def group(match: re.Match[str]) -> str:
        return re.sub(rf"(\s*){_NUMBERS}", bracket, match[0]) or f" {NOT_VERIFIED}"

    return re.sub(rf"(?:\s*{_NUMBERS})+", group, text)


def _quoted(passage: ContextPassage, quote: str) -> Sentence | None:
    """The quote in a passage, word for word except for whitespace; None if it is not there."""
    match = re.search(r"\s+".join(map(re.escape, quote.split())), passage.text)
    return None if match is None else Sentence(passage.passage_id, match.group(), match.start(), match.end())


def _with_answer(passage: ContextPassage, answer: str) -> Sentence | None:
    """The first sentence of a passage that has the answer; the first of all if its title has it."""
    spans = split_sentences(passage.text)
    holding = [span for span in spans if contains_words(passage.text[slice(*span)], answer)]
    if not holding and contains_words(passage.title, answer):
        holding = list(spans[:1])
    if not holding:
        return None
    start, end = holding[0]
    return Sentence(passage.passage_id, passage.text[start:end], start, end)


class ModelReader(AskingReader):
    """Reads answers from the first `passages` of a context, and from notes (half of the budget at most).

    Answers are checked: sources that do not hold are dropped, and the fallback reads questions between options of
    which the model's answer is none.
    """

    task, form, unit = "qa.answer", ReadReply, "a passage"

    def __init__(
        self,
        chat: ChatModel,
        prompt: Prompt,
        fallback: Reader,
        checks: AnswerChecks,
        *,
        passages: int = READ_PASSAGES,
        budget_tokens: int | None = None,
    ) -> None:
        super().__init__(chat, prompt, fallback, budget_tokens=budget_tokens)
        self._local, self._checks = fallback, checks
        self._passages = passages

    def _view(self, item: ReadingItem) -> PromptInputs | None:
        notes = lines_within_tokens(item.notes, int(self._budget_tokens * _NOTES_SHARE))
        left = self._budget_tokens - estimate_tokens(item.question.text) - estimate_tokens(notes)
        passages = within_tokens(item.context[: self._passages], left)
        inputs = (("passages", numbered(passages)), ("notes", notes or _NO_NOTES))
        return PromptInputs(inputs, passages) if passages else None

    def _made(self, item: ReadingItem, reply: Any, shown: PromptInputs, use: ModelUse) -> ReaderResult:
        """The reply with the sources that hold, and the confidence that follows from them."""
        answer, question = reply.answer.strip(), item.question
        if answer and (why := self._checks.other_option(question.text, answer)):
            return self._read_instead(item, replace(use, error_class=MalformedReplyError.__name__, error=why))
        sources = [(source.passage, source.quote) for source in reply.citations]
        held = self._checks.held(question, answer, sources, shown.passages)
        citations = tuple(dict.fromkeys(one.citation for one in held))
        guess = self._local.read([item])[0].guess if held and answer else ""
        return ReaderResult(
            answer=answer,
            sentences=tuple(one.sentence for one in citations if one.sentence is not None),
            kind="generated",
            reasoning=with_held_numbers(reply.reasoning.strip(), {one.number for one in citations}),
            citations=citations,
            dropped_citations=len(sources) - len(held),
            use=use,
            confidence=confidence_of(support_of(answer, held, guess)),
            is_verified=bool(held and answer),
        )


def numbered(passages: Sequence[ContextPassage]) -> str:
    """The passages with their numbers (from 1) and titles, as a prompt shows them."""
    return "\n\n".join(f"[{n}] {passage.title}\n{passage.text}" for n, passage in enumerate(passages, start=1))


# Source: algorithms.md 1.5 step 7, 1.7; the QASA paper's setting for generation.


class ChainsReply(AnsweredReply):
    """Reply of a model to qa.chains; a null answer is none."""


class ChainReader(AskingReader):
    """Reads answers from strategies' own words: the first lines of the context within the budget."""

    task, form, unit, most_tokens = "qa.chains", ChainsReply, "a chain", CHAIN_TOKENS

    def _view(self, item: ReadingItem) -> PromptInputs | None:
        lines = lines_within_tokens(item.notes, self._budget_tokens - estimate_tokens(item.question.text))
        return PromptInputs((("context", lines),)) if lines else None

    def _is_offered(self, item: ReadingItem) -> bool:
        return bool(item.notes)


# Source: algorithms.md 0.7 (qa.closed_book).


class ClosedBookReply(AnsweredReply):
    """Reply of a model to qa.closed_book; a null answer is none."""

    reasoning: str = Field(description="Which facts lead to the answer, in one sentence.")
    answer: str = Field(description="The shortest name, date, number or phrase.")


class ClosedBookReader(AskingReader):
    """Answers with a model that sees the question alone; without a usable reply there is no answer."""

    task, form = "qa.closed_book", ClosedBookReply

    def _view(self, item: ReadingItem) -> PromptInputs:
        return PromptInputs(())
