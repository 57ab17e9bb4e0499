"""Kinds of vectors beside passages and entities, and vectors that are copied from the version before."""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from polyhop.flows.index import run_index
from polyhop.flows.maintain import run_verify
from polyhop.flows.reports import IndexReport
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import ConfigurationError, InvariantError
from polyhop.schemas.manifest import Manifest
from polyhop.schemas.ports import Strategy
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.cache.vectors import VectorCache
from polyhop.warehouse.files.layout import Layout, VersionFolder
from polyhop.warehouse.files.versions import current_version, read_manifest, require_version
from polyhop.warehouse.open_models import close_encoders
from polyhop.warehouse.tables.query import query_rows
from polyhop.warehouse.vectors import kinds
from polyhop.warehouse.vectors.kinds import VectorKind, declare, kinds_in
from polyhop.worker.strategies import registry
from polyhop.worker.strategies.base import DECLARED, Parameters, strategy

pytestmark = pytest.mark.slow

TITLE_ROWS = "SELECT passage_id AS id, title AS first, text AS second, passage_id AS rank FROM passages"
RECORDS = [
    {"id": "a", "title": "Ada Lovelace", "text": "Ada Lovelace worked with Charles Babbage in London."},
    {"id": "b", "title": "Charles Babbage", "text": "Babbage was born in London. Charles Babbage died in 1871."},
]


def never_built(*_: object) -> Strategy:
    raise AssertionError


def title_only(title: str, _text: str) -> str:
    return title


@pytest.fixture
def titles(monkeypatch: pytest.MonkeyPatch) -> Iterator[VectorKind]:
    """A third kind, and a strategy that needs it, as installed packages bring them."""
    monkeypatch.setattr(kinds, "_DECLARED", {})
    points = {"near-title": EntryPoint("near-title", __name__, registry.GROUP)}
    monkeypatch.setattr(registry, "extensions", lambda _group: points)
    strategy("near-title", "By title.", Parameters, needs={"vectors:title", "ann:title"})(never_built)
    yield declare(VectorKind("title", "titles", TITLE_ROWS, title_only))
    del DECLARED["near-title"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text("\n".join(map(json.dumps, RECORDS)), encoding="utf-8")
    return path


def run(root: Path, corpus: Path, *strategies: str) -> tuple[IndexReport, Manifest]:
    settings = Settings(root=root, strategies=strategies, batch_size=1)
    report = run_index(settings, IndexRequest("one", corpus), DirectRunner())
    return report, read_manifest(require_version(Layout(root), "one")[1])


def test_a_third_kind_is_published_in_a_table_of_its_own(tmp_path: Path, corpus: Path, titles: VectorKind) -> None:
    root = tmp_path / "data"
    _, before = run(root, corpus, "naive-vector", "dense")
    report, manifest = run(root, corpus, "naive-vector", "dense", "near-title")
    assert report.reused[-2:] == ["embed-entity", "embed-passage"]
    assert {kind: record.table for kind, record in manifest.vectors.items()} == {
        "passage": "passages",
        "entity": "entities",
        "title": titles.table,
    }
    assert {kind: manifest.vectors[kind] for kind in before.vectors} == before.vectors
    assert manifest.vectors["title"].hnsw is not None
    found = query_rows(Layout(root), "one", "SELECT id FROM title_vectors ORDER BY id").column("id").to_pylist()
    assert found == ["a", "b"]
    verified = run_verify(Settings(root=root), "one")
    assert not any(verified.differences.values())
    again, _ = run(root, corpus, "near-title")
    assert (again.changed, again.version) == (False, 2)


def test_an_index_with_a_kind_that_nobody_declares_any_more_is_left_alone(
    tmp_path: Path, corpus: Path, titles: VectorKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "data"
    run(root, corpus, "near-title")
    monkeypatch.setattr(kinds, "_DECLARED", {})
    words = (
        f"Unknown vector kind '{titles.name}'; known are passage, entity, proposition, name, triple, triplename, "
        "hubpath, hubvalue. If a"
    )
    with pytest.raises(ConfigurationError, match=words):
        run(root, corpus, "bm25")


def test_rows_that_name_the_same_thing_twice_are_not_published(
    tmp_path: Path, corpus: Path, titles: VectorKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kinds, "_DECLARED", {})
    declare(replace(titles, rows=f"{TITLE_ROWS} UNION ALL {TITLE_ROWS}"))
    with pytest.raises(InvariantError, match=r"table 'embeddings' has \d+ rows with a used key"):
        run(tmp_path / "data", corpus, "near-title")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("SELEC 1", "syntax error"),
        ("SELECT passage_id AS id, nothing AS first, text AS second, passage_id AS rank FROM passages", "nothing"),
        ("SELECT passage_id AS id, passage_id AS rank FROM passages", "first"),
    ],
)
def test_rows_that_duckdb_refuses_name_the_kind(
    tmp_path: Path, corpus: Path, titles: VectorKind, monkeypatch: pytest.MonkeyPatch, rows: str, words: str
) -> None:
    monkeypatch.setattr(kinds, "_DECLARED", {})
    declare(replace(titles, rows=rows))
    with pytest.raises(ConfigurationError, match=f"rows of the vector kind 'title' cannot be read: .*{words}"):
        run(tmp_path / "data", corpus, "near-title")


@pytest.mark.parametrize(
    ("name", "table", "words"),
    [
        ("passage", "others", "collides with the kind 'passage'"),
        ("other", "entities", "collides with the kind 'entity' with table 'entities'"),
        ("passage_x", "others", "lower-case letters and digits only"),
        ("other", "o-2", "needs another table than 'o-2'"),
    ],
)
def test_a_name_or_table_that_is_in_use_or_unusable_is_refused(name: str, table: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        declare(VectorKind(name, table, TITLE_ROWS, title_only))


def test_kinds_are_those_of_the_artefacts_ours_first() -> None:
    wanted = ["ann:passage", "graph", "vectors:entity", "vectors:passage"]
    assert [kind.name for kind in kinds_in(wanted)] == ["passage", "entity"]
    assert [kind.name for kind in kinds_in(wanted, "ann")] == ["passage"]


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
