"""Caches of vectors, replies and documents: exact values back, eviction, exports; several processes, kills, damage."""

import hashlib
import logging
import random
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_processes import line_of
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from polyhop.schemas.chat import Repair, Usage
from polyhop.schemas.errors import InvalidVectorError, SourceError, StoreError, StoreUnavailableError
from polyhop.schemas.records import Document
from polyhop.schemas.text import content_hash
from polyhop.warehouse.cache import database, replies, vectors
from polyhop.warehouse.cache.database import DocumentCache, find_damaged_caches, set_aside
from polyhop.warehouse.cache.replies import ReplyCache, ReplySource, StoredReply, export_replies, import_replies
from polyhop.warehouse.cache.vectors import CHUNK_SIZE, CachedEncoder, PathEncoder, VectorCache, vector_key
from polyhop.warehouse.files.layout import Layout

WRITE_VECTORS = """
import sys
from pathlib import Path
import numpy as np
from polyhop.warehouse.cache.vectors import VectorCache
cache = VectorCache(Path(sys.argv[1]), most_rows=100)
for number in range(60):
    vectors = {f"{number} {n}": np.full(3, n, np.float32) for n in range(1, 20 + int(sys.argv[2]))}
    cache.put_many(vectors)
    assert all(vector.tolist() == vectors[key].tolist() for key, vector in cache.get_many(list(vectors)).items())
cache.close()
"""
USAGE = Usage(calls=2, prompt_tokens=30, completion_tokens=7, cost_usd=0.25, seconds=1.5)
KEY_X = content_hash("x")
Stores = tuple[ReplyCache, ReplyCache]
HOLD = """
import sys, time
from pathlib import Path
from polyhop.warehouse.cache.replies import claims_of
with claims_of(Path(sys.argv[1])).held(sys.argv[2], lambda: False) as held:
    print(held, flush=True)
    time.sleep(600)
"""
GOOD: dict[str, Any] = {"key": content_hash("good"), "model": "m", "task": "kg.extract", "reply": "{}", "rung": "as_is"}
COUNTS = ("schema_version", "attempts", "calls", "prompt_tokens", "completion_tokens")
GOOD |= dict.fromkeys(COUNTS, 1) | {"prompt_hash": "p", "cost_usd": 0.0, "seconds": 0.0}
NO_DATABASE = b"no database at all, but long enough to be read as one" * 50
KEYS = [f"{number:064x}" for number in range(40)]
Use = Callable[[Path], int]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "vectors.sqlite"


@pytest.fixture
def cache(path: Path) -> Iterator[VectorCache]:
    with closing(VectorCache(path)) as cache:
        yield cache


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
    assert (list(found), found["known"].dtype) == (["known"], np.dtype(np.float32))
    assert found["known"].tobytes() == vector.tobytes()
    with closing(sqlite3.connect(path)) as stored:
        rows = stored.execute("SELECT key, vector FROM vectors").fetchall()
    assert rows == [("known", vector.astype("<f4").tobytes())]


@pytest.mark.parametrize("bad", [[0.0, 0.0], [1.0, np.nan], [1e300, 1.0], [], [[1.0]]])
def test_a_bad_vector_is_refused_and_nothing_of_its_call_is_stored(cache: VectorCache, bad: Any) -> None:
    with np.errstate(over="ignore"), pytest.raises(InvalidVectorError, match="of key bad is"):
        cache.put_many({"good": np.ones(2, np.float32), "bad": np.array(bad)})
    assert cache.stats().row_count == 0


def test_many_keys_are_found_and_known_ones_stay(cache: VectorCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "KEYS_PER_READ", 7)
    empty, keys = cache.stats(), [f"k{n}" for n in range(100)]
    cache.put_many({key: np.full(384, n + 1, np.float32) for n, key in enumerate(keys)})
    cache.put_many({"k0": np.full(384, 9, np.float32)})
    found = {key: vector.tolist() for key, vector in cache.get_many(keys).items()}
    assert found == {key: [n + 1] * 384 for n, key in enumerate(keys)}
    assert (empty.row_count, cache.stats().row_count) == (0, 100)
    assert cache.stats().byte_count - empty.byte_count > 100 * 384 * 4


