import json
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.errors import (
    ConfigurationError,
    ManifestMismatchError,
    StoreConflictError,
    StoreError,
    UnknownIdError,
    UnknownIndexError,
)
from schemas.manifest import Manifest
from warehouse.files.disk import write_whole, writing
from warehouse.files.layout import IndexFolder, Layout
from warehouse.files.lease import SharedHold, writer_lease
from warehouse.files.versions import (
    current_version,
    point_to,
    prune_versions,
    publish_folder,
    published_versions,
    read_manifest,
    require_version,
)


def _publish(index: IndexFolder, number: int) -> None:
    built = index.staging / "version"
    built.mkdir(parents=True)
    (built / "index.duckdb").write_bytes(b"x")
    manifest = Manifest(
        index=index.name,
        version=number,
        polyhop="0",
        source="s",
        corpus_hash="h",
        settings={},
        artefacts=(),
        stages={},
        counts={},
        tables={},
        arrays={},
        vectors={},
    )
    publish_folder(index, built, manifest)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


def test_publishing_makes_a_version_current(layout: Layout) -> None:
    index = layout.index("a")
    _publish(index, 1)
    _publish(index, 2)
    assert published_versions(index) == [1, 2]
    assert current_version(index) == 2
    assert read_manifest(index.version(2)).version == 2
    assert layout.index_names() == ["a"]


def test_pointing_back_rolls_back(layout: Layout) -> None:
    index = layout.index("a")
    _publish(index, 1)
    _publish(index, 2)
    point_to(index, 1)
    assert require_version(layout, "a")[0] == 1


def test_a_folder_left_by_a_crash_before_the_pointer_moved_is_replaced(layout: Layout) -> None:
    index = layout.index("a")
    _publish(index, 1)
    (index.versions / "000002").mkdir()
    assert published_versions(index) == [1]
    _publish(index, 2)
    assert current_version(index) == 2


def test_unknown_index_lists_the_known_ones(layout: Layout) -> None:
    _publish(layout.index("known"), 1)
    with pytest.raises(UnknownIndexError, match=r"Unknown index 'x' .*known indexes: known.*polyhop index SOURCE"):
        require_version(layout, "x")


def test_unknown_version_lists_the_known_ones(layout: Layout) -> None:
    _publish(layout.index("a"), 1)
    with pytest.raises(UnknownIdError, match="no version 9; it has 1"):
        require_version(layout, "a", 9)


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "x" * 200, "a b"])
def test_a_name_that_is_no_folder_name_is_refused(layout: Layout, name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot name an index"):
        layout.index(name)


def test_pruning_keeps_the_newest_the_current_and_those_in_use(layout: Layout) -> None:
    index = layout.index("a")
    for number in range(1, 7):
        _publish(index, number)
    point_to(index, 2)
    hold = SharedHold(index.version(3).manifest)
    assert prune_versions(index, keep=2) == [1, 4]
    hold.close()
    assert prune_versions(index, keep=2) == [3]
    assert published_versions(index) == [2, 5, 6]


def test_a_damaged_pointer_says_how_to_set_it(layout: Layout) -> None:
    index = layout.index("a")
    _publish(index, 1)
    index.current.write_text("nonsense")
    with pytest.raises(ManifestMismatchError, match="polyhop versions --index a --use N"):
        current_version(index)


def test_a_damaged_manifest_is_named(layout: Layout) -> None:
    index = layout.index("a")
    _publish(index, 1)
    index.version(1).manifest.write_text("{}")
    with pytest.raises(ManifestMismatchError, match=r"manifest\.json"):
        read_manifest(index.version(1))


def test_a_second_writer_is_told_who_the_first_is(layout: Layout) -> None:
    index = layout.index("a")
    script = (
        "import sys; from pathlib import Path; from warehouse.files.lease import writer_lease\n"
        "with writer_lease(Path(sys.argv[1]), 'a'):\n    print('held', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(index.lease)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    with pytest.raises(StoreConflictError, match=f"process {other.pid}"), writer_lease(index.lease, "a"):
        pass
    other.kill()
    other.communicate()
    with writer_lease(index.lease, "a"):
        assert json.loads(index.lease.read_text())["pid"] > 0


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
