"""The manifest of a published version: what is in it, what it was made from, and checksums of every part.

Holds no clock: the same inputs give the same manifest, whatever machine or day, but for the checksum of the file of
tables, in which DuckDB lays out the same rows in more than one way.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StageRecord(_Frozen):
    """A stage's fingerprint (sha256 of everything that went into it), counts, and outcome.

    The outcome is a hash of what came out where a model had a say; empty where the fingerprint determines it.
    """

    fingerprint: str
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


class HnswRecord(_Frozen):
    """A graph for approximate search, and the share of the exact nearest ten that it finds (algorithms.md 2.8)."""

    m: int
    ef_construction: int
    ef_search: int
    recall_at_10: float


class VectorRecord(_Frozen):
    """A table of vectors as this version pins it; `hnsw` if it can be searched approximately.

    Manifests call the table's version `lance_version`: it has always been LanceDB's number.
    """

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)

    table: str
    table_version: int = Field(alias="lance_version")
    rows: int
    dimension: int
    model: str
    hnsw: HnswRecord | None = None


class SourceState(_Frozen):
    """A source of a version: where it was read last as a whole ("" if never), and how many records the index keeps."""

    location: str
    records: int


class Manifest(_Frozen):
    """What a version consists of; the tables of `history` depend on the versions before it, and no other part does.

    `tables_file` is the sha256 of the DuckDB file, "" in versions from before it was taken.
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
    tables_file: str = ""
    arrays: dict[str, str]
    vectors: dict[str, VectorRecord]
