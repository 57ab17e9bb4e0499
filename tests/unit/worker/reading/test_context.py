"""A model's context within a budget of tokens: order, whole sentences, prefixes."""

from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.query import ContextPassage
from polyhop.worker.reading.models import estimate_tokens, within_tokens

# a heading takes 8 tokens and those of its title, a text one for three bytes
CONTEXT = [
    ContextPassage("b", "First", "Seven eight nine.", 1, 0.9),
    ContextPassage("a", "Second", "One two three. Four five six.", 2, 0.5),
    ContextPassage("c", "Third", "Ten.", 3, 0.1),
]


def test_passages_that_fit_are_read_in_their_order() -> None:
    assert within_tokens(CONTEXT, 100) == CONTEXT
    assert within_tokens(CONTEXT, 0) == []


def test_the_last_passage_is_cut_after_a_whole_sentence() -> None:
    packed = within_tokens(CONTEXT, 32)
    assert [passage.text for passage in packed] == ["Seven eight nine.", "One two three."]


def test_a_passage_whose_first_sentence_does_not_fit_is_left_out() -> None:
    assert [passage.passage_id for passage in within_tokens(CONTEXT, 28)] == ["b"]


def test_only_the_very_first_passage_is_cut_within_a_sentence() -> None:
    assert [passage.text for passage in within_tokens(CONTEXT, 13)] == ["Seven eig"]
    assert within_tokens(CONTEXT, 10) == []


def test_a_passage_without_text_is_kept() -> None:
    empty = [ContextPassage("empty", "Title", "", 1, 1.0)]
    assert within_tokens(empty, 20) == empty


@given(st.lists(st.text(alphabet="Ab. \n\t", max_size=40), max_size=5), st.integers(0, 120))
def test_texts_are_prefixes_within_the_budget(texts: list[str], budget: int) -> None:
    context = [ContextPassage(str(n), "A title", text, n + 1, 1.0) for n, text in enumerate(texts)]
    packed = within_tokens(context, budget)
    assert all(text.startswith(passage.text) for passage, text in zip(packed, texts, strict=False))
    assert sum(estimate_tokens(passage.text) + estimate_tokens("A title") + 8 for passage in packed) <= budget
