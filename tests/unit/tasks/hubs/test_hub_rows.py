"""The texts that questions are compared with: signatures without frequent predicates, and rows of all levels."""

import pytest

from polyhop.schemas.graph import NamedTriple
from polyhop.schemas.hubs import LEVELS
from polyhop.tasks.hubs.paths import signature_texts
from polyhop.tasks.hubs.stage import (
    DistinctTexts,
    RowCollector,
    distinct_lines,
    path_lines,
    path_request,
    value_texts,
)

LOOP = [NamedTriple("A", "Ada", "knows", "B", "Bob"), NamedTriple("B", "Bob", "knows", "A", "Ada")]


def test_a_predicate_of_more_than_30_percent_of_ten_signatures_is_left_out_unless_it_comes_last() -> None:
    signatures = [("hasPart", f"field{n}") for n in range(4)] + [(f"kind{n}",) for n in range(5)] + [("hasPart",)]
    texts = signature_texts(signatures)
    assert texts["hasPart", "field0"] == "field0"
    assert texts[("hasPart",)] == "has part"


@pytest.mark.parametrize(("with_part", "others"), [(3, 7), (4, 5)])
def test_a_predicate_stays_up_to_30_percent_and_among_fewer_than_ten_signatures(with_part: int, others: int) -> None:
    signatures = [("hasPart", f"field{n}") for n in range(with_part)] + [(f"kind{n}",) for n in range(others)]
    assert signature_texts(signatures)["hasPart", "field0"] == "has part field0"


def test_values_of_the_same_words_share_a_text() -> None:
    distinct = DistinctTexts()
    numbers = value_texts([("hasYear",), ("has_year",), ("hasYear",)], ["2024", "2024", ""], distinct)
    assert (numbers.tolist(), distinct.texts) == ([0, 0, 1], ["has year 2024", "has year"])


def test_a_label_that_comes_twice_in_a_path_is_one_row_of_it_and_one_text_of_all_paths() -> None:
    collector = RowCollector(("entity", "triple"))
    collector.add([7, 8], LOOP, "unused")
    collector.add([9], [NamedTriple("A", "Ada", "likes", "C", "")], "unused")
    rows = collector.rows()
    texts = collector.texts.texts
    shown = [
        (path, LEVELS[level], texts[text], triple)
        for path, level, text, triple in zip(
            rows.row_paths.tolist(), rows.row_levels.tolist(), rows.row_texts.tolist(), rows.row_triples.tolist(),
            strict=True,
        )
    ]  # fmt: skip
    assert shown == [
        (0, "triple", "(Ada, knows, Bob)", 7),
        (0, "triple", "(Bob, knows, Ada)", 8),
        (0, "entity", "Ada", -1),
        (0, "entity", "knows", -1),
        (0, "entity", "Bob", -1),
        (1, "triple", "(Ada, likes, C)", 9),
        (1, "entity", "Ada", -1),
        (1, "entity", "likes", -1),
        (1, "entity", "C", -1),
    ]
    assert len(texts) == len(set(texts)) == 8


def test_two_triples_of_a_path_with_the_same_words_are_one_row() -> None:
    collector = RowCollector(("triple",))
    collector.add(
        [3, 5], [NamedTriple("A", "Ada", "is", "B", "Ada"), NamedTriple("B", "Ada", "is", "C", "Ada")], "unused"
    )
    assert collector.rows().row_triples.tolist() == [3]


def test_a_model_is_shown_labels_and_no_ids() -> None:
    lines = path_lines(LOOP)
    assert lines == '["Ada", "knows", "Bob"]\n["Bob", "knows", "Ada"]'
    assert lines in path_request(lines, "hash").text
    assert distinct_lines([LOOP, LOOP[:1], LOOP]) == {lines: 0, '["Ada", "knows", "Bob"]': 1}
