"""Requests to a chat model and their results: prompts, questions, validated replies, costs.

A reply counts only if it is valid; a failure is never a result. Source: algorithms.md 0.3 (5), 0.7.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from math import floor, fsum, log10
from typing import Annotated, Any, Generic, Protocol, TypeVar

from pydantic import BaseModel, BeforeValidator, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from polyhop.schemas.errors import PromptInputError
from polyhop.schemas.languages import ENGLISH
from polyhop.schemas.text import content_hash

_PLACEHOLDER = re.compile(r"\{\{([a-z_]+)\}\}")
_MARK = re.compile(r"</?(?:data|example)\b[^>]*>", re.IGNORECASE)
_REPLY = "\nReply with one JSON object"
_IN_LANGUAGE = (
    "Write the answer in the language of the question, even where passages are in another one. The keys of the JSON "
    "object stay as they are."
)


@dataclass(frozen=True)
class Prompt:
    """A prompt file: its name, and its text with `{{placeholders}}`."""

    name: str
    text: str

    @cached_property
    def hash(self) -> str:
        """sha256 of the text, 64 hexadecimal digits: a changed prompt is another prompt."""
        return content_hash(self.text)

    @cached_property
    def placeholders(self) -> frozenset[str]:
        """Names that must be filled in."""
        return frozenset(_PLACEHOLDER.findall(self.text))

    def in_language_of_question(self, code: str) -> "Prompt":
        """The prompt with a rule on the language of the answer, for indexes of texts that are not English.

        Args:
            code: `corpus.language`; English prompts stay as they are, and so do the replies that were cached for them.
        """
        if code == ENGLISH:
            return self
        return Prompt(self.name, self.text.replace(_REPLY, f"\n{_IN_LANGUAGE}\n{_REPLY}", 1))

    def render(self, inputs: Mapping[str, str]) -> str:
        """The text with every placeholder filled.

        A value cannot close the `<data>` block that it is in, nor open an example: such marks in it lose their
        angle brackets. A lone surrogate, which no server could be sent, becomes "?".
        """
        if inputs.keys() != self.placeholders:
            raise PromptInputError(self.name, self.placeholders - inputs.keys(), inputs.keys() - self.placeholders)

        def value_of(placeholder: re.Match[str]) -> str:
            sent = inputs[placeholder[1]].encode("utf-8", "replace").decode("utf-8")
            return _MARK.sub(lambda mark: mark[0].replace("<", "(").replace(">", ")"), sent)

        return _PLACEHOLDER.sub(value_of, self.text)


ReplyT = TypeVar("ReplyT", bound=BaseModel)
ItemT = TypeVar("ItemT")


def _without_broken(items: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """The valid items of a list; a list of which none is valid raises the errors of all."""
    try:
        return validate(items)
    except ValidationError as error:
        broken = {one["loc"][0] for one in error.errors() if one["loc"]}
        if not isinstance(items, list) or len(broken) in {0, len(items)}:
            raise
        return validate([item for number, item in enumerate(items) if number not in broken])


WholeItems = Annotated[list[ItemT], WrapValidator(_without_broken)]
"""A list of a reply that loses the items that are not of the form, not the whole reply."""
ReplyText = Annotated[str, BeforeValidator(lambda value: value if isinstance(value, str) else "")]
"""A text of an item; null, and whatever is not a text, is empty."""
_CENT = 0.01  # in dollars; smaller amounts are shown by their significant digits


class Repair(StrEnum):
    """Repair that a reply needed before it was valid."""

    AS_IS = "as_is"
    UNWRAPPED = "unwrapped"
    REPAIRED = "repaired"
    REASKED = "reasked"
    CUT = "cut"  # the token limit cut it, twice; only its complete items are used


JOBS = "(jobs)"  # Instead of an index's name: requests of workers for the questions of jobs.


class Role(StrEnum):
    """Use of a model; each role may have its own model."""

    EXTRACT = "extract"
    RESOLVE = "resolve"
    READ = "read"


@dataclass(frozen=True, slots=True)
class ChatTask(Generic[ReplyT]):
    """A kind of structured question: its prompt and the form of its reply."""

    name: str  # "kg.extract", "prop.entities"…, as in algorithms.md 0.7.
    prompt: Prompt
    reply: type[ReplyT]  # The form of a valid reply; unknown fields are ignored, missing ones make it invalid.
    schema_version: int = 1  # Counts changes of `reply` that change what is asked of the model.
    # Part of the key of every reply, so it never changes; how long a reply may become is a setting
    # (models.max_reply_tokens), and this number only where there is none for the task.
    max_output_tokens: int = 4096
    # Tokens of a reply per token of the text it is about, as planned before a project has its own history; not
    # part of any key.
    output_per_input: float = 1.0
    # True if the reply consists of lists whose items can be used one by one; the complete items of such a reply are
    # used even if its limit cut it twice.
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class ChatRequest(Generic[ReplyT]):
    """One question to a model."""

    task: ChatTask[ReplyT]
    unit_id: str  # Document, passage or cluster that it is about; only for ledgers and messages, not for the key.
    inputs: tuple[tuple[str, str], ...]  # Value of every placeholder of the prompt; data, never instructions.
    # Gets the text of the reply so far while the server writes it; None: the reply comes as a whole.
    on_text: Callable[[str], None] | None = field(default=None, compare=False, repr=False)

    @property
    def text(self) -> str:
        """The prompt with its inputs."""
        return self.task.prompt.render(dict(self.inputs))

    def key(self, model: str) -> str:
        """sha256 of all that determines a reply at temperature 0, 64 hexadecimal digits.

        The longest reply that is asked for is not among it: a reply that ended on its own would not be another one.
        """
        task = self.task
        return content_hash(
            model,
            f"temperature=0 max_tokens={task.max_output_tokens}",
            task.name,
            task.prompt.hash,
            str(task.schema_version),
            self.text,
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """Cost of calls: calls, tokens, United States dollars (None where a price is unknown), seconds."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    seconds: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            sum_of_costs([self.cost_usd, other.cost_usd]),
            self.seconds + other.seconds,
        )


