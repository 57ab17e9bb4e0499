"""A corpus to a published version: the stages in order, each skipped if its result is known.

Plain functions: `prefect_index.py` wraps the same ones into a flow run. Holds the writer's lease from start to end.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from flows.reports import IndexReport, IndexRequest, ModelUse
from flows.stages import stages_for
from schemas.errors import CoverageError, SourceError, UnknownIndexError
from schemas.manifest import Manifest, StageRecord
from schemas.settings import ExtractionSettings, Settings
from schemas.strategies import needed_artefacts
from tasks.corpus.stage import ingest_batch, ingest_fingerprints, ingest_finish
from tasks.publish.publish import prune, publish
from tasks.stage import BatchResult, Counts, Stage
from warehouse.build import Build, clear_staging, current_manifest, reuse_arrays, reuse_tables, start_build
from warehouse.files.disk import writing
from warehouse.files.lease import writer_lease
from warehouse.open_models import chats_usage, close_chats

_RAW_ROWS = ("mentions", "relations", "propositions")
INGEST_TABLES = ("documents", "passages", "quarantine")


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
    with writing(f"index '{request.index}'", folder.path), writer_lease(folder.lease, request.index), model_run():
        report = _Run(build, request, runner).run()
        report.model = model_use()
        return report


class _Run:
    """One run: what it knows of the current version, and what it reports."""

    def __init__(self, build: Build, request: IndexRequest, runner: Runner) -> None:
        self._manifest = current_manifest(build)
        kept = self._manifest.artefacts if self._manifest else ()
        artefacts = tuple(sorted({*build.artefacts, *kept}))
        settings = with_extractor(build.settings, request.extractor, self._manifest)
        self._build = Build(settings, build.index, build.source, artefacts)
        self._request = request
        self._runner = runner
        self._report = IndexReport(index=build.index)

    def run(self) -> IndexReport:
        """Ingest, then every stage, then publish; a stage that the current version holds is taken over."""
        counts = {"ingest": self._ingest()}
        stages = stages_for(self._build.artefacts)
        known, needed = self._known_in_front(stages)
        if len(known) == len(stages) and self._is_corpus_known():
            return self._unchanged(known)
        for stage in stages:
            self._build = self._build.with_fingerprint(stage.name, stage.fingerprint(self._build))
            take_over = stage.name not in needed and self._is_known(stage, self._build)
            counts[stage.name] = self._take_over(stage) if take_over else self._stage(stage)
        extracted = counts.get("extract", {})
        self._report.extraction = {name: count for name, count in extracted.items() if name not in _RAW_ROWS}
        check_coverage(extracted, self._build.settings.min_coverage)
        if self._is_corpus_known() and self._has_same_outcome(counts):
            return self._unchanged([])
        with _Clock(self._report, "publish"):
            manifest = publish(self._build, counts)
            self._report.removed_versions = prune(self._build)
        clear_staging(self._build)
        self._report.version, self._report.changed, self._report.counts = manifest.version, True, manifest.counts
        return self._report

    def _known_in_front(self, stages: list[Stage]) -> tuple[list[str], tuple[str, ...]]:
        """The first stages whose results the current version holds, and those whose part files the next one reads."""
        known: list[str] = []
        build = self._build
        for stage in stages:
            build = build.with_fingerprint(stage.name, stage.fingerprint(build))
            if not self._is_known(stage, build):
                return known, stage.reads_parts_of
            known.append(stage.name)
            build = build.with_outcome(stage.name, self._record(stage).outcome)
        return known, ()

    def _unchanged(self, known: list[str]) -> IndexReport:
        manifest = self._require_manifest()
        clear_staging(self._build)
        self._report.version, self._report.counts = manifest.version, manifest.counts
        self._report.reused.extend(name for name in known if name not in self._report.reused)
        return self._report

    def _require_manifest(self) -> Manifest:
        if self._manifest is None:
            raise UnknownIndexError(self._request.index, self._build.layout.index_names(), str(self._build.layout.root))
        return self._manifest

    def _has_same_outcome(self, counts: dict[str, Counts]) -> bool:
        """Whether stages were tried again in vain: what had failed failed again."""
        records = self._require_manifest().stages
        return records.keys() == counts.keys() and all(
            records[name].fingerprint == self._build.fingerprint(name)
            and records[name].outcome == dict(self._build.outcomes).get(name, "")
            and records[name].counts == counts[name]
            for name in counts
        )

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
        manifest = self._require_manifest()
        reuse_tables(self._build, manifest, INGEST_TABLES)
        return manifest.stages["ingest"].counts

    def _is_corpus_known(self) -> bool:
        """Whether the current version holds this very corpus, and may be kept."""
        if self._request.full or self._manifest is None:
            return False
        return self._manifest.stages["ingest"].fingerprint == self._build.fingerprint("ingest")

    def _is_known(self, stage: Stage, build: Build) -> bool:
        """Whether the current version holds the whole result of this stage."""
        if self._request.full or self._manifest is None:
            return False
        record = self._manifest.stages.get(stage.name)
        return record is not None and record.is_final and record.fingerprint == build.fingerprint(stage.name)

    def _record(self, stage: Stage) -> StageRecord:
        return self._require_manifest().stages[stage.name]

    def _take_over(self, stage: Stage) -> Counts:
        manifest, record = self._require_manifest(), self._record(stage)
        with _Clock(self._report, stage.name):
            reuse_tables(self._build, manifest, stage.tables, stage.rows)
            reuse_arrays(self._build, manifest, stage.arrays)
        self._build = self._build.with_outcome(stage.name, record.outcome)
        self._report.reused.append(stage.name)
        return record.counts

    def _stage(self, stage: Stage) -> Counts:
        with _Clock(self._report, stage.name):
            self._run_batches(stage)
            counts = self._runner.step(stage.name, stage.finish, self._build)
            if stage.outcome is not None:
                self._build = self._build.with_outcome(stage.name, stage.outcome(self._build))
            return counts

    def _run_batches(self, stage: Stage) -> None:
        numbers = stage.batches(self._build)
        computed = 0
        self._runner.progress(stage.name, 0, len(numbers))
        for done, result in enumerate(self._runner.batches(stage.name, stage.run_batch, self._build, numbers), start=1):
            computed += result.computed
            self._runner.progress(stage.name, done, len(numbers))
        if numbers:
            self._report.computed[stage.name] = computed


def with_extractor(settings: Settings, wanted: str | None, manifest: Manifest | None) -> Settings:
    """The settings with the extractor of this run: wanted, configured, or that of the version before."""
    before = ExtractionSettings.model_validate(manifest.settings["extraction"]).extractor if manifest else None
    configured = settings.extraction.extractor
    default = ExtractionSettings().extractor
    extractor = wanted or (before if before and configured == default else configured)
    return settings.model_copy(update={"extraction": settings.extraction.model_copy(update={"extractor": extractor})})


@contextmanager
def model_run() -> Iterator[None]:
    """Models opened inside the block share one budget, which begins at 0."""
    close_chats()
    try:
        yield
    finally:
        close_chats()


def model_use() -> ModelUse:
    """What models have taken in this run so far."""
    usage, cached = chats_usage()
    return ModelUse(
        usage.calls, cached, usage.prompt_tokens, usage.completion_tokens, cost_usd=round(usage.cost_usd, 6)
    )


def check_coverage(extracted: Counts, min_coverage: float) -> None:
    """Refuses to publish what a model has extracted too little of.

    Raises:
        CoverageError: If the share of units that succeeded is below `min_coverage`.
    """
    failed = extracted.get("failed_units", 0)
    total = failed + extracted.get("extracted_units", 0)
    if total and (total - failed) / total < min_coverage:
        raise CoverageError(
            f"The model extracted {total - failed:,} of {total:,} units, fewer than min_coverage = {min_coverage} asks "
            "for; nothing was published. Run again to retry the others (what succeeded is not paid for twice), "
            "or lower min_coverage."
        )


class _Clock:
    """Adds the block's seconds to a report."""

    def __init__(self, report: IndexReport, stage: str) -> None:
        self._report, self._stage, self._start = report, stage, 0.0

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._report.seconds[self._stage] = time.perf_counter() - self._start
