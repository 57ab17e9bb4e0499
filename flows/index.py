"""A source to a published version: the stages in order, what is taken over, the run's record, and its report.

Also which sources a request names and whether they go together; which of an index's sources a run reads, and keeps.
"""

import logging
import re
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NoReturn

from polyhop.flows.reports import IndexReport
from polyhop.flows.runner import DirectRunner, model_run, model_use
from polyhop.schemas import errors
from polyhop.schemas.logs import span
from polyhop.schemas.manifest import (
    SENTENCE_CHARACTERS,
    EncoderRecord,
    Manifest,
    Outcome,
    RunRecord,
    SourceState,
    StageRecord,
    StageUse,
)
from polyhop.schemas.records import GraphServer, Source, source_of
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import (
    KEPT,
    LOCAL,
    EncoderSettings,
    Settings,
    SettingsSection,
    settings_with,
    stored_section,
    strategies_for,
)
from polyhop.schemas.version import VERSION
from polyhop.tasks.publish.publish import check_deletions, prune, publish, tidy, was_killed
from polyhop.tasks.registry import source_kind, stages_for
from polyhop.tasks.stage import Counts, Stage, finish_or_wait, tables_of
from polyhop.warehouse.build import (
    Build,
    KeptSource,
    clear_staging,
    kept_files,
    latest_manifest,
    reuse_arrays,
    reuse_tables,
    start_build,
)
from polyhop.warehouse.files import versions
from polyhop.warehouse.files.disk import writing
from polyhop.warehouse.files.layout import IndexFolder, Layout
from polyhop.warehouse.files.records import missing_file, source_location
from polyhop.warehouse.files.remote import push_version
from polyhop.warehouse.files.versions import begin_run, end_run, stage_timings, starter
from polyhop.warehouse.inbox import INBOX
from polyhop.warehouse.index_reader import Damage, find_damage
from polyhop.warehouse.machine import now, peak_rss_mb
from polyhop.warehouse.name_judge import gives_types
from polyhop.warehouse.open_models import open_batches, require_named_encoder
from polyhop.worker.strategies.registry import needed_artefacts

_LOG = logging.getLogger(__name__)


