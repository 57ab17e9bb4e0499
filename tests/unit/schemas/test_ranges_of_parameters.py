"""Lists and ranges of values in `polyhop eval --strategies`: how commas are read, what a label stands for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.requests import MAX_COMBINATIONS, expand_labels, labels_in, parse_range, parse_variant

KNOWN = ("bridge", "qasa", "proprag", "bm25")


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("bridge, bm25 ,,", ["bridge", "bm25"]),
        ("qasa:decay=.3,.5,.7,bridge", ["qasa:decay=.3,.5,.7", "bridge"]),
        ("bridge,proprag:beam_width=1..6", ["bridge", "proprag:beam_width=1..6"]),
        ("qasa:decay=.3,.5:steps=1,2,all", ["qasa:decay=.3,.5:steps=1,2", "all"]),
        ("qasa:gate=none,soft,qasa:steps=1..2", ["qasa:gate=none,soft", "qasa:steps=1..2"]),
        ("qasa:gate=none , bridge:restart=.2", ["qasa:gate=none", "bridge:restart=.2"]),
        ("bridge,unknown,.5", ["bridge", "unknown", ".5"]),
        ("all,unknown", ["all", "unknown"]),
        (",", []),
    ],
)
def test_a_part_that_begins_no_strategy_is_a_value_of_the_parameter_before_it(text: str, labels: list[str]) -> None:
    assert labels_in(text, KNOWN) == labels


def test_a_range_stands_for_whole_numbers_with_both_ends_as_if_each_had_been_written() -> None:
    one = parse_range("proprag: beam_width = 1..3")
    assert (one.label, one.parameters) == ("proprag: beam_width = 1..3", ("beam_width",))
    assert dict(one.points) == {f"proprag:beam_width={n}": (str(n),) for n in (1, 2, 3)}
    assert parse_variant("proprag:beam_width=2", {}).parameters == {"beam_width": "2"}
    assert list(parse_range("a:x=-1..1").points) == ["a:x=-1", "a:x=0", "a:x=1"]
    assert list(parse_range("a:x=1..1").points) == ["a:x=1"]
    assert list(parse_range("a:x=1..3,6,.5,3").points) == ["a:x=1", "a:x=2", "a:x=3", "a:x=6", "a:x=.5"]


def test_several_ranges_are_all_combinations_and_other_parameters_stay_as_they_are() -> None:
    one = parse_range("qasa:decay=.3,.5:gate=none:steps=1..2")
    assert one.parameters == ("decay", "steps")
    assert dict(one.points) == {
        "qasa:decay=.3:gate=none:steps=1": (".3", "1"),
        "qasa:decay=.3:gate=none:steps=2": (".3", "2"),
        "qasa:decay=.5:gate=none:steps=1": (".5", "1"),
        "qasa:decay=.5:gate=none:steps=2": (".5", "2"),
    }


@pytest.mark.parametrize("label", ["bridge", "qasa: steps = 1", "a:path=../x", "a:x="])
def test_a_label_with_one_value_each_stands_for_itself(label: str) -> None:
    one = parse_range(label)
    assert (one.parameters, dict(one.points)) == ((), {label: ()})


def test_labels_come_once_where_they_come_first() -> None:
    labels = ["qasa:steps=2", "qasa:steps=1..3", "all"]
    assert expand_labels(labels, KNOWN) == ["qasa:steps=2", "qasa:steps=1", "qasa:steps=3", *KNOWN]


@pytest.mark.parametrize(
    ("label", "sentence"),
    [
        ("a:x=6..1", "'6..1' in 'a:x=6..1' is empty; the smaller number comes first: 1..6."),
        ("a:x=.1...5", "'.1...5' in 'a:x=.1...5' is not a range: FIRST..LAST takes whole numbers"),
        ("a:x=1..", "is not a range"),
        ("a:x=v1..2", "is not a range"),
        ("a:x=1..9999999999", "is not a range"),
        ("a:x=1..1000000000", "is not a range"),
        ("a:x=1..101", "stands for 101 variants, at most 100 are possible"),
        ("a:x=1..999999999", "stands for 999,999,999 variants"),
        ("a:x=1..11:y=1..10", "stands for 110 variants"),
        (
            "a:x=.3,bridg",
            "'bridg' in 'a:x=.3,bridg' is neither a strategy nor a number like the values of 'x' before it.",
        ),
        ("a:x=.3,y=2", "'y=2' in 'a:x=.3,y=2' is neither a strategy nor a value of 'x'; parameters of one strategy"),
        ("a:x=1:x=2", "gives 'x' twice; list its values: x=1,2."),
        ("a:x", "not 'a:x'"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_sentence(label: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_range(label)
    assert sentence in str(refused.value)


def test_as_many_variants_as_allowed_are_read() -> None:
    assert len(parse_range(f"a:x=1..{MAX_COMBINATIONS}").points) == MAX_COMBINATIONS
    assert len(parse_range("a:x=1..10:y=1..10").points) == MAX_COMBINATIONS


VALUE = st.integers(-50, 50).map(str) | st.floats(0, 1, allow_nan=False).map(str)
LABEL = st.builds(
    lambda name, values: f"{name}:x={','.join(values)}", st.sampled_from(KNOWN), st.lists(VALUE, min_size=1, max_size=4)
) | st.sampled_from((*KNOWN, "all"))


@given(st.lists(LABEL, max_size=5))
def test_labels_joined_by_commas_are_read_as_they_were(labels: list[str]) -> None:
    assert labels_in(",".join(labels), KNOWN) == labels
