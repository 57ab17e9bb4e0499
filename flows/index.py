"""A source to a published version: the stages in order, what is taken over, the run's record, and its report.

Plain functions: `prefect_index.py` wraps the same ones into a flow run. Holds the writer's lease from start to end.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from polyhop.flows.reports import IndexReport, ModelUse
from polyhop.flows.runner import DirectRunner, model_run, model_use
from polyhop.flows.sources import check_sources, is_elsewhere, with_sources
from polyhop.schemas.errors import (
    MASK,
    BudgetExceededError,
    CoverageError,
    DamagedStoreError,
    ManifestMismatchError,
    PolyhopError,
    UnknownIndexError,
    redact,
)
from polyhop.schemas.logs import span
from polyhop.schemas.manifest import Manifest, StageRecord
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.runs import SENTENCE_CHARACTERS, Outcome, RunRecord, StageUse
from polyhop.schemas.settings import EncoderSettings, ExtractionSettings, HubSettings, Section, Settings, strategies_for
from polyhop.schemas.version import VERSION
from polyhop.tasks.publish.publish import check_deletions, prune, publish, tidy, was_killed
from polyhop.tasks.registry import source_kind, stages_for
from polyhop.tasks.stage import Counts, Stage, tables_of
from polyhop.warehouse.build import Build, clear_staging, latest_manifest, reuse_arrays, reuse_tables, start_build
from polyhop.warehouse.files.disk import writing
from polyhop.warehouse.files.layout import IndexFolder, Layout
from polyhop.warehouse.files.run_history import begin_run, end_run, stage_uses, starter
from polyhop.warehouse.files.versions import current_version, pinned_version, remove_leftovers, writer_lease
from polyhop.warehouse.integrity import Damage, find_damage
from polyhop.warehouse.machine import now, peak_rss_mb
from polyhop.worker.strategies.registry import needed_artefacts

_LOG = logging.getLogger(__name__)


class RunHistory:
    """What is recorded of one run; `begin` once it holds the writer's lease, `stage` after each stage."""

    def __init__(self, folder: IndexFolder, request: IndexRequest) -> None:
        self._folder = folder
        self._request = request
        self._started, self._clock = now(), time.perf_counter()
        self._begun: RunRecord | None = None
        self._stages: dict[str, StageUse] = {}
        self._cached = 0

    def begin(self) -> None:
        """Writes that the run has begun.

        Raises:
            StoreError: If the disk refuses.
        """
        self._begun = begin_run(self._folder, self._first)

    @contextmanager
    def stage(self, name: str, seconds: Callable[[float], None]) -> Iterator[None]:
        """Measures a block of a stage.

        Args:
            name: The stage.
            seconds: Gets what the block took, however it ends.
        """
        start, before = time.perf_counter(), model_use()
        try:
            with span("polyhop.stage", {"polyhop.stage": name}):
                yield
        finally:
            took, use = time.perf_counter() - start, model_use()
            seconds(took)
            _LOG.info("stage ended", extra={"fields": {"stage": name, "seconds": round(took, 3)}})
            self._cached = use.cached
            self._stages[name] = StageUse(
                seconds=round(took, 3),
                calls=use.calls - before.calls,
                prompt_tokens=use.prompt_tokens - before.prompt_tokens,
                completion_tokens=use.completion_tokens - before.completion_tokens,
                cost_usd=_cost_between(before, use),
            )

    def units(self, name: str, units: int, computed: int, *, is_taken_over: bool = False) -> None:
        """Notes how many units a measured stage had, and how many of them it computed."""
        update = {"units": units, "computed": computed, "is_taken_over": is_taken_over}
        self._stages[name] = self._stages.get(name, StageUse()).model_copy(update=update)

    def ended_well(self, report: IndexReport) -> None:
        """Writes what the run found or published."""
        damaged = f"damaged, made again: {'; '.join(report.damaged)}" if report.damaged else ""
        said = [damaged or ("" if report.changed else "nothing has changed"), report.pin_sentence]
        sentence = "; ".join(filter(None, said))
        if report.changed:
            self._end("published", sentence, report.counts, report.version)
        else:
            self._end("unchanged", sentence, report.counts)

    def ended_ill(self, outcome: Outcome, sentence: str) -> None:
        """Writes why the run failed or was stopped; of one that never held the lease only if there is an index.

        The run's own error is what people must see, so a disk that refuses this line as well is not mentioned.
        """
        with suppress(PolyhopError, OSError):
            if self._begun is not None or self._folder.path.is_dir():
                self._end(outcome, sentence, {})

    def _end(self, outcome: Outcome, sentence: str, counts: Mapping[str, int], published: int = 0) -> None:
        ended = {
            "outcome": outcome,
            "sentence": redact(sentence)[:SENTENCE_CHARACTERS],
            "seconds": round(time.perf_counter() - self._clock, 3),
            "version": self._version(),
            "published": published,
            "counts": dict(counts),
            "stages": self._stages,
            "cached": self._cached,
            "peak_memory_mb": peak_rss_mb(),
        }
        if self._begun is not None:
            end_run(self._folder, self._begun.model_copy(update=ended))
        else:
            begin_run(self._folder, lambda number: self._first(number).model_copy(update=ended))

    def _version(self) -> int:
        try:
            return current_version(self._folder) or 0
        except ManifestMismatchError:
            return 0

    def _first(self, number: int) -> RunRecord:
        request = self._request
        return RunRecord(
            run=number,
            started=self._started,
            started_by=starter(request.flow_run_id, request.flow_run_url),
            polyhop=VERSION,
            source=str(request.source) if request.source is not None else "",
        )


