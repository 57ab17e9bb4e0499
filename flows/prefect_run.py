"""Shared code of flow runs: a reachable server, no secrets, task runs, artifacts, events, Prefect's internals."""

import atexit
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Annotated, Any, TypeVar
from uuid import UUID

import httpx
from prefect import Task, artifacts, get_run_logger, runtime, task
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.context import SyncClientContext
from prefect.events import emit_event
from prefect.settings import PREFECT_API_URL
from prefect.utilities.urls import url_for
from pydantic import GetJsonSchemaHandler
from pydantic_core import CoreSchema

from polyhop.schemas import errors
from polyhop.schemas.settings import Settings, as_environment, flatten
from polyhop.schemas.text import content_hash
from polyhop.warehouse.user_files import load_settings
from polyhop.worker.strategies.registry import STRATEGIES

TAG = "polyhop"
LOGGERS = ("prefect.flow_runs", "prefect.task_runs", "prefect.engine")
_LOOP_END_SECONDS = 10.0
"""Seconds for Prefect's threads to end; chosen: long enough to send the last logs to a busy server."""
MOST_STARTS = 5  # of one flow run; chosen: a host that restarts twice a night is no reason to give up
_NO_SERVER = ("Failed to reach API", "ephemeral Prefect API server")
"""How Prefect 3.8 says, in a plain RuntimeError, that a server does not answer or a temporary one did not start."""
PUBLISHED = "polyhop.index.published"
GAPS = "polyhop.index.gaps"
REFUSED = "polyhop.index.refused"
WAITING = "polyhop.index.waiting"
PAUSED = "polyhop.budget.paused"
DEAD_LETTER = "polyhop.queue.dead_letter"
OUTAGE = "polyhop.worker.outage"
T = TypeVar("T")


