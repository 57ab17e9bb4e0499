"""Deployments of an index: as data (prefect.yaml has the same, a test compares), and on a Prefect server.

They are registered or served with their schedules and automations. Each has a fixed name: made again, it replaces the
one of that name, and keeps whether people switched it on.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast
from uuid import UUID

import httpx
from prefect.automations import AutomationCore
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate, WorkPoolCreate
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy, StateType
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule
from prefect.deployments.runner import RunnerDeployment
from prefect.events.actions import ChangeFlowRunState, RunDeployment, SendNotification
from prefect.events.schemas.automations import EventTrigger, Posture
from prefect.exceptions import ObjectNotFound, TerminationSignal
from prefect.runner import Runner
from prefect.runner.storage import LocalStorage
from prefect.settings import PREFECT_API_URL, get_current_settings
from prefect.workers.process import ProcessWorker

from polyhop.flows import prefect_run as runs
from polyhop.schemas.errors import ConfigurationError, has_secret, nearest_name
from polyhop.schemas.records import SourceKind, source_of
from polyhop.schemas.settings import Settings
from polyhop.tasks.registry import source_kind
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.records import source_location
from polyhop.warehouse.files.versions import readable_manifest

FIRST_INDEX = "main"
AFTER_PUBLISH = ("export", "evaluation")  # kinds that can be started when a version is published
_INDEX, _ANSWER = "polyhop.flows.prefect_index", "polyhop.flows.prefect_answer"
SCHEDULED = ("incremental", "check", "evaluation", "maintenance")  # kinds that come with a schedule


@dataclass(frozen=True, slots=True)
class DeployedIndex:
    """An index to make deployments for; its source, kind and texts for nodes are as the flow `index` takes them.

    Without questions it is what the server has, or questions.jsonl; `sources` says where each of several is read.
    """

    name: str
    source: str = "corpus.jsonl"
    kind: SourceKind | None = None
    graph_sources: str | None = None
    questions: str | None = None
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Deployment:
    """A deployment; its kind is its tag, its parameters are the defaults of its form."""

    kind: str
    entrypoint: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    index: str | None = None  # The index that all its runs are about; None: of none.
    # When it runs once a schedule is switched on (UTC); None: when somebody or something starts it.
    cron: str | None = None
    # A schedule for each source by name, with its parameters over the form's; empty: one schedule.
    by_source: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # What happens to a run that would be the second at a time; None: any number at a time.
    collision: Literal["ENQUEUE", "CANCEL_NEW"] | None = None
    # Parameters that a further registration sets again; the others stay as people left them.
    fixed: tuple[str, ...] = ("index", "source", "kind", "graph_sources")

    @property
    def name(self) -> str:
        """Its name: that of the index first, so that lists keep the deployments of an index together."""
        return f"{self.index}-{self.kind}" if self.index else self.kind

    @property
    def description(self) -> str:
        """Description of the deployment's runs."""
        return DESCRIPTIONS[self.kind]

    @property
    def tags(self) -> list[str]:
        """Tags of the deployment and all its runs."""
        return runs.run_tags(self.kind, self.index)


DESCRIPTIONS: Mapping[str, str] = {
    "incremental": "Bring the index up to date with its source; without changes it takes seconds.",
    "check": "Compare every file, table and vector of the index with what was published; the run fails on any "
    "difference.",
    "export": "Make Neo4j hold the current version; NEO4J_URI and NEO4J_PASSWORD are set where it runs.",
    "answers": "Answer a file of questions; start it with the path of the file.",
    "evaluation": "Evaluate the strategies that the index was built for; the run fails where a gate does (fail_below, "
    "like bridge:recall@5=.65).",
    "maintenance": "Remove old versions, unreferenced vectors and leftovers of killed runs, of every index.",
    "worker": "Answer questions from queues until they are empty.",
}


