"""A source to a published version: the stages in order, each skipped if its result is known.

Plain functions: `prefect_index.py` wraps the same ones into a flow run. Holds the writer's lease from start to end.
"""

import logging
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial

from polyhop.flows.current_version import CurrentVersion
from polyhop.flows.kept_settings import with_kept
from polyhop.flows.model_run import model_run, model_use
from polyhop.flows.reports import IndexReport
from polyhop.flows.run_history import RunHistory, recorded
from polyhop.flows.runner import Runner
from polyhop.flows.sources import check_sources, with_sources
from polyhop.flows.stage_timings import StageTimings
from polyhop.schemas.errors import CoverageError, SourceError
from polyhop.schemas.manifest import Manifest
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.schemas.strategies import strategies_for
from polyhop.schemas.tracing import span
from polyhop.tasks.publish.publish import publish_stage
from polyhop.tasks.publish.removal import prune, tidy, was_killed
from polyhop.tasks.registry import source_kind, stages_for
from polyhop.tasks.stage import Counts, Stage, tables_of
from polyhop.warehouse.build import Build, clear_staging, current_manifest, reuse_arrays, reuse_tables, start_build
from polyhop.warehouse.files.disk import writing
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.timings import read_timings
from polyhop.warehouse.files.versions import remove_leftovers
from polyhop.warehouse.files.writer import writer_lease
from polyhop.warehouse.integrity import Damage, find_damage
from polyhop.worker.strategies.registry import needed_artefacts

_LOG = logging.getLogger(__name__)
_RAW_ROWS = ("mentions", "relations", "propositions", "triples")


def run_index(settings: Settings, request: IndexRequest, runner: Runner) -> IndexReport:
    """Indexes a corpus, or finds that nothing has changed.

    Raises:
        SourceError: If the corpus cannot be used; nothing is published.
        UnknownIndexError: If there is neither a source nor a version to build on.
        StoreConflictError: If another process is writing this index, and still is after the wait.
        StoreError: If the disk refuses; nothing is published.
    """
    folder = Layout(settings.root).index(request.index)
    history = RunHistory(folder, request)
    with span("polyhop.index", {"polyhop.index": request.index}), recorded(history):
        check_sources(request)
        wanted = tuple(sorted(needed_artefacts((*settings.strategies, *request.add_strategies))))
        build = Build(settings, request.index, request.source, wanted, graph_sources=request.graph_sources)
        lease = writer_lease(folder.lease, request.index, wait_seconds=request.wait_seconds, on_wait=runner.note)
        with writing(f"index '{request.index}'", folder.path), lease, model_run(runner.note):
            history.begin()
            left = remove_leftovers(folder)
            is_after_kill = bool(left) or was_killed(folder)
            report = _Run(build, request, runner, history, is_after_kill=is_after_kill).run()
            report.removed_versions = [*left, *report.removed_versions]
            report.model = model_use()
            history.ended_well(report)
            return report


