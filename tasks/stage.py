"""What a stage is: what it reads and writes, functions that run anywhere, what it would ask of a model."""

import gc
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from pydantic import BaseModel

from polyhop.schemas.chat import ChatRequest, ChatTask, Role
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.languages import ENGLISH
from polyhop.schemas.records import SOURCE_KINDS, SourceKind
from polyhop.schemas.settings import PASSAGES, Space
from polyhop.schemas.tables import TABLE_OF, TABLES, Column, Table
from polyhop.warehouse.build import Build, chain_fingerprint


@contextmanager
def no_search_for_cycles() -> Iterator[None]:
    """Pauses the search for the block, unless somebody else has paused it.

    Of blocks that overlap in several threads the one that paused it ends the pause for all, which costs time only.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


FAULTS = Table(
    "faults",
    "Passages that a rule failed on, as a part file of a batch.",
    ("passage_id",),
    (
        Column("passage_id", pa.string(), "the passage"),
        Column("reason", pa.string(), "the error and where it was raised"),
    ),
)
_MOST_CHARACTERS = 300  # of an error's message; chosen: some quote the whole text that they failed on


def fault_reason(error: Exception) -> str:
    """An unexpected error of a rule on one line: its type, its message, file and line."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name} line {frames[-1].lineno})" if frames else ""
    message = " ".join(f"{type(error).__name__}: {error}".replace("\0", " ").split())[:_MOST_CHARACTERS]
    storable = message.encode("utf-8", "backslashreplace").decode("utf-8")
    return f"a rule failed on it, which is a defect in Polyhop: {storable}{where}"


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One kind of question over a corpus, or a part of it.

    Attributes:
        task: What kind of question.
        role: Whose model answers it.
        units: Documents or passages that it is about.
        cached: Of these, how many have a reply.
        prompt_tokens: Estimated tokens of the prompts still to send.
        text_tokens: Of these, the tokens of texts; how long replies become depends on them.
    """

    task: ChatTask[Any]
    role: Role = Role.EXTRACT
    units: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    text_tokens: int = 0

    @property
    def name(self) -> str:
        """Of the step."""
        return self.task.name

    @property
    def calls(self) -> int:
        """Calls to make, if none has to be repeated."""
        return self.units - self.cached

    def __add__(self, other: "PlannedStep") -> "PlannedStep":
        return PlannedStep(
            self.task,
            self.role,
            self.units + other.units,
            self.cached + other.cached,
            self.prompt_tokens + other.prompt_tokens,
            self.text_tokens + other.text_tokens,
        )


@dataclass(frozen=True, slots=True)
class PlannedEmbedding:
    """Vectors of one kind over a corpus, by an encoder behind a server.

    Attributes:
        name: Of the stage.
        units: Distinct texts.
        cached: Of these, how many have a vector.
        calls: Calls to make, if none has to be repeated.
        prompt_tokens: Estimated tokens of the texts still to send.
        space: Whose encoder it is.
    """

    name: str
    units: int
    cached: int
    calls: int
    prompt_tokens: int
    space: Space = PASSAGES


class Planner(Protocol):
    """What a stage may ask while it plans."""

    def embedding(self, name: str, texts: Iterable[str], kind: str, space: Space = PASSAGES) -> PlannedEmbedding | None:
        """Vectors of texts of a kind, "" for questions; None if the encoder of the space asks no server."""
        ...

    def replies(self, requests: Sequence[ChatRequest[Any]], role: Role = Role.EXTRACT) -> list[BaseModel | None]:
        """The replies that the cache holds, None where it has none."""
        ...

    def count_tokens(self, text: str) -> int:
        """Estimated tokens of a text."""
        ...

    def output_per_input(self, task: ChatTask[Any]) -> float:
        """Tokens of a reply per token of the text that it is about: from this project's calls, else the task's own."""
        ...


def planned_step(
    task: ChatTask[Any],
    requests: Sequence[ChatRequest[Any]],
    planner: Planner,
    role: Role = Role.EXTRACT,
    replies: Sequence[BaseModel | None] | None = None,
) -> PlannedStep:
    """The step that asks these requests of one task.

    Args:
        task: Of all of them.
        requests: Whether answered or not.
        planner: Knows the cache and counts tokens.
        role: Whose model answers.
        replies: What the cache holds of them, if it was asked before.
    """
    known = planner.replies(requests, role) if replies is None else replies
    missing = [request for request, reply in zip(requests, known, strict=True) if reply is None]
    template = planner.count_tokens(task.prompt.text)
    prompts = [planner.count_tokens(request.text) for request in missing]
    return PlannedStep(
        task,
        role,
        units=len(requests),
        cached=len(requests) - len(missing),
        prompt_tokens=sum(prompts),
        text_tokens=sum(max(tokens - template, 0) for tokens in prompts),
    )


Counts = dict[str, int]
_NAME = re.compile(r"[a-z][a-z0-9-]*")
"""No `_`: it ends the prefix of a stage's array files."""


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What a batch did.

    Attributes:
        units: In it.
        computed: How many of them no cache could answer.
        unread: Files that it did not read, by kind.
        unread_files: The first of them by name.
    """

    units: int
    computed: int
    unread: Mapping[str, int] = field(default_factory=dict)
    unread_files: tuple[str, ...] = ()


def no_batches(_: Build) -> list[int]:
    """For stages that are one step."""
    return []


def nothing_to_run(_: Build, batch: int) -> BatchResult:
    """The batch function of stages without batches."""
    raise ValueError(f"this stage has no batch {batch}")


def nothing_kept(_: Build) -> int:
    """For stages whose batches hold all units."""
    return 0


def stays_here(_: Build) -> bool:
    """For stages whose batches run in the process of the run."""
    return False


def plain_units(_: Build) -> str:
    """For stages whose units have no name of their own."""
    return "units"


def named(unit: str) -> Callable[[Build], str]:
    """For stages whose batches hold units of this name, whatever the settings."""
    return lambda _: unit


def no_settings(_: Build) -> Mapping[str, object]:
    """For stages that obey no setting."""
    return {}


def language_setting(build: Build) -> Mapping[str, object]:
    """For stages that take texts apart into words; English, the default, is none."""
    code = build.settings.corpus.language
    return {} if code == ENGLISH else {"language": code}


def no_files(_: Build) -> Mapping[str, str]:
    """For stages that read nothing but what other stages wrote."""
    return {}


@dataclass(frozen=True, slots=True)
class Stage:
    """One step from a source to a published version.

    Its place in the order follows from `reads` and `writes`. It is skipped if a published version holds its result: if
    what it reads, its settings, the files that it reads and its revision are the same.

    Attributes:
        name: Name, as seen in manifests, progress and on the dashboard.
        reads: Artefacts that other stages write; empty for the stage that reads the source.
        writes: Artefacts that it makes, as strategies name them in `needs`, or as other stages do in `reads`.
        finish: Puts the batches together into tables and arrays; returns counts that depend on the result only.
        revision: To be raised with every change of its code that changes its result.
        settings: Settings that have a say in the result, by name.
        files: sha256 of what else determines it, by name: prompts, files of people.
        batches: Numbers of the batches still to do; empty if `finish` does all the work.
        run: Does one batch; safe to repeat, safe beside other batches; returns what it did.
        kept: How many units need no batch, because the version before has what comes of them.
        is_portable: Whether `run` may run in another process: it can be pickled, asks no model (the run's own process
            keeps their budget), and writes nothing but part files and caches.
        is_one_core: Whether a batch keeps one core busy, because it holds the interpreter's lock; so more processes on
            the same machine do more batches at once.
        unit: What the batches hold, for people who watch: passages, texts.
        tables: Tables that it fills; those that no version has by itself (polyhop.schemas.tables) come with it.
        rows: (table, column, value) of the rows that it fills in tables shared with other stages.
        arrays: Prefix of the array files that it writes, "" if none.
        outcome: Hash of what came out, for stages whose fingerprint does not determine it because a model has a say, or
            (of the stage that reads the source) because it keeps more than others read; asked after `finish`.
        contents: For the stage that reads the source, which it does in every run: hashes of what came out, by artefact;
            its fingerprint is that of the artefact "source".
        faults: Part files (columns of polyhop.tasks.stage.FAULTS) of passages that a rule failed on, asked after the
            batches; they go to the quarantine, and the stage runs again without them.
        quarantine: For the stage that reads the source: moves such passages to the quarantine; returns its counts.
        reads_parts_of: Stages whose part files `finish` reads; they must run if this one does.
        plan: What it would ask of a model, step by step, of an ingested source; nothing is asked.
        invariants: What must hold when a version is published, by name: each a SELECT of the number of rows that break
            it and one example.
        sources: Kinds of sources that it is for.
    """

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    finish: Callable[[Build], Counts]
    revision: int = 1
    settings: Callable[[Build], Mapping[str, object]] = no_settings
    files: Callable[[Build], Mapping[str, str]] = no_files
    batches: Callable[[Build], list[int]] = no_batches
    run: Callable[[Build, int], BatchResult] = nothing_to_run
    kept: Callable[[Build], int] = nothing_kept
    is_portable: Callable[[Build], bool] = stays_here
    is_one_core: bool = False
    unit: Callable[[Build], str] = plain_units
    tables: tuple[Table, ...] = ()
    rows: tuple[tuple[str, str, str], ...] = ()
    arrays: str = ""
    outcome: Callable[[Build], str] | None = None
    contents: Callable[[Build], Mapping[str, str]] | None = None
    faults: Callable[[Build], list[str]] | None = None
    quarantine: Callable[[Build, list[str]], Counts] | None = None
    reads_parts_of: tuple[str, ...] = ()
    plan: Callable[[Build, Planner], Iterable[PlannedStep | PlannedEmbedding]] | None = None
    invariants: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[SourceKind, ...] = SOURCE_KINDS

    def __post_init__(self) -> None:
        """Checks the names, which become parts of file names."""
        for name in (self.name, *filter(None, [self.arrays])):
            if not _NAME.fullmatch(name):
                raise ConfigurationError(
                    f"The stage or the arrays '{name}' need another name: lower-case letters, digits and - only, a "
                    "letter first."
                )

    @property
    def table_names(self) -> tuple[str, ...]:
        """Tables that it fills, whole or in part."""
        return (*(table.name for table in self.tables), *(table for table, _, _ in self.rows))

    def fingerprint(self, build: Build) -> str:
        """sha256 of everything that determines the result.

        Args:
            build: The build, with the results of all that the stage reads.

        Raises:
            PolyhopError: If a file or a setting that it needs cannot be used.
        """
        inputs = {**build.hashes(self.reads), **self.files(build)}
        return chain_fingerprint(self.name, self.revision, inputs, dict(self.settings(build)))

    def recipe(self, build: Build) -> str:
        """sha256 of what determines the result besides what it reads of other stages.

        Raises:
            PolyhopError: If a file or a setting that it needs cannot be used.
        """
        return chain_fingerprint(self.name, self.revision, dict(self.files(build)), dict(self.settings(build)))

    def done(self, build: Build) -> Build:
        """The build once this stage is done, or its result taken over: the stages that read it can go on."""
        if self.contents is None:
            result = build.outcome(self.name)
            return build.with_results([(artefact, self.name, result) for artefact in self.writes])
        found = self.contents(build)
        read = build.with_fingerprint(self.name, found["source"])
        return read.with_results([(artefact, artefact, found[artefact]) for artefact in self.writes])


def tables_of(stages: Sequence[Stage]) -> list[Table]:
    """The tables of a version that these stages build: those of every version, then the stages' own."""
    return [*TABLES, *(table for stage in stages for table in stage.tables if table.name not in TABLE_OF)]
