"""The cache of model replies: exact texts back, failures beside replies, eviction, and files of replies."""

import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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
from polyhop.schemas.errors import SourceError, StoreError
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


def test_a_reply_comes_back_as_it_was_stored_and_unknown_keys_are_left_out(
    cache: ReplyCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polyhop.warehouse.cache.replies, "KEYS_PER_READ", 3)
    names = [f"x{n}" for n in range(10)]
    for name in names:
        cache.put_reply(source(name), f'{{"name":"Ü\\n{name}"}}', Rung.REASKED, 3, USAGE)
    keys = [content_hash(name) for name in [*names, "unknown", *names]]
    assert cache.replies(keys) == {
        content_hash(name): StoredReply(f'{{"name":"Ü\\n{name}"}}', "m", Rung.REASKED, 3, USAGE) for name in names
    }
    assert cache.replies([]) == {}


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
def test_only_what_fits_all_conditions_is_evicted_and_the_journal_of_spending_stays(
    cache: ReplyCache, conditions: dict[str, Any], removed: tuple[int, int, int]
) -> None:
    fill(cache)
    age(cache, 10)
    put(cache, "new", model="m3")
    before, spent = cache.stats(), [row.spent for row in cache.by_task()]
    assert cache.evict(**conditions) == Evicted(*removed)
    after = cache.stats()
    assert (
        before.reply_count - after.reply_count,
        before.raw_reply_count - after.raw_reply_count,
        before.failure_count - after.failure_count,
    ) == removed
    assert cache.replies([content_hash("new")])
    assert [row.spent for row in cache.by_task() if row.spent.calls] == [one for one in spent if one.calls]


def test_eviction_gives_room_back(cache: ReplyCache) -> None:
    for n in range(50):
        cache.put_call(source(f"{n}"), "".join(content_hash(f"{n} {k}") for k in range(40)), USAGE, "E")
    before = cache.stats().byte_count
    cache.evict(only_failures=True)
    assert cache.stats().byte_count < before


@settings(max_examples=40)
@given(puts=st.lists(st.tuples(st.integers(0, 5), st.text(st.characters(), max_size=40), st.booleans()), max_size=20))
def test_the_last_reply_to_a_key_counts_and_ends_its_failures_which_hide_none(
    tmp_path_factory: pytest.TempPathFactory, puts: list[Any]
) -> None:
    cache = ReplyCache(tmp_path_factory.mktemp("law") / "replies.sqlite")
    replies: dict[str, str] = {}
    failed: dict[str, tuple[int, str, str]] = {}
    for number, text, is_valid in puts:
        key = content_hash(f"key {number}")
        if is_valid:
            put(cache, f"key {number}", text)
            replies[key] = text
            failed.pop(key, None)
        else:
            cache.put_call(source(f"key {number}"), text, Usage(1), "E")
            cache.put_failure(source(f"key {number}"), 1, "E", text)
            failed[key] = (1, "E", text)
    keys = [content_hash(f"key {n}") for n in range(6)]
    assert {key: reply.text for key, reply in cache.replies(keys).items()} == replies
    assert cache.failures(keys) == failed
    raws = [raw.text for texts in cache.raw_replies(keys).values() for raw in texts]
    assert sorted(raws) == sorted(text for _, text, is_valid in puts if not is_valid and text)
    cache.close()


def test_every_statement_is_used_and_accepted_by_sqlite(cache: ReplyCache) -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in SQL_FILE.parents[1].glob("*.py"))
    names = re.findall(r"^-- name: (\w+)$", SQL_FILE.read_text(encoding="utf-8"), re.MULTILINE)
    assert names == list(read_statements(SQL_FILE))
    cache.stats()
    connection = sqlite3.connect(cache.path)
    for name, statement in read_statements(SQL_FILE).items():
        values = {**dict.fromkeys(re.findall(r":(\w+)", statement), 1), "keys": "[]"}
        connection.execute("EXPLAIN " + re.sub(r"^--.*$", "", statement, flags=re.MULTILINE), values)
        assert name.startswith("create_") or f'"{name}"' in code
        assert statement.startswith("-- ")
    connection.close()


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
    schema = pa.schema([field.with_nullable(True) for field in SCHEMA])
    many = [{**GOOD, "key": content_hash(f"{n}")} for n in range(1200)]
    pq.write_table(pa.Table.from_pylist([*many, {**GOOD, **change}], schema=schema), tmp_path / "bad.parquet")
    with pytest.raises(SourceError, match=rf"Row 1201 of .*bad\.parquet is not a reply: {re.escape(fault)}"):
        import_replies(cache, tmp_path / "bad.parquet")
    assert cache.stats().reply_count == 0


def test_a_file_that_is_no_export_is_refused_in_one_sentence(cache: ReplyCache, tmp_path: Path) -> None:
    pq.write_table(pa.table({"key": ["a"], "attempts": ["1"]}), tmp_path / "table.parquet")
    (tmp_path / "text.parquet").write_text("no parquet at all")
    pq.write_table(pa.Table.from_pylist([GOOD], schema=SCHEMA), tmp_path / "part.parquet")
    content = bytearray((tmp_path / "part.parquet").read_bytes())
    content[40:120] = bytes(80)
    (tmp_path / "part.parquet").write_bytes(content)
    for name, words in (
        ("none", "There is no file"),
        ("table", r"not an export of replies: column model, .*, attempts.* missing or of"),
        ("text", "not a readable parquet file"),
        ("part", r"part\.parquet"),
    ):
        with pytest.raises(SourceError, match=words):
            import_replies(cache, tmp_path / f"{name}.parquet")
    assert cache.stats().reply_count == 0
    with pytest.raises(StoreError, match="Cannot write the replies"):
        export_replies(cache, tmp_path / "none" / "x.parquet")
    assert export_replies(cache, tmp_path / "none.parquet") == 0
    assert import_replies(cache, tmp_path / "none.parquet") == Imported(0, 0)


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
    claims, inside = claims_of(tmp_path / "replies.sqlite"), [0]

    def work(_: int) -> int:
        with claims.held(content_hash("key"), lambda: False):
            inside[0] += 1
            most = inside[0]
            time.sleep(0.01)
            inside[0] -= 1
            return most

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [1] * 4