def deployments(indexes: Iterable[DeployedIndex]) -> list[Deployment]:
    """Those of every index, and those that belong to none."""
    return [
        *(each for index in indexes for each in _of_index(index)),
        Deployment("maintenance", f"{_INDEX}.maintain_flow", cron="0 4 * * 0", collision="CANCEL_NEW"),
        Deployment("worker", f"{_ANSWER}.worker_flow", {"queues": "default"}),
    ]


def _of_index(index: DeployedIndex) -> list[Deployment]:
    """An index run waits for the one before it; a second check at the same time would find the same.

    Sources share one deployment, whose limit of one run at a time is that of the index; each has its own schedule.
    """
    name, to_index = index.name, {"index": index.name}
    questions = to_index | {"questions": index.questions or "questions.jsonl"}
    judged = questions | {"strategies": "own", "fail_below": []}
    fixed = ("index", "questions") if index.questions else ("index",)
    named = {"source": index.source, "kind": index.kind, "graph_sources": index.graph_sources}
    source = to_index | {key: value for key, value in named.items() if value} | {"wait_seconds": 600.0}
    by_source = {n: {"source": at, "source_name": n, "partial": False} for n, at in index.sources.items()}
    indexing, checking = f"{_INDEX}.index_flow", f"{_INDEX}.verify_flow"
    checked = to_index | {"repair": False}
    return [
        Deployment("incremental", indexing, source, name, "*/15 * * * *", by_source, "ENQUEUE"),
        Deployment("check", checking, checked, name, "0 2 * * *", collision="CANCEL_NEW"),
        Deployment("export", f"{_INDEX}.export_flow", to_index, name, collision="ENQUEUE"),
        Deployment("answers", f"{_ANSWER}.answer_flow", questions, name, fixed=fixed),
        Deployment("evaluation", f"{_ANSWER}.evaluate_flow", judged, name, "0 3 * * *", {}, "ENQUEUE", fixed),
    ]


def deployed_index(settings: Settings, name: str, source: str | None, questions: Path | None) -> DeployedIndex:
    """The index with its source; paths become absolute, because runs start in other folders.

    Without a source it is what the index was made from, without questions questions.jsonl in the folder of the call.
    """
    known = Layout(settings.root).index_names()
    if source is None and name not in known:
        nearest = nearest_name(name, known)
        hint = f" (did you mean '{nearest}'?)" if nearest else ""
        raise ConfigurationError(
            f"There is no index '{name}' under {settings.root}{hint}; make it first (polyhop index SOURCE --index "
            f"{name}), or name with --source what its first run is to read."
        )
    if source is not None and has_secret(source):
        raise ConfigurationError(
            "--source holds a password, and the Prefect server shows parameters to all its users; leave it out of the "
            "address and set NEO4J_USER and NEO4J_PASSWORD where the runs start."
        )
    found = DeployedIndex(name)
    folder = Layout(settings.root).index(name)
    manifest = None if folder.pull_marker.exists() else readable_manifest(folder)  # a store decides no source
    if source is not None:
        found = replace(found, source=_absolute(source))
    elif manifest is not None and manifest.source and not has_secret(manifest.source):
        found = replace(found, source=_absolute(manifest.source), kind=source_kind(manifest.stages))
        if manifest.graph_sources:
            found = replace(found, graph_sources=_absolute(manifest.graph_sources))
    if manifest is not None and len(manifest.sources) > 1:
        read = {name: state.location for name, state in sorted(manifest.sources.items()) if state.location}
        found = replace(found, sources={name: _absolute(location) for name, location in read.items()})
    return found if questions is None else replace(found, questions=_absolute(str(questions)))


def _absolute(source: str) -> str:
    return source_location(source_of(source))


