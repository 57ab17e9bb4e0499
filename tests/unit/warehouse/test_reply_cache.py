"""The cache of model replies: exact texts back, failures beside replies, eviction, and files of replies."""

import re
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_processes import line_of
from hypothesis import given, settings
from hypothesis import strategies as st

import polyhop.warehouse.cache.database
import polyhop.warehouse.cache.replies
from polyhop.schemas.chat import Rung, Usage
from polyhop.schemas.errors import SourceError, StoreError, StoreUnavailableError
from polyhop.schemas.text import content_hash
from polyhop.warehouse.cache.replies import (
    SCHEMA,
    Evicted,
    Imported,
    RawReply,
    ReplyCache,
    ReplySource,
    StoredReply,
    TaskCounts,
    claims_of,
    export_replies,
    import_replies,
)
from polyhop.warehouse.statements import read_statements

SQL_FILE = Path(polyhop.warehouse.cache.replies.__file__).parent / "sql" / "replies.sql"
USAGE = Usage(calls=2, prompt_tokens=30, completion_tokens=7, cost_usd=0.25, seconds=1.5)

HOLD = """
import sys, time
from pathlib import Path
from polyhop.warehouse.cache.replies import claims_of
with claims_of(Path(sys.argv[1])).held(sys.argv[2], lambda: False) as held:
    print(held, flush=True)
    time.sleep(600)
"""


def source(name: str, model: str = "m", task: str = "kg.extract") -> ReplySource:
    return ReplySource(content_hash(name), model, task, content_hash("prompt"), 1)


def put(cache: ReplyCache, name: str, text: str = '{"a":1}', **about: str) -> None:
    cache.put_reply(source(name, **about), text, Rung.AS_IS, 1, USAGE)


def age(cache: ReplyCache, days: float) -> None:
    """Makes everything in the cache older."""
    connection = sqlite3.connect(cache.path)
    for table in ("replies", "raw_replies", "failures"):
        connection.execute(f"UPDATE {table} SET stored_at = stored_at - ?", (days * 86_400,))
    connection.commit()
    connection.close()


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ReplyCache]:
    cache = ReplyCache(tmp_path / "replies.sqlite")
    yield cache
    cache.close()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[ReplyCache]:
    cache = ReplyCache(tmp_path / "other" / "replies.sqlite")
    yield cache
    cache.close()


def test_a_reply_comes_back_as_it_was_stored_and_unknown_keys_are_left_out(cache: ReplyCache) -> None:
    cache.put_reply(source("x"), '{"name":"Ü\\n"}', Rung.REASKED, 3, USAGE)
    key, unknown = content_hash("x"), content_hash("y")
    assert cache.replies([unknown, key, key]) == {key: StoredReply('{"name":"Ü\\n"}', "m", Rung.REASKED, 3, USAGE)}
    assert cache.replies([]) == {}


def test_more_keys_than_one_read_holds_are_all_found(cache: ReplyCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polyhop.warehouse.cache.replies, "KEYS_PER_READ", 3)
    for n in range(10):
        put(cache, n if isinstance(n, str) else str(n), f'{{"n":{n}}}')
    keys = [content_hash(str(n)) for n in range(10)]
    assert {key: reply.text for key, reply in cache.replies(keys).items()} == {
        key: f'{{"n":{n}}}' for n, key in enumerate(keys)
    }


def test_every_raw_text_is_kept_latest_first_with_its_error_and_cost(cache: ReplyCache) -> None:
    once = Usage(1, 10, 5, 0.5, 0.25)
    cache.put_call(source("x"), "broken", once, "MalformedReplyError")
    cache.put_call(source("x"), "", Usage(1, seconds=9), "ModelUnavailableError")
    cache.put_call(source("x"), "{}", once, "")
    key = content_hash("x")
    assert cache.raw_replies([key, content_hash("y")]) == {
        key: [RawReply("{}", "", once), RawReply("broken", "MalformedReplyError", once)]
    }
    assert cache.call_count(key) == 3


