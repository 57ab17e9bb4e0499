"""The closed-book reader: a model answers a question from what it knows, without passages.

What it answers is what passages are to improve on, so it stands beside strategies in an evaluation and nowhere else.
Calls nobody itself (a ChatModel is given). Source: algorithms.md 0.7 (qa.closed_book).
"""

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from polyhop.schemas.chat import ChatModel, ChatOutcome, ChatRequest, ChatTask
from polyhop.schemas.prompts import Prompt
from polyhop.schemas.query import Reading, ReadingItem
from polyhop.worker.model_outcomes import outage_of, use_of
from polyhop.worker.reading.model import ANSWER_TOKENS, AnsweredReply

_SCHEMA_VERSION = 1  # of the reply's form: part of the cache's key, raised with every change; algorithms.md 0.3.


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
        """One Reading per item, in order, from its question alone; one with an `outage` is no answer.

        Raises:
            ModelRejectedError: If the model's server accepts no such request (unknown model, wrong key).
            BudgetExceededError: If the next call would exceed the budget.
        """
        questions = [item.question for item in items]
        requests = [ChatRequest(self._task, q.id or q.text, (("question", q.text),)) for q in questions]
        return [self._reading(outcome) for outcome in self._chat.ask(requests)]

    def _reading(self, outcome: ChatOutcome[Any]) -> Reading:
        use = use_of(self._task, outcome)
        if outcome.reply is None:
            return Reading("", use=use, outage=outage_of(outcome))
        reply = outcome.reply
        return Reading(reply.answer.strip(), kind="generated", reasoning=reply.reasoning.strip(), use=use)