def test_a_lock_that_others_do_not_release_is_a_retryable_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setitem(database._OPTIONS, "timeout", 0.05)
    cache = VectorCache(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError, match="locked") as caught:
        cache.put_many({"key": np.ones(2, np.float32)})
    other.close()
    assert caught.value.retryable
    cache.put_many({"key": np.ones(2, np.float32)})
    cache.close()


def test_only_unknown_texts_of_a_kind_are_encoded_and_equal_texts_once(cache: VectorCache) -> None:
    model, done = CountingEncoder(), list[Any]()
    encoder = CachedEncoder(model, cache, chunk_size=2)
    assert encoder.encode(["aa", "b", "aa"], "passage").tolist() == [[2, 1, 0], [1, 1, 0], [2, 1, 0]]
    assert encoder.encode(["b", "b", "cccc", "d", "e", "e"], "passage", progress=done.append)[2].tolist() == [4, 1, 0]
    assert encoder.encode(["b"], "entity").tolist() == [[1, 1, 0]]
    assert model.calls == [["aa", "b"], ["cccc", "d"], ["e"], ["b"]]
    assert (done, encoder.hits, encoder.misses) == ([2, 4, 6], 1, 6)
    assert encoder.key("b", "entity") == hashlib.sha256(b"counting\nentity\nb").hexdigest()
    keys = [vector_key("counting", kind, "b") for kind in ("entity", "path")]
    assert list(cache.get_many(keys)) == [encoder.key("b", "entity")]
    assert encoder.encode([], "entity").shape == (0, 3)
    assert [encoder.encode_questions(["why?"]).tolist() for _ in range(2)] == [[[4, 1, 0]]] * 2
    assert (model.calls[4:], cache.stats().row_count) == ([["why?"], ["why?"]], 6)  # no question touches the cache


def test_a_cached_vector_of_another_dimension_is_computed_again(cache: VectorCache) -> None:
    cache.put_many({vector_key("counting", "entity", "a"): np.ones(1, np.float32)})
    for misses in (1, 0):
        encoder = CachedEncoder(CountingEncoder(), cache)
        assert (encoder.encode(["a"], "entity").tolist(), encoder.misses) == ([[1, 1, 0]], misses)
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


def test_the_newest_vectors_are_kept(path: Path) -> None:
    for keys, kept in (("ab", "ab"), ("acd", "bcd"), ("e", "cde")):
        with closing(VectorCache(path, most_rows=3)) as cache:
            cache.put_many({key: np.ones(2, np.float32) for key in keys})
            assert (sorted(cache.get_many(list("abcde"))), cache.stats().row_count) == (list(kept), len(kept))


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
    assert (second.encode(["another"]).tolist(), len(later.calls)) == ([[7, 1, 0]], 1)
    second.close()


def test_a_cache_that_fails_later_stops_no_question_and_is_said_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    encoder = PathEncoder(CountingEncoder(), lambda: VectorCache(path, most_rows=10), prefix="> ")
    encoder.encode(["a"])
    monkeypatch.setattr(VectorCache, "put_many", Mock(side_effect=StoreUnavailableError("Others keep it locked.")))
    assert encoder.encode(["a", "bb"]).tolist() == [[3, 1, 0], [4, 1, 0]]
    assert encoder.encode(["ccc"]).tolist() == [[5, 1, 0]]
    assert [record.getMessage().count("Others keep it locked.") for record in caplog.records] == [1]
    encoder.close()


def test_processes_that_write_at_once_get_every_vector_and_keep_the_bound(path: Path) -> None:
    commands = [[sys.executable, "-W", "error", "-c", WRITE_VECTORS, str(path), str(me)] for me in (1, 2, 3)]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    assert [process.communicate(timeout=120)[1] for process in running] == ["", "", ""]
    with closing(VectorCache(path)) as cache:
        assert cache.stats().row_count == 100