def merged_schedules(
    deployment: Deployment, found: DeploymentResponse | None, *, is_on: bool = False
) -> list[DeploymentScheduleCreate]:
    """The schedules to register: all that the server has, as people left them, and those that it lacks.

    The schedule of a source is found by its slug, the source's name. The source's path, which may have moved, is set
    again unless somebody made it read another file in part.
    """
    names = ("schedule", "active", "max_scheduled_runs", "parameters", "slug")
    there = found.schedules if found is not None else []
    merged = [DeploymentScheduleCreate(**{name: getattr(each, name) for name in names}) for each in there]
    if deployment.cron:
        lacking: dict[str | None, Mapping[str, Any]] = {} if merged else {None: {}}
        if deployment.by_source:
            read_before = str(found.parameters.get("source", "")) if found is not None else ""
            merged = [_with_source(each, deployment.by_source, read_before) for each in merged]
            slugs = {each.slug for each in merged}
            lacking = {name: given for name, given in deployment.by_source.items() if name not in slugs}
        when = CronSchedule(cron=deployment.cron, timezone="UTC")
        merged += [
            DeploymentScheduleCreate(schedule=when, active=False, parameters=dict(given), slug=name)
            for name, given in lacking.items()
        ]
    return [each.model_copy(update={"active": True}) for each in merged] if is_on else merged


def _with_source(
    schedule: DeploymentScheduleCreate, by_source: Mapping[str, Mapping[str, Any]], read_before: str
) -> DeploymentScheduleCreate:
    """A schedule with its source's path; one of an index's only source becomes that of this source."""
    if schedule.slug in by_source:
        if schedule.parameters.get("partial"):
            return schedule
        given = by_source[str(schedule.slug)]
        return schedule.model_copy(update={"parameters": {**given, **schedule.parameters, "source": given["source"]}})
    if schedule.slug is None and not schedule.parameters:
        for name, given in by_source.items():
            if given["source"] == read_before:
                return schedule.model_copy(update={"slug": name, "parameters": dict(given)})
    return schedule


MISSED_HEARTBEATS = 3  # after so many a run is taken for dead; Prefect's own advice for its default of one in 180 s
_OURS: dict[str, Any] = {"prefect.resource.role": "tag", "prefect.resource.id": f"prefect.tag.{runs.TAG}"}
_RUNS: dict[str, Any] = {"prefect.resource.id": "prefect.flow-run.*"}
_RUN_BODY = (
    "Run {{ flow_run.name }} of {{ flow.name }} is {{ flow_run.state.name }}: {{ flow_run.state.message }}\n"
    "{{ flow_run|ui_url }}"
)
_EVENT_BODY = (
    "{{ event.event }} about {{ event.resource.name or event.resource.id }}:\n"
    "{% for name, value in event.payload.items() %}{{ name }}: {{ value }}\n{% endfor %}"
)


def make_automations(
    client: SyncPrefectClient,
    deployments: Mapping[str, Mapping[str, UUID]],
    notify: str,
    after_publish: Collection[str],
) -> list[str]:
    """Makes or replaces all automations; returns their names.

    Without a block to notify by, TYPE/NAME, those of before stay; kinds that are not to start after a publication have
    automations, too, which stay as people switched them.
    """
    wanted = _wanted(client, deployments, notify)
    for automation in wanted:
        is_asked_for = any(automation.name.startswith(f"polyhop: {kind} of") for kind in after_publish)
        found = client.read_automations_by_name(automation.name)
        if not found:
            client.create_automation(automation.model_copy(update={"enabled": automation.enabled or is_asked_for}))
            continue
        kept = automation.model_copy(update={"enabled": found[0].enabled or is_asked_for})
        client.update_automation(found[0].id, AutomationCore(**kept.model_dump(exclude={"owner_resource"})))
        for other in found[1:]:
            client.delete_automation(other.id)
    return [automation.name for automation in wanted]


