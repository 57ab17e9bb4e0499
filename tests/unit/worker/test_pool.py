"""Open indexes of a worker on real published versions."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.index import DirectRunner, run_index
from flows.reports import IndexRequest
from schemas.errors import UnknownIndexError
from schemas.settings import Settings
from warehouse.files.layout import Layout
from warehouse.files.versions import point_to, prune_versions
from worker.pool import IndexPool

Publish = Callable[[int], int]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(root=tmp_path / "root", strategies=("bm25",))


@pytest.fixture
def publish(settings: Settings, tmp_path: Path) -> Publish:
    def run(count: int) -> int:
        corpus = tmp_path / "corpus.jsonl"
        records = [{"id": f"p{n}", "title": f"Town {n}", "text": f"Town {n} lies on a river."} for n in range(count)]
        corpus.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        return run_index(settings, IndexRequest("tiny", corpus), DirectRunner()).version

    return run


def test_a_session_is_kept_while_its_version_is_current(settings: Settings, publish: Publish) -> None:
    publish(5)
    pool = IndexPool(settings)
    assert pool.session("tiny") is pool.session("tiny")
    assert pool.versions() == {"tiny": 1}
    pool.close()


def test_a_version_published_in_between_is_picked_up_and_the_old_one_given_free(
    settings: Settings, publish: Publish
) -> None:
    publish(5)
    index = Layout(settings.root).index("tiny")
    pool = IndexPool(settings)
    first = pool.session("tiny")
    publish(6)
    assert first.version == 1
    assert prune_versions(index, keep=1) == []
    second = pool.session("tiny")
    assert (second.version, len(second.published.passage_ids)) == (2, 6)
    assert pool.versions() == {"tiny": 2}
    assert prune_versions(index, keep=1) == [1]
    pool.close()


def test_a_version_that_was_rolled_back_is_left(settings: Settings, publish: Publish) -> None:
    publish(5)
    publish(6)
    pool = IndexPool(settings)
    assert pool.session("tiny").version == 2
    point_to(Layout(settings.root).index("tiny"), 1)
    assert pool.session("tiny").version == 1
    pool.close()


def test_an_unknown_index_is_named(settings: Settings, publish: Publish) -> None:
    publish(5)
    pool = IndexPool(settings)
    with pytest.raises(UnknownIndexError, match="known indexes: tiny"):
        pool.session("nil")
    pool.close()


def test_a_closed_pool_holds_nothing(settings: Settings, publish: Publish) -> None:
    publish(5)
    publish(6)
    pool = IndexPool(settings)
    pool.session("tiny")
    pool.close()
    assert pool.versions() == {}