class RunHistory:
    """Record of one run; call `begin` once it holds the writer's lease, and use `stage` around each stage."""

    def __init__(self, folder: IndexFolder, request: IndexRequest, report: IndexReport) -> None:
        self._folder, self.request, self.report = folder, request, report
        self._started, self._clock = now(), time.perf_counter()
        self._begun: RunRecord | None = None
        self._stages: dict[str, StageUse] = {}
        self._cached = 0

    def begin(self) -> None:
        """Writes that the run has begun."""
        self._begun = begin_run(self._folder, self._first)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measures a block of a stage, however it ends, for the history and the report."""
        start, before = time.perf_counter(), model_use()
        try:
            with span("polyhop.stage", {"polyhop.stage": name}):
                yield
        finally:
            took, use = time.perf_counter() - start, model_use()
            self.report.seconds[name] = took
            _LOG.info("stage ended", extra={"fields": {"stage": name, "seconds": round(took, 3)}})
            self._cached = use.cached
            is_known = before.cost_usd is not None and use.cost_usd is not None
            cost = round((use.cost_usd or 0.0) - (before.cost_usd or 0.0), 6) if is_known else None
            self._stages[name] = StageUse(
                seconds=round(took, 3),
                calls=use.calls - before.calls,
                prompt_tokens=use.prompt_tokens - before.prompt_tokens,
                completion_tokens=use.completion_tokens - before.completion_tokens,
                cost_usd=cost if use.calls > before.calls else 0.0,
            )

    def units(self, name: str, units: int, computed: int, *, is_taken_over: bool = False) -> None:
        """Notes how many units a measured stage had, and how many of them it computed."""
        update = {"units": units, "computed": computed, "is_taken_over": is_taken_over}
        self._stages[name] = self._stages[name].model_copy(update=update)

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Around a run: writes what it found or published, or why it failed, stopped or waits; errors pass through."""
        report = self.report
        try:
            yield
        except BaseException as error:
            is_stopped = isinstance(error, errors.BudgetExceededError) or not isinstance(error, Exception)
            is_waiting = isinstance(error, errors.WaitingError)
            if isinstance(error, errors.PolyhopError):
                sentence = str(error)
            elif is_stopped:  # Ctrl-C, and Prefect's signal that a flow run was cancelled
                sentence = f"stopped by {type(error).__name__}"
            else:
                sentence = f"unexpected {type(error).__name__}: {error}"
            # People must see the run's own error, so a disk that refuses this line as well is not mentioned. A run that
            # never held the lease is recorded only if there is an index.
            with suppress(errors.PolyhopError, OSError):
                if self._begun is not None or self._folder.path.is_dir():
                    self._end("waiting" if is_waiting else "stopped" if is_stopped else "failed", sentence, {})
            raise
        damaged = f"damaged, made again: {'; '.join(report.damaged)}" if report.damaged else ""
        said = [damaged or ("" if report.changed else "nothing has changed"), report.pin_sentence]
        sentence = "; ".join(filter(None, said))
        self._end("published" if report.changed else "unchanged", sentence, report.counts)

    def _end(self, outcome: Outcome, sentence: str, counts: Mapping[str, int]) -> None:
        try:
            version = versions.current_version(self._folder) or 0
        except errors.ManifestMismatchError:
            version = 0
        ended = {
            "outcome": outcome,
            "sentence": errors.redact(sentence)[:SENTENCE_CHARACTERS],
            "seconds": round(time.perf_counter() - self._clock, 3),
            "version": version,
            "published": self.report.version if outcome == "published" else 0,
            "counts": dict(counts),
            "stages": self._stages,
            "cached": self._cached,
            "peak_memory_mb": peak_rss_mb(),
        }
        if self._begun is not None:
            end_run(self._folder, self._begun.model_copy(update=ended))
        else:
            begin_run(self._folder, lambda number: self._first(number).model_copy(update=ended))

    def _first(self, number: int) -> RunRecord:
        request = self.request
        return RunRecord(
            run=number,
            started=self._started,
            started_by=starter(request.flow_run_id, request.flow_run_url),
            polyhop=VERSION,
            source=str(request.source) if request.source is not None else "",
        )


def with_kept(settings: Settings, manifest: Manifest | None, index: IndexFolder) -> Settings:
    """The settings of this run: what an index is made of stays as in the version before unless they say otherwise.

    That is the language, the extractor, who bears a name, the encoder, and what hubs are: a later run without them
    would quietly make another index. Where versions were pulled from a store, what they name outside of themselves (an
    encoder's server or folder, a file of extractions) counts only if the settings name it, too.
    """
    if manifest is None:
        return settings
    made_of: dict[str, SettingsSection] = {}
    for name, fields in settings_with(KEPT).items():
        section = getattr(settings, name)
        if not isinstance(section, SettingsSection) or name == "encoder":
            continue
        stored = stored_section(type(section), manifest.settings.get(name, {}))
        kept = stored.model_dump(include=set(fields), exclude=section.model_fields_set)
        if str(kept.get("extractor", "")).startswith("import:") and index.pull_marker.exists():
            raise errors.ConfigurationError(
                f"Index '{index.name}' was pulled from a store and names extraction.extractor={kept['extractor']}, "
                "which your settings do not; set extraction.extractor to that file or to another extractor."
            )
        made_of[name] = section.model_copy(update=kept)
    encoder = settings.encoder
    before = stored_section(EncoderSettings, manifest.settings.get("encoder", {}))
    if "name" not in encoder.model_fields_set or encoder.name == before.name:
        # The encoder of the version before, with the settings that are given now.
        address = "" if errors.MASK in before.api_base else before.api_base
        for name in (before.name, "" if "entities" in encoder.model_fields_set else before.entities):
            require_named_encoder(settings, index, EncoderRecord(name=name or LOCAL, api_base=address))
        chosen: dict[str, object] = before.choice.model_dump(exclude=encoder.model_fields_set)
        if "entities" not in encoder.model_fields_set:
            chosen["entities"] = before.entities
        # a manifest holds no password, and a pulled one decides no address
        if not address or index.pull_marker.exists():
            chosen.pop("api_base", None)
        made_of["encoder"] = encoder.model_copy(update=chosen)
    return settings.model_copy(update=made_of)


