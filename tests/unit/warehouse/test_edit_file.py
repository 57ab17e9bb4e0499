"""The file of decisions about entities: what is added by several processes at once, and what a bad line stops."""

import subprocess
import sys
from pathlib import Path

import pytest

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.records import EntityEdit
from polyhop.warehouse.files.layout import IndexFolder, Layout
from polyhop.warehouse.user_files import change_edits, read_edits

ADD = """
import sys
from pathlib import Path
from polyhop.schemas.records import EntityEdit, with_edit
from polyhop.warehouse.user_files import change_edits
from polyhop.warehouse.files.layout import Layout
folder = Layout(Path(sys.argv[1])).index("one")
sys.stdin.read()
for n in range(40):
    change_edits(folder, lambda edits: with_edit(edits, EntityEdit("delete", f"{sys.argv[2]} {n}", "")))
"""


@pytest.fixture
def folder(tmp_path: Path) -> IndexFolder:
    found = Layout(tmp_path).index("one")
    found.path.mkdir(parents=True)
    return found


def test_no_decision_is_lost_when_several_processes_add_to_the_file(folder: IndexFolder, tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", ADD, str(tmp_path), name], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for name in "abc"
    ]
    for process in processes:  # all begin when their input ends, so that none is done before another has started
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
    assert [process.communicate(timeout=60)[1] for process in processes] == [""] * 3
    assert sorted(edit.key for edit in read_edits(folder)) == sorted(f"{name} {n}" for name in "abc" for n in range(40))


def test_the_edits_before_are_given_and_a_refused_change_leaves_them(folder: IndexFolder) -> None:
    first, second = EntityEdit("delete", "ada", ""), EntityEdit("rename", "bob", "Robert")
    assert change_edits(folder, lambda _: [first, second]) == ()

    def refuse(edits: tuple[EntityEdit, ...]) -> list[EntityEdit]:
        raise ConfigurationError(f"{len(edits)} are enough.")

    with pytest.raises(ConfigurationError, match="2 are enough"):
        change_edits(folder, refuse)
    before = change_edits(folder, lambda edits: edits[1:])
    assert [(edit.kind, edit.key, edit.place) for edit in before] == [
        ("delete", "ada", "edits.jsonl line 1"),
        ("rename", "bob", "edits.jsonl line 2"),
    ]
    assert [edit.key for edit in read_edits(folder)] == ["bob"]


def test_a_line_that_is_no_edit_stops_a_change(folder: IndexFolder) -> None:
    folder.edits.write_text('{"edit": "delete", "key": "ada", "other": ""}\nnonsense\n', encoding="utf-8")
    with pytest.raises(ConfigurationError, match="line 2: not JSON"):
        change_edits(folder, lambda edits: edits)
    assert folder.edits.read_text(encoding="utf-8").endswith("nonsense\n")
