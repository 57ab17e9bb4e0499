"""Packing passages for a reader: order, budget, prefixes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.errors import UnknownIdError
from polyhop.schemas.query import ContextPassage, RankedPassage
from polyhop.worker.reading.models import pack_context

RANKED = [RankedPassage("b", 1, 0.9), RankedPassage("a", 2, 0.5), RankedPassage("c", 3, 0.1)]
STORED = [
    ("a", "Second", "One two three. Four five six."),
    ("b", "First", "Seven eight nine."),
    ("c", "Third", "Ten."),
]


def test_passages_keep_their_ranked_order_and_limit() -> None:
    assert pack_context(RANKED, STORED, limit=2) == [
        ContextPassage("b", "First", "Seven eight nine.", 1, 0.9),
        ContextPassage("a", "Second", "One two three. Four five six.", 2, 0.5),
    ]
    assert pack_context(RANKED, STORED, limit=0) == []


def test_the_last_passage_is_cut_behind_a_whole_sentence() -> None:
    packed = pack_context(RANKED, STORED, limit=3, budget_words=10)
    assert [passage.text for passage in packed] == ["Seven eight nine.", "One two three."]


def test_a_passage_whose_first_sentence_does_not_fit_is_left_out() -> None:
    assert [passage.passage_id for passage in pack_context(RANKED, STORED, limit=3, budget_words=7)] == ["b"]


def test_only_the_very_first_passage_is_cut_within_a_sentence() -> None:
    assert [passage.text for passage in pack_context(RANKED, STORED, limit=3, budget_words=3)] == ["Seven eight"]
    assert pack_context(RANKED, STORED, limit=3, budget_words=1) == []


def test_a_passage_without_text_is_kept() -> None:
    ranked = [RankedPassage("empty", 1, 1.0)]
    assert pack_context(ranked, [("empty", "Title", "")], limit=1, budget_words=5)[0].text == ""


def test_a_passage_without_stored_text_is_named() -> None:
    with pytest.raises(UnknownIdError, match="'c'"):
        pack_context(RANKED, STORED[:2], limit=3)


@given(st.lists(st.text(alphabet="Ab. \n\t", max_size=40), max_size=5), st.integers(0, 30))
def test_texts_are_prefixes_within_the_budget(texts: list[str], budget: int) -> None:
    ranked = [RankedPassage(str(place), place + 1, 1.0) for place in range(len(texts))]
    stored = [(str(place), "A title", text) for place, text in enumerate(texts)]
    packed = pack_context(ranked, stored, limit=10, budget_words=budget)
    assert all(text.startswith(passage.text) for passage, text in zip(packed, texts, strict=False))
    titled = [passage for passage in packed if passage.text]
    assert sum(len(passage.text.split()) + 2 for passage in titled) <= budget