_RAW_ROWS = ("mentions", "relations", "propositions", "triples")


def run_index(settings: Settings, request: IndexRequest, runner: DirectRunner) -> IndexReport:
    """Indexes a corpus; does nothing if nothing has changed. Also retries an earlier failed push."""
    folder, report = Layout(settings.root).index(request.index), IndexReport(index=request.index)
    history = RunHistory(folder, request, report)
    with span("polyhop.index", {"polyhop.index": request.index}), history.recorded():
        check_sources(request)
        wanted = tuple(sorted(needed_artefacts((*settings.strategies, *request.add_strategies))))
        build = Build(settings, request.index, request.source, wanted, graph_sources=request.graph_sources)
        lease = versions.writer_lease(folder.lease, folder.name, wait_seconds=request.wait_seconds, on_wait=runner.note)
        with writing(f"index '{request.index}'", folder.path), lease, model_run(runner.note, request.index):
            history.begin()
            take_in_batches(settings, runner, history)
            left = versions.remove_leftovers(folder)
            is_after_kill = bool(left) or was_killed(folder)
            _IndexRun(build, runner, history, is_after_kill=is_after_kill).run()
            report.removed_versions = [*left, *report.removed_versions]
            report.model, report.pinned = model_use(), versions.pinned_version(folder)
    if settings.index.remote and report.pinned is None:  # also what a run before failed to push
        moved = push_version(
            Layout(settings.root), request.index, settings.index.remote, key_file=settings.index.key_file
        )
        runner.note(f"Pushed {moved}")
    return report


def take_in_batches(settings: Settings, runner: DirectRunner, history: RunHistory) -> None:
    """Collects the batches that earlier runs submitted; the history shows it as its own stage.

    Raises:
        WaitingError: If replies that this index waits for are not there yet.
    """
    batches = open_batches(settings)
    if batches is None:
        return
    batches.forget_wanted()
    if batches.are_open:
        with history.stage("batches"):
            waiting = runner.step("replies of batches", batches.take_in)
        if waiting is not None:
            raise waiting


LONGEST_POLL_SECONDS = 60.0  # chosen: negligible compared with a wait of minutes to hours, and a look costs nothing


def wait_for_batches(settings: Settings, index: str) -> None:
    """Looks at the batches that an index waits for, ever less often, until a run would go on; holds nothing open."""
    pause = 1.0
    while True:
        with model_run(None, index):
            batches = open_batches(settings)
            if batches is None or batches.has_news():
                return
        time.sleep(pause)
        pause = min(1.5 * pause, LONGEST_POLL_SECONDS)