def test_a_failure_is_no_result_and_ends_with_a_reply(cache: ReplyCache) -> None:
    key = content_hash("x")
    failure = (5, "MalformedReplyError", "No JSON.")
    cache.put_failure(source("x"), 1, "ModelUnavailableError", "down")
    cache.put_failure(source("x"), *failure)
    assert cache.failures([key]) == {key: failure}
    assert cache.replies([key]) == {}
    put(cache, "x")
    assert cache.failures([key]) == {}
    assert list(cache.replies([key])) == [key]


def test_spending_is_summed_by_model_and_task_with_what_is_cached(cache: ReplyCache) -> None:
    put(cache, "x", model="b")
    cache.put_call(source("x", model="b"), "{}", USAGE, "")
    cache.put_call(source("z", model="b"), "", Usage(1, 1, 0, 0.0, 0.5), "ModelUnavailableError")
    cache.put_failure(source("y", model="a", task="prop.entities"), 1, "E", "e")
    assert cache.by_task() == [
        TaskCounts("a", "prop.entities", 0, 1, Usage(), 0),
        TaskCounts("b", "kg.extract", 1, 0, Usage(2, 31, 7, 0.25, 2.0), 1),
    ]
    counts = cache.stats()
    assert (counts.reply_count, counts.raw_reply_count, counts.failure_count) == (1, 1, 1)
    assert counts.byte_count > 0


def fill(cache: ReplyCache) -> None:
    put(cache, "a", model="m1")
    cache.put_call(source("a", model="m1"), "{}", USAGE, "")
    put(cache, "b", model="m2")
    cache.put_failure(source("c", model="m1"), 1, "MalformedReplyError", "e")
    cache.put_call(source("c", model="m1"), "broken", USAGE, "MalformedReplyError")


@pytest.mark.parametrize(
    ("conditions", "removed"),
    [
        ({"model": "m1"}, Evicted(replies=1, raw_replies=2, failures=1)),
        ({"model": "m2"}, Evicted(replies=1, raw_replies=0, failures=0)),
        ({"model": "unknown"}, Evicted(0, 0, 0)),
        ({"only_failures": True}, Evicted(replies=0, raw_replies=1, failures=1)),
        ({"only_failures": True, "model": "m2"}, Evicted(0, 0, 0)),
        ({"older_than_days": 9}, Evicted(replies=2, raw_replies=2, failures=1)),
        ({"older_than_days": 11}, Evicted(0, 0, 0)),
        ({"older_than_days": 9, "model": "m2"}, Evicted(replies=1, raw_replies=0, failures=0)),
    ],
)
def test_only_what_fits_all_conditions_is_evicted(
    cache: ReplyCache, conditions: dict[str, Any], removed: Evicted
) -> None:
    fill(cache)
    age(cache, 10)
    put(cache, "new", model="m3")
    before = cache.stats()
    assert cache.evict(**conditions) == removed
    after = cache.stats()
    assert after.reply_count == before.reply_count - removed.replies
    assert after.raw_reply_count == before.raw_reply_count - removed.raw_replies
    assert after.failure_count == before.failure_count - removed.failures
    assert cache.replies([content_hash("new")])


def test_eviction_gives_room_back_and_keeps_the_journal(cache: ReplyCache) -> None:
    for n in range(200):
        cache.put_call(source(f"{n}"), content_hash(f"{n}") * 40 + "".join(map(str, range(n))), USAGE, "E")
    before = cache.stats().byte_count
    cache.evict(only_failures=True)
    assert cache.stats().byte_count < before
    assert cache.by_task()[0].spent.calls == 200


