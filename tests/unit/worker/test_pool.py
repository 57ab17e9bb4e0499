"""Open indexes of a worker on real published versions."""

import gc
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import UnknownIndexError
from polyhop.schemas.query import Question
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import point_to, prune_versions
from polyhop.worker.session import IndexPool

pytestmark = pytest.mark.slow

Publish = Callable[..., int]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(root=tmp_path / "root", strategies=("bm25",))


@pytest.fixture
def publish(settings: Settings, tmp_path: Path) -> Publish:
    def run(count: int, settings: Settings = settings) -> int:
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


def open_files_of(folder: Path) -> list[str]:
    """Files below a folder that this process has open or mapped, whether or not they still exist."""
    descriptors = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    mapped = [line.split(maxsplit=5)[-1] for line in Path("/proc/self/maps").read_text().splitlines()]
    return sorted({path for path in (*descriptors, *mapped) if path.startswith(str(folder.resolve()))})


def test_no_file_of_a_pruned_version_stays_open(settings: Settings, publish: Publish) -> None:
    """Strategies keep arrays, name finders and tables of their version; none may survive the move to the next one."""
    everything = settings.model_copy(update={"strategies": ("bridge", "dense-ann", "qasa")})
    publish(12, everything)
    folder = Layout(settings.root).index("tiny")
    pool = IndexPool(everything)
    session = pool.session("tiny")
    for strategy in everything.strategies:
        answered = session.answerer(strategy, {}).answer([Question("What lies on a river near Town 3?")], limit=3)
        session.document(strategy, answered[0])
    del session, answered
    assert any("/versions/000001/" in path for path in open_files_of(folder.path))
    publish(13, everything)
    pool.session("tiny")
    assert prune_versions(folder, keep=1) == [1]
    gc.collect()  # the run that published has cycles of its own, in this process only because the test is
    assert [path for path in open_files_of(folder.path) if "/versions/000002/" not in path] == []
    pool.close()
    gc.collect()
    assert open_files_of(folder.path) == []


def test_a_closed_pool_holds_nothing(settings: Settings, publish: Publish) -> None:
    publish(5)
    publish(6)
    pool = IndexPool(settings)
    pool.session("tiny")
    pool.close()
    assert pool.versions() == {}