class _IndexRun:
    """One run: what it knows of the current version, and what it reports."""

    def __init__(self, build: Build, runner: DirectRunner, history: RunHistory, *, is_after_kill: bool) -> None:
        request, report = history.request, history.report
        manifest = latest_manifest(build)
        kept = manifest.artefacts if manifest else ()
        kind = request.stated_kind or (source_kind(manifest.stages) if manifest else "corpus")
        artefacts = tuple(sorted({*build.artefacts, *kept, *needed_artefacts(strategies_for(build.settings, kind))}))
        before = manifest.settings.get("strategies") if manifest else None
        own = (*(before if isinstance(before, list) else ()), *strategies_for(build.settings, kind))
        strategies = tuple(dict.fromkeys((*own, *request.add_strategies)))
        settings = with_kept(build.settings, manifest, build.folder).model_copy(update={"strategies": strategies})
        damage = find_damage(build.folder, build.folder.version(manifest.version), manifest) if manifest else Damage()
        build = replace(build, settings=settings, artefacts=artefacts, source_kind=kind)
        build = with_sources(build, request, manifest, damage.arrays)
        if manifest and not request.full:
            build = build.with_earlier(manifest, damage.arrays, damage.tables)
        self._build, self._manifest, self._damage = build, manifest, damage
        self._source, *self._stages = stages_for(artefacts, kind)
        self._timings_before = stage_timings(build.folder, manifest.version) if manifest else {}
        self._request, self._runner, self._history, self._report = request, runner, history, report
        self._is_after_kill = is_after_kill
        report.damaged = damage.sentences()
        is_typed = gives_types(settings, artefacts) or settings.extraction.extractor != "rules"
        report.lacks_types = kind == "corpus" and "graph" in artefacts and not is_typed

    def run(self) -> None:
        """The source, then every other stage, then publish; a stage that the current version holds is taken over."""
        self._ingest()
        is_done = False
        while not is_done:
            # The first stages whose results the current version holds, and those whose part files the next one reads.
            known: list[str] = []
            needed: tuple[str, ...] = ()
            build = self._build
            for stage in self._stages:
                build = build.with_fingerprint(stage.name, stage.fingerprint(build))
                if not self._holds(stage, build):
                    needed = stage.reads_parts_of
                    break
                known.append(stage.name)
                build = stage.done(build.with_outcome(stage.name, self._require().stages[stage.name].outcome))
            if len(known) == len(self._stages) and self._is_known_source():
                self._unchanged(known)
                return
            is_done = self._derive(needed)
        extracted = dict(self._build.counts.get("extract", {}))
        failed = {
            stage: sum(count for name, count in counts.items() if name.startswith("failed_"))
            for stage, counts in self._build.counts.items()
        }
        self._report.failing = {stage: count for stage, count in failed.items() if count}
        self._report.extraction = {name: count for name, count in extracted.items() if name not in _RAW_ROWS}
        check_coverage(extracted, self._build.settings.min_coverage)
        if self._is_known_source() and self._failed_again():
            self._unchanged([])
        else:
            self._publish()

    def _require(self) -> Manifest:
        if self._manifest is None:
            build = self._build
            raise errors.UnknownIndexError(build.index, build.layout.index_names(), str(build.layout.root))
        return self._manifest

    def _record_to_keep(self, stage: Stage) -> StageRecord | None:
        if self._request.full or self._manifest is None:
            return None
        return self._manifest.stages.get(stage.name)

    def _holds(self, stage: Stage, build: Build) -> bool:
        """Returns whether the current version has the whole result of this stage with the same fingerprint."""
        record = self._record_to_keep(stage)
        if record is None or self._damage.concerns(stage.table_names, stage.arrays):
            return False
        return record.is_final and record.fingerprint == build.fingerprint(stage.name)

    def _is_known_source(self) -> bool:
        """Returns whether the current version was made of the source just read, at the same location, undamaged."""
        build, record = self._build, self._record_to_keep(self._source)
        if self._damage or record is None or is_elsewhere(build, self._require()):
            return False
        outcome = dict(build.outcomes).get(self._source.name, "")
        return (record.fingerprint, record.outcome) == (build.fingerprint(self._source.name), outcome)

    def _failed_again(self) -> bool:
        """Returns whether the failed units of all stages failed again."""
        build, records = self._build, self._require().stages
        return records.keys() == build.counts.keys() and all(
            records[name].fingerprint == build.fingerprint(name)
            and records[name].outcome == dict(build.outcomes).get(name, "")
            and records[name].counts == counts
            for name, counts in build.counts.items()
        )

    def _ingest(self) -> None:
        """Reads the source whole, because only that shows whether anything changed; without one, takes it over."""
        source, build = self._source, self._build
        with self._history.stage(source.name):
            stages = [source, *self._stages]
            start_build(build, tables_of(stages), [t for stage in stages for t in stage.updated_tables(build)])
            is_read = self._request.source is not None or build.reads_kept_only
            if is_read:
                unread: Counter[str] = Counter()
                units = 0
                for result in self._runner.batches(source, build, source.batches(build)):
                    unread.update(result.unread)
                    self._report.unread_files += result.unread_files
                    units += result.units
                counts = self._runner.step(f"{source.name} finish", partial(source.finish, build))
                self._runner.progress(source.name, units, units)
                self._report.unread = dict(unread)
            else:
                manifest = self._require()
                if self._damage.concerns(source.table_names, source.arrays):
                    option = "" if build.source_kind == "corpus" else f"--{build.source_kind} "
                    texts = f"--graph-sources {manifest.graph_sources} " if manifest.graph_sources else ""
                    command = f"polyhop index {option}{manifest.source or 'SOURCE'} {texts}--index {build.index}"
                    what = f"The {build.source_kind} in {build.folder.version(manifest.version).tables}"
                    raise errors.DamagedStoreError(what, build.index, command=command)
                reuse_tables(build, manifest, source.tables)
                reuse_arrays(build, manifest, source.arrays)
                counts = manifest.stages[source.name].counts
            self._ingested(counts)
        before, request = self._manifest, self._request
        is_guarded = before is not None and build.source is not None and not request.allows_deletions
        if before is not None and is_guarded and not (request.replaces and is_elsewhere(build, before)):
            check_deletions(self._build, before, self._damage)  # before anything is derived from it
        if not is_read:
            self._note_taken_over(source.name)

    def _ingested(self, counts: Counts) -> None:
        """Notes that the source is read, or some of its passages were set aside."""
        build = self._build.with_counts(self._source.name, counts)
        self._build = self._source.done(build.with_outcome(self._source.name, self._source.outcome(build)))

    def _derive(self, needed: tuple[str, ...]) -> bool:
        """Runs the stages; False if a rule failed on passages: they are in quarantine now, and all begins again."""
        ingested = self._build
        for stage in self._stages:
            self._build = build = self._build.with_fingerprint(stage.name, stage.fingerprint(self._build))
            if stage.name not in needed and self._holds(stage, build):
                self._take_over(stage)
                continue
            with self._history.stage(stage.name):
                units = self._run_batches(stage)
                faults = stage.faults(build)
                if not faults:
                    counts = self._runner.step(f"{stage.name} finish", partial(finish_or_wait, stage, build))
                    if counts is None:
                        self._wait(stage)
                    build = build.with_counts(stage.name, counts)
                    self._build = stage.done(build.with_outcome(stage.name, stage.outcome(build)))
            self._history.units(stage.name, units, self._report.computed.get(stage.name, 0))
            if faults:  # the result is that of a corpus without them (their titles may be names in others)
                self._build = ingested
                set_aside = partial(self._source.quarantine, ingested, faults)
                self._ingested(self._runner.step(f"{self._source.name} finish", set_aside))
                return False
        return True

    def _run_batches(self, stage: Stage) -> int:
        """Does the batches that are still to do; returns how many units they hold, with those that need none."""
        numbers = stage.batches(self._build)
        size = self._build.settings.batch_size
        units = stage.kept(self._build)
        is_counted = bool(units or numbers)
        computed = 0
        self._runner.progress(stage.name, units, units + size * len(numbers))
        waits = False
        for done, result in enumerate(self._runner.batches(stage, self._build, numbers), start=1):
            waits |= result.waits
            units += result.units
            computed += result.computed
            # a batch that is still to do may be a short one: until the last, the total is an upper bound
            self._runner.progress(stage.name, units, units + size * (len(numbers) - done))
        if is_counted:
            self._report.computed[stage.name] = computed
        if waits:
            self._wait(stage)
        return units

    def _wait(self, stage: Stage) -> NoReturn:
        """Submits what a stage wants of a model, and ends the run."""
        batches = open_batches(self._build.settings)
        if batches is None:
            raise ValueError(f"stage {stage.name} waits for batches, but no batch client is open")
        raise self._runner.step(f"{stage.name} submission", batches.submit)

    def _take_over(self, stage: Stage) -> None:
        manifest = self._require()
        record = manifest.stages[stage.name]
        with self._history.stage(stage.name):
            reuse_tables(self._build, manifest, stage.tables, stage.rows)
            reuse_arrays(self._build, manifest, stage.arrays)
        build = self._build.with_outcome(stage.name, record.outcome).with_counts(stage.name, record.counts)
        self._build = stage.done(build)
        self._report.reused.append(stage.name)
        self._note_taken_over(stage.name)

    def _note_taken_over(self, stage: str) -> None:
        known = self._timings_before.get(stage)
        self._history.units(stage, known.units if known else 0, 0, is_taken_over=True)

    def _unchanged(self, known: list[str]) -> None:
        clear_staging(self._build)
        self._report.removed_versions = tidy(self._build, is_after_kill=self._is_after_kill)
        self._describe(self._require())
        self._report.reused.extend(name for name in known if name not in self._report.reused)

    def _publish(self) -> None:
        # Vectors that must not be copied from the current version: all in a full run, else those with damage.
        distrusted = tuple(self._damage.vectors)
        if self._request.full and self._manifest is not None:
            distrusted = tuple(self._manifest.vectors) or distrusted
        build = replace(self._build, distrusted=distrusted)
        with self._history.stage("publish"):
            finish = partial(publish, build, [self._source, *self._stages])
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