def source(name: str, model: str = "m", task: str = "kg.extract") -> ReplySource:
    return ReplySource(content_hash(name), model, task, content_hash("prompt"), 1)


def put(store: ReplyCache, name: str, text: str = '{"a":1}', **about: str) -> None:
    store.put_reply(source(name, **about), text, Repair.AS_IS, 1, USAGE)


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    opened = ReplyCache(tmp_path / "replies.sqlite"), ReplyCache(tmp_path / "other" / "replies.sqlite")
    yield opened
    for one in opened:
        one.close()


@pytest.fixture
def store(stores: Stores) -> ReplyCache:
    return stores[0]


def test_a_reply_comes_back_and_unknown_keys_are_left_out(store: ReplyCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "KEYS_PER_READ", 3)
    texts = {content_hash(f"x{n}"): f'{{"name":"Ü\\n{n}"}}' for n in range(10)}
    for n, text in enumerate(texts.values()):
        store.put_reply(source(f"x{n}"), text, Repair.REASKED, 3, USAGE)
    expected = {key: StoredReply(text, "m", Repair.REASKED, 3, USAGE) for key, text in texts.items()}
    assert store.replies([*texts, content_hash("unknown"), *texts]) == expected
    assert store.replies([]) == {}


def test_every_raw_text_is_kept_latest_first_with_its_error_and_cost(store: ReplyCache) -> None:
    once = Usage(1, 10, 5, 0.5, 0.25)
    store.put_call(source("x"), "broken", once, "MalformedReplyError")
    store.put_call(source("x"), "", Usage(1, seconds=9), "ModelUnavailableError")
    store.put_call(source("x"), "{}", once, "")
    kept = [replies.RawReply("{}", "", once), replies.RawReply("broken", "MalformedReplyError", once)]
    assert (store.raw_replies([KEY_X, content_hash("y")]), store.call_count(KEY_X)) == ({KEY_X: kept}, 3)


def test_spending_is_summed_by_model_and_task_with_what_is_cached(store: ReplyCache) -> None:
    put(store, "x", model="b")
    store.put_call(source("x", model="b"), "{}", USAGE, "")
    store.put_call(source("z", model="b"), "", Usage(1, 1, 0, 0.0, 0.5), "ModelUnavailableError")
    store.put_failure(source("y", model="a", task="prop.entities"), 1, "E", "e")
    assert store.by_task() == [
        replies.TaskCounts("a", "prop.entities", 0, 1, Usage(), 0),
        replies.TaskCounts("b", "kg.extract", 1, 0, Usage(2, 31, 7, 0.25, 2.0), 1),
    ]
    counts = store.stats()
    assert (counts.reply_count, counts.raw_reply_count, counts.failure_count) == (1, 1, 1)
    assert counts.byte_count > 0


def fill(store: ReplyCache) -> None:
    put(store, "a", model="m1")
    store.put_call(source("a", model="m1"), "{}", USAGE, "")
    put(store, "b", model="m2")
    store.put_failure(source("c", model="m1"), 1, "MalformedReplyError", "e")
    store.put_call(source("c", model="m1"), "broken", USAGE, "MalformedReplyError")


