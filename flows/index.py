"""A corpus to a published version: the stages in order, each skipped if its result is known.

Plain functions: `prefect_index.py` wraps the same ones into a flow run. Holds the writer's lease from start to end.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

from flows.stages import stages_for
from schemas.errors import SourceError, UnknownIndexError
from schemas.manifest import Manifest
from schemas.settings import Settings
from schemas.strategies import needed_artefacts
from tasks.corpus.stage import ingest_batch, ingest_fingerprints, ingest_finish
from tasks.publish.publish import prune, publish
from tasks.stage import BatchResult, Counts, Stage
from warehouse.build import Build, clear_staging, current_manifest, reuse_arrays, reuse_tables, start_build
from warehouse.files.disk import writing
from warehouse.files.lease import writer_lease

INGEST_TABLES = ("documents", "passages", "quarantine")


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """What to index.

    Attributes:
        index: Name of the index.
        source: The corpus, or None to build on the current version's.
        add_strategies: Strategies to build for besides the settings' and the index's own.
        full: Derive every stage again (caches are still used: nothing is paid or encoded twice).
    """

    index: str
    source: Path | None
    add_strategies: tuple[str, ...] = ()
    full: bool = False


@dataclass(slots=True)
class IndexReport:
    """What a run did."""

    index: str
    version: int = 0
    changed: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    computed: dict[str, int] = field(default_factory=dict)
    reused: list[str] = field(default_factory=list)
    removed_versions: list[int] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The JSON contract of `polyhop index` (architecture.md section 9)."""
        return {
            "index": self.index,
            "version": self.version,
            "changed": self.changed,
            "counts": self.counts,
            "seconds": {stage: round(seconds, 3) for stage, seconds in self.seconds.items()},
            "model": {"calls": 0, "cached": 0, "prompt_tokens": 0, "completion_tokens": 0, "cost_usd": 0.0},
            "computed": self.computed,
            "reused": self.reused,
            "removed_versions": self.removed_versions,
        }

    @staticmethod
    def from_json(document: dict[str, Any]) -> "IndexReport":
        """The report whose `to_json` this is."""
        names = [f.name for f in fields(IndexReport)]
        return IndexReport(**{name: document[name] for name in names})


class Runner(Protocol):
    """Runs the functions of stages: directly, or as tasks of a flow run."""

    def batches(
        self, stage: str, run: Callable[[Build, int], BatchResult], build: Build, numbers: list[int]
    ) -> Iterable[BatchResult]:
        """Runs batches, yielding each result when it is there."""
        ...

    def step(self, stage: str, run: Callable[[Build], Counts], build: Build) -> Counts:
        """Runs a stage's last step."""
        ...

    def progress(self, stage: str, done: int, total: int) -> None:
        """Told after every batch."""
        ...


class DirectRunner:
    """Runs everything in this process, in order."""

    def __init__(self, on_progress: Callable[[str, int, int], None] | None = None) -> None:
        self._on_progress = on_progress

    def batches(
        self, stage: str, run: Callable[[Build, int], BatchResult], build: Build, numbers: list[int]
    ) -> Iterator[BatchResult]:
        """One after the other."""
        for number in numbers:
            yield run(build, number)

    def step(self, stage: str, run: Callable[[Build], Counts], build: Build) -> Counts:
        """At once."""
        return run(build)

    def progress(self, stage: str, done: int, total: int) -> None:
        """Passed on."""
        if self._on_progress is not None:
            self._on_progress(stage, done, total)


def run_index(settings: Settings, request: IndexRequest, runner: Runner) -> IndexReport:
    """Indexes a corpus, or finds that nothing has changed.

    Raises:
        SourceError: If the corpus cannot be used; nothing is published.
        UnknownIndexError: If there is neither a source nor a version to build on.
        StoreConflictError: If another process is writing this index.
        StoreError: If the disk refuses; nothing is published.
    """
    if request.source is not None and not request.source.exists():
        raise SourceError(f"There is no file or folder {request.source}; check the path.")
    wanted = needed_artefacts((*settings.strategies, *request.add_strategies))
    build = Build(settings, request.index, request.source, tuple(sorted(wanted)))
    folder = build.folder
    with writing(f"index '{request.index}'", folder.path), writer_lease(folder.lease, request.index):
        return _Run(build, request, runner).run()


