"""LanceDB's indexes of ids and texts: dropped while rows change, and made again, also by the run after a killed one."""

from pathlib import Path

import lancedb
import numpy as np
import pytest

from polyhop.schemas.ports import VectorRows
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.index_reader import open_vector_store


def rows(count: int, word: str) -> VectorRows:
    texts = [f"town {number} {word if number == 1 else 'river'}" for number in range(count)]
    return VectorRows([f"p{n}" for n in range(count)], texts, texts, np.eye(8, dtype=np.float32)[:count])


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_texts_are_found_after_a_run_that_was_killed_between_rows_and_indexes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Layout(tmp_path).index("towns")
    store = open_vector_store(index)
    before = store.sync("passages", rows(4, "harbour"))
    store.pin("passages", before.version, "v1")
    with monkeypatch.context() as patched:
        patched.setattr("polyhop.warehouse.vectors.lance._optimize", _killed)
        with pytest.raises(KeyboardInterrupt):
            store.sync("passages", rows(6, "castle"))
    assert store.open("passages", before.version).search_text("harbour", 5) == ["p1"]
    after = store.sync("passages", rows(6, "castle"))
    assert after.written == 0
    table = lancedb.connect(index.vectors).open_table("passages")
    assert sorted(column for each in table.list_indices() for column in each.columns) == ["id", "text"]
    assert store.open("passages", after.version).search_text("castle", 5) == ["p1"]
    assert store.sync("passages", rows(6, "castle")).version == after.version