@pytest.mark.parametrize(
    ("conditions", "removed"),
    [
        ({"model": "m1"}, (1, 2, 1)),
        ({"model": "m2"}, (1, 0, 0)),
        ({"model": "unknown"}, (0, 0, 0)),
        ({"only_failures": True}, (0, 1, 1)),
        ({"only_failures": True, "model": "m2"}, (0, 0, 0)),
        ({"older_than_days": 9}, (2, 2, 1)),
        ({"older_than_days": 11}, (0, 0, 0)),
        ({"older_than_days": 9, "model": "m2"}, (1, 0, 0)),
    ],
)
def test_what_fits_is_evicted(store: ReplyCache, conditions: dict[str, Any], removed: tuple[int, int, int]) -> None:
    fill(store)
    with closing(sqlite3.connect(store.path, isolation_level=None)) as connection:
        for table in ("replies", "raw_replies", "failures"):  # ten days ago
            connection.execute(f"UPDATE {table} SET stored_at = stored_at - 864000")
    put(store, "new", model="m3")
    spent = [row.spent for row in store.by_task() if row.spent.calls]
    assert store.evict(**conditions) == replies.Evicted(*removed)
    left = store.stats()
    assert left.reply_count + removed[0] == 3
    assert (left.raw_reply_count + removed[1], left.failure_count + removed[2]) == (2, 1)
    assert store.replies([content_hash("new")])
    assert [row.spent for row in store.by_task() if row.spent.calls] == spent


def test_eviction_gives_room_back(store: ReplyCache) -> None:
    for n in range(50):
        store.put_call(source(f"{n}"), "".join(content_hash(f"{n} {k}") for k in range(40)), USAGE, "E")
    before = store.stats().byte_count
    store.evict(only_failures=True)
    assert store.stats().byte_count < before


@settings(max_examples=40)
@given(puts=st.lists(st.tuples(st.integers(0, 5), st.text(st.characters(), max_size=40), st.booleans()), max_size=20))
def test_the_last_reply_to_a_key_ends_its_failures(tmp_path_factory: pytest.TempPathFactory, puts: list[Any]) -> None:
    store = ReplyCache(tmp_path_factory.mktemp("law") / "replies.sqlite")
    stored: dict[str, str] = {}
    failed: dict[str, tuple[int, str, str]] = {}
    for number, text, is_valid in puts:
        key = content_hash(f"key {number}")
        if is_valid:
            put(store, f"key {number}", text)
            stored[key] = text
            failed.pop(key, None)
        else:
            store.put_call(source(f"key {number}"), text, Usage(1), "E")
            store.put_failure(source(f"key {number}"), 1, "E", text)
            failed[key] = (1, "E", text.encode("utf-8", "backslashreplace").decode())  # surrogates, too, can be stored
    keys = [content_hash(f"key {n}") for n in range(6)]
    assert {key: reply.text for key, reply in store.replies(keys).items()} == stored
    assert store.failures(keys) == failed
    raws = [raw.text for texts in store.raw_replies(keys).values() for raw in texts]
    assert sorted(raws) == sorted(text for _, text, is_valid in puts if not is_valid and text)
    store.close()


def test_an_export_is_imported_once(stores: Stores, tmp_path: Path) -> None:
    store, other = stores
    fill(store)
    put(other, "b", '{"mine":true}', model="m2")
    other.put_failure(source("a", model="m1"), 1, "E", "e")
    file = tmp_path / "replies.parquet"
    assert (export_replies(store, file), import_replies(other, file)) == (2, replies.Imported(added=1, known=1))
    assert import_replies(other, file) == replies.Imported(added=0, known=2)
    keys = [content_hash("a"), content_hash("b")]
    mine = StoredReply('{"mine":true}', "m2", Repair.AS_IS, 1, USAGE)
    assert other.replies(keys) == {keys[0]: store.replies(keys)[keys[0]], keys[1]: mine}
    assert other.failures(keys) == {}


def test_an_unknown_cost_stays_unknown_in_sums_and_exports(stores: Stores, tmp_path: Path) -> None:
    (store, other), unpriced = stores, replace(USAGE, cost_usd=None)
    store.put_reply(source("x"), "{}", Repair.AS_IS, 1, unpriced)
    for usage in (USAGE, unpriced):
        store.put_call(source("x"), "{}", usage, "")
    export_replies(store, tmp_path / "replies.parquet")
    import_replies(other, tmp_path / "replies.parquet")
    assert [one.replies([KEY_X])[KEY_X].usage for one in stores] == [unpriced] * 2
    assert [row.spent.cost_usd for row in store.by_task()] == [None]
    assert store.answered_calls("m")["kg.extract"].cost_usd is None