@settings(max_examples=40, deadline=None)
@given(puts=st.lists(st.tuples(st.integers(0, 5), st.text(st.characters(), max_size=40), st.booleans()), max_size=20))
def test_the_last_reply_to_a_key_counts_and_failures_hide_none(
    tmp_path_factory: pytest.TempPathFactory, puts: list[Any]
) -> None:
    cache = ReplyCache(tmp_path_factory.mktemp("law") / "replies.sqlite")
    replies, failed = {}, set()
    for number, text, is_valid in puts:
        name = f"key {number}"
        key = content_hash(name)
        if is_valid:
            put(cache, name, text)
            replies[key] = text
            failed.discard(key)
        else:
            cache.put_call(source(name), text, Usage(1), "E")
            cache.put_failure(source(name), 1, "E", text)
            failed.add(key)
    keys = [content_hash(f"key {n}") for n in range(6)]
    assert {key: reply.text for key, reply in cache.replies(keys).items()} == replies
    assert set(cache.failures(keys)) == failed
    raws = [raw.text for texts in cache.raw_replies(keys).values() for raw in texts]
    assert sorted(raws) == sorted(text for _, text, is_valid in puts if not is_valid and text)
    cache.close()


@pytest.mark.parametrize("name", list(read_statements(SQL_FILE)))
def test_every_statement_is_used_and_accepted_by_sqlite(name: str, cache: ReplyCache) -> None:
    statement = read_statements(SQL_FILE)[name]
    connection = sqlite3.connect(cache.path)
    values = {**dict.fromkeys(re.findall(r":(\w+)", statement), 1), "keys": "[]"}
    connection.execute("EXPLAIN " + re.sub(r"^--.*$", "", statement, flags=re.MULTILINE), values)
    connection.close()
    code = "".join(path.read_text(encoding="utf-8") for path in SQL_FILE.parents[1].glob("*.py"))
    assert name.startswith("create_") or f'"{name}"' in code
    assert statement.startswith("-- ")


def test_names_of_statements_are_not_used_twice() -> None:
    names = re.findall(r"^-- name: (\w+)$", SQL_FILE.read_text(encoding="utf-8"), re.MULTILINE)
    assert names == list(read_statements(SQL_FILE))


def test_a_lock_that_others_do_not_release_is_a_retryable_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polyhop.warehouse.cache.database, "BUSY_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setitem(polyhop.warehouse.cache.database._OPTIONS, "timeout", 0.05)
    cache = ReplyCache(tmp_path / "replies.sqlite")
    blocker = sqlite3.connect(cache.path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError, match="locked"):
        put(cache, "x")
    blocker.close()
    put(cache, "x")
    assert cache.stats().reply_count == 1
    cache.close()


def test_an_export_is_imported_once(cache: ReplyCache, other: ReplyCache, tmp_path: Path) -> None:
    fill(cache)
    put(other, "b", '{"mine":true}', model="m2")
    other.put_failure(source("a", model="m1"), 1, "E", "e")
    file = tmp_path / "replies.parquet"
    assert export_replies(cache, file) == 2
    assert import_replies(other, file) == Imported(added=1, known=1)
    assert import_replies(other, file) == Imported(added=0, known=2)
    keys = [content_hash("a"), content_hash("b")]
    assert other.replies(keys) == {
        keys[0]: cache.replies(keys)[keys[0]],
        keys[1]: StoredReply('{"mine":true}', "m2", Rung.AS_IS, 1, USAGE),
    }
    assert other.failures(keys) == {}


def test_an_unknown_cost_stays_unknown_in_the_cache_in_sums_and_in_exports(
    cache: ReplyCache, other: ReplyCache, tmp_path: Path
) -> None:
    unpriced = replace(USAGE, cost_usd=None)
    cache.put_reply(source("x"), "{}", Rung.AS_IS, 1, unpriced)
    for usage in (USAGE, unpriced):
        cache.put_call(source("x"), "{}", usage, "")
    export_replies(cache, tmp_path / "replies.parquet")
    import_replies(other, tmp_path / "replies.parquet")
    key = content_hash("x")
    for one in (cache, other):
        assert one.replies([key])[key].usage == unpriced
    assert [row.spent.cost_usd for row in cache.by_task()] == [None]
    assert cache.answered_calls("m")["kg.extract"].cost_usd is None


