"""Vectors of path texts: kept up to a bound, shared by processes that write at once, and never in the way."""

import logging
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from polyhop.schemas.errors import StoreUnavailableError
from polyhop.warehouse.cache.vectors import CHUNK_SIZE, PathEncoder, VectorCache

WRITE = """
import sys
from pathlib import Path
import numpy as np
from polyhop.warehouse.cache.vectors import VectorCache
from polyhop.warehouse.cache.vectors import PathEncoder

class Lengths:
    model, dimension = "lengths", 3
    def encode(self, texts):
        return np.array([[len(text), 1, 0] for text in texts], dtype=np.float32)

path, me = Path(sys.argv[1]), int(sys.argv[2])
encoder = PathEncoder(Lengths(), lambda: VectorCache(path, most_rows=100))
for number in range(60):
    texts = [f"{'x' * number} {n}" for n in range(20)] + [f"{me} {number}"]
    assert encoder.encode(texts).tolist() == [[len(text), 1, 0] for text in texts]
encoder.close()
"""


class Lengths:
    """A vector that tells the text's length; remembers what it was asked."""

    model = "lengths"
    dimension = 3
    max_tokens = 0

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls.append(list(texts))
        return np.array([[len(text), 1, 0] for text in texts], dtype=np.float32).reshape(-1, self.dimension)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "caches" / "paths.sqlite"


def test_the_newest_vectors_are_kept(path: Path) -> None:
    cache = VectorCache(path, most_rows=3)
    cache.put_many({key: np.ones(2, np.float32) for key in "ab"})
    cache.put_many({key: np.ones(2, np.float32) for key in "acd"})
    assert set(cache.get_many(list("abcd"))) == {"b", "c", "d"}
    cache.close()
    again = VectorCache(path, most_rows=3)
    again.put_many({"e": np.ones(2, np.float32)})
    assert set(again.get_many(list("abcde"))) == {"c", "d", "e"}
    assert again.stats().row_count == 3
    again.close()


def test_what_is_not_cached_is_encoded_in_one_call_and_outlives_the_process(path: Path) -> None:
    texts = [f"text {number}" for number in range(2 * CHUNK_SIZE)]
    model = Lengths()
    first = PathEncoder(model, lambda: VectorCache(path, most_rows=10_000))
    vectors = first.encode(texts)
    first.close()
    later = Lengths()
    second = PathEncoder(later, lambda: VectorCache(path, most_rows=10_000))
    assert second.encode([*texts, "another"]).tobytes() == Lengths().encode([*texts, "another"]).tobytes()
    assert vectors.tobytes() == Lengths().encode(texts).tobytes()
    assert (model.calls, later.calls) == ([texts], [["another"]])
    second.close()
    assert second.encode(["another"]).tolist() == [[7, 1, 0]]
    assert len(later.calls) == 1
    second.close()


def test_a_damaged_cache_stops_no_question_and_is_said_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.parent.mkdir()
    path.write_bytes(b"no database at all, but long enough to be read as one" * 50)
    model = Lengths()
    encoder = PathEncoder(model, lambda: VectorCache(path, most_rows=10))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert encoder.encode(["a", "bb"]).tolist() == [[1, 1, 0], [2, 1, 0]]
    assert len(model.calls) == 1
    (record,) = caplog.records
    assert "paths.sqlite was damaged" in record.getMessage()


def test_a_cache_that_fails_later_stops_no_question(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = PathEncoder(Lengths(), lambda: VectorCache(path, most_rows=10))
    encoder.encode(["a"])

    def locked(*_: object) -> None:
        raise StoreUnavailableError("Other processes keep it locked.")

    monkeypatch.setattr(VectorCache, "put_many", locked)
    assert encoder.encode(["a", "bb"]).tolist() == [[1, 1, 0], [2, 1, 0]]
    assert encoder.encode(["ccc"]).tolist() == [[3, 1, 0]]
    encoder.close()


def test_processes_that_write_at_once_get_every_vector_and_keep_the_bound(path: Path) -> None:
    commands = [[sys.executable, "-W", "error", "-c", WRITE, str(path), str(me)] for me in range(3)]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    assert [process.communicate(timeout=120)[1] for process in running] == ["", "", ""]
    cache = VectorCache(path)
    assert cache.stats().row_count == 100
    cache.close()
