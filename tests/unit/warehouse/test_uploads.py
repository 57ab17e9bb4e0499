"""Uploaded files: what is kept, what is refused so that nothing is kept, and how a run learns of changes."""

import io
import stat
import zipfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from polyhop.schemas.errors import SourceError
from polyhop.warehouse import uploads as module
from polyhop.warehouse.files.layout import IndexFolder
from polyhop.warehouse.uploads import (
    NamedFile,
    delete_upload,
    is_changed,
    keep_uploads,
    switch_upload,
    taken_changes,
    unpacked,
    uploads,
)


@pytest.fixture
def folder(tmp_path: Path) -> IndexFolder:
    return IndexFolder(tmp_path / "indexes" / "mine", "mine")


def named(files: Mapping[str, bytes]) -> list[NamedFile]:
    return [(name, partial(io.BytesIO, content)) for name, content in files.items()]


def packed(files: Mapping[str | zipfile.ZipInfo, bytes]) -> io.BytesIO:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    stream.seek(0)
    return stream


def keep_packed(folder: IndexFolder, archive: io.BytesIO) -> None:
    with unpacked(archive, "a.zip") as files:
        keep_uploads(folder, files)


def listed(folder: IndexFolder) -> dict[str, bool]:
    return {one.id: one.is_on for one in uploads(folder)}


def test_files_are_kept_under_their_paths_and_a_second_one_replaces_the_first(folder: IndexFolder) -> None:
    keep_uploads(folder, named({"a.txt": b"One.", "b/c.txt": b"Two."}))
    keep_uploads(folder, named({"a.txt": b"Three."}))
    assert {one.id: (folder.files / one.id).read_bytes() for one in uploads(folder)} == {
        "a.txt": b"Three.",
        "b/c.txt": b"Two.",
    }


@pytest.mark.parametrize(
    "path",
    ["../a.txt", "b/../../a.txt", "/etc/a.txt", "b//a.txt", "", ".", "b\\..\\a.txt", "a\n.txt", "a\u202etxt.exe",
     "n" * 300 + ".txt", ".lock", ".off/a.txt"],
)  # fmt: skip
def test_a_path_that_leads_elsewhere_keeps_the_whole_upload_out(folder: IndexFolder, path: str) -> None:
    with pytest.raises(SourceError, match="cannot be the path of an uploaded file"):
        keep_uploads(folder, named({"good.txt": b"Good.", path: b"Bad."}))
    assert listed(folder) == {}
    assert [one.name for one in folder.path.rglob("*.txt")] == []


@pytest.mark.parametrize("path", ["../../evil.txt", "/tmp/evil.txt", "a/../../evil.txt"])
def test_an_archive_writes_nothing_outside_of_the_folder(folder: IndexFolder, tmp_path: Path, path: str) -> None:
    with pytest.raises(SourceError, match="cannot be the path of an uploaded file"):
        keep_packed(folder, packed({"good.txt": b"Good.", path: b"Bad."}))
    assert list(tmp_path.rglob("evil.txt")) == []
    assert listed(folder) == {}


def test_a_link_in_an_archive_is_refused(folder: IndexFolder) -> None:
    link = zipfile.ZipInfo("passwd.txt")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with pytest.raises(SourceError, match=r"holds the link 'passwd.txt'"):
        keep_packed(folder, packed({link: b"/etc/passwd"}))


