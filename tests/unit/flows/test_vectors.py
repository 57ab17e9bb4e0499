"""Kinds of vectors beside passages and entities, and vectors that are copied from the version before."""

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from real_index import RealIndex, flip, lasting

from polyhop.flows.maintain import run_verify
from polyhop.flows.reports import IndexReport
from polyhop.schemas.errors import ConfigurationError, InvariantError
from polyhop.schemas.ports import Strategy
from polyhop.warehouse.cache.vectors import VectorCache
from polyhop.warehouse.files.layout import Layout
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
def one(tmp_path: Path, titles: VectorKind) -> RealIndex:
    """An index to be built with the third kind."""
    return RealIndex(tmp_path, strategies=("near-title",), batch_size=1)


def test_a_third_kind_is_published_in_a_table_of_its_own(tmp_path: Path, one: RealIndex, titles: VectorKind) -> None:
    old = RealIndex(tmp_path, strategies=("naive-vector", "dense"), batch_size=1)
    old.read(RECORDS)
    before = old.manifest
    one.settings = old.settings.model_copy(update={"strategies": ("naive-vector", "dense", "near-title")})
    report, manifest = one.read(RECORDS), one.manifest
    assert report.reused[-2:] == ["embed-entity", "embed-passage"]
    assert {kind: record.table for kind, record in manifest.vectors.items()} == {
        "passage": "passages",
        "entity": "entities",
        "title": titles.table,
    }
    assert {kind: manifest.vectors[kind] for kind in before.vectors} == before.vectors
    assert manifest.vectors["title"].hnsw is not None
    found = query_rows(Layout(one.root), "i", "SELECT id FROM title_vectors ORDER BY id").column("id").to_pylist()
    assert found == ["a", "b"]
    assert not any(run_verify(one.settings, "i").differences.values())
    one.settings = one.settings.model_copy(update={"strategies": ("near-title",)})
    again = one.read(RECORDS)
    assert (again.changed, again.version) == (False, 2)


REFUSED = "rows of the vector kind 'title' cannot be read: .*"


@pytest.mark.parametrize(
    ("rows", "error", "words"),
    [
        (f"{TITLE_ROWS} UNION ALL {TITLE_ROWS}", InvariantError, r"table 'embeddings' has \d+ rows with a used key"),
        ("SELEC 1", ConfigurationError, f"{REFUSED}syntax error"),
        (TITLE_ROWS.replace("title AS", "nothing AS"), ConfigurationError, f"{REFUSED}nothing"),
        ("SELECT passage_id AS id, passage_id AS rank FROM passages", ConfigurationError, f"{REFUSED}first"),
    ],
    ids=["twice", "syntax", "no such column", "no first"],
)
def test_rows_of_a_kind_that_are_wrong_are_not_published(
    one: RealIndex, titles: VectorKind, monkeypatch: pytest.MonkeyPatch, rows: str, error: type[Exception], words: str
) -> None:
    monkeypatch.setattr(kinds, "_DECLARED", {})
    declare(replace(titles, rows=rows))
    with pytest.raises(error, match=words):
        one.read(RECORDS)


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


class Places(RealIndex):
    """An index of a few passages, with vectors of passages, propositions and names."""

    def index(self, *lakes: int, full: bool = False) -> IndexReport:
        """Indexes ten passages; those with these numbers are about lakes."""
        names = [f"{'Lake' if n in lakes else 'Mount'} Number{n}" for n in range(10)]
        rows = [{"id": f"p{n}", "title": name, "text": f"{name} is near Old Town{n}."} for n, name in enumerate(names)]
        return self.read(rows, source_name="corpus", full=full)


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Places:
    places = Places(tmp_path_factory.mktemp("places"), strategies=("proprag",), batch_size=4)
    places.index()
    return places


@pytest.fixture
def places(indexed: Places, tmp_path: Path) -> Places:
    close_encoders()
    return indexed.copy(tmp_path)


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
    assert lasting(places.manifest) == lasting(edited)


@pytest.mark.rare
@pytest.mark.parametrize("damage", [flip, os.unlink])
@pytest.mark.parametrize("name", [MATRIX, HASHES])
def test_a_damaged_matrix_is_not_copied_from(
    places: Places, keys_read: list[str], name: str, damage: Callable[[Path], None]
) -> None:
    damage(places.version.arrays / name)
    report = places.index(3)
    assert any(f"'{name}'" in sentence for sentence in report.damaged)
    assert report.computed["embed-name"] == 1
    assert len(keys_read) > 10
    edited = places.manifest
    places.index(3, full=True)
    assert lasting(places.manifest) == lasting(edited)


def test_vectors_survive_a_cache_that_is_lost(places: Places, keys_read: list[str]) -> None:
    with sqlite3.connect(Layout(places.root).vector_cache) as connection:
        connection.execute("DELETE FROM vectors")
    connection.close()
    report = places.index(3)
    assert (report.computed["embed-passage"], report.computed["embed-proposition"]) == (1, 1)
    assert len(keys_read) == 3


def test_a_version_of_before_without_hashes_has_its_vectors_read_from_the_cache(
    places: Places, keys_read: list[str]
) -> None:
    document = json.loads(places.version.manifest.read_bytes())
    for name in [name for name in document["arrays"] if name.endswith("_hashes.npy")]:
        del document["arrays"][name]
        (places.version.arrays / name).unlink()
    del document["checksum"]
    places.version.manifest.write_text(json.dumps(document))
    report = places.index(3)
    assert (report.damaged, report.computed["embed-name"]) == ([], 1)
    assert len(keys_read) > 3 * 10
    assert HASHES in places.manifest.arrays


@pytest.mark.rare
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
    flip(places.version.arrays / MATRIX)
    assert places.index(3).computed["embed-name"] == 0
    resumed = places.manifest
    places.index(3, full=True)
    assert lasting(places.manifest) == lasting(resumed)