def _cost_between(before: ModelUse, after: ModelUse) -> float | None:
    """What calls cost; None if that is unknown."""
    if before.calls == after.calls:
        return 0.0
    unknown = before.cost_usd is None or after.cost_usd is None
    return None if unknown else round((after.cost_usd or 0.0) - (before.cost_usd or 0.0), 6)


@contextmanager
def recorded(history: RunHistory) -> Iterator[None]:
    """Around a run: writes how it ended if it ends with an error, which passes through."""
    try:
        yield
    except BudgetExceededError as error:
        history.ended_ill("stopped", str(error))
        raise
    except PolyhopError as error:
        history.ended_ill("failed", str(error))
        raise
    except Exception as error:
        history.ended_ill("failed", f"unexpected {type(error).__name__}: {error}")
        raise
    except BaseException as error:  # Ctrl-C, and Prefect's signal that a flow run was cancelled
        history.ended_ill("stopped", f"stopped by {type(error).__name__}")
        raise


SectionT = TypeVar("SectionT", bound=Section)


def with_kept(settings: Settings, manifest: Manifest | None) -> Settings:
    """The settings of this run: what an index is made of stays as it is unless they say otherwise.

    That is the language, the extractor, who bears a name, the encoder, and what hubs are: a later run without them
    would quietly make another index.

    Args:
        settings: As given.
        manifest: Of the version before, None if there is none.
    """
    if manifest is None:
        return settings
    extraction, hubs = settings.extraction, settings.hubs
    corpus = _kept(settings.corpus, "language", manifest.settings.get("corpus"))
    resolution = _kept(settings.resolution, "identity", manifest.settings.get("resolution"))
    if "extractor" not in extraction.model_fields_set:
        before = ExtractionSettings.model_validate(manifest.settings["extraction"]).extractor
        extraction = extraction.model_copy(update={"extractor": before})
    kept = HubSettings.model_validate(manifest.settings.get("hubs", {})).model_dump(exclude=hubs.model_fields_set)
    hubs = hubs.model_copy(update=kept)
    encoder = _kept_encoder(settings.encoder, EncoderSettings.model_validate(manifest.settings.get("encoder", {})))
    made_of = {"corpus": corpus, "extraction": extraction, "resolution": resolution, "hubs": hubs, "encoder": encoder}
    return settings.model_copy(update=made_of)


def _kept(section: SectionT, name: str, before: object) -> SectionT:
    """A section with one of its settings as it was, if it was recorded and nothing is said of it now."""
    if name in section.model_fields_set or not isinstance(before, Mapping) or name not in before:
        return section
    return section.model_copy(update={name: before[name]})


def _kept_encoder(encoder: EncoderSettings, before: EncoderSettings) -> EncoderSettings:
    """The encoder of the version before, with whatever else is said of it now, unless another one is named."""
    if "name" in encoder.model_fields_set and encoder.name != before.name:
        return encoder
    kept: dict[str, object] = before.choice.model_dump(exclude=encoder.model_fields_set)
    entities = encoder.entities
    if "name" not in entities.model_fields_set or entities.name == before.entities.name:
        fields = before.entities.choice.model_dump(exclude=entities.model_fields_set)
        kept["entities"] = entities.model_copy(update=_without_secret(fields))
    return encoder.model_copy(update=_without_secret(kept))


