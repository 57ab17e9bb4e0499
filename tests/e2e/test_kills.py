"""A command killed at any moment: readers see whole versions, the next run ends right, repeats nothing, leaves nothing.

By hand, at every change that a run makes to files, and at so many moments:
POLYHOP_KILL_POINTS=all POLYHOP_KILLS=100 uv run pytest -n 0 --timeout 0 tests/e2e/test_kills.py
"""

import json
import os
import random
import shutil
import signal
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import kill_points
import pytest
from command_processes import Commands, Prepare
from kill_points import Change, changes_in
from small_indexes import printed, write_rows

from polyhop.api import open_index
from polyhop.flows.maintain import run_verify
from polyhop.schemas.errors import UnknownIndexError
from polyhop.schemas.settings import Settings
from polyhop.tasks.publish.publish import clean_vectors
from polyhop.warehouse.files.layout import IndexFolder, Layout
from polyhop.warehouse.files.versions import published_versions, read_manifest
from polyhop.warehouse.open_models import close_encoders

pytestmark = pytest.mark.rare

POINTS = os.environ.get("POLYHOP_KILL_POINTS", "")
KILLS = int(os.environ.get("POLYHOP_KILLS", "1"))
STRATEGIES = ("bm25", "dense")
QUESTIONS = ("What lies on the River 3?", "Where is Town 5?")
USUAL_POINTS = {
    "first": (".CURRENT*CURRENT",),
    "index": ("embed-passage*.done", "LanceTable.optimize", ".CURRENT*CURRENT", "os.remove index.duckdb"),
    "maintain": ("os.remove index.duckdb", "Tags.delete"),
    "use": (".PINNED*PINNED", ".CURRENT*CURRENT"),
}
"""Of all changes those that a test run kills at: the first that holds these words, in order."""


class Scenario(NamedTuple):
    """A command on a root, which versions a reader may see after a kill (0: none), and what the next command leaves."""

    start: str
    command: tuple[str, ...]
    seen: tuple[int, ...]
    following: tuple[str, ...]
    current: int
    left: tuple[int, ...]


FIRST = ("index", "edition-1/corpus.jsonl", "--index", "towns", "--replace", "--json")
INDEX = ("index", "edition-3/corpus.jsonl", "--index", "towns", "--replace", "--json", "--set", "keep_versions=1")
USE = ("versions", "--index", "towns", "--use", "2", "--json")
SCENARIOS = {
    "first": Scenario("none", FIRST, (0, 1), FIRST, 1, (1,)),
    "index": Scenario("two", INDEX, (2, 3), INDEX, 3, (3,)),
    "maintain": Scenario("three", ("maintain", "--set", "keep_versions=1", "--json"), (3,), INDEX, 3, (3,)),
    "use": Scenario("three", USE, (2, 3), USE, 2, (1, 2, 3)),
}


class Place:
    """A folder with the editions of a corpus, a root with two versions and one with a third, and what these hold."""

    def __init__(self, folder: Path, commands: Commands) -> None:
        self.folder, self.commands = folder, commands
        for edition in (1, 2, 3):
            (folder / f"edition-{edition}").mkdir()
            rows = [
                {"id": f"p{n}", "title": f"Town {n}", "text": f"Town {n} lies on the River {(n + edition) % 5}. {mark}"}
                for n in range(edition - 1, 9 + edition)
                for mark in [f"Edition {edition}." if n % 3 == 0 else "Always."]
            ]
            write_rows(folder / f"edition-{edition}" / "corpus.jsonl", rows)
        self.root("none").mkdir()
        self.copy("none", "two")
        self.run("two", *FIRST)
        self.run("two", *[part.replace("-1/", "-2/") for part in FIRST])
        self.copy("two", "three")
        self.run("three", *[part.replace("versions=1", "versions=3") for part in INDEX])
        self.answers = {version: answers(self.root("three"), version) for version in (1, 2, 3)}
        self.content = {version: content(self.index("three"), version) for version in (1, 2, 3)}
        self.changes: dict[str, list[Change]] = {}
        self.report: dict[str, Any] = {}
        for name, scenario in SCENARIOS.items():
            self.copy(scenario.start, "undisturbed")
            self.report[name] = self.run("undisturbed", *scenario.command, prepare=self.dies_at("undisturbed", 0))
            self.changes[name] = self.noted()

    def root(self, name: str) -> Path:
        return self.folder / name

    def index(self, name: str) -> IndexFolder:
        return Layout(self.root(name)).index("towns")

    def copy(self, source: str, target: str) -> Path:
        """A root like another; the encoder's file, which nobody changes, is the same."""

        def link_or_copy(one: str, other: str) -> None:
            (os.link if one.endswith(".onnx") else shutil.copy2)(one, other)

        shutil.rmtree(self.root(target), ignore_errors=True)
        return Path(shutil.copytree(self.root(source), self.root(target), copy_function=link_or_copy))

    def dies_at(self, root: str, number: int) -> Prepare:
        values = {"folder": str(self.root(root)), "number": number, "journal": str(self.folder / "changes")}
        return Prepare(Path(kill_points.__file__), "die_at", values)

    def noted(self) -> list[Change]:
        """The changes of the last process that noted any."""
        return changes_in(self.folder / "changes")

    def run(self, root: str, *arguments: str, prepare: Prepare | None = None) -> Any:
        """A command to its end; what it prints as JSON."""
        return printed(self.start(root, arguments, prepare))

    def start(self, root: str, arguments: Sequence[str], prepare: Prepare | None) -> Any:
        given = {"ROOT": str(self.root(root)), "STRATEGIES": ",".join(STRATEGIES), "BATCH_SIZE": "5"}
        environment = {f"POLYHOP_{name}": value for name, value in given.items()}
        return self.commands.run(arguments, self.folder, environment, prepare)


