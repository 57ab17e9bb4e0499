import threading
from pathlib import Path

import duckdb
import pytest
from empty_version import publish_empty

from polyhop.schemas.errors import (
    ConfigurationError,
    ManifestMismatchError,
    StoreError,
    UnknownIdError,
    UnknownIndexError,
)
from polyhop.schemas.manifest import EncoderRecord, VectorRecord
from polyhop.warehouse.files.disk import write_whole, writing
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import (
    current_version,
    hold_version,
    latest_version,
    pinned_version,
    point_to,
    prune_versions,
    published_versions,
    read_manifest,
    remove_leftovers,
    require_version,
)
from polyhop.warehouse.tables.query import query_rows


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


def test_publishing_makes_a_version_current(layout: Layout) -> None:
    index = layout.index("a")
    publish_empty(index, 1)
    publish_empty(index, 2)
    assert published_versions(index) == [1, 2]
    assert current_version(index) == 2
    assert read_manifest(index.version(2)).version == 2
    assert layout.index_names() == ["a"]


def test_pointing_back_rolls_back(layout: Layout) -> None:
    index = layout.index("a")
    publish_empty(index, 1)
    publish_empty(index, 2)
    point_to(index, 1)
    assert require_version(layout, "a")[0] == 1


def test_a_pinned_version_stays_current_while_others_are_published_and_pruned_beside_it(layout: Layout) -> None:
    index = layout.index("a")
    publish_empty(index, 1)
    publish_empty(index, 2)
    point_to(index, 1, is_pinned=True)
    publish_empty(index, 3)
    assert (current_version(index), pinned_version(index), latest_version(index)) == (1, 1, 3)
    assert (published_versions(index), prune_versions(index, keep=1)) == ([1, 2, 3], [2])
    point_to(index, 3)
    publish_empty(index, 4)
    assert (current_version(index), pinned_version(index), latest_version(index)) == (4, None, 4)


def test_a_kill_while_a_version_is_published_beside_a_pinned_one_publishes_nothing(layout: Layout) -> None:
    index = layout.index("a")
    publish_empty(index, 1)
    publish_empty(index, 2)
    point_to(index, 1, is_pinned=True)
    index.publishing.write_text("2\n")
    assert (published_versions(index), remove_leftovers(index), latest_version(index)) == ([1], [2], 1)


def test_a_damaged_pointer_pins_nothing_and_the_next_version_becomes_current(layout: Layout) -> None:
    index = layout.index("a")
    publish_empty(index, 1)
    point_to(index, 1, is_pinned=True)
    for damaged in ("x", "7\n"):
        index.current.write_text(damaged)
        assert pinned_version(index) is None
    publish_empty(index, 2)
    assert (current_version(index), pinned_version(index), index.pinned.exists()) == (2, None, False)


def test_a_folder_left_by_a_crash_before_the_pointer_moved_is_replaced(layout: Layout) -> None:
    index = layout.index("a")
    publish_empty(index, 1)
    (index.versions / "000002").mkdir()
    assert published_versions(index) == [1]
    publish_empty(index, 2)
    assert current_version(index) == 2


def test_a_version_that_was_never_current_does_not_count_and_goes(layout: Layout) -> None:
    """As a kill leaves it between the rename of its folder and that of the pointer."""
    index = layout.index("a")
    publish_empty(index, 1)
    publish_empty(index, 2)
    index.current.write_text("1\n")
    index.publishing.write_text("2\n")
    (index.path / ".CURRENT.123.tmp").write_text("2\n")
    assert published_versions(index) == [1]
    with pytest.raises(UnknownIdError, match="no version 2; it has 1"):
        require_version(layout, "a", 2)
    assert remove_leftovers(index) == [2]
    assert sorted(path.name for path in index.path.iterdir() if path.is_file()) == ["CURRENT"]
    assert [folder.name for folder in index.versions.iterdir()] == ["000001"]


def test_a_version_that_became_current_before_a_kill_stays(layout: Layout) -> None:
    index = layout.index("a")
    publish_empty(index, 1)
    publish_empty(index, 2)
    index.publishing.write_text("2\n")
    assert published_versions(index) == [1, 2]
    assert remove_leftovers(index) == []
    point_to(index, 1)
    assert published_versions(index) == [1, 2]


def test_unknown_index_lists_the_known_ones(layout: Layout) -> None:
    publish_empty(layout.index("known"), 1)
    with pytest.raises(UnknownIndexError, match=r"Unknown index 'x' .*known indexes: known.*polyhop index SOURCE"):
        require_version(layout, "x")


