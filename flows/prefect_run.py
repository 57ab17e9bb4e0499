"""What every flow run shares: a server that answers, logs without tracebacks of known errors, no secret in parameters.

Knows no flow. Everything that depends on Prefect's insides (its loggers, its threads) is here.
"""

import atexit
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar
from uuid import UUID

import httpx

from polyhop.schemas.environment import as_environment
from polyhop.schemas.errors import PolyhopError, StoreUnavailableError
from polyhop.schemas.redaction import has_secret, redact, redacted_tree
from polyhop.schemas.settings import Settings, flatten

LOGGERS = ("prefect.flow_runs", "prefect.task_runs", "prefect.engine")
_LOOP_END_SECONDS = 10.0
"""Seconds for Prefect's threads to end; chosen: long enough to send the last logs to a busy server."""

MOST_STARTS = 5
"""Of one flow run; chosen: a host that restarts twice a night is no reason to give up."""

_NO_SERVER = ("Failed to reach API", "ephemeral Prefect API server")
"""How Prefect 3.8 says, in a plain RuntimeError, that a server does not answer or a temporary one did not start."""

T = TypeVar("T")


def run_flow(run: Callable[..., T], **parameters: Any) -> T:
    """Runs a flow in this process, on the configured server or a temporary one.

    Raises:
        StoreUnavailableError: If the server does not answer, or no longer.
    """
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


@contextmanager
def clean_run(tags: Sequence[str] = ()) -> Iterator[None]:
    """Around the body of a flow: its logs and its final state hold no secret and no traceback of an error of ours.

    Args:
        tags: The run gets those that it lacks: only runs of deployments come with tags.

    Raises:
        PolyhopError: If the run was started too often.
    """
    _stop_loops_at_exit()
    _refuse_endless_crashes()
    _add_tags(tags)
    try:
        yield
    except PolyhopError:
        raise
    except Exception as error:  # any error: Prefect makes the run's final state of its text, which may quote a vendor's
        error.args = tuple(redacted_tree(each) if isinstance(each, str) else each for each in error.args)
        raise


def _add_tags(tags: Sequence[str]) -> None:
    from prefect import runtime
    from prefect.context import SyncClientContext

    run_id, present = runtime.flow_run.id, runtime.flow_run.tags
    if run_id and not set(tags) <= set(present):
        with SyncClientContext.get_or_create() as context:
            context.client.update_flow_run(UUID(str(run_id)), tags=[*dict.fromkeys((*present, *tags))])


def _refuse_endless_crashes() -> None:
    """Ends a run that crashes again and again (memory?): what starts crashed runs again leaves failed ones alone."""
    from prefect import runtime

    if runtime.flow_run.run_count > MOST_STARTS:
        raise PolyhopError(
            f"This run was started {runtime.flow_run.run_count} times and never ended; see why in its log "
            "(too little memory?), then start a new run."
        )


def flow_settings(settings: Settings) -> dict[str, Any]:
    """Settings by dotted name as a flow's parameter; those that hold secrets go by this process's environment instead.

    Prefect's server keeps parameters and shows them to everybody who may look.
    """
    chosen = json.loads(settings.model_dump_json(exclude_unset=True))
    flat = {name: value for name, value in flatten(chosen).items() if value is not None}
    secret = {name: value for name, value in flat.items() if has_secret(value)}
    os.environ.update(as_environment(secret))
    return {name: value for name, value in flat.items() if name not in secret}


def warn_of_secrets(settings: dict[str, Any], log: Callable[[str], None]) -> None:
    """Says which parameters of a run hold secrets: the server has stored them before we could refuse."""
    for name, variable in zip(settings, as_environment(settings), strict=True):
        if has_secret(settings[name]):
            log(f"Prefect shows parameters to all its users, and '{name}' holds a password; set {variable} instead.")


def _clean(record: logging.LogRecord) -> bool:
    """Takes secrets out of a record, and the traceback if the error is one of ours, whose message says it all."""
    record.msg, record.args = redact(record.getMessage()), None
    if record.exc_info:
        if isinstance(record.exc_info[1], PolyhopError):
            record.exc_info = None
        else:
            record.exc_text = redact(logging.Formatter().formatException(record.exc_info))
    return True


for _name in LOGGERS:  # when a flow is loaded: Prefect logs the server's address before the flow's own code runs
    logging.getLogger(_name).addFilter(_clean)


def require_server() -> None:
    """Asks the configured server whether it is there; without one there is nothing to ask.

    Raises:
        StoreUnavailableError: If it does not answer.
    """
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL

    if not PREFECT_API_URL.value():
        return
    try:
        with get_client(sync_client=True) as client:
            error = client.api_healthcheck()
    except (RuntimeError, OSError, ValueError, httpx.HTTPError, httpx.InvalidURL) as raised:
        error = raised
    if error is not None:
        raise unreachable(error) from error


def unreachable(error: Exception) -> StoreUnavailableError:
    """What an error of the connection to the server means."""
    from prefect.settings import PREFECT_API_URL

    url = PREFECT_API_URL.value()
    said = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    where = f"The Prefect server at {url}" if url else "Prefect's temporary server"
    return StoreUnavailableError(
        f"{where} does not answer ({said}); start it with `prefect server start`, or unset PREFECT_API_URL."
    )


@cache
def _stop_loops_at_exit() -> None:
    """Once per process."""
    atexit.register(_stop_loops)


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