@pytest.fixture(scope="module")
def place(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("kills"), commands)


def answers(root: Path, version: int) -> list[list[Any]]:
    with open_index("towns", settings=Settings(root=root), version=version) as index:
        return _ranked(index)


def _ranked(index: Any) -> list[list[Any]]:
    """Rankings of the questions, with scores."""
    found = [answer for strategy in STRATEGIES for answer in index.ask_batch(QUESTIONS, strategy=strategy)]
    return [[(passage["id"], passage["score"]) for passage in answer.passages] for answer in found]


def content(index: IndexFolder, version: int) -> tuple[Any, ...]:
    """Checksums of tables (those of changes included) and arrays."""
    manifest = read_manifest(index.version(version))
    return manifest.tables, manifest.history, manifest.arrays, manifest.counts


def finished_batches(changes: Iterable[Change]) -> set[str]:
    """Batches that a process finished, without those that every run does: the source's, and one of resolution."""
    renamed = (change.what.split()[-1] for change in changes if change.what.startswith("os.rename"))
    finished = (path for path in renamed if path.endswith(".done"))
    return {batch for batch in finished if "/ingest/" not in batch and "/resolve-" not in batch}


def check_survives(place: Place, name: str, kill: Prepare, *, is_read: bool) -> None:
    """Kills the command of a scenario, looks at what is there, runs the next one; `is_read`: beside an open version."""
    scenario, root, index = SCENARIOS[name], place.copy(SCENARIOS[name].start, "killed"), place.index("killed")
    with ExitStack() as reading:
        if is_read:
            opened = reading.enter_context(open_index("towns", settings=Settings(root=root)))
            before = opened.version
        done = place.start("killed", scenario.command, kill)
        assert done.returncode in {0, -signal.SIGKILL}, done.stderr  # 0: there was no time for the kill
        if is_read:
            assert _ranked(opened) == place.answers[before], "who read before"
        version = check_reader(place, scenario)
        finished = {f"indexes/towns/{path.relative_to(index.path)}" for path in index.staging.glob("parts/*/*.done")}
        report = place.run("killed", *scenario.following, prepare=place.dies_at("killed", 0))
        assert not finished & finished_batches(place.noted()), "done twice"
        if is_read:
            assert _ranked(opened) == place.answers[before], "who reads on"
    if scenario.command[0] == "index" and version != scenario.current:
        # the encoder's vectors come from extraction, whose batches are compared above
        assert report["computed"].get("embed-passage", 0) == 0, "encoded twice"
    if is_read:  # what a reader held goes with the next run
        place.run("killed", *scenario.following)
    check_end(place, scenario)
    close_encoders()


def check_reader(place: Place, scenario: Scenario) -> int:
    """Who opens the index after a kill sees the whole old or the whole new version; returns which, 0 for none."""
    root, index = place.root("killed"), place.index("killed")
    if not index.current.exists():
        assert 0 in scenario.seen
        with pytest.raises(UnknownIndexError):
            open_index("towns", settings=Settings(root=root))
        return 0
    with open_index("towns", settings=Settings(root=root)) as later:
        assert later.version in scenario.seen
        assert _ranked(later) == place.answers[later.version], "who reads afterwards"
        assert content(index, later.version) == place.content[later.version]
        assert run_verify(Settings(root=root), "towns").ok
        return later.version