def test_unknown_version_lists_the_known_ones(layout: Layout) -> None:
    publish_empty(layout.index("a"), 1)
    with pytest.raises(UnknownIdError, match="no version 9; it has 1"):
        require_version(layout, "a", 9)


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "x" * 200, "a b"])
def test_a_name_that_is_no_folder_name_is_refused(layout: Layout, name: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a name for an index"):
        layout.index(name)


def test_pruning_keeps_the_newest_the_current_and_those_in_use(layout: Layout) -> None:
    index = layout.index("a")
    for number in range(1, 7):
        publish_empty(index, number)
    point_to(index, 2)
    hold = hold_version(layout, "a", 3)
    assert prune_versions(index, keep=2) == [1, 4]
    hold.close()
    assert prune_versions(index, keep=2) == [3]
    assert published_versions(index) == [2, 5, 6]


def test_what_a_killed_removal_left_goes_away_and_the_current_version_never_does(layout: Layout) -> None:
    index = layout.index("a")
    for number in range(1, 5):
        publish_empty(index, number)
    index.version(1).manifest.unlink()  # as a kill between removing the manifest and the rest leaves it
    index.version(4).manifest.unlink()
    assert remove_leftovers(index) == [1]
    assert sorted(folder.name for folder in index.versions.iterdir()) == ["000002", "000003", "000004"]


def test_a_pointer_to_a_version_that_does_not_exist_says_how_to_set_it(layout: Layout) -> None:
    index = layout.index("a")
    publish_empty(index, 1)
    index.current.write_text("7\n")
    with pytest.raises(ManifestMismatchError, match=r"version 7.*has 1.*polyhop versions --index a --use N"):
        require_version(layout, "a")


def test_a_held_version_is_not_pruned(layout: Layout) -> None:
    index = layout.index("a")
    publish_empty(index, 1)
    with hold_version(layout, "a") as held:
        assert (held.number, held.folder) == (1, index.version(1))
        publish_empty(index, 2)
        assert prune_versions(index, keep=1) == []
    assert prune_versions(index, keep=1) == [1]


def test_queries_never_fail_while_versions_come_and_go(layout: Layout, tmp_path: Path) -> None:
    """The version that a query reads used to be pruned under it, or between looking it up and opening it."""
    index = layout.index("a")
    with duckdb.connect(str(tmp_path / "one.duckdb")) as connection:
        connection.execute("CREATE TABLE passages AS SELECT range AS n FROM range(10)")
    tables = (tmp_path / "one.duckdb").read_bytes()
    publish_empty(index, 1, tables)

    is_enough = threading.Event()
    published = [1]

    def publish_and_prune() -> None:
        while not is_enough.is_set():
            published.append(published[-1] + 1)
            publish_empty(index, published[-1], tables)
            prune_versions(index, keep=1)

    writer = threading.Thread(target=publish_and_prune)
    writer.start()
    reads = 0
    try:
        while reads < 20 or len(published) < 100:
            assert query_rows(layout, "a", "SELECT count(*) AS n FROM passages").to_pylist() == [{"n": 10}]
            reads += 1
    finally:
        is_enough.set()
        writer.join()
    prune_versions(index, keep=1)
    assert published_versions(index) == published[-1:]


def test_a_damaged_pointer_says_how_to_set_it(layout: Layout) -> None:
    index = layout.index("a")
    publish_empty(index, 1)
    index.current.write_text("nonsense")
    with pytest.raises(ManifestMismatchError, match="polyhop versions --index a --use N"):
        current_version(index)


def test_a_damaged_manifest_is_named(layout: Layout) -> None:
    index = layout.index("a")
    publish_empty(index, 1)
    index.version(1).manifest.write_text("{}")
    with pytest.raises(ManifestMismatchError, match=r"manifest\.json"):
        read_manifest(index.version(1))


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_whole(path, b"old")
    with pytest.raises(TypeError):
        write_whole(path, "no bytes")  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir() if p.name.endswith(".tmp")] == []


def test_a_full_disk_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="the disk is full"), writing("x", tmp_path):
        raise OSError(28, "No space left on device")


def test_a_manifest_keeps_the_name_under_which_the_version_of_a_table_is_stored() -> None:
    """Versions that were published when the store was called by its maker's name must open, and be written alike."""
    stored = {"table": "passages", "lance_version": 4, "rows": 2, "dimension": 3, "model": "m", "hnsw": None}
    record = VectorRecord.model_validate(stored)
    assert record.table_version == 4
    written = record.model_dump(mode="json", exclude={"encoder"})
    assert written == stored
    assert list(written) == list(stored)
    assert record.encoder == EncoderRecord()  # versions from before there was a choice have the local one
    assert record == VectorRecord(table="passages", table_version=4, rows=2, dimension=3, model="m")