def check_coverage(extracted: Counts, min_coverage: float) -> None:
    """Refuses to publish if the share of units that a model succeeded on is below `min_coverage`."""
    failed = extracted.get("failed_units", 0)
    total = failed + extracted.get("extracted_units", 0)
    if total and (total - failed) / total < min_coverage:
        raise errors.CoverageError(
            f"The model extracted {total - failed:,} of {total:,} units, fewer than min_coverage = {min_coverage} asks "
            "for; nothing was published. Run again to retry the others (what succeeded is not paid for twice), "
            "or lower min_coverage."
        )


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")
UNNAMED = "corpus"  # the name of a source whose path has none that can be one


def check_sources(request: IndexRequest) -> None:
    """Makes sure that files exist, a source's name can be one, and options about a source go with one."""
    source, texts = request.source, request.graph_sources
    for path in (source, texts):
        if isinstance(path, Path):
            _require_file(path)
    if isinstance(source, GraphServer) and request.kind == "corpus":
        raise errors.SourceError(f"{source} is a graph database, not a corpus; name it with --graph (kind: graph).")
    if texts is not None and (source is None or request.kind == "corpus"):
        raise errors.SourceError(
            f"{texts} holds texts for the nodes of a knowledge graph; name the graph, too (--graph)."
        )
    if request.source_name and not _NAME.fullmatch(request.source_name):
        raise errors.ConfigurationError(
            f"'{request.source_name}' is not a name for a source; use letters, digits, '.', '_' and '-', and begin "
            "with a letter or digit."
        )
    if source is None and (request.is_partial or request.source_name or request.replaces):
        raise errors.SourceError("--partial, --source-name and --replace need a SOURCE.")
    if request.is_partial and request.replaces:
        raise errors.SourceError("--partial and --replace exclude each other; leave out one.")
    if request.removed_source and (source is not None or request.kind is not None):
        raise errors.SourceError("--remove-source reads nothing; leave out SOURCE.")