def check_end(place: Place, scenario: Scenario) -> None:
    """The root is as if nothing had been killed."""
    index = place.index("killed")
    assert int(index.current.read_text()) == scenario.current
    assert tuple(published_versions(index)) == scenario.left
    for version in scenario.left:
        assert content(index, version) == place.content[version]
        assert answers(place.root("killed"), version) == place.answers[version]
    assert run_verify(Settings(root=place.root("killed")), "towns").ok
    pinned = ["PINNED"] if "--use" in scenario.command else []
    files = ["CURRENT", *pinned, "WRITER", "runs.jsonl", "vectors", "versions"]
    assert sorted(path.name for path in index.path.iterdir()) == files
    assert sorted(path.name for path in index.versions.iterdir()) == [f"{version:06d}" for version in scenario.left]
    assert index.lease.read_bytes() == b""
    assert list(index.path.rglob("*.tmp")) == []
    tags = [path.stem for path in index.vectors.glob("passages.lance/_refs/tags/*")]
    assert sorted(tags) == [f"v{version:06d}" for version in scenario.left]
    listed = json.loads((index.vectors / "checksums.json").read_bytes())
    held = _vector_files(index)
    assert (listed["is_changing"], set(listed["files"])) == (False, held)
    clean_vectors(index, at_once=True)
    assert _vector_files(index) == held, "nothing of a killed run is left among the vectors"


def _vector_files(index: IndexFolder) -> set[str]:
    files = (path for path in index.vectors.glob("*.lance/**/*") if path.is_file())
    return {path.relative_to(index.vectors).as_posix() for path in files if "hint" not in path.name}


def _points(changes: Sequence[Change], usual: Sequence[str]) -> list[int]:
    """Numbers of the changes to be killed at."""
    if POINTS == "all":
        return list(range(1, len(changes) + 1))
    if POINTS:
        return [number for number in map(int, POINTS.split(",")) if number <= len(changes)]
    found, start = [], 0
    for words in usual:
        first, _, last = words.partition("*")
        matches = (n for n in range(start, len(changes)) if first in (what := changes[n].what) and what.endswith(last))
        start = next(matches) + 1
        found.append(start)
    return found


def check_all(place: Place, name: str, kills: Iterable[tuple[str, Prepare, bool]]) -> None:
    """Checks every kill (what it is, how, whether a reader is there) and says all that went wrong."""
    errors = []
    for what, kill, is_read in kills:
        try:
            check_survives(place, name, kill, is_read=is_read and place.root(SCENARIOS[name].start).name != "none")
        except Exception as error:  # noqa: BLE001 - the others are checked, too
            error.add_note(f"'{name}' was killed {what}")
            errors.append(error)
            place.root("killed").rename(place.root(f"{name}-{what.split()[0]}-{len(errors)}"))  # to be looked at
    if errors:
        raise ExceptionGroup(f"{len(errors)} kills", errors)


@pytest.mark.parametrize("name", SCENARIOS)
def test_after_a_kill_at_a_file_change_versions_are_whole_and_the_next_run_ends_right(place: Place, name: str) -> None:
    changes = place.changes[name]
    kills = (
        (f"at change {number}: {changes[number - 1].what}", place.dies_at("killed", number), number % 2 == 0)
        for number in _points(changes, USUAL_POINTS[name])
    )
    check_all(place, name, kills)


@pytest.mark.parametrize("name", SCENARIOS)
def test_after_a_kill_at_any_moment_versions_are_whole_and_the_next_run_ends_right(place: Place, name: str) -> None:
    moments = [0.0, *(change.seconds for change in place.changes[name])]
    kills = []
    for turn in range(max(1, KILLS if name == "index" else KILLS // 4)):
        # of the whole time every second one, the others where many changes are made
        begun = random.randrange(len(moments) - 1) if turn % 2 == 0 else 0
        seconds = random.uniform(moments[begun], moments[begun + 1] if turn % 2 == 0 else moments[-1])
        kill = Prepare(Path(kill_points.__file__), "die_after", {"seconds": seconds})
        kills.append((f"after {seconds:.4f} s", kill, turn % 3 == 0))
    check_all(place, name, kills)


def test_comparing_versions_changes_nothing(place: Place) -> None:
    place.copy("three", "compared")
    line = "versions --index towns --diff 1 3 --json"
    place.run("compared", *line.split(), prepare=place.dies_at("compared", 0))
    assert place.noted() == []
