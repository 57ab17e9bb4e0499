"""HNSW graphs over LanceDB tables, on a real database."""

from dataclasses import replace
from pathlib import Path

import lancedb
import numpy as np
import pytest

from schemas.settings import VectorSettings
from warehouse.vectors.approximate import has_hnsw, open_table, search_hnsw
from warehouse.vectors.lance import VectorRows, sync_table

SETTINGS = VectorSettings(hnsw_m=16, hnsw_ef_construction=64)


def rows(count: int, seed: int = 13) -> VectorRows:
    """Random directions; the ids are in the order of the rows."""
    vectors = np.random.default_rng(seed).normal(size=(count, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    names = [f"p{number:04d}" for number in range(count)]
    return VectorRows(ids=names, texts=names, hashes=names, vectors=vectors)


def first_of(whole: VectorRows, count: int) -> VectorRows:
    return VectorRows(whole.ids[:count], whole.texts[:count], whole.hashes[:count], whole.vectors[:count])


def test_the_graph_finds_what_exact_search_finds_and_says_how_often(tmp_path: Path) -> None:
    wanted = rows(600)
    synced = sync_table(tmp_path, "passages", wanted, SETTINGS)
    assert synced.hnsw is not None
    assert (synced.hnsw.m, synced.hnsw.ef_construction, synced.hnsw.ef_search) == (16, 64, 64)
    assert 0.9 <= synced.hnsw.recall_at_10 <= 1
    table = open_table(tmp_path, "passages", synced.lance_version)
    for number in (0, 17, 599):
        cosines = wanted.vectors @ wanted.vectors[number]
        found = search_hnsw(table, wanted.vectors[number], 5, 64)
        assert found[0] == wanted.ids[number]
        exact = {wanted.ids[n] for n in np.argsort(-cosines)[:5]}
        assert len(exact.intersection(found)) >= 4


def test_a_graph_is_built_again_only_for_other_rows_or_other_settings(tmp_path: Path) -> None:
    first = sync_table(tmp_path, "passages", rows(300), SETTINGS)
    assert sync_table(tmp_path, "passages", rows(300), SETTINGS).lance_version == first.lance_version
    other = VectorSettings(hnsw_m=8, hnsw_ef_construction=64)
    denser = sync_table(tmp_path, "passages", rows(300), other)
    assert denser.lance_version > first.lance_version
    table = lancedb.connect(tmp_path).open_table("passages")
    assert has_hnsw(table, other)
    assert not has_hnsw(table, SETTINGS)
    fewer = replace(rows(300), ids=rows(300).ids[:290], texts=rows(300).texts[:290], hashes=rows(300).hashes[:290])
    synced = sync_table(tmp_path, "passages", replace(fewer, vectors=fewer.vectors[:290]), other)
    table = open_table(tmp_path, "passages", synced.lance_version)
    assert has_hnsw(table, other)
    assert "p0295" not in search_hnsw(table, rows(300).vectors[295], 290, 300)


def test_a_version_pinned_before_keeps_its_own_graph(tmp_path: Path) -> None:
    first = sync_table(tmp_path, "passages", rows(50), SETTINGS)
    lancedb.connect(tmp_path).open_table("passages").tags.create("v1", first.lance_version)
    sync_table(tmp_path, "passages", rows(50, seed=7), SETTINGS)
    found = search_hnsw(open_table(tmp_path, "passages", first.lance_version), rows(50).vectors[3], 1, 64)
    assert found == ["p0003"]


@pytest.mark.parametrize("count", [1, 2, 9])
def test_a_table_of_a_few_rows_has_a_graph_as_well(tmp_path: Path, count: int) -> None:
    wanted = rows(count)
    synced = sync_table(tmp_path, "passages", wanted, SETTINGS)
    assert synced.hnsw is not None
    assert synced.hnsw.recall_at_10 == 1.0
    assert len(search_hnsw(open_table(tmp_path, "passages", synced.lance_version), wanted.vectors[0], 10, 64)) == count


def test_rows_added_beside_a_graph_bring_no_warning(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sync_table(tmp_path, "passages", first_of(rows(300), 290), SETTINGS)
    sync_table(tmp_path, "passages", rows(300), SETTINGS)
    assert capfd.readouterr().err == ""
