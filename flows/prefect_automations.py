"""Automations on a Prefect server: crashed runs start again, people are notified, a publication starts what follows.

Each has a fixed name: made again, it replaces the one of that name, and keeps whether people switched it on.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from prefect.automations import AutomationCore
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState, RunDeployment, SendNotification
from prefect.events.schemas.automations import EventTrigger, Posture
from prefect.exceptions import ObjectNotFound
from prefect.settings import get_current_settings

from polyhop.flows.deployments import AFTER_PUBLISH, TAG
from polyhop.flows.prefect_show import DEAD_LETTER, GAPS, OUTAGE, PAUSED, PUBLISHED, REFUSED
from polyhop.schemas.errors import ConfigurationError

MISSED_HEARTBEATS = 3
"""After so many a run is taken for dead; Prefect's own advice for its default of one in 180 s."""

_OURS: dict[str, Any] = {"prefect.resource.role": "tag", "prefect.resource.id": f"prefect.tag.{TAG}"}
_RUNS: dict[str, Any] = {"prefect.resource.id": "prefect.flow-run.*"}
_RUN_BODY = (
    "Run {{ flow_run.name }} of {{ flow.name }} is {{ flow_run.state.name }}: {{ flow_run.state.message }}\n"
    "{{ flow_run|ui_url }}"
)
_EVENT_BODY = (
    "{{ event.event }} about {{ event.resource.name or event.resource.id }}:\n"
    "{% for name, value in event.payload.items() %}{{ name }}: {{ value }}\n{% endfor %}"
)


@dataclass(frozen=True, slots=True)
class AutomationRequest:
    """What automations are to do.

    Attributes:
        notify: The block to notify by, TYPE/NAME like slack-webhook/ops; empty: those of before stay.
        after_publish: Kinds of deployments (deployments.AFTER_PUBLISH) to start when a version is published; the
            others' automations are made, too, and stay as people switched them.
    """

    notify: str = ""
    after_publish: Collection[str] = ()

    def check(self) -> None:
        """Makes sure that a block is named by its type and its name.

        Raises:
            ConfigurationError: If it is not.
        """
        if self.notify and not all(self.notify.partition("/")):
            raise ConfigurationError(
                f"--notify takes TYPE/NAME of a notification block (slack-webhook/ops), not '{self.notify}'."
            )


def make_automations(
    client: SyncPrefectClient, deployments: Mapping[str, Mapping[str, UUID]], request: AutomationRequest
) -> list[str]:
    """Makes or replaces all automations.

    Args:
        client: Of the server.
        deployments: Ids by index and kind.
        request: What they are to do.

    Returns:
        Their names.

    Raises:
        ConfigurationError: If the block to notify by does not exist.
    """
    wanted = [_crash(), _start_again()]
    if request.notify:
        wanted += _notifications(_block(client, request.notify))
    for index, by_kind in deployments.items():
        wanted += [_after_publish(index, kind, by_kind[kind]) for kind in AFTER_PUBLISH if kind in by_kind]
    for automation in wanted:
        is_asked_for = any(automation.name.startswith(f"polyhop: {kind} of") for kind in request.after_publish)
        _put(client, automation, is_asked_for=is_asked_for)
    return [automation.name for automation in wanted]


def _put(client: SyncPrefectClient, automation: AutomationCore, *, is_asked_for: bool) -> None:
    found = client.read_automations_by_name(automation.name)
    if not found:
        client.create_automation(automation.model_copy(update={"enabled": automation.enabled or is_asked_for}))
        return
    first, *others = found
    kept = automation.model_copy(update={"enabled": first.enabled or is_asked_for})
    client.update_automation(first.id, AutomationCore(**kept.model_dump(exclude={"owner_resource"})))
    for other in others:
        client.delete_automation(other.id)


def _when(events: set[str], match: dict[str, Any], **more: Any) -> EventTrigger:
    """Acts at once on each of these events."""
    return EventTrigger(expect=events, match=match, posture=Posture.Reactive, threshold=1, **more)


def _crash() -> AutomationCore:
    """After a heartbeat, another event of the run is due; a run of a host that died has none."""
    frequency = get_current_settings().flows.heartbeat_frequency or 180
    return AutomationCore(
        name="polyhop: runs without a heartbeat crash",
        description=f"A run of Polyhop that has missed {MISSED_HEARTBEATS} heartbeats is marked as crashed.",
        trigger=EventTrigger(
            after={"prefect.flow-run.heartbeat"},
            expect={"prefect.flow-run.*"},
            match=_RUNS,
            match_related=_OURS,
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=timedelta(seconds=MISSED_HEARTBEATS * frequency),
        ),
        actions=[
            ChangeFlowRunState(state=StateType.CRASHED, message=f"No heartbeat in {MISSED_HEARTBEATS * frequency} s.")
        ],
    )


def _start_again() -> AutomationCore:
    """A crash is never the work's own failure: that is a state of its own, and would only fail again."""
    return AutomationCore(
        name="polyhop: crashed runs start again",
        description="A run of Polyhop whose process ended is started again; finished batches are not repeated.",
        trigger=_when({"prefect.flow-run.Crashed"}, _RUNS, match_related=_OURS, for_each={"prefect.resource.id"}),
        actions=[
            ChangeFlowRunState(state=StateType.SCHEDULED, name="AwaitingRetry", message="Started again after a crash.")
        ],
    )


def _notifications(block: UUID) -> list[AutomationCore]:
    ended = {"prefect.flow-run.Failed", "prefect.flow-run.Crashed", "prefect.flow-run.TimedOut"}
    failed = _when(ended, _RUNS, match_related=_OURS)
    trouble = _when({GAPS, PAUSED, REFUSED, DEAD_LETTER, OUTAGE}, {"prefect.resource.id": "polyhop.*"})
    return [
        AutomationCore(
            name="polyhop: notify of failures",
            description="Says which run of Polyhop failed or crashed, and why.",
            trigger=failed,
            actions=[SendNotification(block_document_id=block, subject="Polyhop: a run failed", body=_RUN_BODY)],
        ),
        AutomationCore(
            name="polyhop: notify of gaps, budgets, dead questions and outages",
            description="Says what Polyhop's own events say that somebody should look at.",
            trigger=trouble,
            actions=[SendNotification(block_document_id=block, subject="Polyhop: {{ event.event }}", body=_EVENT_BODY)],
        ),
    ]


def _after_publish(index: str, kind: str, deployment_id: UUID) -> AutomationCore:
    return AutomationCore(
        name=f"polyhop: {kind} of {index} after publish",
        description=f"Starts {index}-{kind} when a version of {index} is published.",
        enabled=False,
        trigger=_when({PUBLISHED}, {"prefect.resource.id": f"polyhop.index.{index}"}),
        actions=[RunDeployment(source="selected", deployment_id=deployment_id)],
    )


def _block(client: SyncPrefectClient, named: str) -> UUID:
    type_slug, _, name = named.partition("/")
    try:
        return client.read_block_document_by_name(name, type_slug, include_secrets=False).id
    except ObjectNotFound as error:
        raise ConfigurationError(
            f"The Prefect server has no block '{named}'; make it on the dashboard (Blocks), and see its name with: "
            "prefect block ls"
        ) from error
