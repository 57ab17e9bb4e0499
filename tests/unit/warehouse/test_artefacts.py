"""What a published version offers to the opener of an artefact, ours or another package's, and when it opens what."""

import gc
import json
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import DamagedStoreError, MissingArtefactError, StatementRejectedError
from polyhop.schemas.ports import Artefact, Stored
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.artefacts import GRAPH, SURFACES, lexical_of
from polyhop.warehouse.index_reader import PublishedIndex
from polyhop.warehouse.open import open_published

RECORDS = [
    {"id": "b", "title": "Rome", "text": "Rome lies on the Tiber."},
    {"id": "a", "title": "Tiber", "text": "The Tiber flows through Rome."},
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with an index built for the strategy `graph`: the graph, and postings of plain words."""
    folder: Path = tmp_path_factory.mktemp("artefacts")
    corpus = folder / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(record) + "\n" for record in RECORDS), encoding="utf-8")
    run_index(Settings(root=folder / "root", strategies=("graph",)), IndexRequest("towns", corpus), DirectRunner())
    return folder / "root"


@pytest.fixture
def index(root: Path) -> Iterator[PublishedIndex]:
    opened = open_published(root, "towns")
    yield opened
    opened.close()


def handle(read: Callable[[Stored], Any], name: str = "graph") -> Artefact[Any]:
    return Artefact(name, read)


def test_arrays_lists_rows_and_columns_of_any_name_can_be_read(index: PublishedIndex) -> None:
    lengths = handle(lambda stored: stored.array("lexical-plain", "lengths"))
    assert index.artefact(lengths).tolist() == [6, 6]
    words = handle(lambda stored: stored.lines("lexical-plain", "terms"))
    assert index.artefact(words) == ["flows", "lies", "on", "rome", "the", "through", "tiber"]
    title = handle(lambda stored: stored.rows("SELECT title FROM passages WHERE passage_id = $id", {"id": "b"}))
    assert index.artefact(title) == [("Rome",)]
    tables = handle(lambda stored: stored.columns("SELECT key, is_named FROM entities ORDER BY key"))
    assert {name: column.tolist() for name, column in index.artefact(tables).items()} == {
        "key": ["rome", "tiber"],
        "is_named": [True, True],
    }


def test_an_opener_gets_the_numbering_the_settings_and_other_artefacts(index: PublishedIndex) -> None:
    numbering = handle(lambda stored: (list(stored.passage_ids), dict(stored.number_of_passage)))
    assert index.artefact(numbering) == (["a", "b"], {"a": 0, "b": 1})
    assert index.artefact(handle(lambda stored: stored.settings["extraction"]["ner"])) == "rules"
    assert index.artefact(handle(lambda stored: stored.artefact(GRAPH))) is index.artefact(GRAPH)
    needs_more = handle(lambda stored: stored.artefact(Artefact("hubs", len, "hublink")))  # type: ignore[arg-type]
    with pytest.raises(MissingArtefactError, match=r"'hubs'.*--index towns --add-strategy hublink"):
        index.artefact(needs_more)


def test_a_value_is_opened_when_it_is_asked_for_and_then_kept(index: PublishedIndex) -> None:
    opened: list[Stored] = []
    one = handle(opened.append)
    assert opened == []
    for _ in range(3):
        assert index.artefact(one) is None
    assert len(opened) == 1


def test_a_value_that_could_not_be_opened_is_tried_again(index: PublishedIndex) -> None:
    failures = [RuntimeError("not yet")]

    def read(stored: Stored) -> str:
        if failures:
            raise failures.pop()
        return "opened"

    flaky = handle(read)
    with pytest.raises(RuntimeError, match="not yet"):
        index.artefact(flaky)
    assert index.artefact(flaky) == "opened"


def test_the_tables_cannot_be_written(index: PublishedIndex) -> None:
    for sql in ("DELETE FROM passages", "CREATE TABLE more (a INT)", "SELECT nothing FROM nowhere"):
        with pytest.raises(StatementRejectedError, match="DuckDB refused a statement"):
            index.artefact(handle(lambda stored, sql=sql: stored.rows(sql)))  # type: ignore[misc]
        with pytest.raises(StatementRejectedError, match="DuckDB refused a statement"):
            index.artefact(handle(lambda stored, sql=sql: stored.columns(sql)))  # type: ignore[misc]


def test_an_array_is_not_written_through(index: PublishedIndex) -> None:
    lengths = index.artefact(handle(lambda stored: stored.array("lexical-plain", "lengths")))
    with pytest.raises(ValueError, match="read-only"):
        lengths[0] = 7


def test_an_array_that_is_not_there_is_damage(index: PublishedIndex) -> None:
    with pytest.raises(DamagedStoreError, match=r"towers_heights.npy is damaged"):
        index.artefact(handle(lambda stored: stored.array("towers", "heights")))


def test_closing_lets_go_of_everything_that_was_opened(root: Path) -> None:
    index = open_published(root, "towns")
    held = [weakref.ref(index.artefact(one)) for one in (GRAPH, SURFACES, lexical_of("plain"))]
    array = weakref.ref(index.artefact(lexical_of("plain")).lengths)
    assert index.number_of_passage == {"a": 0, "b": 1}
    assert all(one() is not None for one in (*held, array))
    index.close()
    gc.collect()
    assert [one() for one in (*held, array)] == [None] * 4
    assert "number_of_passage" not in vars(index)


def test_damage_of_one_artefact_does_not_touch_another(root: Path, index: PublishedIndex) -> None:
    path = index.tables_file.parent / "graph" / "bipartite_tf.npy"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    try:
        with pytest.raises(DamagedStoreError, match=r"bipartite_tf.npy is damaged \(its checksum"):
            index.artefact(GRAPH)
        assert np.sum(index.artefact(lexical_of("plain")).lengths) == 12
    finally:
        path.write_bytes(whole)
    assert index.artefact(GRAPH).keys == ("rome", "tiber")
