"""The reader of chains: a model answers from what the strategy wrote for it, chains and descriptions, no passages.

Calls nobody itself (a ChatModel is given). What it cannot read, the reader without a model reads from the passages,
and the Reading says so. Source: algorithms.md 1.5 step 7, 1.7; the QASA paper's setting for generation.
"""

from collections.abc import Sequence

from polyhop.schemas.chat import ChatModel, ChatOutcome, ChatRequest, ChatTask
from polyhop.schemas.ports import Reader
from polyhop.schemas.prompts import Prompt
from polyhop.schemas.query import Reading, ReadingItem
from polyhop.worker.model_outcomes import outage_of, use_of
from polyhop.worker.reading.context import estimate_tokens, lines_within_tokens
from polyhop.worker.reading.model import ANSWER_TOKENS, AnsweredReply, no_room, read_instead

_SCHEMA_VERSION = 1  # of the reply's form: part of the cache's key, raised with every change; algorithms.md 0.3.


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

    def __init__(self, chat: ChatModel, task: ChatTask[ChainsReply], fallback: Reader, *, budget_tokens: int) -> None:
        self._chat = chat
        self._task = task
        self._fallback = fallback
        self._budget_tokens = budget_tokens

    def read(self, items: Sequence[ReadingItem]) -> list[Reading]:
        """One Reading per item, in order; one with an `outage` is not an answer.

        Raises:
            ModelRejectedError: If the model's server accepts no such request (unknown model, wrong key).
            BudgetExceededError: If the next call would exceed the budget.
        """
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