class _Strategies:
    """Adds the names of all strategies, those of installed packages among them, to a form when it is made."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "enum": list(STRATEGIES)}


StrategyName = Annotated[str, _Strategies()]


def run_flow(run: Callable[..., T], **parameters: Any) -> T:
    """Runs a flow in this process, on the configured server or a temporary one."""
    # Before Prefect starts anything: handlers run in reverse order, so that this one comes after Prefect's own.
    _stop_loops_at_exit()
    require_server()
    try:
        return run(**parameters)
    except httpx.TransportError as error:
        raise unreachable(error) from error
    except RuntimeError as error:
        if any(words in str(error) for words in _NO_SERVER):
            raise unreachable(error) from error
        raise


def run_tags(kind: str, index: str | None = None) -> list[str]:
    """The tags of runs of a kind (incremental, check, export, answers…), however they are started."""
    return [TAG, *([index] if index else []), kind]


@contextmanager
def clean_run(tags: Sequence[str] = ()) -> Iterator[None]:
    """Around the body of a flow: its logs and its final state hold no secret and no traceback of an error of ours."""
    _stop_loops_at_exit()
    run_id, present, count = runtime.flow_run.id, runtime.flow_run.tags, runtime.flow_run.run_count
    if count > MOST_STARTS:  # memory? what starts crashed runs again leaves failed ones alone
        raise errors.PolyhopError(
            f"This run was started {count} times and never ended; see why in its log (too little memory?), then start "
            "a new run."
        )
    if run_id and not set(tags) <= set(present):
        with SyncClientContext.get_or_create() as context:
            context.client.update_flow_run(UUID(str(run_id)), tags=[*dict.fromkeys((*present, *tags))])
    try:
        yield
    except errors.PolyhopError:
        raise
    except Exception as error:  # any error: Prefect makes the run's final state of its text, which may quote a vendor's
        error.args = tuple(errors.redacted_tree(each) if isinstance(each, str) else each for each in error.args)
        raise


def flow_settings(settings: Settings) -> dict[str, Any]:
    """Settings by dotted name as a flow's parameter; those that hold secrets go by this process's environment instead.

    Prefect's server keeps parameters and shows them to everybody who may look.
    """
    chosen = json.loads(settings.model_dump_json(exclude_unset=True))
    flat = {name: value for name, value in flatten(chosen).items() if value is not None}
    secret = {name: value for name, value in flat.items() if errors.has_secret(value)}
    os.environ.update(as_environment(secret))
    return {name: value for name, value in flat.items() if name not in secret}


@contextmanager
def flow_body(
    kind: str, index: str | None, given: Mapping[str, Any] | None, **shown: str
) -> Iterator[tuple[Settings, Any]]:
    """Around the body of a flow, as `clean_run`: its tags, and its settings and its log for the body.

    An event says if it stops at its budget, or before it would take too much out of an index. Parameters that hold
    secrets, settings by dotted name and others, are named in the log: the server stored them before we could refuse.
    """
    with clean_run(run_tags(kind, index)):
        log, flat = get_run_logger(), {**(given or {}), **shown}
        for name, variable in zip(flat, as_environment(flat), strict=True):
            if errors.has_secret(flat[name]):
                said = "Prefect shows parameters to all its users, and '%s' holds a password; set %s instead."
                log.warning(said, name, variable)
        try:
            yield load_settings(dict(given or {})), log
        except (errors.BudgetExceededError, errors.LossRefusedError) as error:
            event = PAUSED if isinstance(error, errors.BudgetExceededError) else REFUSED
            emit(event, "index", index or "", {"index": index, "reason": str(error)})
            raise


def _clean(record: logging.LogRecord) -> bool:
    """Takes secrets out of a record, and the traceback if the error is one of ours, whose message says it all."""
    record.msg, record.args = errors.redact(record.getMessage()), None
    if record.exc_info:
        if isinstance(record.exc_info[1], errors.PolyhopError):
            record.exc_info = None
        else:
            record.exc_text = errors.redact(logging.Formatter().formatException(record.exc_info))
    return True


for _name in LOGGERS:  # when a flow is loaded: Prefect logs the server's address before the flow's own code runs
    logging.getLogger(_name).addFilter(_clean)


def require_server() -> None:
    """Asks the configured server whether it is there; without one there is nothing to ask."""
    if not PREFECT_API_URL.value():
        return
    try:
        with get_client(sync_client=True) as client:
            error = client.api_healthcheck()
    except (RuntimeError, OSError, ValueError, httpx.HTTPError, httpx.InvalidURL) as raised:
        error = raised
    if error is not None:
        raise unreachable(error) from error


def unreachable(error: Exception) -> errors.StoreUnavailableError:
    """Translates an error of the connection to the server."""
    url = PREFECT_API_URL.value()
    said = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    where = f"The Prefect server at {url}" if url else "Prefect's temporary server"
    return errors.StoreUnavailableError(
        f"{where} does not answer ({said}); start it with `prefect server start`, or unset PREFECT_API_URL."
    )


def _stop_loops() -> None:
    """Ends the event loops that Prefect and LanceDB leave running in daemon threads.

    They would outlive the interpreter's modules; DuckDB's binding then takes its types for leaked and prints 43 lines.
    """
    from prefect._internal.concurrency import threads

    for loop in (threads._run_sync_loop, threads._global_loop):  # noqa: SLF001 - Prefect offers nothing else
        if loop is not None and loop.thread.is_alive():
            loop.shutdown()
            loop.thread.join(_LOOP_END_SECONDS)
    lance: Any = sys.modules.get("lancedb.background_loop")
    if lance is not None:
        lance.LOOP.loop.call_soon_threadsafe(lance.LOOP.loop.stop)
        lance.LOOP.thread.join(_LOOP_END_SECONDS)


_stop_loops_at_exit = cache(partial(atexit.register, _stop_loops))  # once per process


def artifact_key(*parts: str) -> str:
    """A key of Prefect's letters (a to z, digits, dashes); a name that has others gets six digits of its hash."""
    words = []
    for name in parts:
        kept = "".join(c if c.isascii() and c.isalnum() else "-" for c in name.lower()).strip("-")
        words.append(kept if kept == name else f"{kept}-{content_hash('artifact key', name)[:6]}".strip("-"))
    return "-".join(words)


