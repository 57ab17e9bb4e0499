"""`polyhop sweep` on a corpus of twenty passages: real processes, taken up where they stopped, failures in words."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from polyhop.commands.sweep import print_sweep, sweep
from polyhop.schemas.errors import ConfigurationError, MeasurementError, UnknownStrategyError
from polyhop.schemas.settings import Settings
from polyhop.sweep import SweepRequest, run_sweep

pytestmark = pytest.mark.slow


def _measured_by_hand(order: str) -> subprocess.CompletedProcess[str]:
    """What a measuring process leaves behind, without the process."""
    given = json.loads(order)
    numbers = {"passages": 20, "seconds": 1.0, "ms_per_passage": 50.0, "cpu_seconds": 1.0, "stages": {"ingest": 1.0}}
    numbers |= {"p50_ms": 1.0, "p95_ms": 1.0, "p99_ms": 1.0, "peak_rss_mb": 100.0, "disk_mb": 1.0}
    return subprocess.CompletedProcess([], 0, json.dumps({"task": given["task"], "result": numbers}), given["file"])


def test_a_result_that_cannot_be_read_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def run(_: list[str], *, input: str, cwd: Path, **__: Any) -> subprocess.CompletedProcess[str]:  # noqa: A002
        done = _measured_by_hand(input)
        (cwd / "root").mkdir(exist_ok=True)
        (cwd / done.stderr).write_text(done.stdout, encoding="utf-8")
        written.append(done.stderr)
        return done

    monkeypatch.setattr("polyhop.sweep.subprocess.run", run)
    monkeypatch.setattr("polyhop.sweep._write_page", lambda *_: None)
    request = SweepRequest(tmp_path, sizes=(20,), strategies=("bm25",), questions=5)
    run_sweep(Settings(), request)
    (tmp_path / "20" / "query-bm25.json").write_text("{half", encoding="utf-8")
    run_sweep(Settings(), request)
    assert written == ["index.json", "query-bm25.json", "query-bm25.json"]


def _times(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (folder / "20").glob("*.json")}


def test_a_sweep_measures_once_and_only_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "out"
    sweep(folder, sizes="20", strategies="bm25", questions=5)
    printed = capsys.readouterr().out
    first = json.loads((folder / "sweep.json").read_text(encoding="utf-8"))
    measured = _times(folder)
    assert sorted(measured) == ["index.json", "query-bm25.json"]
    assert f"Plots and tables: {folder / 'sweep.html'}\n" in printed
    assert "<html" in (folder / "sweep.html").read_text(encoding="utf-8")
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in folder.glob("*.png"))
    assert len(list(folder.glob("*.png"))) >= 2

    sweep(folder, sizes="20", strategies="bm25,bm25:k1=1", questions=5, json=True)
    second = json.loads(capsys.readouterr().out)
    again = _times(folder)
    assert sorted(again) == ["index.json", "query-bm25%3Ak1%3D1.json", "query-bm25.json"]
    assert {name: again[name] for name in measured} == measured
    assert second["index"] == first["index"]
    assert second["query"]["bm25"] == first["query"]["bm25"]
    _check(second)


def _check(document: dict[str, Any]) -> None:
    """The contract of sweep_plots.py, and numbers that can be true."""
    assert (document["sizes"], document["questions"], document["seed"]) == ([20], 5, 13)
    (row,) = document["index"]
    assert row["passages"] == 20
    assert row["ms_per_passage"] == pytest.approx(1000 * row["seconds"] / 20, rel=0.01)
    assert {"ingest", "extract", "publish"} <= set(row["stages"])
    assert sum(row["stages"].values()) <= row["seconds"]
    assert 20 < row["peak_rss_mb"] < 4000
    assert 0 < row["disk_mb"] < 100
    assert list(document["query"]) == ["bm25", "bm25:k1=1"]
    for (query,) in document["query"].values():
        assert 0 < query["p50_ms"] <= query["p95_ms"] <= query["p99_ms"]
        assert 20 < query["peak_rss_mb"] < 4000


def test_a_process_that_fails_is_named_with_its_reason(tmp_path: Path) -> None:
    settings = ["extraction.ner=spacy", "extraction.spacy_model=no_such_model"]
    with pytest.raises(MeasurementError, match=r"Measuring the index of 20 passages failed: .*spacy.*\. What was"):
        sweep(tmp_path, sizes="20", strategies="bm25", questions=5, set_=settings)
    assert not (tmp_path / "20" / "index.json").exists()


@pytest.mark.parametrize("sizes", ["", "many", "19", "1000,-5", "1e3"])
def test_sizes_that_are_none_are_refused_before_anything_runs(tmp_path: Path, sizes: str) -> None:
    with pytest.raises(ConfigurationError, match="--sizes takes whole numbers of at least 20"):
        sweep(tmp_path / "out", sizes=sizes)
    assert not (tmp_path / "out").exists()


def test_an_unknown_strategy_or_parameter_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(UnknownStrategyError, match="did you mean 'bm25'"):
        sweep(tmp_path / "out", strategies="bm52")
    with pytest.raises(ConfigurationError, match="k1"):
        sweep(tmp_path / "out", strategies="bm25:k1=-1")
    assert not (tmp_path / "out").exists()


def test_growth_from_the_smallest_to_the_largest_corpus_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {
            "passages": n,
            "seconds": 0.002 * n,
            "ms_per_passage": ms,
            "cpu_seconds": 0.001 * n,
            "stages": {"extract": 0.001 * n},
            "peak_rss_mb": 200.0,
            "disk_mb": 10.0,
        }
        for n, ms in ((1000, 2.0), (5000, 2.2))
    ]
    asked = [
        {"passages": n, "p50_ms": 1.0, "p95_ms": p95, "p99_ms": 9.0, "peak_rss_mb": 150.0}
        for n, p95 in ((1000, 2.0), (5000, 6.0))
    ]
    print_sweep({"sizes": [1000, 5000], "index": rows, "query": {"graph": asked}})
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3:] == [
        "From 1,000 to 5,000 passages (5 times as many):",
        "  index time per passage 1.10 times, CPU time 1.00 times",
        "  p95 of graph 3.0 times",
    ]
