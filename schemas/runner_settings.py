"""The settings of who does the batches of an index run; none of them changes a result."""

from typing import Literal

from pydantic import Field

from polyhop.schemas.setting_section import Section


class RunnerSettings(Section):
    """Which processes do the batches of extraction by rules and of embedding."""

    kind: Literal["local", "processes", "dask"] = Field(
        "local",
        description="Who does batches of extraction by rules and of embedding: the run's own process (local), further "
        "ones on this machine (processes), or the workers of a Dask cluster (dask; needs polyhop[dask]).",
    )
    workers: int = Field(
        0,
        ge=0,
        le=1024,
        description="Processes of kind = processes, or of a Dask cluster started for the run; 0: one per core.",
    )
    address: str = Field(
        "", description="Scheduler of a running Dask cluster (tcp://HOST:8786); empty: a cluster started for the run."
    )
