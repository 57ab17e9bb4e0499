"""What is recorded of an index run and its stages, and the tables that show it in SQL.

No version holds any of it: a version is equal to a rebuild, and a run that published nothing is recorded as well.
"""

from collections.abc import Mapping
from typing import Any, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from polyhop.schemas.tables import Column, Table, count, flag, real, text_column

Outcome = Literal["running", "published", "unchanged", "failed", "stopped", "killed"]
SENTENCE_CHARACTERS = 1_000
"""Chosen: the longest sentence of ours is shorter; a vendor's error that is longer says nothing more."""


class _Recorded(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")  # a later Polyhop may record more


class StageTiming(_Recorded):
    """Seconds and units of a stage in one run; those not computed came from caches or the version before."""

    seconds: float = 0.0
    units: int = 0
    computed: int = 0


class StageUse(StageTiming):
    """What a stage took in one run."""

    is_taken_over: bool = False
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0


class Starter(_Recorded):
    """Who started a run: user and host, process, and the Prefect flow run with its page, "" without one."""

    user: str = ""
    host: str = ""
    process: int = 0
    flow_run_id: str = ""
    flow_run_url: str = ""


class RunRecord(_Recorded):
    """One index run; `running` is written when it begins, and replaced by its outcome when it ends."""

    run: int = Field(ge=1)  # Counts from 1 within an index.
    started: str  # UTC, ISO 8601.
    started_by: Starter = Field(default_factory=Starter)
    polyhop: str = ""
    source: str = ""
    outcome: Outcome = "running"
    sentence: str = ""  # Why it failed or was stopped, or what it found; "" while it runs.
    seconds: float = 0.0
    version: int = 0  # The version that was current when it ended, 0 if there was none.
    published: int = 0  # The version that it published, 0 if none.
    counts: dict[str, int] = Field(default_factory=dict)
    stages: dict[str, StageUse] = Field(default_factory=dict)
    cached: int = 0
    peak_memory_mb: float = 0.0  # The most memory that its process ever held, in MB (10**6 bytes).

    def total(self, name: str) -> Any:
        """The sum of a number over the stages; None if it is unknown of one."""
        numbers = [getattr(stage, name) for stage in self.stages.values()]
        return None if None in numbers else sum(numbers)


def _moment(name: str, comment: str) -> Column:
    return Column(name, pa.timestamp("s", tz="UTC"), comment)


_RUN = count("run", "number of the run, from 1 within the index")
_UNITS = (
    count("computed", "units (passages or documents, as the stage counts them) that were computed"),
    count("reused", "units that came from caches or from the version before"),
)
_MODELS = (
    count("calls", "calls of language models"),
    count("prompt_tokens", "tokens sent to them"),
    count("completion_tokens", "tokens received from them"),
    real("cost_usd", "price of the calls in United States dollars, NULL where unknown", nullable=True),
)
INDEX_RUNS = Table(
    "index_runs",
    "Every run of this index, also those that found nothing, failed or were stopped; the newest 10,000.",
    ("run",),
    (
        _RUN,
        _moment("started", "when it began (UTC)"),
        real("seconds", "how long it took; 0 while it runs, or if it was killed"),
        text_column(
            "outcome", "published, unchanged, failed, stopped (by a person, Prefect, its budget), killed or running"
        ),
        text_column(
            "sentence", "why it failed or was stopped, or what it found; empty while it runs, or if it was killed"
        ),
        count("version", "version that was current when it ended, 0 if there was none"),
        text_column("seconds_json", "seconds by stage, as JSON; the table index_stages has them as rows"),
        text_column("counts_json", "what the version holds, as JSON"),
        *_UNITS,
        *_MODELS,
        count("cached", "replies of models that came from the cache"),
        real("peak_memory_mb", "the most memory that its process ever held, in MB (10**6 bytes)"),
        text_column("started_by", "user@host"),
        count("process", "process id"),
        text_column("flow_run_id", "id of the Prefect flow run, empty without one"),
        text_column("flow_run_url", "page of the flow run on the dashboard, empty without one"),
        text_column("source", "corpus or graph that it read, empty if it took over the version's"),
        text_column("polyhop", "version of Polyhop"),
    ),
)
INDEX_STAGES = Table(
    "index_stages",
    "What each stage took in each run of this index: the runs of index_runs.",
    ("run", "stage"),
    (
        _RUN,
        text_column("stage", "stage, in the order in which they ran"),
        real("seconds", "seconds of this run, reading and writing included"),
        *_UNITS,
        flag("is_taken_over", "the whole result is that of the version before"),
        *_MODELS,
    ),
)


def reused_units(stages: Mapping[str, StageUse]) -> int:
    """Units that stages did not compute."""
    return sum(stage.units - stage.computed for stage in stages.values())
