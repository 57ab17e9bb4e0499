"""The folder in memory that tests write to: in use while its session runs, removed by it or by the next one."""

import os
import tempfile
from pathlib import Path

import pytest
from memory_folder import PREFIX, YOUNG_SECONDS, MemoryFolder, has_room


@pytest.fixture(autouse=True)
def _outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", None)


def test_temporary_files_lie_there_until_it_is_closed(tmp_path: Path) -> None:
    before = tempfile.gettempdir()
    folder = MemoryFolder(tmp_path)
    assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(folder.path)
    (folder.path / "file").write_text("")
    folder.close(keep=False)
    assert tempfile.gettempdir() == before
    assert not folder.path.exists()


def test_folders_of_killed_sessions_are_removed_and_those_in_use_are_not(tmp_path: Path) -> None:
    killed, young = (tmp_path / f"{PREFIX}{name}" for name in ("killed", "young"))
    other = MemoryFolder(tmp_path)
    for folder in (killed, young):
        folder.mkdir()
    for folder in (killed, other.path):
        os.utime(folder, (0, folder.stat().st_mtime - 2 * YOUNG_SECONDS))
    mine = MemoryFolder(tmp_path)
    assert set(tmp_path.iterdir()) == {young, other.path, mine.path}
    mine.close(keep=True)
    other.close(keep=False)
    assert set(tmp_path.iterdir()) == {young, mine.path}


def test_a_disk_a_full_memory_and_a_folder_of_ones_own_are_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = Path("/proc/mounts").read_text(encoding="utf-8") if Path("/proc/mounts").exists() else ""
    if " /dev/shm tmpfs " in mounts:
        assert not has_room(needed=1 << 60)
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        assert not has_room(needed=0)
        monkeypatch.delenv("TMPDIR")
        assert has_room(needed=0) == (not os.statvfs("/dev/shm").f_flag & os.ST_NOEXEC)
    assert not has_room(Path("/proc"))
    assert not has_room(tmp_path)