def _without_secret(fields: dict[str, object]) -> dict[str, object]:
    """Without an address that held a password, which no manifest keeps."""
    return {name: value for name, value in fields.items() if not (name == "api_base" and MASK in str(value))}


@dataclass(frozen=True, slots=True)
class CurrentVersion:
    """The current version as a run sees it.

    Attributes:
        manifest: None before the first version.
        damage: What of it must not be taken over.
        request: What is asked for; a full run keeps nothing.
    """

    manifest: Manifest | None
    damage: Damage
    request: IndexRequest

    def require(self, build: Build) -> Manifest:
        """The manifest.

        Raises:
            UnknownIndexError: If there is no version.
        """
        if self.manifest is None:
            raise UnknownIndexError(build.index, build.layout.index_names(), str(build.layout.root))
        return self.manifest

    def holds(self, stage: Stage, build: Build) -> bool:
        """Whether it has the whole result of this stage, whose fingerprint the build knows."""
        record = self._record_to_keep(stage)
        if record is None or self.damage.concerns(stage.table_names, stage.arrays):
            return False
        return record.is_final and record.fingerprint == build.fingerprint(stage.name)

    def holds_source(self, source: Stage, build: Build) -> bool:
        """Whether it was made of the very source that was just read, and nothing of it is damaged."""
        record = self._record_to_keep(source)
        if self.damage or record is None or record.fingerprint != build.fingerprint(source.name):
            return False
        return record.outcome == dict(build.outcomes).get(source.name, "")

    def has_outcomes_of(self, build: Build) -> bool:
        """Whether stages were tried again in vain: what had failed failed again."""
        records, counts = self.require(build).stages, build.counts
        return records.keys() == counts.keys() and all(
            records[name].fingerprint == build.fingerprint(name)
            and records[name].outcome == dict(build.outcomes).get(name, "")
            and records[name].counts == counts[name]
            for name in counts
        )

    def distrusted_vectors(self) -> tuple[str, ...]:
        """Kinds of vectors that must not be copied from it: all in a full run, else those with damage."""
        if self.request.full and self.manifest is not None:
            return tuple(self.manifest.vectors) or tuple(self.damage.vectors)
        return tuple(self.damage.vectors)

    def check_source(self, source: Stage, build: Build) -> None:
        """Looks whether the corpus, or the graph, can be taken over.

        Raises:
            UnknownIndexError: If there is no version.
            DamagedStoreError: If it is damaged; the sentence has the command that reads the source again.
        """
        manifest = self.require(build)
        if self.damage.concerns(source.table_names, source.arrays):
            folder = build.folder.version(manifest.version)
            option = "" if build.source_kind == "corpus" else f"--{build.source_kind} "
            texts = f"--graph-sources {manifest.graph_sources} " if manifest.graph_sources else ""
            command = f"polyhop index {option}{manifest.source or 'SOURCE'} {texts}--index {build.index}"
            raise DamagedStoreError(f"The {build.source_kind} in {folder.tables}", build.index, command=command)

    def _record_to_keep(self, stage: Stage) -> StageRecord | None:
        if self.request.full or self.manifest is None:
            return None
        return self.manifest.stages.get(stage.name)


_RAW_ROWS = ("mentions", "relations", "propositions", "triples")


def run_index(settings: Settings, request: IndexRequest, runner: DirectRunner) -> IndexReport:
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
            report.model, report.pinned = model_use(), pinned_version(folder)
            history.ended_well(report)
            return report