def _wanted(
    client: SyncPrefectClient, deployments: Mapping[str, Mapping[str, UUID]], notify: str
) -> list[AutomationCore]:
    """The automations of all deployments, those after a publication switched off."""
    # After a heartbeat, another event of the run is due; a run of a host that died has none. A crash is never the
    # work's own failure: that is another state, and would only fail again.
    seconds = MISSED_HEARTBEATS * (get_current_settings().flows.heartbeat_frequency or 180)
    of_a_run: dict[str, Any] = {"match_related": _OURS, "for_each": {"prefect.resource.id"}}
    silent = of_a_run | {"after": {"prefect.flow-run.heartbeat"}, "within": timedelta(seconds=seconds)}
    again = ChangeFlowRunState(state=StateType.SCHEDULED, name="AwaitingRetry", message="Started again after a crash.")
    wanted = [
        AutomationCore(
            name="polyhop: runs without a heartbeat crash",
            description=f"A run of Polyhop that has missed {MISSED_HEARTBEATS} heartbeats is marked as crashed.",
            trigger=EventTrigger(
                expect={"prefect.flow-run.*"}, match=_RUNS, posture=Posture.Proactive, threshold=1, **silent
            ),
            actions=[ChangeFlowRunState(state=StateType.CRASHED, message=f"No heartbeat in {seconds} s.")],
        ),
        AutomationCore(
            name="polyhop: crashed runs start again",
            description="A run of Polyhop whose process ended is started again; finished batches are not repeated.",
            trigger=_when({"prefect.flow-run.Crashed"}, _RUNS, **of_a_run),
            actions=[again],
        ),
        *(_notifications(client, notify) if notify else ()),
    ]
    for index, by_kind in deployments.items():
        wanted += [
            AutomationCore(
                name=f"polyhop: {kind} of {index} after publish",
                description=f"Starts {index}-{kind} when a version of {index} is published.",
                enabled=False,
                trigger=_when({runs.PUBLISHED}, {"prefect.resource.id": f"polyhop.index.{index}"}),
                actions=[RunDeployment(source="selected", deployment_id=by_kind[kind])],
            )
            for kind in AFTER_PUBLISH
            if kind in by_kind
        ]
    return wanted


def _when(events: set[str], match: dict[str, Any], **more: Any) -> EventTrigger:
    """Acts at once on each of these events."""
    return EventTrigger(expect=events, match=match, posture=Posture.Reactive, threshold=1, **more)


def _notifications(client: SyncPrefectClient, named: str) -> list[AutomationCore]:
    """By a block, TYPE/NAME, of the server."""
    type_slug, _, name = named.partition("/")
    try:
        block = client.read_block_document_by_name(name, type_slug, include_secrets=False).id
    except ObjectNotFound as error:
        raise ConfigurationError(
            f"The Prefect server has no block '{named}'; make it on the dashboard (Blocks), and see its name with: "
            "prefect block ls"
        ) from error
    ended = {"prefect.flow-run.Failed", "prefect.flow-run.Crashed", "prefect.flow-run.TimedOut"}
    failed = _when(ended, _RUNS, match_related=_OURS)
    events = {getattr(runs, name) for name in ("GAPS", "PAUSED", "REFUSED", "DEAD_LETTER", "OUTAGE")}
    trouble = _when(events, {"prefect.resource.id": "polyhop.*"})
    return [
        AutomationCore(
            name="polyhop: notify of failures",
            description="Sends the name and the error of a failed or crashed run.",
            trigger=failed,
            actions=[SendNotification(block_document_id=block, subject="Polyhop: a run failed", body=_RUN_BODY)],
        ),
        AutomationCore(
            name="polyhop: notify of gaps, budgets, dead questions and outages",
            description="Sends Polyhop's events that need attention.",
            trigger=trouble,
            actions=[SendNotification(block_document_id=block, subject="Polyhop: {{ event.event }}", body=_EVENT_BODY)],
        ),
    ]


