"""Versions of which nothing but the manifest is read."""

from typing import Any

from polyhop.schemas.manifest import Manifest
from polyhop.warehouse.files.layout import IndexFolder
from polyhop.warehouse.files.versions import publish_folder


def empty_manifest(index: str, version: int = 1, settings: dict[str, Any] | None = None) -> Manifest:
    """The manifest of a version that holds nothing."""
    about = {"index": index, "version": version, "polyhop": "0", "source": "corpus.jsonl", "corpus_hash": ""}
    nothing: dict[str, Any] = {name: {} for name in ("stages", "counts", "tables", "arrays", "vectors")}
    return Manifest(**about, **nothing, settings=settings or {}, artefacts=())


def publish_empty(index: IndexFolder, number: int = 1, tables: bytes = b"") -> None:
    """Publishes such a version, with these bytes as its tables."""
    built = index.staging / "version"
    built.mkdir(parents=True)
    (built / "index.duckdb").write_bytes(tables)
    publish_folder(index, built, empty_manifest(index.name, number))
