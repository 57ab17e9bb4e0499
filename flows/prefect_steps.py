"""Parts of a flow run as Prefect task runs, so that the dashboard shows what a run is doing and for how long.

A task run costs 5 to 40 ms: a run has a handful, never one per question or document. Knows no flow.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from prefect import task
from prefect.cache_policies import NO_CACHE

from polyhop.schemas.errors import PolyhopError

TASK_RUNS = 20
"""Of a stage at most; chosen: an index of any size shows below 200, and each costs 10 to 40 ms."""
RETRIES = 3  # one for each delay below
RETRY_DELAY_SECONDS = [1.0, 5.0, 20.0]  # chosen: half a minute in all, in which a restarting server is back

T = TypeVar("T")


def is_retryable(_task: Any, _run: Any, state: Any) -> bool:
    """Retry only what may be temporary: errors whose `retryable` is true."""
    try:
        state.result()
    except PolyhopError as error:
        return error.retryable
    except Exception:  # noqa: BLE001 - any other error is a defect or a refusal, and would only fail again
        return False
    return False


def run_step(name: str, run: Callable[[], T], task_name: str | None = None, *, retries: int = RETRIES) -> T:
    """Runs a function as one task run, again if it fails of something temporary; its result stays in this process.

    Args:
        name: What the dashboard calls the task run.
        run: Safe to run again.
        task_name: What it calls the task; default: as the run.
        retries: How often it is run again at most.
    """

    @task(
        name=task_name or name,
        task_run_name=_literal(name),
        retries=retries,
        retry_delay_seconds=RETRY_DELAY_SECONDS[:retries] or 0,
        retry_condition_fn=is_retryable,
        cache_policy=NO_CACHE,
        persist_result=False,
    )
    def work() -> T:
        return run()

    return work()


def _literal(name: str) -> str:
    """A task run's name is a template to Prefect."""
    return name.replace("{", "{{").replace("}", "}}")
