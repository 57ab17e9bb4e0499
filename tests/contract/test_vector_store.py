"""What the store of vectors must do: as any, and over LanceDB."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import lancedb
import numpy as np
import pytest
from numpy.typing import NDArray
from real_index import flip

from polyhop.schemas.errors import DamagedStoreError, StoreError
from polyhop.schemas.ports import VectorRows
from polyhop.warehouse.files.layout import IndexFolder, Layout
from polyhop.warehouse.index_reader import open_vector_store
from polyhop.warehouse.vectors import lance
from polyhop.warehouse.vectors.lance import LanceTable, LanceVectors

pytestmark = pytest.mark.slow

WIDTH = 8
TABLE = "passages"


@dataclass(frozen=True)
class Kept:
    """What is kept of an index, to be opened as often as processes would."""

    index: IndexFolder

    def open(self) -> LanceVectors:
        return open_vector_store(self.index)

    def table(self) -> Any:
        return lancedb.connect(self.index.vectors).open_table(TABLE)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(Layout(tmp_path).index("towns"))


@pytest.fixture
def store(kept: Kept) -> LanceVectors:
    return kept.open()


def vector_of(number: int, edition: int) -> NDArray[np.float32]:
    made = np.random.default_rng([number, edition]).normal(size=WIDTH)
    return (made / np.linalg.norm(made)).astype(np.float32)


def rows(numbers: Sequence[int], edited: Sequence[int] = ()) -> VectorRows:
    """Rows by number; those of `edited` in a second edition."""
    editions = [2 if number in edited else 1 for number in numbers]
    return VectorRows(
        ids=[f"p{number:05d}" for number in numbers],
        texts=lambda chosen: (f"town {numbers[n]}" for n in chosen),
        hashes=[f"{number} {edition}" for number, edition in zip(numbers, editions, strict=True)],
        vectors=np.stack([vector_of(*pair) for pair in zip(numbers, editions, strict=True)]),
    )


def published(store: LanceVectors, wanted: VectorRows, pin: str, *, has_graph: bool = False) -> int:
    """Brings the table up to date as publishing does, and returns the version that is pinned."""
    store.begin_changes()
    synced = store.sync(TABLE, wanted, has_graph=has_graph)
    store.pin(synced.table, synced.version, pin)
    store.end_changes()
    return synced.version


def held(table: LanceTable) -> dict[str, tuple[float, ...]]:
    found = table.read()
    return dict(zip(found.column("id").to_pylist(), map(tuple, found.column("vector").to_pylist()), strict=True))


def stated(wanted: VectorRows) -> dict[str, tuple[float, ...]]:
    return dict(zip(wanted.ids, map(tuple, wanted.vectors.tolist()), strict=True))


def test_a_table_from_nothing_holds_exactly_the_rows(store: LanceVectors) -> None:
    wanted = rows(range(40))
    synced = store.sync(TABLE, wanted)
    assert (synced.table, synced.written, synced.deleted, synced.hnsw) == (TABLE, 40, 0, None)
    assert held(store.open(TABLE, synced.version)) == stated(wanted)
    types = {field.name: str(field.type) for field in store.open(TABLE, synced.version).read().schema}
    assert types == {"id": "string", "vector": f"fixed_size_list<item: float>[{WIDTH}]", "_rowid": "uint64"}
    for name, version in ((TABLE, synced.version + 50), ("nowhere", 1)):
        with pytest.raises(DamagedStoreError, match="polyhop verify --index towns --repair"):
            store.open(name, version)


@pytest.mark.parametrize("has_graph", [False, True], ids=["exact", "approximate"])
def test_the_same_rows_again_change_nothing_and_keep_the_version(kept: Kept, *, has_graph: bool) -> None:
    first, again = (kept.open().sync(TABLE, rows(range(60)), has_graph=has_graph) for _ in range(2))
    assert again == replace(first, written=0)
    if first.hnsw:
        assert (first.hnsw.m, first.hnsw.ef_construction) == (32, 200)
        assert first.hnsw.recall_at_10 == 1.0  # so few rows are found without fail
    assert (first.hnsw is None) is not has_graph
    assert sorted(kept.open().open(TABLE, first.version).nearest(vector_of(2, 1), 70, 64)) == rows(range(60)).ids


def test_cleaning_keeps_what_is_pinned_and_removes_tables_that_nobody_names(store: LanceVectors) -> None:
    wanted = [rows(range(n, n + 10)) for n in range(3)]
    numbers = [published(store, each, pin) for pin, each in zip(("v0", "v2", "v2"), wanted, strict=True)]  # it moves
    other = store.rebuild(TABLE, wanted[0])
    store.clean(["v0", "v2"], [TABLE])
    assert held(store.open(TABLE, numbers[0])) == stated(wanted[0])
    assert held(store.open(TABLE, numbers[2])) == stated(wanted[2])
    with pytest.raises(DamagedStoreError):
        store.open(other.table, other.version)
    synced = store.sync(TABLE, rows(range(2, 13)))  # a table grows on after cleaning
    assert (synced.written, synced.deleted, synced.version != numbers[2]) == (1, 0, True)


def test_files_are_joined_once_there_are_many_and_an_open_table_does_not_see_it(kept: Kept) -> None:
    opened, files = kept.open().open(TABLE, published(kept.open(), rows(range(40)), "v0")), []
    for number in range(1, 13):  # each edit writes one row, and the first deletes one
        version = published(kept.open(), rows(range(39), edited=range(number)), "v1")
        kept.open().clean(["v0", "v1"], [TABLE])
        files.append(kept.table().stats()["fragment_stats"]["num_fragments"])
    assert files == [*range(2, 11), 1, 2, 3]
    assert held(opened) == stated(rows(range(40)))
    assert held(kept.open().open(TABLE, version)) == stated(rows(range(39), edited=range(12)))


@pytest.mark.parametrize("has_graph", [False, True], ids=["exact", "approximate"])
def test_search_returns_the_nearest_rows_first(store: LanceVectors, *, has_graph: bool) -> None:
    wanted = rows(range(200))
    table = store.open(TABLE, store.sync(TABLE, wanted, has_graph=has_graph).version)
    for number in (0, 17, 199):
        query = wanted.vectors[number] + np.float32(0.1) * vector_of(number, 3)
        cosines = wanted.vectors @ query
        found = table.nearest(query, 5, 64)
        assert found[0] == wanted.ids[int(np.argmax(cosines))]
        order = [cosines[wanted.ids.index(key)] for key in found]
        assert order == sorted(order, reverse=True)
        exact = {wanted.ids[n] for n in np.argsort(-cosines)[:5]}
        assert len(exact.intersection(found)) >= 4


def test_damage_is_found_and_a_new_table_takes_over(kept: Kept) -> None:
    store = kept.open()
    published(store, rows(range(2, 32)), "v0")
    number = published(store, rows(range(30)), "v1")
    assert store.find_damage(TABLE) == []
    file = max(kept.index.vectors.glob(f"{TABLE}.lance/data/*"), key=lambda path: path.stat().st_size)
    flip(file, file.stat().st_size // 2)
    assert len(store.find_damage(TABLE)) == 1
    with pytest.raises(DamagedStoreError):
        kept.open().open(TABLE, number).read()
    store.end_changes()
    assert len(store.find_damage(TABLE)) == 1  # a list made afterwards does not take damage for content
    file.parents[1].rename(kept.index.vectors.parent / "gone")  # whose name is still listed
    synced = store.rebuild(TABLE, rows(range(30)))
    assert synced.table != TABLE
    assert held(store.open(synced.table, synced.version)) == stated(rows(range(30)))
    assert store.find_damage(synced.table) == []


def test_an_interrupted_change_is_completed_by_the_next_one(kept: Kept) -> None:
    """More rows than a store writes at once, so that it has written some of them when it ends."""
    first = published(kept.open(), rows(range(20)), "v1")
    wanted = rows(range(10, 5500), edited=range(10, 15))
    store = kept.open()
    assert not store.is_changing()
    store.begin_changes()
    end = Mock(side_effect=[*["a"] * 5484, KeyboardInterrupt])
    with pytest.raises(KeyboardInterrupt):
        store.sync(TABLE, replace(wanted, texts=lambda chosen: map(end, chosen)))
    assert kept.open().is_changing(), "a run that was killed is known"
    assert kept.open().find_damage(TABLE) == []
    assert held(kept.open().open(TABLE, first)) == stated(rows(range(20)))
    second = published(kept.open(), wanted, "v2")
    assert held(kept.open().open(TABLE, second)) == stated(wanted)
    assert held(kept.open().open(TABLE, first)) == stated(rows(range(20)))
    assert kept.open().find_damage(TABLE) == []
    assert not kept.open().is_changing()


def test_ids_and_words_with_quotes_in_them_are_data(store: LanceVectors) -> None:
    odd = VectorRows(["it's", "x') OR 1=1 --"], lambda _: ["a 'b'", "c"], ["1", "2"], rows(range(2)).vectors)
    store.sync(TABLE, odd)
    synced = store.sync(TABLE, VectorRows(odd.ids[:1], odd.texts, odd.hashes[:1], odd.vectors[:1]))
    assert (synced.deleted, list(held(store.open(TABLE, synced.version)))) == (1, ["it's"])


def test_a_fault_of_who_gives_texts_is_no_damage(store: LanceVectors) -> None:
    with pytest.raises(StoreError, match=r"^full$"):
        store.sync(TABLE, replace(rows(range(3)), texts=lambda some: map(Mock(side_effect=StoreError("full")), some)))


def test_a_graph_is_built_again(kept: Kept, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def synced(count: int) -> int:
        return kept.open().sync(TABLE, rows(range(count)), has_graph=True).version

    first = synced(100)
    assert synced(100) == first
    monkeypatch.setattr(lance, "HNSW_M", 8)
    assert synced(100) > first
    assert lance.has_hnsw(kept.table())
    fewer = synced(90)
    assert lance.has_hnsw(kept.table())
    assert "p00095" not in kept.open().open(TABLE, fewer).nearest(vector_of(95, 1), 90, 300)
    synced(100)
    assert capfd.readouterr().err == ""  # rows added beside a graph bring no warning


def test_cleaning_never_passes_a_tagged_version(kept: Kept) -> None:
    """LanceDB refuses to; by its default of seven days edits failed a week after a version that is still kept."""
    for count, pin in ((20, "v1"), (25, "v2")):
        published(kept.open(), rows(range(count)), pin, has_graph=True)
    with pytest.raises(RuntimeError, match="tagged version"):
        kept.table().optimize(cleanup_older_than=timedelta(milliseconds=1))
    lance._optimize(kept.table(), timedelta(milliseconds=1))
    kept.open().clean(["v2"], [TABLE])
    assert list(kept.table().tags.list()) == ["v2"]
    kept.open().clean([], [])
    assert not list(kept.index.vectors.glob("*.lance"))


def test_a_damaged_database_is_one_sentence(kept: Kept) -> None:
    version = kept.open().sync(TABLE, rows(range(20)), has_graph=True).version
    for file in kept.index.vectors.glob(f"{TABLE}.lance/_versions/*.manifest"):
        file.write_bytes(b"x" * 40)
    for use in (
        lambda: kept.open().sync(TABLE, rows(range(20)), has_graph=True),
        lambda: kept.open().open(TABLE, version),
        lambda: kept.open().pin(TABLE, version, "v1"),
    ):
        with pytest.raises(DamagedStoreError, match=r"LanceDB failed: .*polyhop verify --index towns --repair$"):
            use()


@pytest.mark.parametrize("step", ["lancedb.table.LanceTable.list_indices", "polyhop.warehouse.vectors.lance._optimize"])
def test_a_kill_between_rows_and_indexes_loses_nothing(step: str, kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the indexes of the version before are gone, and after."""
    store, edited = kept.open(), rows(range(6), edited=range(6))
    before = published(store, rows(range(4)), "v1", has_graph=True)
    with monkeypatch.context() as patched:
        patched.setattr(step, Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            store.sync(TABLE, edited)
    assert held(store.open(TABLE, before)) == stated(rows(range(4)))
    after = store.sync(TABLE, edited, has_graph=True)
    assert (after.written, lance.has_hnsw(kept.table())) == (0, True)
    assert held(store.open(TABLE, after.version)) == stated(edited)
    assert store.sync(TABLE, edited, has_graph=True).version == after.version