def test_equal_caches_export_equal_files_page_by_page(
    cache: ReplyCache, other: ReplyCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polyhop.warehouse.cache.replies, "ROWS_PER_PAGE", 3)
    for n in range(10):
        put(cache, f"{n}", f'{{"n":{n}}}')
        put(other, f"{9 - n}", f'{{"n":{9 - n}}}')
    export_replies(cache, tmp_path / "a.parquet")
    export_replies(other, tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    rows = pq.read_table(tmp_path / "a.parquet").to_pylist()
    assert [row["key"] for row in rows] == sorted(content_hash(f"{n}") for n in range(10))


def test_an_empty_cache_is_an_empty_export(cache: ReplyCache, tmp_path: Path) -> None:
    assert export_replies(cache, tmp_path / "none.parquet") == 0
    assert import_replies(cache, tmp_path / "none.parquet") == Imported(0, 0)


GOOD = {
    "key": content_hash("good"),
    "model": "m",
    "task": "kg.extract",
    "prompt_hash": "p",
    "schema_version": 1,
    "reply": "{}",
    "rung": "as_is",
    "attempts": 1,
    "calls": 1,
    "prompt_tokens": 1,
    "completion_tokens": 1,
    "cost_usd": 0.0,
    "seconds": 0.0,
}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"key": "short"}, "key is not 64 hexadecimal digits"),
        ({"key": content_hash("x").upper()}, "key is not 64 hexadecimal digits"),
        ({"model": None}, "model is empty"),
        ({"task": ""}, "task is empty"),
        ({"rung": "guessed"}, "rung is 'guessed'"),
        ({"reply": "{"}, "reply is not JSON"),
        ({"reply": "[" * 100_000}, "reply is not JSON"),
        ({"reply": "[1]"}, "reply is not a JSON object"),
        ({"attempts": -1}, "attempts is -1"),
        ({"cost_usd": float("nan")}, "cost_usd is nan"),
    ],
)
def test_one_bad_row_refuses_the_whole_file(
    cache: ReplyCache, tmp_path: Path, change: dict[str, Any], fault: str
) -> None:
    file = tmp_path / "bad.parquet"
    schema = pa.schema([field.with_nullable(True) for field in SCHEMA])
    many = [{**GOOD, "key": content_hash(f"{n}")} for n in range(2500)]
    pq.write_table(pa.Table.from_pylist([*many, {**GOOD, **change}], schema=schema), file)
    with pytest.raises(SourceError, match=re.escape(f"Row 2501 of {file} is not a reply: {fault}")):
        import_replies(cache, file)
    assert cache.stats().reply_count == 0


def test_a_file_that_is_no_export_is_refused_in_one_sentence(cache: ReplyCache, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="There is no file"):
        import_replies(cache, tmp_path / "none.parquet")
    other_table = tmp_path / "table.parquet"
    pq.write_table(pa.table({"key": ["a"], "attempts": ["1"]}), other_table)
    with pytest.raises(SourceError, match=r"not an export of replies: column model, .*, attempts.* missing or of"):
        import_replies(cache, other_table)
    text = tmp_path / "text.parquet"
    text.write_text("no parquet at all")
    with pytest.raises(SourceError, match="not a readable parquet file"):
        import_replies(cache, text)
    whole, part = tmp_path / "whole.parquet", tmp_path / "part.parquet"
    pq.write_table(pa.Table.from_pylist([GOOD], schema=SCHEMA), whole)
    content = bytearray(whole.read_bytes())
    content[40:120] = bytes(80)
    part.write_bytes(content)
    with pytest.raises(SourceError, match=r"part\.parquet"):
        import_replies(cache, part)
    assert cache.stats().reply_count == 0


def test_a_folder_that_does_not_exist_is_named_by_an_export(cache: ReplyCache, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="Cannot write the replies"):
        export_replies(cache, tmp_path / "none" / "x.parquet")


def test_a_claim_of_another_process_is_waited_for_and_ends_with_that_process(tmp_path: Path) -> None:
    path, key = tmp_path / "replies.sqlite", content_hash("key")
    claims = claims_of(path)
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


def test_threads_hold_a_key_one_after_the_other(tmp_path: Path) -> None:
    claims, inside, most = claims_of(tmp_path / "replies.sqlite"), [], []

    def work() -> None:
        with claims.held(content_hash("key"), lambda: False):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.01)
            inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1, 1, 1, 1]
