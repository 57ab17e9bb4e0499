"""`polyhop cache`: counting, removing, carrying elsewhere."""

import json
from pathlib import Path

import numpy as np
import pytest
from small_indexes import Call

from polyhop.schemas.chat import Repair, Usage
from polyhop.schemas.text import content_hash
from polyhop.warehouse.cache.replies import ReplyCache, ReplySource
from polyhop.warehouse.cache.vectors import VectorCache
from polyhop.warehouse.files.layout import Layout


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose root has two replies, one failure and vectors."""
    folder = tmp_path_factory.mktemp("caches")
    layout = Layout(folder / "root")
    replies = ReplyCache(layout.reply_cache)
    for n, model in enumerate(("openai/a", "openai/b")):
        source = ReplySource(content_hash(f"{n}"), model, "kg.extract", "p", 1)
        replies.put_call(source, "{}", Usage(1, 100, 10, 0.5, 1), "")
        replies.put_reply(source, "{}", Repair.AS_IS, 1, Usage(1, 100, 10, 0.5, 1))
    failed = ReplySource(content_hash("x"), "openai/a", "kg.resolve", "p", 1)
    replies.put_call(failed, "?", Usage(1, 5, 5, 0.25, 1), "MalformedReplyError")
    replies.put_failure(failed, 1, "MalformedReplyError", "No JSON.")
    replies.close()
    for path, keys in ((layout.vector_cache, "k"), (layout.path_cache, "ab")):
        vectors = VectorCache(path)
        vectors.put_many({key: np.ones(4, np.float32) for key in keys})
        vectors.close()
    return folder


@pytest.fixture
def cache(command: Call) -> Call:
    """The JSON of `polyhop cache`."""
    return lambda line: json.loads(command(f"cache {line} --json").stdout)


def test_stats_count_all_caches_and_what_was_spent_and_evict_says_what_it_removed(cache: Call, command: Call) -> None:
    document = cache("stats")
    assert (document["vectors"]["count"], document["paths"]["count"]) == (1, 2)
    replies = document["replies"]
    assert (replies["count"], replies["raw"], replies["failures"]) == (2, 3, 1)
    tokens = {"prompt_tokens": 205, "completion_tokens": 25}
    assert replies["spent"] == {"calls": 3, **tokens, "cost_usd": 1.25, "seconds": 3.0}
    rows = [(row["model"], row["task"], row["replies"], row["failures"], row["calls"]) for row in replies["by_task"]]
    done, failed = ("kg.extract", 1, 0, 1), ("kg.resolve", 0, 1, 1)
    assert rows == [("openai/a", *done), ("openai/a", *failed), ("openai/b", *done)]
    nothing = cache("stats --root none")
    assert nothing["replies"]["count"] == nothing["vectors"]["count"] == nothing["replies"]["bytes"] == 0
    plain = command("cache stats").stdout
    assert "replies: 2 valid, 3 raw, 1 failed requests" in plain
    assert "spent: 3 calls, 1.25 USD" in plain

    said = command("cache evict --failures").stdout
    assert said == "Removed: 0 replies, 1 failed request, 1 raw reply\n"
    assert cache("evict --model openai/a") == {"replies": 1, "raw_replies": 1, "failures": 0}
    assert cache("evict --older-than-days 1") == {"replies": 0, "raw_replies": 0, "failures": 0}
    left = cache("stats")["replies"]
    assert (left["count"], left["failures"], left["spent"]["calls"]) == (1, 0, 3)


def test_an_export_is_imported_into_another_root_once(cache: Call, command: Call, tmp_path: Path) -> None:
    file, again, other = tmp_path / "replies.parquet", tmp_path / "again.parquet", f"--root {tmp_path / 'other'}"
    assert cache(f"export {file}") == {"exported": 2}
    assert cache(f"import {file} {other}") == {"added": 2, "known": 0}
    assert command(f"cache import {file} {other}").stdout == "0 replies added, 2 cached already\n"
    command(f"cache export {again} {other}")
    assert again.read_bytes() == file.read_bytes()
