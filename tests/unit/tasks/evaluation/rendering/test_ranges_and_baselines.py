"""Ranges as curves and tables, intervals, and several baselines in the report; runs from before there were any."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from bs4 import BeautifulSoup
from matplotlib.figure import Figure

from polyhop.tasks.evaluation.documents import highlighted
from polyhop.tasks.evaluation.drawing import drawing
from polyhop.tasks.evaluation.findings import findings
from polyhop.tasks.evaluation.page import report_page
from polyhop.tasks.evaluation.plots import report_plots
from polyhop.tasks.evaluation.plots_of_ranges import CURVES_DRAWN, range_plot
from polyhop.tasks.evaluation.ranges import RANGE_METRICS, stored_ranges
from polyhop.tasks.evaluation.summary import summary_markdown

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
            result["intervals"] = {m: {"low": result[m] - 0.1, "high": result[m] + 0.1} for m in RANGE_METRICS}
        run["interval"] = {"kind": "percentile bootstrap", "level": 0.95, "resamples": 10_000, "seed": 13}
        run["baselines"] = [base, other]
        run["paired_further"] = {other: {base: {"recall@5": _better()}}}
        found = [{"label": label, "values": own} for label, own in points]
        run["ranges"] = [{"label": "s:RANGE", "parameters": list(values), "points": found}]
        return run, timings

    return make


def _better() -> dict[str, Any]:
    return {"difference": 0.2, "low": 0.1, "high": 0.3, "wins": 9, "ties": 1, "losses": 0, "significant": True}


def _drawn(run: dict[str, Any]) -> Figure:
    (one,) = stored_ranges(run)
    drawn = range_plot(run, one)
    assert drawn is not None
    return drawn


def test_a_range_is_a_curve_with_its_intervals_and_a_line_per_baseline(ranged: Ranged) -> None:
    run, _ = ranged(width=["1", "2", "4"])
    with drawing():
        drawn = _drawn(run)
        panels = {axes.get_title(loc="left"): axes for axes in drawn.axes}
        assert list(panels) == list(RANGE_METRICS)
        axes = panels["recall@10"]
        curve, *lines = axes.get_lines()
        means = [run["results"][f"s:width={n}"]["recall@10"] for n in (1, 2, 4)]
        assert list(zip(*curve.get_data(), strict=True)) == pytest.approx(list(zip((1, 2, 4), means, strict=True)))  # type: ignore[arg-type]
        assert [line.get_ydata()[0] for line in lines] == [run["results"][b]["recall@10"] for b in ("base", "other")]  # type: ignore[index]
        assert [line.get_ydata()[0] == line.get_ydata()[1] for line in lines] == [True, True]  # type: ignore[index]
        bars = [segment for found in axes.collections for segment in getattr(found, "get_segments", list)()]
        ends = [(x, round(low, 9), round(high, 9)) for (x, low), (_, high) in bars]
        assert ends == [(n, round(m - 0.1, 9), round(m + 0.1, 9)) for n, m in zip((1, 2, 4), means, strict=True)]
        assert axes.get_xlabel().endswith("width")
        assert [text.get_text() for text in axes.get_xticklabels()] == ["\u200b1", "\u200b2", "\u200b4"]
        (legend,) = drawn.legends
        assert [text.get_text().strip("\u200b") for text in legend.get_texts()] == [
            *("s", "baseline base", "baseline other"),
        ]


def test_a_second_parameter_gives_one_curve_each_and_their_intervals_stand_beside_each_other(ranged: Ranged) -> None:
    run, _ = ranged(width=["1", "2"], depth=["7", "8", "9"])
    with drawing():
        drawn = _drawn(run)
        (legend,) = drawn.legends
        names = [text.get_text().strip("\u200b") for text in legend.get_texts()]
        assert names == ["depth=7", "depth=8", "depth=9", "baseline base", "baseline other"]
        curves = drawn.axes[0].get_lines()[:3]
        places = [round(float(curve.get_xdata()[0]), 9) for curve in curves]  # type: ignore[arg-type, index]
        assert len(set(places)) == 3
        assert places[1] == 1
        assert all(0.9 < place < 1.1 for place in places)
        for depth, curve in zip("789", curves, strict=True):
            means = [run["results"][f"s:width={width}:depth={depth}"]["recall@2"] for width in "12"]
            assert list(curve.get_ydata()) == pytest.approx(means)  # type: ignore[arg-type]


@pytest.mark.parametrize("long", ["", "-W" * 40], ids=["short", "wide"])
@pytest.mark.parametrize(
    "values",
    [
        {"width": [str(n) for n in range(1, 41)]},
        {"decay": [".1", ".11", ".12", ".9"]},
        {"gate": ["uniform", "mean_per_passage", "none", "exploit_only"]},
        {"engine_with_a_rather_long_name_of_its_own_here": ["W" * 60, "<script>", "$x$", "_hidden", "山田"]},
        {"gate": ["only"]},
        {"width": [str(n) for n in range(5)], "depth": [str(n) for n in range(12)]},
    ],
    ids=["many", "close", "words", "long", "single", "curves"],
)
def test_no_text_of_a_curve_lies_on_another_or_leaves_the_figure(
    ranged: Ranged, no_text_overlaps: Callable[[str, Figure], None], values: dict[str, list[str]], long: str
) -> None:
    run, _ = ranged(long=long, **values)
    with drawing():
        no_text_overlaps("range_1.png", _drawn(run))


def test_more_curves_than_colours_are_grey_and_counted(ranged: Ranged) -> None:
    run, _ = ranged(width=["1", "2"], depth=[str(n) for n in range(CURVES_DRAWN + 3)])
    with drawing():
        (legend,) = _drawn(run).legends
        names = [text.get_text().strip("\u200b") for text in legend.get_texts()]
    assert names == [*(f"depth={n}" for n in range(CURVES_DRAWN)), "3 more", "baseline base", "baseline other"]


def test_a_metric_that_was_not_judged_has_no_panel_and_no_column(ranged: Ranged) -> None:
    run, timings = ranged(width=["1", "2"])
    for result in run["results"].values():
        result |= {"em": None, "f1": None}
        result["intervals"] |= {"em": None, "f1": None}
    with drawing():
        shown = [axes.get_title(loc="left") for axes in _drawn(run).axes if axes.get_visible()]
    assert shown == ["recall@2", "recall@5", "recall@10", "mrr"]
    table = BeautifulSoup(report_page(run, timings, {}), "html.parser").select("#ranges table")[0]
    assert [cell.get_text() for cell in table.select("thead th")] == ["width", *shown, "p50 ms"]


def test_the_page_has_a_table_and_a_plot_per_range_and_says_what_its_intervals_are(ranged: Ranged) -> None:
    run, timings = ranged(width=["1", "2"], depth=["7", "8"])
    plots = {
        "range_1.png": b"\x89PNG",
        "paired_differences.png": b"\x89PNG 1",
        "paired_differences_2.png": b"\x89PNG 2",
    }
    page = BeautifulSoup(report_page(run, timings, plots), "html.parser")
    (image,) = page.select("#ranges img")
    assert image["alt"] == "s:RANGE: means over the questions, with their 95 % intervals."
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


def test_findings_name_every_baseline(ranged: Ranged) -> None:
    run, timings = ranged(width=["1"])
    run["results"]["s:width=1"]["recall@5"] = 0.99
    found = findings(run, timings)
    assert (
        found[0]
        == "Highest recall@5: s:width=1 with 0.990 (the baseline base has 0.860, the baseline other has 0.830)."
    )
    assert found[2] == "Against the baseline other in recall@5, by the 95 % interval, better: base."


def test_every_baseline_has_a_colour_of_its_own_and_its_differences_are_drawn(ranged: Ranged) -> None:
    run, timings = ranged(width=[str(n) for n in range(12)])
    best_first = [*run["strategies"][2:], "other", "base"]
    assert highlighted(run, best_first) == [*best_first[:6], "other", "base"]
    assert {"paired_differences.png", "paired_differences_2.png", "range_1.png"} <= set(report_plots(run, timings))


def test_a_run_from_before_ranges_and_intervals_has_its_report(documents: Make) -> None:
    run, timings = documents(["bridge", "dense"])
    assert not {"ranges", "interval", "baselines", "paired_further"} & set(run)
    page = BeautifulSoup(report_page(run, timings, {}), "html.parser")
    said = {section["id"]: section.get_text() for section in page.find_all("section")}
    assert "No strategy was run with several values of a parameter." in said["ranges"]
    assert "Strategy minus bridge" in said["differences"]
    facts = {item.dt.get_text() for item in page.select(".facts div") if item.dt}
    assert "Baseline" in facts
    assert not facts & {"Intervals of means", "Sample"}
    assert "range_1.png" not in report_plots(run, timings)


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
