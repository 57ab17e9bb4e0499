"""The cache of embeddings: exact values back, several processes at once, a kill at any moment; and its two encoders."""

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
from polyhop.warehouse.cache.vectors import CHUNK_SIZE, CachedEncoder, PathEncoder, VectorCache, vector_key
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


def test_more_keys_than_one_read_holds_are_all_found_and_a_known_key_keeps_its_vector(
    cache: VectorCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polyhop.warehouse.cache.vectors, "KEYS_PER_READ", 7)
    empty = cache.stats()
    cache.put_many({f"k{n}": np.full(384, n + 1, np.float32) for n in range(100)})
    cache.put_many({"k0": np.full(384, 9, np.float32)})
    found = cache.get_many([f"k{n}" for n in range(100)])
    assert {key: vector.tolist() for key, vector in found.items()} == {f"k{n}": [n + 1] * 384 for n in range(100)}
    assert cache.get_many([]) == {}
    assert (empty.row_count, cache.stats().row_count) == (0, 100)
    assert cache.stats().byte_count - empty.byte_count > 100 * 384 * 4


def test_a_killed_writer_leaves_every_finished_transaction_and_no_part_of_another(path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", WRITE_FOR_EVER, str(path)]
    for _ in range(3):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
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


def test_every_statement_is_used_and_accepted_by_sqlite(cache: VectorCache, path: Path) -> None:
    cache.stats()
    source = Path(polyhop.warehouse.cache.vectors.__file__).read_text(encoding="utf-8")
    values = {"keys": "[]", "key": "k", "vector": b"", "most": 1, "after": "", "limit": 1}
    connection = sqlite3.connect(path)
    for name, statement in STATEMENTS.items():
        connection.execute("EXPLAIN " + re.sub(r"^--.*$", "", statement, flags=re.MULTILINE), values)
        assert name.startswith("create_") or f'"{name}"' in source
    connection.close()


def test_only_unknown_texts_of_a_kind_are_encoded_and_equal_texts_once(cache: VectorCache) -> None:
    model, done = CountingEncoder(), list[Any]()
    encoder = CachedEncoder(model, cache, chunk_size=2)
    assert encoder.encode(["aa", "b", "aa"], "passage").tolist() == [[2, 1, 0], [1, 1, 0], [2, 1, 0]]
    assert encoder.encode(["b", "b", "cccc", "d", "e", "e"], "passage", progress=done.append)[2].tolist() == [4, 1, 0]
    assert encoder.encode(["b"], "entity").tolist() == [[1, 1, 0]]
    assert model.calls == [["aa", "b"], ["cccc", "d"], ["e"], ["b"]]
    assert (done, encoder.hits, encoder.misses) == ([2, 4, 6], 1, 6)
    assert encoder.key("b", "entity") == hashlib.sha256(b"counting\nentity\nb").hexdigest()
    assert list(cache.get_many([vector_key("counting", kind, "b") for kind in ("entity", "path")])) == [
        encoder.key("b", "entity")
    ]
    assert encoder.encode([], "entity").shape == (0, 3)
    for _ in range(2):
        assert encoder.encode_questions(["why?"]).tolist() == [[4, 1, 0]]
    assert model.calls[4:] == [["why?"], ["why?"]]  # no question touches the cache
    assert cache.stats().row_count == 6


def test_a_cached_vector_of_another_dimension_is_computed_again_and_an_encoder_of_another_is_refused(
    cache: VectorCache,
) -> None:
    cache.put_many({vector_key("counting", "entity", "a"): np.ones(1, np.float32)})
    for misses in (1, 0):
        encoder = CachedEncoder(CountingEncoder(), cache)
        assert encoder.encode(["a"], "entity").tolist() == [[1, 1, 0]]
        assert encoder.misses == misses
    lying = CountingEncoder()
    lying.dimension = 4
    with pytest.raises(InvalidVectorError, match="does not have 4 dimensions"):
        CachedEncoder(lying, cache).encode(["b"], "entity")


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


WRITE_PATHS = """
import sys
from pathlib import Path
import numpy as np
from polyhop.warehouse.cache.vectors import VectorCache
from polyhop.warehouse.cache.vectors import PathEncoder

class CountingEncoder:
    model, dimension = "lengths", 3
    def encode(self, texts):
        return np.array([[len(text), 1, 0] for text in texts], dtype=np.float32)

path, me = Path(sys.argv[1]), int(sys.argv[2])
encoder = PathEncoder(CountingEncoder(), lambda: VectorCache(path, most_rows=100))
for number in range(60):
    texts = [f"{'x' * number} {n}" for n in range(20)] + [f"{me} {number}"]
    assert encoder.encode(texts).tolist() == [[len(text), 1, 0] for text in texts]
encoder.close()
"""


def test_the_newest_vectors_are_kept(path: Path) -> None:
    for keys, kept in (("ab", "ab"), ("acd", "bcd"), ("e", "cde")):
        cache = VectorCache(path, most_rows=3)
        cache.put_many({key: np.ones(2, np.float32) for key in keys})
        assert sorted(cache.get_many(list("abcde"))) == list(kept)
        assert cache.stats().row_count == len(kept)
        cache.close()


def test_what_is_not_cached_is_encoded_in_one_call_and_outlives_the_process(path: Path) -> None:
    texts = [f"text {number}" for number in range(2 * CHUNK_SIZE)]
    model = CountingEncoder()
    first = PathEncoder(model, lambda: VectorCache(path, most_rows=10_000))
    vectors = first.encode(texts)
    first.close()
    later = CountingEncoder()
    second = PathEncoder(later, lambda: VectorCache(path, most_rows=10_000))
    assert second.encode([*texts, "another"]).tobytes() == CountingEncoder().encode([*texts, "another"]).tobytes()
    assert vectors.tobytes() == CountingEncoder().encode(texts).tobytes()
    assert (model.calls, later.calls) == ([texts], [["another"]])
    second.close()
    assert second.encode(["another"]).tolist() == [[7, 1, 0]]
    assert len(later.calls) == 1
    second.close()


def test_a_cache_that_fails_later_stops_no_question_and_is_said_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    encoder = PathEncoder(CountingEncoder(), lambda: VectorCache(path, most_rows=10), prefix="> ")
    encoder.encode(["a"])

    def locked(*_: object) -> None:
        raise StoreUnavailableError("Other processes keep it locked.")

    monkeypatch.setattr(VectorCache, "put_many", locked)
    assert encoder.encode(["a", "bb"]).tolist() == [[3, 1, 0], [4, 1, 0]]
    assert encoder.encode(["ccc"]).tolist() == [[5, 1, 0]]
    assert [record.getMessage().count("Other processes keep it locked.") for record in caplog.records] == [1]
    encoder.close()


def test_processes_that_write_at_once_get_every_vector_and_keep_the_bound(path: Path) -> None:
    commands = [[sys.executable, "-W", "error", "-c", WRITE_PATHS, str(path), str(me)] for me in range(3)]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    assert [process.communicate(timeout=120)[1] for process in running] == ["", "", ""]
    cache = VectorCache(path)
    assert cache.stats().row_count == 100
    cache.close()
