"""Caches whose files changed under them: a damaged file is set aside and made again, and whoever uses it goes on."""

import logging
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from polyhop.schemas.chat import Rung, Usage
from polyhop.schemas.errors import StoreError
from polyhop.schemas.records import Document
from polyhop.warehouse.cache.database import DocumentCache, find_damaged_caches, set_aside
from polyhop.warehouse.cache.replies import ReplyCache, ReplySource
from polyhop.warehouse.cache.vectors import VectorCache
from polyhop.warehouse.files.layout import Layout

NO_DATABASE = b"no database at all, but long enough to be read as one" * 50
KEYS = [f"{number:064x}" for number in range(40)]
USAGE = Usage(calls=1, prompt_tokens=10, completion_tokens=5, cost_usd=0.01, seconds=0.5)


def use_vectors(path: Path) -> int:
    """Writes and reads; returns how many rows are found."""
    cache = VectorCache(path)
    found = cache.get_many(KEYS)
    cache.put_many({key: np.ones(64, np.float32) for key in KEYS if key not in found})
    cache.get_many(KEYS)
    cache.close()
    return len(found)


def use_replies(path: Path) -> int:
    cache = ReplyCache(path)
    found = cache.replies(KEYS)
    cache.raw_replies(KEYS)
    for key in KEYS:
        if key not in found:
            source = ReplySource(key, "model", "kg.extract", "hash", 1)
            cache.put_call(source, "raw " * 40, USAGE, "")
            cache.put_reply(source, '{"names": []}', Rung.AS_IS, cache.call_count(key), USAGE)
            cache.put_failure(source, 1, "ModelError", "away")
    cache.replies(KEYS)
    cache.close()
    return len(found)


def use_documents(path: Path) -> int:
    cache = DocumentCache(path)
    found = [key for key in KEYS if cache.get(key) is not None]
    for key in KEYS:
        cache.put(key, Document(key, f"text of {key}", (), {}))
    cache.close()
    return len(found)


USES = {"vectors": use_vectors, "paths": use_vectors, "replies": use_replies, "documents": use_documents}
Use = Callable[[Path], int]


@pytest.fixture(params=USES)
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Use]:
    path, use = tmp_path / "caches" / f"{request.param}.sqlite", USES[request.param]
    assert (use(path), use(path)) == (0, len(KEYS))
    return path, use


def test_a_file_that_is_no_database_is_kept_beside_a_new_one_and_that_is_said_once(
    cache: tuple[Path, Use], caplog: pytest.LogCaptureFixture
) -> None:
    path, use = cache
    path.write_bytes(NO_DATABASE)
    with caplog.at_level(logging.WARNING):
        assert (use(path), use(path)) == (0, len(KEYS))
    (record,) = caplog.records
    assert record.getMessage().endswith(f"it is kept as {path.name}.damaged-1, a new one begins empty")
    assert path.with_name(f"{path.name}.damaged-1").read_bytes() == NO_DATABASE


def test_whatever_byte_flips_a_cache_is_used_without_an_error(cache: tuple[Path, Use]) -> None:
    path, use = cache
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
    with sqlite3.connect(path) as other:
        other.execute("DROP TABLE vectors")  # is damage too
    other.close()
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
    assert caplog.records[-1].getMessage().endswith("nothing is read from it")
    with pytest.raises(StoreError, match="may only be read"):
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


def test_replies_of_a_cache_with_a_column_of_checksums_are_used(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    use_replies(path)
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE replies ADD COLUMN checksum BLOB")
    connection.close()
    assert use_replies(path) == len(KEYS)
