"""An efficiency sweep as plots and page: which plots there are, growth in words, one size, nothing measured."""

from typing import Any

import pytest
from bs4 import BeautifulSoup

from polyhop.tasks.evaluation.sweep_plots import slope, spaced, sweep_findings, sweep_page, sweep_plots

SIZES = (1000, 5000, 20_000)
NAMES = {"index_cost.png", "query_latency.png", "memory.png"}


def _sweep(sizes: tuple[int, ...], strategies: tuple[str, ...] = ("bm25", "graph")) -> dict[str, Any]:
    return {
        "sizes": list(sizes),
        "index": [
            {
                "passages": size,
                "seconds": size / 400,
                "ms_per_passage": 2.5,
                "stages": {"extract": size / 500, "publish": 0.5, "ingest": 0.0},
                "peak_rss_mb": 200 + size / 100,
                "disk_mb": size / 300,
            }
            for size in sizes
        ],
        "query": {
            name: [
                {"passages": size, "p50_ms": 1.0, "p95_ms": 2.0 + size / 1000, "p99_ms": 9.0, "peak_rss_mb": 150.0}
                for size in sizes
            ]
            for name in strategies
        },
    }


def test_a_sweep_has_three_plots_the_same_every_time() -> None:
    first, second = sweep_plots(_sweep(SIZES)), sweep_plots(_sweep(SIZES))
    assert set(first) == NAMES
    assert all(png.startswith(b"\x89PNG\r\n\x1a\n") for png in first.values())
    assert first == second


@pytest.mark.parametrize("strategies", [(), ("only $one$", "<b>")])
def test_one_size_is_enough_for_plots(strategies: tuple[str, ...]) -> None:
    names = NAMES if strategies else NAMES - {"query_latency.png"}
    assert set(sweep_plots(_sweep((1000,), strategies))) == names


def test_sizes_close_to_each_other_share_a_label() -> None:
    assert spaced([1000, 1100, 100_000]) == [1000, 100_000]
    assert spaced([10_000, 20_000, 40_000, 80_000]) == [10_000, 20_000, 40_000, 80_000]
    assert spaced([7]) == [7]


def test_a_sweep_that_measured_nothing_says_so() -> None:
    sweep: dict[str, Any] = {"sizes": [], "index": [], "query": {}}
    assert sweep_plots(sweep) == {}
    text = BeautifulSoup(sweep_page(sweep, {}), "html.parser").get_text()
    assert "No index was measured." in text
    assert "No question was asked." in text


def test_growth_is_said_from_the_smallest_to_the_largest_corpus() -> None:
    assert sweep_findings(_sweep(SIZES, ("bm25",))) == [
        "Index time per passage: 2.50 ms at 1,000 passages, 2.50 ms at 20,000 (1.00 times, slope 0.00).",
        "bm25, p95 of a question: 3.00 ms at 1,000 passages, 22.0 ms at 20,000 (7.33 times, slope 0.83).",
        "Peak memory while indexing: 400 MB at 20,000 passages.",
    ]


@pytest.mark.parametrize(("exponent", "constant"), [(1.0, 3.0), (0.5, 0.2), (0.0, 7.0)])
def test_the_slope_is_the_exponent_of_growth(exponent: float, constant: float) -> None:
    points = [(float(size), constant * size**exponent) for size in SIZES]
    assert slope(points) == pytest.approx(exponent, abs=1e-12)
    assert slope(points[:1]) is None


def test_the_page_has_every_measurement_and_escapes_names() -> None:
    hostile = "<script>alert(1)</script>"
    page = BeautifulSoup(sweep_page(_sweep(SIZES, (hostile,)), {"memory.png": b"x"}), "html.parser")
    assert page.find("script") is None
    rows = [[cell.get_text() for cell in row.find_all(["th", "td"])] for row in page.select("#query tbody tr")]
    assert rows[-1] == [hostile, "20,000", "1.00", "22.0", "9.00", "150"]
    header = [cell.get_text() for cell in page.select("#index thead th")]
    assert header[3:6] == ["extract s", "publish s", "ingest s"]
    assert len(page.find_all("img")) == 1
