"""Reading costs the same memory however long the file is."""

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from polyhop.warehouse.files.corpora import read_corpus

RECORD = json.dumps({"id": "a", "title": "t", "text": "word " * 1000})
FILE_BYTES = 50_000_000
LIMIT_BYTES = 5_000_000


def write_json_lines(path: Path, count: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{RECORD}\n" for _ in range(count))


def write_json_list(path: Path, count: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write("[" + RECORD)
        file.writelines(f",\n{RECORD}" for _ in range(count - 1))
        file.write("]")


def write_csv(path: Path, count: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write("text\n")
        file.writelines("word " * 1000 + "\n" for _ in range(count))


@pytest.mark.parametrize(
    ("name", "write"), [("c.jsonl", write_json_lines), ("c.json", write_json_list), ("c.csv", write_csv)]
)
def test_memory_does_not_grow_with_the_file(tmp_path: Path, name: str, write: Callable[[Path, int], None]) -> None:
    path = tmp_path / name
    count = FILE_BYTES // len(RECORD)
    write(path, count)
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_corpus(path)) == count
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < LIMIT_BYTES