def sum_of_costs(costs: Iterable[float | None]) -> float | None:
    """A sum in United States dollars; None if one of its parts is unknown."""
    known = list(costs)
    return None if None in known else fsum(cost or 0.0 for cost in known)


def cost_words(cost_usd: float | None) -> str:
    """A cost for people: 0.0042 USD, or that it is unknown."""
    return "cost unknown" if cost_usd is None else f"{dollars(cost_usd)} USD"


def dollars(amount: float) -> str:
    """Cents, or two significant digits of less than a cent: 0.0042."""
    if amount >= _CENT or amount <= 0:
        return f"{amount:,.2f}"
    return f"{amount:.{1 - floor(log10(amount))}f}"


@dataclass(frozen=True, slots=True)
class ChatOutcome(Generic[ReplyT]):
    """Result of a request."""

    reply: ReplyT | None  # The valid reply, or None if the request failed for now.
    model: str
    is_cached: bool  # A valid reply was known before; `usage` is then what it took at that time.
    repair: Repair | None  # Repair that the reply needed, None without one.
    attempts: int  # Calls made for this request until now, in this run and earlier ones.
    error_class: str  # Name of the error that ended it, "" if none.
    error: str
    usage: Usage
    retry_after_seconds: float | None = None  # How long the model asked us to wait, None if it did not.


class ChatModel(Protocol):
    """Answers structured questions; never pays twice for one."""

    model: str

    def ask(self, requests: Sequence[ChatRequest[ReplyT]]) -> list[ChatOutcome[ReplyT]]:
        """One outcome per request, in order; what a cache knows costs nothing.

        Raises:
            BudgetExceededError: Before a call that would exceed the budget; whatever was answered is cached.
        """
        ...