def test_equal_caches_export_equal_files(stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "ROWS_PER_PAGE", 3)
    files = tmp_path / "a.parquet", tmp_path / "b.parquet"
    for store, file, numbers in zip(stores, files, (range(10), range(9, -1, -1)), strict=True):
        for n in numbers:
            put(store, f"{n}", f'{{"n":{n}}}')
        export_replies(store, file)
    assert files[0].read_bytes() == files[1].read_bytes()
    rows = pq.read_table(files[0]).to_pylist()
    assert [row["key"] for row in rows] == sorted(content_hash(f"{n}") for n in range(10))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"key": content_hash("x").upper()}, "key is not 64 hexadecimal digits"),
        ({"model": None}, "model is empty"),
        ({"rung": "guessed"}, "'guessed' is not a kind of repair"),
        ({"reply": "[" * 100_000}, "reply is not JSON"),
        ({"reply": "[1]"}, "reply is not a JSON object"),
        ({"attempts": -1}, "attempts is -1"),
        ({"cost_usd": float("nan")}, "cost_usd is nan"),
    ],
)
def test_a_bad_row_refuses_the_file(store: ReplyCache, tmp_path: Path, change: dict[str, Any], fault: str) -> None:
    schema = pa.schema([field.with_nullable(True) for field in replies.SCHEMA])
    many = [{**GOOD, "key": content_hash(f"{n}")} for n in range(1200)]
    pq.write_table(pa.Table.from_pylist([*many, {**GOOD, **change}], schema=schema), tmp_path / "bad.parquet")
    with pytest.raises(SourceError, match=rf"Row 1201 of .*bad\.parquet is not a reply: {re.escape(fault)}"):
        import_replies(store, tmp_path / "bad.parquet")
    assert store.stats().reply_count == 0


def test_a_file_that_is_no_export_is_refused_in_one_sentence(store: ReplyCache, tmp_path: Path) -> None:
    pq.write_table(pa.table({"key": ["a"], "attempts": ["1"]}), tmp_path / "table.parquet")
    (tmp_path / "text.parquet").write_text("no parquet at all")
    for name, words in (
        ("none", "There is no file"),
        ("table", r"not an export of replies: column model, .*, attempts.* missing or of"),
        ("text", "not a readable parquet file"),
    ):
        with pytest.raises(SourceError, match=words):
            import_replies(store, tmp_path / f"{name}.parquet")
    assert store.stats().reply_count == 0
    with pytest.raises(StoreError, match="Cannot write the replies"):
        export_replies(store, tmp_path / "none" / "x.parquet")
    assert export_replies(store, tmp_path / "none.parquet") == 0
    assert import_replies(store, tmp_path / "none.parquet") == replies.Imported(0, 0)


def test_a_claim_of_another_process_is_waited_for_and_ends_with_that_process(tmp_path: Path) -> None:
    path, key = tmp_path / "replies.sqlite", content_hash("key")
    claims = replies.claims_of(path)
    process = subprocess.Popen([sys.executable, "-c", HOLD, path, key], stdout=subprocess.PIPE, text=True)
    assert line_of(process) == "True\n"
    with claims.held(key, lambda: True) as held:
        assert not held
    with claims.held(content_hash("other"), lambda: False) as held:
        assert held
    process.kill()
    process.communicate()
    with claims.held(key, lambda: False) as held:
        assert held


def use_vectors(path: Path) -> int:
    """Writes and reads; returns how many rows are found."""
    with closing(VectorCache(path)) as cache:
        found = cache.get_many(KEYS)
        cache.put_many({key: np.ones(64, np.float32) for key in KEYS if key not in found})
        cache.get_many(KEYS)
    return len(found)


