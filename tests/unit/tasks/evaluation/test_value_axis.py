"""Where a parameter's values stand on an axis, and which of them have room for a label."""

import pytest
from matplotlib.figure import Figure

from polyhop.tasks.evaluation.value_axis import places_of, value_ticks


@pytest.mark.parametrize(
    ("values", "places"),
    [
        (["0.5", "2", "1"], {"0.5": 0.5, "2": 2.0, "1": 1.0}),
        (["power", "push", "power"], {"power": 0, "push": 1}),
        (["1", "none"], {"1": 0, "none": 1}),
        ([], {}),
    ],
)
def test_numbers_stand_where_they_are_and_words_beside_each_other(values: list[str], places: dict[str, float]) -> None:
    assert places_of(values) == places


def test_every_value_has_a_tick_where_there_is_room_and_some_where_there_is_none() -> None:
    for count, shown in ((3, 3), (200, 10)):
        axes = Figure().subplots()
        value_ticks(axes, {str(number): float(number) for number in range(count)}, 1)
        labels = [tick.get_text() for tick in axes.get_xticklabels()]
        assert labels[0].strip("\u200b") == "0"  # drawing.py marks lines so
        assert 3 <= len(labels) <= max(shown, 12)
        low, high = axes.get_xlim()
        assert low < 0 < count - 1 < high


def test_a_long_word_is_cut_after_three_lines() -> None:
    axes = Figure().subplots()
    value_ticks(axes, {"a " * 200: 0.0, "b": 1.0}, 2)
    label = axes.get_xticklabels()[0].get_text()
    assert len(label.split("\n")) == 3
    assert "…" in label