def _require_file(path: Path) -> None:
    """Refuses a file or folder that does not exist or cannot be looked at."""
    try:
        is_there = path.exists()
    except PermissionError as error:
        raise errors.SourceError(
            f"{path} cannot be read: permission denied; allow reading it and its folders."
        ) from error
    if not is_there:
        raise missing_file(path, "check the path and whether its disk is mounted. No record was deleted.")


def known_request(settings: Settings, index: str, name: str = "") -> IndexRequest | None:
    """Builds a request that reads an index's last full source again; None if it is unknown.

    Raises:
        SourceError: If there are several sources and no name, or if other people's manifests name them (a pull).
    """
    folder = Layout(settings.root).index(index)
    number = versions.latest_version(folder)
    if number is None:
        return None
    if folder.pull_marker.exists():
        raise errors.SourceError(
            f"Index '{index}' was pulled from a store, whose manifests do not decide which files are read here; pass "
            "SOURCE."
        )
    manifest = versions.read_manifest(folder.version(number))
    if source_kind(manifest.stages) == "graph":
        texts = Path(manifest.graph_sources) if manifest.graph_sources else None
        return IndexRequest(index, source_of(manifest.source), kind="graph", graph_sources=texts)
    if not manifest.sources:
        return IndexRequest(index, Path(manifest.source)) if manifest.source else None
    read = sorted(manifest.sources.keys() - {INBOX}) or [INBOX]  # what was added by calls lies nowhere else
    if not name and len(read) > 1:
        raise errors.SourceError(
            f"Index '{index}' has the sources {', '.join(read)}; choose one with --source-name, or pass SOURCE."
        )
    chosen = name or read[0]
    if chosen not in manifest.sources or not manifest.sources[chosen].location:
        raise errors.SourceError(f"Index '{index}' has no recorded location for source '{chosen}'; pass SOURCE.")
    return IndexRequest(index, Path(manifest.sources[chosen].location), kind="corpus", source_name=chosen)


