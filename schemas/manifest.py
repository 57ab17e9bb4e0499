"""The manifest of a published version: what is in it, what it was made from, checksums of every part; and runs.

A manifest holds no clock: the same inputs give the same one, whatever machine or day, but for the checksum of the file
of tables, in which DuckDB lays out the same rows in more than one way. What is recorded of an index run and its stages
is in no version: a version is equal to a rebuild, and a run that published nothing is recorded as well.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from polyhop.schemas.settings import LOCAL


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StageRecord(_Frozen):
    """A stage's fingerprint (sha256 of everything that went into it), counts, outcome and recipe.

    The outcome is a hash of what came out where a model had a say; empty where the fingerprint determines it. The
    recipe is a hash of its code's revision and its settings: with the same one, only what it reads can change its
    result.
    """

    fingerprint: str
    recipe: str = ""
    outcome: str = ""
    counts: dict[str, int] = Field(default_factory=dict)

    @property
    def is_final(self) -> bool:
        """Returns whether no unit failed; the next run retries failed units."""
        return not any(count for name, count in self.counts.items() if name.startswith("failed_"))


class TableRecord(_Frozen):
    """A DuckDB table's size and checksum (exclusive-or of the md5 of its rows; order does not matter)."""

    rows: int
    checksum: str


HNSW_M = 32  # neighbours of a vector in the HNSW graph; chosen, and the manifest states the recall that it gives
HNSW_EF_CONSTRUCTION = 200  # candidates looked at when a vector is added; chosen likewise
PROBES = 128  # partitions that a search reads at least; chosen: the manifest states its recall
ROWS_PER_PROBE = 8192  # of larger tables half is read, since LanceDB puts 4,096 rows into a partition
NEAR = 200  # candidates of such a search, whose exact cosines a question computes; algorithms.md 2B.3


class HnswRecord(_Frozen):
    """A graph for approximate search, and the share of the exact nearest ten that it finds (algorithms.md 2.8)."""

    m: int
    ef_construction: int
    ef_search: int
    recall_at_10: float


class PartitionsRecord(_Frozen):
    """An index of partitions for approximate search (LanceDB's IVF_RQ), and what it finds of the exact nearest ten."""

    probes: int  # Partitions that a search reads.
    recall_at_10: float  # Among the `NEAR` candidates whose cosines a question computes, when the index was made.
    # Rows that came or changed since: the table has them not, or as they were, and questions are compared with each.
    changed: int = Field(0, validation_alias=AliasChoices("changed", "taken_in"))


class EncoderRecord(_Frozen):
    """The encoder of a table of vectors, so that questions are encoded by it for ever; a key is never in it."""

    name: str = LOCAL
    query_prefix: str = ""
    passage_prefix: str = ""  # Put before every text that is indexed.
    dimension: int = 0  # Asked of the server; 0: not asked.
    max_tokens: int = 0  # Texts were cut after so many tokens; 0: only the model's server knows.
    precision: Literal["float32", "bfloat16", "int8"] = "float32"  # Of the local encoder's arithmetic.
    api_base: str = ""  # Where it was, "" for the provider's own address, and for one that holds a password.
    spread: float = 0.0  # Median gap between the best and the 100th cosine of sentences with passages; 0: not measured.
    # That gap beside the local encoder's over the same texts: weights in units of the local encoder's cosine are
    # multiplied by it. A constant of shipped encoders (`SHIPPED`), 1 for what is no passage of others.
    cosine_scale: float = 1.0


class VectorRecord(_Frozen):
    """A table of vectors as this version pins it; `hnsw` or `partitions` if it can be searched approximately.

    Manifests call the table's version `lance_version`: it is LanceDB's number.
    """

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)

    table: str
    table_version: int = Field(alias="lance_version")
    rows: int
    dimension: int
    model: str
    encoder: EncoderRecord = Field(default_factory=EncoderRecord)
    hnsw: HnswRecord | None = None
    partitions: PartitionsRecord | None = None


class SourceState(_Frozen):
    """A source of a version: where it was read last as a whole ("" if never), and how many records the index keeps."""

    location: str
    records: int


class Manifest(_Frozen):
    """Contents of a version; the tables of `history` depend on the versions before it.

    `appended` is how many rows of a table stand at its end and not in the order of its key; it depends on earlier
    versions, too. `tables_file` is the sha256 of the DuckDB file.
    """

    format: Literal[2] = 2
    index: str
    version: int
    polyhop: str
    source: str
    graph_sources: str = ""
    sources: dict[str, SourceState] = Field(default_factory=dict)
    corpus_hash: str
    settings: dict[str, object]
    artefacts: tuple[str, ...]
    stages: dict[str, StageRecord]
    counts: dict[str, int]
    tables: dict[str, TableRecord]
    history: dict[str, TableRecord] = Field(default_factory=dict)
    appended: dict[str, int] = Field(default_factory=dict)
    tables_file: str = ""
    arrays: dict[str, str]
    vectors: dict[str, VectorRecord]

    @property
    def ratios(self) -> dict[str, float]:
        """Mentions (each entity once per passage) and relations per passage and per entity; {} of what has none.

        Source: algorithms.md 1.2 (QASA, Table II).
        """
        if "mentions" not in self.tables or not self.tables["mentions"].rows:
            return {}
        rows = (("mentions", self.tables["mentions"].rows), ("relations", self.counts.get("relations", 0)))
        units = (("passage", self.counts.get("passages", 0)), ("entity", self.counts.get("entities", 0)))
        return {f"{name}_per_{unit}": round(n / total, 2) for unit, total in units if total for name, n in rows}


Outcome = Literal["running", "published", "unchanged", "failed", "stopped", "waiting", "killed"]
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
    """Use of time, models and caches by a stage in one run."""

    is_taken_over: bool = False
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0


class Starter(_Recorded):
    """Starter of a run: user and host, process, and the Prefect flow run with its page ("" without one)."""

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
    sentence: str = ""  # Why it failed, was stopped or waits, or what it found; "" while it runs.
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


def reused_units(stages: Mapping[str, StageUse]) -> int:
    """Units that stages did not compute."""
    return sum(stage.units - stage.computed for stage in stages.values())
