"""What stands beside a span: words, nouns, verbs and wider names, as written out by hand."""

import pytest

from polyhop.worker.reading.clauses import Surroundings


def beside(text: str) -> Surroundings:
    """Of the span in brackets."""
    start, end = text.index("["), text.index("]") - 1
    return Surroundings(text.replace("[", "").replace("]", ""), start, end)


@pytest.mark.parametrize(
    ("text", "word", "noun"),
    [
        ("Born in [London].", "in", "in"),
        ("Born in the [Hague].", "in", "in"),
        ("The author of the [Iliad] lived.", "of", "author"),
        ("[London] is large.", "", ""),
        ("A TOWN, [London]", "", ""),
    ],
)
def test_the_word_and_the_noun_before_in_lower_case(text: str, word: str, noun: str) -> None:
    assert (beside(text).word_before, beside(text).noun_before) == (word, noun)


@pytest.mark.parametrize(
    ("text", "noun"),
    [
        ("[Ely] is a village.", "village"),
        ("[Ely], the city", "city"),
        ("[Ely] was city", "city"),
        ("[Ely].", ""),
        ("[Ely] Cathedral", ""),
    ],
)
def test_the_noun_after(text: str, noun: str) -> None:
    assert beside(text).noun_after == noun


@pytest.mark.parametrize(
    ("text", "verb"),
    [
        ("It was Commissioned by the [Duke].", "commissioned"),
        ("It was designed by the young architect [Wren].", "designed"),
        ("It was built by [Wren].", ""),
        ("It stands by [Wren].", ""),
    ],
)
def test_the_participle_of_a_passive(text: str, verb: str) -> None:
    assert beside(text).passive_verb == verb


@pytest.mark.parametrize(
    ("text", "is_wider"),
    [
        ("He died at Missolonghi in [Greece].", True),
        ("He died in Patras, in the [Morea].", True),
        ("He died in [Greece].", False),
        ("Missolonghi and [Greece].", False),
    ],
)
def test_a_name_that_another_lies_in_is_wider(text: str, is_wider: bool) -> None:
    assert beside(text).is_wider is is_wider


def test_the_words_of_a_span_are_those_that_begin_in_it() -> None:
    words = [(0, 1), (2, 4), (5, 8), (9, 10)]
    assert Surroundings("a bb ccc d", 2, 8).word_range(words) == (1, 2)
    assert Surroundings("a bb ccc d", 0, 1).word_range(words) == (0, 0)


def test_at_most_so_many_characters_before() -> None:
    found = beside("abcdef [x]")
    assert (found.last(3), found.last(99)) == ("ef ", "abcdef ")
