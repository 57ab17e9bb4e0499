"""Every index run is in the run history, however it ended, and SQL shows it with what its stages took."""

import json
from pathlib import Path
from typing import Any

import pytest

from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import SourceError, StoreConflictError
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import read_runs, writer_lease
from polyhop.warehouse.tables.query import query_rows

pytestmark = pytest.mark.slow

PAGES = [{"id": "ada", "title": "Ada Lovelace", "text": "Ada Lovelace wrote for Charles Babbage."}]
RUNS = "SELECT run, outcome, sentence, version, computed, reused FROM index_runs ORDER BY run"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(root=tmp_path / "root", strategies=("bm25",))


def corpus(tmp_path: Path, text: str = "Ada Lovelace wrote for Charles Babbage.") -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text(json.dumps({"id": "ada", "title": "Ada Lovelace", "text": text}) + "\n", encoding="utf-8")
    return path


def rows(settings: Settings, query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = query_rows(Layout(settings.root), "small", query).to_pylist()
    return found


class Interrupted(DirectRunner):
    def step(self, name: str, run: Any) -> Any:
        if name == "resolve finish":
            raise KeyboardInterrupt
        return super().step(name, run)


def test_runs_that_publish_find_nothing_fail_or_are_stopped_are_all_rows(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(SourceError):
        run_index(settings, IndexRequest("small", tmp_path / "nothing.jsonl"), DirectRunner())
    assert not Layout(settings.root).index("small").path.exists()  # a wrong name leaves no index behind
    request = IndexRequest("small", corpus(tmp_path), flow_run_id="f1", flow_run_url="http://prefect/f1")
    run_index(settings, request, DirectRunner())
    run_index(settings, IndexRequest("small", corpus(tmp_path)), DirectRunner())
    with pytest.raises(SourceError):
        run_index(settings, IndexRequest("small", tmp_path / "nothing.jsonl"), DirectRunner())
    with pytest.raises(KeyboardInterrupt):
        run_index(settings, IndexRequest("small", corpus(tmp_path, "Ada Lovelace left.")), Interrupted())
    folder = Layout(settings.root).index("small")
    with writer_lease(folder.lease, "small"), pytest.raises(StoreConflictError):
        run_index(settings, IndexRequest("small", corpus(tmp_path)), DirectRunner())
    found = rows(settings, RUNS)
    assert [(row["run"], row["outcome"], row["version"]) for row in found] == [
        (1, "published", 1),
        (2, "unchanged", 1),
        (3, "failed", 1),
        (4, "stopped", 1),
        (5, "failed", 1),
    ]
    assert found[1]["sentence"] == "nothing has changed"
    assert "nothing.jsonl" in found[2]["sentence"]
    assert found[3]["sentence"] == "stopped by KeyboardInterrupt"
    assert "is being written by" in found[4]["sentence"]
    flow_runs = rows(settings, "SELECT flow_run_id, flow_run_url FROM index_runs WHERE flow_run_id <> ''")
    assert flow_runs == [{"flow_run_id": "f1", "flow_run_url": "http://prefect/f1"}]


def test_stages_say_what_they_computed_and_what_they_reused(settings: Settings, tmp_path: Path) -> None:
    report = run_index(settings, IndexRequest("small", corpus(tmp_path)), DirectRunner())
    run_index(settings, IndexRequest("small", None, ("bm25-rm3",), full=False), DirectRunner())
    stages = rows(settings, "SELECT stage, seconds, computed, reused, is_taken_over FROM index_stages WHERE run = 1")
    assert [row["stage"] for row in stages] == list(report.seconds)
    assert [row["seconds"] for row in stages] == [pytest.approx(s, abs=0.01) for s in report.seconds.values()]
    extract = "SELECT run, computed, reused, is_taken_over FROM index_stages WHERE stage = 'extract'"
    assert rows(settings, extract)[0] == {"run": 1, "computed": 1, "reused": 0, "is_taken_over": False}
    (sums,) = rows(settings, "SELECT computed, peak_memory_mb > 10 AS is_measured FROM index_runs WHERE run = 1")
    assert sums == {"computed": 1, "is_measured": True}


def test_a_version_does_not_depend_on_the_history(settings: Settings, tmp_path: Path) -> None:
    run_index(settings, IndexRequest("small", corpus(tmp_path)), DirectRunner())
    folder = Layout(settings.root).index("small")
    folder.runs.unlink()
    assert rows(settings, "FROM index_runs") == []
    assert not run_index(settings, IndexRequest("small", corpus(tmp_path)), DirectRunner()).changed
    assert [run.run for run in read_runs(folder)] == [1]
