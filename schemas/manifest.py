"""The manifest of a published version: what is in it, what it was made from, and checksums of every part.

Holds no clock: the same inputs give the same manifest, whatever machine or day, but for the checksum of the file of
tables, in which DuckDB lays out the same rows in more than one way.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

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
        """Whether nothing in it failed; what failed is tried again by the next run."""
        return not any(count for name, count in self.counts.items() if name.startswith("failed_"))


class TableRecord(_Frozen):
    """A DuckDB table's size and checksum (exclusive-or of the md5 of its rows; order does not matter)."""

    rows: int
    checksum: str


HNSW_M = 32  # neighbours of a vector in the HNSW graph; chosen, and the manifest states the recall that it gives
HNSW_EF_CONSTRUCTION = 200  # candidates looked at when a vector is added; chosen likewise


class HnswRecord(_Frozen):
    """A graph for approximate search, and the share of the exact nearest ten that it finds (algorithms.md 2.8)."""

    m: int
    ef_construction: int
    ef_search: int
    recall_at_10: float


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
    # multiplied by it. 1 for the local one by definition, and for what is no passage.
    cosine_scale: float = 1.0


class VectorRecord(_Frozen):
    """A table of vectors as this version pins it; `hnsw` if it can be searched approximately.

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


class SourceState(_Frozen):
    """A source of a version: where it was read last as a whole ("" if never), and how many records the index keeps."""

    location: str
    records: int


class Manifest(_Frozen):
    """What a version consists of; the tables of `history` depend on the versions before it.

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
