"""Base class of stages: inputs and outputs, methods that run anywhere, planned model calls."""

import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from polyhop.schemas.errors import SourceError, WaitingError
from polyhop.schemas.languages import ENGLISH
from polyhop.schemas.records import SOURCE_KINDS, SourceKind
from polyhop.schemas.tables import TABLE_OF, TABLES, Column, Table
from polyhop.warehouse.build import Build, Transfer, chain_fingerprint

if TYPE_CHECKING:
    from polyhop.tasks.planning import PlannedEmbedding, PlannedStep, Planner


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


Counts = dict[str, int]


@dataclass(frozen=True, slots=True)
class BatchResult:
    """Result of a batch: its units, those that no cache answered; skipped files, the first by name.

    `waits` if what it asks of a model waits for replies; it did nothing then. `parts`: its files, where they wait in a
    store to be fetched.
    """

    units: int
    computed: int
    unread: Mapping[str, int] = field(default_factory=dict)
    unread_files: tuple[str, ...] = ()
    waits: bool = False
    parts: Transfer | None = None


def language_setting(build: Build) -> dict[str, object]:
    """The setting of stages that take texts apart into words; English, the default, is none."""
    code = build.settings.corpus.language
    return {} if code == ENGLISH else {"language": code}


class Stage:
    """One step from a source to a published version; a stage is a subclass of it, which overrides what it needs.

    Its rank in the order follows from `reads` and `writes`. It is skipped if a published version holds its result: if
    what it reads, its settings, the files that it reads and its revision are the same.
    """

    name: str  # As seen in manifests, progress and on the dashboard: lower-case letters, digits and -.
    reads: tuple[str, ...] = ()  # Artefacts that other stages write.
    # Artefacts that it makes, as strategies name them in `needs`, or as other stages do in `reads`.
    writes: tuple[str, ...] = ()
    revision: int = 1  # To be raised with every change of its code that changes its result.
    # Tables that it fills; those that no version has on its own (polyhop.schemas.tables) come with it.
    tables: tuple[Table, ...] = ()
    # Those of them that begin as in the version before, if that filled them in the same way: it changes or clears them.
    updated: tuple[Table, ...] = ()
    # (table, column, value) of the rows that it fills in tables shared with other stages.
    rows: tuple[tuple[str, str, str], ...] = ()
    arrays: str = ""  # Prefix of the array files that it writes, "" if none.
    unit: str = "units"  # What its batches hold, for people who watch: passages, texts.
    # Whether a batch keeps one core busy, because it holds the interpreter's lock; so more processes on the same
    # machine do more batches at once.
    is_one_core: bool = False
    reads_parts_of: tuple[str, ...] = ()  # Stages whose part files `finish` reads; they must run if this one does.
    # What must hold when a version is published, by name: each a SELECT of the number of rows that break it and one
    # example. `is_touched(id)` is false of ids that no row has which an update changed, `is_no_entity(id)` true of an
    # id that no entity has (sql/updates.sql).
    invariants: Mapping[str, str] = MappingProxyType({})
    sources: tuple[SourceKind, ...] = SOURCE_KINDS  # Kinds of sources that it is for.

    def settings(self, build: Build) -> Mapping[str, object]:
        """Settings that have a say in the result, by name."""
        return {}

    def files(self, build: Build) -> Mapping[str, str]:
        """sha256 of what else determines the result, by name: prompts, files of people."""
        return {}

    def batches(self, build: Build) -> list[int]:
        """Numbers of the batches still to do; none if `finish` does all the work."""
        return []

    def is_portable(self, build: Build) -> bool:
        """Returns whether `run` may run in another process.

        Then the stage can be pickled, asks no model (the run's own process keeps their budget), reads `reads_files`
        alone, and writes nothing but part files and caches.
        """
        return False

    def reads_files(self, build: Build) -> list[Path]:
        """Files below the index's folder that `run` reads, for hosts that do not have that folder."""
        return [build.staging.tables]

    def run(self, build: Build, batch: int) -> BatchResult:
        """Does one batch; safe to repeat and to run next to other batches."""
        raise ValueError(f"stage {self.name} has no batch {batch}")

    def kept(self, build: Build) -> int:
        """Number of units that need no batch, because the previous version has their results."""
        return 0

    def faults(self, build: Build) -> list[str]:
        """Part files (columns of FAULTS) of passages that a rule failed on, asked after the batches.

        They go to the quarantine, and the stage runs again without them.
        """
        return []

    def quarantine(self, build: Build, faults: list[str]) -> Counts:
        """Moves the passages of part files with faults to the quarantine, if the stage reads the source; its counts."""
        raise SourceError(f"A {build.source_kind} has no passages that could be set aside.")

    def finish(self, build: Build) -> Counts:
        """Puts the batches together into tables and arrays; returns counts that depend on the result only."""
        raise NotImplementedError

    def outcome(self, build: Build) -> str:
        """Hash of what came out, asked after `finish`; "" where the fingerprint determines it.

        It does not where a model has a say, or where the stage that reads the source keeps more than others read.
        """
        return ""

    def plan(self, build: Build, planner: "Planner") -> "Iterable[PlannedStep | PlannedEmbedding]":
        """Plans the model calls for an ingested source, step by step, without a call."""
        return ()

    @property
    def table_names(self) -> tuple[str, ...]:
        """Tables that it fills, whole or in part."""
        return (*(table.name for table in self.tables), *(table for table, _, _ in self.rows))

    def fingerprint(self, build: Build) -> str:
        """sha256 of everything that determines the result, for a build with the results of all that the stage reads."""
        inputs = {**build.hashes(self.reads), **self.files(build)}
        return chain_fingerprint(self.name, self.revision, inputs, dict(self.settings(build)))

    def recipe(self, build: Build) -> str:
        """sha256 of what determines the result besides what it reads of other stages."""
        return chain_fingerprint(self.name, self.revision, dict(self.files(build)), dict(self.settings(build)))

    def updated_tables(self, build: Build) -> tuple[Table, ...]:
        """Its tables that begin as those of the version before."""
        names = [table.name for table in self.updated]
        return self.updated if names and build.earlier_tables(self.name, self.recipe(build), names) else ()

    def done(self, build: Build) -> Build:
        """The build once this stage is done, or its result taken over: the stages that read it can go on."""
        result = build.outcome(self.name)
        return build.with_results([(artefact, self.name, result) for artefact in self.writes])


