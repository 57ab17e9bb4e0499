"""The tree of everything Polyhop raises on purpose, text without secrets, and extensions of other packages.

Arguments become attributes; the message says what happened, where, and what to do. No message holds a secret: whatever
was said by whom, all messages go through `redact` here, before anything prints, logs or stores them. "Nothing found"
is a result, never an error.
"""

import base64
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any
from urllib.parse import unquote, urlsplit

from polyhop.schemas.text import printable

MASK = "***"

_SHORTEST_SECRET = 6
"""Characters; chosen: shorter values (like 'none') occur in ordinary words, and masking them would shred messages."""

_SECRET_NAME = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|AUTH_STRING)$", re.IGNORECASE)
_ADDRESS = re.compile(r"^[a-z][a-z0-9+.-]*://(?P<user>[^:/@]*):(?P<password>.*)@", re.IGNORECASE | re.DOTALL)
_KEY_NAME = r"(?:api|access|auth|secret|private)?[-_]?(?:key|token|secret|password|passwd|pwd|signature|sig)"
_FORMS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        # scheme://user:password@host; the last @ before the path ends the password.
        (r"\b([a-z][a-z0-9+.-]{0,30}://[^\s/?#:@'\"<>]*):[^\s/?#'\"<>]+@", rf"\1:{MASK}@"),
        # https://token@host; user names of databases are no secret.
        (r"\b(https?://)[^\s/?#:@'\"<>]+@", rf"\1{MASK}@"),
        (rf"([?&]{_KEY_NAME}=)[^\s&#'\"<>]+", rf"\1{MASK}"),
        # A header, or the same as JSON or as Python shows it: 'Authorization': 'Bearer …'
        (
            r"\b((?:proxy-)?authorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token|digest)\s+)?)[^\s\"',;{}]+",
            rf"\1{MASK}",
        ),
        (r"\b((?:bearer|basic)\s+)[\w.~+/-]{12,}=*", rf"\1{MASK}"),
        (r"\b((?:[\w-]*[-_ ])?api[-_ ]?key(?: provided)?[\"']?\s*[:=]\s*[\"']?)[^\s\"',;{}]+", rf"\1{MASK}"),
        (r"\b(password[\"']?\s*[:=]\s*)(?:'[^']*'|\"[^\"]*\"|[^\s\"',;&{}]+)", rf"\1{MASK}"),
        (r"\bsk-[\w-]{8,}", MASK),
    )
)

_remembered: set[str] = set()
"""Secrets that came from files or flags; those of the environment are read where they stand."""


def redact(text: str) -> str:
    """A message without secrets, by form and by value; for errors, logs and settings."""
    text = without_values(text)
    for pattern, replacement in _FORMS:
        text = pattern.sub(replacement, text)
    return text


