"""Ranges as tables, intervals, and several baselines in the report."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from bs4 import BeautifulSoup

from polyhop.tasks.evaluation.page import RANGE_METRICS, report_page, report_plots, summary_markdown

pytestmark = pytest.mark.slow

Documents = tuple[dict[str, Any], dict[str, Any]]
Make = Callable[[Sequence[str]], Documents]
Ranged = Callable[..., Documents]


@pytest.fixture
def ranged(documents: Make) -> Ranged:
    """A run of `s` with these values of parameters, and of two baselines; every mean has an interval of ±0.1."""

    def make(*, long: str = "", **values: Sequence[str]) -> Documents:
        base, other = f"base{long}", f"other{long}"
        points: list[tuple[str, list[str]]] = [("s", [])]
        for name, given in values.items():
            points = [(f"{label}:{name}={value}", [*own, value]) for label, own in points for value in given]
        run, timings = documents([base, other, *(label for label, _ in points)])
        for result in run["results"].values():
            judged = [name for name in RANGE_METRICS if name in result]
            result["intervals"] = {m: {"low": result[m] - 0.1, "high": result[m] + 0.1} for m in judged}
        run["baselines"] = [base, other]
        run["paired_further"] = {other: {base: {"recall@5": _better()}}}
        found = [{"label": label, "values": own} for label, own in points]
        run["ranges"] = [{"label": "s:RANGE", "parameters": list(values), "points": found}]
        return run, timings

    return make


def _better() -> dict[str, Any]:
    return {"difference": 0.2, "low": 0.1, "high": 0.3, "wins": 9, "ties": 1, "losses": 0, "significant": True}


def test_the_page_has_a_table_per_range_and_says_what_its_intervals_are(ranged: Ranged) -> None:
    run, timings = ranged(width=["1", "2"], depth=["7", "8"])
    plots = {
        "paired_differences.png": b"\x89PNG 1",
        "paired_differences_2.png": b"\x89PNG 2",
    }
    page = BeautifulSoup(report_page(run, timings, plots), "html.parser")
    assert not page.select("#ranges img")
    rows = [[cell.get_text() for cell in row.find_all(["th", "td"])] for row in page.select("#ranges tbody tr")]
    assert [row[:2] for row in rows] == [["1", "7"], ["1", "8"], ["2", "7"], ["2", "8"]]
    mean = run["results"]["s:width=1:depth=7"]["recall@5"]
    assert rows[0][3] == f"{mean:.3f} [{mean - 0.1:.3f}, {mean + 0.1:.3f}]"
    facts = {item.dt.get_text(): item.dd.get_text() for item in page.select(".facts div") if item.dt and item.dd}
    assert facts["Intervals of means"] == "95 %, percentile bootstrap, 10,000 resamples"
    assert facts["Baselines"] == "base, other"
    captions = [found.get_text() for found in page.select("#results caption")]
    assert any("percentile bootstrap" in caption for caption in captions)
    assert len(page.select("#differences img")) == 2
    differences = [found.get_text() for found in page.select("#differences caption")]
    assert [caption.split(":")[0] for caption in differences[:2]] == ["Strategy minus base", "Strategy minus other"]
    assert "| 1 | 7 | **0." in summary_markdown(run, timings)
    assert "Strategy minus other" in summary_markdown(run, timings)


def test_the_differences_to_every_baseline_are_drawn(ranged: Ranged) -> None:
    run, _ = ranged(width=[str(n) for n in range(12)])
    assert {"paired_differences.png", "paired_differences_2.png"} <= set(report_plots(run))


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        (None, None),
        (
            {"size": 20, "seed": 3, "of": 100, "rest": True},
            "80 of 100 usable questions: all but a random sample of 20, seed 3",
        ),
        ({"size": 20, "seed": 3, "of": 100}, "20 of 100 usable questions, random, seed 3"),
        ({"size": 500, "seed": 3, "of": 100}, "all 100 usable questions (500 were asked for)"),
        ({"size": 100, "seed": 3, "of": 100}, "all 100 usable questions (100 were asked for)"),
    ],
)
def test_the_page_says_which_questions_were_asked(documents: Make, sample: dict[str, int] | None, said: str) -> None:
    run, timings = documents(["bridge"])
    run["questions"]["sample"] = sample
    page = BeautifulSoup(report_page(run, timings, {}), "html.parser")
    facts = {item.dt.get_text(): item.dd.get_text() for item in page.select(".facts div") if item.dt and item.dd}
    assert facts.get("Sample") == said
