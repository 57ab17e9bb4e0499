"""A process work pool with a worker, or `polyhop serve`, as a team runs them beside its Prefect server."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from prefect_rest import post

PREFECT = str(Path(sys.executable).parent / "prefect")


@contextmanager
def pool_worker(
    server: Mapping[str, str], root: Path, folder: Path, project: Path, more: Mapping[str, str] | None = None
) -> Iterator[Callable[..., str]]:
    """The pool `polyhop` with a worker; gives a function that runs `prefect` commands beside it.

    Args:
        server: Environment of the Prefect server.
        root: Folder of Polyhop's data for the runs.
        folder: For the worker's log.
        project: Working folder of the worker and the commands.
        more: Further variables of the runs.
    """
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("POLYHOP_", "PREFECT_", "NEO4J_"))}
    often = {"PREFECT_WORKER_QUERY_SECONDS": "1", "PREFECT_RUNNER_POLL_FREQUENCY": "1"}
    environment = {**clean, **server, **often, "POLYHOP_ROOT": str(root), **(more or {})}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [PREFECT, "--no-prompt", *arguments],
            env=environment, cwd=project, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    log = (folder / "pool.log").open("w")
    worker = subprocess.Popen(
        [PREFECT, "--no-prompt", "worker", "start", "--pool", "polyhop", "--type", "process"],
        env=environment, cwd=project, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        wait_for(lambda: bool(post(server, "/work_pools/filter")), "the worker made no work pool")
        yield run
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
        log.close()


@contextmanager
def serving(
    server: Mapping[str, str], root: Path, folder: Path, options: Sequence[str], more: Mapping[str, str] | None = None
) -> Iterator[None]:
    """`polyhop serve` with these options, from when its deployments and automations are registered.

    Args:
        server: Environment of the Prefect server.
        root: Folder of Polyhop's data for the runs.
        folder: Its working folder, and where its log is.
        options: Of the command.
        more: Further variables of the runs.
    """
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("POLYHOP_", "PREFECT_", "NEO4J_"))}
    often = {"PREFECT_RUNNER_POLL_FREQUENCY": "1", "POLYHOP_ROOT": str(root)}
    command = [sys.executable, "-m", "polyhop.cli", "serve", *options]
    with (folder / "serve.log").open("w") as log:
        process = subprocess.Popen(
            command,
            env={**clean, **server, **often, **(more or {})},
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    try:
        wait_for(lambda: _has_automations(server), "nothing was deployed")
        yield
    finally:
        process.terminate()  # as a service manager ends it
        try:
            process.wait(60)
        finally:
            process.kill()
            process.wait()


def _has_automations(server: Mapping[str, str]) -> bool:
    """Whether the automations are there, which are made last."""
    return any(each["name"].endswith("after publish") for each in post(server, "/automations/filter"))


def wait_for(is_reached: Callable[[], bool], otherwise: str, seconds: float = 180) -> None:
    """Waits until something is so."""
    end = time.monotonic() + seconds
    while not is_reached():
        assert time.monotonic() < end, otherwise
        time.sleep(0.2)
