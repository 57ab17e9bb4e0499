"""Caches whose files changed under them: damaged rows count as missing, damaged files are saved row by row."""

import logging
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pydantic import BaseModel

from polyhop.schemas.chat import ChatOutcome, ChatRequest, ChatTask, Prompt, Rung, Usage
from polyhop.schemas.errors import DamagedStoreError, StoreUnavailableError
from polyhop.schemas.records import Document
from polyhop.warehouse.cache.documents import DocumentCache
from polyhop.warehouse.cache.repair import find_damaged_caches, repair_caches
from polyhop.warehouse.cache.replies import ReplyCache, export_replies
from polyhop.warehouse.cache.vectors import VectorCache
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.models.budget import Budget
from polyhop.warehouse.models.chat import CachedChat, RequestJournal

CALL = Usage(calls=1, prompt_tokens=10, completion_tokens=5, cost_usd=0.01, seconds=0.5)


class Names(BaseModel):
    names: list[str]


TASK = ChatTask("kg.extract", Prompt("kg.extract", "Names in {{text}}"), Names, max_output_tokens=100)


class CountingGateway:
    """Replies with the text's words and remembers what it was asked."""

    model = "fake/model"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def answer(self, request: ChatRequest[Names], journal: RequestJournal) -> ChatOutcome[Names]:
        text = dict(request.inputs)["text"]
        journal.before_call(request, 10)
        self.asked.append(text)
        reply = Names(names=text.split())
        journal.after_call(request, reply.model_dump_json(), CALL, "")
        return ChatOutcome(reply, self.model, False, Rung.AS_IS, 1, "", "", CALL)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


@pytest.fixture
def cache(layout: Layout) -> Iterator[ReplyCache]:
    cache = ReplyCache(layout.reply_cache)
    yield cache
    cache.close()


def ask(cache: ReplyCache, gateway: CountingGateway, text: str = "Ada Lovelace") -> list[str]:
    request = ChatRequest(TASK, f"unit {text}", (("text", text),))
    outcome = CachedChat(gateway, cache, Budget(None, None), 1).ask([request])[0]  # type: ignore[arg-type]
    assert outcome.reply is not None
    return outcome.reply.names


def execute(path: Path, sql: str, *values: object) -> None:
    connection = sqlite3.connect(path)
    connection.execute(sql, values)
    connection.commit()
    connection.close()


