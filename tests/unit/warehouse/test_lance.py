"""HNSW graphs and indexes of ids and texts over LanceDB tables, on a real database."""

from datetime import timedelta
from pathlib import Path

import lancedb
import numpy as np
import pytest

from polyhop.schemas.errors import DamagedStoreError
from polyhop.schemas.ports import VectorRows
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.index_reader import open_vector_store
from polyhop.warehouse.vectors.lance import LanceVectors, _optimize, has_hnsw

pytestmark = pytest.mark.slow


def rows(count: int, seed: int = 13) -> VectorRows:
    """Random directions; the ids are in the order of the rows."""
    vectors = np.random.default_rng(seed).normal(size=(count, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    names = [f"p{number:04d}" for number in range(count)]
    return VectorRows(ids=names, texts=names, hashes=names, vectors=vectors)


def first_of(whole: VectorRows, count: int) -> VectorRows:
    return VectorRows(whole.ids[:count], whole.texts[:count], whole.hashes[:count], whole.vectors[:count])


@pytest.mark.parametrize("count", [1, 9, 600])
def test_the_graph_finds_what_exact_search_finds_and_says_how_often(tmp_path: Path, count: int) -> None:
    wanted = rows(count)
    synced = LanceVectors(tmp_path).sync("passages", wanted, has_graph=True)
    assert synced.hnsw is not None
    assert (synced.hnsw.m, synced.hnsw.ef_construction, synced.hnsw.ef_search) == (32, 200, 64)
    assert 0.9 <= synced.hnsw.recall_at_10 <= 1
    table = LanceVectors(tmp_path).open("passages", synced.version)
    for number in (0, count // 30, count - 1):
        exact = [wanted.ids[n] for n in np.argsort(-(wanted.vectors @ wanted.vectors[number]))[:5]]
        found = table.nearest(wanted.vectors[number], 5, 64)
        assert found[0] == exact[0] == wanted.ids[number]
        assert len(set(exact).intersection(found)) >= len(exact) - 1


def test_a_graph_is_built_again_only_for_other_rows_or_another_density(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def synced(count: int) -> int:
        return LanceVectors(tmp_path).sync("passages", first_of(rows(100), count), has_graph=True).version

    first = synced(100)
    assert synced(100) == first
    monkeypatch.setattr("polyhop.warehouse.vectors.lance.HNSW_M", 8)
    assert synced(100) > first
    table = lancedb.connect(tmp_path).open_table("passages")
    assert has_hnsw(table)
    with monkeypatch.context() as patch:
        patch.setattr("polyhop.warehouse.vectors.lance.HNSW_M", 16)
        assert not has_hnsw(table)
    fewer = synced(90)
    assert has_hnsw(lancedb.connect(tmp_path).open_table("passages"))
    assert "p0095" not in LanceVectors(tmp_path).open("passages", fewer).nearest(rows(100).vectors[95], 90, 300)
    synced(100)
    assert capfd.readouterr().err == ""  # rows added beside a graph bring no warning


def test_cleaning_never_passes_a_tagged_version(tmp_path: Path) -> None:
    """LanceDB refuses to; by its default of seven days edits failed a week after a version that is still kept."""
    first = LanceVectors(tmp_path).sync("passages", rows(20), has_graph=True)
    LanceVectors(tmp_path).pin("passages", first.version, "v000001")
    second = LanceVectors(tmp_path).sync("passages", rows(25), has_graph=True)
    LanceVectors(tmp_path).pin("passages", second.version, "v000002")
    table = lancedb.connect(tmp_path).open_table("passages")
    with pytest.raises(RuntimeError, match="tagged version"):
        table.optimize(cleanup_older_than=timedelta(milliseconds=1))
    _optimize(table, timedelta(milliseconds=1))
    LanceVectors(tmp_path).clean(["v000002"], ["passages"])
    assert list(table.tags.list()) == ["v000002"]
    LanceVectors(tmp_path).clean([], [])
    assert not list(tmp_path.glob("*.lance"))


def test_a_damaged_database_is_one_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "indexes" / "towns" / "vectors"
    synced = LanceVectors(folder).sync("passages", rows(20), has_graph=True)
    for file in folder.glob("passages.lance/_versions/*.manifest"):
        file.write_bytes(b"x" * 40)
    for use in (
        lambda: LanceVectors(folder).sync("passages", rows(20), has_graph=True),
        lambda: LanceVectors(folder).open("passages", synced.version),
        lambda: LanceVectors(folder).pin("passages", synced.version, "v000001"),
    ):
        with pytest.raises(DamagedStoreError, match=r"LanceDB says: .*polyhop verify --index towns --repair$"):
            use()


def towns(count: int, word: str) -> VectorRows:
    texts = [f"town {number} {word if number == 1 else 'river'}" for number in range(count)]
    return VectorRows([f"p{n}" for n in range(count)], texts, texts, np.eye(8, dtype=np.float32)[:count])


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_texts_are_found_after_a_run_that_was_killed_between_rows_and_indexes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Layout(tmp_path).index("towns")
    store = open_vector_store(index)
    before = store.sync("passages", towns(4, "harbour"))
    store.pin("passages", before.version, "v1")
    with monkeypatch.context() as patched:
        patched.setattr("polyhop.warehouse.vectors.lance._optimize", _killed)
        with pytest.raises(KeyboardInterrupt):
            store.sync("passages", towns(6, "castle"))
    assert store.open("passages", before.version).search_text("harbour", 5) == ["p1"]
    after = store.sync("passages", towns(6, "castle"))
    assert after.written == 0
    table = lancedb.connect(index.vectors).open_table("passages")
    assert sorted(column for each in table.list_indices() for column in each.columns) == ["id", "text"]
    assert store.open("passages", after.version).search_text("castle", 5) == ["p1"]
    assert store.sync("passages", towns(6, "castle")).version == after.version
