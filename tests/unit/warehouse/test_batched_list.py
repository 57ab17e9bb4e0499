"""Lists in batches: each batch comes back, and a list is there whole or not at all."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from polyhop.warehouse.build import batch_count, read_batch, row_count, write_batches

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def table(*numbers: int) -> pa.Table:
    return pa.Table.from_pydict({"n": list(numbers), "text": [f"t{n}" for n in numbers]}, schema=SCHEMA)


def test_every_batch_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "new" / "list.parquet"
    batches = [table(1, 2, 3), table(4), table(5, 6)]
    write_batches(path, SCHEMA, iter(batches))
    assert (batch_count(path), row_count(path)) == (3, 6)
    assert [read_batch(path, number).equals(one) for number, one in enumerate(batches)] == [True] * 3


def test_a_list_of_nothing_has_no_batch(tmp_path: Path) -> None:
    path = tmp_path / "list.parquet"
    write_batches(path, SCHEMA, [])
    assert (batch_count(path), row_count(path)) == (0, 0)


def test_a_list_that_breaks_off_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "list.parquet"

    def broken() -> Iterator[pa.Table]:
        yield table(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_batches(path, SCHEMA, broken())
    assert not path.exists()
