"""The cache of embeddings: exact values back, several processes at once, a kill at any moment; and its encoder."""

import hashlib
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_processes import line_of, remaining_output
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import polyhop.warehouse.cache.database
import polyhop.warehouse.cache.vectors
from polyhop.schemas.errors import InvalidVectorError, StoreError, StoreUnavailableError
from polyhop.warehouse.cache.vectors import CachedEncoder, CacheSize, VectorCache, vector_key
from polyhop.warehouse.statements import read_statements

STATEMENTS = read_statements(Path(polyhop.warehouse.cache.vectors.__file__).parent / "sql" / "vectors.sql")
WRITE_FOR_EVER = """
import sys
from pathlib import Path
import numpy as np
from polyhop.warehouse.cache.vectors import VectorCache
cache, batch = VectorCache(Path(sys.argv[1])), 0
while True:
    cache.put_many({f"{batch}-{n}": np.full(384, batch + 1, np.float32) for n in range(50)})
    print(batch, flush=True)
    batch += 1
"""
WRITE_AND_READ = """
import sys
from pathlib import Path
import numpy as np
from polyhop.warehouse.cache.vectors import VectorCache
path, me = Path(sys.argv[1]), int(sys.argv[2])
for n in range(40):
    cache = VectorCache(path)
    cache.put_many({f"{n}-{k}": np.full(8, n + 1, np.float32) for k in range(20)} | {f"mine-{me}-{n}": np.ones(8)})
    assert len(cache.get_many([f"{n}-{k}" for k in range(20)])) == 20
    cache.close()
"""


def run_python(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "vectors.sqlite"


@pytest.fixture
def cache(path: Path) -> Iterator[VectorCache]:
    cache = VectorCache(path)
    yield cache
    cache.close()


class CountingEncoder:
    """A vector that tells the text's length; remembers what it was asked."""

    model = "counting"
    dimension = 3
    max_tokens = 0

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls.append(list(texts))
        return np.array([[len(text), 1, 0] for text in texts], dtype=np.float32).reshape(-1, 3)


def test_a_key_is_the_hash_of_model_kind_and_text() -> None:
    assert vector_key("m", "query", "a\nb") == hashlib.sha256(b"m\nquery\na\nb").hexdigest()


def test_vectors_come_back_bit_for_bit_as_little_endian_float32(cache: VectorCache, path: Path) -> None:
    vector = np.array([0.1, -2.5e-30, 3.0], dtype=np.float32)
    cache.put_many({"known": vector})
    found = cache.get_many(["unknown", "known", "known"])
    assert list(found) == ["known"]
    assert found["known"].dtype == np.float32
    assert found["known"].tobytes() == vector.tobytes()
    stored = sqlite3.connect(path)
    assert stored.execute("SELECT key, vector FROM vectors").fetchall() == [("known", vector.astype("<f4").tobytes())]
    stored.close()


@pytest.mark.parametrize("bad", [[0.0, 0.0], [1.0, np.nan], [np.inf, 1.0], [1e300, 1.0], [], [[1.0]]])
def test_a_bad_vector_is_refused_and_nothing_of_its_call_is_stored(cache: VectorCache, bad: Any) -> None:
    with np.errstate(over="ignore"), pytest.raises(InvalidVectorError, match="of key bad is"):
        cache.put_many({"good": np.ones(2, np.float32), "bad": np.array(bad)})
    assert cache.stats().row_count == 0


def test_a_known_key_keeps_its_vector(cache: VectorCache) -> None:
    cache.put_many({"key": np.ones(2, np.float32)})
    cache.put_many({"key": np.full(2, 9, np.float32), "other": np.ones(2, np.float32)})
    assert cache.get_many(["key"])["key"].tolist() == [1, 1]
    assert cache.stats().row_count == 2


def test_more_keys_than_one_read_holds_are_all_found(cache: VectorCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polyhop.warehouse.cache.vectors, "KEYS_PER_READ", 7)
    vectors = {f"k{n}": np.full(1, n + 1, np.float32) for n in range(100)}
    cache.put_many(vectors)
    assert {key: value.tolist() for key, value in cache.get_many(list(vectors)).items()} == {
        key: value.tolist() for key, value in vectors.items()
    }
    assert cache.get_many([]) == {}


def test_stats_count_rows_and_bytes(cache: VectorCache) -> None:
    empty = cache.stats()
    cache.put_many({f"k{n}": np.ones(384, np.float32) for n in range(100)})
    full = cache.stats()
    assert empty == CacheSize(row_count=0, byte_count=empty.byte_count)
    assert full.row_count == 100
    assert full.byte_count - empty.byte_count > 100 * 384 * 4


def test_a_killed_writer_leaves_every_finished_transaction_and_no_part_of_another(path: Path) -> None:
    for _ in range(3):
        process = run_python(WRITE_FOR_EVER, path)
        finished = [int(line_of(process)) for _ in range(20)]
        process.send_signal(signal.SIGKILL)
        rest, errors = remaining_output(process)
        finished += [int(line) for line in rest.split("\n")[:-1]]
        assert errors == ""
        cache = VectorCache(path)
        assert cache.stats().row_count % 50 == 0
        for batch in finished:
            found = cache.get_many([f"{batch}-{n}" for n in range(50)])
            assert len(found) == 50
            assert all(np.array_equal(vector, np.full(384, batch + 1)) for vector in found.values())
        cache.put_many({f"after-{n}": np.ones(384, np.float32) for n in range(50)})
        cache.close()
    check = sqlite3.connect(path)
    assert check.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    check.close()


def test_several_processes_open_write_and_read_the_same_file_at_once(path: Path) -> None:
    processes = [run_python(WRITE_AND_READ, path, me) for me in range(4)]
    assert {process.communicate(timeout=300) for process in processes} == {("", "")}
    cache = VectorCache(path)
    assert cache.stats().row_count == 40 * 20 + 4 * 40
    cache.close()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="a file is where a folder is needed"):
        VectorCache(tmp_path / "file" / "vectors.sqlite").stats()


