"""What stages took: from the run history, kept for results that are taken over; the manifest holds no clock."""

import json
from pathlib import Path

import pytest

from polyhop.flows.index import run_index
from polyhop.flows.reports import IndexReport
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.manifest import StageTiming
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import point_to, read_manifest, stage_timings

pytestmark = pytest.mark.slow

PAGES = [
    {"id": "ada", "title": "Ada Lovelace", "text": "Ada Lovelace wrote for Charles Babbage."},
    {"id": "babbage", "title": "Charles Babbage", "text": "Charles Babbage lived in London."},
]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(root=tmp_path / "root", strategies=("bm25",))


def run(settings: Settings, tmp_path: Path, pages: list[dict[str, str]] | None, *added: str) -> IndexReport:
    path = tmp_path / "corpus.jsonl"
    if pages is not None:
        path.write_text("".join(json.dumps(page) + "\n" for page in pages), encoding="utf-8")
    request = IndexRequest("small", path if pages is not None else None, added)
    return run_index(settings, request, DirectRunner())


def timings(settings: Settings, number: int) -> dict[str, StageTiming]:
    return stage_timings(Layout(settings.root).index("small"), number)


def test_a_first_run_records_every_stage_and_the_manifest_holds_no_clock(settings: Settings, tmp_path: Path) -> None:
    report = run(settings, tmp_path, PAGES)
    found = timings(settings, 1)
    assert list(found) == list(report.seconds)
    for name, use in found.items():
        assert use.seconds == pytest.approx(report.seconds[name], abs=1e-3)
    assert (found["extract"].units, found["extract"].computed) == (2, report.computed["extract"])
    assert (found["resolve"].units, found["resolve"].computed) == (0, 0)
    again = settings.model_copy(update={"root": tmp_path / "again"})
    run(again, tmp_path, PAGES)
    # DuckDB does not write the same bytes for the same rows
    folders = [Layout(one.root).index("small").version(1) for one in (settings, again)]
    first, second = [read_manifest(folder).model_copy(update={"tables_file": ""}) for folder in folders]
    assert first == second


def test_results_that_are_taken_over_keep_the_seconds_of_the_run_that_computed_them(
    settings: Settings, tmp_path: Path
) -> None:
    run(settings, tmp_path, PAGES)
    run(settings, tmp_path, None, "graph")
    first, second = timings(settings, 1), timings(settings, 2)
    assert {name: second[name] for name in first if name != "publish"} == {n: first[n] for n in first if n != "publish"}
    assert second.keys() - first.keys() == {"graph"}
    run(settings, tmp_path, PAGES[:1])
    third = timings(settings, 3)
    assert third.keys() == second.keys()
    assert all(third[name] != second[name] for name in ("extract", "resolve", "publish"))
    assert timings(settings, 2) == second


def test_a_version_beside_a_pinned_one_has_the_seconds_of_its_own_run(settings: Settings, tmp_path: Path) -> None:
    run(settings, tmp_path, PAGES)
    point_to(Layout(settings.root).index("small"), 1, is_pinned=True)
    run(settings, tmp_path, None, "graph")
    assert "graph" not in timings(settings, 1)
    assert "graph" in timings(settings, 2)
