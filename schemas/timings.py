"""What the stages of a version took when their results were computed: all of a version that a clock has a say in.

Kept beside the manifest and not in it: the same inputs give the same manifest, whatever machine or day.
"""

from pydantic import BaseModel, ConfigDict, Field


class StageTiming(BaseModel):
    """Seconds of a stage in the run that computed its result, and how much of it that run computed.

    Units are passages or documents, as the stage counts them in its batches, and 0 for a stage of one step. Those that
    were not computed came from caches, so that the seconds are fewer than those of a first run.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    seconds: float = Field(ge=0)
    units: int = Field(0, ge=0)
    computed: int = Field(0, ge=0)


class VersionTimings(BaseModel):
    """By stage; a stage whose seconds nobody recorded is not in it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stages: dict[str, StageTiming] = Field(default_factory=dict)