def test_a_lock_that_others_do_not_release_is_a_retryable_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polyhop.warehouse.cache.database, "BUSY_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setitem(polyhop.warehouse.cache.database._OPTIONS, "timeout", 0.05)
    cache = VectorCache(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError, match="locked") as caught:
        cache.put_many({"key": np.ones(2, np.float32)})
    other.close()
    assert caught.value.retryable
    cache.put_many({"key": np.ones(2, np.float32)})
    cache.close()


@pytest.mark.parametrize("name", list(STATEMENTS))
def test_every_statement_is_used_and_accepted_by_sqlite(name: str, cache: VectorCache, path: Path) -> None:
    cache.stats()
    connection = sqlite3.connect(path)
    values = {"keys": "[]", "key": "k", "vector": b"", "most": 1, "after": "", "limit": 1}
    connection.execute("EXPLAIN " + re.sub(r"^--.*$", "", STATEMENTS[name], flags=re.MULTILINE), values)
    connection.close()
    source = Path(polyhop.warehouse.cache.vectors.__file__).read_text(encoding="utf-8")
    assert name.startswith("create_") or f'"{name}"' in source


def test_only_unknown_texts_are_encoded_and_equal_texts_once(cache: VectorCache) -> None:
    model = CountingEncoder()
    encoder = CachedEncoder(model, cache)
    first = encoder.encode(["aa", "b", "aa"], "passage")
    second = encoder.encode(["b", "cccc"], "passage")
    assert first.tolist() == [[2, 1, 0], [1, 1, 0], [2, 1, 0]]
    assert second.tolist() == [[1, 1, 0], [4, 1, 0]]
    assert model.calls == [["aa", "b"], ["cccc"]]
    assert (encoder.hits, encoder.misses) == (1, 3)


