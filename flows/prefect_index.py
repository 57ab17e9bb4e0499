"""The index flow on Prefect: the same stages as index.py, each batch a task run, with artifacts.

A shell: decides nothing about stages; the only module besides its siblings `prefect_*.py` that imports prefect.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

from prefect import flow, get_run_logger, task
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.cache_policies import NO_CACHE

from polyhop.flows.batch_work import portable_work
from polyhop.flows.hub_coverage import hub_coverage
from polyhop.flows.index import run_index
from polyhop.flows.pools import Pool, batch_pool
from polyhop.flows.prefect_batches import run_as_tasks
from polyhop.flows.prefect_run import clean_run, flow_settings, run_flow
from polyhop.flows.reports import IndexReport
from polyhop.schemas.corpus import source_of
from polyhop.schemas.errors import PolyhopError
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.tasks.stage import BatchResult, Counts
from polyhop.warehouse.build import Build
from polyhop.warehouse.settings_file import load_settings

RETRIES = 3
RETRY_DELAY_SECONDS = [1.0, 5.0, 20.0]


def is_retryable(_task: Any, _run: Any, state: Any) -> bool:
    """Retry only what may be temporary: errors whose `retryable` is true."""
    try:
        state.result()
    except PolyhopError as error:
        return error.retryable
    except Exception:  # noqa: BLE001 - any other error is a defect or a refusal, and would only fail again
        return False
    return False


class PrefectRunner:
    """Runs each batch and each last step of a stage as a Prefect task run.

    Args:
        pool: Does the batches that other processes can do; None: this process does them.
    """

    def __init__(self, pool: Pool | None = None) -> None:
        self._pool = pool
        self._artifacts: dict[str, UUID] = {}

    def batches(
        self,
        stage: str,
        run: Callable[[Build, int], BatchResult],
        build: Build,
        numbers: list[int],
        *,
        is_portable: bool = False,
    ) -> Iterator[BatchResult]:
        """One task run per batch, in order."""
        if self._pool is not None and is_portable and len(numbers) > 1:
            yield from run_as_tasks(self._pool, portable_work(stage, run, build), numbers, is_retryable)
            return

        @task(
            name=stage,
            task_run_name=stage + " batch {number}",
            retries=RETRIES,
            retry_delay_seconds=RETRY_DELAY_SECONDS,
            retry_condition_fn=is_retryable,
            cache_policy=NO_CACHE,
            persist_result=False,
        )
        def run_batch(number: int) -> BatchResult:
            return run(build, number)

        for number in numbers:
            yield run_batch(number)

    def step(self, stage: str, run: Callable[[Build], Counts], build: Build) -> Counts:
        """One task run."""

        @task(
            name=f"{stage} finish",
            task_run_name=f"{stage} finish",
            retries=RETRIES,
            retry_delay_seconds=RETRY_DELAY_SECONDS,
            retry_condition_fn=is_retryable,
            cache_policy=NO_CACHE,
            persist_result=False,
        )
        def finish() -> Counts:
            return run(build)

        return finish()

    def progress(self, stage: str, done: int, total: int) -> None:
        """A progress artifact per stage that has batches."""
        if not total:
            return
        share = 100.0 * done / total
        if stage in self._artifacts:
            update_progress_artifact(self._artifacts[stage], progress=share)
        else:
            created = create_progress_artifact(share, key=f"progress-{stage}", description=f"Batches of stage {stage}")
            self._artifacts[stage] = created  # type: ignore[assignment]
        if done == total:
            get_run_logger().info("%s: %d of %d batches", stage, done, total)

    def note(self, line: str) -> None:
        """A line of the flow run's log."""
        get_run_logger().info(line)


@flow(name="index", flow_run_name="index {index}", persist_result=False)
def index_flow(
    index: str,
    source: str | None = None,
    kind: Literal["corpus", "graph"] | None = None,
    graph_sources: str | None = None,
    add_strategies: list[str] | None = None,
    full: bool = False,  # noqa: FBT001, FBT002 - a form field on the dashboard
    extractor: str | None = None,
    settings: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Index a corpus or a knowledge graph: documents or triples in, published version out.

    Args:
        index: Name of the index.
        source: Corpus file or folder, graph file, or address of a Neo4j database (neo4j://HOST:7687; NEO4J_USER and
            NEO4J_PASSWORD are set where the flow runs); empty to build on the current version's source.
        kind: What the source is; empty for what the index was made from, a corpus if it is new.
        graph_sources: File of texts for the nodes of the graph; empty for none.
        add_strategies: Strategies to build for besides the configured ones.
        full: Derive every stage again.
        extractor: rules, model or import:FILE; empty to keep the index's own, or what the settings say.
        settings: Settings by dotted name, over polyhop.toml and the environment.
    """
    with clean_run():
        chosen = load_settings((settings or {}) | ({"extraction.extractor": extractor} if extractor else {}))
        request = IndexRequest(
            index,
            source_of(source) if source else None,
            tuple(add_strategies or ()),
            full,
            kind,
            Path(graph_sources) if graph_sources else None,
        )
        with batch_pool(chosen) as pool:
            report = run_index(chosen, request, PrefectRunner(pool))
        publish_artifacts(report, hub_coverage(chosen, report))
        return report.to_json()


def publish_artifacts(report: IndexReport, coverage: list[dict[str, Any]]) -> None:
    """A table of stages, a summary in words and, if there are hubs, what they cover, on the dashboard."""
    rows = [
        {
            "stage": stage,
            "seconds": round(seconds, 2),
            "computed": report.computed.get(stage, 0),
            "reused": stage in report.reused,
        }
        for stage, seconds in report.seconds.items()
    ]
    create_table_artifact(rows, key=f"index-{_slug(report.index)}-stages", description="Stages of this run")
    changed = f"version {report.version} published" if report.changed else f"unchanged, version {report.version}"
    lines = [f"# Index {report.index}: {changed}", "", *(f"* {name}: {n:,}" for name, n in report.counts.items())]
    create_markdown_artifact("\n".join(lines), key=f"index-{_slug(report.index)}-summary", description=changed)
    if coverage:
        create_table_artifact(
            coverage, key=f"index-{_slug(report.index)}-hub-coverage", description="What of the graph hubs cover"
        )


def _slug(name: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in name.lower()).strip("-") or "index"


def run_on_prefect(settings: Settings, request: IndexRequest) -> IndexReport:
    """Runs the flow in this process against the configured Prefect server and returns its report.

    Raises:
        StoreUnavailableError: If the server does not answer.
    """
    document = run_flow(
        index_flow,
        index=request.index,
        source=str(request.source) if request.source else None,
        kind=request.kind,
        graph_sources=str(request.graph_sources) if request.graph_sources else None,
        add_strategies=list(request.add_strategies),
        full=request.full,
        settings=flow_settings(settings),
    )
    return IndexReport.from_json(document)