class _Run:
    """One run: what it knows of the current version, and what it reports."""

    def __init__(self, build: Build, request: IndexRequest, runner: Runner) -> None:
        self._manifest = current_manifest(build)
        kept = self._manifest.artefacts if self._manifest else ()
        artefacts = tuple(sorted({*build.artefacts, *kept}))
        self._build = Build(build.settings, build.index, build.source, artefacts)
        self._request = request
        self._runner = runner
        self._report = IndexReport(index=build.index)

    def run(self) -> IndexReport:
        """Ingest, then every stage, then publish."""
        counts = {"ingest": self._ingest()}
        build = self._build
        planned = []
        for stage in stages_for(build.artefacts):
            build = build.with_fingerprint(stage.name, stage.fingerprint(build))
            planned.append(stage)
        self._build = build
        if self._manifest is not None and self._is_unchanged(self._manifest, planned):
            clear_staging(build)
            self._report.version = self._manifest.version
            self._report.counts = self._manifest.counts
            self._report.reused = [stage.name for stage in planned]
            return self._report
        for stage in planned:
            counts[stage.name] = self._stage(stage)
        with _Clock(self._report, "publish"):
            manifest = publish(build, counts)
            self._report.removed_versions = prune(build)
        clear_staging(build)
        self._report.version, self._report.changed, self._report.counts = manifest.version, True, manifest.counts
        return self._report

    def _ingest(self) -> Counts:
        with _Clock(self._report, "ingest"):
            start_build(self._build)
            if self._request.source is None:
                counts = self._take_over_corpus()
            else:
                results = list(self._runner.batches("ingest", ingest_batch, self._build, [0]))
                counts = self._runner.step("ingest", ingest_finish, self._build)
                self._runner.progress("ingest", results[0].units, results[0].units)
            for name, fingerprint in ingest_fingerprints(self._build).items():
                self._build = self._build.with_fingerprint(name, fingerprint)
        return counts

    def _take_over_corpus(self) -> Counts:
        if self._manifest is None:
            raise UnknownIndexError(self._request.index, self._build.layout.index_names(), str(self._build.layout.root))
        reuse_tables(self._build, self._manifest, INGEST_TABLES)
        return self._manifest.stages["ingest"].counts

    def _is_unchanged(self, manifest: Manifest, planned: list[Stage]) -> bool:
        if self._request.full or manifest.stages["ingest"].fingerprint != self._build.fingerprint("ingest"):
            return False
        return all(self._is_known(manifest, stage) for stage in planned)

    def _is_known(self, manifest: Manifest, stage: Stage) -> bool:
        record = manifest.stages.get(stage.name)
        return record is not None and record.fingerprint == self._build.fingerprint(stage.name)

    def _stage(self, stage: Stage) -> Counts:
        with _Clock(self._report, stage.name):
            manifest = self._manifest
            if manifest is not None and not self._request.full and self._is_known(manifest, stage):
                reuse_tables(self._build, manifest, stage.tables, stage.rows)
                reuse_arrays(self._build, manifest, stage.arrays)
                self._report.reused.append(stage.name)
                return manifest.stages[stage.name].counts
            self._run_batches(stage)
            return self._runner.step(stage.name, stage.finish, self._build)

    def _run_batches(self, stage: Stage) -> None:
        numbers = stage.batches(self._build)
        computed = 0
        self._runner.progress(stage.name, 0, len(numbers))
        for done, result in enumerate(self._runner.batches(stage.name, stage.run_batch, self._build, numbers), start=1):
            computed += result.computed
            self._runner.progress(stage.name, done, len(numbers))
        if numbers:
            self._report.computed[stage.name] = computed


class _Clock:
    """Adds the block's seconds to a report."""

    def __init__(self, report: IndexReport, stage: str) -> None:
        self._report, self._stage, self._start = report, stage, 0.0

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._report.seconds[self._stage] = time.perf_counter() - self._start
