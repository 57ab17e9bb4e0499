"""The flows that change or check an index on Prefect: index, export, maintain and verify, each step a task run."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from prefect import flow, get_run_logger, runtime
from prefect.client.schemas.objects import State
from prefect.states import Completed
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from polyhop.flows import prefect_run as runs
from polyhop.flows import reports
from polyhop.flows.export import ExportReport, run_export
from polyhop.flows.index import run_index
from polyhop.flows.maintain import repair as repair_stores
from polyhop.flows.maintain import run_maintenance, run_verify
from polyhop.flows.runner import (
    BatchWork,
    DaskPool,
    DirectRunner,
    Pool,
    batch_pool,
    do_on_worker,
    fetched,
    portable_work,
)
from polyhop.schemas.errors import StoreError, WaitingError, has_secret
from polyhop.schemas.records import Address, source_of
from polyhop.schemas.requests import IndexRequest, MaintenanceRequest
from polyhop.schemas.settings import Settings
from polyhop.schemas.text import plural
from polyhop.tasks.stage import BatchResult, Stage, run_or_wait
from polyhop.warehouse.build import Build
from polyhop.warehouse.open import find_address

T = TypeVar("T")
LONGEST_WAIT_SECONDS = 30 * 24 * 3600.0  # for "as long as it takes": JSON, which carries parameters, has no infinity


def _do_group(
    do_batch: Callable[[int], BatchResult], group: list[int], done: dict[int, BatchResult]
) -> list[BatchResult]:
    """Does the batches of one task run; a retry leaves out those that are done."""
    for number in group:
        if number not in done:
            done[number] = do_batch(number)
    return [done[number] for number in group]


def _do_on_worker(work: BatchWork, threads: int, number: int) -> BatchResult:
    with runs.clean_run():  # in the Dask worker, which runs the task
        return do_on_worker(work, number, threads)


class PrefectRunner(DirectRunner):
    """Runs steps, and groups of a stage's batches, as Prefect task runs.

    Of a stage there are at most `TASK_RUNS` groups, or two per process of the pool if those are more.
    """

    def __init__(self, index: str, pool: Pool | None = None) -> None:
        super().__init__(pool=pool)
        self._index = index
        self._progress: dict[str, runs.Progress] = {}
        self._units: dict[str, str] = {}
        self._is_group_done = True

    def batches(self, stage: Stage, build: Build, numbers: list[int]) -> Iterator[BatchResult]:
        """One task run per group of batches, yielding their results in order; with a pool several at once.

        Threads wait for our processes and not Prefect's own pool of processes, which one that is killed would end.
        """
        self._units[stage.name] = stage.unit
        pool = self.pool_for(stage, build, numbers)
        size = max(1, -(-len(numbers) // max(runs.TASK_RUNS, 2 * pool.width if pool else 0)))
        groups = [numbers[first : first + size] for first in range(0, len(numbers), size)]
        words = [
            f"{stage.name} batch {g[0]}" if len(g) == 1 else f"{stage.name} batches {g[0]} to {g[-1]}" for g in groups
        ]
        if pool is None:
            for name, group in zip(words, groups, strict=True):
                run = partial(_do_group, partial(run_or_wait, stage, build), group, {})
                for number, result in zip(group, runs.run_step(name, run, stage.name), strict=True):
                    self._is_group_done = number == group[-1]
                    yield result
            return
        work = pool.prepared(portable_work(stage, build))
        runner: TaskRunner[Any] = ThreadPoolTaskRunner(max_workers=pool.width)
        do_batch = partial(pool.run, work)
        if isinstance(pool, DaskPool):
            from prefect_dask.task_runners import DaskTaskRunner

            runner, do_batch = DaskTaskRunner(address=pool.address), partial(_do_on_worker, work, pool.threads)
        steps = [partial(_do_group, do_batch, group, {}) for group in groups]
        tasks = [runs.as_task(name, run, stage.name) for name, run in zip(words, steps, strict=True)]
        try:
            with runner as started:
                for future in [started.submit(each, {}) for each in tasks]:
                    yield from (fetched(build, result) for result in future.result())
        except pool.losses as error:
            raise work.given_up() from error

    def step(self, name: str, run: Callable[[], T]) -> T:
        """One task run."""
        return runs.run_step(name, run)

    def progress(self, stage: str, done: int, total: int) -> None:
        """A progress artifact per index and stage that has batches, in units of what the batches hold."""
        if not done or not self._is_group_done:  # batches of a group are done together, and said together
            return
        if " " in stage:  # a step, which is a task run
            return
        units = self._units.get(stage, "units")
        of = f"{total:,}" if done == total else f"at most {total:,}"  # a batch to come may be a short one
        get_run_logger().info("%s: %s of %s %s", stage, f"{done:,}", of, units)
        if stage not in self._progress and done == total:
            return  # done before anybody could watch
        progress = self._progress.setdefault(
            stage, runs.Progress(runs.artifact_key("index", self._index, "progress", stage))
        )
        progress.update(done, total, f"{units} of stage {stage}")

    def note(self, line: str) -> None:
        """A line of the flow run's log."""
        get_run_logger().info(line)