DAMAGE = {
    "a flipped byte": "UPDATE replies SET reply = CAST(x'00' || substr(reply, 2) AS BLOB)",
    "a cut": "UPDATE replies SET reply = substr(reply, 1, length(reply) - 3)",
    "nothing left": "UPDATE replies SET reply = x''",
    "a text": "UPDATE replies SET reply = 'text'",
    "an unknown rung": "UPDATE replies SET rung = 'as_iz'",
    "other tokens": "UPDATE replies SET completion_tokens = 5000000",
    "another model": "UPDATE replies SET model = 'faked/model'",
    "another checksum": "UPDATE replies SET checksum = x'0011223344556677'",
    "no number": "UPDATE replies SET attempts = 'x', checksum = NULL",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_reply_is_read_from_its_raw_text_and_nothing_is_paid_twice(
    cache: ReplyCache, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A zlib error in one row used to end every `polyhop index` with "This is a defect"."""
    gateway = CountingGateway()
    assert ask(cache, gateway) == ["Ada", "Lovelace"]
    execute(cache.path, DAMAGE[damage])
    with caplog.at_level(logging.WARNING):
        assert ask(cache, gateway) == ["Ada", "Lovelace"]
    assert gateway.asked == ["Ada Lovelace"]
    assert "1 rows of" in caplog.text
    assert "polyhop cache repair" in caplog.text
    caplog.clear()
    assert ask(cache, gateway) == ["Ada", "Lovelace"]
    assert caplog.text == ""


def test_a_reply_whose_raw_text_is_damaged_too_is_asked_again_once(cache: ReplyCache) -> None:
    gateway = CountingGateway()
    ask(cache, gateway)
    execute(cache.path, "UPDATE replies SET reply = substr(reply, 2)")
    execute(cache.path, "UPDATE raw_replies SET text = substr(text, 2)")
    assert ask(cache, gateway) == ["Ada", "Lovelace"]
    assert ask(cache, gateway) == ["Ada", "Lovelace"]
    assert gateway.asked == ["Ada Lovelace", "Ada Lovelace"]


def test_replies_of_a_cache_without_checksums_are_used(layout: Layout) -> None:
    cache, gateway = ReplyCache(layout.reply_cache), CountingGateway()
    ask(cache, gateway)
    cache.close()
    execute(layout.reply_cache, "ALTER TABLE replies DROP COLUMN checksum")
    again = ReplyCache(layout.reply_cache)
    assert ask(again, gateway) == ["Ada", "Lovelace"]
    assert ask(again, gateway, "Charles Babbage") == ["Charles", "Babbage"]
    assert gateway.asked == ["Ada Lovelace", "Charles Babbage"]
    again.close()
    assert find_damaged_caches(layout) == []


def test_an_export_leaves_damaged_replies_out(cache: ReplyCache, tmp_path: Path) -> None:
    gateway = CountingGateway()
    for text in ("a", "b", "c"):
        ask(cache, gateway, text)
    execute(cache.path, "UPDATE replies SET reply = x'00' WHERE rowid = 2")
    assert export_replies(cache, tmp_path / "replies.parquet") == 2


def fill(layout: Layout, count: int = 300) -> dict[str, list[float]]:
    """Vectors and replies; returns the vectors."""
    vectors = VectorCache(layout.vector_cache)
    rng = np.random.default_rng(5)
    rows = {f"{number:064x}": rng.normal(size=64).astype(np.float32) for number in range(count)}
    vectors.put_many(rows)
    vectors.close()
    replies, gateway = ReplyCache(layout.reply_cache), CountingGateway()
    for number in range(20):
        ask(replies, gateway, f"text {number}")
    replies.close()
    return {key: vector.tolist() for key, vector in rows.items()}


def test_a_damaged_cache_of_paths_is_found_and_repaired_like_that_of_an_index(layout: Layout) -> None:
    paths = VectorCache(layout.path_cache, most_rows=10)
    paths.put_many({f"{number:064x}": np.ones(4, np.float32) for number in range(3)})
    paths.close()
    execute(layout.path_cache, "UPDATE vectors SET vector = x'00' WHERE rowid = 2")
    (found,) = find_damaged_caches(layout)
    assert "paths.sqlite" in found
    (saved,) = repair_caches(layout)
    assert (saved.path, saved.saved, saved.damaged) == (layout.path_cache, 2, 1)


def test_a_damaged_cache_of_documents_is_found_and_repaired(layout: Layout) -> None:
    cache = DocumentCache(layout.document_cache)
    documents = {key: Document(key, f"text of {key}", (), {}) for key in ("a", "b", "c")}
    for key, document in documents.items():
        cache.put(key, document)
    cache.close()
    assert find_damaged_caches(layout) == []
    execute(layout.document_cache, "UPDATE documents SET content = x'00' WHERE key = 'b'")
    (found,) = find_damaged_caches(layout)
    assert "documents.sqlite is damaged (1 rows of table 'documents'" in found
    (saved,) = repair_caches(layout)
    assert (saved.path, saved.saved, saved.damaged) == (layout.document_cache, 2, 1)
    repaired = DocumentCache(layout.document_cache)
    assert [repaired.get(key) for key in documents] == [documents["a"], None, documents["c"]]
    repaired.close()


def test_whole_caches_are_left_alone(layout: Layout) -> None:
    fill(layout)
    assert find_damaged_caches(layout) == []
    assert repair_caches(layout) == []


def test_whatever_byte_flips_what_can_be_read_is_saved_and_nothing_wrong_is(layout: Layout) -> None:
    whole = fill(layout)
    content = layout.vector_cache.read_bytes()
    rng = random.Random(7)
    noticed = 0
    for offset in [*range(0, 100, 13), *(rng.randrange(100, len(content)) for _ in range(20))]:
        flipped = bytearray(content)
        flipped[offset] ^= 1 << rng.randrange(8)
        layout.vector_cache.write_bytes(flipped)
        found = find_damaged_caches(layout)
        noticed += bool(found)
        assert all("fix it with: polyhop cache repair" in sentence for sentence in found)
        for saved in repair_caches(layout):
            assert saved.kept.read_bytes()[100:] == bytes(flipped[100:])
            saved.kept.unlink()
        assert find_damaged_caches(layout) == [], offset
        cache = VectorCache(layout.vector_cache)
        held = {key: vector.tolist() for key, vector in cache.get_many(list(whole)).items()}
        cache.close()
        assert all(held[key] == whole[key] for key in held), offset
        if offset >= 4096:  # the first page holds the list of tables: without it nothing can be found
            assert len(held) >= len(whole) - 30, (offset, len(held))
    assert noticed > 10


def test_replies_are_saved_with_their_journal(layout: Layout) -> None:
    fill(layout)
    execute(layout.reply_cache, "UPDATE replies SET reply = x'00' WHERE rowid = 3")
    assert "1 rows of table 'replies' are not as they were written" in find_damaged_caches(layout)[0]
    (saved,) = repair_caches(layout)
    assert (saved.path, saved.saved, saved.damaged) == (layout.reply_cache, 19 + 20 + 20, 1)
    cache, gateway = ReplyCache(layout.reply_cache), CountingGateway()
    for number in range(20):
        ask(cache, gateway, f"text {number}")
    assert gateway.asked == []
    assert cache.stats().reply_count == 20
    cache.close()


def test_a_cache_that_others_use_is_not_replaced(layout: Layout) -> None:
    fill(layout)
    execute(layout.vector_cache, "UPDATE vectors SET vector = x'00' WHERE rowid = 3")
    used = VectorCache(layout.vector_cache)
    with pytest.raises(StoreUnavailableError, match="stop index runs and workers"):
        repair_caches(layout)
    used.close()
    assert [saved.saved for saved in repair_caches(layout)] == [299]


def test_a_file_that_is_no_database_is_set_aside(layout: Layout) -> None:
    layout.caches.mkdir()
    layout.vector_cache.write_bytes(b"no database at all, but long enough to be read as one" * 50)
    with pytest.raises(DamagedStoreError, match=r"vectors.sqlite is damaged .*polyhop cache repair"):
        VectorCache(layout.vector_cache)
    (saved,) = repair_caches(layout)
    assert (saved.saved, saved.kept.name) == (0, "vectors.sqlite.damaged-1")
    VectorCache(layout.vector_cache).close()