def without_values(text: str) -> str:
    """A text without the secrets that this process was given; for what must be kept as it is otherwise (replies)."""
    if len(text) < _SHORTEST_SECRET:
        return text
    # The longest first: one that contains another is masked as a whole.
    for secret in sorted(_remembered | secrets_of(os.environ), key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def redacted_tree(value: Any) -> Any:
    """A document of lists, mappings and strings with every string redacted; keys stay."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {key: redacted_tree(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [redacted_tree(inner) for inner in value]
    return value


def has_secret(value: object) -> bool:
    """Returns whether a value of a setting holds a secret, so that it must not be a parameter or an argument."""
    return isinstance(value, str) and redact(value) != value


def remember_secrets(secrets: Iterable[str]) -> None:
    """Notes values that no output of this process may hold: a password as it is, or an address that holds one."""
    for secret in secrets:
        _remembered.update(_long_enough(_in_address(secret) if "://" in secret else [secret]))


def secrets_of(environment: Mapping[str, str]) -> set[str]:
    """Secrets among variables: by their name (OPENAI_API_KEY, NEO4J_PASSWORD…), or in an address that holds one."""
    found: set[str] = set()
    for name, value in environment.items():
        if "://" in value:
            found.update(_in_address(value))
        elif _SECRET_NAME.search(name):
            found.add(value)
            found.update(value.partition(":")[2:])  # PREFECT_API_AUTH_STRING is user:password
    return set(_long_enough(found))


def _in_address(address: str) -> Iterator[str]:
    """The password of an address as written and decoded, as a Basic header spells it, and keys in its query."""
    match = _ADDRESS.match(address)
    if match:
        user, password = unquote(match["user"]), unquote(match["password"])
        yield from (match["password"], password)
        yield base64.b64encode(f"{user}:{password}".encode()).decode()
    query = urlsplit(address).query
    yield from (unquote(value) for value in re.findall(rf"(?:^|&){_KEY_NAME}=([^&]+)", query, re.IGNORECASE))


def _long_enough(secrets: Iterable[str]) -> Collection[str]:
    return [secret for secret in secrets if len(secret) >= _SHORTEST_SECRET]


MAX_QUESTION_CHARACTERS = 10_000
"""A longer question is refused: thirty times the longest of MuSiQue and ORKG (294), ten times what the local encoder
reads of a text (256 tokens); enough for a pasted page, too little to keep a worker busy."""


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


class ModelEndpointError(ConfigurationError):
    """No server answers at a model's address since the run began."""


class ContractError(PolyhopError):
    """Stored data does not have the shape that this version of Polyhop expects."""


class UnknownIdError(ContractError):
    """An id that is in no table."""


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
            f"Prompt '{prompt}' lacks the inputs ({', '.join(self.missing) or 'none'}) "
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


class WaitingError(ModelError):
    """Requests are in batches of the provider, whose replies are not there yet; a later run goes on.

    Attributes:
        requests: How many.
    """

    exit_code = 75  # of a command that later ones go on with: EX_TEMPFAIL of sysexits.h, "try again later"

    def __init__(self, message: str, requests: int) -> None:
        self.requests = requests
        super().__init__(message)


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


def retry_after_seconds(outage: ModelUnavailableError) -> float:
    """Retry-After of a model in seconds, 0 if it did not say."""
    return getattr(outage, "retry_after_seconds", None) or 0.0


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
    """The run would delete a source or many records without permission."""


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
    """A question beyond the length that is accepted (schemas/records.py)."""

    def __init__(self, characters: int) -> None:
        self.characters = characters
        super().__init__(f"The question is {characters:,} characters long; the limit is {MAX_QUESTION_CHARACTERS:,}.")


class QuestionTimeoutError(QuestionError):
    """A question whose own work took longer than a worker allows."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(
            f"The question took longer than {seconds:g} s and was stopped; simplify the question, or retry it with "
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


class FilterError(ConfigurationError):
    """A filter cannot be used: it does not parse, names an unknown field, or compares what cannot be compared.

    Attributes:
        column: Character of the filter at which it is wrong, from 1.
    """

    def __init__(self, reason: str, column: int) -> None:
        self.column = column
        super().__init__(f"The filter is wrong at column {column}: {reason}{'' if reason.endswith('?') else '.'}")


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like `name`, or None if none is close."""
    matches = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


class QueueError(PolyhopError):
    """The question queue refuses what it was asked."""


class QueueFullError(QueueError):
    """A queue holds as many waiting questions as it may."""

    retryable = True

    def __init__(self, queue: str, waiting: int, added: int, max_depth: int) -> None:
        self.queue = queue
        self.waiting = waiting
        self.added = added
        self.max_depth = max_depth
        super().__init__(
            f"Queue '{queue}' holds {waiting} waiting questions; {added} more would exceed its limit of {max_depth}. "
            "Nothing was submitted; wait until workers have caught up, or raise the limit."
        )


class IdempotencyKeyError(QueueError):
    """An idempotency key was used before, for other questions."""

    def __init__(self, key: str, job_id: int) -> None:
        self.key = key
        self.job_id = job_id
        super().__init__(
            f"Key '{key}' already belongs to job {job_id}, which has other questions; nothing was submitted. "
            "Use another key, or submit exactly the same questions."
        )


class UnknownJobError(QueueError):
    """A job that does not exist in the queue."""

    def __init__(self, job_id: int) -> None:
        self.job_id = job_id
        super().__init__(
            f"There is no job {job_id} (list them with: polyhop jobs); jobs are deleted some time after they end."
        )


class RetryRefusedError(QueueError):
    """A question that is not asked again."""


class SubmissionError(QueueError):
    """A job that cannot be queued as it is."""


@cache
def extensions(group: str) -> Mapping[str, EntryPoint]:
    """The entry points of a group by name, in alphabetical order; installed packages are searched once per process."""
    return {point.name: point for point in sorted(entry_points(group=group), key=lambda point: point.name)}


def install_words(extra: str) -> str:
    """Instruction to install an extra: no package index has Polyhop, so pip needs the wheel (docs/install.md)."""
    wheel = f"else the wheel with [{extra}] (docs/install.md)"
    return f"install the extra '{extra}': uv sync --extra {extra} in a checkout, {wheel}"


def import_extra(needs: str, package: str, extra: str, instead: str = "", *, module: str = "") -> Any:
    """Imports a package of an extra; `needs` says who needs it, `instead` what else a user can do."""
    try:
        return import_module(module or package)
    except ImportError as error:
        raise ConfigurationError(
            f"{needs} the package {package}; {install_words(extra)}{f', or {instead}' if instead else ''}."
        ) from error


def load_extension(point: EntryPoint, noun: str) -> Any:
    """Imports what an entry point names."""
    try:
        return point.load()
    except Exception as error:  # another package's module may raise anything when it is imported
        raise unusable_extension(point, noun, f"does not load: {type(error).__name__}: {error}") from error


def unusable_extension(point: EntryPoint, noun: str, reason: str) -> ConfigurationError:
    """The error for an extension that cannot be used: what it is, its package, why, and what to do."""
    return ConfigurationError(f"The {described(point, noun)} {reason}. Update or uninstall that package.")


def described(point: EntryPoint, noun: str) -> str:
    """An extension in words: `format '.xml' of the package 'examples'`."""
    return f"{noun} '{point.name}' of the package '{point.dist.name if point.dist else point.module}'"