@flow(name="index", flow_run_name=runs.started_name("index", "index", "source_name"), persist_result=False)
def index_flow(  # noqa: PLR0913, PLR0917 - fields of a form on the dashboard
    index: str,
    source: str | None = None,
    kind: Literal["corpus", "graph"] | None = None,
    graph_sources: str | None = None,
    add_strategies: list[runs.StrategyName] | None = None,
    full: bool = False,  # noqa: FBT001, FBT002 - a form field on the dashboard
    extractor: str | None = None,
    partial: bool = False,  # noqa: FBT001, FBT002 - a form field on the dashboard
    source_name: str = "",
    wait_seconds: float = 0.0,
    remove_source: str = "",
    replace: bool = False,  # noqa: FBT001, FBT002 - a form field on the dashboard
    allow_deletions: bool = False,  # noqa: FBT001, FBT002 - a form field on the dashboard
    settings: dict[str, Any] | None = None,
) -> dict[str, Any] | State[Any]:
    """Index a corpus or a knowledge graph: documents or triples in, published version out.

    A run that waits for batches of a model's provider ends in the state Waiting; the next one goes on.

    Args:
        index: Name of the index.
        source: Corpus file or folder, graph file, or address of a Neo4j database (neo4j://HOST:7687; NEO4J_USER and
            NEO4J_PASSWORD are set where the flow runs); empty to build on the current version's source.
        kind: What the source is; empty for what the index was made from, a corpus if it is new.
        graph_sources: File of texts for the nodes of the graph; empty for none.
        add_strategies: Strategies to build for besides the configured ones.
        full: Derive every stage again.
        extractor: rules, model or import:FILE; empty to keep the index's own, or what the settings say.
        partial: The source only adds and changes; records that it does not mention stay.
        source_name: Which of the index's sources it is, or a new one; empty for the one that was read from there.
        wait_seconds: How long to wait while another process writes the index; 0: fail and say who does.
        remove_source: Name of a source that goes, with its records; then nothing is read. Empty for none.
        replace: The source replaces the index's only one, or the one that source_name names.
        allow_deletions: More than 30 % of a source's records may be deleted.
        settings: Settings by dotted name, over polyhop.toml and the environment.
    """
    given = (settings or {}) | ({"extraction.extractor": extractor} if extractor else {})
    with runs.flow_body("incremental", index, given) as (chosen, _):
        request = IndexRequest(
            index,
            source_of(source) if source else None,
            tuple(add_strategies or ()),
            full,
            kind,
            Path(graph_sources) if graph_sources else None,
            source_name,
            partial,
            wait_seconds,
            flow_run_id=runtime.flow_run.id or "",
            flow_run_url=runtime.flow_run.ui_url or "",
            removed_source=remove_source,
            replaces=replace,
            allows_deletions=allow_deletions,
        )
        before = reports.counts_of_current(chosen, index)
        try:
            with batch_pool(chosen) as pool:
                report = run_index(chosen, request, PrefectRunner(index, pool))
        except WaitingError as waiting:
            return _show_waiting(index, waiting)
        _show(chosen, before, report, source_name)
        return report.to_json()


