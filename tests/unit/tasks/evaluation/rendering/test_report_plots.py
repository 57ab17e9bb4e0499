"""The report's plots: what is drawn, that names of any kind and number fit, and that equal runs give equal bytes."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from struct import unpack
from typing import Any

import pytest
from matplotlib.figure import Figure

from polyhop.tasks.evaluation.documents import highlighted, ranked
from polyhop.tasks.evaluation.plots import (
    DPI,
    LABEL_LENGTH,
    WIDTH_INCHES,
    drawing,
    label_text,
    latency_against_recall,
    latency_by_part,
    looks,
    paired_differences,
    recall_curves,
    report_figures,
    report_plots,
    unbeaten,
)

pytestmark = pytest.mark.slow

Make = Callable[[Sequence[str]], tuple[dict[str, Any], dict[str, Any]]]
OF_THE_RUN = {"recall_at_k.png", "paired_differences.png"}
OF_THE_TIMINGS = {"latency_against_recall.png", "latency_by_part.png"}
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
    run, timings = documents(HOSTILE + [f"strategy-{n}" for n in range(17)])
    plots = report_plots(run, timings)
    assert set(plots) == OF_THE_RUN | OF_THE_TIMINGS
    for png in plots.values():
        width, height = _size(png)
        assert width == WIDTH_INCHES * DPI
        assert width / 4 < height < 2 * width


def test_equal_documents_give_equal_bytes_and_timings_change_only_what_shows_them(documents: Make) -> None:
    run, timings = documents(["bridge", "dense"])
    slower = deepcopy(timings)
    for row in slower["strategies"].values():
        row["latency_ms"]["p50"] *= 7
    first, second = report_plots(run, timings), report_plots(deepcopy(run), slower)
    assert {name for name in first if first[name] != second[name]} == OF_THE_TIMINGS


def test_one_strategy_has_every_plot_but_differences(documents: Make) -> None:
    run, timings = documents(["bridge"])
    with drawing():
        assert paired_differences(run) is None
        drawn = [recall_curves(run), latency_against_recall(run, timings), latency_by_part(run, timings)]
        assert all(made is not None and made.axes for made in drawn)


def test_what_was_not_judged_or_measured_is_not_drawn(empty_documents: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert report_plots(*empty_documents) == {}


@pytest.mark.parametrize("count", [1, 25])
def test_the_legend_covers_no_data(documents: Make, count: int) -> None:
    run, timings = documents([f"strategy-{n}-with-a-longer-name" for n in range(count)])
    with drawing():
        for drawn in (recall_curves(run), latency_against_recall(run, timings)):
            assert drawn is not None
            drawn.draw_without_rendering()
            (legend,) = drawn.legends
            box = legend.get_window_extent()
            (axes,) = drawn.axes
            assert axes.get_window_extent().x1 <= box.x0
            assert axes.get_window_extent().width > 0.35 * drawn.bbox.width
            assert box.x1 <= drawn.bbox.x1 + 1
            assert box.y0 >= drawn.bbox.y0 - 1
            assert axes.get_xlabel()
            assert axes.get_title(loc="left")


LONG = "bridge-lexical:restart=0.3,hub_penalty=0.25,max_iter=12"
NAMES = {
    "one": ["bridge"],
    "long": ["bridge", LONG],
    "eight": [f"{LONG[: 30 + n]}{n}" for n in range(8)],
    "many": [f"graph-hybrid:mixing=adaptive,n={n}" for n in range(21)],
    "wide": [f"{n}{'W' * 50}" for n in range(6)],
}


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_no_text_of_a_plot_lies_on_another_or_leaves_the_figure(
    documents: Make, no_text_overlaps: Callable[[str, Figure], None], names: list[str]
) -> None:
    run, timings = documents(names)
    with drawing():
        for name, drawn in report_figures(run, timings).items():
            no_text_overlaps(name, drawn)


def test_a_name_that_matplotlib_would_interpret_is_drawn_as_it_is() -> None:
    assert label_text("a $b$ c").endswith(r"a \$b\$ c")
    assert not label_text("_hidden").startswith("_")
    assert label_text("one\ntwo\x07").endswith("one two□")
    assert len(label_text("x" * 400)) <= LABEL_LENGTH + 1


def test_no_two_of_77_strategies_look_alike_and_a_look_depends_on_the_place_alone() -> None:
    names = [str(n) for n in range(77)]
    found = looks(names)
    assert len({(look.colour, look.marker) for look in found.values()}) == 77
    assert looks(names, of=["40", "3"]) == {"40": found["40"], "3": found["3"]}


def test_the_best_and_the_baseline_get_a_colour(documents: Make) -> None:
    run, _ = documents([f"s{n:02d}" for n in range(25)])
    run["baseline"] = "s20"
    assert highlighted(run, ranked(run)) == [*(f"s{n:02d}" for n in range(7)), "s20"]
    assert highlighted(run, ["s03", "s01"]) == ["s03", "s01"]


def test_strategies_come_by_their_leading_metric_and_those_without_one_come_last(documents: Make) -> None:
    run, _ = documents(["a", "b", "c", "d"])
    for label, value in {"a": 0.1, "b": None, "c": 0.7, "d": 0.7}.items():
        run["results"][label]["recall@5"] = value
    assert ranked(run) == ["c", "d", "a", "b"]
    for result in run["results"].values():
        result["recall@5"] = None
    run["results"]["b"]["mrr"] = 0.99
    assert ranked(run) == ["b", "a", "c", "d"]


def test_unbeaten_are_those_that_no_other_is_both_as_fast_and_as_good_as() -> None:
    points = {"slow": (9.0, 0.9), "worse": (5.0, 0.4), "fast": (1.0, 0.5), "same": (1.0, 0.4), "middle": (3.0, 0.6)}
    assert unbeaten(points) == ["fast", "middle", "slow"]
    assert unbeaten({}) == []
