"""After a rollback runs publish beside the pinned version, until somebody makes the latest current."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from polyhop.api import open_index
from polyhop.commands.index import index as index_command
from polyhop.commands.stores import versions
from polyhop.flows.index import run_index
from polyhop.flows.maintain import repair, run_maintenance, run_verify
from polyhop.flows.reports import IndexReport, headline, published_payload
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.requests import IndexRequest, MaintenanceRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import current_version, latest_version, pinned_version, published_versions
from polyhop.warehouse.tables.query import query_rows

NOTE = (
    "version 1 is pinned and stays current, version 3 lies beside it; the latest becomes current with: "
    "polyhop versions --index i --use latest"
)


class Rolled:
    """An index of two editions of a corpus, rolled back to the first."""

    def __init__(self, folder: Path) -> None:
        self.corpus = folder / "corpus.jsonl"
        self.settings = Settings(root=folder / "root", strategies=("bm25",))
        self.folder = Layout(self.settings.root).index("i")
        self.index("good")
        self.index("bad")
        self.use("1")

    def index(self, text: str = "", **request: Any) -> IndexReport:
        if text:
            self.corpus.write_text(json.dumps({"id": "a", "title": "a", "text": text}) + "\n", encoding="utf-8")
        return run_index(self.settings, IndexRequest("i", self.corpus if text else None, **request), DirectRunner())

    def use(self, version: str) -> None:
        versions(index="i", use=version, root=self.settings.root)

    def texts(self, version: int | None = None) -> list[str]:
        found = query_rows(Layout(self.settings.root), "i", "SELECT text FROM passages", version)
        return list(found.column("text").to_pylist())


@pytest.fixture
def rolled(tmp_path: Path) -> Rolled:
    return Rolled(tmp_path)


def test_a_run_after_a_rollback_publishes_beside_it_and_says_so(
    rolled: Rolled, capsys: pytest.CaptureFixture[str]
) -> None:
    report = rolled.index("mended")
    assert (report.version, report.pinned, report.changed, report.to_json()["pinned"]) == (3, 1, True, 1)
    assert (rolled.texts(), rolled.texts(3)) == (["good"], ["mended"])
    assert report.changes == {"added": 0, "changed": 1, "deleted": 0, "renamed": 0}
    assert headline(report).endswith(NOTE)
    assert published_payload(rolled.settings, report)["pinned"] == 1
    sentences = query_rows(Layout(rolled.settings.root), "i", "SELECT sentence FROM index_runs", None)
    assert sentences.column("sentence").to_pylist()[-1] == NOTE
    capsys.readouterr()
    index_command(index="i", set_=["strategies=bm25"], root=rolled.settings.root)
    said = capsys.readouterr().out
    assert "nothing has changed.\n" in said
    assert NOTE in said


def test_later_runs_derive_from_the_latest_version_and_reports_unpin_it(rolled: Rolled) -> None:
    extended = rolled.index(add_strategies=("graph",))
    assert rolled.texts(extended.version) == ["bad"], "built on the latest version, not on the pinned one"
    assert not rolled.index("bad").changed
    rolled.use("latest")
    assert (current_version(rolled.folder), pinned_version(rolled.folder)) == (3, None)
    report = rolled.index("mended")
    assert (report.pinned, rolled.texts()) == (None, ["mended"])


def test_naming_the_newest_version_pins_nothing_and_words_are_refused(rolled: Rolled) -> None:
    rolled.use("2")
    assert pinned_version(rolled.folder) is None
    with pytest.raises(typer.BadParameter, match="'newest' is neither the number of a version nor latest"):
        rolled.use("newest")


def test_the_listing_marks_the_pinned_version(rolled: Rolled, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    versions(index="i", root=rolled.settings.root)
    said = capsys.readouterr().out
    assert "current, pinned" in said
    assert "Version 1 of 'i' is current and pinned: runs publish beside it until: polyhop versions" in said
    versions(index="i", root=rolled.settings.root, json=True)
    listed = json.loads(capsys.readouterr().out)
    assert [(row["version"], row["current"], row["pinned"]) for row in listed] == [(1, True, True), (2, False, False)]


def _runs(rolled: Rolled) -> None:
    for number in range(3):
        rolled.index(f"edition {number}")


def _maintenance(rolled: Rolled) -> None:
    run_maintenance(rolled.settings, MaintenanceRequest())


@pytest.mark.parametrize("remove", [_runs, _maintenance])
def test_a_pinned_version_is_never_pruned_and_stays_pinned(rolled: Rolled, remove: Callable[[Rolled], None]) -> None:
    rolled.settings = rolled.settings.model_copy(update={"keep_versions": 1})
    remove(rolled)
    assert published_versions(rolled.folder)[0] == pinned_version(rolled.folder) == 1
    assert rolled.index("next").pinned == 1
    with open_index("i", root=rolled.settings.root) as index:
        assert index.version == 1


def test_a_damaged_pinned_version_is_repaired_from_itself_and_stays_pinned(rolled: Rolled) -> None:
    array = next((rolled.folder.version(1).arrays).glob("lexical*.npy"))
    array.write_bytes(array.read_bytes()[:-1] + b"\x00\x01")
    repair(rolled.settings, run_verify(rolled.settings, "i"))
    assert run_verify(rolled.settings, "i").ok
    assert rolled.texts() == ["good"]
    assert pinned_version(rolled.folder) == latest_version(rolled.folder) == 3
