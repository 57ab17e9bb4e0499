"""Heat maps over two parameters and the best value of each parameter: which there are, what stands where, in words."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest
from bs4 import BeautifulSoup
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from polyhop.tasks.evaluation.drawing import drawing
from polyhop.tasks.evaluation.page import report_page
from polyhop.tasks.evaluation.plots import report_figures
from polyhop.tasks.evaluation.plots_of_best import best_plot, best_values
from polyhop.tasks.evaluation.plots_of_maps import MAPS_DRAWN, heat_map_caption, heat_map_plot
from polyhop.tasks.evaluation.plots_of_ranges import range_plot
from polyhop.tasks.evaluation.ranges import RANGE_METRICS, StoredRange, stored_ranges

pytestmark = pytest.mark.slow

Documents = tuple[dict[str, Any], dict[str, Any]]
Ranged = Callable[..., Documents]


@pytest.fixture
def ranged(documents: Callable[[Sequence[str]], Documents]) -> Ranged:
    """A run of `s` with these values of parameters; recall@5 grows with the product of the numbers' places."""

    def make(**values: Sequence[str]) -> Documents:
        points = list(product(*values.values()))
        labels = {point: ":".join(["s", *(f"{n}={v}" for n, v in zip(values, point, strict=True))]) for point in points}
        run, timings = documents(list(labels.values()))
        for number, (point, label) in enumerate(labels.items()):
            for name in RANGE_METRICS:
                run["results"][label][name] = 0.2 + 0.7 * number / len(points)
            run["results"][label]["point"] = point
        found = [{"label": label, "values": list(point)} for point, label in labels.items()]
        run["ranges"] = [{"label": "s:RANGE", "parameters": list(values), "points": found}]
        return run, timings

    return make


def _one(run: dict[str, Any]) -> StoredRange:
    (one,) = stored_ranges(run)
    return one


def _drawn(run: dict[str, Any], number: int = 0) -> Figure:
    one = _one(run)
    drawn = heat_map_plot(run, one, one.heat_maps()[number])
    assert drawn is not None
    return drawn


def test_the_parameter_with_fewer_values_runs_across_and_numbers_ascend(ranged: Ranged) -> None:
    run, _ = ranged(restart=["10", ".4", "9"], steps=["20", "5"])
    (found,) = _one(run).heat_maps()
    assert (found.across, found.columns) == ("steps", ("5", "20"))
    assert (found.down, found.rows) == ("restart", (".4", "9", "10"))
    assert found.labels["20", ".4"] == "s:restart=.4:steps=20"
    assert found.others == ""


@pytest.mark.parametrize(
    "values",
    [
        {"restart": [".1", ".2"]},
        {"restart": [".1", ".2"], "steps": ["5"]},
        {"restart": [".1", ".2"], "ppr": ["power", "push"]},
        {"gate": ["none", "all"], "ppr": ["power", "push"]},
    ],
)
def test_there_is_no_map_without_two_parameters_with_several_numbers(
    ranged: Ranged, values: dict[str, list[str]]
) -> None:
    run, timings = ranged(**values)
    assert _one(run).heat_maps() == []
    with drawing():
        assert not [name for name in report_figures(run, timings) if name.startswith("heat_map")]


def test_further_parameters_make_a_map_for_each_of_their_values(ranged: Ranged) -> None:
    run, timings = ranged(ppr=["power", "push"], restart=[".1", ".2"], steps=["5", "9"], eps=[".1"])
    maps = _one(run).heat_maps()
    assert [found.others for found in maps] == ["ppr=power, eps=.1", "ppr=push, eps=.1"]
    assert maps[1].labels[".1", "9"] == "s:ppr=push:restart=.1:steps=9:eps=.1"
    with drawing():
        names = [name for name in report_figures(run, timings) if name.startswith("heat_map")]
        limits = [_drawn(run, number).axes[0].images[0].get_clim() for number in (0, 1)]
    assert names == ["heat_map_1.png", "heat_map_1_2.png"]
    assert limits[0] == limits[1], "maps of one range have one scale"


def test_every_cell_has_its_number_and_the_best_one_is_framed(ranged: Ranged) -> None:
    run, _ = ranged(restart=[".1", ".2", ".3"], steps=["5", "9"])
    run["results"]["s:restart=.2:steps=9"]["recall@5"] = None
    run["results"]["s:restart=.1:steps=9"]["recall@5"] = 1.0
    with drawing():
        panels = {axes.get_title(loc="left"): axes for axes in _drawn(run).axes}
        assert [name for name in panels if name] == list(RANGE_METRICS)
        axes = panels["recall@5"]
        texts = {text.get_position(): text.get_text() for text in axes.texts}
        frames = [(patch.get_x(), patch.get_y()) for patch in axes.patches if isinstance(patch, Rectangle)]
        ticks = [
            [text.get_text().strip("\u200b") for text in axis.get_ticklabels()] for axis in (axes.xaxis, axes.yaxis)
        ]
    assert ticks == [["5", "9"], [".1", ".2", ".3"]]
    assert texts == {
        (0, 0): ".200",
        (0, 1): ".433",
        (0, 2): ".667",
        (1, 0): "1.00",
        (1, 1): "–",
        (1, 2): ".783",
    }
    assert frames == [(1 - 0.46, 0 - 0.44)]