def deploy(
    indexes: Iterable[DeployedIndex],
    pool: str,
    notify: str,
    after_publish: Collection[str],
    switched_on: Collection[str],
) -> tuple[list[str], bool, list[str]]:
    """Registers all deployments for a work pool, which is made if it is missing, and their automations.

    The schedules of the kinds `switched_on` are switched on; others stay as they are. Returns names of deployments,
    whether the pool was made, names of automations.
    """
    with _server() as client:
        is_new = False
        try:
            client.read_work_pool(pool)
        except ObjectNotFound:
            template = ProcessWorker.get_default_base_job_template()
            client.create_work_pool(WorkPoolCreate(name=pool, type="process", base_job_template=template))
            is_new = True
        built = _built(client, indexes, LocalStorage(str(Path.cwd())), switched_on)
        ids = _registered(built, partial(RunnerDeployment.apply, work_pool_name=pool))
        automations = make_automations(client, ids, notify, after_publish)
        return [one.full_name for _, one in built], is_new, automations


SERVED_RUNS = 4  # of `serve`, at the same time; chosen: each index writes alone, and each takes a core or so


def serve_all(
    indexes: Iterable[DeployedIndex], notify: str, after_publish: Collection[str], switched_on: Collection[str]
) -> None:
    """Registers all deployments, as `deploy`, and runs what is due in processes of this one until it is stopped."""
    with _server() as client:
        built = _built(client, indexes, None, switched_on)
        # not prefect.serve, which registers again, over what somebody has switched on since
        runner = Runner(pause_on_shutdown=False, limit=SERVED_RUNS)
        make_automations(client, _registered(built, runner.add_deployment), notify, after_publish)
    with suppress(KeyboardInterrupt, TerminationSignal):
        asyncio.run(runner.start())


@contextmanager
def _server() -> Iterator[SyncPrefectClient]:
    if not PREFECT_API_URL.value():
        raise ConfigurationError(
            "No Prefect server is named; start one with `prefect server start`, and set "
            "PREFECT_API_URL=http://127.0.0.1:4200/api."
        )
    runs.require_server()
    try:
        with get_client(sync_client=True) as client:
            yield client
    except httpx.TransportError as error:
        raise runs.unreachable(error) from error


_Built = list[tuple[Deployment, RunnerDeployment]]


def _built(
    client: SyncPrefectClient, indexes: Iterable[DeployedIndex], storage: LocalStorage | None, on: Collection[str]
) -> _Built:
    """The deployments as Prefect registers them, with what people have made of them on the server."""
    built: _Built = []
    for deployment in deployments(indexes):
        limit = None
        if deployment.collision:
            limit = ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy(deployment.collision))
        shown: dict[str, Any] = {name: getattr(deployment, name) for name in ("name", "description", "tags")}
        one = RunnerDeployment.from_entrypoint(deployment.entrypoint, concurrency_limit=limit, **shown)
        form = one._parameter_openapi_schema.properties  # noqa: SLF001 - Prefect offers no way to narrow it
        if deployment.index:  # its limit of one run at a time holds for this index only
            form["index"]["enum"] = [deployment.index]
        try:
            found = client.read_deployment_by_name(one.full_name)
        except ObjectNotFound:
            found = None
        # What people have set stays, but for fixed parameters and those that are not in the form any more.
        fixed, there = deployment.fixed, found.parameters if found else {}
        kept = {name: value for name, value in there.items() if name in form and name not in fixed}
        one.parameters = {**kept, **{n: v for n, v in deployment.parameters.items() if n in fixed or n not in kept}}
        one.schedules = merged_schedules(deployment, found, is_on=deployment.kind in on)  # type: ignore[assignment]
        if storage is not None:
            one.storage = storage
        built.append((deployment, one))
    return built


def _registered(built: _Built, register: Callable[[RunnerDeployment], object]) -> dict[str, dict[str, UUID]]:
    """Registers deployments; ids of those of indexes, by index and kind."""
    found: dict[str, dict[str, UUID]] = {}
    for deployment, one in built:
        made = cast("UUID", register(one))
        if deployment.index:
            found.setdefault(deployment.index, {})[deployment.kind] = made
    return found