def with_sources(build: Build, request: IndexRequest, manifest: Manifest | None, damaged: Collection[str]) -> Build:
    """The build, knowing which source it reads and whose records it takes from the current version."""
    if request.removed_source:
        return _without(build, request.removed_source, manifest, damaged)
    if request.source is None:
        return build
    if build.source_kind == "graph" and (request.is_partial or request.source_name):
        raise errors.SourceError(
            "A knowledge graph is read whole, and an index has one: its statements have no ids that a later file "
            "could change or delete. Leave out --partial and --source-name."
        )
    known: Mapping[str, SourceState] = {}
    if manifest is not None and {build.source_kind, source_kind(manifest.stages)} == {"corpus"}:
        known = manifest.sources
        if not known and (request.is_partial or request.source_name):
            raise errors.SourceError(
                f"Version {manifest.version} of index '{build.index}' was published by a Polyhop that kept no records "
                "of its source; index the whole source once without --partial and --source-name."
            )
    if manifest is not None and not request.replaces and not _is_unnamed_source(build, manifest):
        raise errors.LossRefusedError(
            f"{build.source} is not what index '{build.index}' was made from ({manifest.source}), and would replace "
            "it; confirm with --replace, or name another index."
        )
    if build.source_kind == "graph":
        return build
    if request.is_partial:
        name, replaced = request.source_name or _meant(build, known), ""
    else:
        name, replaced = _read_whole(build, request, known)
    others = [other for other in sorted(known) if other != replaced and (other != name or request.is_partial)]
    kept = tuple(_kept(build, manifest, other, damaged) for other in others) if manifest is not None else ()
    return replace(build, source_name=name, is_partial=request.is_partial, kept=kept)


def _without(build: Build, name: str, manifest: Manifest | None, damaged: Collection[str]) -> Build:
    """The build that takes the records of all sources but one."""
    if manifest is None:
        raise errors.UnknownIndexError(build.index, build.layout.index_names(), str(build.layout.root))
    if name not in manifest.sources:
        has = f"has the sources {', '.join(sorted(manifest.sources))}" if manifest.sources else "has no named sources"
        raise errors.SourceError(f"Index '{build.index}' {has}, and none called '{name}'.")
    others = sorted(manifest.sources.keys() - {name})
    if not others:
        raise errors.SourceError(
            f"'{name}' is the only source of index '{build.index}', so removing it would empty the index; to delete "
            "the index, delete its folder."
        )
    kept = tuple(_kept(build, manifest, other, damaged) for other in others)
    return replace(build, source_name="", kept=kept)


def is_elsewhere(build: Build, manifest: Manifest) -> bool:
    """Returns whether the source is read in full from another location than the version records."""
    if build.source is None or build.is_partial:
        return False
    if build.source_kind == "graph" or not manifest.sources:
        return not _is_unnamed_source(build, manifest)
    state = manifest.sources.get(build.source_name)
    return state is None or not _is_location(state.location, build.source)