def test_numbers_stand_out_from_their_colour(ranged: Ranged) -> None:
    run, _ = ranged(restart=[str(n / 20) for n in range(1, 11)], steps=[str(n) for n in range(10)])
    with drawing():
        axes = _drawn(run).axes[1]
        (image,) = axes.images
        array = image.get_array()
        assert array is not None
        for text in axes.texts:
            x, y = (int(place) for place in text.get_position())
            below = _lightness(image.cmap(image.norm(array[y, x]))[:3])  # type: ignore[arg-type]
            ink = _lightness((1, 1, 1) if text.get_color() == "white" else (0, 0, 0))
            contrast = (max(below, ink) + 0.05) / (min(below, ink) + 0.05)
            assert contrast >= 4.5, f"{text.get_text()}: {contrast:.1f} is below WCAG's 4.5"


def _lightness(colour: Sequence[float]) -> float:
    """Relative luminance, as WCAG 2.2 defines it."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(
    "values",
    [
        {"restart": [".1", ".2"], "steps": ["5", "9"]},
        {"restart": [str(n) for n in range(20)], "steps": ["5", "9"]},
        {"restart": [str(n / 20) for n in range(1, 11)], "steps": [str(n) for n in range(10)]},
        {"rather_long_name_of_a_parameter": ["1e-123456789", "1"], "another_rather_long_name_of_one": ["1", "2"]},
        {"restart": [".1", ".2"], "steps": ["5", "9"], "gate": ["W" * 60, "$x$"]},
    ],
    ids=["small", "tall", "square", "long", "words"],
)
def test_no_text_of_a_map_lies_on_another_or_leaves_the_figure(
    ranged: Ranged, no_text_overlaps: Callable[[str, Figure], None], values: dict[str, list[str]]
) -> None:
    run, _ = ranged(**values)
    with drawing():
        no_text_overlaps("heat_map_1.png", _drawn(run))
        best = best_plot(run, _one(run))
        assert best is not None
        no_text_overlaps("range_1_best.png", best)


def test_the_caption_says_where_the_highest_and_lowest_values_are(ranged: Ranged) -> None:
    run, _ = ranged(gate=["none"], restart=[".1", ".2"], steps=["5", "9"])
    one = _one(run)
    (found,) = one.heat_maps()
    assert heat_map_caption(run, one, found) == (
        "s:RANGE with gate=none: means over restart (across) and steps (down), one map per metric. "
        "Highest recall@5: 0.725 at restart=.2, steps=9; lowest: 0.200 at restart=.1, steps=5."
    )
    for result in run["results"].values():
        result["recall@5"] = 0.5
    assert heat_map_caption(run, one, found).endswith("one map per metric. recall@5 is 0.500 everywhere.")
    with drawing():
        axes = _drawn(run).axes[1]
        assert {text.get_text() for text in axes.texts} == {".500"}
        assert not axes.patches, "where all are equal, none is the best"


def test_the_page_shows_maps_and_best_values_with_what_they_say(ranged: Ranged) -> None:
    run, timings = ranged(restart=[".1", ".2"], steps=["5", "9"], seeds=[str(n) for n in range(MAPS_DRAWN + 2)])
    maps = _one(run).heat_maps()
    assert len(maps) == MAPS_DRAWN + 2
    files = {f"heat_map_1_{n + 1}.png" if n else "heat_map_1.png": b"\x89PNG" for n in range(MAPS_DRAWN)}
    page = BeautifulSoup(report_page(run, timings, {**files, "range_1_best.png": b"\x89PNG"}), "html.parser")
    alts = [image["alt"] for image in page.select("#ranges img")]
    assert alts == [
        *(heat_map_caption(run, _one(run), found) for found in maps[:MAPS_DRAWN]),
        "s:RANGE: the best mean of each value over all values of the other parameters.",
    ]
    said = [text.get_text() for text in page.select("#ranges > p")]
    assert said[-1] == "s:RANGE: 2 more maps are not drawn; their values are in the table."
    assert any("polyhop tune keeps questions back" in text for text in said)


def test_the_best_value_is_taken_over_all_values_of_the_other_parameters(ranged: Ranged) -> None:
    run, _ = ranged(weighting=["rank", "raw"], seeds=["3", "5", "10"])
    run["results"]["s:weighting=rank:seeds=5"]["mrr"] = 0.99
    run["results"]["s:weighting=raw:seeds=3"]["mrr"] = None
    one = _one(run)
    assert best_values(run, one, "weighting", "mrr")["rank"] == 0.99
    assert best_values(run, one, "seeds", "mrr") == pytest.approx({"3": 0.2, "5": 0.99, "10": 0.2 + 0.7 * 5 / 6})
    with drawing():
        drawn = best_plot(run, one)
        assert drawn is not None
        words, numbers = drawn.axes
        lines = [[line.get_linestyle() for line in axes.get_lines()] for axes in (words, numbers)]
    assert set(lines[0]) == {"None"}, "words have nothing between them"
    assert "None" not in lines[1]


def test_a_parameter_with_words_is_drawn_as_points_that_are_not_joined(ranged: Ranged) -> None:
    run, _ = ranged(weighting=["rank", "raw", "softmax"])
    with drawing():
        drawn = range_plot(run, _one(run))
        assert drawn is not None
        axes = drawn.axes[1]
        curve = axes.get_lines()[0]
        labels = [text.get_text().strip("\u200b") for text in axes.get_xticklabels()]
        assert (curve.get_linestyle(), list(curve.get_xdata())) == ("None", [0, 1, 2])  # type: ignore[arg-type]
        assert not [found for found in axes.collections if isinstance(found, PolyCollection)], "no band between words"
    assert labels == ["rank", "raw", "softmax"]
    assert best_plot(run, _one(run)) is None
