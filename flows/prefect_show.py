"""What a flow run shows on the dashboard: artifacts under keys that stay the same, events, its own name.

Everything passes `redacted_tree` first. Knows no flow and decides nothing about what is shown.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from prefect import runtime
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.context import SyncClientContext
from prefect.events import emit_event
from prefect.utilities.urls import url_for

from polyhop.schemas.errors import BudgetExceededError, LossRefusedError
from polyhop.schemas.ids import content_hash
from polyhop.schemas.redaction import redact, redacted_tree

PUBLISHED = "polyhop.index.published"
GAPS = "polyhop.index.gaps"
REFUSED = "polyhop.index.refused"
PAUSED = "polyhop.budget.paused"
DEAD_LETTER = "polyhop.queue.dead_letter"
OUTAGE = "polyhop.worker.outage"


def artifact_key(*parts: str) -> str:
    """A key of Prefect's letters (a to z, digits, dashes); a name that has others gets six digits of its hash.

    Two indexes whose names differ only in such letters would share a history otherwise.
    """
    return "-".join(_normalised(part) for part in parts)


def _normalised(name: str) -> str:
    kept = "".join(c if c.isascii() and c.isalnum() else "-" for c in name.lower()).strip("-")
    return kept if kept == name else f"{kept}-{content_hash('artifact key', name)[:6]}".strip("-")


def show_text(key: str, lines: Sequence[str], description: str) -> None:
    """A page in Markdown, with a line that leads to the run that made it."""
    create_markdown_artifact(redact("\n".join([*lines, *_run_link()])), key=key, description=redact(description))


def show_table(key: str, rows: Sequence[Mapping[str, Any]], description: str) -> None:
    """A table, unless it has no row."""
    if rows:
        create_table_artifact(redacted_tree(list(rows)), key=key, description=redact(description))


class Progress:
    """One progress artifact: made with the first call, updated by the others."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._id: UUID | None = None

    def update(self, done: int, total: int, what: str) -> None:
        """Shows that `done` of `total` units are done; `what` says of what."""
        share = 100.0 * done / total if total else 100.0
        said = f"{what}: {done:,} of {total:,}"
        if self._id is None:
            self._id = create_progress_artifact(share, key=self._key, description=said)  # type: ignore[assignment]
        else:
            update_progress_artifact(self._id, progress=share, description=said)


def emit(event: str, kind: str, name: str, payload: Mapping[str, Any]) -> None:
    """Emits an event about a resource `polyhop.KIND.NAME`; Prefect adds the flow run, its deployment and its tags.

    Args:
        event: Name of the event, one of this module's.
        kind: Of the resource: index, queue.
        name: Of the index or queue; also the resource's label `polyhop.KIND`.
        payload: What automations and people want to know; no secret survives, no large data belongs here.
    """
    resource = {"prefect.resource.id": f"polyhop.{kind}.{name}", "prefect.resource.name": name, f"polyhop.{kind}": name}
    emit_event(event, resource=resource, payload=redacted_tree({**payload, "run_url": _run_url()}))


@contextmanager
def refusal_events(index: str) -> Iterator[None]:
    """Around a run that stops at its budget, or before it would take too much out of an index: an event says so."""
    try:
        yield
    except BudgetExceededError as error:
        emit(PAUSED, "index", index, {"index": index, "reason": str(error)})
        raise
    except LossRefusedError as error:
        emit(REFUSED, "index", index, {"index": index, "reason": str(error)})
        raise


def started_name(kind: str, *parameters: str) -> Callable[[], str]:
    """What Prefect calls to name a run when it starts: its kind, some of its parameters, and when it was to start.

    Of a path only the last part.
    """

    def name() -> str:
        given = runtime.flow_run.parameters
        said = [str(given[each]).rsplit("/", 1)[-1] for each in parameters if given.get(each)]
        return redact(" ".join([kind, *said, _start_time()]))

    return name


def rename_run(*words: str) -> None:
    """Names the run after its outcome: the given words, and when it was to start."""
    run_id = runtime.flow_run.id
    if run_id:
        name = " ".join(word for word in (*words, _start_time()) if word)
        with SyncClientContext.get_or_create() as context:
            context.client.update_flow_run(UUID(str(run_id)), name=redact(name))


def _start_time() -> str:
    return f"{runtime.flow_run.scheduled_start_time:%Y-%m-%d %H:%M}"


def _run_url() -> str:
    run_id = runtime.flow_run.id
    return (run_id and url_for("flow-run", run_id)) or ""


def _run_link() -> list[str]:
    url = _run_url()
    return ["", f"[The run that wrote this]({url})"] if url else []
