"""The tree of everything Polyhop raises on purpose.

Arguments become attributes; the message says what happened, where, and what to do. No message holds a secret: whatever
was said by whom, all messages go through `redact` here, before anything prints, logs or stores them.
"Nothing found" is a result, never an error.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from polyhop.schemas.printable import printable
from polyhop.schemas.questions import MAX_QUESTION_CHARACTERS
from polyhop.schemas.redaction import redact


class PolyhopError(Exception):
    """Something Polyhop can explain in one sentence."""

    retryable: bool = False

    def __str__(self) -> str:
        """The sentence, fit for terminals and logs whatever names, file names and servers' texts it quotes."""
        return printable(super().__str__())

    def __init__(self, *arguments: object) -> None:
        super().__init__(*(redact(each) if isinstance(each, str) else each for each in arguments))

    def __reduce__(self) -> tuple[object, ...]:
        """Travels to another process with its message and attributes, whatever arguments its class takes."""
        return _travelled, (type(self), self.args, self.__dict__)


def _travelled(kind: type[PolyhopError], arguments: tuple[object, ...], attributes: dict[str, object]) -> PolyhopError:
    """An error raised in another process."""
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(attributes)
    return error


class ConfigurationError(PolyhopError):
    """A setting is unknown, malformed or contradicts another."""


class UnknownSettingError(ConfigurationError):
    """A setting that does not exist."""

    def __init__(self, key: str, known: Iterable[str], where: str) -> None:
        self.key = key
        self.nearest = nearest_name(key, known)
        hint = f"did you mean '{self.nearest}'?" if self.nearest else "docs/reference/settings.md lists all."
        super().__init__(f"Unknown setting '{key}' in {where}; {hint}")


class UnknownParameterError(ConfigurationError):
    """A parameter that a strategy does not take."""

    def __init__(self, key: str, known: Iterable[str], strategy: str) -> None:
        names = sorted(known)
        nearest = nearest_name(key, names)
        hint = f"did you mean '{nearest}'? It" if nearest else "it"
        super().__init__(f"Unknown parameter '{key}' of strategy '{strategy}'; {hint} takes {', '.join(names)}.")


class ModelKeyError(ConfigurationError):
    """The key of a model is missing, or its server refuses it."""


class ModelForbiddenError(ModelKeyError):
    """A model's server forbids a request (HTTP 403) before it accepted any: because of the key, or of this request.

    Attributes:
        rejection: What it is if the server accepts another request.
        outcome: The request's outcome in that case (a `ChatOutcome`), once its gateway has given up; else None.
    """

    def __init__(self, message: str, rejection: "ModelRejectedError") -> None:
        super().__init__(message)
        self.rejection = rejection
        self.outcome: Any = None


class ModelEndpointError(ConfigurationError):
    """No server answers at a model's address since the run began."""


class ContractError(PolyhopError):
    """Stored data does not have the shape that this version of Polyhop expects."""


class UnknownIdError(ContractError):
    """An id that no table knows."""


class ManifestMismatchError(ContractError):
    """A published file does not have the checksum that its manifest states."""


class InvariantError(ContractError):
    """A table breaks an invariant that publishing checks."""


class PromptInputError(ContractError):
    """A prompt's placeholders and the inputs given do not match."""

    def __init__(self, prompt: str, missing: Iterable[str], extra: Iterable[str]) -> None:
        self.prompt = prompt
        self.missing = sorted(missing)
        self.extra = sorted(extra)
        super().__init__(
            f"Prompt '{prompt}' lacks inputs ({', '.join(self.missing) or 'none'}) "
            f"or has no placeholder for some ({', '.join(self.extra) or 'none'})."
        )


class StoreError(PolyhopError):
    """A file, database or folder did not do what it was asked."""


class StoreUnavailableError(StoreError):
    """A store cannot be reached or opened just now."""

    retryable = True


class StoreConflictError(StoreError):
    """Another process holds the lease that this one needs."""

    retryable = True


class StatementRejectedError(StoreError):
    """A database refused a statement."""


class DamagedStoreError(StoreError):
    """A stored file is not what was written: a disk, a copy or another program changed it.

    Attributes:
        index: Name of the index that it belongs to.
        command: What fixes it.
    """

    def __init__(self, what: object, index: str, reason: str = "", command: str = "") -> None:
        self.index = index
        self.command = command or f"polyhop verify --index {index} --repair"
        super().__init__(f"{what} is damaged{f' ({reason})' if reason else ''}; fix it with: {self.command}")


