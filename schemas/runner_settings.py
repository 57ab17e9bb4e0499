"""The settings of who does the batches of an index run; none of them changes a result."""

from typing import Literal

from pydantic import Field

from polyhop.schemas.setting_section import Section


class RunnerSettings(Section):
    """Which processes do the batches of extraction by rules and of embedding."""

    kind: Literal["auto", "local", "processes", "dask"] = Field(
        "auto",
        description="Who does batches of extraction by rules and of embedding: the run's own process (local), further "
        "ones on this machine (processes), or the workers of a Dask cluster (dask; needs polyhop[dask]); auto: further "
        "processes for extraction of 10,000 passages and more, else the run's own.",
    )
    workers: int = Field(
        0,
        ge=0,
        le=1024,
        description="Processes of kind = processes or auto, or of a Dask cluster started for the run; 0: one per core.",
    )
    address: str = Field(
        "", description="Scheduler of a running Dask cluster (tcp://HOST:8786); empty: a cluster started for the run."
    )