def _show(settings: Settings, before: dict[str, int], report: reports.IndexReport, source_name: str) -> None:
    """Reports a run: a log line, its name, artifacts and events; only a summary for an unchanged index."""
    key = partial(runs.artifact_key, "index", report.index)
    said = reports.headline(report)
    get_run_logger().info("index %s: %s", report.index, said)
    version = f"{'' if report.changed else 'unchanged '}v{report.version}"
    pinned = f"v{report.pinned} pinned" if report.pinned else ""
    runs.rename_run("index", report.index, version, pinned, *source_name.split())
    runs.show_text(key("summary"), reports.summary_lines(settings, report), said)
    if report.changed:
        stages = [
            {"stage": stage, "seconds": round(seconds, 2), "computed": report.computed.get(stage, 0)}
            | {"reused": stage in report.reused}
            for stage, seconds in report.seconds.items()
        ]
        runs.show_table(key("stages"), stages, f"Stages of version {report.version}")
        changed = f"Version {report.version}: {reports.changed_records(report)}"
        runs.show_text(key("changes"), reports.change_lines(settings, before, report), changed)
        runs.show_table(
            key("coverage"), reports.coverage_rows(settings, report), f"What version {report.version} covers"
        )
        runs.show_table(key("quarantine"), reports.quarantine_rows(settings, report), "Records that could not be used")
        runs.emit(runs.PUBLISHED, "index", report.index, reports.published_payload(settings, report))
    runs.show_table(key("cost"), reports.cost_rows(report), "Use of language models")
    about: dict[str, Any] = {"index": report.index, "version": report.version}
    failed, quarantined = sum(report.failing.values()), report.counts.get("quarantined", 0)
    if failed or (quarantined and report.changed):
        missing = {"failed_units": failed, "failing": report.failing, "quarantined": quarantined}
        runs.emit(runs.GAPS, "index", report.index, {**about, **missing, "extraction": report.extraction})


def _show_waiting(index: str, waiting: WaitingError) -> State[Any]:
    """The end of a run that holds nothing open: a name, an artifact, an event, and a state that is no failure."""
    said = str(waiting)
    runs.rename_run("index", index, "waiting")
    runs.show_text(runs.artifact_key("index", index, "waiting"), [f"# {index} waits for a model", "", said], said)
    runs.emit(runs.WAITING, "index", index, {"index": index, "requests": waiting.requests, "reason": said})
    return Completed(name="Waiting", message=said, data={"waiting": said, "requests": waiting.requests})


def run_on_prefect(settings: Settings, request: IndexRequest) -> reports.IndexReport:
    """Runs the flow in this process against the configured Prefect server and returns its report."""
    document: Any = runs.run_flow(
        index_flow,
        index=request.index,
        source=str(request.source) if request.source else None,
        kind=request.kind,
        graph_sources=str(request.graph_sources) if request.graph_sources else None,
        add_strategies=list(request.add_strategies),
        full=request.full,
        partial=request.is_partial,
        source_name=request.source_name,
        wait_seconds=min(request.wait_seconds, LONGEST_WAIT_SECONDS),
        remove_source=request.removed_source,
        replace=request.replaces,
        allow_deletions=request.allows_deletions,
        settings=runs.flow_settings(settings),
    )
    if "waiting" in document:
        raise WaitingError(document["waiting"], document["requests"])
    return reports.IndexReport.from_json(document)


