"""The report's plots: what is drawn, that names of any kind and number fit, and that equal runs give equal bytes."""

import sys
from collections.abc import Callable, Sequence
from copy import deepcopy
from struct import unpack
from typing import Any

import pytest

from polyhop.tasks.evaluation.page import DPI, WIDTH_INCHES, facts, ranked, report_plots

pytestmark = pytest.mark.slow

Make = Callable[[Sequence[str]], tuple[dict[str, Any], dict[str, Any]]]
OF_THE_RUN = {"recall_at_k.png", "paired_differences.png"}
HOSTILE = [
    "$\\frac{1}{",
    "two $dollars$",
    "_hidden",
    "<script>alert(1)</script>",
    "山田\U0001f600\x07\nnew line",
    "qasa:" + "very-long=" * 40,
    "%s {0} \\n",
    "",
]


def _size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = unpack(">II", png[16:24])
    return width, height


def test_twenty_five_strategies_with_names_of_any_kind_are_drawn(documents: Make) -> None:
    run, _ = documents(HOSTILE + [f"strategy-{n}" for n in range(17)])
    plots = report_plots(run)
    assert set(plots) == OF_THE_RUN
    for png in plots.values():
        width, height = _size(png)
        assert width == WIDTH_INCHES * DPI
        assert width / 4 < height < 2 * width


def test_equal_runs_give_equal_bytes(documents: Make) -> None:
    run, _ = documents(["bridge", "dense"])
    assert report_plots(run) == report_plots(deepcopy(run))


def test_one_strategy_has_every_plot_but_differences(documents: Make) -> None:
    assert set(report_plots(documents(["bridge"])[0])) == {"recall_at_k.png"}


def test_what_was_not_judged_or_measured_is_not_drawn(empty_documents: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert report_plots(empty_documents[0]) == {}


def test_strategies_come_by_their_leading_metric_and_those_without_one_come_last(documents: Make) -> None:
    run, _ = documents(["a", "b", "c", "d"])
    for label, value in {"a": 0.1, "b": None, "c": 0.7, "d": 0.7}.items():
        run["results"][label]["recall@5"] = value
    assert ranked(run) == ["c", "d", "a", "b"]
    for result in run["results"].values():
        result["recall@5"] = None
    run["results"]["b"]["mrr"] = 0.99
    assert ranked(run) == ["b", "a", "c", "d"]


def test_without_matplotlib_nothing_is_drawn_and_the_page_says_so(
    documents: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    run, timings = documents(["bridge", "dense"])
    assert report_plots(run) == {}
    assert facts(run, timings)["Plots"] == "none; they need matplotlib: pip install 'polyhop[plots]'"
