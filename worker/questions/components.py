"""Components of a question: key terms and claims that are searched for beside the question itself.

By rules: its names, and the remaining runs of words that are not function words. Answers nothing and calls nobody
itself (a ChatModel is given). Source: algorithms.md 4.8 (question components), 0.7 (hub.components).
"""

import re
from typing import Protocol

from pydantic import BaseModel, Field

from polyhop.schemas.chat import ChatModel, ChatRequest, ChatTask
from polyhop.schemas.names import STOP_WORDS
from polyhop.schemas.ports import NameFinding
from polyhop.schemas.prompts import Prompt
from polyhop.schemas.query import ModelUse, Question
from polyhop.schemas.text import norm_ws
from polyhop.worker.model_outcomes import outage_of, use_of

_WORD = re.compile(r"[^\W_][\w'’-]*")
COMPONENTS_TOKENS = 512  # of a reply; chosen: `MOST_COMPONENTS` phrases of some 25 tokens
MOST_COMPONENTS = 20
"""So many are searched for; a reply of any length costs no more."""


class ComponentsReply(BaseModel):
    """What a model replies to hub.components."""

    components: list[str] = Field(description="Key terms and claims of the question, in its own words.")


def components_task(prompt: Prompt) -> ChatTask[ComponentsReply]:
    """The task hub.components with its prompt."""
    return ChatTask("hub.components", prompt, ComponentsReply, 1, COMPONENTS_TOKENS)


class QuestionComponents(Protocol):
    """Takes questions apart."""

    def of(self, question: Question) -> tuple[tuple[str, ...], ModelUse | None]:
        """The components of a question, and what a model took to name them, None if none was asked."""
        ...


class RuleComponents:
    """Components by rules."""

    def __init__(self, finder: NameFinding) -> None:
        self._finder = finder

    def of(self, question: Question) -> tuple[tuple[str, ...], ModelUse | None]:
        """See `QuestionComponents`."""
        return components_by_rules(question.text, self._finder), None


class ModelComponents:
    """Components by a model; where its reply is unusable, by the fallback."""

    def __init__(self, chat: ChatModel, task: ChatTask[ComponentsReply], fallback: QuestionComponents) -> None:
        self._chat = chat
        self._task = task
        self._fallback = fallback

    def of(self, question: Question) -> tuple[tuple[str, ...], ModelUse | None]:
        """See `QuestionComponents`; what was paid for is cached.

        Raises:
            ModelUnavailableError: If the model is unavailable.
            ModelRejectedError: If the model's server accepts no such request.
            BudgetExceededError: If the call would exceed the budget.
        """
        request = ChatRequest(self._task, question.id or question.text, (("question", question.text),))
        (outcome,) = self._chat.ask([request])
        use = use_of(self._task, outcome)
        if outcome.reply is not None:
            return distinct(outcome.reply.components), use
        outage = outage_of(outcome)
        if outage is not None:
            raise outage
        return self._fallback.of(question)[0], use


def components_by_rules(text: str, finder: NameFinding) -> tuple[str, ...]:
    """The names of a question, then the longest runs of its other words without function words, each once."""
    names = finder.find(text)
    surfaces = [name.surface for name in names]
    rest = list(text)
    for name in names:
        rest[name.start : name.end] = "." * (name.end - name.start)
    return distinct([*surfaces, *_runs("".join(rest))])


def distinct(components: list[str]) -> tuple[str, ...]:
    """Components that are not empty, the first of each normalised form, MOST_COMPONENTS at most."""
    first: dict[str, str] = {}
    for component in components:
        if key := norm_ws(component):
            first.setdefault(key, " ".join(component.split()))
    return tuple(first.values())[:MOST_COMPONENTS]


def _runs(text: str) -> list[str]:
    """Runs of words with nothing but whitespace and no function word between them."""
    runs: list[list[str]] = [[]]
    end = 0
    for word in _WORD.finditer(text):
        if text[end : word.start()].strip():
            runs.append([])
        end = word.end()
        if word[0].lower() in STOP_WORDS:
            runs.append([])
        else:
            runs[-1].append(word[0])
    return [" ".join(run) for run in runs if run]
