"""What a published version offers to the opener of an artefact, when it opens what, and that damage is refused."""

import gc
import json
import weakref
from collections.abc import Callable, Iterator
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import DamagedStoreError, StatementRejectedError
from polyhop.schemas.ports import Artefact, Stored
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.artefacts import GRAPH, SURFACES, ArrayFolder, lexical_of, open_array, save_arrays
from polyhop.warehouse.files.disk import file_checksum
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


def test_arrays_lists_rows_columns_and_settings_can_be_read(index: PublishedIndex) -> None:
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
    assert index.artefact(handle(lambda stored: stored.settings["extraction"]["ner"])) == "rules"


def test_a_value_that_could_not_be_opened_is_tried_again(index: PublishedIndex) -> None:
    replies = [[], ["opened"]]
    flaky = handle(lambda stored: replies.pop(0)[0])
    with pytest.raises(IndexError):
        index.artefact(flaky)
    assert index.artefact(flaky) == index.artefact(flaky) == "opened"


def test_neither_tables_nor_arrays_can_be_written(index: PublishedIndex) -> None:
    for sql in ("DELETE FROM passages", "CREATE TABLE more (a INT)", "SELECT nothing FROM nowhere"):
        for method in ("rows", "columns"):
            with pytest.raises(StatementRejectedError, match="DuckDB refused a statement"):
                index.artefact(handle(methodcaller(method, sql)))
    lengths = index.artefact(handle(lambda stored: stored.array("lexical-plain", "lengths")))
    with pytest.raises(ValueError, match="read-only"):
        lengths[0] = 7


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


FIX = r"fix it with: polyhop verify --index towns --repair$"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Arrays of a graph, and a list of terms beside an array; whole."""
    folder = tmp_path / "indexes" / "towns" / "versions" / "000001" / "graph"
    folder.mkdir(parents=True)
    save_arrays(folder, "bipartite", {"indptr": np.array([0, 2, 2, 3]), "tf": np.ones(3)})
    save_arrays(folder, "lexical-stems", {"lengths": np.full(3, 5, np.int32)})
    (folder / "lexical-stems_terms.txt").write_text("river\ntown", encoding="utf-8")
    return folder


@pytest.fixture
def checksums(folder: Path) -> dict[str, str]:
    return {file.name: file_checksum(file) for file in folder.iterdir()}


def test_a_missing_file_is_named(folder: Path, checksums: dict[str, str]) -> None:
    for arrays in (ArrayFolder(folder, checksums), ArrayFolder(folder, {})):
        assert arrays.array("bipartite", "indptr").tolist() == [0, 2, 2, 3]
        assert arrays.lines("lexical-stems", "terms") == ["river", "town"]
    (folder / "bipartite_tf.npy").unlink()
    with pytest.raises(DamagedStoreError, match=r"bipartite_tf.npy is damaged \(it is missing\); " + FIX):
        ArrayFolder(folder, checksums).array("bipartite", "indptr")
    (folder / "lexical-stems_terms.txt").unlink()
    with pytest.raises(DamagedStoreError, match=r"lexical-stems_terms.txt is damaged .*" + FIX):
        ArrayFolder(folder, {}).lines("lexical-stems", "terms")
    for content in (b"", b"\x93NUMPY", b"\x93NUMPY\x01\x00\x10\x00{'descr': (((((   \n", b"x" * 200):
        (folder / "bipartite_indptr.npy").write_bytes(content)
        with pytest.raises(DamagedStoreError, match=FIX):
            open_array(folder, "bipartite_indptr")


def test_every_file_of_a_prefix_is_compared_before_one_of_them_is_opened(
    folder: Path, checksums: dict[str, str]
) -> None:
    """Also those that this value is not read from: an artefact is whole, or it is not opened."""
    np.save(folder / "lexical-stems_lengths.npy", np.full(3, 6, np.int32))
    arrays = ArrayFolder(folder, checksums)
    arrays.array("bipartite", "indptr")
    for _ in range(2):
        with pytest.raises(DamagedStoreError, match=r"stems_lengths.npy .*its checksum is not the published one"):
            arrays.lines("lexical-stems", "terms")


def test_every_flipped_bit_of_a_small_array_is_found(folder: Path, checksums: dict[str, str]) -> None:
    path = folder / "bipartite_tf.npy"
    whole = path.read_bytes()
    for offset in range(len(whole)):
        path.write_bytes(whole[:offset] + bytes([whole[offset] ^ 1]) + whole[offset + 1 :])
        with pytest.raises(DamagedStoreError, match="its checksum is not the published one"):
            ArrayFolder(folder, checksums).array("bipartite", "indptr")