def _is_unnamed_source(build: Build, manifest: Manifest) -> bool:
    """Returns whether the source is the one of a graph index, or of a version that stored no names of sources."""
    kind = source_kind(manifest.stages)
    if not manifest.source or (kind == build.source_kind == "corpus" and manifest.sources):
        return True  # unknown, or sources have names
    texts = build.graph_sources
    has_other_texts = texts is not None and manifest.graph_sources and not _is_location(manifest.graph_sources, texts)
    return kind == build.source_kind and _is_location(manifest.source, build.source) and not has_other_texts


def _is_location(location: str, source: Source | None) -> bool:
    """Returns whether two sources have the same location, by path or through links."""
    known = source_of(location)
    if not location or source is None or source_location(known) == source_location(source):
        return bool(location) and source is not None
    return isinstance(known, Path) and isinstance(source, Path) and known.resolve() == source.resolve()


def _read_whole(build: Build, request: IndexRequest, known: Mapping[str, SourceState]) -> tuple[str, str]:
    """The name of the source that is read as a whole, and that of another one that it replaces ("": none)."""
    there = [name for name, state in known.items() if _is_location(state.location, build.source)]
    asked = request.source_name
    if not known or asked in known or (asked and not there and not request.replaces):
        return asked or source_name(build.source), ""
    if len(there) == 1 and not asked:
        return there[0], ""
    replaced = there or list(known)
    if not request.replaces and (asked or not there):
        if there:
            raise errors.LossRefusedError(
                f"{build.source} is source '{there[0]}' of index '{build.index}' already; leave out --source-name "
                f"{asked} to read it again, or add --replace to give it that name."
            )
        listed = [f"'{name}' ({state.location or 'only read in part'})" for name, state in sorted(known.items())]
        replace = "--source-name NAME --replace replaces source NAME and deletes its records"
        if len(known) == 1:
            replace = f"--replace replaces '{next(iter(known))}' and deletes its records"
        raise errors.LossRefusedError(
            f"{build.source} is not a source of index '{build.index}', which has {', '.join(listed)}. Nothing was "
            f"read: --source-name NEW adds it as another source, {replace}."
        )
    if len(replaced) > 1:
        raise errors.SourceError(
            f"Index '{build.index}' has the sources {', '.join(sorted(known))}; choose with --source-name which of "
            f"them {build.source} replaces."
        )
    return asked or source_name(build.source), replaced[0]


def _meant(build: Build, known: Mapping[str, SourceState]) -> str:
    """The source that a partial one adds to: read from its path before, or called like its file; else the only one."""
    read_there = [name for name, state in known.items() if _is_location(state.location, build.source)]
    named = source_name(build.source)
    if len(read_there) == 1 or named in known:
        return read_there[0] if len(read_there) == 1 else named
    if len(known) > 1:
        raise errors.SourceError(
            f"Index '{build.index}' has the sources {', '.join(sorted(known))}, and none of them was read from "
            f"{build.source} before; say which it is, or name a new one, with --source-name."
        )
    return next(iter(known), named)


def source_name(source: object) -> str:
    """The name of an index's first source by default: that of its file or folder, up to the first dot."""
    path = source.resolve() if isinstance(source, Path) else Path()
    name = _NOT_IN_A_NAME.sub("-", path.name.lstrip(".").partition(".")[0]).strip("-._")[:100]
    return name if _NAME.fullmatch(name) else UNNAMED


def _kept(build: Build, manifest: Manifest, name: str, damaged: Collection[str]) -> KeptSource:
    files = kept_files(name)
    if any(file in damaged or file not in manifest.arrays for file in files):
        where = manifest.sources[name].location or "SOURCE"
        raise errors.DamagedStoreError(
            f"The records of source '{name}' in {build.folder.version(manifest.version).arrays}",
            build.index,
            command=f"polyhop index {where} --source-name {name} --index {build.index}",
        )
    records, refused = (build.folder.version(manifest.version).arrays / file for file in files)
    return KeptSource(name, records, refused)
