"""What stages took: recorded beside the manifest, kept for results that are taken over, unknown where damaged."""

import json
from pathlib import Path

import pytest

from polyhop.flows.index import run_index
from polyhop.flows.reports import IndexReport
from polyhop.flows.runner import DirectRunner
from polyhop.flows.verify import repair, run_verify
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.runs import StageTiming
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout, VersionFolder
from polyhop.warehouse.files.run_history import find_timing_damage, read_timings, write_timings
from polyhop.warehouse.files.versions import read_manifest

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


def version(settings: Settings, number: int) -> VersionFolder:
    return Layout(settings.root).index("small").version(number)


def test_a_first_run_records_every_stage_and_the_manifest_holds_no_clock(settings: Settings, tmp_path: Path) -> None:
    report = run(settings, tmp_path, PAGES)
    timings = read_timings(version(settings, 1))
    assert list(timings) == [name for name in report.seconds if name != "publish"]
    for name, timing in timings.items():
        assert timing.seconds == pytest.approx(report.seconds[name], abs=1e-6)
    assert (timings["extract"].units, timings["extract"].computed) == (2, report.computed["extract"])
    assert (timings["resolve"].units, timings["resolve"].computed) == (0, 0)
    again = settings.model_copy(update={"root": tmp_path / "again"})
    run(again, tmp_path, PAGES)
    first, second = (version(one, 1) for one in (settings, again))
    # DuckDB does not write the same bytes for the same rows
    manifests = [read_manifest(each).model_copy(update={"tables_file": ""}) for each in (first, second)]
    assert manifests[0] == manifests[1]
    assert read_timings(first) != read_timings(second)


def test_results_that_are_taken_over_keep_the_seconds_of_the_run_that_computed_them(
    settings: Settings, tmp_path: Path
) -> None:
    run(settings, tmp_path, PAGES)
    run(settings, tmp_path, None, "graph")
    first, second = (read_timings(version(settings, number)) for number in (1, 2))
    assert {name: second[name] for name in first} == first
    assert second.keys() - first.keys() == {"graph"}
    run(settings, tmp_path, PAGES[:1])
    third = read_timings(version(settings, 3))
    assert third.keys() == second.keys()
    assert all(third[name] != second[name] for name in third)


@pytest.mark.parametrize("change", ["1", "{", "null", '"seconds": -1'])
def test_damaged_timings_are_found_say_nothing_and_are_made_again(
    settings: Settings, tmp_path: Path, change: str
) -> None:
    run(settings, tmp_path, PAGES)
    folder = version(settings, 1)
    whole = folder.timings.read_text()
    folder.timings.write_text(whole.replace('"seconds": ', f'"seconds": {change}', 1))
    assert read_timings(folder) == {}
    report = run_verify(settings, "small")
    assert report.differences["timings"] == ["file 'timings.json' has another content than was published"]
    repair(settings, report)
    assert run_verify(settings, "small").ok
    assert "extract" in read_timings(version(settings, 2))


def test_an_index_run_that_finds_damaged_timings_publishes_the_same_content(settings: Settings, tmp_path: Path) -> None:
    run(settings, tmp_path, PAGES)
    version(settings, 1).timings.write_text("[]")
    assert find_timing_damage(version(settings, 1))
    report = run(settings, tmp_path, PAGES)
    assert (report.changed, report.damaged) == (True, ["file 'timings.json' has another content than was published"])
    first, second = (read_manifest(version(settings, number)) for number in (1, 2))
    assert (first.tables, first.arrays) == (second.tables, second.arrays)
    assert list(read_timings(version(settings, 2))) == ["ingest"]
    assert run(settings, tmp_path, PAGES).changed is False


def test_what_is_written_is_read(tmp_path: Path) -> None:
    folder = VersionFolder(tmp_path)
    assert read_timings(folder) == {}
    timings = {"extract": StageTiming(seconds=1.5, units=3, computed=1), "graph": StageTiming(seconds=0)}
    write_timings(folder, timings)
    assert read_timings(folder) == timings
