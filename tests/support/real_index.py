"""Real indexes of tests: lines of a file, one run over them in this process, and what it published."""

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from polyhop.flows.index import run_index
from polyhop.flows.reports import IndexReport
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.manifest import Manifest
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import IndexFolder, Layout, VersionFolder
from polyhop.warehouse.files.versions import read_manifest, require_version
from polyhop.warehouse.tables.connection import connect


def write_lines(path: Path, rows: Iterable[object]) -> Path:
    """Writes a line of JSON per row."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def pages(texts: Mapping[str, str]) -> list[dict[str, str]]:
    """Records that are called by their ids."""
    return [{"id": name, "title": name, "text": text} for name, text in texts.items()]


def flip(path: Path, offset: int = -1, mask: int = 0x40) -> None:
    """Damages a byte, also of a file that others link to."""
    content = bytearray(path.read_bytes())
    content[offset] ^= mask
    path.unlink()
    path.write_bytes(content)


def lasting(manifest: Manifest) -> tuple[dict[str, str], dict[str, str]]:
    """Checksums of what earlier versions have no say in; raw rows may be in several files."""
    tables = {name: table.checksum for name, table in manifest.tables.items() if name != "version_stages"}
    return tables, {name: value for name, value in manifest.arrays.items() if not name.startswith("extraction")}


class RealIndex:
    """An index in a folder that also holds what it was read from."""

    def __init__(self, folder: Path, name: str = "i", **settings: Any) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.name, self.root = folder, name, folder / "root"
        self.settings = Settings(**{"root": self.root, "strategies": ("bm25",)} | settings)

    def run(self, source: Path | None, **request: Any) -> IndexReport:
        return run_index(self.settings, IndexRequest(self.name, source, **request), DirectRunner())

    def read(self, rows: Iterable[object], file: str = "corpus", **request: Any) -> IndexReport:
        """Writes the rows as a file, and indexes it."""
        return self.run(write_lines(self.folder / f"{file}.jsonl", rows), **request)

    def copy(self, folder: Path) -> Self:
        """The same index elsewhere, to be changed."""
        copied = object.__new__(type(self))
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        copied.__dict__ |= self.__dict__ | {"folder": folder, "root": folder / "root"}
        copied.settings = self.settings.model_copy(update={"root": copied.root})
        return copied

    @property
    def index_folder(self) -> IndexFolder:
        return Layout(self.root).index(self.name)

    @property
    def version(self) -> VersionFolder:
        return require_version(Layout(self.root), self.name)[1]

    @property
    def manifest(self) -> Manifest:
        return read_manifest(self.version)

    def rows(self, query: str, version: int | None = None) -> list[tuple[Any, ...]]:
        folder = self.version if version is None else self.index_folder.version(version)
        with connect(folder.tables, read_only=True) as connection:
            return connection.execute(query).fetchall()
