"""`polyhop cache`: counting, removing, carrying elsewhere."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from polyhop.schemas.chat import Rung, Usage
from polyhop.schemas.text import content_hash
from polyhop.warehouse.cache.replies import ReplyCache, ReplySource
from polyhop.warehouse.cache.vectors import VectorCache
from polyhop.warehouse.files.layout import Layout


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with two replies, one failure and one vector."""
    layout = Layout(tmp_path / "root")
    replies = ReplyCache(layout.reply_cache)
    for n, model in enumerate(("openai/a", "openai/b")):
        source = ReplySource(content_hash(f"{n}"), model, "kg.extract", "p", 1)
        replies.put_call(source, "{}", Usage(1, 100, 10, 0.5, 1), "")
        replies.put_reply(source, "{}", Rung.AS_IS, 1, Usage(1, 100, 10, 0.5, 1))
    failed = ReplySource(content_hash("x"), "openai/a", "kg.resolve", "p", 1)
    replies.put_call(failed, "?", Usage(1, 5, 5, 0.25, 1), "MalformedReplyError")
    replies.put_failure(failed, 1, "MalformedReplyError", "No JSON.")
    replies.close()
    vectors = VectorCache(layout.vector_cache)
    vectors.put_many({"key": np.ones(4, np.float32)})
    vectors.close()
    paths = VectorCache(layout.path_cache)
    paths.put_many({key: np.ones(4, np.float32) for key in "ab"})
    paths.close()
    return layout.root


def stats(polyhop: Callable[..., subprocess.CompletedProcess[str]], root: Path) -> Any:
    done = polyhop("cache", "stats", "--root", root, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_stats_count_all_caches_and_what_was_spent(
    polyhop: Callable[..., subprocess.CompletedProcess[str]], root: Path
) -> None:
    document = stats(polyhop, root)
    assert (document["vectors"]["count"], document["paths"]["count"]) == (1, 2)
    replies = document["replies"]
    assert (replies["count"], replies["raw"], replies["failures"]) == (2, 3, 1)
    assert replies["spent"] == {
        "calls": 3,
        "prompt_tokens": 205,
        "completion_tokens": 25,
        "cost_usd": 1.25,
        "seconds": 3.0,
    }
    rows = [(row["model"], row["task"], row["replies"], row["failures"], row["calls"]) for row in replies["by_task"]]
    assert rows == [
        ("openai/a", "kg.extract", 1, 0, 1),
        ("openai/a", "kg.resolve", 0, 1, 1),
        ("openai/b", "kg.extract", 1, 0, 1),
    ]
    plain = polyhop("cache", "stats", "--root", root).stdout
    assert "replies: 2 valid, 3 raw, 1 failed requests" in plain
    assert "spent: 3 calls, 1.25 USD" in plain


def test_stats_of_nothing_are_zeros_and_make_no_file(
    polyhop: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    document = stats(polyhop, tmp_path / "none")
    assert document["replies"]["count"] == document["vectors"]["count"] == document["replies"]["bytes"] == 0
    assert not (tmp_path / "none").exists()


def test_evict_says_what_it_removed_and_keeps_what_was_spent(
    polyhop: Callable[..., subprocess.CompletedProcess[str]], root: Path
) -> None:
    done = polyhop("cache", "evict", "--failures", "--root", root)
    assert done.stdout == "Removed: 0 replies, 1 failed request, 1 raw reply\n"
    done = polyhop("cache", "evict", "--model", "openai/a", "--root", root, "--json")
    assert json.loads(done.stdout) == {"replies": 1, "raw_replies": 1, "failures": 0}
    done = polyhop("cache", "evict", "--older-than-days", "1", "--root", root, "--json")
    assert json.loads(done.stdout) == {"replies": 0, "raw_replies": 0, "failures": 0}
    left = stats(polyhop, root)["replies"]
    assert (left["count"], left["failures"], left["spent"]["calls"]) == (1, 0, 3)


def test_evict_without_a_condition_is_wrong_usage_and_removes_nothing(
    polyhop: Callable[..., subprocess.CompletedProcess[str]], root: Path
) -> None:
    done = polyhop("cache", "evict", "--root", root)
    assert done.returncode == 2
    assert done.stderr == "polyhop: Say what to remove: --older-than-days N, --model M or --failures.\n"
    assert stats(polyhop, root)["replies"]["count"] == 2


def test_an_export_is_imported_into_another_root_once(
    polyhop: Callable[..., subprocess.CompletedProcess[str]], root: Path, tmp_path: Path
) -> None:
    file, other = tmp_path / "replies.parquet", tmp_path / "other"
    done = polyhop("cache", "export", file, "--root", root, "--json")
    assert json.loads(done.stdout) == {"exported": 2}
    done = polyhop("cache", "import", file, "--root", other, "--json")
    assert json.loads(done.stdout) == {"added": 2, "known": 0}
    done = polyhop("cache", "import", file, "--root", other)
    assert done.stdout == "0 replies added, 2 cached already\n"
    polyhop("cache", "export", tmp_path / "again.parquet", "--root", other)
    assert (tmp_path / "again.parquet").read_bytes() == file.read_bytes()


def test_a_file_that_is_no_export_gives_one_sentence_and_changes_nothing(
    polyhop: Callable[..., subprocess.CompletedProcess[str]], root: Path, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.parquet"
    pq.write_table(pa.table({"key": ["a"]}), wrong)
    for file, reason in ((wrong, "is not an export of replies"), (tmp_path / "none.parquet", "There is no file")):
        done = polyhop("cache", "import", file, "--root", root)
        assert (done.returncode, done.stdout) == (1, "")
        assert reason in done.stderr
        assert done.stderr.count("\n") == 1
    assert stats(polyhop, root)["replies"]["count"] == 2