class _Run:
    """One run: what it knows of the current version, and what it reports."""

    def __init__(
        self, build: Build, request: IndexRequest, runner: DirectRunner, history: RunHistory, *, is_after_kill: bool
    ) -> None:
        manifest = latest_manifest(build)
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
        self._uses_before = stage_uses(build.folder, manifest.version) if manifest else {}

    def _clock(self, stage: str) -> AbstractContextManager[None]:
        """Measures a block of a stage, for the report and for the run history."""
        return self._history.stage(stage, partial(self._report.seconds.__setitem__, stage))

    def run(self) -> IndexReport:
        """The source, then every other stage, then publish; a stage that the current version holds is taken over."""
        self._ingest()
        is_done = False
        while not is_done:
            known, needed = self._known_in_front()
            if len(known) == len(self._stages) and self._is_known_source():
                return self._unchanged(known)
            is_done = self._derive(needed)
        extracted = dict(self._build.counts.get("extract", {}))
        self._report.failing = failing_units(self._build.counts)
        self._report.extraction = {name: count for name, count in extracted.items() if name not in _RAW_ROWS}
        check_coverage(extracted, self._build.settings.min_coverage)
        if self._is_known_source() and self._current.has_outcomes_of(self._build):
            return self._unchanged([])
        self._publish()
        return self._report

    def _is_known_source(self) -> bool:
        """Whether nothing of the source has changed; one that moved makes a version that says where it lies now."""
        manifest = self._current.manifest
        if manifest is None or is_elsewhere(self._build, manifest):
            return False
        return self._current.holds_source(self._source, self._build)

    def _publish(self) -> None:
        build = replace(self._build, distrusted=self._current.distrusted_vectors())
        finish = partial(publish, build, [self._source, *self._stages])
        with self._clock("publish"):
            published = self._runner.step("publish finish", finish)
            self._report.removed_versions = prune(build, is_after_kill=self._is_after_kill)
        clear_staging(build)
        self._report.changes = {name: count for name, count in published.items() if name != "version"}
        manifest = latest_manifest(build)
        if manifest is not None:
            self._report.changed = True
            self._describe(manifest)
            fields = {"index": build.folder.name, "version": manifest.version, "removed": self._report.removed_versions}
            _LOG.info("version published", extra={"fields": fields})

    def _describe(self, manifest: Manifest) -> None:
        report = self._report
        report.version, report.counts, report.ratios = manifest.version, manifest.counts, manifest.ratios

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
                faults = stage.faults(self._build)
                if not faults:
                    self._finish(stage)
            computed = self._report.computed.get(stage.name, 0)
            self._history.units(stage.name, units, computed)
            if faults:
                self._build = ingested
                self._set_aside(faults)
                return False
        return True

    def _set_aside(self, faults: list[str]) -> None:
        """Moves the passages of part files with faults to the quarantine."""
        set_aside = partial(self._source.quarantine, self._build, faults)
        self._build = self._ingested(self._runner.step(f"{self._source.name} finish", set_aside))

    def _ingested(self, counts: Counts) -> Build:
        """The build once its source is read, or some of its passages were set aside."""
        build = self._build.with_counts(self._source.name, counts)
        return self._source.done(build.with_outcome(self._source.name, self._source.outcome(build)))

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
        self._describe(manifest)
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
                    self._report.unread_files += result.unread_files
                    units += result.units
                counts = self._runner.step(f"{source.name} finish", partial(source.finish, self._build))
                self._runner.progress(source.name, units, units)
                self._report.unread = dict(unread)
            self._build = self._ingested(counts)
        self._check_deletions()
        if not is_read:
            self._note_taken_over(source.name)

    def _check_deletions(self) -> None:
        """Refuses to go on with a source that lost much, before anything is derived from it."""
        before, build, request = self._current.manifest, self._build, self._request
        if before is None or build.source is None or request.allows_deletions:
            return
        if not (request.replaces and is_elsewhere(build, before)):
            check_deletions(build, before, self._current.damage)

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
        known = self._uses_before.get(stage)
        self._history.units(stage, known.units if known else 0, 0, is_taken_over=True)

    def _finish(self, stage: Stage) -> None:
        counts = self._runner.step(f"{stage.name} finish", partial(stage.finish, self._build))
        build = self._build.with_counts(stage.name, counts)
        self._build = stage.done(build.with_outcome(stage.name, stage.outcome(build)))

    def _run_batches(self, stage: Stage) -> int:
        """Runs the batches that are still to do; returns how many units they hold, and those that need none."""
        numbers = stage.batches(self._build)
        size = self._build.settings.batch_size
        units = stage.kept(self._build)
        is_counted = bool(units or numbers)
        computed = 0
        self._runner.progress(stage.name, units, units + size * len(numbers))
        for done, result in enumerate(self._runner.batches(stage, self._build, numbers), start=1):
            units += result.units
            computed += result.computed
            # a batch that is still to do may be a short one: until the last, the total is an upper bound
            self._runner.progress(stage.name, units, units + size * (len(numbers) - done))
        if is_counted:
            self._report.computed[stage.name] = computed
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
    return find_damage(build.folder, build.folder.version(manifest.version), manifest)