def use_replies(path: Path) -> int:
    cache = ReplyCache(path)
    found = cache.replies(KEYS)
    cache.raw_replies(KEYS)
    for key in KEYS:
        if key not in found:
            source = ReplySource(key, "model", "kg.extract", "hash", 1)
            cache.put_call(source, "raw " * 40, USAGE, "")
            cache.put_reply(source, '{"names": []}', Repair.AS_IS, cache.call_count(key), USAGE)
            cache.put_failure(source, 1, "ModelError", "away")
    cache.replies(KEYS)
    cache.close()
    return len(found)


def use_documents(path: Path) -> int:
    with closing(DocumentCache(path)) as cache:
        found = [key for key in KEYS if cache.get(key) is not None]
        for key in KEYS:
            cache.put(key, Document(key, f"text of {key}", (), {}))
    return len(found)


USES = {"vectors": use_vectors, "replies": use_replies, "documents": use_documents}


@pytest.fixture(params=USES)
def used(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Use]:
    path, use = tmp_path / "caches" / f"{request.param}.sqlite", USES[request.param]
    assert (use(path), use(path)) == (0, len(KEYS))
    return path, use


def test_what_is_no_database_is_kept_beside_a_new_one(used: tuple[Path, Use], caplog: pytest.LogCaptureFixture) -> None:
    path, use = used
    path.write_bytes(NO_DATABASE)
    with caplog.at_level(logging.WARNING):
        assert (use(path), use(path)) == (0, len(KEYS))
    (record,) = caplog.records
    assert record.getMessage().endswith(f"it was moved to {path.name}.damaged-1 and replaced by an empty one")
    assert path.with_name(f"{path.name}.damaged-1").read_bytes() == NO_DATABASE


def test_whatever_byte_flips_a_cache_is_used_without_an_error(used: tuple[Path, Use]) -> None:
    path, use = used
    content = path.read_bytes()
    rng = random.Random(7)
    for offset in [*range(0, 100, 17), *(rng.randrange(100, len(content)) for _ in range(12))]:
        flipped = bytearray(content)
        flipped[offset] ^= 1 << rng.randrange(8)
        path.write_bytes(flipped)
        use(path)


def test_a_file_that_is_damaged_while_it_is_open_is_replaced_and_the_work_done(tmp_path: Path) -> None:
    path = tmp_path / "vectors.sqlite"
    use_vectors(path)
    first, second = VectorCache(path), VectorCache(path)
    with path.open("r+b") as stream:
        stream.write(b"\xff" * path.stat().st_size)
    for cache in (first, second):  # the second finds the new file, and leaves it
        cache.put_many({KEYS[0]: np.ones(3, np.float32)})
        assert list(cache.get_many(KEYS)) == KEYS[:1]
    assert [kept.name for kept in tmp_path.glob("*.damaged-[0-9]")] == ["vectors.sqlite.damaged-1"]
    with closing(sqlite3.connect(path)) as other:
        other.execute("DROP TABLE vectors")  # is damage too
    assert first.get_many(KEYS) == {}
    first.close()
    second.close()


def test_a_damaged_cache_that_may_only_be_read_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "replies.sqlite"
    path.write_bytes(NO_DATABASE)
    monkeypatch.setattr("polyhop.warehouse.cache.database.is_writable", lambda _: False)
    with caplog.at_level(logging.WARNING):
        cache = ReplyCache(path)
        assert cache.replies(KEYS) == {}
    assert caplog.records[-1].getMessage().endswith("and is not read")
    with pytest.raises(StoreError, match="is read-only"):
        cache.evict(model="model")
    cache.close()


def test_the_check_names_the_damaged_caches_and_setting_them_aside_heals(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    for path, use in ((layout.vector_cache, use_vectors), (layout.reply_cache, use_replies)):
        use(path)
    assert find_damaged_caches(layout) == {}
    layout.reply_cache.write_bytes(NO_DATABASE)
    ((path, sentence),) = find_damaged_caches(layout).items()
    assert path == layout.reply_cache
    assert sentence.startswith(f"{path} is damaged (file is not a database); move it away")
    assert set_aside(path) == path.with_name("replies.sqlite.damaged-1")
    assert set_aside(path) is None
    assert find_damaged_caches(layout) == {}