def test_an_archive_that_grows_too_large_is_refused_before_it_is_unpacked(
    folder: IndexFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_UPLOAD_BYTES", 1_000_000)
    bomb = packed({f"{n}.txt": bytes(400_000) for n in range(3)})
    assert len(bomb.getvalue()) < 10_000
    with pytest.raises(SourceError, match="once it is unpacked"):
        keep_packed(folder, bomb)
    assert not folder.files.exists()


def test_an_archive_that_understates_its_size_is_refused(folder: IndexFolder) -> None:
    content = packed({"a.txt": b"x" * 1_000_000}).getvalue()
    lying = content.replace((1_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    with pytest.raises(SourceError, match=r"is damaged or of an unknown kind"):
        keep_packed(folder, io.BytesIO(lying))
    assert listed(folder) == {}


@pytest.mark.parametrize(
    ("limit", "value", "sentence"),
    [
        ("MAX_FILES", 2, "has more than 2 files"),
        ("MAX_FILE_BYTES", 5, "'c.txt' is too large"),
        ("MAX_UPLOAD_BYTES", 9, "'c.txt' is too large"),
    ],
)
def test_an_upload_beyond_a_limit_keeps_nothing(
    folder: IndexFolder, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, sentence: str
) -> None:
    monkeypatch.setattr(module, limit, value)
    with pytest.raises(SourceError, match=sentence):
        keep_uploads(folder, named({"a.txt": b"One", "b.txt": b"Two", "c.txt": b"Number three"}))
    assert listed(folder) == {}


def test_an_archive_of_too_many_files_is_refused(folder: IndexFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FILES", 2)
    with pytest.raises(SourceError, match="holds 3 files; upload at most 2 at once"):
        keep_packed(folder, packed({f"{n}.txt": b"x" for n in range(3)}))


@pytest.mark.parametrize("paths", [("a.txt", "a.txt/b.txt"), ("a.txt/b.txt", "a.txt")])
def test_a_file_cannot_be_a_folder_too(folder: IndexFolder, paths: tuple[str, str]) -> None:
    with pytest.raises(SourceError, match="is in the upload twice"):
        keep_uploads(folder, named(dict.fromkeys(paths, b"x")))
    keep_uploads(folder, named({paths[0]: b"x"}))
    with pytest.raises(SourceError, match="cannot be kept because there is a f"):
        keep_uploads(folder, named({paths[1]: b"x"}))
    assert listed(folder) == {paths[0]: True}


def test_what_systems_add_to_archives_is_left_out(folder: IndexFolder) -> None:
    keep_packed(folder, packed({"b/a.txt": b"x", "b/.DS_Store": b"x", "__MACOSX/b/._a.txt": b"x", ".git/c.txt": b"x"}))
    assert listed(folder) == {"b/a.txt": True}


def test_a_file_that_is_switched_off_is_kept_and_comes_back(folder: IndexFolder) -> None:
    keep_uploads(folder, named({"b/a.txt": b"x"}))
    switch_upload(folder, "b/a.txt", is_on=False)
    assert (listed(folder), (folder.files / "b").exists()) == ({"b/a.txt": False}, False)
    switch_upload(folder, "b/a.txt", is_on=True)
    assert listed(folder) == {"b/a.txt": True}


def test_a_file_is_deleted_with_its_empty_folders(folder: IndexFolder) -> None:
    keep_uploads(folder, named({"b/c/a.txt": b"x"}))
    delete_upload(folder, "b/c/a.txt")
    assert (listed(folder), (folder.files / "b").exists()) == ({}, False)


def test_a_link_in_the_folder_is_no_upload(folder: IndexFolder, tmp_path: Path) -> None:
    keep_uploads(folder, named({"a.txt": b"x"}))
    (tmp_path / "secret.txt").write_text("x")
    (folder.files / "link.txt").symlink_to(tmp_path / "secret.txt")
    assert listed(folder) == {"a.txt": True}


def test_a_change_during_a_run_waits_for_the_next_one(folder: IndexFolder) -> None:
    keep_uploads(folder, named({"a.txt": b"x"}))
    with taken_changes(folder) as has_changed:
        keep_uploads(folder, named({"b.txt": b"x"}))
    assert (has_changed, is_changed(folder)) == (True, True)
    with taken_changes(folder):
        pass
    with taken_changes(folder) as has_changed:
        assert (has_changed, is_changed(folder)) == (False, False)


def test_a_run_that_fails_leaves_the_change_to_the_next_one(folder: IndexFolder) -> None:
    keep_uploads(folder, named({"a.txt": b"x"}))
    with pytest.raises(ValueError, match="failed"), taken_changes(folder):
        raise ValueError("failed")
    assert is_changed(folder)