def run_or_wait(stage: Stage, build: Build, batch: int) -> BatchResult:
    """Does one batch, unless it has to wait for replies of a model."""
    try:
        return stage.run(build, batch)
    except WaitingError:
        return BatchResult(0, 0, waits=True)


def finish_or_wait(stage: Stage, build: Build) -> Counts | None:
    """Counts of `finish`; None if it has to wait for replies of a model."""
    try:
        return stage.finish(build)
    except WaitingError:
        return None


class SourceStage(Stage):
    """A stage that reads the source, which it does in every run, in one batch; its fingerprint is that of "source"."""

    def batches(self, build: Build) -> list[int]:
        """One: the source is read from start to end."""
        return [0]

    def contents(self, build: Build) -> Mapping[str, str]:
        """Hashes of what came out, by artefact."""
        raise NotImplementedError

    def done(self, build: Build) -> Build:
        """The build once the source is read."""
        found = self.contents(build)
        read = build.with_fingerprint(self.name, found["source"])
        return read.with_results([(artefact, artefact, found[artefact]) for artefact in self.writes])


def tables_of(stages: Sequence[Stage]) -> list[Table]:
    """The tables of a version that these stages build: those of every version, then the stages' own."""
    return [*TABLES, *(table for stage in stages for table in stage.tables if table.name not in TABLE_OF)]
