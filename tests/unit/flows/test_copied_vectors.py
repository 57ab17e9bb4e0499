"""Vectors of texts that stay are copied from the version before, with the same bits; without it the cache has them."""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from polyhop.flows.index import run_index
from polyhop.flows.reports import IndexReport
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.manifest import Manifest
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.cache.vectors import VectorCache
from polyhop.warehouse.files.layout import Layout, VersionFolder
from polyhop.warehouse.files.versions import current_version, read_manifest
from polyhop.warehouse.open_models import close_encoders

pytestmark = pytest.mark.slow

MATRIX, HASHES = "vectors-name_matrix.npy", "vectors-name_hashes.npy"


class Places:
    """An index of a few passages, with vectors of passages, propositions and names."""

    def __init__(self, root: Path, corpus: Path) -> None:
        self.settings = Settings(root=root, strategies=("proprag",), batch_size=4)
        self.corpus = corpus

    @property
    def current(self) -> VersionFolder:
        folder = Layout(self.settings.root).index("places")
        return folder.version(current_version(folder) or 0)

    @property
    def manifest(self) -> Manifest:
        return read_manifest(self.current)

    def index(self, *lakes: int, full: bool = False) -> IndexReport:
        """Indexes ten passages; those with these numbers are about lakes."""
        names = [f"{'Lake' if n in lakes else 'Mount'} Number{n}" for n in range(10)]
        rows = [{"id": f"p{n}", "title": name, "text": f"{name} is near Old Town{n}."} for n, name in enumerate(names)]
        self.corpus.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return run_index(
            self.settings, IndexRequest("places", self.corpus, source_name="corpus", full=full), DirectRunner()
        )


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with the first version, to copy."""
    folder = tmp_path_factory.mktemp("places")
    Places(folder / "root", folder / "corpus.jsonl").index()
    return folder / "root"


@pytest.fixture
def places(indexed: Path, tmp_path: Path) -> Places:
    close_encoders()
    shutil.copytree(indexed, tmp_path / "root")
    return Places(tmp_path / "root", tmp_path / "corpus.jsonl")


@pytest.fixture
def keys_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keys that the cache was asked for."""
    keys: list[str] = []
    get_many = VectorCache.get_many

    def asked(self: VectorCache, some: list[str], dimension: int | None = None) -> dict[str, np.ndarray]:
        keys.extend(some)
        return get_many(self, some, dimension)

    monkeypatch.setattr(VectorCache, "get_many", asked)
    return keys


def test_only_what_the_version_before_lacks_is_asked_of_the_cache(places: Places, keys_read: list[str]) -> None:
    report = places.index(3)
    assert report.computed == {"extract": 1, "embed-passage": 1, "embed-proposition": 1, "embed-name": 1}
    assert len(keys_read) == 3
    edited = places.manifest
    assert places.index(3, full=True).computed["embed-name"] == 0
    assert len(keys_read) > 3 * 10
    assert lasting(places.manifest.arrays) == lasting(edited.arrays)
    assert {n: r for n, r in places.manifest.tables.items() if n != "version_stages"} == {
        n: r for n, r in edited.tables.items() if n != "version_stages"
    }


def lasting(arrays: dict[str, str]) -> dict[str, str]:
    """Checksums of arrays that earlier versions have no say in: raw rows may be in several files."""
    return {name: checksum for name, checksum in arrays.items() if not name.startswith("extraction")}


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 0x40
    path.unlink()
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [flip, os.unlink])
@pytest.mark.parametrize("name", [MATRIX, HASHES])
def test_a_damaged_matrix_is_not_copied_from(
    places: Places, keys_read: list[str], name: str, damage: Callable[[Path], None]
) -> None:
    damage(places.current.arrays / name)
    report = places.index(3)
    assert any(f"'{name}'" in sentence for sentence in report.damaged)
    assert report.computed["embed-name"] == 1
    assert len(keys_read) > 10
    edited = places.manifest.arrays
    places.index(3, full=True)
    assert lasting(places.manifest.arrays) == lasting(edited)


def test_vectors_survive_a_cache_that_is_lost(places: Places, keys_read: list[str]) -> None:
    with sqlite3.connect(Layout(places.settings.root).vector_cache) as connection:
        connection.execute("DELETE FROM vectors")
    connection.close()
    report = places.index(3)
    assert (report.computed["embed-passage"], report.computed["embed-proposition"]) == (1, 1)
    assert len(keys_read) == 3


def test_a_version_of_before_without_hashes_has_its_vectors_read_from_the_cache(
    places: Places, keys_read: list[str]
) -> None:
    document = json.loads(places.current.manifest.read_bytes())
    for name in [name for name in document["arrays"] if name.endswith("_hashes.npy")]:
        del document["arrays"][name]
        (places.current.arrays / name).unlink()
    del document["checksum"]
    places.current.manifest.write_text(json.dumps(document))
    report = places.index(3)
    assert (report.damaged, report.computed["embed-name"]) == ([], 1)
    assert len(keys_read) > 3 * 10
    assert HASHES in places.manifest.arrays


def test_a_killed_run_is_finished_without_the_version_that_it_would_have_copied_from(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts that the killed run left hold what was new to it only."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("polyhop.flows.index._Run._publish", killed)
        with pytest.raises(KeyboardInterrupt):
            places.index(3)
    flip(places.current.arrays / MATRIX)
    assert places.index(3).computed["embed-name"] == 0
    resumed = places.manifest.arrays
    places.index(3, full=True)
    assert lasting(places.manifest.arrays) == lasting(resumed)