def test_the_kind_of_text_is_part_of_the_key(cache: VectorCache) -> None:
    model = CountingEncoder()
    encoder = CachedEncoder(model, cache)
    encoder.encode(["a"], "passage")
    encoder.encode(["a"], "entity")
    assert model.calls == [["a"], ["a"]]
    assert set(cache.get_many([encoder.key("a", "passage"), encoder.key("a", "entity"), encoder.key("a", "path")])) == {
        vector_key("counting", "passage", "a"),
        vector_key("counting", "entity", "a"),
    }


def test_every_chunk_is_stored_before_the_next_is_encoded(cache: VectorCache) -> None:
    class BreakingEncoder(CountingEncoder):
        def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
            if len(self.calls) == 2:
                raise KeyboardInterrupt
            return super().encode(texts)

    texts = [f"text {n}" for n in range(10)]
    done: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        CachedEncoder(BreakingEncoder(), cache, chunk_size=3).encode(texts, "passage", progress=done.append)
    assert done == [0, 3, 6]
    again = CountingEncoder()
    CachedEncoder(again, cache).encode(texts, "passage")
    assert again.calls == [texts[6:]]


def test_progress_counts_texts_with_repetitions(cache: VectorCache) -> None:
    encoder = CachedEncoder(CountingEncoder(), cache, chunk_size=2)
    encoder.encode(["known"], "passage")
    done: list[Any] = []
    encoder.encode(["known", "known", "x", "x", "x", "yy", "zzz"], "passage", progress=done.append)
    assert done == [2, 6, 7]


def test_questions_are_encoded_without_touching_the_cache(cache: VectorCache) -> None:
    model = CountingEncoder()
    encoder = CachedEncoder(model, cache)
    assert encoder.encode_questions(["why?"]).tolist() == [[4, 1, 0]]
    assert encoder.encode_questions(["why?"]).tolist() == [[4, 1, 0]]
    assert model.calls == [["why?"], ["why?"]]
    assert cache.stats().row_count == 0


def test_no_texts_give_no_rows_and_call_no_encoder(cache: VectorCache) -> None:
    model = CountingEncoder()
    assert CachedEncoder(model, cache).encode([], "entity").shape == (0, 3)
    assert model.calls == []


def test_a_cached_vector_of_another_dimension_is_computed_again(cache: VectorCache) -> None:
    cache.put_many({vector_key("counting", "entity", "a"): np.ones(1, np.float32)})
    encoder = CachedEncoder(CountingEncoder(), cache)
    assert encoder.encode(["a"], "entity").tolist() == [[1, 1, 0]]
    assert encoder.misses == 1
    assert CachedEncoder(CountingEncoder(), cache).encode(["a"], "entity").tolist() == [[1, 1, 0]]


def test_an_encoder_of_another_dimension_is_refused(cache: VectorCache) -> None:
    class LyingEncoder(CountingEncoder):
        dimension = 4

    with pytest.raises(InvalidVectorError, match="does not have 4 dimensions"):
        CachedEncoder(LyingEncoder(), cache).encode(["a"], "entity")


@given(texts=st.lists(st.text(min_size=1, max_size=3), max_size=12), chunk_size=st.integers(1, 4))
def test_the_cache_changes_no_vector(
    tmp_path_factory: pytest.TempPathFactory, texts: Sequence[str], chunk_size: int
) -> None:
    cache = VectorCache(tmp_path_factory.mktemp("law") / "vectors.sqlite")
    encoder = CachedEncoder(CountingEncoder(), cache, chunk_size=chunk_size)
    expected = CountingEncoder().encode(texts).reshape(len(texts), 3)
    for _ in range(2):
        assert np.array_equal(encoder.encode(texts, "passage"), expected)
    assert encoder.misses == len(set(texts)) == encoder.hits
    cache.close()
