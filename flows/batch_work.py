"""What travels to a process that does batches, and what that process does with it.

Starts no process (pools.py does). One batch at a time per process: extraction by rules holds the interpreter's lock,
and one encoder uses all threads that the process may have.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.model_settings import ModelSettings
from polyhop.schemas.serving_settings import QueueSettings
from polyhop.schemas.version import VERSION
from polyhop.tasks.stage import BatchResult, Stage
from polyhop.warehouse.build import Build

_one_batch = Lock()


@dataclass(frozen=True, slots=True)
class BatchWork:
    """The batches of one stage, for another process.

    Attributes:
        stage: Name of the stage.
        run: Its batch function.
        build: The build; its paths are absolute, and it holds no password.
        version: Version of Polyhop that the run has.
    """

    stage: str
    run: Callable[[Build, int], BatchResult]
    build: Build
    version: str = VERSION


def portable_work(stage: Stage, build: Build) -> BatchWork:
    """The work without what other processes must not or need not know: addresses of the queue and of models."""
    settings = build.settings
    root = settings.root.expanduser().resolve()
    entities = settings.encoder.entities.model_copy(update={"api_base": ""})
    encoder = settings.encoder.model_copy(update={"api_base": "", "entities": entities})
    hidden = {"root": root, "queue": QueueSettings(), "models": ModelSettings(), "encoder": encoder}
    return BatchWork(stage.name, stage.run, replace(build, settings=settings.model_copy(update=hidden)))


def do_batch(work: BatchWork, number: int, threads: int) -> BatchResult:
    """Does one batch in this process.

    Args:
        work: The stage's work.
        number: Number of the batch.
        threads: Threads of the encoder, unless the settings say it.

    Raises:
        ConfigurationError: If this process has another Polyhop, or does not see the run's root folder.
        PolyhopError: What the batch raises.
    """
    if work.version != VERSION:
        raise ConfigurationError(
            f"A process that does batches has Polyhop {VERSION}, the run has {work.version}; install the same version "
            "on all hosts."
        )
    if not work.build.staging.tables.is_file():
        raise ConfigurationError(
            f"A process that does batches does not see {Path(work.build.settings.root)}; put the root folder on "
            "storage that all workers of the cluster mount at the same path, or set runner.kind=processes."
        )
    with _one_batch:
        return work.run(_with_threads(work.build, threads), number)


def _with_threads(build: Build, threads: int) -> Build:
    settings = build.settings
    encoder = settings.encoder.model_copy(update={"threads": settings.encoder.threads or threads})
    return replace(build, settings=settings.model_copy(update={"encoder": encoder}))