def show_text(key: str, lines: Sequence[str], description: str) -> None:
    """A page in Markdown, with a line that leads to the run that made it."""
    url = _run_url()
    link = ["", f"[The run that wrote this]({url})"] if url else []
    artifacts.create_markdown_artifact(
        errors.redact("\n".join([*lines, *link])), key=key, description=errors.redact(description)
    )


def show_table(key: str, rows: Sequence[Mapping[str, Any]], description: str) -> None:
    """A table, unless it has no row."""
    if rows:
        artifacts.create_table_artifact(
            errors.redacted_tree(list(rows)), key=key, description=errors.redact(description)
        )


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
            self._id = artifacts.create_progress_artifact(share, key=self._key, description=said)  # type: ignore[assignment]
        else:
            artifacts.update_progress_artifact(self._id, progress=share, description=said)


def emit(event: str, kind: str, name: str, payload: Mapping[str, Any]) -> None:
    """Emits one of this module's events about an index or a queue, the resource `polyhop.KIND.NAME`.

    Prefect adds the flow run, its deployment and its tags. Of the payload no secret survives; no large data belongs
    there.
    """
    resource = {"prefect.resource.id": f"polyhop.{kind}.{name}", "prefect.resource.name": name, f"polyhop.{kind}": name}
    emit_event(event, resource=resource, payload=errors.redacted_tree({**payload, "run_url": _run_url()}))


def started_name(kind: str, *parameters: str) -> Callable[[], str]:
    """Returns the function that names a run when it starts: kind, some parameters, planned start time."""

    def name() -> str:
        given = runtime.flow_run.parameters
        # of a path the last part
        said = [str(given[each]).rsplit("/", 1)[-1] for each in parameters if given.get(each)]
        return errors.redact(" ".join([kind, *said, _start_time()]))

    return name


def rename_run(*words: str) -> None:
    """Names the run after its outcome: the given words, and when it was to start."""
    run_id = runtime.flow_run.id
    if run_id:
        name = " ".join(word for word in (*words, _start_time()) if word)
        with SyncClientContext.get_or_create() as context:
            context.client.update_flow_run(UUID(str(run_id)), name=errors.redact(name))


def _start_time() -> str:
    return f"{runtime.flow_run.scheduled_start_time:%Y-%m-%d %H:%M}"


def _run_url() -> str:
    run_id = runtime.flow_run.id
    return (run_id and url_for("flow-run", run_id)) or ""


TASK_RUNS = 20  # of a stage at most; chosen: an index of any size shows below 200, and each costs 10 to 40 ms
RETRIES = 3  # one for each delay below
RETRY_DELAY_SECONDS = [1.0, 5.0, 20.0]  # chosen: half a minute in all, in which a restarting server is back


def is_retryable(_task: Any, _run: Any, state: Any) -> bool:
    """Retry only what may be temporary: errors whose `retryable` is true."""
    try:
        state.result()
    except errors.PolyhopError as error:
        return error.retryable
    except Exception:  # noqa: BLE001 - any other error is a defect or a refusal, and would only fail again
        return False
    return False


def as_task(name: str, run: Callable[[], T], task_name: str | None = None, *, retries: int = RETRIES) -> "Task[[], T]":
    """A function as a task, whose run is repeated if it fails of something temporary and keeps its result in memory.

    The dashboard calls the task run `name`, and the task so, too, unless `task_name` is another.
    """

    @task(
        name=task_name or name,
        task_run_name=name.replace("{", "{{").replace("}", "}}"),  # to Prefect it is a template
        retries=retries,
        retry_delay_seconds=RETRY_DELAY_SECONDS[:retries] or 0,
        retry_condition_fn=is_retryable,
        cache_policy=NO_CACHE,
        persist_result=False,
    )
    def work() -> T:
        return run()

    return work


def run_step(name: str, run: Callable[[], T], task_name: str | None = None, *, retries: int = RETRIES) -> T:
    """Runs a function as one task run in this process; arguments as of `as_task`."""
    return as_task(name, run, task_name, retries=retries)()