@flow(name="export", flow_run_name=runs.started_name("export", "index"), persist_result=False)
def export_flow(
    index: str,
    uri: str | None = None,
    user: str | None = None,
    database: str | None = None,
    settings: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Export to Neo4j: published version in, database that holds it out."""
    with runs.flow_body("export", index, settings, uri=uri or "") as (chosen, log):
        report = run_export(chosen, index, find_address(uri, user, None, database), PrefectRunner(index))
        written = f"{report.created:,} created, {report.updated:,} updated, {report.deleted:,} deleted"
        lines = [f"# Neo4j holds version {report.version} of {index}", "", written, ""]
        lines += [f"* {name.replace('_', ' ')}: {count:,}" for name, count in report.counts.items()]
        log.info("Neo4j holds version %d of %s: %s", report.version, index, written)
        runs.rename_run("export", index, f"v{report.version}")
        runs.show_text(runs.artifact_key("export", index), lines, written)
        return {**report.to_json(), "seconds": dict(report.seconds)}


def run_export_on_prefect(settings: Settings, index: str, address: Address) -> ExportReport:
    """Runs the flow in this process against the configured Prefect server and returns its report."""
    os.environ["NEO4J_URI"], os.environ["NEO4J_PASSWORD"] = address.uri, address.password
    document = runs.run_flow(
        export_flow,
        index=index,
        uri=None if has_secret(address.uri) else address.uri,
        user=address.user,
        database=address.database,
        settings=runs.flow_settings(settings),
    )
    return ExportReport(**document)


@flow(name="maintain", flow_run_name=runs.started_name("maintain", "index"), persist_result=False)
def maintain_flow(
    index: str | None = None,
    dry_run: bool = False,  # noqa: FBT001, FBT002 - a form field on the dashboard
    queue_days: float | None = None,
    settings: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Maintenance: prune versions, free vectors, vacuum caches and queue, remove what killed runs left."""
    with runs.flow_body("maintenance", None, settings) as (chosen, log):
        request = MaintenanceRequest(index or None, dry_run, queue_days)
        report = runs.run_step("maintain", lambda: run_maintenance(chosen, request))
        for sentence in report.skipped:
            log.warning(sentence)
        versions = plural(sum(map(len, report.removed_versions.values())), "version")
        removed = ", ".join([versions, *(f"{count:,} {name}" for name, count in report.removed.items())])
        headline = f"{'Would remove' if report.dry_run else 'Removed'} {removed}"
        log.info(headline)
        rows = [
            {"part": part.part, "files before": part.before.files, "files after": part.after.files}
            | {"MB before": round(part.before.bytes / 1e6, 3), "MB after": round(part.after.bytes / 1e6, 3)}
            for part in report.parts
        ]
        runs.show_table("maintenance", rows, headline)
        return report.to_json()


@flow(name="verify", flow_run_name=runs.started_name("verify", "index"), persist_result=False)
def verify_flow(
    index: str,
    repair: bool = False,  # noqa: FBT001, FBT002 - a form field on the dashboard
    neo4j: bool = False,  # noqa: FBT001, FBT002
    settings: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Check that every file, table and vector of an index is as it was published."""
    with runs.flow_body("check", index, settings) as (chosen, log):
        address = find_address(None, None, None, None) if neo4j else None
        compare = partial(run_verify, chosen, index, address)
        report = runs.run_step("compare stores", compare)
        if repair and not report.ok:
            for sentence in report.sentences:
                log.warning("%s: %s", index, sentence)
            runs.run_step("repair stores", partial(repair_stores, chosen, report, address))
            report = runs.run_step("compare stores again", compare)
        runs.rename_run("verify", index, f"v{report.version}", "ok" if report.ok else "DIFFERS")
        said = "all stores match the published version" if report.ok else f"{len(report.sentences)} differences"
        lines = [f"# Index {index}, version {report.version}: {said}", ""]
        lines += [f"* {name.replace('_', ' ')}: {'; '.join(f) or 'ok'}" for name, f in report.differences.items()]
        runs.show_text(runs.artifact_key("verify", index), lines, said)
        log.info("index %s, version %d: %s", index, report.version, said)
        if not report.ok:
            raise StoreError(
                f"Index '{index}', version {report.version}: {report.sentences[0]}; "
                f"fix it with: polyhop verify --index {index} --repair"
            )
        return report.to_json()