class ModelError(PolyhopError):
    """A model did not answer as asked."""


class ModelUnavailableError(ModelError):
    """A model cannot be reached just now."""

    retryable = True


class ModelRateLimitError(ModelUnavailableError):
    """A model's server limits the rate of calls.

    Attributes:
        retry_after_seconds: How long it asked us to wait, None if it did not say.
    """

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message)


class ModelUnreachableError(ModelUnavailableError):
    """No connection to a model's server could be made: nothing was sent."""


class ModelTimeoutError(ModelUnavailableError):
    """A model's server did not reply in time, but may have worked."""


class MalformedReplyError(ModelError):
    """A model's reply is not what was asked for, even after repair."""

    retryable = True


class ContextTooLongError(ModelError):
    """A request is longer than the model's context."""


class ReplyRefusedError(ModelError):
    """A model declined to answer."""


class ModelRejectedError(ModelError):
    """A model's server does not accept the request: unknown model, wrong key, bad parameters."""


class BudgetExceededError(PolyhopError):
    """The next call would exceed `max_cost_usd` or `max_tokens`; everything so far is kept."""


class CoverageError(PolyhopError):
    """Fewer units were extracted than `min_coverage` asks for; nothing was published."""


class ModelFileError(ModelError):
    """A model's file is missing or is not the published one."""


class InvalidVectorError(ModelError):
    """An embedding that is zero, not finite or of the wrong dimension."""


class SourceError(PolyhopError):
    """A corpus or question file cannot be used."""


class LossRefusedError(SourceError):
    """A run would take a source, or many of its records, out of an index, and nobody said that it may."""


class QuarantineExceededError(SourceError):
    """More records were unusable than `max_quarantine_share` allows."""


class AlgorithmError(PolyhopError):
    """A ranking function was called outside its domain."""


class NoSeedError(AlgorithmError, ValueError):
    """A walk without a start: the caller must have applied its fallback."""


class GateFailedError(PolyhopError):
    """A metric of an evaluation is below what `--fail-below` asks for; the evaluation was stored all the same."""


class QuestionError(PolyhopError):
    """A question cannot be answered as asked."""


class EmptyQuestionError(QuestionError):
    """A question without a word in it."""


class QuestionTooLongError(QuestionError):
    """A question beyond the length that is accepted (schemas/questions.py)."""

    def __init__(self, characters: int) -> None:
        self.characters = characters
        super().__init__(f"The question is {characters:,} characters long; the limit is {MAX_QUESTION_CHARACTERS:,}.")


class QuestionTimeoutError(QuestionError):
    """A question whose own work took longer than a worker allows."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(
            f"The question took longer than {seconds:g} s and was given up; ask it in simpler words, or retry it with "
            "workers that have a larger worker.question_seconds."
        )


class UnknownStrategyError(QuestionError):
    """A strategy that is not registered."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        names = sorted(known)
        nearest = nearest_name(name, names)
        hint = f"did you mean '{nearest}'? Known" if nearest else "known"
        super().__init__(f"Unknown strategy '{name}'; {hint} strategies: {', '.join(names)}.")


class UnknownIndexError(QuestionError):
    """An index that was never published under this root."""

    def __init__(self, name: str, known: Iterable[str], root: str) -> None:
        self.name = name
        names = sorted(known)
        listing = f"known indexes: {', '.join(names)}" if names else "there is no index yet"
        super().__init__(
            f"Unknown index '{name}' under {root}; {listing}. Build it with: polyhop index SOURCE --index {name}"
        )


class MissingArtefactError(QuestionError):
    """A strategy needs something that this index was not built with."""

    def __init__(self, artefact: str, index: str, strategy: str = "STRATEGY", wanted_by: str = "") -> None:
        self.strategy = strategy
        self.artefact = artefact
        wanted = wanted_by or f"Strategy '{strategy}'"
        super().__init__(
            f"{wanted} needs '{artefact}', which index '{index}' was built without. "
            f"Build it (nothing is extracted again) with: polyhop index --index {index} --add-strategy {strategy}"
        )


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like `name`, or None if none is close."""
    matches = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return matches[0] if matches else None