class _Run:
    """One run: what it knows of the current version, and what it reports."""

    def __init__(
        self, build: Build, request: IndexRequest, runner: Runner, history: RunHistory, *, is_after_kill: bool
    ) -> None:
        manifest = current_manifest(build)
        kept = manifest.artefacts if manifest else ()
        kind = request.stated_kind or (source_kind(manifest.stages) if manifest else "corpus")
        artefacts = tuple(sorted({*build.artefacts, *kept, *needed_artefacts(strategies_for(build.settings, kind))}))
        before = manifest.settings.get("strategies") if manifest else None
        own = (*(before if isinstance(before, list) else ()), *strategies_for(build.settings, kind))
        strategies = tuple(dict.fromkeys((*own, *request.add_strategies)))
        settings = with_kept(build.settings, manifest).model_copy(update={"strategies": strategies})
        self._build = replace(build, settings=settings, artefacts=artefacts, source_kind=kind)
        self._source, *self._stages = stages_for(artefacts, kind)
        self._request = request
        self._runner = runner
        self._history = history
        self._is_after_kill = is_after_kill
        self._report = IndexReport(index=build.index)
        damage = _found_damage(build, manifest)
        self._build = with_sources(self._build, request, manifest, damage.arrays)
        self._report.damaged = damage.sentences()
        if manifest and not request.full:
            self._build = self._build.with_earlier(manifest, damage.arrays, damage.tables)
        self._current = CurrentVersion(manifest, damage, request)
        before = read_timings(build.folder.version(manifest.version)) if manifest else {}
        self._timings = StageTimings(before)

    def _clock(self, stage: str) -> AbstractContextManager[None]:
        """Measures a block of a stage, for the report and for the run history."""
        return self._history.stage(stage, partial(self._report.seconds.__setitem__, stage))

    def run(self) -> IndexReport:
        """The source, then every other stage, then publish; a stage that the current version holds is taken over."""
        self._ingest()
        is_done = False
        while not is_done:
            known, needed = self._known_in_front()
            if len(known) == len(self._stages) and self._current.holds_source(self._source, self._build):
                return self._unchanged(known)
            is_done = self._derive(needed)
        extracted = dict(self._build.counts.get("extract", {}))
        self._report.failing = failing_units(self._build.counts)
        self._report.extraction = {name: count for name, count in extracted.items() if name not in _RAW_ROWS}
        check_coverage(extracted, self._build.settings.min_coverage)
        if self._current.holds_source(self._source, self._build) and self._current.has_outcomes_of(self._build):
            return self._unchanged([])
        self._publish()
        return self._report

    def _publish(self) -> None:
        build = replace(self._build, distrusted=self._current.distrusted_vectors())
        last = publish_stage([self._source, *self._stages])
        self._timings.write(build.staging)
        with self._clock(last.name):
            published = self._runner.step(last.name, last.finish, build)
            self._report.removed_versions = prune(build, is_after_kill=self._is_after_kill)
        clear_staging(build)
        self._report.changes = {name: count for name, count in published.items() if name != "version"}
        manifest = current_manifest(build)
        if manifest is not None:
            self._report.version, self._report.changed, self._report.counts = manifest.version, True, manifest.counts
            fields = {"index": build.folder.name, "version": manifest.version, "removed": self._report.removed_versions}
            _LOG.info("version published", extra={"fields": fields})

    def _derive(self, needed: tuple[str, ...]) -> bool:
        """Runs the stages; False if a rule failed on passages: they are in quarantine now, and all begins again.

        The result is that of a corpus without them (their titles may be names in others).
        """
        ingested = self._build
        for stage in self._stages:
            self._build = self._build.with_fingerprint(stage.name, stage.fingerprint(self._build))
            if stage.name not in needed and self._current.holds(stage, self._build):
                self._take_over(stage)
                continue
            with self._clock(stage.name):
                units = self._run_batches(stage)
                faults = stage.faults(self._build) if stage.faults is not None else []
                if not faults:
                    self._finish(stage)
            computed = self._report.computed.get(stage.name, 0)
            self._timings.computed(stage.name, self._report.seconds[stage.name], units, computed)
            self._history.units(stage.name, units, computed)
            if faults:
                self._build = ingested
                self._set_aside(faults)
                return False
        return True

    def _set_aside(self, faults: list[str]) -> None:
        """Moves the passages of part files with faults to the quarantine."""
        if self._source.quarantine is None:
            raise SourceError(f"A {self._build.source_kind} has no passages that could be set aside.")
        set_aside = self._source.quarantine
        counts = self._runner.step(self._source.name, lambda build: set_aside(build, faults), self._build)
        self._build = self._ingested(counts)

    def _ingested(self, counts: Counts) -> Build:
        """The build once its source is read, or some of its passages were set aside."""
        build = self._build.with_counts(self._source.name, counts)
        if self._source.outcome is not None:
            build = build.with_outcome(self._source.name, self._source.outcome(build))
        return self._source.done(build)

    def _known_in_front(self) -> tuple[list[str], tuple[str, ...]]:
        """The first stages whose results the current version holds, and those whose part files the next one reads."""
        known: list[str] = []
        build = self._build
        for stage in self._stages:
            build = build.with_fingerprint(stage.name, stage.fingerprint(build))
            if not self._current.holds(stage, build):
                return known, stage.reads_parts_of
            known.append(stage.name)
            build = stage.done(build.with_outcome(stage.name, self._current.require(build).stages[stage.name].outcome))
        return known, ()

    def _unchanged(self, known: list[str]) -> IndexReport:
        manifest = self._current.require(self._build)
        clear_staging(self._build)
        self._report.removed_versions = tidy(self._build, is_after_kill=self._is_after_kill)
        self._report.version, self._report.counts = manifest.version, manifest.counts
        self._report.reused.extend(name for name in known if name not in self._report.reused)
        return self._report

    def _ingest(self) -> None:
        """Reads the source whole, because only that shows whether anything changed; without one, takes it over."""
        source = self._source
        with self._clock(source.name):
            start_build(self._build, tables_of([source, *self._stages]))
            is_read = self._request.source is not None or self._build.reads_kept_only
            if not is_read:
                counts = self._take_over_source()
            else:
                unread: Counter[str] = Counter()
                units = 0
                for result in self._runner.batches(source, self._build, source.batches(self._build)):
                    unread.update(result.unread)
                    units += result.units
                counts = self._runner.step(source.name, source.finish, self._build)
                self._runner.progress(source.name, units, units)
                self._report.unread = dict(unread)
            self._build = self._ingested(counts)
        if not is_read:
            self._note_taken_over(source.name)
        else:
            self._timings.computed(source.name, self._report.seconds[source.name])

    def _take_over_source(self) -> Counts:
        self._current.check_source(self._source, self._build)
        manifest = self._current.require(self._build)
        reuse_tables(self._build, manifest, self._source.tables)
        reuse_arrays(self._build, manifest, self._source.arrays)
        return manifest.stages[self._source.name].counts

    def _take_over(self, stage: Stage) -> None:
        manifest = self._current.require(self._build)
        record = manifest.stages[stage.name]
        with self._clock(stage.name):
            reuse_tables(self._build, manifest, stage.tables, stage.rows)
            reuse_arrays(self._build, manifest, stage.arrays)
        build = self._build.with_outcome(stage.name, record.outcome).with_counts(stage.name, record.counts)
        self._build = stage.done(build)
        self._report.reused.append(stage.name)
        self._note_taken_over(stage.name)

    def _note_taken_over(self, stage: str) -> None:
        known = self._timings.taken_over(stage)
        self._history.units(stage, known.units if known else 0, 0, is_taken_over=True)

    def _finish(self, stage: Stage) -> None:
        counts = self._runner.step(stage.name, stage.finish, self._build)
        build = self._build.with_counts(stage.name, counts)
        if stage.outcome is not None:
            build = build.with_outcome(stage.name, stage.outcome(build))
        self._build = stage.done(build)

    def _run_batches(self, stage: Stage) -> int:
        """Runs the batches that are still to do; returns how many units they hold, and those that need none."""
        numbers = stage.batches(self._build)
        size = self._build.settings.batch_size
        units = stage.kept(self._build)
        is_counted = bool(units or numbers)
        computed = damaged = 0
        self._runner.progress(stage.name, units, units + size * len(numbers))
        for done, result in enumerate(self._runner.batches(stage, self._build, numbers), start=1):
            units += result.units
            computed += result.computed
            damaged += result.damaged
            # a batch that is still to do may be a short one: until the last, the total is an upper bound
            self._runner.progress(stage.name, units, units + size * (len(numbers) - done))
        if is_counted:
            self._report.computed[stage.name] = computed
        if damaged:
            self._report.damaged.append(f"{damaged:,} cached vectors (stage {stage.name})")
        return units


def failing_units(counts: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """How many units of each stage failed; without stages of which none did."""
    failed = {
        stage: sum(count for name, count in of.items() if name.startswith("failed_")) for stage, of in counts.items()
    }
    return {stage: count for stage, count in failed.items() if count}


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


def _found_damage(build: Build, manifest: Manifest | None) -> Damage:
    """What of the current version must not be taken over."""
    if manifest is None:
        return Damage()
    return find_damage(build.folder, build.folder.version(manifest.version), manifest, reads_all_tables=False)
