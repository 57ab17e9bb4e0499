"""Parts of a question that strategies start from: its names, its components, the statements about it, and vectors.

Source: algorithms.md 0.7 (query.entities, hub.components, prop.filter), 1.5 step 1, 3.13, 4.8 (question components).
Decided here: a name that the question does not contain is dropped (the prompt asks for the question's own spelling);
the word of a rule's hint is the plain word before the name, else the one after it, if it is not a function word.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import BaseModel, Field

from polyhop.schemas.chat import ChatModel, ChatOutcome, ChatRequest, ChatTask, Prompt, ReplyText, WholeItems
from polyhop.schemas.errors import MalformedReplyError
from polyhop.schemas.graph import Mention
from polyhop.schemas.languages import STOP_WORDS
from polyhop.schemas.names import FUNCTION_WORDS
from polyhop.schemas.ports import NameFinding, Services
from polyhop.schemas.query import ModelUse, Question, QuestionName
from polyhop.schemas.settings import ENTITIES
from polyhop.schemas.text import norm_ws

_ENTITIES_TOKENS = 512  # of a reply; chosen: some thirty names with hints, far more than a question has
_SCHEMA_VERSION = 1  # of the reply's form: part of the cache's key, raised with every change; algorithms.md 0.3.
_WORD_AFTER = re.compile(r"\s*([^\W\d_]+)")


class NamedEntity(BaseModel):
    """A name as a model lists it."""

    name: str = Field(description="The name as the question spells it, in lower case.")
    search_hint: ReplyText = Field(
        "", description="The name with one or two words of the question that tell what is meant."
    )


class EntitiesReply(BaseModel):
    """Reply of a model to query.entities."""

    entities: WholeItems[NamedEntity] = Field(description="The names in the question.")


@dataclass(frozen=True, slots=True)
class Naming:
    """The names of one question; `use` is what the model took, None if rules found them unasked."""

    names: tuple[QuestionName, ...]
    use: ModelUse | None = None


def entities_task(prompt: Prompt) -> ChatTask[EntitiesReply]:
    """The task query.entities with its prompt."""
    return ChatTask("query.entities", prompt, EntitiesReply, _SCHEMA_VERSION, _ENTITIES_TOKENS)


class RuleNaming:
    """Names by the finder that found those of the passages (F-NER)."""

    def __init__(self, finder: NameFinding) -> None:
        self._finder = finder

    def name(self, questions: Sequence[Question]) -> list[Naming]:
        """One Naming per question, in order."""
        return [Naming(_distinct([_by_rule(q.text, m) for m in self._finder.find(q.text)])) for q in questions]


class ModelNaming:
    """Names by a model; where its reply has none that is in the question, by the fallback."""

    def __init__(self, chat: ChatModel, task: ChatTask[EntitiesReply], fallback: RuleNaming) -> None:
        self._chat = chat
        self._task = task
        self._fallback = fallback

    def name(self, questions: Sequence[Question]) -> list[Naming]:
        """One Naming per question, in order; what was paid for is cached."""
        requests = [ChatRequest(self._task, q.id or q.text, (("question", q.text),)) for q in questions]
        outcomes = self._chat.ask(requests)
        return [self._naming(question, outcome) for question, outcome in zip(questions, outcomes, strict=True)]

    def _naming(self, question: Question, outcome: ChatOutcome[EntitiesReply]) -> Naming:
        from polyhop.worker.reading.models import outage_of, use_of

        use = use_of(self._task, outcome)
        if outcome.reply is None:
            outage = outage_of(outcome)
            if outage is not None:
                raise outage
        else:
            named = [(norm_ws(entity.name), " ".join(entity.search_hint.split())) for entity in outcome.reply.entities]
            names = _distinct([QuestionName(key, hint or key) for key, hint in named])
            asked = norm_ws(question.text)
            known = tuple(name for name in names if name.key in asked)
            if known:
                return Naming(known, use)
            no_name = "No name in the reply is in the question."
            use = replace(use, error_class=MalformedReplyError.__name__, error=no_name)
        (found,) = self._fallback.name([question])
        return Naming(found.names, use)


QuestionNaming = RuleNaming | ModelNaming  # Finds the names in questions.


def _by_rule(question: str, mention: Mention) -> QuestionName:
    # The letters right before the name, whitespace between. A pattern would try every word of the text before it.
    end = mention.start
    while end and question[end - 1].isspace():
        end -= 1
    start = end
    while start and question[start - 1].isalnum() and not question[start - 1].isdecimal():
        start -= 1
    before = question[start:end]
    if _is_plain(before):
        return QuestionName(mention.key, f"{before} {mention.surface}")
    after = _WORD_AFTER.match(question, mention.end)
    if after is not None and _is_plain(after[1]):
        return QuestionName(mention.key, f"{mention.surface} {after[1]}")
    return QuestionName(mention.key, mention.surface)


def _is_plain(word: str) -> bool:
    return word.islower() and word not in FUNCTION_WORDS


def _distinct(names: Sequence[QuestionName]) -> tuple[QuestionName, ...]:
    """Names that are not empty, the first of each key."""
    first: dict[str, QuestionName] = {}
    for name in names:
        if name.key:
            first.setdefault(name.key, name)
    return tuple(first.values())


_WORD = re.compile(r"[^\W_][\w'’-]*")
COMPONENTS_TOKENS = 512  # of a reply; chosen: `MOST_COMPONENTS` phrases of some 25 tokens
MOST_COMPONENTS = 20  # So many are searched for; a reply of any length costs no more.


class ComponentsReply(BaseModel):
    """Reply of a model to hub.components."""

    components: WholeItems[str] = Field(description="Key terms and claims of the question, in its own words.")


def components_task(prompt: Prompt) -> ChatTask[ComponentsReply]:
    """The task hub.components with its prompt."""
    return ChatTask("hub.components", prompt, ComponentsReply, 1, COMPONENTS_TOKENS)


class RuleComponents:
    """Components by rules."""

    def __init__(self, finder: NameFinding) -> None:
        self._finder = finder

    def of(self, question: Question) -> tuple[tuple[str, ...], ModelUse | None]:
        """The names of a question, then the longest runs of its other words without function words, each once."""
        names = self._finder.find(question.text)
        rest = list(question.text)
        for name in names:
            rest[name.start : name.end] = "." * (name.end - name.start)
        # Runs of words with nothing but whitespace and no function word between them.
        runs: list[list[str]] = [[]]
        end = 0
        for word in _WORD.finditer("".join(rest)):
            if "".join(rest[end : word.start()]).strip():
                runs.append([])
            end = word.end()
            if word[0].lower() in STOP_WORDS:
                runs.append([])
            else:
                runs[-1].append(word[0])
        return distinct([*(name.surface for name in names), *map(" ".join, runs)]), None


class ModelComponents:
    """Components by a model; where its reply is unusable or names none, by the fallback."""

    def __init__(self, chat: ChatModel, task: ChatTask[ComponentsReply], fallback: RuleComponents) -> None:
        self._chat = chat
        self._task = task
        self._fallback = fallback

    def of(self, question: Question) -> tuple[tuple[str, ...], ModelUse | None]:
        """The components of a question, and what a model took to name them."""
        from polyhop.worker.reading.models import outage_of, use_of

        request = ChatRequest(self._task, question.id or question.text, (("question", question.text),))
        (outcome,) = self._chat.ask([request])
        use = use_of(self._task, outcome)
        if outcome.reply is not None and (found := distinct(outcome.reply.components)):
            return found, use
        if outcome.reply is None and (outage := outage_of(outcome)) is not None:
            raise outage
        return self._fallback.of(question)[0], use


def distinct(components: list[str]) -> tuple[str, ...]:
    """Components with a word, the first of each normalised form, MOST_COMPONENTS at most."""
    first: dict[str, str] = {}
    for component in components:
        key = norm_ws(component)
        if _WORD.search(key):  # not the gap of a prompt's form, which a weak model copies
            first.setdefault(key, " ".join(component.split()))
    return tuple(first.values())[:MOST_COMPONENTS]


FILTER_TOKENS = 4_000  # of the statements in a prompt; chosen: the 20 of PropRAG take some 800
FILTER_REPLY_TOKENS = 256  # of a reply; chosen: some sixty numbers


class RecognitionReply(BaseModel):
    """Reply of a model to prop.filter."""

    ids: WholeItems[int] = Field(description="Numbers of the statements that help to answer the question.")


def recognition_task(prompt: Prompt) -> ChatTask[RecognitionReply]:
    """The task prop.filter with its prompt."""
    return ChatTask("prop.filter", prompt, RecognitionReply, 1, FILTER_REPLY_TOKENS)


class RecognitionFilter:
    """HippoRAG 2's recognition memory: a model keeps the statements that help to answer a question."""

    def __init__(self, chat: ChatModel, task: ChatTask[RecognitionReply]) -> None:
        self._chat = chat
        self._task = task

    def kept(
        self, questions: Sequence[Question], statements: Sequence[Sequence[str]]
    ) -> list[tuple[list[int], ModelUse | None]]:
        """For each question the offsets of its statements that a model keeps, ascending; all without a usable reply.

        Statements beyond `FILTER_TOKENS` are not shown, and so not kept.
        """
        from polyhop.worker.reading.models import lines_within_tokens

        shown, requests = [], []
        for question, texts in zip(questions, statements, strict=True):
            lines = "\n".join(f"[{number}] {' '.join(text.split())}" for number, text in enumerate(texts, start=1))
            lines = lines_within_tokens(lines, FILTER_TOKENS)
            shown.append(len(lines.splitlines()))
            if lines:
                parts = (("question", question.text), ("statements", lines))
                requests.append(ChatRequest(self._task, question.id or question.text, parts))
        outcomes = iter(self._chat.ask(requests))
        return [
            self._of_reply(next(outcomes), count, len(texts)) if count else ([], None)
            for count, texts in zip(shown, statements, strict=True)
        ]

    def _of_reply(
        self, outcome: ChatOutcome[RecognitionReply], shown: int, count: int
    ) -> tuple[list[int], ModelUse | None]:
        from polyhop.worker.reading.models import outage_of, use_of

        use = use_of(self._task, outcome)
        if outcome.reply is None:
            outage = outage_of(outcome)
            if outage is not None:
                raise outage
            return [*range(count)], use
        kept = sorted({number - 1 for number in outcome.reply.ids if 1 <= number <= shown})
        if outcome.reply.ids and not kept:
            no_statement = "No number in the reply is of a statement."
            return [*range(count)], replace(use, error_class=MalformedReplyError.__name__, error=no_statement)
        return kept, use


def with_vectors(questions: Sequence[Question], services: Services) -> list[Question]:
    """The questions with their vectors, in order."""
    texts = [question.text for question in questions]
    vectors = services.encode(texts)
    among_entities = services.encode(texts, ENTITIES) if services.has_two_encoders else [None] * len(texts)
    found = zip(questions, vectors, among_entities, strict=True)
    return [replace(question, vector=vector, entity_vector=short) for question, vector, short in found]
